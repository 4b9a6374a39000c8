//! Names of figures in logs.

use trainc_predict::memory::MeasuredAs;

/// Meaning of a figure, by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    Step,
    StepSeconds,
    Tokens,
    Samples,
    Mfu,
    Memory(MeasuredAs),
    Loss,
    Input,
    Optimizer,
}

impl Meaning {
    /// Returns its name in messages about the job's own metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::StepSeconds => "step time",
            Self::Tokens => "tokens/s",
            Self::Samples => "samples/s",
            Self::Mfu => "mfu",
            Self::Memory(_) => "memory",
            Self::Loss => "loss",
            Self::Input => "data time",
            Self::Optimizer => "optimizer time",
        }
    }
}

const STEPS: &[&str] = &["step", "global_step", "iteration", "iter"];
pub(super) const STEP_TIMES: &[&str] = &[
    "step_time",
    "step_seconds",
    "step_s",
    "seconds_per_step",
    "sec_per_step",
    "s_per_step",
    "time_per_step",
    "iteration_time",
    "iter_time",
];
pub(super) const TOKENS: &[&str] = &["tokens_per_s", "tokens_per_sec", "tokens_per_second", "tps"];
pub(super) const SAMPLES: &[&str] = &[
    "samples_per_s",
    "samples_per_sec",
    "samples_per_second",
    "sequences_per_s",
    "sequences_per_sec",
    "sequences_per_second",
    "train_samples_per_second",
];
const LOSSES: &[&str] = &["loss", "train_loss", "training_loss", "lm_loss", "train_per_loss"];
const INPUTS: &[&str] = &["data_time", "data_seconds", "data_loading", "data_load_time", "dataloader_time"];
const OPTIMIZERS: &[&str] = &["optimizer_time", "optimizer_seconds", "optim_time", "optimizer_step_time"];
/// Unit suffixes with the factor to the stored unit.
const UNITS: &[(&str, f64)] = &[
    ("_ms", 1e-3),
    ("_bytes", 1.0),
    ("_mib", 1_048_576.0),
    ("_gib", 1_073_741_824.0),
    ("_mb", 1e6),
    ("_gb", 1e9),
];

/// Returns the meaning of a metric and the factor to its unit; `train:tokens_per_s` is tokens per second.
pub(super) fn parse_metric_name(name: &str, gpus: f64) -> Option<(Meaning, f64)> {
    let whole = name.to_lowercase();
    let last = whole.rsplit([':', '.']).next().unwrap_or(&whole);
    let name = last.replace('/', "_per_").replace('-', "_");
    for (words, each) in [
        (STEPS, Meaning::Step),
        (STEP_TIMES, Meaning::StepSeconds),
        (INPUTS, Meaning::Input),
        (OPTIMIZERS, Meaning::Optimizer),
        (LOSSES, Meaning::Loss),
        (&["mfu"][..], Meaning::Mfu),
    ] {
        if words.contains(&name.as_str()) {
            // A loss on other data is a different figure.
            let held_out = ["eval", "val", "test"].iter().any(|word| whole.starts_with(word));
            return (each != Meaning::Loss || !held_out).then_some((each, 1.0));
        }
    }
    // A rate per GPU is multiplied by the number of GPUs, since they run in lockstep.
    let apart = ["_per_gpu", "_per_device", "_per_rank"].iter().find_map(|word| {
        let rest = name.replace(word, "");
        (rest != name).then_some(rest)
    });
    let (rate, times) = apart.map_or((name.clone(), 1.0), |rest| (rest, gpus));
    for (words, each) in [(TOKENS, Meaning::Tokens), (SAMPLES, Meaning::Samples)] {
        if words.contains(&rate.as_str()) {
            return Some((each, times));
        }
    }
    let (base, unit) = UNITS.iter().find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, *unit)))?;
    let times =
        [(STEP_TIMES, Meaning::StepSeconds), (INPUTS, Meaning::Input), (OPTIMIZERS, Meaning::Optimizer)];
    if let Some((_, each)) = times.into_iter().find(|(words, _)| unit < 1.0 && words.contains(&base)) {
        return Some((each, unit));
    }
    // Instruments differ by gigabytes: a name without the instrument is not evidence.
    let kind = if base.contains("allocated") {
        MeasuredAs::Allocated
    } else if base.contains("reserved") {
        MeasuredAs::Reserved
    } else if base.contains("smi") || base.contains("gpu_memory_used") {
        MeasuredAs::Whole
    } else {
        return None;
    };
    (base.contains("mem") || base.contains("allocated") || base.contains("reserved"))
        .then_some((Meaning::Memory(kind), unit))
}
