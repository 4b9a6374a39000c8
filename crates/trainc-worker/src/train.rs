//! Training loop of one rank: steps, metrics, evaluation, checkpoints, stopping. Decisions that all ranks
//! must make alike are based on an all-reduce.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::atomic::{self, AtomicBool};
use std::time::{Duration, Instant};

use crate::checkpoint::{self, Progress, Saver};
use crate::comm::Groups;
use crate::config::Config;
use crate::data::order::{Order, rank_positions};
use crate::data::tokens::{Documents, Rows, Tokens};
use crate::exit::{Code, Failure};
use crate::fsdp::{Engine, MemoryParts, PassSums};
use crate::kernels::rows::IGNORED;
use crate::log::{StepMetrics, resident};
use crate::optim;

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done.
    Done,
    /// Stopped on request after saving a checkpoint.
    Saved,
}

/// Summary of a run before its first step.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Start {
    /// Optimizer steps done before resuming.
    pub step: usize,
    /// Optimizer steps of the whole run.
    pub steps: usize,
    /// World size.
    pub ranks: usize,
    /// Trainable elements.
    pub parameters: usize,
    /// Memory of a rank by part, in bytes.
    pub memory_parts: MemoryParts,
    /// Current resident memory of the largest rank, in bytes.
    pub resident: u64,
}

/// Receiver of a rank's progress reports; only rank 0 reports.
pub trait Report {
    /// Called when the run starts or resumes.
    fn start(&mut self, start: &Start);
    /// Called after each logged step.
    fn step(&mut self, line: &StepMetrics);
    /// Called after an evaluation, with the step and the loss in nats per token.
    fn evaluation(&mut self, step: usize, loss: f64);
    /// Reports an event.
    fn note(&mut self, text: &str);
    /// Reports a possible mistake.
    fn warning(&mut self, text: &str);
}

/// Trains until all steps are done or a signal sets `stop`.
pub fn run(
    config: &Config,
    mut groups: Groups,
    create: impl FnOnce(Groups) -> Result<Box<dyn Engine>, Failure>,
    stop: &AtomicBool,
    report: &mut dyn Report,
) -> Result<Outcome, Failure> {
    let began = Instant::now();
    let (rank, ranks) = (groups.world.rank(), groups.world.size());
    let sequence = config.model.sequence_length;
    let documents = Documents::from_config(config.data.document_mask);
    let open = |path: &str| Tokens::open(Path::new(path), sequence, config.model.vocab_size, documents);
    let train = open(&config.data.train)?;
    let validation = config.data.validation.as_deref().map(open).transpose()?;
    let order = Order { sequences: train.sequences(), seed: config.data.shuffle.then_some(config.data.seed) };
    let global = config.batch.global_sequences as u64;
    // Unwritable directories are reported before any training.
    let directory = Path::new(&config.checkpoint.directory);
    if rank == 0 {
        let o = &config.output;
        for (name, place, code) in [
            ("checkpoint.directory", &config.checkpoint.directory, Code::Checkpoint),
            ("output.model", &o.model, Code::Output),
            ("output.data", &o.data, Code::Output),
        ] {
            crate::preflight::probe_write_seconds(Path::new(place), rank, 1)
                .map_err(|e| Failure::new(code, format!("`{name}` {place}: {e}")))?;
        }
    }
    // Checkpoints that cannot be resumed are reported before memory is allocated.
    checkpoint::check_resumable(&mut groups, config)?;
    let found = checkpoint::find_on_all_ranks(&mut groups, config, train.digest(), None)?;
    let order_start = found.as_ref().map(|found| found.order).unwrap_or_default();
    let by_epochs = config.data.epochs.map_or(u64::MAX, |epochs| {
        order_start.step as u64 + epochs.saturating_mul(train.sequences()) / global
    });
    let steps = (config.schedule.steps as u64).min(by_epochs) as usize;
    if steps == 0 {
        return Err(Failure::new(
            Code::Data,
            format!(
                "{}: {} sequences do not fill a step of {global} sequences within `data.epochs`",
                config.data.train,
                train.sequences()
            ),
        ));
    }
    if let Some(weights) = &config.model.weights {
        crate::hf::open_matching(config, Path::new(weights))?;
    }
    let mut engine = create(groups)?;
    let engine = engine.as_mut();
    // A checkpoint of adapters does not contain the base weights.
    if let Some(weights) = &config.model.weights
        && (found.is_none() || config.model.adapter.is_some())
    {
        crate::hf::load(engine, config, Path::new(weights))?;
    }
    let resume = config.checkpoint.resume.as_str();
    let path = (resume != "auto" && resume != "never").then_some(resume);
    let mut run = checkpoint::Run {
        config: config.digest.clone(),
        seed: config.data.seed,
        data: train.digest().to_owned(),
        global_sequences: global,
        order: order_start,
        began: path.map(str::to_owned),
        model: checkpoint::model_settings(config),
        settings: checkpoint::training_settings(config),
        stays: path.map(Into::into),
        passed_over: found.as_ref().map(|found| found.passed_over.clone()).unwrap_or_default(),
        periodic: config.checkpoint.every_seconds.is_some() || config.checkpoint.every_steps.is_some(),
    };
    let mut step = 0;
    let mut warnings = length_warnings(config, train.sequences());
    if let Some(weights) = &config.model.weights {
        warnings.extend(crate::hf::dropout_warning(Path::new(weights))?);
    }
    if let Some(found) = &found {
        checkpoint::restore(engine, found)?;
        step = found.step;
        warnings.extend(found.warnings.iter().cloned());
        if let Some(choice) = &found.choice {
            run.began = run.began.or_else(|| choice.state.began.clone());
            warnings.extend(checkpoint::describe_changes(config, &choice.state));
            if rank == 0 {
                report.note(&format!("resumed at step {step} from {}", choice.path.display()));
            }
        }
    }
    let mut saver = Saver::new(engine, directory, config.checkpoint.keep, run)?;
    let largest = |engine: &mut dyn Engine, mine: u64| -> Result<u64, Failure> {
        let mut all = vec![0.0; ranks];
        all[rank] = mine as f64;
        engine.groups().world.all_reduce_f64(&mut all)?;
        Ok(all.iter().fold(0.0f64, |m, v| m.max(*v)) as u64)
    };
    let now = largest(engine, resident())?;
    if rank == 0 {
        report.start(&Start {
            step,
            steps,
            ranks,
            parameters: engine.shards().iter().map(|s| s.unit.len).sum(),
            memory_parts: MemoryParts::from_config(config),
            resident: now,
        });
        for warning in &warnings {
            report.warning(warning);
        }
        let read = steps as f64 * global as f64 / train.sequences() as f64;
        report.note(&format!(
            "{steps} steps of {global} sequences: {read:.2} passes over the {} sequences of `data.train`",
            train.sequences()
        ));
        if step >= steps {
            report.note(&format!("all {steps} steps are already done: nothing to train"));
        }
    }

    let accumulation = config.batch.accumulation;
    let mut rows = Rows::default();
    let flops = flops_per_step(config);
    let mut saves = Saves::new(config);
    let (training_began, first_step) = (Instant::now(), step);
    // A checkpoint from the run's own directory is already saved.
    let mut saved_at = found.as_ref().is_some_and(|found| found.own).then_some(step);
    while step < steps {
        let start = Instant::now();
        rows.clear();
        for pass in 0..accumulation {
            for place in rank_positions(&config.batch, ranks, rank, (step - order_start.step) as u64, pass) {
                train.read(order.sequence_at(place), &mut rows)?;
            }
        }
        let tokens = (config.batch.global_sequences * sequence) as f64;
        // Each loss is divided by the number of counted labels in the whole step.
        let counted = if train.has_no_excluded_labels() {
            tokens
        } else {
            let mut sum = [rows.count_labels() as f64];
            engine.groups().world.all_reduce_f64(&mut sum)?;
            sum[0].max(1.0)
        };
        let mut halted = false;
        for pass in 0..accumulation {
            let range = pass * engine.rows()..(pass + 1) * engine.rows();
            if accumulation > 1 {
                let mut flag = [f64::from(u8::from(stop.load(atomic::Ordering::Relaxed)))];
                engine.groups().world.all_reduce_f64(&mut flag)?;
                halted = flag[0] > 0.0;
                if halted {
                    break;
                }
            }
            engine.set_document_starts(rows.begins.get(range.clone()).unwrap_or_default());
            engine.micro_step(&rows.inputs[range.clone()], &rows.labels[range], 1.0 / counted)?;
        }
        if halted {
            // The partial step is dropped; its sequences are read again.
            engine.clear_gradients()?;
            save_at_end(&mut saver, engine, step, saved_at, report)?;
            return Ok(Outcome::Saved);
        }
        let PassSums { loss, squared_norm } = engine.reduce()?;
        let seconds = began.elapsed().as_secs_f64();
        let late = config.limits.max_seconds.is_some_and(|limit| seconds > limit);
        let due = saves.is_due(step + 1);
        // One small all-reduce per step: loss, squared norm, stop requests, whether rank 0 wants to save, and
        // how many ranks have finished their part of the current save.
        let mut sums = vec![0.0; 5 + ranks];
        sums[0] = loss;
        sums[1] = squared_norm;
        sums[2] = f64::from(u8::from(late || stop.load(atomic::Ordering::Relaxed)));
        sums[3] = f64::from(u8::from(due && rank == 0));
        sums[4] = f64::from(u8::from(saver.is_ready()));
        sums[5 + rank] = engine.peak_memory() as f64;
        engine.groups().world.all_reduce_f64(&mut sums)?;
        let loss = sums[0] / counted;
        let norm = sums[1].sqrt();
        let limit = config.limits.max_loss.unwrap_or(f64::INFINITY);
        if !loss.is_finite() || !norm.is_finite() || loss > limit {
            return Err(Failure::new(
                Code::Loss,
                format!(
                    "step {}: loss {loss}, gradient norm {norm}: {}",
                    step + 1,
                    describe_divergence(loss, norm, limit)
                ),
            ));
        }
        let rate = optim::learning_rate(config.optimizer.learning_rate, &config.schedule, step);
        engine.update(&config.optimizer, step, rate, optim::clip_factor(norm, config.optimizer.clip_norm))?;
        step += 1;
        if rank == 0 && (step.is_multiple_of(config.log.every_steps) || step == steps) {
            let memory = sums[5..].iter().fold(0.0f64, |m, v| m.max(*v)) as u64;
            let seconds = start.elapsed().as_secs_f64();
            let average = tokens * (step - first_step) as f64 / training_began.elapsed().as_secs_f64();
            let peak = config.gpu.peak_flops.filter(|_| config.uses_gpus());
            report.step(&StepMetrics {
                step,
                loss,
                grad_norm: norm,
                lr: rate,
                tokens_per_s: tokens / seconds,
                average_tokens_per_s: average,
                mfu: peak.map(|peak| flops / seconds / (peak * ranks as f64)),
                memory,
            });
        }
        crate::fault_injection::wait_for_stop("step", stop);
        // After a stop request the grace period is reserved for the checkpoint.
        if sums[2] == 0.0
            && config
                .log
                .evaluate_every_steps
                .is_some_and(|every| step.is_multiple_of(every) || step == steps)
            && let Some(validation) = &validation
        {
            match evaluate(config, engine, validation, stop)? {
                Some(loss) if rank == 0 => report.evaluation(step, loss),
                None if step < steps => {
                    save_at_end(&mut saver, engine, step, saved_at, report)?;
                    return Ok(Outcome::Saved);
                }
                _ => {}
            }
        }
        if sums[4] == ranks as f64 {
            let progress = saver.advance(engine)?;
            if matches!(progress, Progress::Failed(_)) {
                saved_at = None;
            }
            saves.note(progress, rank, report)?;
        }
        if sums[2] > 0.0 && step < steps {
            save_at_end(&mut saver, engine, step, saved_at, report)?;
            return Ok(Outcome::Saved);
        }
        if sums[3] > 0.0 && step < steps {
            saves.note(saver.drain(engine)?, rank, report)?;
            saver.begin(engine, step)?;
            saved_at = Some(step);
            saves.begun = Instant::now();
        }
    }
    save_at_end(&mut saver, engine, step, saved_at, report)?;
    let whole = crate::hf::export(engine, config, Path::new(&config.output.model), stop)?;
    if !whole && rank == 0 {
        report
            .note("stopped before the model was written: all steps are saved, and the next start writes it");
    }
    Ok(if whole { Outcome::Done } else { Outcome::Saved })
}

/// Describes a loss or gradient norm that is not finite, or a loss above its limit.
fn describe_divergence(loss: f64, norm: f64, limit: f64) -> String {
    match (loss.is_finite(), norm.is_finite()) {
        (true, true) => format!("the loss exceeds `limits.max_loss` {limit}"),
        (true, false) => "the gradient norm is not finite".to_owned(),
        (false, true) => "the loss is not finite".to_owned(),
        (false, false) => "neither is finite".to_owned(),
    }
}

/// Warns if `data.epochs` and `schedule.steps` imply different lengths; the shorter one applies.
pub(crate) fn length_warnings(config: &Config, sequences: u64) -> Vec<String> {
    let (global, steps) = (config.batch.global_sequences as u64, config.schedule.steps as u64);
    let Some(epochs) = config.data.epochs else { return Vec::new() };
    let by_epochs = epochs.saturating_mul(sequences) / global;
    let both = format!(
        "`data.epochs` {epochs} over {sequences} sequences gives {by_epochs} steps of {global}, \
            but `schedule.steps` is {steps}"
    );
    match by_epochs.cmp(&steps) {
        Ordering::Less => vec![format!("{both}: the run ends before the schedule does")],
        Ordering::Greater => vec![format!("{both}: the run ends before all epochs are done")],
        Ordering::Equal => Vec::new(),
    }
}

/// Periodic saves: when one is due, and how long they may fail.
struct Saves<'a> {
    config: &'a Config,
    /// Start of the last one.
    begun: Instant,
    /// Start of the run, or end of the last one that succeeded.
    newest: Instant,
    /// Those that have failed since then, and when the last one did.
    failed: u32,
    failed_at: Option<Instant>,
}

impl<'a> Saves<'a> {
    /// Least time between a failure and the next try.
    const PAUSE: Duration = Duration::from_secs(1);
    /// Time for which saves may fail, however short their interval is.
    const LEAST: Duration = Duration::from_mins(1);

    fn new(config: &'a Config) -> Self {
        Self { config, begun: Instant::now(), newest: Instant::now(), failed: 0, failed_at: None }
    }

    fn is_due(&self, step: usize) -> bool {
        let c = &self.config.checkpoint;
        let by_time = c.every_seconds.is_some_and(|s| self.begun.elapsed().as_secs_f64() >= s);
        (by_time || c.every_steps.is_some_and(|every| step.is_multiple_of(every)))
            && self.failed_at.is_none_or(|at| at.elapsed() >= Self::PAUSE)
    }

    /// Notes how a save ended. Fails if no checkpoint is younger than the intervals that the config allows.
    fn note(&mut self, progress: Progress, rank: usize, report: &mut dyn Report) -> Result<(), Failure> {
        match progress {
            Progress::Pending => {}
            Progress::Complete(step) => {
                (self.newest, self.failed, self.failed_at) = (Instant::now(), 0, None);
                if rank == 0 {
                    report.note(&format!("checkpoint of step {step} is complete"));
                }
            }
            Progress::Failed(why) => {
                self.failed += 1;
                self.failed_at = Some(Instant::now());
                let most = self.config.checkpoint.max_age_intervals;
                let least = crate::fault_injection::minute().unwrap_or(Self::LEAST);
                if self.failed >= most && self.newest.elapsed() >= least {
                    let seconds = self.newest.elapsed().as_secs();
                    return Err(Failure::new(
                        Code::Checkpoint,
                        format!(
                            "{why}; {} saves have failed, and the last checkpoint is {seconds} s old",
                            self.failed
                        ),
                    ));
                }
                if rank == 0 {
                    report.warning(&format!("{why}; saved again after the next interval"));
                }
            }
        }
        Ok(())
    }
}

/// Saves the current state and returns when the checkpoint is complete. A failure is tried again, since
/// nothing comes after it.
fn save_at_end(
    saver: &mut Saver,
    engine: &mut dyn Engine,
    step: usize,
    begun: Option<usize>,
    report: &mut dyn Report,
) -> Result<(), Failure> {
    const TRIES: usize = 3;
    const PAUSE: Duration = Duration::from_secs(2);
    let rank = engine.groups().world.rank();
    let mut progress = saver.drain(engine)?;
    if begun == Some(step) && !matches!(progress, Progress::Failed(_)) {
        return Ok(());
    }
    for number in 1.. {
        progress = saver.save_now(engine, step)?;
        let Progress::Failed(why) = &progress else { break };
        if number == TRIES {
            return Err(Failure::new(Code::Checkpoint, why.clone()));
        }
        if rank == 0 {
            report.warning(&format!("{why}; saved again in {} s", PAUSE.as_secs()));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns the floating point operations of a step: six for each trained weight of a matrix and four for each
/// frozen one, per token, without the token table, and half of the attention's, which is causal.
fn flops_per_step(config: &Config) -> f64 {
    let shape = crate::model::layout::Shape::from_model(&config.model);
    let m = &config.model;
    let (table, head) =
        (m.vocab_size * m.hidden_size, if shape.tied { m.vocab_size * m.hidden_size } else { 0 });
    let weights: f64 =
        shape.units().iter().map(|unit| if unit.trained { 6.0 } else { 4.0 } * unit.len as f64).sum();
    let rest = if shape.adapter.is_none() { 6.0 } else { 4.0 } * (table - head) as f64;
    let attention = 6 * m.layers * m.heads * m.head_dim * m.sequence_length;
    (weights - rest + attention as f64) * (config.batch.global_sequences * m.sequence_length) as f64
}

/// Returns the mean loss over all validation sequences; incomplete passes are padded with ignored labels.
/// Returns none if a signal arrived meanwhile.
fn evaluate(
    config: &Config,
    engine: &mut dyn Engine,
    data: &Tokens,
    stop: &AtomicBool,
) -> Result<Option<f64>, Failure> {
    let (rank, ranks) = (engine.groups().world.rank(), engine.groups().world.size());
    let micro = config.batch.micro;
    let per_pass = (micro * ranks) as u64;
    let (mut loss, mut count) = (0.0, 0.0);
    for pass in 0..data.sequences().div_ceil(per_pass) {
        let mut halt = [f64::from(u8::from(stop.load(atomic::Ordering::Relaxed)))];
        engine.groups().world.all_reduce_f64(&mut halt)?;
        if halt[0] > 0.0 {
            return Ok(None);
        }
        let mut rows = Rows::default();
        for row in 0..micro {
            let at = pass * per_pass + (rank * micro + row) as u64;
            data.read(at.min(data.sequences() - 1), &mut rows)?;
            if at >= data.sequences() {
                let filled = rows.labels.len() - config.model.sequence_length;
                rows.labels[filled..].fill(IGNORED);
            }
        }
        engine.set_document_starts(&rows.begins);
        loss += engine.evaluate(&rows.inputs, &rows.labels)?;
        count += rows.count_labels() as f64;
    }
    let mut sums = [loss, count];
    engine.groups().world.all_reduce_f64(&mut sums)?;
    Ok(Some(sums[0] / sums[1].max(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_sum_is_unusable() {
        assert_eq!(describe_divergence(4.0, 1.0, 3.0), "the loss exceeds `limits.max_loss` 3");
        assert_eq!(describe_divergence(4.0, f64::INFINITY, f64::INFINITY), "the gradient norm is not finite");
        assert_eq!(describe_divergence(f64::NAN, 1.0, 3.0), "the loss is not finite");
        assert_eq!(describe_divergence(f64::NAN, f64::NAN, 3.0), "neither is finite");
    }
}
