//! Requirements of a job on its account: quotas, S3 locations and input data, each with its span.

use super::facts::{Data, Limit};
use crate::account::{Association, Caller, FileSystem, TrainingJob};
use crate::desired::{Desired, WantedFileSystem};
use crate::file_systems;
use crate::observed::ObservedFileSystem;
use crate::prospect::Prospect;
use std::collections::{BTreeMap, BTreeSet};
use trainc_catalog::quotas::{self, Quota, Usage};
use trainc_diag::source::Span;
use trainc_ir::{Access, Alternative, Alternatives, Plan};

/// The known state of the account when queries are selected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The resources that the plan requires.
    pub desired: &'a Desired,
    /// The existing file systems for each of the plan's.
    pub systems: &'a [ObservedFileSystem],
    /// GiB of other Lustre file systems in the account, by deployment type.
    pub taken: &'a BTreeMap<String, u64>,
    /// Runs of the job that were described.
    pub described: &'a [TrainingJob],
}

impl Prospect {
    /// Returns the state for selecting further queries.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            caller: &self.caller,
            desired: &self.desired,
            systems: &self.observed.file_systems,
            taken: &self.taken,
            described: &self.observed.runs.described,
        }
    }
}

/// Returns the quotas that the job may exceed. An existing file system of sufficient size needs no further
/// quota.
pub(super) fn wanted_limits(plan: &Plan, view: View<'_>) -> Vec<Limit> {
    let Some(cluster) = &plan.job.cluster else { return Vec::new() };
    let span = cluster.instance.span().unwrap_or(cluster.span);
    let nodes_span = cluster.nodes.span().unwrap_or(span);
    let alternatives: Vec<&Alternative> =
        plan.fleet.alternatives().into_iter().flat_map(Alternatives::iter).collect();
    // Running instances are counted only for a cluster of one instance type.
    let is_shared = cluster.groups.is_empty();
    let mut out = Vec::new();
    let mut add = |quota: Option<Quota>, wanted: f64, is_shared: bool, of: Option<&str>, span: Span| {
        out.extend(quota.map(|quota| Limit {
            quota,
            wanted,
            taken: 0.0,
            instance: of.map(str::to_owned),
            is_shared,
            seen: None,
            is_own: false,
            is_default: false,
            span,
        }));
    };
    let planned = cluster.training_plan.value().is_some();
    let most = alternatives.iter().filter_map(|one| one.instance_count()).max().unwrap_or(0) as f64;
    if !planned && most > 0.0 {
        for one in alternatives.iter().flat_map(|one| one.instances_by_type()) {
            let Some(count) = one.nodes.map(|nodes| nodes as f64) else { continue };
            let usage = if plan.is_spot() { Usage::Spot } else { Usage::OnDemand };
            let (kind, span) = (Some(one.instance), one.nodes_span);
            add(quotas::instance(one.instance, usage), count, is_shared, kind, span);
            if cluster.warm_pool_seconds.get().is_some() {
                add(quotas::instance(one.instance, Usage::WarmPool), count, false, kind, span);
            }
        }
        let (each, all) = if plan.is_spot() {
            ("instances-per-spot-job", "instances-across-spot-jobs")
        } else {
            ("instances-per-job", "instances-across-jobs")
        };
        add(quotas::general(each), most, false, None, nodes_span);
        add(quotas::general(all), most, is_shared, None, nodes_span);
    }
    if let Some(seconds) = cluster.max_run_seconds.val() {
        let longest = quotas::general("longest-run-time");
        add(longest, seconds.value as f64, false, None, seconds.span_or(span));
    }
    // File systems that are created in addition to this one count against the same quota.
    let mut beside: BTreeMap<&str, f64> = BTreeMap::new();
    for (system, there) in file_systems(view) {
        let has = there.map_or(0, |(there, _)| there.capacity_gib);
        let kind = system.create.lustre_configuration.deployment_type.as_deref().unwrap_or("SCRATCH_1");
        let Some((quota, _)) = quotas::lustre(kind) else { continue };
        let of_quota = |other: &str| quotas::lustre(other).is_some_and(|(other, _)| other.code == quota.code);
        let others: u64 = view.taken.iter().filter(|(kind, _)| of_quota(kind)).map(|(_, gib)| gib).sum();
        let before = beside.iter().filter(|(kind, _)| of_quota(kind)).map(|(_, gib)| gib).sum::<f64>();
        let wanted = system.create.storage_capacity as f64;
        *beside.entry(kind).or_default() += wanted.max(has as f64);
        if has >= system.create.storage_capacity {
            continue;
        }
        let place = plan.job.storage.iter().find(|storage| storage.name.value() == Some(&system.name));
        let span = place.map_or(span, |storage| storage.capacity_bytes.span().unwrap_or(storage.span));
        let taken = others as f64 + before;
        out.push(Limit {
            quota,
            wanted,
            taken,
            instance: None,
            is_shared: false,
            seen: None,
            is_own: false,
            is_default: false,
            span,
        });
    }
    out
}

/// Returns the S3 locations in the manifest that must exist, each with its span: all but those that only the
/// program reads.
pub(crate) fn s3_locations(plan: &Plan) -> Vec<(String, Span)> {
    let needed = plan.job.locations().into_iter().filter(|one| one.access != Access::Grant);
    needed.map(|one| (one.uri.to_owned(), one.span)).collect()
}

/// Returns the file systems that trainc creates, each with the existing one and its links.
fn file_systems(
    view: View<'_>,
) -> impl Iterator<Item = (&WantedFileSystem, Option<(&FileSystem, &[Association])>)> {
    let both = view.desired.file_systems.iter().zip(view.systems);
    both.map(|(wanted, found)| {
        let live = file_systems::oldest_live(&found.systems);
        (wanted, live.map(|system| (system, found.associations.as_slice())))
    })
}

/// Returns the S3 locations that are already linked with a file system, without trailing slashes. The service
/// has checked them, and the job reads their data from the file system, even if it was deleted from S3.
pub(super) fn existing_links(view: View<'_>) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for (wanted, there) in file_systems(view) {
        let Some((system, found)) = there else { continue };
        let links = wanted
            .associations
            .iter()
            .filter_map(|link| file_systems::find_association(link, &system.id, found));
        let whole = links.filter(|link| link.lifecycle == "AVAILABLE");
        out.extend(whole.map(|link| link.s3.trim_end_matches('/').to_owned()));
    }
    out
}

/// Returns the S3 locations that the manifest links with file systems that trainc creates, in the form of
/// [`existing_links`].
pub(super) fn manifest_links(plan: &Plan) -> BTreeSet<String> {
    let all = plan.job.storage.iter().flat_map(|storage| storage.imports.iter().chain(&storage.exports));
    all.filter_map(|link| Some(link.s3.text()?.trim_end_matches('/').to_owned())).collect()
}

/// Returns the locations that the job reads, where missing data is an error.
pub(super) fn inputs(plan: &Plan) -> Vec<Data> {
    let mut out = Vec::new();
    let mut add = |name: &str, field: &trainc_ir::Field<trainc_ir::Address>, fallback: Span| {
        let Some(val) = field.val() else { return };
        out.push(Data {
            name: name.to_owned(),
            uri: val.value.to_string(),
            seen: None,
            span: val.span_or(fallback),
        });
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

/// Returns the subnets in the manifest.
pub(super) fn subnets_of(plan: &Plan) -> Vec<String> {
    let subnets = plan.job.network.as_ref().map(|network| &network.subnets).into_iter().flatten();
    subnets.map(|val| val.value.clone()).collect()
}
