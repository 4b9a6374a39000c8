//! `trainc check`.

use super::args::{Global, Input, problems};
use super::completion_values::{any_text, with_values};
use super::exit;
use super::files::describe;
use super::io::Io;
use super::manifests::{Keep, Manifest, Set, compile_keeping};
use std::collections::BTreeMap;
use trainc_diag::source::is_file;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Format, find, fix};
use trainc_predict::{Fit, Memory};

/// Report all problems of all manifests, without a network
///
/// Reads the manifests and the files they name (layers, source directories, model configs), plans them and applies
/// every rule. Exits with 3 if a manifest has errors.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc check\n  trainc check job.kdl\n  trainc check job.kdl --env prod --set cluster.nodes=4\n  trainc check jobs/ -o sarif --exit-zero > trainc.sarif"
)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Output format: human, json, short (one line per problem), sarif, github, gitlab (Code Quality report) or
    /// markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = with_values(format, formats), hide_possible_values = true)]
    output: Format,
    /// Apply the suggested edits for this code (or `all`) to the files, then check again
    #[arg(long, value_name = "CODE", value_parser = any_text(fixable), hide_possible_values = true)]
    fix: Option<String>,
}

fn formats() -> Vec<&'static str> {
    Format::ALL.iter().map(|format| format.name()).collect()
}

fn fixable() -> Vec<&'static str> {
    std::iter::once("all").chain(super::explain::names()).collect()
}

/// Parses an output format.
pub(super) fn format(written: &str) -> Result<Format, String> {
    Format::parse(written).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("check") {
        Ok(paths) => paths,
        Err(why) => {
            io.note(&why);
            return exit::USAGE;
        }
    };
    // The plans show how an edit changes the batch.
    let keep = if args.fix.is_some() { Keep::Plans } else { Keep::Problems };
    let mut set = compile_keeping(&paths, &args.input.overlay.options(io, false), keep);
    if let Some(code) = &args.fix {
        if code != "all" && find(crate::codes(), code).is_none() {
            io.note(&format!("error: unknown code `{code}`; `trainc catalog rules` lists all codes\n"));
            return exit::USAGE;
        }
        if paths.iter().any(|path| path == "-") {
            io.note("error: `--fix` requires a file: standard input cannot be edited\n");
            return exit::USAGE;
        }
        let code = Some(code.as_str()).filter(|code| *code != "all");
        match write_fixes(io, &set, code) {
            Ok(0) => io.note("nothing to fix\n"),
            Ok(_) => {
                let (before, oversized) = (batches(&set), jobs_over_memory(&set));
                set = compile_keeping(&paths, &args.input.overlay.options(io, false), keep);
                note_changed_batches(io, &before, &batches(&set));
                note_tight_memory(io, &oversized, &set);
            }
            Err(message) => {
                io.note(&message);
                return exit::USAGE;
            }
        }
    }
    let text = problems(&set, args.output, io, io.color, global);
    match args.output {
        Format::Human => io.print_colored(&text),
        Format::Markdown | Format::Short => io.print(&text),
        // Escaped as the format requires.
        Format::Json | Format::Sarif | Format::Github | Format::Gitlab => io.print_verbatim(&text),
    }
    args.input.explain_denied_warnings(io, &set, global.quiet);
    args.input.exit_code(&set)
}

/// Applies the edits of all problems of a code; returns their number.
fn write_fixes(io: &mut Io, set: &Set, code: Option<&str>) -> Result<usize, String> {
    let problems: Vec<&Diagnostic> = set.manifests.iter().flat_map(|m| m.compiled.problems.iter()).collect();
    let fixed = fix::apply(&set.sources, problems, code);
    for (source, text) in &fixed.texts {
        let Some(name) = set.sources.get(*source).map(|source| source.name.to_string()) else { continue };
        if !is_file(&name) {
            continue;
        }
        std::fs::write(&name, text)
            .map_err(|error| format!("error: `{name}` cannot be written: {}\n", describe(&error)))?;
        let old = set.sources.get(*source).map_or("", |source| &source.text);
        io.note(&format!("fixed {name}\n{}", format_diff(old, text)));
    }
    Ok(fixed.applied.len())
}

/// Returns the global batch of each job, by its manifest and name.
fn batches(set: &Set) -> BTreeMap<(String, Option<String>), u64> {
    let of = |manifest: &Manifest| {
        let batch = manifest.compiled.plan.as_ref()?.batch.as_ref()?.global_sequences.value;
        Some(((manifest.path.clone(), manifest.compiled.job.clone()), batch))
    };
    set.manifests.iter().filter_map(of).collect()
}

/// Notes each job whose global batch was changed by an edit.
fn note_changed_batches(
    io: &mut Io,
    before: &BTreeMap<(String, Option<String>), u64>,
    after: &BTreeMap<(String, Option<String>), u64>,
) {
    for (job, new) in after {
        let Some(old) = before.get(job).filter(|old| *old != new) else { continue };
        let [old, new] = [*old, *new].map(text::group_digits);
        io.note(&format!(
            "note: {}: the edit changes the training: global batch {new} instead of {old}\n",
            job.0
        ));
    }
}

/// Returns the jobs that are predicted not to fit, by manifest and name.
fn jobs_over_memory(set: &Set) -> Vec<(String, Option<String>)> {
    let fit = |manifest: &&Manifest| manifest.compiled.prediction.memory.as_ref().and_then(Memory::fit);
    let found = set.manifests.iter().filter(|one| matches!(fit(one), Some(Fit::Hardly | Fit::Never)));
    found.map(|one| (one.path.clone(), one.compiled.job.clone())).collect()
}

/// Notes each job that an edit made to fit only by the point estimate of its memory.
fn note_tight_memory(io: &mut Io, oversized: &[(String, Option<String>)], after: &Set) {
    for manifest in &after.manifests {
        let Some(memory) = &manifest.compiled.prediction.memory else { continue };
        let was = (manifest.path.clone(), manifest.compiled.job.clone());
        let (Some(Fit::Maybe), Some(has)) = (memory.fit(), memory.capacity_bytes) else { continue };
        if oversized.contains(&was) {
            let [needs, high, has] = [memory.per_gpu_bytes, memory.interval.high, has].map(format_bytes);
            io.note(&format!(
                "note: {}: may still not fit: predicted {needs} (upper bound {high}) of {has}\n",
                was.0
            ));
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, held above zero")]
fn format_bytes(bytes: f64) -> String {
    text::bytes(bytes.max(0.0).round() as u64)
}

/// Formats the removed and added lines like `diff`.
fn format_diff(old: &str, new: &str) -> String {
    /// Maximum lines between the first and the last difference; beyond it only their number is shown.
    const MOST: usize = 400;
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let first = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let left = old.len().min(new.len()) - first;
    let last = old.iter().rev().zip(new.iter().rev()).take(left).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.get(first..old.len() - last), new.get(first..new.len() - last));
    let (Some(old), Some(new)) = (old, new) else { return String::new() };
    if old.len().max(new.len()) > MOST {
        return format!(
            "  {} between the first and the last change\n",
            text::count(old.len() as u64, "line")
        );
    }
    // Longest common subsequence of each pair of suffixes.
    let mut same = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    let at = |same: &[Vec<usize>], i: usize, j: usize| same.get(i).and_then(|row| row.get(j)).copied();
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            let longest = if a == b {
                at(&same, i + 1, j + 1).map(|n| n + 1)
            } else {
                at(&same, i + 1, j).max(at(&same, i, j + 1))
            };
            if let Some(slot) = same.get_mut(i).and_then(|row| row.get_mut(j)) {
                *slot = longest.unwrap_or(0);
            }
        }
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    loop {
        match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) if a == b => (i, j) = (i + 1, j + 1),
            (Some(a), b) if b.is_none() || at(&same, i + 1, j) >= at(&same, i, j + 1) => {
                out.push_str(&format!("  - {}\n", a.trim()));
                i += 1;
            }
            (_, Some(b)) => {
                out.push_str(&format!("  + {}\n", b.trim()));
                j += 1;
            }
            (_, None) => return out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::format_diff;

    #[test]
    fn changed_lists_removed_and_added_lines() {
        let old = "a\n    micro-batch 8\n    seed 1\n    steps 5\n}\n";
        let new = "a\n    micro-batch 4\n    seed 1\n    steps 5\n    accumulation 2\n}\n";
        assert_eq!(format_diff(old, new), "  - micro-batch 8\n  + micro-batch 4\n  + accumulation 2\n");
        assert_eq!(format_diff("a\nb\n", "a\nb\nc\n"), "  + c\n");
        assert_eq!(format_diff("a\nb\n", "b\n"), "  - a\n");
        assert_eq!(format_diff("a\n", "a\n"), "");
    }
}
