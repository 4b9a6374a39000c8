//! What keeps costing money after the end of the training job.

use super::cost::warm_pool_usd;
use super::json::AfterEnd;
use trainc_diag::{text, words};
use trainc_emit::ResourceKind;
use trainc_ir::price::describe_price;
use trainc_ir::{CheckpointInterval, Plan};
use trainc_predict::Prediction;
use trainc_predict::round_to_u64;

words! {
    /// A kind of what is billed after the end of a job, the most expensive first.
    BillKind {
        /// A file system that the job creates.
        FileSystem "file-system",
        /// Instances kept after the job.
        WarmPool "warm-pool",
        /// Checkpoints in S3.
        Checkpoints "checkpoints",
        /// The model and other output in S3.
        Output "output",
        /// The uploaded source archive.
        Source "source",
        /// Log streams in CloudWatch.
        Logs "logs",
    }
}

/// The end of what AWS keeps until somebody deletes it.
const DELETED: &str = "deleted";

/// Returns everything that is billed after the end of the job, the most expensive kinds first.
///
/// A program that keeps `keep` checkpoints leaves as many in S3: "If a checkpoint is deleted in the SageMaker
/// AI container, it will also be deleted in the S3 folder" (SageMaker developer guide, model-checkpoints,
/// read 2026-11-26).
pub fn after_end(plan: &Plan, prediction: &Prediction) -> Vec<AfterEnd> {
    let (Some(_), Some(_)) = (&plan.on_sagemaker, &plan.job.cluster) else { return Vec::new() };
    let mut out: Vec<AfterEnd> =
        ResourceKind::ALL.iter().flat_map(|kind| left_by(*kind, plan, prediction)).collect();
    out.sort_by_key(|one| one.kind);
    out
}

/// Returns what the resources of a kind leave to pay.
fn left_by(kind: ResourceKind, plan: &Plan, prediction: &Prediction) -> Vec<AfterEnd> {
    match kind {
        // IAM is free, links are billed with their file system, and a bucket by its objects.
        ResourceKind::Role
        | ResourceKind::RolePolicy
        | ResourceKind::Association
        | ResourceKind::Bucket
        // A few cents a year.
        | ResourceKind::Worker => Vec::new(),
        ResourceKind::FileSystem => plan
            .created_file_systems()
            .map(|(storage, price)| {
                let bytes = storage.capacity_bytes.get();
                let goes = storage.delete_after_job.get() == Some(true);
                let until = if goes {
                    "`trainc apply --wait` deletes it after the job"
                } else {
                    "`trainc destroy --delete-data` deletes it"
                };
                AfterEnd {
                    name: storage.name.value().cloned(),
                    usd_per_month: price.zip(bytes).map(|(price, bytes)| price.usd_per_month(bytes)),
                    bytes,
                    price_date: price.and_then(|price| price.date.clone()),
                    price_source: price.map(|price| price.source.clone()),
                    is_deleted_after_job: goes,
                    ..AfterEnd::new(BillKind::FileSystem, until)
                }
            })
            .collect(),
        ResourceKind::Source => {
            plan.source.iter().map(|_| AfterEnd::new(BillKind::Source, DELETED)).collect()
        }
        ResourceKind::TrainingJob => {
            let output = [BillKind::Output, BillKind::Logs].map(|kind| AfterEnd::new(kind, DELETED));
            warm_pool(plan).into_iter().chain(checkpoints(plan, prediction)).chain(output).collect()
        }
    }
}

fn warm_pool(plan: &Plan) -> Option<AfterEnd> {
    let seconds = plan.job.cluster.as_ref()?.warm_pool_seconds.get().filter(|seconds| *seconds > 0)?;
    Some(AfterEnd {
        most_usd: warm_pool_usd(plan),
        seconds: Some(seconds),
        price_date: plan.rank_price().and_then(|price| price.date.clone()),
        price_source: plan.rank_price().map(|price| price.source.clone()),
        price_estimate: plan.rank_price().and_then(|price| price.estimate().cloned()),
        ..AfterEnd::new(BillKind::WarmPool, "another job takes it")
    })
}

fn checkpoints(plan: &Plan, prediction: &Prediction) -> Option<AfterEnd> {
    let checkpoint = plan.job.checkpoint.as_ref().filter(|checkpoint| !checkpoint.s3.is_absent())?;
    let each_bytes = prediction.run.as_ref().and_then(|run| run.checkpoint).map(|one| one.bytes);
    let steps = plan.run.steps.as_ref().map(|steps| steps.value);
    let written = match (checkpoint.every.get(), steps) {
        (Some(CheckpointInterval::Steps(every)), Some(steps)) => Some((steps / every.max(1)).max(1)),
        _ => None,
    };
    let keep = checkpoint.keep.get().or_else(|| plan.worker.as_ref().map(|worker| worker.keep.value));
    let keep = keep.filter(|keep| written.is_none_or(|written| *keep < written));
    let count = keep.or(written);
    let bytes = each_bytes.zip(count).map(|(bytes, count)| round_to_u64(bytes * count as f64));
    let price = plan.on_sagemaker.as_ref().and_then(|known| known.s3_price.as_ref());
    Some(AfterEnd {
        count,
        keep,
        bytes,
        usd_per_month: price.zip(bytes).map(|(price, bytes)| price.usd_per_month(bytes)),
        price_date: price.and_then(|price| price.date.clone()),
        price_source: price.map(|price| price.source.clone()),
        each_bytes: each_bytes.map(round_to_u64),
        ..AfterEnd::new(BillKind::Checkpoints, DELETED)
    })
}

impl AfterEnd {
    fn new(kind: BillKind, until: &str) -> Self {
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
            is_deleted_after_job: false,
            until: until.to_owned(),
        }
    }

    /// Returns true for a file system.
    pub fn is_file_system(&self) -> bool {
        self.kind == BillKind::FileSystem
    }

    /// Returns true if `trainc destroy` keeps it: what the job wrote, and its logs.
    pub fn outlasts_destroy(&self) -> bool {
        match self.kind {
            BillKind::Checkpoints | BillKind::Output | BillKind::Logs => true,
            BillKind::FileSystem | BillKind::WarmPool | BillKind::Source => false,
        }
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
            BillKind::FileSystem => {
                let name = one.name.as_deref().unwrap_or_default();
                let cost = match (one.usd_per_month, one.bytes) {
                    (Some(usd), _) => format!("{} a month{origin}", text::dollars(usd)),
                    (None, Some(bytes)) => format!("{}, price not known", text::bytes(bytes)),
                    (None, None) => "price not known".to_owned(),
                };
                out.push(format!("file system `{name}`: {cost} until {}", one.until));
            }
            BillKind::WarmPool => {
                let cost = one.most_usd.map_or_else(
                    || "price not known, for".to_owned(),
                    |usd| format!("up to {}{origin} for another", text::dollars(usd)),
                );
                out.push(format!("warm pool: {cost} {}", text::duration(one.seconds.unwrap_or(0))));
            }
            BillKind::Checkpoints => {
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
            kind @ (BillKind::Output | BillKind::Source | BillKind::Logs) => {
                stored.push(kind.word().to_owned());
            }
        }
    }
    let logs = stored.iter().position(|what| *what == BillKind::Logs.word()).map(|at| stored.remove(at));
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
            let one = all.iter().find(|one| one.kind == BillKind::Checkpoints).unwrap();
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
