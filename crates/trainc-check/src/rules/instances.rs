//! The instance type: its availability in the region, and the default quotas.

use crate::Context;
use crate::queries::instances::is_offered;
use trainc_catalog::quotas::{self, Quota, Usage};
use trainc_catalog::{instances, regions};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::hardware::Instance;
use trainc_ir::{Cluster, Plan};

declare_code!(
    T0407,
    "default-quota-exceeded",
    Note,
    "more instances than the default quota of a new account"
);
declare_code!(
    T0443,
    "instance-unavailable",
    Warning,
    "an instance type that is retired or not offered in the region"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0407, &T0443];

/// Checks the instance type of `cluster`, or of each of its groups.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    if context.plan.deployable {
        for (instance, span) in instance_types(context.plan) {
            check_availability(context, &instance, span, problems);
        }
        check_quotas(context, problems);
    }
}

/// Returns each type with accelerators once, with the span that names it.
fn instance_types(plan: &Plan) -> Vec<(Instance, Span)> {
    let Some(cluster) = &plan.job.cluster else { return Vec::new() };
    if cluster.groups.is_empty() {
        let span = cluster.instance.span().unwrap_or(cluster.span);
        return plan.instance.iter().map(|instance| (instance.clone(), span)).collect();
    }
    let mut out: Vec<(Instance, Span)> = Vec::new();
    for group in &cluster.groups {
        let Some(name) = group.instance.val() else { continue };
        if out.iter().any(|(seen, _)| seen.name == name.value) {
            continue;
        }
        out.extend(instances::get(&name.value).map(|row| (row, name.span_or(group.span))));
    }
    out
}

/// Checks EC2's list of offerings, as SageMaker does not publish one.
fn check_availability(context: &Context, instance: &Instance, span: Span, problems: &mut Problems) {
    let plan = context.plan;
    let dated = format!("as of {} (`trainc catalog instances`)", instance.provenance.date);
    if let Some(why) = &instance.retired {
        let why = why.split(';').next().unwrap_or(why);
        problems.push(
            Diagnostic::new(&T0443, span, format!("`{}` is considered retired", instance.name))
                .note(format!("{why}; {dated}")),
        );
        return;
    }
    let Some(region) = &plan.region else { return };
    if is_offered(plan, instance) {
        return;
    }
    let offered_in = &instance.ec2_offering_regions;
    let mut diagnostic = Diagnostic::new(
        &T0443,
        span,
        format!(
            "EC2 does not offer `{}` in {}, so SageMaker training is unlikely to offer it",
            instance.name, region.name
        ),
    )
    .note(format!("EC2 offers it in {}, {dated}", offered_in.join(", ")))
    .fact("regions", offered_in.clone());
    if let Some(span) = plan.job.region.span() {
        diagnostic = diagnostic.label(span, "the job's region");
    }
    let continent = region.name.split('-').next().unwrap_or("");
    // Accounts and data do not cross partitions.
    let partition = |name: &str| regions::get(name).map(|region| region.partition);
    let mut reachable =
        offered_in.iter().filter(|name| partition(name) == partition(&region.name)).peekable();
    let first = reachable.peek().copied();
    diagnostic = match reachable.find(|name| name.split('-').next() == Some(continent)).or(first) {
        Some(near) => diagnostic.write(format!("region \"{near}\"")).or_else("use another instance type"),
        None => diagnostic.help("use another instance type"),
    };
    problems.push(diagnostic);
}

/// The number of instances that a job requests.
struct RequestedInstances<'a> {
    total: u64,
    per_type: Vec<(&'a str, u64)>,
    span: Span,
}

/// Returns the number of instances of the job, in total and per type.
fn requested_instances(cluster: &Cluster) -> Option<RequestedInstances<'_>> {
    let Some(first) = cluster.groups.first() else {
        let (name, nodes) = (cluster.instance.value()?, cluster.nodes.val()?);
        let span = nodes.origin.span().or_else(|| cluster.instance.span()).unwrap_or(cluster.span);
        return Some(RequestedInstances { total: nodes.value, per_type: vec![(name, nodes.value)], span });
    };
    let mut per_type: Vec<(&str, u64)> = Vec::new();
    for group in &cluster.groups {
        let (name, nodes) = (group.instance.value()?, group.nodes.get()?);
        match per_type.iter_mut().find(|(seen, _)| *seen == name.as_str()) {
            Some((_, sum)) => *sum = sum.saturating_add(nodes),
            None => per_type.push((name, nodes)),
        }
    }
    let total = per_type.iter().fold(0_u64, |total, (_, nodes)| total.saturating_add(*nodes));
    Some(RequestedInstances { total, per_type, span: first.span })
}

/// Reports account-wide default quotas that the job exceeds, together with the quotas of its types. A training plan has
/// its own capacity.
fn check_quotas(context: &Context, problems: &mut Problems) {
    let Some(cluster) = &context.plan.job.cluster else { return };
    let Some(RequestedInstances { total, per_type, span }) = requested_instances(cluster) else { return };
    if !cluster.training_plan.is_absent() {
        return;
    }
    let (usage, across, per_job) = if cluster.spot.is_some() {
        (Usage::Spot, "instances-across-spot-jobs", "instances-per-spot-job")
    } else {
        (Usage::OnDemand, "instances-across-jobs", "instances-per-job")
    };
    let is_exceeded = |quota: &Quota| quota.default.is_some_and(|default| total > default);
    let wide: Vec<Quota> = [quotas::general(across), quotas::general(per_job)]
        .into_iter()
        .flatten()
        .filter(is_exceeded)
        .collect();
    if wide.is_empty() {
        return;
    }
    let pool = cluster.warm_pool_seconds.get().is_some_and(|seconds| seconds > 0);
    let usages = [Some(usage), pool.then_some(Usage::WarmPool)];
    let mut all: Vec<Quota> = Vec::new();
    for (name, nodes) in &per_type {
        let of_type = usages.into_iter().flatten().filter_map(|usage| quotas::instance(name, usage));
        all.extend(of_type.filter(|quota| quota.default.is_none_or(|default| *nodes > default)));
    }
    all.extend(wide);
    let kinds: Vec<&str> = per_type.iter().map(|(name, _)| *name).collect();
    let mut diagnostic = Diagnostic::new(
        &T0407,
        span,
        format!(
            "{} of {} exceed {} of a new account",
            text::count(total, "instance"),
            text::backtick_list(&kinds, "and"),
            text::count(all.len() as u64, "quota")
        ),
    )
    .help("request an increase in Service Quotas before the run")
    .fact("codes", all.iter().filter_map(|quota| quota.code.clone()).collect::<Vec<_>>());
    for quota in &all {
        let code = quota.code.as_deref().unwrap_or("no code");
        diagnostic = diagnostic.note(match quota.default {
            Some(default) => format!("{code} `{}`: {default} by default", quota.name),
            None => format!("{code} `{}`: default unknown", quota.name),
        });
    }
    problems.push(diagnostic);
}
