//! Time and money of a run: start, download, steps, checkpoints; instances, volumes, file systems; interruptions.

use super::constants::{Constants, Name};
use super::from_plan::Unknown;
use super::layout::{Layout, Moments};
use super::prediction::{Checkpoints, CostParts, Interval, Run, RunParts, Speed, Spot};
use crate::catalog::prices::{self, HOURS_PER_MONTH};
use crate::ir::{Every, Plan, Storage};

const GIB: f64 = 1_073_741_824.0;
const HOUR: f64 = 3_600.0;

/// Bytes of a token in a packed data set, read once.
const TOKEN_BYTES: f64 = 4.0;

/// The run of a plan whose step time is known, or what is missing.
pub fn run(plan: &Plan, layout: &Layout, speed: &Speed, constants: &Constants) -> Result<Run, Unknown> {
    let steps =
        plan.run.steps.as_ref().ok_or(Unknown("how many steps the run has is not known"))?.value as f64;
    let training = steps * speed.step_seconds;
    let bytes = checkpoint_bytes(layout);
    let save = bytes / checkpoint_rate(plan, layout, constants) + constants.get(Name::Barrier);
    let failures = mean_time_between_failures(plan, layout, constants);
    let best = best_interval(save, failures);
    let every = plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.every.get());
    let saves = match every {
        Some(Every::Steps(n)) => (steps / (n as f64).max(1.0)).floor(),
        Some(Every::Seconds(seconds)) => (training / (seconds as f64).max(1.0)).floor(),
        Some(Every::Optimal) => (training / best).floor(),
        None => 0.0,
    };
    let parts = RunParts {
        startup: constants.get(Name::Startup),
        download: download(plan, layout, constants),
        training,
        checkpoints: saves * save,
    };
    let around = parts.startup + parts.download + parts.checkpoints;
    let seconds = around + training;
    let interval = Interval {
        low: 0.6 * around + steps * speed.interval.low,
        high: 2.0 * around + steps * speed.interval.high,
    };
    let cost_parts = cost(plan, layout, seconds);
    let known = [cost_parts.instances, cost_parts.volumes, cost_parts.file_systems];
    Ok(Run {
        seconds,
        interval,
        parts,
        checkpoint: (plan.job.checkpoint.is_some() || every.is_some()).then_some(Checkpoints {
            bytes,
            seconds: save,
            best_interval_seconds: best,
        }),
        spot: spot(plan, layout, &parts, if saves > 0.0 { training / saves } else { training }, save),
        // Without the instances the rest says nothing.
        cost_usd: cost_parts.instances.map(|_| known.into_iter().flatten().sum()),
        cost_parts,
    })
}

/// Bytes of a full resumption: weights in 16 bit, their 32-bit copy and the moments; of an adapter its own.
fn checkpoint_bytes(layout: &Layout) -> f64 {
    let moments = match layout.moments {
        Moments::Two => 8.0,
        Moments::TwoInt8 => 2.0,
        Moments::One => 4.0,
        Moments::Zero | Moments::Factored => 0.0,
    };
    layout.lora.map_or(layout.model.parameters, |lora| lora.trainable) * (2.0 + 4.0 + moments)
}

/// Bytes per second of all nodes together; a file system of the job bounds it.
fn checkpoint_rate(plan: &Plan, layout: &Layout, constants: &Constants) -> f64 {
    let nodes = layout.hardware.nodes * constants.get(Name::Checkpoint);
    // Checkpoints that are synchronised with S3 are written to the instances' own disks.
    let local = plan.job.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.s3.value().is_some());
    let shared = plan.job.storage.iter().filter_map(throughput).fold(f64::NAN, f64::max);
    if local || shared.is_nan() { nodes } else { nodes.min(shared) }
}

/// Bytes per second that a file system offers.
fn throughput(storage: &Storage) -> Option<f64> {
    let per_tib = storage.throughput_mb_s_tib.get()? as f64 * 1e6;
    Some(storage.capacity_bytes.get()? as f64 / (1024.0 * GIB) * per_tib)
}

fn mean_time_between_failures(plan: &Plan, layout: &Layout, constants: &Constants) -> f64 {
    let node = plan
        .job
        .cluster
        .as_ref()
        .and_then(|cluster| cluster.node_mtbf_seconds.get())
        .map_or_else(|| constants.get(Name::NodeFailures), |seconds| seconds as f64);
    let rate = layout.hardware.nodes / node.max(1.0) + interruptions(plan, layout);
    1.0 / rate
}

/// Interruptions of spot instances per second, of any of the instances.
fn interruptions(plan: &Plan, layout: &Layout) -> f64 {
    let spot = plan.job.cluster.as_ref().and_then(|cluster| cluster.spot.as_ref());
    spot.and_then(|spot| spot.interruptions_per_hour.get()).unwrap_or(0.0) * layout.hardware.nodes / HOUR
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
fn download(plan: &Plan, layout: &Layout, constants: &Constants) -> f64 {
    let copied = plan.job.channels.iter().any(|channel| {
        channel.s3.value().is_some()
            && matches!(channel.input.value().map(String::as_str), None | Some("file"))
    });
    let dataset = plan.job.train.dataset.as_ref();
    let tokens = dataset.and_then(|dataset| dataset.tokens.get()).map(|tokens| tokens as f64).or_else(|| {
        let sequences = dataset.and_then(|dataset| dataset.sequences.get())?;
        Some(sequences as f64 * layout.work.sequence_length)
    });
    match tokens {
        Some(tokens) if copied => tokens * TOKEN_BYTES / constants.get(Name::Download),
        _ => 0.0,
    }
}

fn cost(plan: &Plan, layout: &Layout, seconds: f64) -> CostParts {
    if !plan.deployable {
        return CostParts::default();
    }
    let hours = seconds / HOUR;
    let cluster = plan.job.cluster.as_ref();
    // What spot instances cost is not known beforehand, unless the user gave a discount.
    let spot = cluster.is_some_and(|cluster| cluster.spot.is_some())
        && !plan
            .price
            .as_ref()
            .is_some_and(|price| price.source.starts_with("--price") || price.source.contains("--discount"));
    let groups = cluster.is_some_and(|cluster| !cluster.groups.is_empty());
    let instances = plan
        .price
        .as_ref()
        .filter(|_| !spot && !groups)
        .map(|price| price.usd_per_hour * layout.hardware.nodes * hours);
    let region = plan.job.region.value().map_or("", String::as_str);
    let volumes = if plan.instance.as_ref().is_some_and(|instance| instance.ebs_volume_ignored) {
        Some(0.0)
    } else {
        let bytes = cluster.and_then(|cluster| cluster.volume_bytes.get());
        bytes.zip(prices::training_volume(region)).map(|(bytes, price)| {
            bytes as f64 / GIB * layout.hardware.nodes * price.usd_per_gb_month * hours / HOURS_PER_MONTH
        })
    };
    // An existing file system costs the same without the job.
    let made = plan.job.storage.iter().filter(|storage| storage.id.is_absent());
    let file_systems = made
        .map(|storage| Some(monthly_usd(region, storage)? * hours / HOURS_PER_MONTH))
        .sum::<Option<f64>>();
    CostParts { instances, volumes, file_systems }
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
fn spot(plan: &Plan, layout: &Layout, parts: &RunParts, interval: f64, save: f64) -> Option<Spot> {
    let cluster = plan.job.cluster.as_ref()?;
    cluster.spot.as_ref()?.interruptions_per_hour.get()?;
    let rate = interruptions(plan, layout);
    let restart = parts.startup + parts.download;
    let stretch = interval + save;
    let stretches = (parts.training / interval).max(1.0);
    if rate <= 0.0 {
        let seconds = restart + parts.training + parts.checkpoints;
        return Some(Spot { expected_seconds: seconds, p90_seconds: seconds, interruptions: 0.0 });
    }
    let working = stretches * ((rate * stretch).exp_m1() / rate);
    let interruptions = rate * working;
    let each = restart + stretch / 2.0;
    let expected_seconds = restart + working + interruptions * restart;
    Some(Spot {
        expected_seconds,
        p90_seconds: expected_seconds + 1.282 * interruptions.sqrt() * each,
        interruptions,
    })
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

    #[test]
    fn the_best_interval_has_the_least_waste() {
        let (save, failures) = (60.0, 20_000.0);
        let waste = |interval: f64| save / interval + (interval + save) / (2.0 * failures);
        let best = best_interval(save, failures);
        assert!(waste(best) <= waste(best * 1.3) && waste(best) <= waste(best / 1.3));
    }
}
