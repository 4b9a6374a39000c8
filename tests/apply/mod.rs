//! Apply against the account in memory: it converges from everywhere, and makes nothing twice.

mod adopted;
mod causes;
mod commands;
mod destroys;
mod faults;
mod filled;
mod followed;
mod next_commands;
mod partial_plans;
mod preflights;
mod refused;
mod repositories;
mod saved;
mod scenarios;
mod shared;
mod shown;
mod sweeps;
mod verdicts;
mod workers;

use crate::support::{TODAY, root};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use trainc_apply::diff::{Choices, Obstacle};
use trainc_apply::fake::{Account, Fake, Faults};
use trainc_apply::ledger::{Cause, Item, Ledger, Recorder, Silent};
use trainc_apply::look::Look;
use trainc_apply::patience::Patience;
use trainc_apply::prospect::Prospect;
use trainc_apply::run::Driver;
use trainc_apply::run::ResourceLocks;
use trainc_diag::source::SourceMap;
use trainc_emit::ResourceKind;
use trainc_ir::{Plan, SourceFile, SourceTree};
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};

/// The files of an example, and what stands for the worker's binary.
#[derive(Default)]
struct Disk {
    worker: Option<SourceFile>,
}

impl Disk {
    fn path(from: &str, path: &str) -> std::path::PathBuf {
        root().join(from).parent().unwrap().join(path)
    }
}

impl LayerLoader for Disk {
    fn read_layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let found = Self::path(from, path);
        let text = std::fs::read_to_string(&found).map_err(|_| ReadError::NotFound)?;
        let name = found.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        Ok(LoadedLayer { identity: name.clone(), name, text })
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Disk {
    fn read_directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        let dir = Self::path(from, path);
        let mut files: Vec<SourceFile> = std::fs::read_dir(&dir)
            .map_err(|_| ReadError::NotFound)?
            .flatten()
            .filter(|entry| entry.path().is_file())
            .map(|entry| {
                let bytes = std::fs::read(entry.path()).unwrap();
                SourceFile::new(entry.file_name().to_string_lossy().into_owned(), bytes, false)
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(SourceTree { dir: path.to_owned(), files })
    }

    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        std::fs::read_to_string(Self::path(from, path)).map_err(|_| ReadError::NotFound)
    }

    fn worker_binary(&mut self) -> Option<SourceFile> {
        self.worker.clone()
    }
}

/// A program for Linux on x86-64, as far as its header says.
pub fn elf() -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    bytes[18] = 62;
    bytes
}

/// The plan of an example, with values laid over it.
pub fn plan(example: &str, sets: &[&str]) -> Plan {
    plan_with(&format!("examples/{example}/trainc.kdl"), sets, None)
}

/// The plan of any manifest of the repository, with a binary of the worker.
pub fn plan_with(path: &str, sets: &[&str], worker: Option<Vec<u8>>) -> Plan {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let mut options = Options {
        today: TODAY.to_owned(),
        later_codes: trainc::later_codes(),
        complete: true,
        ..Options::default()
    };
    options.choices.sets = sets.iter().map(|set| (*set).to_owned()).collect();
    let mut sources = SourceMap::default();
    let source = sources.add(path, text.as_str());
    let mut disk = Disk { worker: worker.map(|bytes| SourceFile::new("trainc-worker", bytes, true)) };
    let compiled = trainc_check::compile(source, &text, &options, &mut disk, &mut sources);
    let errors: Vec<_> = compiled.problems.iter().map(|problem| &problem.message).collect();
    compiled.plan_without_errors().unwrap_or_else(|| panic!("{errors:#?}")).clone()
}

/// Runs to the end, or until whoever calls the account is killed.
pub fn run<T>(cloud: &Fake, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(out) = future.as_mut().poll(&mut context) {
            return Some(out);
        }
        if cloud.has_crashed() {
            return None;
        }
    }
}

pub fn patience() -> Patience {
    Patience { poll: Duration::from_secs(15), ..Patience::default() }
}

pub fn look(cloud: &Fake) -> Look<'_, Fake, Fake> {
    Look {
        cloud,
        clock: cloud,
        patience: patience(),
        permits: None,
        asked: None,
        refused: None,
        repeated: None,
    }
}

/// How an apply ended.
#[derive(Debug)]
pub enum End {
    /// Everything is there.
    Done(String),
    /// Something was in the way before the first write.
    Stopped(Vec<Obstacle>),
    /// The account could not be looked at, or something failed.
    Failed(Vec<(Item, Cause)>),
}

/// One apply, as the command does it.
pub async fn apply(cloud: &Fake, plan: &Plan, choices: Choices) -> End {
    apply_with(look(cloud), plan, choices).await
}

/// The same by somebody who waits for capacity.
pub async fn apply_patiently(cloud: &Fake, plan: &Plan, choices: Choices) -> End {
    let mut look = look(cloud);
    look.patience.capacity = Some(Duration::from_hours(2));
    apply_with(look, plan, choices).await
}

async fn apply_with(look: Look<'_, Fake, Fake>, plan: &Plan, choices: Choices) -> End {
    let prospect = match look.prospect(plan, choices).await {
        Ok(prospect) => prospect.expect("a cluster of SageMaker"),
        Err(fault) => {
            return End::Failed(vec![(Item::new(ResourceKind::TrainingJob, ""), Cause::Fault(fault))]);
        }
    };
    let obstacles: Vec<Obstacle> = prospect.obstacles().map(|(_, obstacle)| obstacle).collect();
    if !obstacles.is_empty() {
        return End::Stopped(obstacles);
    }
    if prospect.is_empty() && prospect.is_run_over(choices) {
        return End::Done(String::new());
    }
    drive(look, &prospect, choices).await
}

/// What a prospect says, done.
pub async fn drive(look: Look<'_, Fake, Fake>, prospect: &Prospect, choices: Choices) -> End {
    let ledger = Ledger::default();
    let driver = Driver {
        look,
        desired: &prospect.desired,
        choices,
        recorder: Recorder { ledger: &ledger, listener: &Silent },
        wrote_iam: false.into(),
        written: std::cell::RefCell::default(),
        locks: &ResourceLocks::default(),
    };
    let job = if prospect.is_run_over(choices) {
        driver.adopt_finished(&prospect.target).await
    } else {
        driver.run(&prospect.target).await
    };
    match job {
        Some(name) => End::Done(name),
        None => End::Failed(ledger.failures()),
    }
}

/// What the account holds of trainc: roles, file systems, associations, archives, jobs.
pub fn counts(account: &Account) -> [usize; 5] {
    [
        account.roles.len(),
        account.file_systems.len(),
        account.associations.len(),
        account.objects.len(),
        account.jobs.len(),
    ]
}

/// An account with faults, otherwise as it stands.
pub fn cloud(account: Account, faults: Faults) -> Fake {
    Fake::new(account).with_faults(faults)
}
