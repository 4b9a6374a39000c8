//! What `trainc plan --against` prints: the bill of a change.

use crate::args::{Global, problems};
use crate::terminal::io::Io;
use trainc_diag::Format;
use trainc_project::manifests::Set;
use trainc_report::bill::{self, Bill};

/// Prints a bill in the form of `--output`, for people after the errors of the new manifests.
pub(crate) fn print_bill(io: &mut Io, global: &Global, output: &str, set: &Set, bill: &Bill) {
    match output {
        "json" => {
            let text = serde_json::to_string_pretty(&bill::document(bill)).unwrap_or_default();
            io.print_json(&bill.sources.mask_json(&format!("{text}\n")));
        }
        "markdown" => io.print_unwrapped(&bill.sources.mask(&bill::markdown(bill))),
        _ => {
            let errors: usize =
                set.manifests.iter().map(|manifest| manifest.compiled.problems.errors()).sum();
            if errors > 0 {
                // Only errors: `check` and `plan` show the warnings.
                let only_errors = Global { quiet: true, ..global.clone() };
                let text = problems(set, Format::Human, io, io.color, &only_errors);
                io.print_colored(&bill.sources.mask(&format!("{text}\n")));
            }
            let options = io.report_options(io.width);
            io.print_colored(&bill.sources.mask(&bill::human(bill, options)));
        }
    }
}
