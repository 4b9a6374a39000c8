//! `trainc-research RUNS.csv`: prints the errors of the cost model on a table of runs.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command-line tool reads a file and prints"
)]

use std::process::ExitCode;
use trainc_predict::Constants;
use trainc_research::study::Study;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(path), None) = (args.next(), args.next()) else {
        eprintln!("usage: trainc-research RUNS.csv");
        return ExitCode::from(2);
    };
    let table = match std::fs::read_to_string(&path) {
        Ok(text) => trainc_calibrate::read(&text).map_err(|why| why.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match table {
        Ok(table) => {
            print!("{}", Study::new(&table, Constants::shipped()).render());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: `{path}`: {why}");
            ExitCode::FAILURE
        }
    }
}
