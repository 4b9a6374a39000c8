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
use trainc_ir::{Alternative, Cluster, Plan};

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
    for (instance, span) in instance_types(context.plan) {
        check_availability(context, &instance, span, problems);
    }
    check_quotas(context, problems);
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

/// Reports default quotas that the job exceeds, for each type that it may run on. A training plan has its own
/// capacity.
fn check_quotas(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(cluster), Some(alternatives)) = (&plan.job.cluster, plan.fleet.alternatives()) else { return };
    if cluster.training_plan.is_absent() {
        for one in alternatives.iter() {
            problems.extend_with(exceeded_quotas(cluster, one, !alternatives.further.is_empty()));
        }
    }
}

/// Reports the default quotas that these instances exceed: those of the account, and those of each type. The
/// message names the quota with the least room.
fn exceeded_quotas(cluster: &Cluster, instances: &Alternative, is_preference: bool) -> Option<Diagnostic> {
    let (usage, across, per_job) = if cluster.spot.is_some() {
        (Usage::Spot, "instances-across-spot-jobs", "instances-per-spot-job")
    } else {
        (Usage::OnDemand, "instances-across-jobs", "instances-per-job")
    };
    let pool = cluster.warm_pool_seconds.get().is_some_and(|seconds| seconds > 0);
    let usages = [Some(usage), pool.then_some(Usage::WarmPool)];
    let types = instances.instances_by_type();
    let total = instances.instance_count()?;
    // Each with the instances that count against it, and their type unless all types do.
    let mut quotas: Vec<(Quota, u64, Option<&str>)> = Vec::new();
    for one in &types {
        let of_type = usages.into_iter().flatten().filter_map(|usage| quotas::instance(one.instance, usage));
        let nodes = one.nodes?;
        quotas.extend(of_type.map(|quota| (quota, nodes, Some(one.instance))));
    }
    let wide = [quotas::general(across), quotas::general(per_job)].into_iter().flatten();
    quotas.extend(wide.map(|quota| (quota, total, None)));
    // An unknown default may be exceeded, too.
    quotas.retain(|(quota, nodes, _)| quota.default.is_none_or(|default| *nodes > default));
    let room = |(quota, nodes, _): &(Quota, u64, Option<&str>)| Some((quota.default?, std::cmp::Reverse(*nodes)));
    let tightest = quotas.iter().filter(|one| room(one).is_some()).min_by_key(|one| room(one))?;
    let first = types.first()?;
    let counted = tightest.1;
    let names: Vec<&str> = match tightest.2 {
        Some(name) => vec![name],
        None => types.iter().map(|one| one.instance).collect(),
    };
    // Of several types, the place says which.
    let span = if is_preference { first.span } else { first.nodes_span };
    let diagnostic = Diagnostic::new(
        &T0407,
        span,
        format!(
            "{} of {} {} the quota `{}` of a new account, which is {}",
            text::count(counted, "instance"),
            text::backtick_list(&names, "and"),
            if counted == 1 { "exceeds" } else { "exceed" },
            tightest.0.name,
            tightest.0.default?
        ),
    )
    .help("request an increase in Service Quotas before the run")
    .fact("codes", quotas.iter().filter_map(|(quota, ..)| quota.code.clone()).collect::<Vec<_>>());
    Some(quotas.iter().fold(diagnostic, |diagnostic, (quota, ..)| {
        let code = quota.code.as_deref().unwrap_or("no code");
        diagnostic.note(match quota.default {
            Some(default) => format!("{code} `{}`: {default} by default", quota.name),
            None => format!("{code} `{}`: default unknown", quota.name),
        })
    }))
}
