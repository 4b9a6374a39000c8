//! The cases of `tests/suite/` and of the pages, each a test with a name: `cargo test --test suite T0421`.
//!
//! A harness of its own lists them, so that a new case needs no build. `TRAINC_BLESS=1` writes what a case
//! gives beside its lines.

#![allow(
    clippy::disallowed_methods,
    clippy::format_collect,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and nobody imports it"
)]

mod annotations;
#[allow(dead_code, reason = "the other tests use the rest")]
mod cases;
#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use cases::{Case, Section};
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use support::{Outcome, files};
use trainc_diag::{Diagnostic, Ends, FoundIn, Severity};

/// Words that are written with a capital letter wherever they stand.
const NAMES: &[&str] = &[
    "PyTorch",
    "SageMaker",
    "SMP",
    "SMDDP",
    "AWS",
    "FSx",
    "EFA",
    "S3",
    "GPU",
    "Lustre",
    "IAM",
    "EBS",
    "Hugging",
    "Python",
    "NCCL",
    "MPI",
    "KMS",
    "VPC",
    "Trainium",
    "Neuron",
    "Adam",
    "LoRA",
    "QLoRA",
    "CUDA",
    "Debugger",
    "KDL",
    "UTF-8",
    "DLC",
    "Spot",
    "Amazon",
    "Weights",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let name = arguments.filter.as_deref().filter(|_| arguments.exact);
    let wanted = name.map(|name| name.split_once("::").map_or(name, |(code, _)| code));
    let codes = trainc::codes().iter().filter(|code| wanted.is_none_or(|wanted| wanted == code.id));
    // nextest starts a process for each test, and each would read the catalogue anew.
    let is_by_code = std::env::var_os("NEXTEST").is_some();
    let mut trials = Vec::new();
    for code in codes {
        let cases = cases::of_code(code);
        if is_by_code {
            trials.push(Trial::test(code.id, move || all_of(cases.iter().flat_map(faults).collect())));
        } else {
            let one = |case: Case| Trial::test(case.id(), move || all_of(faults(&case)));
            trials.extend(cases.into_iter().map(one));
        }
    }
    trials.push(Trial::test("every_code_has_cases", || all_of(codes_without_cases())));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The outcome of a test that found these faults.
fn all_of(faults: Vec<String>) -> Result<(), Failed> {
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

/// What is wrong with a case, with its name.
fn faults(case: &Case) -> Vec<String> {
    let found = catch_unwind(AssertUnwindSafe(|| judge(case)));
    let faults = found.unwrap_or_else(|_| vec!["it panics".to_owned()]);
    faults.into_iter().map(|fault| format!("{} `{}`: {fault}", case.path(), case.name)).collect()
}

/// Compiles a case and compares what is written beside its lines.
fn judge(case: &Case) -> Vec<String> {
    let outcome = case.compile();
    let mut faults =
        [stray_words(&outcome), speed_of_an_undecided_layout(&outcome), faults_of_page(case, &outcome)]
            .concat();
    let found = annotations::written(case, &outcome);
    if found != case.written {
        if std::env::var_os("TRAINC_BLESS").is_some() {
            annotations::rewrite(case, &found);
        } else {
            faults.push(format!("TRAINC_BLESS=1 writes it\n{}", difference(&case.written, &found)));
        }
    }
    faults
}

/// The lines of two texts that differ, from the first to the last.
fn difference(written: &str, found: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (written.lines().collect(), found.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old[same..].iter().rev().zip(new[same..].iter().rev()).take_while(|(a, b)| a == b).count();
    let mark =
        |mark: &str, lines: &[&str]| lines.iter().map(|line| format!("{mark} {line}\n")).collect::<String>();
    let (before, after) = (&old[same.saturating_sub(2)..same], &old[old.len() - rest..][..rest.min(2)]);
    [
        mark(" ", before),
        mark("-", &old[same..old.len() - rest]),
        mark("+", &new[same..new.len() - rest]),
        mark(" ", after),
    ]
    .concat()
}

/// What a page calls wrong gives its code; what it calls right does not, and has no error.
fn faults_of_page(case: &Case, outcome: &Outcome) -> Vec<String> {
    let Some(section) = case.section else { return Vec::new() };
    let mut faults = Vec::new();
    let gives = outcome.compiled.problems.iter().any(|one| one.code.id == case.code);
    if gives != (section == Section::Wrong) {
        faults.push(format!(
            "{} {}:\n{}",
            if gives { "gives" } else { "does not give" },
            case.code,
            outcome.lines()
        ));
    }
    if section == Section::Right && outcome.compiled.problems.errors() > 0 {
        faults.push(format!("has errors:\n{}", outcome.lines()));
    }
    faults
}

/// Every code has a case that gives it and one that does not.
fn codes_without_cases() -> Vec<String> {
    let mut faults = Vec::new();
    for code in trainc::codes() {
        if code.found_in != FoundIn::Manifest {
            continue;
        }
        let (gives, misses): (Vec<Case>, Vec<Case>) = cases::of_code(code)
            .into_iter()
            .partition(|case| case.written.contains(&format!("[{}]: ", code.id)));
        if gives.is_empty() {
            faults.push(format!("{}: no case gives it", code.id));
        }
        if misses.is_empty() {
            faults.push(format!("{}: no near miss", code.id));
        }
    }
    let known: BTreeSet<&str> = trainc::codes().iter().map(|code| code.id).collect();
    let is_known = |path: &String| known.iter().any(|code| *path == format!("tests/suite/{code}.kdl"));
    let strangers = files("tests/suite", &[""]).into_iter().filter(|path| !is_known(path));
    faults.extend(strangers.map(|path| format!("{path}: not the file of a code")));
    faults
}

/// A plan whose errors leave open which layout or container runs shows neither speed nor cost.
fn speed_of_an_undecided_layout(Outcome { compiled, .. }: &Outcome) -> Vec<String> {
    let is_error = |problem: &&Diagnostic| problem.severity == Severity::Error;
    let deciding = compiled.problems.iter().filter(is_error).find(|one| one.code.ends == Some(Ends::Speed));
    let shows = compiled.prediction.speed.is_some() || compiled.prediction.run.is_some();
    deciding.filter(|_| shows).map(|error| format!("a speed beside {}", error.code.id)).into_iter().collect()
}

/// The texts of the problems that are no fragments.
fn stray_words(outcome: &Outcome) -> Vec<String> {
    let mut faults = BTreeSet::new();
    for problem in outcome.compiled.problems.iter() {
        let label = (!problem.label.is_empty()).then_some(problem.label.as_str());
        let labels = problem.labels.iter().map(|label| label.text.as_str());
        for words in std::iter::once(problem.message.as_str())
            .chain(label)
            .chain(labels)
            .chain(problem.help.as_deref())
            .chain(problem.notes.iter().map(trainc_diag::Note::as_str))
        {
            let first = words.split_whitespace().next().unwrap_or("");
            let capital = first.chars().next().is_some_and(char::is_uppercase);
            let is_code = first.starts_with("T0");
            let known = is_code
                || NAMES.iter().any(|name| first.starts_with(name))
                || first.chars().filter(|c| c.is_uppercase()).count() > 1;
            if capital && !known {
                faults.insert(format!("{}: `{words}` begins with a capital letter", problem.code.id));
            }
            if words.ends_with('.') && !words.ends_with("etc.") {
                faults.insert(format!("{}: `{words}` ends with a full stop", problem.code.id));
            }
            // The lines of a block to paste are indented.
            let has_gap = words.lines().any(|line| line.trim_start().contains("  "));
            if has_gap || words.trim() != words || words.is_empty() {
                faults.insert(format!("{}: `{words}` has stray blanks", problem.code.id));
            }
        }
    }
    faults.into_iter().collect()
}
