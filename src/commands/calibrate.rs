//! `trainc calibrate`.

use crate::args::Global;
use crate::exit;
use crate::terminal::io::Io;
use crate::views::invalid_rows::InvalidRows;
use std::fs;
use std::path::{Path, PathBuf};
use trainc_calibrate::bounds::out_of_range_comment;
use trainc_calibrate::fit::STANDALONE;
use trainc_calibrate::probe::Probe;
use trainc_calibrate::{self as calibrate, judge, mean_error_given_others, own_runs};
use trainc_emit::quote;
use trainc_predict::{Constants, SelfCheck};
use trainc_project::files::{MOST_TABLE_BYTES, describe, read_named_text};

/// Compare predictions with measured runs, or fit the constants of the cost model to them
///
/// Without `--write`, every row is compared with its prediction by the constants that ship with trainc, or
/// those of `--calibration`. With it, the constants are fitted to the table and written; each step time is
/// then compared with its prediction by a fit without that row, and each peak of memory with that by the
/// written constants. Fewer than 60 runs determine no constants of speed: the file then carries the runs, by
/// which similar jobs are predicted, as with `--runs`. The ten largest errors are shown, or all with
/// `--verbose`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc calibrate data/runs.csv\n  trainc calibrate my-runs.csv --write \
        my-constants.toml"
)]
pub(crate) struct Args {
    /// Table of runs (CSV)
    #[arg(value_name = "RUNS.csv")]
    runs: String,
    /// Fit the constants to the table and write them here
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Use these constants instead of those that ship with trainc; a fit starts from them
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Output format: human or json
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let text = match read(Path::new(&args.runs)) {
        Ok(text) => text,
        Err(why) => {
            io.note(&format!("error: `{}` cannot be read: {why}\n", args.runs));
            return exit::MANIFEST;
        }
    };
    let table = match calibrate::read(&text) {
        Ok(table) => table,
        Err(why) => {
            io.note(&format!("error: `{}` is not a table of runs: {why}\n", args.runs));
            return exit::MANIFEST;
        }
    };
    let found = InvalidRows::from_table(&table, &args.runs, &text);
    io.note_colored(&found.format_first(io, global));
    let constants = match constants(args.calibration.as_deref()) {
        // A table is judged by constants that do not know its runs.
        Ok(constants) => constants.without_runs(),
        Err(why) => {
            io.note(&format!("error: {why}\n"));
            return exit::MANIFEST;
        }
    };
    if let Some(path) = args.calibration.as_ref().filter(|_| !constants.borrowed.is_empty()) {
        let (names, path) = (trainc_diag::text::backtick_list(&constants.borrowed, "and"), path.display());
        io.note(&format!("note: `{path}` lacks {names}: using the shipped value\n"));
    }
    let mut wrote = None;
    let verdict = match &args.write {
        None => judge::judge(&table, &constants),
        Some(path) => {
            let is_fitted = judge::has_enough_runs(&table, &constants);
            let judged = if is_fitted {
                judge::fit_and_judge(&table, &constants)
            } else {
                judge::keep_and_judge(&table, &constants)
            };
            let Some((mut fitted, verdict)) = judged else {
                let rows = trainc_diag::text::count(table.runs.len() as u64, "row");
                io.note(&format!(
                    "error: nothing to fit in `{}`: {rows}, none with a step time or peak that \
                        can be predicted; `{}` was not written\n",
                    args.runs,
                    path.display()
                ));
                return exit::MANIFEST;
            };
            fitted.fitted.clone_from(&io.today);
            fitted.command = format!("trainc calibrate {} --write {}", args.runs, path.display());
            let own = own_runs(&text).unwrap_or_default();
            if !is_fitted {
                fitted.runs = Some(text.clone());
            }
            if let Err(error) = fs::write(path, fitted.to_toml() + &out_of_range_comment(&fitted)) {
                io.note(&format!("error: `{}` cannot be written: {}\n", path.display(), describe(&error)));
                return exit::USAGE;
            }
            let before = judge::judge(&table, &constants);
            let after = if is_fitted {
                verdict.summary.step_seconds.mean_error
            } else {
                mean_error_given_others(&own.runs, &constants)
            };
            wrote = Some(describe_fit(
                path,
                &args.runs,
                (before.summary.step_seconds.mean_error, after),
                is_fitted,
            ));
            verdict
        }
    };
    if args.output == "json" {
        let mut document = serde_json::to_value(&verdict).unwrap_or_default();
        if let Some(members) = document.as_object_mut() {
            members.insert("problems".to_owned(), found.to_json());
        }
        io.print_json(&serde_json::to_string_pretty(&document).unwrap_or_default());
        io.print("\n");
    } else {
        io.print(&calibrate::render(&verdict, global.verbose));
    }
    io.note(&wrote.unwrap_or_default());
    // Rows without a micro-batch are skipped too, but shown as ranges.
    if verdict.summary.skipped == verdict.rows.len() && verdict.step_ranges.is_empty() {
        let rows = trainc_diag::text::count(verdict.rows.len() as u64, "row");
        io.note(&format!("error: nothing to compare in `{}`: {rows}, all skipped\n", args.runs));
        return exit::USAGE;
    }
    exit::DONE
}

/// Describes what was written: the mean error of the step times before it, and without each row.
fn describe_fit(path: &Path, runs: &str, errors: (Option<f64>, Option<f64>), is_fitted: bool) -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let how = if is_fitted { "with constants fitted without the row" } else { "given the other rows" };
    let moved = errors.0.zip(errors.1).map_or_else(String::new, |(was, is)| {
        format!(": mean error of the step times in `{runs}` {} before, {} {how}", percent(was), percent(is))
    });
    let kept = if is_fitted {
        String::new()
    } else {
        format!(
            "note: fewer than {STANDALONE} runs determine no constants of speed: these are unchanged, and \
                the file carries the runs, by which similar jobs are predicted\n"
        )
    };
    let (path, quoted_path) = (path.display(), quote(&path.display().to_string()));
    format!(
        "wrote {path}{moved}\n{kept}help: to use it: `trainc plan JOB.kdl --calibration \
            {quoted_path}`; `check`, `tune` and `report` accept the flag too\n"
    )
}

/// Reads the constants of a file, or returns those that ship with trainc.
pub(crate) fn constants(path: Option<&Path>) -> Result<Constants, String> {
    let Some(path) = path else { return Ok(Constants::shipped().clone()) };
    let text = read(path).map_err(|why| format!("error: `{}` cannot be read: {why}\n", path.display()))?;
    if let Some(probe) = Probe::from_text(&text) {
        let measured = probe.constants(Constants::shipped());
        return measured.ok_or_else(|| {
            let device = probe.device.as_deref().unwrap_or("an unknown device");
            format!(
                "`{}` is the output of a probe on {device} without constants for the GPU of its plan",
                path.display()
            )
        });
    }
    if text.trim_start().starts_with('{') {
        let unreadable = |why: String| format!("`{}` cannot be used as a self-check: {why}", path.display());
        let check: SelfCheck = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        let mut constants = Constants::shipped().clone();
        check.apply(&mut constants).map_err(unreadable)?;
        return Ok(constants);
    }
    let constants = Constants::parse(&text)
        .map_err(|why| format!("`{}` is not a file of constants: {why}", path.display()))?;
    let Some(table) = &constants.runs else { return Ok(constants) };
    let own = own_runs(table)
        .map_err(|why| format!("`runs` in `{}` is not a table of runs: {why}", path.display()))?;
    Ok(constants.with_evidence(path.display().to_string(), own.runs, own.finished))
}

fn read(path: &Path) -> Result<String, String> {
    read_named_text(path, MOST_TABLE_BYTES).map_err(|error| describe(&error))
}
