//! Ranks as threads of one process, for tests.

use std::sync::atomic::AtomicBool;
use std::thread::ScopedJoinHandle;

use crate::comm::{Groups, SharedMemory};
use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::fsdp::{CpuEngine, Engine, shared_memory_plan};
use crate::launch::seconds;
use crate::log::StepMetrics;
use crate::train::{self, Outcome, Report, Start};

/// Creates the engine of one rank on its thread.
pub type Create = dyn Fn(&Config, Groups) -> Result<Box<dyn Engine>, Failure> + Sync;

/// Creates the engine of a CPU rank.
pub fn cpu_engine(config: &Config, groups: Groups) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(CpuEngine::new(config, groups, 1)))
}

/// Outcome, step metrics and evaluation losses of a run.
pub type Trained = (Outcome, Vec<StepMetrics>, Vec<f64>);

/// Trains a whole run on CPU ranks.
pub fn train_on_threads(config: &Config) -> Result<Trained, Failure> {
    train_on_threads_with(config, &cpu_engine)
}

/// Trains a whole run with these engines.
pub fn train_on_threads_with(config: &Config, create: &Create) -> Result<Trained, Failure> {
    #[derive(Default)]
    struct Recorder(Vec<StepMetrics>, Vec<f64>);
    impl Report for Recorder {
        fn start(&mut self, _start: &Start) {}
        fn step(&mut self, line: &StepMetrics) {
            self.0.push(line.clone());
        }
        fn evaluation(&mut self, _step: usize, loss: f64) {
            self.1.push(loss);
        }
        fn note(&mut self, _text: &str) {}
        fn warning(&mut self, _text: &str) {}
    }
    let plan = shared_memory_plan(config);
    let memory = SharedMemory::create(plan.bytes())?;
    let stop = AtomicBool::new(false);
    let c = &config.communication;
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..plan.ranks())
            .map(|rank| {
                let (memory, stop) = (&memory, &stop);
                scope.spawn(move || {
                    let never = seconds(1e6);
                    let (groups, watch) = plan.groups(memory, rank, never, seconds(c.collective_seconds));
                    let mut kept = Recorder::default();
                    let outcome =
                        train::run(config, groups, |groups| create(config, groups), stop, &mut kept);
                    if outcome.is_err() {
                        watch.mark_dead(rank);
                    }
                    outcome.map(|outcome| (outcome, kept.0, kept.1))
                })
            })
            .collect();
        first_result(ranks)
    })
}

/// Creates an engine for each rank of the config in this process, runs `work` on all and returns the first
/// rank's result.
pub fn with_engines<T: Send>(
    config: &Config,
    create: &Create,
    work: &(dyn Fn(&mut dyn Engine, &Config) -> Result<T, Failure> + Sync),
) -> Result<T, Failure> {
    let plan = shared_memory_plan(config);
    let memory = SharedMemory::create(plan.bytes())?;
    let deadline = seconds(config.communication.collective_seconds);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..plan.ranks())
            .map(|rank| {
                let memory = &memory;
                scope.spawn(move || {
                    let (groups, watch) = plan.groups(memory, rank, seconds(1e6), deadline);
                    let made = work(create(config, groups)?.as_mut(), config);
                    if made.is_err() {
                        watch.mark_dead(rank);
                    }
                    made
                })
            })
            .collect();
        first_result(ranks)
    })
}

/// Returns the first rank's result, or the failure that caused those of the other ranks.
fn first_result<T>(ranks: Vec<ScopedJoinHandle<'_, Result<T, Failure>>>) -> Result<T, Failure> {
    let mut results: Vec<_> = ranks
        .into_iter()
        .map(|rank| rank.join().unwrap_or_else(|_| Err(Failure::new(Code::Bug, "a rank panicked"))))
        .collect();
    let cause = results.iter().position(|r| r.as_ref().is_err_and(|f| f.code != Code::Peer));
    results.swap_remove(cause.unwrap_or(0))
}
