//! What can be known before the first write: everything the manifest names is there, reachable, and has room.
//!
//! In: a plan and an account to look at. Out: all findings at once, each a diagnostic at its place in the manifest.
//! What the caller may not look at is a note: a missing permission to look is no mistake.

mod asks;
mod beside;
mod data;
mod facts;
mod left;
mod needs;
mod network;
mod questions;
mod quota;
mod release;
mod role;
mod room;
mod wait;
mod wider;

pub use beside::beside;
pub(crate) use data::T0629;
pub use facts::{Facts, Seen};
pub(crate) use left::monthly_usd;
pub use left::{left, lost, strays};
pub(crate) use needs::places;
pub use quota::Together;
pub use room::{Limit, Running};
pub use wider::wider;

use super::fault::{Class, Fault};
use std::collections::BTreeSet;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Plan;

declare_code!(
    T0636,
    "check-skipped",
    Note,
    "a check that was skipped because of missing permissions or no answer"
);

/// The codes of this stage.
pub(super) fn codes() -> Vec<&'static Code> {
    [
        &[&T0636][..],
        beside::CODES,
        data::CODES,
        left::CODES,
        network::CODES,
        quota::CODES,
        release::CODES,
        role::CODES,
        wider::CODES,
    ]
    .concat()
}

/// Judges what was seen.
pub fn judge(plan: &Plan, facts: &Facts) -> Problems {
    let mut problems = Problems::default();
    network::judge(plan, facts, &mut problems);
    quota::judge(plan, facts, &mut problems);
    data::judge(plan, facts, &mut problems);
    role::judge(plan, facts, &mut problems);
    release::judge(plan, facts, &mut problems);
    problems.sort();
    problems
}

/// The exit code that findings of severity error give: 6 where permissions are missing, 3 where the manifest names
/// what is not so, 5 where the account has no room, or the role's policy none beside a run that goes on.
pub fn exit(problems: &Problems) -> u8 {
    let errors = || problems.iter().filter(|one| one.severity == trainc_diag::Severity::Error);
    if errors().any(|one| one.code == &role::T0633) {
        6
    } else if errors().any(|one| one.code != &quota::T0621 && !beside::CODES.contains(&one.code)) {
        3
    } else if errors().next().is_some() {
        5
    } else {
        0
    }
}

/// What was seen, if it was; a note where the caller may not look, silence where nobody could.
#[expect(clippy::ref_option, reason = "`Seen` is one word: what was asked, and the answer")]
fn seen<'a, T>(found: &'a Seen<T>, what: &str, span: Span, problems: &mut Problems) -> Option<&'a T> {
    match found {
        None => None,
        Some(Ok(value)) => Some(value),
        Some(Err(fault)) => {
            if !matches!(fault.class, Class::NotFound | Class::Unasked) {
                problems.push(unseen(fault, what, span));
            }
            None
        }
    }
}

/// Whether the answer was that it is not there.
#[expect(clippy::ref_option, reason = "`Seen` is one word: what was asked, and the answer")]
fn is_missing<T>(found: &Seen<T>) -> Option<&Fault> {
    match found {
        Some(Err(fault)) if fault.class == Class::NotFound => Some(fault),
        _ => None,
    }
}

/// Leaves out the notes that only repeat a read which is said to be refused; what S3 refuses of one bucket says nothing of
/// another.
pub fn said(refused: &[Fault], problems: &mut Problems) {
    let lacking: Vec<String> =
        refused.iter().filter(|fault| fault.call.row().service != "s3").map(Fault::action).collect();
    problems.retain(|one| {
        let action = one.facts.get("action").and_then(serde_json::Value::as_str);
        one.code != &T0636 || !action.is_some_and(|action| lacking.iter().any(|known| known == action))
    });
}

fn unseen(fault: &Fault, what: &str, span: Span) -> Diagnostic {
    let action = fault.action();
    let why = if fault.class == Class::Denied {
        format!("not looked at: {what}; the caller may not do {action}")
    } else {
        format!("not looked at: {what}; {} answered `{}`", fault.call.words(), short(fault))
    };
    Diagnostic::new(&T0636, span, why)
        .note("`trainc catalog permissions plan` prints the policy that lets `plan` see everything")
        .fact("action", action)
        .fact("denied", fault.class == Class::Denied)
}

/// What was not looked at, a line for each reason, where nobody reads the notes that say each: an apply that starts a job
/// unchecked must not be silent about it. Empty where everything was seen.
pub fn skipped(problems: &Problems) -> String {
    let mut out = String::new();
    for (denied, why) in [(true, "permission to look is missing"), (false, "the service did not answer")] {
        let notes = problems.iter().filter(|one| {
            one.code == &T0636 && one.facts.get("denied").and_then(serde_json::Value::as_bool) == Some(denied)
        });
        let notes: Vec<&Diagnostic> = notes.collect();
        let actions: BTreeSet<&str> = notes
            .iter()
            .filter_map(|one| one.facts.get("action").and_then(serde_json::Value::as_str))
            .collect();
        let actions: Vec<&str> = actions.into_iter().collect();
        let checks = match notes.len() {
            0 => continue,
            1 => "1 check was".to_owned(),
            more => format!("{more} checks were"),
        };
        out.push_str(&format!("note: {checks} skipped, {why}: {}; -v shows each\n", actions.join(", ")));
    }
    out
}

fn short(fault: &Fault) -> &str {
    if fault.code.is_empty() { &fault.message } else { &fault.code }
}
