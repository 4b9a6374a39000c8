//! The instance type: whether it is still to be had, and what a new account may have of it.

use crate::catalog::quotas::{self, Quota, Usage};
use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::text;

declare_code!(T0443, "instance-retired", Warning, "an instance type that may not be to be had");
declare_code!(T0407, "default-quota", Note, "more instances than a new account may have");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0443, &T0407];

/// The type of `cluster`; groups are each their own type, and the account alone knows them.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(cluster), Some(instance)) = (&plan.job.cluster, &plan.instance) else { return };
    if !plan.deployable {
        return;
    }
    let span = cluster.instance.span().unwrap_or(cluster.span);
    let dated = format!("{} ({})", instance.provenance.source, instance.provenance.date);
    if let Some(why) = &instance.retired {
        let why = why.split(';').next().unwrap_or(why);
        problems.push(
            Diagnostic::new(&T0443, span, format!("`{}` counts as retired", instance.name)).note(why.to_owned()).note(dated.clone()),
        );
    } else if let Some(region) = &plan.region
        && !instance.ec2_offering_regions.is_empty()
        && !instance.ec2_offering_regions.contains(&region.name)
    {
        problems.push(
            Diagnostic::new(&T0443, span, format!("EC2 does not offer `{}` in `{}`", instance.name, region.name))
                .label(plan.job.region.span().unwrap_or(plan.job.span), "the job's region")
                .note(format!("it does in {}; SageMaker's own offer may differ", instance.ec2_offering_regions.join(", ")))
                .note(dated),
        );
    }
    let Some(nodes) = cluster.nodes.val() else { return };
    let spot = cluster.spot.is_some();
    let usage = if spot { Usage::Spot } else { Usage::OnDemand };
    let mut over: Vec<Quota> = Vec::new();
    let (per_job, across) = if spot { ("instances-per-spot-job", "instances-across-spot-jobs") } else { ("instances-per-job", "instances-across-jobs") };
    over.extend(quotas::instance(&instance.name, usage));
    over.extend(quotas::general(per_job));
    over.extend(quotas::general(across));
    if cluster.warm_pool_seconds.get().is_some_and(|seconds| seconds > 0) {
        over.extend(quotas::instance(&instance.name, Usage::WarmPool));
    }
    over.retain(|quota| quota.default.is_some_and(|default| default < nodes.value));
    if over.is_empty() {
        return;
    }
    let mut diagnostic = Diagnostic::new(
        &T0407,
        nodes.span_or(span),
        format!("{} of `{}` are more than a new account may have", text::count(nodes.value, "instance"), instance.name),
    )
    .fact("quotas", over.iter().filter_map(|quota| quota.code.clone()).collect::<Vec<_>>());
    for quota in &over {
        let code = quota.code.as_deref().unwrap_or("without code");
        diagnostic = diagnostic.note(format!("{code} `{}`: {} by default", quota.name, quota.default.unwrap_or_default()));
    }
    problems.push(diagnostic.note("quotas are raised in Service Quotas; only the account knows its values"));
}
