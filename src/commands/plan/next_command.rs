//! The command that follows a plan, and the reasons for which `apply` would refuse.

use super::{Args, is_online};
use crate::exit;
use std::collections::BTreeSet;
use trainc_apply::verdict::{self, T0602};
use trainc_diag::{Detail, Diagnostic, Invocation, NextCommand, Severity};
use trainc_emit::quote;
use trainc_ops::comparison::Comparison;
use trainc_report::json::Blocked;
use trainc_report::markdown::describe_blocked;

/// Reasons for which `apply` would refuse jobs.
#[derive(Default)]
pub(super) struct Refusals {
    /// Diagnostic codes of the obstacles of all jobs.
    codes: BTreeSet<&'static str>,
    /// Exit code of `apply`.
    exit: u8,
    /// Number of refused jobs, and of all compared jobs.
    jobs: (usize, usize),
    /// Flags that remove obstacles.
    flags: BTreeSet<&'static str>,
    /// True if a problem must be fixed first, which no flag removes.
    mend: bool,
    /// Helps of the problems to fix first.
    pub first: Vec<String>,
    /// A run in progress whose file system was deleted.
    lost: Option<String>,
    /// Number of runs in progress, if no job has changes.
    idle: Option<usize>,
}

impl Refusals {
    /// Collects the obstacles of each job; `invocations` are those of the jobs.
    pub(super) fn new(looked: &[Option<Comparison>], invocations: &[Invocation]) -> Self {
        let mut out = Self::default();
        let mut exits = Vec::new();
        for (one, invocation) in looked.iter().zip(invocations) {
            let Some(one) = one else { continue };
            out.jobs.1 += 1;
            let run = one.findings.iter().find_map(|one| match &one.detail {
                Some(Detail::LostFileSystem { training_job, .. }) => Some(training_job.clone()),
                _ => None,
            });
            out.lost = out.lost.or(run);
            let Some(refusal) = one.refusal() else { continue };
            out.jobs.0 += 1;
            exits.push(refusal.exit);
            out.codes.extend(refusal.codes);
            out.mend |= one.exit != exit::DONE;
            let errors = one.findings.iter().filter(|one| one.severity == Severity::Error);
            // The way to credentials is known from the problem itself.
            errors.filter(|error| error.code != &T0602).for_each(|error| out.add_help(error, invocation));
            for obstacle in &one.obstacles {
                if let Some(flag) = obstacle.flag {
                    out.flags.extend([flag]);
                } else {
                    out.mend = true;
                    out.add_help(&obstacle.diagnostic, invocation);
                }
            }
        }
        out.idle = count_runs_if_unchanged(looked);
        out.exit = verdict::worst_exit(exits).unwrap_or(exit::DONE);
        out
    }

    /// Adds the help of a problem.
    fn add_help(&mut self, problem: &Diagnostic, invocation: &Invocation) {
        let Some(help) = problem.help.as_ref().map(|help| help.fill_commands(invocation).to_string()) else {
            return;
        };
        if self.first.len() < MOST_FIRST && !self.first.contains(&help) {
            self.first.push(help);
        }
    }

    pub(super) fn describe(&self) -> Option<String> {
        let codes: Vec<&'static str> = self.codes.iter().copied().collect();
        match self.jobs {
            (0, _) => None,
            (_, 1) => Some(describe_blocked(&Blocked { exit: self.exit, codes })),
            (some, all) => {
                let why = trainc_diag::text::list(&codes, "and");
                Some(format!("apply would refuse {some} of {all} jobs: {why}"))
            }
        }
    }

    /// Returns true if nothing but the lack of credentials is in the way.
    fn lacks_credentials(&self) -> bool {
        self.codes.iter().eq([&T0602.id])
    }

    /// Returns true if all jobs would be refused.
    fn refuses_all_jobs(&self) -> bool {
        self.jobs.0 > 0 && self.jobs.0 == self.jobs.1
    }
}

/// Maximum number of helps that are repeated.
const MOST_FIRST: usize = 3;

/// Returns the number of runs in progress, if `apply` would change nothing.
fn count_runs_if_unchanged(looked: &[Option<Comparison>]) -> Option<usize> {
    let prospects = looked.iter().map(|one| one.as_ref()?.prospect.as_ref().filter(|seen| seen.is_empty()));
    let all: Vec<_> = prospects.collect::<Option<_>>()?;
    let runs = all.iter().filter_map(|seen| seen.observed.runs.latest.as_ref());
    (!all.is_empty()).then(|| runs.filter(|(job, _)| !job.is_over()).count())
}

/// Returns the command for the next step: with the same manifests and overrides. If `apply` would refuse, the
/// plan with the flag that removes the obstacle, or without an account if there are no credentials; if it
/// would change nothing, the command after it.
pub(super) fn next_command(args: &Args, errors: usize, local: bool, blocked: &Refusals) -> String {
    let input = &args.input;
    let offline = is_online(args) && blocked.lacks_credentials();
    let online = is_online(args) && errors == 0 && !offline;
    let stops = online && blocked.refuses_all_jobs();
    if let Some(file) = args.save.as_ref().filter(|_| online && !stops) {
        let flags = args.account.flag().into_iter().collect();
        return Invocation::new(quote(&file.to_string_lossy()), flags)
            .command_line(&NextCommand::new("apply"));
    }
    let idle = blocked.idle.filter(|_| online && !stops);
    // A run without its file system is not worth following.
    let lost = blocked.lost.as_ref().filter(|_| online && !stops && blocked.jobs.1 == 1);
    let verb = match (errors, online) {
        (1.., _) => "check",
        (0, true) if lost.is_some() => "stop",
        (0, true) if idle.is_some_and(|running| running > 0) => "watch",
        (0, true) if stops => "plan",
        (0, true) => "apply",
        (0, false) if offline => "plan",
        (0, false) if local => "run",
        (0, false) => "emit",
    };
    let mut words = vec!["trainc".to_owned(), verb.to_owned()];
    words.extend(input.named.manifests.iter().map(|path| quote(path)));
    let follows = matches!(verb, "watch" | "stop");
    words.extend(input.overlay.flags());
    words.extend(lost.into_iter().flat_map(|run| ["--run".to_owned(), run.clone()]));
    let flags = [("--new-run", args.new_run && !follows), ("--adopt", args.adopt && !follows)];
    let more = |flag: &str| {
        let over = idle == Some(0) && flag == "--new-run";
        over || (stops && !blocked.mend && blocked.flags.contains(flag))
    };
    words.extend(
        flags
            .into_iter()
            .filter(|(flag, given)| online && (*given || more(flag)))
            .map(|(flag, _)| flag.to_owned()),
    );
    if let Some(file) = args.save.as_ref().filter(|_| stops) {
        words.extend(["--save".to_owned(), quote(&file.to_string_lossy())]);
    }
    if online {
        words.extend(args.account.flag());
    }
    if offline && errors == 0 {
        words.push("--offline".to_owned());
    }
    if verb == "emit" {
        words.extend(["--out".to_owned(), "generated/".to_owned()]);
    }
    words.join(" ")
}
