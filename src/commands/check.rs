//! `trainc check`.

use crate::args::completion_values::{any_text, with_values};
use crate::args::{Global, Input, note_skipped, problems};
use crate::exit;
use crate::terminal::io::Io;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trainc_diag::source::{SourceId, is_file};
use trainc_diag::text;
use trainc_diag::{Diagnostic, Format, Problems, find};
use trainc_ir::Plan;
use trainc_ops::fixes::{self, Kept};
use trainc_predict::bills::max_cost;
use trainc_predict::{Fit, Memory};
use trainc_project::files::{Edits, describe, write_in_root};
use trainc_project::manifests::{Keep, Manifest, Set, compile_edited, compile_keeping};

/// Report all problems of all manifests, without a network
///
/// Reads the manifests and the files they name (layers, source directories, model configs), plans them and
/// applies every rule. Exits with 3 if a manifest has errors.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc check\n  trainc check job.kdl\n  trainc check job.kdl --env prod --set \
        cluster.nodes=4\n  trainc check jobs/ -o sarif --exit-zero > trainc.sarif"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Output format: human, json, short (one line per problem), sarif, github, gitlab (Code Quality report)
    /// or markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = with_values(format, formats), hide_possible_values = true)]
    output: Format,
    /// Apply edits to the files, then check again: those of this code, with what its help says to type, or
    /// without a code (or with `all`) every certain edit that does not change what is trained
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = ALL, value_parser = any_text(fixable), hide_possible_values = true)]
    fix: Option<String>,
}

/// The value of `--fix` for every code.
const ALL: &str = "all";

fn formats() -> Vec<&'static str> {
    Format::ALL.iter().map(|format| format.name()).collect()
}

fn fixable() -> Vec<&'static str> {
    std::iter::once(ALL).chain(crate::commands::explain::names()).collect()
}

/// Parses an output format.
pub(crate) fn format(written: &str) -> Result<Format, String> {
    Format::parse(written).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    // A word after `--fix` that is not a code is a manifest.
    let (fix, manifest) = match args.fix.as_deref() {
        None => (None, None),
        Some(ALL) => (Some(None), None),
        Some(code) if find(crate::codes(), code).is_some() => (Some(Some(code)), None),
        Some(word) if word.contains(['/', '.', '*', '?']) || word == "-" || Path::new(word).exists() => {
            (Some(None), Some(word.to_owned()))
        }
        Some(word) => {
            io.note(&format!(
                "error: `{word}` is neither a code nor a manifest; `trainc catalog rules` lists all codes\n"
            ));
            return exit::USAGE;
        }
    };
    let paths = if args.input.named.manifests.is_empty() && manifest.is_some() {
        Ok(Vec::new())
    } else {
        args.input.named.paths("check")
    };
    let paths: Vec<String> = match paths {
        Ok(paths) => manifest.into_iter().chain(paths).collect(),
        Err(why) => {
            io.note(&why);
            return exit::USAGE;
        }
    };
    // The plans show what an edit changes.
    let keep = if fix.is_some() { Keep::Plans } else { Keep::Problems };
    if let Err(why) = args.input.overlay.read_runs(io, &paths) {
        io.note(&why);
        return exit::USAGE;
    }
    let options = args.input.overlay.options(io, false);
    let mut set = compile_keeping(&paths, &options, keep);
    note_skipped(io, global, &set);
    if let Some(code) = fix {
        if paths.iter().any(|path| path == "-") {
            io.note("error: `--fix` requires a file: standard input cannot be edited\n");
            return exit::USAGE;
        }
        match write_fixes(io, &set, code, |only, edits| {
            let only = only.map(|path| [path.to_owned()]);
            compile_edited(only.as_ref().map_or(&paths[..], |only| only), &options, Keep::Plans, edits)
        }) {
            Ok(0) => {}
            Ok(_) => {
                let (before, costs, oversized) = (batches(&set), max_costs(&set), jobs_over_memory(&set));
                set = compile_keeping(&paths, &options, keep);
                note_changed_batches(io, &before, &batches(&set));
                note_raised_costs(io, &costs, &max_costs(&set));
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
        Format::Markdown | Format::Short => io.print_unwrapped(&text),
        // Escaped as the format requires.
        Format::Json | Format::Sarif | Format::Github | Format::Gitlab => io.print_verbatim(&text),
    }
    args.input.explain_denied_warnings(io, &set, global.quiet);
    args.input.exit_code(&set)
}

/// Writes the fixes of a code with the edits of its helps, or all fixes that change neither what is trained
/// nor add an error; returns their number.
fn write_fixes(
    io: &mut Io,
    set: &Set,
    code: Option<&str>,
    compile: impl Fn(Option<&str>, &Arc<Edits>) -> Set,
) -> Result<usize, String> {
    let sources = &set.sources;
    let name_of = |source: SourceId| sources.get(source).map(|source| source.name.to_string());
    let edit = |source: SourceId, text: &str| {
        let path = name_of(source).and_then(|name| Path::new(&name).canonicalize().ok())?;
        Some((path, text.to_owned()))
    };
    let mut suggested = fixes::Suggested::default();
    for manifest in &set.manifests {
        let found = fixes::suggested(&manifest.compiled.problems, sources, code, |edited| {
            let edits = edited.and_then(|(source, text)| edit(source, text));
            let set = compile(Some(&manifest.path), &Arc::new(edits.into_iter().collect()));
            set.manifests.into_iter().map(|one| one.compiled.problems).fold(
                Problems::default(),
                |mut all, problems| {
                    all.extend(problems);
                    all
                },
            )
        });
        suggested.fixes.extend(found.fixes);
        suggested.choices.extend(found.choices);
    }
    let problems: Vec<&Diagnostic> = set.manifests.iter().flat_map(|m| m.compiled.problems.iter()).collect();
    // The edits of helps are guesses: only their code requests them.
    let guesses = suggested.fixes.iter().filter(|_| code.is_some());
    let requested = fixes::requested(problems.into_iter().chain(guesses), sources, code);
    let states = |set: &Set| -> Vec<fixes::State> {
        set.manifests.iter().map(|one| fixes::State::new(&one.compiled, &set.sources)).collect()
    };
    let mut selection = fixes::select(sources, &requested, code.is_some(), &states(set), |texts| {
        let edits = texts.iter().filter_map(|(source, text)| edit(*source, text));
        states(&compile(None, &Arc::new(edits.collect())))
    });
    let kept = match code {
        Some(_) => suggested.choices.iter().collect(),
        None => fixes::requested(&suggested.fixes, sources, None),
    };
    let why = if code.is_some() { Kept::Choice } else { Kept::RequiresCode };
    selection.kept.extend(kept.into_iter().map(|problem| (problem, why)));
    let mut written = 0;
    for (source, text) in &selection.texts {
        let Some(name) = name_of(*source).filter(|name| is_file(name)) else { continue };
        write_in_root(Path::new(&name), text)
            .map_err(|error| format!("error: `{name}` cannot be written: {}\n", describe(&error)))?;
        let old = sources.get(*source).map_or("", |source| &source.text);
        io.note(&sources.mask(&format!("fixed {name}\n{}", format_diff(old, text))));
        written += 1;
    }
    if written == 0 && selection.kept.is_empty() {
        io.note("nothing to fix\n");
    }
    for (problem, why) in &selection.kept {
        let Some(source) = sources.get(problem.span.source) else { continue };
        let (line, column) = source.line_column(problem.span.start);
        let id = problem.code.id;
        io.note(&format!(
            "not applied: {}:{line}:{column}: {id} {}: {}\n",
            source.name,
            problem.code.name,
            match why {
                Kept::ChangesTraining => format!("it changes what is trained; `--fix {id}` applies it"),
                Kept::AddsError => "it would add an error".to_owned(),
                Kept::RequiresCode => format!("`--fix {id}` applies the edit of its help"),
                Kept::Choice => "its help is a choice of several edits".to_owned(),
            }
        ));
    }
    Ok(written)
}

/// A figure of each job, by its manifest and name.
type ByJob<T> = BTreeMap<(String, Option<String>), T>;

/// Returns a figure of each job for which it is known.
fn by_job<T>(set: &Set, figure: impl Fn(&Plan) -> Option<T>) -> ByJob<T> {
    let of = |manifest: &Manifest| {
        let figure = figure(manifest.compiled.plan.as_deref()?)?;
        Some(((manifest.path.clone(), manifest.compiled.job.clone()), figure))
    };
    set.manifests.iter().filter_map(of).collect()
}

/// Returns the global batch of each job.
fn batches(set: &Set) -> ByJob<u64> {
    by_job(set, |plan| Some(plan.batch.as_ref()?.global_sequences.value))
}

/// Returns the cost of each job if it runs until its max-run, US dollars.
fn max_costs(set: &Set) -> ByJob<f64> {
    by_job(set, |plan| max_cost(plan, plan.job.cluster.as_ref()?.max_run_seconds.get()? as f64).most_usd())
}

/// Notes each job that an edit allows to cost more.
fn note_raised_costs(io: &mut Io, before: &ByJob<f64>, after: &ByJob<f64>) {
    for (job, new) in after {
        let Some(old) = before.get(job).filter(|old| new > *old) else { continue };
        let [old, new] = [*old, *new].map(text::dollars);
        io.note(&format!("note: {}: the edit raises the cost at most from {old} to {new}\n", job.0));
    }
}

/// Notes each job whose global batch was changed by an edit.
fn note_changed_batches(io: &mut Io, before: &ByJob<u64>, after: &ByJob<u64>) {
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
