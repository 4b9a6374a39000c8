//! Time and money of a run: start, download, steps, checkpoints; instances, volumes, file systems; interruptions.

use super::constants::{Constants, Name};
use super::from_plan::Unknown;
use super::layout::{Layout, Moments};
use super::prediction::{Checkpoints, CostParts, Interval, Run, RunParts, Speed, Spot};
use crate::catalog::prices::{self, HOURS_PER_MONTH};
use crate::ir::hardware::Instance;
use crate::ir::{Every, Plan, Price, Storage};

const GIB: f64 = 1_073_741_824.0;
const HOUR: f64 = 3_600.0;

/// Bytes of a token in a packed data set, read once.
const TOKEN_BYTES: f64 = 4.0;

/// What time and money of a run depend on beside layout and speed: read once, for as many layouts as there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Optimizer steps.
    steps: f64,
    /// Seconds before the first step: start and download.
    startup: f64,
    download: f64,
    /// When checkpoints are written, and whether the job has any.
    every: Option<Every>,
    checkpoints: bool,
    /// Bytes per second that a node writes, and that file systems take at most.
    node_rate: f64,
    shared_rate: Option<f64>,
    barrier: f64,
    /// Mean seconds between failures of one node.
    node_failures: f64,
    /// Interruptions of one spot instance per hour, where their rate is given.
    interruptions: Option<f64>,
    bills: Bills,
}

/// What is billed. A price that is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bills {
    /// US dollars of an instance for an hour.
    instance: Option<f64>,
    /// GiB of a node's volume, and US dollars of one for a month.
    volume: Option<(f64, f64)>,
    /// US dollars for a month of each file system that the job makes.
    file_systems: Option<Vec<f64>>,
}

impl Bills {
    fn of(plan: &Plan, price: Option<&Price>, volume_is_free: bool) -> Self {
        if !plan.deployable {
            return Self::default();
        }
        let cluster = plan.job.cluster.as_ref();
        // What spot instances cost is not known beforehand, unless the user gave a discount.
        let spot = cluster.is_some_and(|cluster| cluster.spot.is_some())
            && !price.is_some_and(|price| {
                price.source.starts_with("--price") || price.source.contains("--discount")
            });
        let groups = cluster.is_some_and(|cluster| !cluster.groups.is_empty());
        let region = plan.job.region.value().map_or("", String::as_str);
        let volume = if volume_is_free {
            Some((0.0, 0.0))
        } else {
            let bytes = cluster.and_then(|cluster| cluster.volume_bytes.get());
            bytes
                .zip(prices::training_volume(region))
                .map(|(bytes, price)| (bytes as f64 / GIB, price.usd_per_gb_month))
        };
        // An existing file system costs the same without the job.
        let made = plan.job.storage.iter().filter(|storage| storage.id.is_absent());
        Self {
            instance: price.filter(|_| !spot && !groups).map(|price| price.usd_per_hour),
            volume,
            file_systems: made.map(|storage| monthly_usd(region, storage)).collect(),
        }
    }

    /// US dollars of so many nodes for so many seconds.
    fn cost(&self, nodes: f64, seconds: f64) -> CostParts {
        let hours = seconds / HOUR;
        CostParts {
            instances: self.instance.map(|usd| usd * nodes * hours),
            volumes: self.volume.map(|(gib, usd)| gib * nodes * usd * hours / HOURS_PER_MONTH),
            file_systems: self
                .file_systems
                .as_ref()
                .map(|all| all.iter().map(|usd| usd * hours / HOURS_PER_MONTH).sum()),
        }
    }
}

impl CostParts {
    /// Their sum; without the instances the rest says nothing.
    fn usd(&self) -> Option<f64> {
        let known = [self.instances, self.volumes, self.file_systems];
        self.instances.map(|_| known.into_iter().flatten().sum())
    }
}

impl Terms {
    /// Those of a plan, or what is missing.
    pub fn of(plan: &Plan, constants: &Constants) -> Result<Self, Unknown> {
        let steps =
            plan.run.steps.as_ref().ok_or(Unknown("how many steps the run has is not known"))?.value as f64;
        let checkpoint = plan.job.checkpoint.as_ref();
        let cluster = plan.job.cluster.as_ref();
        // Checkpoints that are synchronised with S3 are written to the instances' own disks.
        let local = checkpoint.is_some_and(|checkpoint| checkpoint.s3.value().is_some());
        let shared = plan.job.storage.iter().filter_map(throughput).fold(f64::NAN, f64::max);
        let free = plan.instance.as_ref().is_some_and(|instance| instance.ebs_volume_ignored);
        Ok(Self {
            steps,
            startup: constants.get(Name::Startup),
            download: download(plan, constants),
            every: checkpoint.and_then(|checkpoint| checkpoint.every.get()),
            checkpoints: checkpoint.is_some(),
            node_rate: constants.get(Name::Checkpoint),
            shared_rate: (!local && !shared.is_nan()).then_some(shared),
            barrier: constants.get(Name::Barrier),
            node_failures: cluster
                .and_then(|cluster| cluster.node_mtbf_seconds.get())
                .map_or_else(|| constants.get(Name::NodeFailures), |seconds| seconds as f64),
            interruptions: cluster
                .and_then(|cluster| cluster.spot.as_ref())
                .and_then(|spot| spot.interruptions_per_hour.get()),
            bills: Bills::of(plan, plan.price.as_ref(), free),
        })
    }

    /// The same job on instances of another type, at their price where it is known.
    #[must_use]
    pub fn on(&self, plan: &Plan, instance: &Instance, price: Option<&Price>) -> Self {
        Self { bills: Bills::of(plan, price, instance.ebs_volume_ignored), ..self.clone() }
    }

    /// The same job with so many times the steps.
    #[must_use]
    pub fn times(&self, share: f64) -> Self {
        Self { steps: self.steps * share, ..self.clone() }
    }

    /// The run of a layout whose step time is known.
    pub fn run(&self, layout: &Layout, speed: &Speed) -> Run {
        let nodes = layout.hardware.nodes;
        let training = self.steps * speed.step_seconds;
        let bytes = checkpoint_bytes(layout);
        let rate = nodes * self.node_rate;
        let save = bytes / self.shared_rate.map_or(rate, |shared| rate.min(shared)) + self.barrier;
        let interruptions = self.interruptions.unwrap_or(0.0) * nodes / HOUR;
        let failures = 1.0 / (nodes / self.node_failures.max(1.0) + interruptions);
        let best = best_interval(save, failures);
        let saves = match self.every {
            Some(Every::Steps(n)) => (self.steps / (n as f64).max(1.0)).floor(),
            Some(Every::Seconds(seconds)) => (training / (seconds as f64).max(1.0)).floor(),
            Some(Every::Optimal) => (training / best).floor(),
            None => 0.0,
        };
        let parts =
            RunParts { startup: self.startup, download: self.download, training, checkpoints: saves * save };
        let around = parts.startup + parts.download + parts.checkpoints;
        let seconds = around + training;
        let interval = Interval {
            low: 0.6 * around + self.steps * speed.interval.low,
            high: 2.0 * around + self.steps * speed.interval.high,
        };
        let between = if saves > 0.0 { training / saves } else { training };
        let spot = self.interruptions.map(|_| spot(interruptions, &parts, between, save));
        let cost_parts = self.bills.cost(nodes, spot.map_or(seconds, |spot| spot.expected_seconds));
        let spot = spot.map(|spot| Spot {
            expected_usd: cost_parts.usd(),
            p90_usd: self.bills.cost(nodes, spot.p90_seconds).usd(),
            ..spot
        });
        Run {
            seconds,
            interval,
            parts,
            checkpoint: self.checkpoints.then_some(Checkpoints {
                bytes,
                seconds: save,
                best_interval_seconds: best,
            }),
            spot,
            cost_usd: cost_parts.usd(),
            cost_parts,
        }
    }
}

/// Bytes of a full resumption, of all ranks together: weights in 16 bit, their 32-bit copy and the moments; of an
/// adapter its own.
pub fn checkpoint_bytes(layout: &Layout) -> f64 {
    let moments = match layout.moments {
        Moments::Two => 8.0,
        Moments::TwoInt8 => 2.0,
        Moments::One => 4.0,
        Moments::Zero | Moments::Factored => 0.0,
    };
    layout.lora.map_or(layout.model.parameters, |lora| lora.trainable) * (2.0 + 4.0 + moments)
}

/// Bytes per second that a file system offers.
fn throughput(storage: &Storage) -> Option<f64> {
    let per_tib = storage.throughput_mb_s_tib.get()? as f64 * 1e6;
    Some(storage.capacity_bytes.get()? as f64 / (1024.0 * GIB) * per_tib)
}

/// Daly's higher-order estimate of the interval with the least loss, given the seconds of a save and between failures
/// (Daly 2006, eq. 37); Young's first-order one is its leading term.
pub fn best_interval(save: f64, failures: f64) -> f64 {
    if save >= 2.0 * failures {
        return failures;
    }
    let ratio = save / (2.0 * failures);
    (2.0 * save * failures).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - save
}

/// Copying the data before the start: of a size that the manifest says, where a channel copies it.
fn download(plan: &Plan, constants: &Constants) -> f64 {
    let copied = plan.job.channels.iter().any(|channel| {
        channel.s3.value().is_some()
            && matches!(channel.input.value().map(String::as_str), None | Some("file"))
    });
    let dataset = plan.job.train.dataset.as_ref();
    let tokens = dataset.and_then(|dataset| dataset.tokens.get()).map(|tokens| tokens as f64).or_else(|| {
        let sequences = dataset.and_then(|dataset| dataset.sequences.get())?;
        Some(sequences as f64 * plan.job.train.sequence_length.get()? as f64)
    });
    match tokens {
        Some(tokens) if copied => tokens * TOKEN_BYTES / constants.get(Name::Download),
        _ => 0.0,
    }
}

/// What a file system that the job makes costs for a month.
fn monthly_usd(region: &str, storage: &Storage) -> Option<f64> {
    let upper = |word: &str| word.to_uppercase().replace('-', "_");
    let deployment = storage.deployment.value().map(|word| upper(word))?;
    let kind = storage.storage_type.value().map_or_else(|| "SSD".to_owned(), |word| upper(word));
    let tier = storage.throughput_mb_s_tib.get().and_then(|tier| u32::try_from(tier).ok());
    let price = prices::lustre(region, &deployment, &kind, tier)?;
    Some(storage.capacity_bytes.get()? as f64 / GIB * price.usd_per_gb_month)
}

/// Interruptions as a Poisson process: between two checkpoints the work is lost, and the job starts again.
///
/// Expected time of a stretch of `t` seconds that restarts from its beginning: `(e^(rate t) - 1) / rate`, and a start for
/// each interruption. The ninth decile takes the interruptions' count as normal about its mean.
fn spot(rate: f64, parts: &RunParts, interval: f64, save: f64) -> Spot {
    let restart = parts.startup + parts.download;
    let stretch = interval + save;
    let stretches = (parts.training / interval).max(1.0);
    if rate <= 0.0 {
        let seconds = restart + parts.training + parts.checkpoints;
        return Spot { expected_seconds: seconds, p90_seconds: seconds, ..Spot::default() };
    }
    let working = stretches * ((rate * stretch).exp_m1() / rate);
    let interruptions = rate * working;
    let each = restart + stretch / 2.0;
    let expected_seconds = restart + working + interruptions * restart;
    Spot {
        expected_seconds,
        p90_seconds: expected_seconds + 1.282 * interruptions.sqrt() * each,
        interruptions,
        ..Spot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_interval_is_youngs_for_short_saves() {
        let young = (2.0_f64 * 20.0 * 1e6).sqrt();
        let daly = best_interval(20.0, 1e6);
        assert!((daly / (young - 20.0) - 1.0).abs() < 0.01, "{daly} {young}");
        assert_eq!(best_interval(10.0, 4.0), 4.0);
    }

    /// By hand: ten hours of work in ten stretches on two instances, one interruption of each in 40 hours.
    #[test]
    fn interruptions_are_paid_for() {
        let parts = RunParts { startup: 300.0, download: 0.0, training: 36_000.0, checkpoints: 0.0 };
        let rate = 2.0 / 40.0 / 3_600.0;
        let found = spot(rate, &parts, 3_600.0, 0.0);
        // A stretch is done again from its beginning: (e^0.05 - 1) / 0.05 hours instead of one.
        let working = 10.0 * (0.05_f64.exp() - 1.0) / 0.05 * 3_600.0;
        let expected = 300.0 + working + working * rate * 300.0;
        assert!((found.expected_seconds / expected - 1.0).abs() < 1e-12, "{found:?}");
        assert!(found.p90_seconds > found.expected_seconds);
        assert_eq!(spot(0.0, &parts, 3_600.0, 0.0).expected_seconds, 36_300.0);
    }

    #[test]
    fn the_best_interval_has_the_least_waste() {
        let (save, failures) = (60.0, 20_000.0);
        let waste = |interval: f64| save / interval + (interval + save) / (2.0 * failures);
        let best = best_interval(save, failures);
        assert!(waste(best) <= waste(best * 1.3) && waste(best) <= waste(best / 1.3));
    }
}
