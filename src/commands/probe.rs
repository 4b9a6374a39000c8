//! `trainc probe`: measures this machine as a job's probe measures its cluster.

use crate::args::{Global, Input, problems};
use crate::exit;
use crate::terminal::io::Io;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use trainc_calibrate::probe::Probe;
use trainc_diag::text;
use trainc_diag::{Format, NextCommand};
use trainc_ir::price::describe_origins;
use trainc_ir::{AddedFile, Field, Plan};
use trainc_predict::Constants;
use trainc_project::files::{describe, display_path};
use trainc_project::manifests::compile_all;

/// Measure this machine as the job's probe measures its cluster
///
/// Starts one process per rank with Python and PyTorch: with NCCL on GPUs, with gloo and reduced sizes on
/// CPUs, where processes are compared with each other only. To measure the job's own cluster before its
/// program starts, write `probe` in the manifest; the output in its log is the same.
#[derive(clap::Args, Debug)]
#[command(
    // No effect here.
    mut_arg("runs", |arg| arg.hide(true)),
    after_help = "Examples:\n  trainc probe job.kdl --ranks 4\n  trainc probe job.kdl --ranks 8 --python \
        .venv/bin/python --write measured.toml\n  trainc plan job.kdl --calibration measured.toml\n\nExit \
        codes: 0 success, 3 errors in the manifest, 8 slower than `minimum` of the plan, or a slow process."
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Number of processes on this machine, one rank each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    ranks: Option<u64>,
    /// Python with PyTorch
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: String,
    /// Write the measured constants here, for `--calibration` of other commands
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Output format: human, or json (the probe's lines)
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("probe") {
        Ok(paths) => paths,
        Err(usage) => {
            io.note(&usage);
            return exit::USAGE;
        }
    };
    let set = compile_all(&paths, &args.input.overlay.options(io, false));
    let code = args.input.exit_code(&set);
    let shown = problems(&set, Format::Human, io, io.color, global);
    let [manifest] = set.manifests.as_slice() else {
        io.note("error: `probe` takes one manifest\n");
        return exit::USAGE;
    };
    let Some(plan) = manifest.compiled.plan_without_errors().filter(|_| code == exit::DONE) else {
        io.note_colored(&shown);
        return exit::MANIFEST;
    };
    let Some(ranks) = args.ranks else {
        io.note(
            "error: say how many processes of this machine to measure, as `--ranks 4`\nhelp: to \
                measure the job's own cluster, write `probe` in the manifest and apply it: the log has the \
                output\n",
        );
        return exit::USAGE;
    };
    let constants = args.input.overlay.constants();
    let mut plan = plan.clone();
    let span = plan.job.span;
    plan.job.probe.get_or_insert(trainc_ir::Probe { span, minimum: Field::Absent });
    let expectation = trainc_predict::expectation(&plan, &manifest.compiled.prediction, constants);
    let planned = trainc_emit::planned_figures(&expectation);
    plan.expectation = Some(Box::new(expectation));
    let directory = std::env::temp_dir().join(format!("trainc-probe-{}", std::process::id()));
    let started = write_files(&plan, &directory)
        .and_then(|()| Processes::start(&args.python, &directory, ranks, &planned));
    let outcome = started.map(|processes| processes.follow(io, &args.output));
    let _ = fs::remove_dir_all(&directory);
    match outcome {
        Ok((code, text)) => finish(io, args, &plan, code, &text, constants),
        Err(why) => {
            io.note(&format!("error: {why}\n"));
            exit::USAGE
        }
    }
}

/// Writes the probe and its settings, with paths of this machine.
fn write_files(plan: &Plan, directory: &Path) -> Result<(), String> {
    let files = trainc_emit::probe_files(plan);
    if files.is_empty() {
        return Err("the layout of the job is unknown: there are no shapes to measure".to_owned());
    }
    let fault = |error: std::io::Error| {
        format!("`{}` cannot be written: {}", display_path(directory), describe(&error))
    };
    fs::create_dir_all(directory).map_err(fault)?;
    for file in files {
        let mut bytes = file.bytes.to_vec();
        if file.path == AddedFile::StartSettings.name() {
            let mut settings: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            if let Some(members) = settings.as_object_mut() {
                members.insert("checkpoint".to_owned(), json!(directory.to_string_lossy()));
            }
            bytes = settings.to_string().into_bytes();
        }
        fs::write(directory.join(&file.path), bytes).map_err(fault)?;
    }
    Ok(())
}

/// The processes of a probe on this machine.
struct Processes {
    children: Vec<Child>,
    lines: Receiver<String>,
}

impl Processes {
    /// Starts one process per rank. Each counts as a node, so that a slow one is named.
    fn start(python: &str, directory: &Path, ranks: u64, planned: &str) -> Result<Self, String> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.map_err(|error| format!("no free port: {error}"))?.port().to_string();
        let (sender, lines) = channel();
        let mut children = Vec::new();
        for rank in 0..ranks {
            let mut child = Command::new(python)
                .arg(directory.join(AddedFile::Probe.name()))
                .env("RANK", rank.to_string())
                .env("WORLD_SIZE", ranks.to_string())
                // GPUs are numbered by the rank; processes on CPUs are compared one by one.
                .env("LOCAL_RANK", "0")
                .env("LOCAL_WORLD_SIZE", "1")
                .env("TRAINC_DEVICE", rank.to_string())
                .env("TRAINC_HOST", format!("process-{rank}"))
                .env("MASTER_ADDR", "127.0.0.1")
                .env("MASTER_PORT", &port)
                .env(trainc_emit::PLAN_VARIABLE, planned)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| format!("`{python}` does not start: {error}"))?;
            if let Some(out) = child.stdout.take() {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    for line in BufReader::new(out).lines().map_while(Result::ok) {
                        if sender.send(line).is_err() {
                            break;
                        }
                    }
                });
            }
            children.push(child);
        }
        Ok(Self { children, lines })
    }

    /// Shows the lines as they come; returns the highest exit code and all lines.
    fn follow(mut self, io: &mut Io, output: &str) -> (i32, String) {
        let mut all = String::new();
        if output == "json" {
            io.print_json(&format!("{}\n", json!({"type": "version", "format": "1.0"})));
        }
        for line in &self.lines {
            if let Ok(Value::Object(mut members)) = serde_json::from_str::<Value>(&line) {
                if output == "json" {
                    members.insert("type".to_owned(), json!("probe"));
                    io.print_json(&format!("{}\n", Value::Object(members)));
                } else if let Some(words) = describe_line(&members) {
                    io.print(&format!("{words}\n"));
                }
            }
            all.push_str(&line);
            all.push('\n');
        }
        let codes = self
            .children
            .iter_mut()
            .map(|child| child.wait().ok().and_then(|status| status.code()).unwrap_or(1));
        (codes.max().unwrap_or(1), all)
    }
}

/// Describes a line of the probe; `None` for those that only machines read.
fn describe_line(members: &serde_json::Map<String, Value>) -> Option<String> {
    let word = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| members.get(name).and_then(Value::as_f64);
    let sizes = |name: &str| {
        let sizes = members.get(name).and_then(Value::as_array).into_iter().flatten();
        sizes.map(Value::to_string).collect::<Vec<_>>().join(" × ")
    };
    let seconds = || {
        number("seconds")
            .map_or_else(String::new, |seconds| format!("{} ms", text::short_number(1e3 * seconds)))
    };
    let rate = |name: &str, unit: &str| {
        number(name).map_or_else(String::new, |rate| format!("{} G{unit}/s", text::short_number(rate / 1e9)))
    };
    let skipped = word("skipped");
    let value = |value: String| if skipped.is_empty() { value } else { format!("skipped: {skipped}") };
    let row = |label: String, value: String| Some(format!("{label:<44} {value}"));
    match word("trainc_probe") {
        "begin" => row(
            format!("{} ranks, {}", number("ranks")?, word("device")),
            format!("PyTorch {}, {}, {}", word("torch"), word("backend"), word("dtype")),
        ),
        "product" => row(format!("product {}", sizes("measured")), rate("flop_per_second", "FLOP")),
        "attention" => {
            let label = format!("attention {} {}", word("kernel"), sizes("measured"));
            row(label.trim_end().to_owned(), value(rate("flop_per_second", "FLOP")))
        }
        "layer" => row(format!("layer, {}", word("kind")), value(seconds())),
        "memory" => row("memory".to_owned(), rate("bytes_per_second", "B")),
        "collective" => row(
            format!(
                "{} over {}",
                word("operation"),
                if word("axis").is_empty() { "all ranks" } else { word("axis") }
            ),
            value(rate("bytes_per_second", "B")),
        ),
        "efa" => row(
            format!("EFA devices of {}", word("host")),
            format!("{} found, {} used", number("found")?, number("used")?),
        ),
        "channel" => {
            row(format!("channel {} on {}", word("channel"), word("host")), rate("bytes_per_second", "B"))
        }
        "checkpoint" => row(format!("checkpoint on {}", word("host")), value(rate("bytes_per_second", "B"))),
        "node" if members.get("slow").and_then(Value::as_bool) == Some(true) => {
            row(word("host").to_owned(), "slower than the others".to_owned())
        }
        "ended" => Some(word("text").to_owned()),
        "error" => Some(format!("error on {}: {}", word("host"), word("why"))),
        _ => None,
    }
}

/// Shows the plan by the measured constants next to the first one.
fn finish(io: &mut Io, args: &Args, plan: &Plan, code: i32, output: &str, constants: &Constants) -> u8 {
    let Some(probe) = Probe::from_text(output).filter(|_| matches!(code, 0 | 8)) else {
        io.note(&format!(
            "error: the probe failed; does `{}` have PyTorch? Pass another with `--python`\n",
            args.python
        ));
        return exit::USAGE;
    };
    if let Some(measured) = probe.constants(constants) {
        if args.output != "json" {
            io.print(&describe_plan_again(plan, constants, &measured, io.today_in_days()));
        }
        if let Some(path) = &args.write {
            if let Err(error) = fs::write(path, measured.to_toml()) {
                io.note(&format!(
                    "error: `{}` cannot be written: {}\n",
                    display_path(path),
                    describe(&error)
                ));
                return exit::USAGE;
            }
            let plan = NextCommand::new("plan").flag(format!("--calibration {}", display_path(path)));
            io.note(&format!("wrote {}; to use it: `{plan}`\n", display_path(path)));
        }
    } else if args.write.is_some() {
        let device = probe.device.as_deref().unwrap_or("an unknown device");
        io.note(&format!(
            "error: nothing to write: measured on {device}, which gives no constants for this plan's GPU\n"
        ));
        return exit::USAGE;
    }
    if code == 8 { exit::JOB } else { exit::DONE }
}

/// Describes the prediction by measured constants next to the first one; empty without a prediction. Today,
/// in days since 1970, gives the age of an old price.
pub(crate) fn describe_plan_again(
    plan: &Plan,
    constants: &Constants,
    measured: &Constants,
    today: Option<i64>,
) -> String {
    let [first, again] = [constants, measured].map(|constants| trainc_predict::of_plan(plan, constants));
    let Some((was, is)) = first.speed.zip(again.speed) else { return String::new() };
    let digits = |value: f64| text::group_digits(whole(value));
    let mut out = format!(
        "planned {} tokens/s; by the measured rates {} ({} %)",
        digits(was.tokens_per_second),
        digits(is.tokens_per_second),
        text::short_number(100.0 * is.tokens_per_second / was.tokens_per_second)
    );
    if let Some((was, is)) = first.run.zip(again.run) {
        let hours = |seconds: f64| text::duration(whole(seconds));
        out.push_str(&format!(
            "; the run {} instead of {}",
            hours(is.expected_seconds()),
            hours(was.expected_seconds())
        ));
        if let Some((was, is)) = was.cost_usd.zip(is.cost_usd) {
            out.push_str(&format!(", {} instead of {}", text::dollars(is), text::dollars(was)));
            if let Some(origins) = describe_origins(plan.instance_prices(), today) {
                out.push_str(&format!(" ({origins})"));
            }
        }
    }
    out.push('\n');
    out
}

/// Rounds a figure that is shown without decimals.
fn whole(value: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(value.max(0.0).round()).unwrap_or_default().as_secs()
}
