//! What `trainc data pack` prints.

use crate::args::{Global, problems};
use crate::terminal::io::Io;
use std::path::{Path, PathBuf};
use trainc_data::packing::Findings;
use trainc_data::shard::Index;
use trainc_diag::{Format, text};
use trainc_plan::Compiled;
use trainc_project::manifests::{Manifest, Set};

/// Prints the problems of inputs, of which this is the first.
pub(crate) fn print_problems(io: &mut Io, global: &Global, input: Option<&String>, found: Findings) {
    let path = input.map_or("", String::as_str);
    let manifest = Manifest::new(path, String::new(), Compiled::unreadable_file(found.problems));
    let (sources, manifests) = (found.sources, vec![manifest]);
    let set =
        Set { sources, manifests, skipped: Vec::new(), many: false, root: PathBuf::new(), constants: None };
    let shown = problems(&set, Format::Human, io, io.color, global);
    io.note_colored(&shown);
}

/// Formats the counts of packed shards.
pub(crate) fn summary(index: &Index, out: &Path) -> String {
    let labels = index.sequences * index.sequence_length as u64;
    let mut said = format!(
        "{}: {} of {} tokens, from {} with {}\n",
        out.display(),
        text::count(index.sequences, "sequence"),
        text::group_digits(index.sequence_length as u64),
        text::count(index.documents, "document"),
        text::count(index.tokens, "token"),
    );
    if index.masked {
        let share = index.trained_labels as f64 / labels.max(1) as f64 * 100.0;
        said.push_str(&format!(
            "{} of {} labels are trained on ({share:.0} %)\n",
            text::group_digits(index.trained_labels),
            text::group_digits(labels)
        ));
    }
    if index.dropped_tokens > 0 {
        said.push_str(&format!(
            "{} at the end did not fill a sequence\n",
            text::count(index.dropped_tokens, "token")
        ));
    }
    said.push_str(&format!("digest {}\n", index.digest));
    said
}
