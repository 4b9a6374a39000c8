//! `trainc calibrate`.

use super::args::Global;
use super::exit;
use super::impossible::Impossibles;
use super::io::Io;
use super::world::describe;
use std::fs;
use std::path::{Path, PathBuf};
use trainc_calibrate::outside::comment;
use trainc_calibrate::{self as calibrate, judge, words};
use trainc_emit::quoted;
use trainc_predict::Constants;

/// The most bytes of a table or of a file of constants that are read.
const MOST_BYTES: u64 = 64 << 20;

/// Hold the cost model against measured runs, or fit its constants to them
///
/// Without `--write` every row is judged by the constants that ship with trainc, or those of `--calibration`. With it they
/// are fitted to the table and written, and each step time is judged by constants that were fitted without it, each peak by
/// those that are written. Of a table of 60 runs and more the errors of rows, models and whole sources that a fit did not
/// see are shown as well, beside their goals; a smaller one is taken for one's own and moves the constants from where they
/// are, and its rows are shown, the ten figures that are furthest off, or with `--verbose` all.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc calibrate data/runs.csv\n  trainc calibrate my-runs.csv --write my-constants.toml"
)]
pub(super) struct Args {
    /// A table of runs, comma-separated
    #[arg(value_name = "RUNS.csv")]
    runs: String,
    /// Fit the constants to the table and write them here
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Judge these constants instead of those that ship with trainc; a fit starts from them
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// How to write: human or json
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
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
            io.note(&format!("error: `{}` is no table of runs: {why}\n", args.runs));
            return exit::MANIFEST;
        }
    };
    let found = Impossibles::of(&table, &args.runs, &text);
    io.note(&found.shown(io, global));
    let constants = match constants(args.calibration.as_deref()) {
        Ok(constants) => constants,
        Err(why) => {
            io.note(&format!("error: {why}\n"));
            return exit::MANIFEST;
        }
    };
    if let Some(path) = args.calibration.as_ref().filter(|_| !constants.borrowed.is_empty()) {
        let (names, path) = (trainc_diag::text::ticked(&constants.borrowed, "and"), path.display());
        io.note(&format!("note: `{path}` is older than {names}: the shipped value is taken\n"));
    }
    let mut wrote = None;
    let verdict = match &args.write {
        None => judge::judge_with_tiers(&table, &constants),
        Some(path) => {
            let Some((mut fitted, verdict)) = judge::fitted(&table, &constants) else {
                let rows = trainc_diag::text::count(table.runs.len() as u64, "row");
                io.note(&format!(
                    "error: `{}` has nothing to fit: {rows}, none with a measured time or peak that the model can take; `{}` is not written\n",
                    args.runs,
                    path.display()
                ));
                return exit::MANIFEST;
            };
            fitted.fitted.clone_from(&io.today);
            fitted.command = format!("trainc calibrate {} --write {}", args.runs, path.display());
            if let Err(error) = fs::write(path, fitted.write() + &comment(&fitted)) {
                io.note(&format!("error: `{}` cannot be written: {}\n", path.display(), describe(&error)));
                return exit::USAGE;
            }
            let before = judge::judge(&table, &constants);
            wrote = Some(fit_words(path, &args.runs, &before, &verdict));
            verdict
        }
    };
    if args.output == "json" {
        let mut document = serde_json::to_value(&verdict).unwrap_or_default();
        if let Some(members) = document.as_object_mut() {
            members.insert("problems".to_owned(), found.members());
        }
        io.print(&serde_json::to_string_pretty(&document).unwrap_or_default());
        io.print("\n");
    } else {
        io.print(&words::human(&verdict, global.verbose));
    }
    io.note(&wrote.unwrap_or_default());
    // Rows of an open micro-batch are skipped too, but said as ranges.
    if verdict.summary.skipped == verdict.rows.len() && verdict.open.is_empty() {
        let rows = trainc_diag::text::count(verdict.rows.len() as u64, "row");
        io.note(&format!("error: `{}` has nothing to judge: {rows}, all skipped\n", args.runs));
        return exit::USAGE;
    }
    exit::DONE
}

/// What a fit came to: how far off the rows were before, and are by constants that were fitted without them.
fn fit_words(path: &Path, runs: &str, before: &judge::Verdict, after: &judge::Verdict) -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let [was, is] = [before, after].map(|verdict| verdict.summary.step_seconds.mean_error);
    let moved = was.zip(is).map_or_else(String::new, |(was, is)| {
        format!(
            ": step times of `{runs}` were off by {} in the mean, and are by {}, each by constants that were fitted without it",
            percent(was),
            percent(is)
        )
    });
    let (path, typed) = (path.display(), quoted(&path.display().to_string()));
    format!(
        "wrote {path}{moved}\nhelp: `trainc plan JOB.kdl --calibration {typed}` predicts by it, and so do `check`, `tune` and `report`\n"
    )
}

/// The constants of a file, or those that ship with trainc; else what to say.
pub(super) fn constants(path: Option<&Path>) -> Result<Constants, String> {
    let Some(path) = path else { return Ok(Constants::shipped().clone()) };
    let text = read(path).map_err(|why| format!("error: `{}` cannot be read: {why}\n", path.display()))?;
    Constants::read(&text).map_err(|why| format!("`{}` is no file of constants: {why}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    if path == Path::new("-") {
        return std::io::read_to_string(std::io::Read::take(std::io::stdin().lock(), MOST_BYTES))
            .map_err(|error| describe(&error));
    }
    let about = fs::metadata(path).map_err(|error| describe(&error))?;
    if !about.is_file() {
        return Err("it is no file".to_owned());
    }
    if about.len() > MOST_BYTES {
        return Err("it is too large".to_owned());
    }
    fs::read_to_string(path).map_err(|error| describe(&error))
}
