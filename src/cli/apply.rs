//! `trainc apply`.

use super::account::{AccountArgs, Accounts, Task};
use super::args::{Global, Input, problems};
use super::ask::ask;
use super::exit;
use super::io::Io;
use super::manifests::{Manifest, Set, compile_all};
use super::progress::{Mode, Progress, json_line, version_line};
use super::prospects::{Looked, lines, look_at, only, show};
use super::watch::follow;
use crate::apply::cloud::{Clock, Cloud};
use crate::apply::diff::{Choices, Target};
use crate::apply::ledger::{Ledger, Telling};
use crate::apply::observed::Look;
use crate::apply::prospect::Prospect;
use crate::apply::run::Driver;
use crate::apply::saved::{MARK, SavedPlan, stale};
use crate::apply::verdict::{self, Verdict};
use crate::diag::json::problem;
use crate::diag::{Format, Severity};
use crate::emit::quoted;
use crate::ir::Plan;
use serde_json::json;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Make the account match the plan, and start the training job
///
/// Shows what it will do and asks first. It can be run again after any failure: names and tokens follow from the plan,
/// so what is there is found again, and nothing is made twice. Takes manifests, or a plan that `plan --save` wrote.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc apply --simulate job.kdl\n  trainc apply job.kdl\n  trainc apply saved.plan\n  trainc apply jobs/ --yes -o json"
)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    account: AccountArgs,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Start another run, though one of this digest is over, or another digest of the job is there
    #[arg(long)]
    new_run: bool,
    /// Take over objects of our names that carry no tags of this job
    #[arg(long)]
    adopt: bool,
    /// Where AWS has no machines or the quota is used up, try again for so long, as 2h
    #[arg(long, value_name = "TIME", value_parser = super::args::duration)]
    wait_for_capacity: Option<Duration>,
    /// Stay until the job ends; the exit code says how
    #[arg(long)]
    wait: bool,
    /// How to write: human, or json for one object on each line
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("apply") {
        Ok(paths) => paths,
        Err(words) => {
            io.note(&words);
            return exit::USAGE;
        }
    };
    let saved = match paths.as_slice() {
        [one] => saved_plan(one),
        _ => None,
    };
    let mut options = args.input.options(io, true);
    options.fetch = true;
    let paths = match &saved {
        Some(saved) => {
            options.choices.sets.clone_from(&saved.sets);
            options.choices.env.clone_from(&saved.env);
            vec![saved.manifest.clone()]
        }
        None => paths,
    };
    let set = compile_all(&paths, &options);
    let mut accounts = match Accounts::new(&args.account, args.wait_for_capacity) {
        Ok(accounts) => accounts,
        Err(words) => {
            io.note(&words);
            return exit::USAGE;
        }
    };
    if args.output == "json" {
        version_line();
    }
    show_problems(io, &set, global);
    let mut codes = Vec::new();
    for manifest in &set.manifests {
        let Some(plan) = manifest.compiled.checked() else {
            codes.push(exit::MANIFEST);
            continue;
        };
        if args.input.deny_warnings && manifest.compiled.problems.warnings() > 0 {
            codes.push(exit::MANIFEST);
            continue;
        }
        let simulated = accounts.is_simulated();
        let task = Apply { args, global, set: &set, manifest, saved: saved.as_ref(), simulated };
        codes.push(accounts.run(io, plan, task));
    }
    if set.manifests.len() > 1 && args.output != "json" {
        summary(io, &set, &codes);
    }
    let code = if codes.iter().all(|code| *code == exit::DONE) {
        exit::DONE
    } else {
        verdict::worst(codes.into_iter().filter(|code| *code != exit::DONE)).unwrap_or(exit::DONE)
    };
    if args.output == "json" {
        json_line(&json!({"type": "result", "exit": code}));
    }
    code
}

/// What the compiler found: of notes only the count, for `plan` shows them.
fn show_problems(io: &mut Io, set: &Set, global: &Global) {
    let mut set = set.clone();
    if !global.verbose {
        for manifest in &mut set.manifests {
            manifest.compiled.problems.retain(|one| one.severity > Severity::Note);
        }
    }
    if set.manifests.iter().any(|manifest| !manifest.compiled.problems.is_empty()) {
        let text = problems(&set, Format::Human, io, io.color, global);
        io.note(&format!("{text}\n"));
    }
}

/// A plan that was saved, if the path leads to one.
fn saved_plan(path: &str) -> Option<SavedPlan> {
    let text = std::fs::read_to_string(path).ok().filter(|text| text.contains(MARK))?;
    serde_json::from_str(&text).ok()
}

/// What became of each of several jobs.
fn summary(io: &mut Io, set: &Set, codes: &[u8]) {
    io.print("\n");
    for (manifest, code) in set.manifests.iter().zip(codes) {
        let name = manifest.compiled.job.as_deref().unwrap_or(&manifest.path);
        let words = match *code {
            exit::DONE => "applied".to_owned(),
            exit::MANIFEST => "its manifest has errors".to_owned(),
            exit::DIFFERENT => "another version of it is there".to_owned(),
            exit::INCOMPLETE => "incomplete, safe to run again".to_owned(),
            exit::JOB => "the training job failed or was stopped".to_owned(),
            other => format!("exit code {other}"),
        };
        io.print(&format!("  {name}: {words}\n"));
    }
}

struct Apply<'a> {
    args: &'a Args,
    global: &'a Global,
    set: &'a Set,
    manifest: &'a Manifest,
    saved: Option<&'a SavedPlan>,
    simulated: bool,
}

impl Task for Apply<'_> {
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'_>, look: Look<'_, C, K>) -> u8 {
        let Some(plan) = self.manifest.compiled.checked() else { return exit::MANIFEST };
        let choices = self.choices();
        let looked = look_at(&look, plan, choices).await;
        self.problems(io, &looked);
        let Some(prospect) = &looked.prospect else { return looked.exit };
        if let Some(saved) = self.saved
            && let Some(why) = saved.stale(&self.manifest.sha256, prospect)
        {
            self.verdict(io, &stale(plan, &why));
            return exit::DIFFERENT;
        }
        let in_the_way = verdict::worst(looked.obstacles.iter().map(|verdict| verdict.exit));
        for verdict in &looked.obstacles {
            self.verdict(io, verdict);
        }
        if let Some(code) = in_the_way {
            return code;
        }
        if looked.exit != exit::DONE {
            return looked.exit;
        }
        self.show_plan(io, prospect);
        if prospect.is_empty() {
            return self.nothing_to_do(io, look, plan, prospect).await;
        }
        if !self.agreed(io) {
            return exit::INCOMPLETE;
        }
        let ledger = Ledger::default();
        let progress = Progress::new(Mode::of(&self.args.output, self.global.quiet));
        let driver = Driver {
            look,
            desired: &prospect.desired,
            choices,
            telling: Telling { ledger: &ledger, listener: &progress },
            wrote_iam: false.into(),
        };
        let job = driver.run(&prospect.target).await;
        progress.clear();
        let code = self.report(io, plan, &ledger, job.as_deref());
        match job {
            Some(job) if self.args.wait && code == exit::DONE => self.watch(io, look, plan, &job).await,
            _ => code,
        }
    }
}

impl Apply<'_> {
    fn choices(&self) -> Choices {
        match self.saved {
            Some(saved) => saved.choices(),
            None => Choices {
                adopt: self.args.adopt,
                new_run: self.args.new_run,
                after_capacity: self.args.wait_for_capacity.is_some(),
            },
        }
    }

    fn is_json(&self) -> bool {
        self.args.output == "json"
    }

    /// The manifest with the flags that led here, for the command to type next.
    fn path(&self) -> String {
        let input = &self.args.input;
        let mut out = quoted(&self.manifest.path);
        if let Some(env) = &input.env {
            out.push_str(&format!(" --env {}", quoted(env)));
        }
        for set in &input.sets {
            out.push_str(&format!(" --set {}", quoted(set)));
        }
        if let Some(worker) = &input.worker {
            out.push_str(&format!(" --worker {}", quoted(&worker.to_string_lossy())));
        }
        out + &self.args.account.again()
    }

    fn problems(&self, io: &mut Io, looked: &Looked) {
        if self.is_json() {
            for one in looked.findings.iter() {
                json_line(&json!({"type": "problem", "problem": problem(&self.set.sources, one)}));
            }
            return;
        }
        let mut findings = looked.findings.clone();
        if !self.global.verbose {
            findings.retain(|one| one.severity > Severity::Note);
        }
        show(io, self.set, self.manifest, &findings, self.global);
    }

    fn verdict(&self, io: &mut Io, verdict: &Verdict) {
        if self.is_json() {
            json_line(&json!({
                "type": "problem", "exit": verdict.exit,
                "problem": problem(&self.set.sources, &verdict.diagnostic),
            }));
            return;
        }
        show(io, self.set, self.manifest, &only(verdict.diagnostic.clone()), self.global);
    }

    fn show_plan(&self, io: &mut Io, prospect: &Prospect) {
        let desired = &prospect.desired;
        if self.is_json() {
            let changes: Vec<_> = prospect
                .changes
                .iter()
                .map(|change| {
                    json!({
                        "kind": change.kind, "name": change.name, "action": change.action.word(),
                        "because": change.because,
                    })
                })
                .collect();
            json_line(&json!({
                "type": "plan", "job": desired.job, "digest": desired.digest, "account": desired.account,
                "region": desired.region, "changes": changes,
            }));
            return;
        }
        let place = if self.simulated { " (simulated)" } else { "" };
        io.print(&format!(
            "{}, digest {}, in account {}{place}, {}\n\n{}\n",
            desired.job,
            desired.digest.get(..8).unwrap_or_default(),
            desired.account,
            desired.region,
            lines(prospect)
        ));
    }

    async fn nothing_to_do<C: Cloud, K: Clock>(
        &self,
        io: &mut Io<'_>,
        look: Look<'_, C, K>,
        plan: &Plan,
        prospect: &Prospect,
    ) -> u8 {
        let Target::Attach(name) = &prospect.target else { return exit::DONE };
        let status = prospect.observed.runs.latest.as_ref().map_or("", |(job, _)| job.status.as_str());
        if !self.is_json() {
            io.print(&format!("nothing to do: {name} is {status}\n"));
            let next = match status {
                "InProgress" => format!("trainc watch {}", self.path()),
                _ => format!("trainc apply {} --new-run", self.path()),
            };
            io.print(&format!("  next  {next}\n"));
        }
        if self.args.wait || matches!(status, "Failed" | "Stopped") {
            return self.watch(io, look, plan, name).await;
        }
        exit::DONE
    }

    /// Follows the job to its end; once it has completed, what the manifest says goes with it goes.
    async fn watch<C: Cloud, K: Clock>(
        &self,
        io: &mut Io<'_>,
        look: Look<'_, C, K>,
        plan: &Plan,
        job: &str,
    ) -> u8 {
        let code = follow(io, &look, self.set, self.manifest, job, &self.args.output, self.global).await;
        if code != exit::DONE || !self.args.wait {
            return code;
        }
        let progress = Progress::new(Mode::of(&self.args.output, self.global.quiet));
        let failed = super::release::release(plan, look, &progress).await;
        for verdict in &failed {
            self.verdict(io, verdict);
        }
        verdict::worst(failed.iter().map(|verdict| verdict.exit)).unwrap_or(code)
    }

    /// Asks, unless nothing real happens or the user said yes before.
    fn agreed(&self, io: &mut Io) -> bool {
        if self.args.yes || self.simulated || self.saved.is_some() {
            return true;
        }
        if !std::io::stdin().is_terminal() || self.is_json() {
            io.note("nobody is here to ask: say `--yes`, or save a plan with `plan --save` and apply that\n");
            return false;
        }
        ask(io, "Apply this?")
    }

    fn report(&self, io: &mut Io, plan: &crate::ir::Plan, ledger: &Ledger, job: Option<&str>) -> u8 {
        let mut codes = Vec::new();
        for (item, cause) in ledger.failed() {
            let verdict = verdict::verdict(plan, &item, &cause);
            self.verdict(io, &verdict);
            codes.push(verdict.exit);
        }
        for item in ledger.left() {
            if self.is_json() {
                json_line(&json!({"type": "left", "kind": item.kind, "name": item.name}));
            } else {
                io.note(&format!("{} {}: not started\n", item.kind, item.name));
            }
        }
        let code = verdict::worst(codes).unwrap_or(exit::DONE);
        if self.is_json() {
            json_line(&json!({"type": "applied", "training_job": job, "exit": code}));
            return code;
        }
        match job {
            Some(job) => {
                io.print(&format!("applied: {job}\n  next  trainc watch {}\n", self.path()));
            }
            None => {
                io.print(&format!("incomplete, safe to run again\n  next  trainc apply {}\n", self.path()));
            }
        }
        code
    }
}
