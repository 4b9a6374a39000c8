//! What a job asks of its account: room in quotas, addresses of S3, data behind its inputs; each with its place.

use super::facts::{Data, Limit};
use crate::apply::desired::Desired;
use crate::catalog::quotas::{self, Quota, Usage};
use crate::ir::Plan;
use crate::source::Span;

/// The quotas that the job comes near to.
pub(super) fn wanted(plan: &Plan, desired: &Desired) -> Vec<Limit> {
    let Some(cluster) = &plan.job.cluster else { return Vec::new() };
    let span = cluster.instance.span().unwrap_or(cluster.span);
    let nodes_span = cluster.nodes.span().unwrap_or(span);
    let nodes = cluster.nodes.get().unwrap_or(0) as f64;
    let spot = cluster.spot.is_some();
    let mut out = Vec::new();
    let mut add = |quota: Option<Quota>, wanted: f64, is_shared: bool, span: Span| {
        out.extend(quota.map(|quota| Limit { quota, wanted, is_shared, seen: None, span }));
    };
    let planned = cluster.training_plan.value().is_some();
    if let Some(kind) = cluster.instance.value().filter(|_| !planned && nodes > 0.0) {
        add(
            quotas::instance(kind, if spot { Usage::Spot } else { Usage::OnDemand }),
            nodes,
            true,
            nodes_span,
        );
        if cluster.warm_pool_seconds.get().is_some() {
            add(quotas::instance(kind, Usage::WarmPool), nodes, false, nodes_span);
        }
        let (each, all) = if spot {
            ("instances-per-spot-job", "instances-across-spot-jobs")
        } else {
            ("instances-per-job", "instances-across-jobs")
        };
        add(quotas::general(each), nodes, false, nodes_span);
        add(quotas::general(all), nodes, true, nodes_span);
    }
    if let Some(seconds) = cluster.max_run_seconds.val() {
        add(quotas::general("longest-run-time"), seconds.value as f64, false, seconds.span_or(span));
    }
    for system in &desired.file_systems {
        let place = plan.job.storage.iter().find(|storage| storage.name.value() == Some(&system.name));
        let span = place.map_or(span, |storage| storage.capacity_bytes.span().unwrap_or(storage.span));
        let kind = system.create.lustre_configuration.deployment_type.as_deref().unwrap_or("SCRATCH_1");
        let quota = quotas::lustre(kind).map(|(capacity, _)| capacity);
        add(quota, system.create.storage_capacity as f64, false, span);
    }
    out
}

/// Every address of S3 in the manifest, with its place.
pub(in crate::apply) fn places(plan: &Plan) -> Vec<(String, Span)> {
    let job = &plan.job;
    let mut out = Vec::new();
    let mut add = |field: &crate::ir::Field<String>, fallback: Span| {
        out.extend(field.val().map(|val| (val.value.clone(), val.span_or(fallback))));
    };
    for channel in &job.channels {
        for field in [&channel.s3, &channel.manifest, &channel.augmented_manifest] {
            add(field, channel.span);
        }
    }
    for storage in &job.storage {
        for link in storage.imports.iter().chain(&storage.exports) {
            add(&link.s3, link.span);
        }
    }
    if let Some(checkpoint) = &job.checkpoint {
        add(&checkpoint.s3, checkpoint.span);
    }
    if let Some(output) = &job.output {
        add(&output.s3, output.span);
    }
    if let Some(program) = &job.program {
        add(&program.s3, program.span);
        add(&program.upload, program.span);
    }
    out
}

/// What the job reads: nothing there is a mistake.
pub(super) fn inputs(plan: &Plan, desired: &Desired) -> Vec<Data> {
    let mut out = Vec::new();
    let mut add = |name: &str, field: &crate::ir::Field<String>, fallback: Span| {
        let Some(val) = field.val() else { return };
        let uri = crate::apply::desired::here(&val.value, &desired.account);
        out.push(Data { name: name.to_owned(), uri, seen: None, span: val.span_or(fallback) });
    };
    for channel in &plan.job.channels {
        let name = channel.name.value().map_or("", String::as_str);
        for field in [&channel.s3, &channel.manifest, &channel.augmented_manifest] {
            add(name, field, channel.span);
        }
    }
    for storage in &plan.job.storage {
        let name = storage.name.value().map_or("", String::as_str);
        for link in &storage.imports {
            add(name, &link.s3, link.span);
        }
    }
    if let Some(program) = &plan.job.program {
        add("program", &program.s3, program.span);
    }
    out
}
