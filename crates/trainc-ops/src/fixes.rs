//! Selects the fixes that `check --fix` applies: none may add an error, and `all` may not change what is
//! trained.
//!
//! In: the fixes of the problems, and a function that compiles edited texts. Out: the fixes to apply, and the
//! others with the reason. Both conditions are tested by compiling the edited texts.

use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::source::{SourceId, SourceMap, is_file};
use trainc_diag::{Diagnostic, Problems, Severity, Suggestion, fix};
use trainc_plan::Compiled;
use trainc_report::origins;
use trainc_syntax::suggested_edit::suggested_fix;

/// The nodes and values of the plan that decide what is trained, on what, and with which program and data.
const TRAINED: &[&str] = &[
    "adapter",
    "batch",
    "channel",
    "dependency",
    "image",
    "launch",
    "launcher",
    "mesh",
    "model",
    "parallel",
    "program",
    "quantize",
    "request",
    "run",
    "source",
    "sweep",
    "train",
    "worker",
];
/// Those of `cluster`; the others are limits, such as `max-run`.
const TRAINED_CLUSTER: &[&str] = &["instance", "nodes", "group", "gpu", "ranks"];

/// The errors of a manifest, and what it trains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    errors: usize,
    /// The values by their path, in order.
    trained: BTreeMap<String, Vec<String>>,
}

impl State {
    /// Returns the state of a compiled manifest.
    pub fn new(compiled: &Compiled, sources: &SourceMap) -> Self {
        let mut trained: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let rows = compiled.plan.as_deref().map(|plan| origins::rows(plan, sources)).unwrap_or_default();
        // An invalid value is unknown.
        for row in rows.into_iter().filter(|row| row.value != "?" && is_trained(&row.path)) {
            trained.entry(row.path).or_default().push(row.value);
        }
        Self { errors: compiled.problems.errors(), trained }
    }

    /// Returns whether a value that was known differs now.
    fn changes(&self, after: &Self) -> bool {
        self.trained.iter().any(|(path, values)| after.trained.get(path) != Some(values))
    }
}

fn is_trained(path: &str) -> bool {
    let mut steps = path.split(['.', ' ']);
    match steps.next() {
        Some("cluster") => steps.next().is_some_and(|step| TRAINED_CLUSTER.contains(&step)),
        Some(first) => TRAINED.contains(&first),
        None => false,
    }
}

/// The reason why a fix is not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The manifest would have more errors.
    AddsError,
    /// It changes what is trained, and was not requested by its code.
    ChangesTraining,
    /// It is the edit of a help, and was not requested by its code.
    RequiresCode,
    /// The help is a choice of several edits.
    Choice,
}

/// The selected fixes.
#[derive(Debug)]
pub struct Selection<'a> {
    /// The problems whose fixes are applied.
    pub applied: Vec<&'a Diagnostic>,
    /// The others.
    pub kept: Vec<(&'a Diagnostic, Kept)>,
    /// The edited texts.
    pub texts: BTreeMap<SourceId, String>,
}

/// Selects among the problems with a fix. `by_code` means that the user named their code, so that they may
/// change what is trained. `compile` returns the state of each manifest with these texts in place of its
/// sources, always in the same order.
pub fn select<'a>(
    sources: &SourceMap,
    problems: &[&'a Diagnostic],
    by_code: bool,
    before: &[State],
    compile: impl FnMut(&BTreeMap<SourceId, String>) -> Vec<State>,
) -> Selection<'a> {
    let mut selector =
        Selector { sources, by_code, before, current: before.to_vec(), applied: Vec::new(), compile };
    let mut kept = Vec::new();
    selector.add(problems, &mut kept);
    let texts = fix::apply(sources, selector.applied.iter().copied(), None).texts;
    Selection { applied: selector.applied, kept, texts }
}

struct Selector<'a, 's, F> {
    sources: &'s SourceMap,
    by_code: bool,
    before: &'s [State],
    /// The state with the fixes applied so far.
    current: Vec<State>,
    applied: Vec<&'a Diagnostic>,
    compile: F,
}

impl<'a, F: FnMut(&BTreeMap<SourceId, String>) -> Vec<State>> Selector<'a, '_, F> {
    /// Adds all of these problems if that is possible, otherwise those of each half.
    fn add(&mut self, problems: &[&'a Diagnostic], kept: &mut Vec<(&'a Diagnostic, Kept)>) {
        if problems.is_empty() {
            return;
        }
        match (self.try_add(problems), problems) {
            (Ok(()), _) => {}
            (Err(why), [one]) => kept.push((one, why)),
            (Err(_), _) => {
                let (first, second) = problems.split_at(problems.len() / 2);
                self.add(first, kept);
                self.add(second, kept);
            }
        }
    }

    fn try_add(&mut self, problems: &[&'a Diagnostic]) -> Result<(), Kept> {
        let all: Vec<&Diagnostic> = self.applied.iter().chain(problems).copied().collect();
        let texts = fix::apply(self.sources, all, None).texts;
        let after = (self.compile)(&texts);
        if after.len() != self.current.len() {
            return Err(if self.by_code { Kept::AddsError } else { Kept::ChangesTraining });
        }
        if !self.by_code {
            // A guessed value is the user's only once they have confirmed it, even where nothing was known
            // before.
            let guessed = problems.iter().any(|problem| !trainc_syntax::fix_keeps_value(problem.code));
            let is_changed =
                |(old, new): (&State, &State)| old.changes(new) || guessed && old.trained != new.trained;
            if self.current.iter().zip(&after).any(is_changed)
                || self.before.iter().zip(&after).any(|(old, new)| old.changes(new))
            {
                return Err(Kept::ChangesTraining);
            }
        }
        if self.current.iter().zip(&after).any(|(old, new)| new.errors > old.errors) {
            return Err(Kept::AddsError);
        }
        self.current = after;
        self.applied.extend(problems);
        Ok(())
    }
}

/// The problems of a manifest whose help has edits, and that have no other fix.
#[derive(Debug, Default)]
pub struct Suggested {
    /// Those whose help has one edit, as a fix.
    pub fixes: Vec<Diagnostic>,
    /// Those whose help is a choice of several.
    pub choices: Vec<Diagnostic>,
}

/// Returns the edits of the helps of a manifest's problems: of the errors and warnings, or of the problems of
/// a code. `compile` returns the problems of the manifest, with a text in place of a source.
pub fn suggested(
    problems: &Problems,
    sources: &SourceMap,
    code: Option<&str>,
    mut compile: impl FnMut(Option<(SourceId, &str)>) -> Problems,
) -> Suggested {
    let mut out = Suggested::default();
    let mut before = None;
    for problem in problems.iter().filter(|problem| problem.fix.is_none()) {
        let is_wanted = match code {
            Some(code) => problem.code.is_called(code),
            None => problem.severity != Severity::Note,
        };
        let id = problem.span.source;
        let Some(source) = sources.get(id).filter(|source| is_wanted && is_file(&source.name)) else {
            continue;
        };
        match problem.suggestions() {
            [] => {}
            [one] => {
                let before = before.get_or_insert_with(|| compile(None));
                let mut edited = |text: &str| compile(Some((id, text)));
                let fix = suggested_fix(&source.text, problem, one, before, &mut edited);
                out.fixes.extend(fix.map(|fix| Diagnostic { fix: Some(fix), ..problem.clone() }));
            }
            several => {
                let is_edit = several.iter().any(|one| *one != Suggestion::Other);
                out.choices.extend(is_edit.then(|| problem.clone()));
            }
        }
    }
    out
}

/// Returns the problems whose fix is requested, each edit once: by their code, or all.
pub fn requested<'a>(
    problems: impl IntoIterator<Item = &'a Diagnostic>,
    sources: &SourceMap,
    code: Option<&str>,
) -> Vec<&'a Diagnostic> {
    let mut seen = BTreeSet::new();
    problems
        .into_iter()
        .filter(|problem| code.is_none_or(|code| problem.code.is_called(code)))
        .filter(|problem| {
            problem.fix.as_ref().is_some_and(|fix| {
                let name = sources.get(fix.span.source).map(|source| source.name.to_string());
                seen.insert((name, fix.span.start, fix.span.end, fix.text.clone()))
            })
        })
        .collect()
}
