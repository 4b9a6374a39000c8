//! `trainc plan --against`.

use super::Args;
use crate::args::Global;
use crate::exit;
use crate::terminal::io::Io;
use crate::views::bill::print_bill;
use trainc_ops::against::{self, base_runs, read_old};
use trainc_project::manifests::compile_all;
use trainc_project::runs_file::RUNS_FILE;

/// Runs `plan --against`.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args, paths: &[String], against: &str) -> u8 {
    let overlay = &args.input.overlay;
    let read = if overlay.runs.is_some() || overlay.calibration.is_some() {
        overlay.read_runs(io, paths)
    } else {
        match base_runs(paths, against) {
            Ok(Some(text)) => overlay.condition_on(io, format!("{against}:{RUNS_FILE}"), &text),
            Ok(None) => Ok(()),
            Err(why) => {
                io.note(&format!("warning: `{against}:{RUNS_FILE}` is not used: {why}\n"));
                Ok(())
            }
        }
    };
    if let Err(why) = read {
        io.note(&why);
        return exit::USAGE;
    }
    let options = overlay.options(io, false);
    let mut set = compile_all(paths, &options);
    let mut old = match read_old(&mut set, paths, against, &options) {
        Ok(old) => old,
        Err(words) => {
            io.note(&format!("error: {words}\n"));
            return exit::USAGE;
        }
    };
    let bill = against::bill(&set, &mut old, paths, &options);
    print_bill(io, global, &args.output, &set, &bill);
    args.input.explain_denied_warnings(io, &set, global.quiet);
    match args.input.exit_code(&set) {
        exit::DONE if args.detailed_exit_code && bill.differs() => exit::DIFFERENT,
        code => code,
    }
}
