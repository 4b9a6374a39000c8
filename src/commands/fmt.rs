//! `trainc fmt`.

use crate::args::Named;
use crate::exit;
use crate::terminal::io::Io;
use trainc_diag::source::SourceMap;
use trainc_diag::{self as diag, Format, ManifestReport, Problems};
use trainc_project::files::{
    MOST_MANIFEST_BYTES, describe, read_named_text, read_regular_text, write_in_root,
};
use trainc_project::manifest_paths::{self, expand, root_of};
use trainc_syntax::{document, format};

/// Format manifests, keeping comments
///
/// Rewrites the files in place. Files with syntax errors are left unchanged.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc fmt\n  trainc fmt job.kdl\n  trainc fmt --check .\n  trainc fmt - < \
        job.kdl"
)]
pub(crate) struct Args {
    #[command(flatten)]
    named: Named,
    /// Write nothing; exit with 4 if a file would change
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, args: &Args) -> u8 {
    let arguments = match args.named.paths("fmt") {
        Ok(arguments) => arguments,
        Err(why) => {
            io.note(&why);
            return exit::USAGE;
        }
    };
    let (mut changed, mut failed) = (0_usize, false);
    for argument in &arguments {
        let found = expand(argument).files;
        if found.is_empty() {
            io.note(&format!("error: no manifest found at `{argument}`\n"));
            failed = true;
        }
        for file in found {
            let path = &file.path;
            let root = root_of(path, file.walked.as_deref());
            // A link that was found, not named, is not followed out of the root.
            if file.walked.is_some() && path.canonicalize().is_ok_and(|found| !found.starts_with(&root)) {
                io.note(&format!("error: the link `{}` leads outside the root directory\n", file.shown));
                failed = true;
                continue;
            }
            match format_file(io, &file, args.check) {
                Ok(true) => changed += 1,
                Ok(false) => {}
                Err(message) => {
                    io.note_colored(&message);
                    failed = true;
                }
            }
        }
    }
    if failed {
        exit::MANIFEST
    } else if args.check && changed > 0 {
        exit::DIFFERENT
    } else {
        exit::DONE
    }
}

/// Formats one file; returns true if it changes.
fn format_file(io: &mut Io, file: &manifest_paths::Named, check: bool) -> Result<bool, String> {
    let path = &file.path;
    let shown = path.display().to_string();
    // A pipe is formatted to standard output.
    let writable = path.is_file();
    let text = if file.walked.is_some() {
        read_regular_text(path, MOST_MANIFEST_BYTES)
    } else {
        read_named_text(path, MOST_MANIFEST_BYTES)
    };
    let text = text.map_err(|error| format!("error: `{shown}` cannot be read: {}\n", describe(&error)))?;
    let Ok(formatted) = format::format(&text) else {
        return Err(describe_syntax_errors(io, &shown, &text));
    };
    let changes = formatted != text;
    if check {
        if changes {
            io.print(&format!("would change {shown}\n"));
        }
    } else if !writable {
        io.print_verbatim(&formatted);
    } else if changes {
        write_in_root(path, &formatted)
            .map_err(|error| format!("error: `{shown}` cannot be written: {}\n", describe(&error)))?;
        io.print(&format!("formatted {shown}\n"));
    }
    Ok(changes)
}

/// Returns the syntax errors for which a file cannot be formatted.
fn describe_syntax_errors(io: &Io, shown: &str, text: &str) -> String {
    let mut sources = SourceMap::default();
    let source = sources.add(shown, text);
    let mut problems = Problems::default();
    let _ = document::parse(source, text, &mut problems);
    problems.sort();
    let reports = [ManifestReport { path: shown, job: None, problems: &problems }];
    let options = diag::Options {
        human: diag::human::Options { color: io.color, unicode: io.unicode, width: io.width, notes: true },
        ..diag::Options::default()
    };
    let mut out =
        diag::render(Format::Human, &diag::Run { sources: &sources, manifests: &reports }, &options);
    out.push('\n');
    out
}
