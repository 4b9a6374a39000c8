//! `trainc-research RUNS.csv [HELD_OUT.csv]`: prints the errors of the cost model on a table of runs, and
//! writes the held-out step times to a file.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command-line tool reads a file and prints"
)]

use std::process::ExitCode;
use trainc_calibrate::held_out::HeldOut;
use trainc_predict::Constants;
use trainc_research::stored;
use trainc_research::study::Study;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(path), out, None) = (args.next(), args.next(), args.next()) else {
        eprintln!("usage: trainc-research RUNS.csv [HELD_OUT.csv]");
        return ExitCode::from(2);
    };
    match print_errors(&path, out.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn print_errors(path: &str, out: Option<&str>) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("`{path}`: {error}"))?;
    let table = trainc_calibrate::read(&text).map_err(|why| format!("`{path}`: {why}"))?;
    let constants = Constants::shipped();
    let held_out = HeldOut::new(&table, constants);
    print!("{}", Study::with_held_out(&table, constants, &held_out).render());
    if let Some(out) = out {
        let text = stored::to_text(&table, constants, &held_out);
        std::fs::write(out, text).map_err(|error| format!("`{out}`: {error}"))?;
    }
    Ok(())
}
