//! `trainc report`.

use crate::args::{Global, problems};
use crate::commands::plan::document;
use crate::commands::probe::describe_plan_again;
use crate::exit;
use crate::jobs::job_context::{Form, JobArgs, JobContext, existing, run_for_each_job};
use crate::terminal::io::Io;
use crate::terminal::progress::{Mode, Progress, READING};
use crate::views::invalid_rows::InvalidRows;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trainc_apply::account::{LogEvent, TrainingJob};
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::logs::Tail;
use trainc_apply::look::Look;
use trainc_apply::status::{describe_early_end, early_end};
use trainc_apply::verdict;
use trainc_calibrate::measure::{self, Addition, Job, Measured, Reader};
use trainc_calibrate::probe::Probe;
use trainc_calibrate::{self as calibrate, MEMORY_CELLS, RowMismatch};
use trainc_diag::{Format, Invocation, NextCommand};
use trainc_emit::quote;
use trainc_ir::Plan;
use trainc_ops::accounts::Task;
use trainc_ops::still_billed::still_billed;
use trainc_predict::{Constants, Layout, Speed};
use trainc_project::files::open_named;
use trainc_project::manifests::{Manifest, compile_all};
use trainc_project::runs_file::{append_to_table, runs_file};
use trainc_report::json::Document;
use trainc_report::measured::{self, Subject};

/// Compare a finished run with its prediction
///
/// Reads the logs and the description of the training job from the account, or a local log with `--log`:
/// `metrics.jsonl` of the worker, the output of `trainc run -o json` or `trainc logs`, or any text that the
/// job's metric definitions match. Without `--log` the log of a job on this machine is searched in
/// `runs/JOB`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc report job.kdl\n  trainc report job.kdl --log train.log --csv \
        my-runs.csv\n  trainc calibrate my-runs.csv")]
pub(crate) struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Read this local log instead of the account; may be repeated
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// Steps to skip at the start [default: the first five log lines with measurements, but at most a third
    /// of them]
    #[arg(long, value_name = "STEPS")]
    warm_up: Option<u64>,
    /// Add the run to this table; created if missing. Without FILE it is `.trainc/runs.csv` at the
    /// repository's root, by which `plan`, `check`, `tune` and `watch` then predict similar jobs
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "", value_parser = table)]
    csv: Option<Table>,
    /// Output format: human, json or markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json", "markdown"])]
    output: String,
}

/// Table that a run is added to.
#[derive(Clone, Debug)]
enum Table {
    /// That of the repository.
    OfRepository,
    /// This file.
    File(PathBuf),
}

#[expect(clippy::unnecessary_wraps, reason = "the form of a parser of a flag")]
fn table(written: &str) -> Result<Table, String> {
    Ok(if written.is_empty() { Table::OfRepository } else { Table::File(PathBuf::from(written)) })
}

/// Maximum size of a log in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.job.named.paths("report") {
        Ok(paths) => paths,
        Err(words) => {
            io.note(&words);
            return exit::USAGE;
        }
    };
    let csv = args.csv.as_ref().map(|table| match table {
        Table::OfRepository => runs_file(&paths),
        Table::File(path) => path.clone(),
    });
    // A run is compared with a prediction that does not know it.
    if args.job.overlay.runs.is_some()
        && let Err(why) = args.job.overlay.read_runs(io, &paths)
    {
        io.note(&why);
        return exit::USAGE;
    }
    let set = compile_all(&paths, &args.job.overlay.options(io, false));
    let here = match set.manifests.as_slice() {
        [one] => find_logs(args, one),
        _ if args.logs.is_empty() => Vec::new(),
        _ => {
            io.note("error: `--log` requires a single manifest\n");
            return exit::USAGE;
        }
    };
    if let ([one], true) = (set.manifests.as_slice(), here.is_empty())
        && let Some(words) = describe_missing_log(args, one)
    {
        io.note(&format!("error: {words}\n"));
        return exit::USAGE;
    }
    if here.is_empty() {
        let shared = Shared {
            output: args.output.clone(),
            warm_up: args.warm_up,
            csv: csv.clone(),
            constants: args.job.overlay.constants().clone(),
        };
        return run_for_each_job(io, global, &args.job, "report", &Form::Words, |about| Online {
            about,
            shared: shared.clone(),
        });
    }
    let Some((manifest, plan)) =
        set.manifests.first().and_then(|one| Some((one, one.compiled.plan_without_errors()?)))
    else {
        let text = problems(&set, Format::Human, io, io.color, global);
        io.note_colored(&text);
        return exit::MANIFEST;
    };
    let mut reader = reader(plan);
    let mut probe = Probe::default();
    for path in &here {
        match read(path) {
            Ok(text) => {
                reader.read_file_text(&text);
                text.lines().for_each(|line| {
                    probe.read_line(line);
                });
            }
            Err(why) => {
                io.note(&format!("error: `{}` cannot be read: {why}\n", path.display()));
                return exit::USAGE;
            }
        }
    }
    let shared = Shared {
        output: args.output.clone(),
        warm_up: args.warm_up,
        csv,
        constants: args.job.overlay.constants().clone(),
    };
    let named = |path: &PathBuf| match path.display().to_string() {
        name if name == "-" => "<stdin>".to_owned(),
        name => name,
    };
    let names: Vec<String> = here.iter().map(named).collect();
    let found = InvalidRows::from_logs(reader.faults(), &names);
    io.note_colored(&found.format_first(io, global));
    shared.print_report(io, manifest, plan, (&reader, &found, &probe), None)
}

/// Returns the logs of `--log`, or that of the job's last run on this machine.
fn find_logs(args: &Args, manifest: &Manifest) -> Vec<PathBuf> {
    if !args.logs.is_empty() || args.job.account.simulate.is_some() {
        return args.logs.clone();
    }
    let plan = manifest.compiled.other_cluster_plan();
    let Some(job) = plan.and_then(|plan| plan.job.name.value()) else {
        return Vec::new();
    };
    let found = Path::new("runs").join(job).join("output/metrics.jsonl");
    if found.is_file() { vec![found] } else { Vec::new() }
}

/// Returns the error for a local job without a log.
fn describe_missing_log(args: &Args, manifest: &Manifest) -> Option<String> {
    let plan = manifest.compiled.other_cluster_plan()?;
    manifest.compiled.plan_without_errors()?;
    if args.job.account.simulate.is_some() {
        return None;
    }
    let job = plan.job.name.value()?;
    let is_local = plan.job.cluster.as_ref()?.instance.value().is_some_and(|name| name == "local");
    Some(if is_local {
        let invocation = Invocation::new(quote(manifest.shown_argument()), args.job.overlay.flags());
        let run = invocation.command_line(&NextCommand::new("run"));
        format!(
            "no log of `{job}` found: `{run}` writes `runs/{job}/output/metrics.jsonl`; pass \
                another with `--log FILE`"
        )
    } else {
        format!("`{job}` does not run on SageMaker: pass the log of a run with `--log FILE`")
    })
}

fn read(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let done = open_named(path).and_then(|log| log.take(MOST_BYTES).read_to_end(&mut bytes));
    done.map_err(|error| trainc_project::files::describe(&error))?;
    // Progress bars may write invalid UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn reader(plan: &Plan) -> Reader {
    let metrics = plan.job.program.iter().flat_map(|program| &program.metrics);
    let pairs: Vec<(&str, &str)> =
        metrics.filter_map(|metric| Some((metric.name.as_str(), metric.regex.value()?.as_str()))).collect();
    Reader::new(pairs, plan.mesh.as_ref().map_or(1, |mesh| mesh.world_size))
}

/// Reports on a run from the account or a local log.
#[derive(Clone)]
struct Shared {
    output: String,
    warm_up: Option<u64>,
    csv: Option<PathBuf>,
    constants: Constants,
}

impl Shared {
    fn print_report(
        &self,
        io: &mut Io,
        manifest: &Manifest,
        plan: &Plan,
        (reader, wrong, probe): (&Reader, &InvalidRows, &Probe),
        online: Option<(&TrainingJob, &Document)>,
    ) -> u8 {
        // Of several preferred types, the run is compared with the plan for the one that SageMaker chose.
        let chosen = online.and_then(|(job, _)| job.chosen_type());
        let first = plan;
        let plan = chosen.and_then(|kind| manifest.compiled.plan_of_type(kind)).unwrap_or(plan);
        let measured = Measured::from_reports(plan, &reader.reports, self.warm_up, reader.out_of_memory);
        let run = online.map(|(job, _)| Job::from_training_job(job, &measured));
        let constants = &self.constants;
        let prediction = trainc_predict::of_plan(plan, constants);
        let rows = measure::rows(plan, &prediction, constants, &measured, run.as_ref());
        let name = plan.job.name.value().map_or("", String::as_str);
        let mut notes = Vec::new();
        notes.extend(chosen.map(|kind| format!("the run is on {kind}, which SageMaker chose")));
        let why = [&prediction.no_speed, &prediction.no_run].into_iter().flatten().next();
        notes.extend(why.map(|why| format!("no prediction: {}", why.0)));
        let today = io.today_in_days().filter(|_| self.output == "human");
        notes.extend(describe_probe(plan, constants, probe, today));
        let left_out: usize = reader.faults().iter().map(|fault| fault.lines).sum();
        if left_out > 0 {
            let lines = trainc_diag::text::count(left_out as u64, "line");
            let is = if left_out == 1 { "is" } else { "are" };
            notes.push(format!("{lines} of the log {is} ignored: impossible values (T0528)"));
            // People were shown each at its line.
            if self.output != "human" {
                notes.extend(wrong.lines());
            }
        }
        let step = measured.step_seconds.map(|median| median.value);
        notes.extend(
            prediction
                .speed
                .as_ref()
                .zip(step)
                .and_then(|(speed, step)| note_faster_than_peak(plan, speed, step)),
        );
        if measured.out_of_memory && measured.step_seconds.is_some() {
            notes.push(
                "a GPU ran out of memory: the measurements are of the steps before, and the row \
                    for `calibrate` records that it did not fit"
                    .to_owned(),
            );
        }
        let kind = measured.memory.filter(|_| prediction.memory.is_some()).map(|(_, kind)| kind);
        notes.extend(kind.and_then(measure::describe_uncounted_memory).map(str::to_owned));
        if measured.has_no_figures() && left_out == 0 {
            notes.push(format!(
                "no measurements found in the log: {}; print `step=12 tokens_per_s=4096`, or \
                    define a `metric` for the program",
                reader.describe_sought_names()
            ));
        }
        if let Some(run) = run.as_ref().filter(|run| !run.is_completed()) {
            notes
                .push(format!("the job is {}: its time and cost are those of an incomplete run", run.status));
        }
        let last = measured.steps.map(|(_, last)| last as f64);
        if let Some(short) = last
            .filter(|_| run.as_ref().is_some_and(Job::is_completed))
            .and_then(|last| early_end(plan, last))
        {
            notes.push(describe_early_end(short));
        }
        let mut code = exit::DONE;
        // The account has the times of the job, even without a log.
        if run.is_none() && measured.has_no_figures() && rows.iter().all(|row| row.measured.is_none()) {
            let why = if left_out > 0 {
                "the values in its log are impossible"
            } else {
                "no figure was found in its log"
            };
            io.note(&format!("error: no measurements of the run: {why}\n"));
            code = exit::USAGE;
        }
        if let Some(path) = &self.csv {
            let id = run.as_ref().map_or_else(|| run_name(plan), |run| run.name.clone());
            let finished = measure::finished_cells(plan, run.as_ref(), &id, &io.today);
            let own = Own { finished, is_named: run.is_some(), path };
            match add_table_row(io, (plan, constants), &measured, &id, own) {
                Ok(words) => notes.push(words),
                Err(words) => {
                    io.note(&format!("error: {words}\n"));
                    code = exit::USAGE;
                }
            }
        }
        let subject = Subject {
            job: name,
            path: &manifest.path,
            measured: &measured,
            run: run.as_ref(),
            rows: &rows,
            planned: online.map(|(_, document)| (first, document)),
            notes,
        };
        match self.output.as_str() {
            "json" => {
                let text = serde_json::to_string_pretty(&measured::document(&subject)).unwrap_or_default();
                io.print_json(&format!("{text}\n"));
            }
            "markdown" => io.print_unwrapped(&measured::markdown(&subject)),
            _ => {
                let options = io.report_options(io.width);
                io.print_colored(&measured::human(&subject, options));
            }
        }
        code
    }
}

/// Returns notes on the output of a probe: the plan by its rates, and slow nodes.
fn describe_probe(plan: &Plan, constants: &Constants, probe: &Probe, today: Option<i64>) -> Vec<String> {
    let again =
        probe.constants(constants).map(|measured| describe_plan_again(plan, constants, &measured, today));
    let mut out: Vec<String> = again
        .filter(|words| !words.is_empty())
        .map(|words| format!("probe: {}", words.trim_end()))
        .into_iter()
        .collect();
    if !probe.slow_nodes.is_empty() {
        let names: Vec<&str> = probe.slow_nodes.iter().map(String::as_str).collect();
        out.push(format!("probe: slower than the other nodes: {}", names.join(", ")));
    }
    out
}

/// Returns a note if a step is faster than the peak of the GPUs, with a likely reason.
fn note_faster_than_peak(plan: &Plan, speed: &Speed, step_seconds: f64) -> Option<String> {
    let share = speed.mfu * speed.step_seconds / step_seconds;
    let passes = plan.batch.as_ref().map_or(1, |batch| batch.num_micro_batches * batch.accumulation.value);
    let perhaps = match passes {
        0 | 1 => String::new(),
        _ => format!(": perhaps a step in the log is one of the {passes} micro-batches of a step"),
    };
    (share > 1.0).then(|| {
        format!(
            "a step of {} s would be {} % of the peak of the GPUs{perhaps}",
            trainc_diag::text::short_number(step_seconds),
            trainc_diag::text::short_number(100.0 * share)
        )
    })
}

/// Returns a name for a run outside SageMaker, from the job and its configuration.
fn run_name(plan: &Plan) -> String {
    trainc_emit::identity(plan).training_job
}

/// Table that a run is added to, and what is known of the run apart from its steps.
struct Own<'a> {
    /// Cells of a run that finished.
    finished: Option<BTreeMap<&'static str, String>>,
    /// True if the service named the run.
    is_named: bool,
    path: &'a Path,
}

/// Adds a run to a table under its name; returns a message.
fn add_table_row(
    io: &Io,
    (plan, constants): (&Plan, &Constants),
    measured: &Measured,
    id: &str,
    own: Own,
) -> Result<String, String> {
    let Own { finished, is_named, path } = own;
    let has_steps = measured.step_seconds.is_some() || measured.memory.is_some() || measured.out_of_memory;
    if !has_steps && finished.is_none() {
        return Err("nothing was measured that a table of runs could take".to_owned());
    }
    let cells = measure::table_cells(plan, measured, id, &io.today).filter(|_| has_steps);
    let (mut cells, is_predicted) = match (cells, finished) {
        (Some(mut cells), finished) => {
            cells.extend(
                finished.and_then(|all| all.get_key_value("billed_seconds").map(|(k, v)| (*k, v.clone()))),
            );
            (cells, true)
        }
        // A job without a model: how long it took, on which machines.
        (None, Some(finished)) => (finished, false),
        (None, None) => {
            return Err(
                "the layout is not known, so that the run cannot be compared with a prediction".to_owned()
            );
        }
    };
    let mut without = String::new();
    if is_predicted
        && let Ok(layout) = Layout::from_plan(plan)
        && let Err(mismatch) = calibrate::check_row_fidelity(&layout, &cells, constants)
    {
        let has_time = measured.step_seconds.is_some() && !measured.out_of_memory;
        match mismatch {
            RowMismatch::Memory(why) if has_time => {
                cells.retain(|column, _| !MEMORY_CELLS.contains(column));
                without = format!("; its peak memory is omitted: {why}");
            }
            // A row of another job would move constants that are fitted to it.
            RowMismatch::Row(why) | RowMismatch::Memory(why) => {
                return Err(format!("nothing is added to `{}`: {why}", path.display()));
            }
        }
    }
    let fault = |error: std::io::Error| {
        format!("`{}` cannot be written: {}", path.display(), trainc_project::files::describe(&error))
    };
    let added = append_to_table(path, |table| match measure::append(table, &cells, !is_named) {
        Ok(Addition::New { id, text }) => (Some(text), Ok((id, true))),
        Ok(Addition::There) => (None, Ok((id.to_owned(), false))),
        Err(why) => (None, Err(format!("nothing is added to `{}`: {why}", path.display()))),
    });
    let (id, is_new) = added.map_err(fault)??;
    if !is_new {
        return Ok(format!("`{}` has the run `{id}` already", path.display()));
    }
    let table = path.display();
    if !is_predicted {
        return Ok(format!("added to `{table}` as `{id}`: the next plan of this job takes its time from it"));
    }
    Ok(format!(
        "added to `{table}` as `{id}`: `trainc calibrate {table}` compares it with the model{without}"
    ))
}

/// A run that the account knows.
struct Online {
    about: JobContext,
    shared: Shared,
}

impl<'io> Task<Io<'io>> for Online {
    type Outcome = u8;
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, look: Look<'_, C, K>) -> u8 {
        let progress = Progress::new(Mode::from_flags(&self.shared.output, self.about.global.quiet));
        let found = match existing(io, &look, &self.about, &progress).await {
            Ok(found) => found,
            Err(code) => return code,
        };
        if found.is_other {
            io.note(&format!("note: {} was started from another version of the manifest\n", found.job.name));
            if self.shared.csv.is_some() {
                // A row would combine this layout with the step time of another one.
                io.note(
                    "error: the run used another version of the manifest: no row is added to the table\n",
                );
                return exit::DIFFERENT;
            }
        }
        if !found.is_ours && self.shared.csv.is_some() {
            io.note("error: the run does not belong to this job: no row is added to the table\n");
            return verdict::exit::FOREIGN;
        }
        let mut document = document(&self.about.manifest, &self.about.set);
        (document.after_end, _) = progress
            .run_with_spinner(
                READING,
                still_billed(&look, self.about.billed_after_end(found.is_other || !found.is_ours), &found),
            )
            .await;
        let mut reader = reader(&self.about.plan);
        let mut probe = Probe::default();
        let mut sink = |host: &str, event: &LogEvent| {
            probe.read_line(&event.text);
            reader.read_line(Some(host), Some(event.time as f64 / 1_000.0), &event.text);
        };
        let mut tail = Tail::new(None);
        let read = tail.read_available(&look, &found.job.name, &mut sink);
        if let Err(fault) = progress.run_with_spinner(READING, read).await {
            io.note(&format!("note: the logs cannot be read: {}\n", fault.message));
        }
        let wrong = InvalidRows::from_logs(reader.faults(), &[format!("<log of {}>", found.job.name)]);
        io.note_colored(&wrong.format_first(io, &self.about.global));
        self.shared.print_report(
            io,
            &self.about.manifest,
            &self.about.plan,
            (&reader, &wrong, &probe),
            Some((&found.job, &document)),
        )
    }
}
