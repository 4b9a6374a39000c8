//! What keeps costing money after the end of the training job.

use super::cost::warm_pool_usd;
use super::json::AfterEnd;
use super::sections::round_to_u64;
use trainc_diag::text;
use trainc_ir::price::describe_price;
use trainc_ir::{CheckpointInterval, Plan};
use trainc_predict::Prediction;

/// The kind of a file system.
const FILE_SYSTEM: &str = "file-system";
/// The kind of a warm pool.
const WARM_POOL: &str = "warm-pool";
/// The kind of checkpoints in S3.
const CHECKPOINTS: &str = "checkpoints";
/// The kind of the model and other output in S3.
const OUTPUT: &str = "output";
/// The kind of the uploaded source archive.
const SOURCE: &str = "source";
/// The kind of the logs in CloudWatch.
const LOGS: &str = "logs";

/// The end of what AWS keeps until somebody deletes it.
const DELETED: &str = "deleted";

/// Returns everything that is billed after the end of the job, the most expensive kinds first.
///
/// A program that keeps `keep` checkpoints leaves as many in S3: "If a checkpoint is deleted in the SageMaker
/// AI container, it will also be deleted in the S3 folder" (SageMaker developer guide, model-checkpoints,
/// read 2026-11-26).
pub fn after_end(plan: &Plan, prediction: &Prediction) -> Vec<AfterEnd> {
    let checkpoint_bytes = prediction.run.as_ref().and_then(|run| run.checkpoint).map(|one| one.bytes);
    let (Some(known), Some(cluster)) = (&plan.on_sagemaker, &plan.job.cluster) else { return Vec::new() };
    let mut out: Vec<AfterEnd> = plan
        .created_file_systems()
        .map(|(storage, price)| {
            let bytes = storage.capacity_bytes.get();
            AfterEnd {
                name: storage.name.value().cloned(),
                usd_per_month: price.zip(bytes).map(|(price, bytes)| price.usd_per_month(bytes)),
                bytes,
                price_date: price.and_then(|price| price.date.clone()),
                price_source: price.map(|price| price.source.clone()),
                ..AfterEnd::new(
                    FILE_SYSTEM,
                    if storage.delete_after_job.get() == Some(true) {
                        "`trainc apply --wait` deletes it after the job"
                    } else {
                        "`trainc destroy --delete-data` deletes it"
                    },
                )
            }
        })
        .collect();
    if let Some(seconds) = cluster.warm_pool_seconds.get().filter(|seconds| *seconds > 0) {
        out.push(AfterEnd {
            most_usd: warm_pool_usd(plan),
            seconds: Some(seconds),
            price_date: plan.rank_price().and_then(|price| price.date.clone()),
            price_source: plan.rank_price().map(|price| price.source.clone()),
            price_estimate: plan.rank_price().and_then(|price| price.estimate().cloned()),
            ..AfterEnd::new(WARM_POOL, "another job takes it")
        });
    }
    if let Some(checkpoint) = plan.job.checkpoint.as_ref().filter(|checkpoint| !checkpoint.s3.is_absent()) {
        let steps = plan.run.steps.as_ref().map(|steps| steps.value);
        let written = match (checkpoint.every.get(), steps) {
            (Some(CheckpointInterval::Steps(every)), Some(steps)) => Some((steps / every.max(1)).max(1)),
            _ => None,
        };
        let keep = checkpoint.keep.get().or_else(|| plan.worker.as_ref().map(|worker| worker.keep.value));
        let keep = keep.filter(|keep| written.is_none_or(|written| *keep < written));
        let count = keep.or(written);
        let bytes = checkpoint_bytes.zip(count).map(|(bytes, count)| round_to_u64(bytes * count as f64));
        let price = known.s3_price.as_ref();
        out.push(AfterEnd {
            count,
            keep,
            bytes,
            usd_per_month: price.zip(bytes).map(|(price, bytes)| price.usd_per_month(bytes)),
            price_date: price.and_then(|price| price.date.clone()),
            price_source: price.map(|price| price.source.clone()),
            each_bytes: checkpoint_bytes.map(round_to_u64),
            ..AfterEnd::new(CHECKPOINTS, DELETED)
        });
    }
    out.push(AfterEnd::new(OUTPUT, DELETED));
    if plan.source.is_some() {
        out.push(AfterEnd::new(SOURCE, DELETED));
    }
    out.push(AfterEnd::new(LOGS, DELETED));
    out
}

impl AfterEnd {
    fn new(kind: &'static str, until: &str) -> Self {
        Self {
            kind,
            name: None,
            most_usd: None,
            usd_per_month: None,
            seconds: None,
            count: None,
            keep: None,
            bytes: None,
            each_bytes: None,
            price_date: None,
            price_source: None,
            price_estimate: None,
            until: until.to_owned(),
        }
    }
}

impl AfterEnd {
    /// Returns true for a file system.
    pub fn is_file_system(&self) -> bool {
        self.kind == FILE_SYSTEM
    }

    /// Returns true for the source archive.
    pub fn is_source(&self) -> bool {
        self.kind == SOURCE
    }

    /// Returns true if it is still billed this long after the end of the job, in seconds: a warm pool ends.
    pub fn is_billed_after(&self, seconds: u64) -> bool {
        self.kind != WARM_POOL || self.seconds.is_some_and(|end| seconds < end)
    }

    /// Returns true if `trainc destroy` keeps it: what the job wrote, and its logs.
    pub fn outlasts_destroy(&self) -> bool {
        matches!(self.kind, CHECKPOINTS | OUTPUT | LOGS)
    }
}

/// Describes what is billed after the end of a job, with the age of old prices if today's date (days
/// since 1970) is given.
pub fn describe(billed: &[AfterEnd], today: Option<i64>) -> Vec<String> {
    let mut out = Vec::new();
    let mut stored = Vec::new();
    for one in billed {
        let origin = one
            .price_source
            .as_ref()
            .map(|source| {
                let row = (None, one.price_date.as_deref(), source.as_str());
                describe_price(one.price_estimate.as_ref(), row, today)
            })
            .map_or_else(String::new, |origin| format!(" ({origin})"));
        match one.kind {
            FILE_SYSTEM => {
                let name = one.name.as_deref().unwrap_or_default();
                let cost = match (one.usd_per_month, one.bytes) {
                    (Some(usd), _) => format!("{} a month{origin}", text::dollars(usd)),
                    (None, Some(bytes)) => format!("{}, price not known", text::bytes(bytes)),
                    (None, None) => "price not known".to_owned(),
                };
                out.push(format!("file system `{name}`: {cost} until {}", one.until));
            }
            WARM_POOL => {
                let cost = one.most_usd.map_or_else(
                    || "price not known, for".to_owned(),
                    |usd| format!("up to {}{origin} for another", text::dollars(usd)),
                );
                out.push(format!("warm pool: {cost} {}", text::duration(one.seconds.unwrap_or(0))));
            }
            CHECKPOINTS => {
                // That the program keeps no more is said by the manifest.
                let keep = one.keep.map_or_else(String::new, |keep| format!(" (keep={keep})"));
                let count =
                    one.count.map(|count| format!("up to {}{keep}", text::count(count, "checkpoint")));
                stored.push(match (count, one.each_bytes) {
                    (Some(count), Some(bytes)) => {
                        let cost = one.usd_per_month.map_or_else(
                            || " (price not known)".to_owned(),
                            |usd| format!(" for {} a month{origin}", text::dollars(usd)),
                        );
                        format!("{count} of {}{cost}", text::bytes(bytes))
                    }
                    (None, Some(bytes)) => format!("checkpoints of {} each", text::bytes(bytes)),
                    (Some(count), None) => count,
                    (None, None) => "checkpoints".to_owned(),
                });
            }
            kind => stored.push(kind.to_owned()),
        }
    }
    let logs = stored.iter().position(|what| what == LOGS).map(|at| stored.remove(at));
    if !stored.is_empty() {
        out.push(format!("S3: {}, until deleted", text::list(&stored, "and")));
    }
    out.extend(logs.map(|_| "CloudWatch: logs, until deleted".to_owned()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample;

    /// A run of 9,537 steps that saves every 200 of them writes 47 checkpoints.
    #[test]
    fn checkpoints_are_those_that_the_program_keeps() {
        const LLAMA: &str = include_str!("../../../examples/llama-7b-fsdp/trainc.kdl");
        let of = |manifest: &str| {
            let sample = sample(manifest, &[]);
            let all = after_end(sample.compiled.plan.as_ref().unwrap(), &sample.compiled.prediction);
            let one = all.iter().find(|one| one.kind == CHECKPOINTS).unwrap();
            let each = one.each_bytes.unwrap();
            assert_eq!(one.bytes.unwrap().abs_diff(each * one.count.unwrap()) / 100, 0);
            (one.count, one.keep, describe(&all, None).join("\n"))
        };
        let (count, keep, text) = of(LLAMA);
        assert_eq!((count, keep), (Some(3), Some(3)));
        assert!(text.contains("S3: up to 3 checkpoints (keep=3) of 75.3 GiB for $5.20 a month"), "{text}");
        let (count, keep, text) = of(&LLAMA.replace(" keep=3", ""));
        assert_eq!((count, keep), (Some(47), None));
        assert!(text.contains("S3: up to 47 checkpoints of 75.3 GiB"), "{text}");
        assert_eq!(of(&LLAMA.replace("keep=3", "keep=50")).0, Some(47));
        // Without a number of steps per checkpoint, `keep` is all that is known.
        assert_eq!(of(&LLAMA.replace("\"200 steps\"", "\"30m\"")).0, Some(3));
    }
}
