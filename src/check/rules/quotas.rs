//! Service Quotas of a new account: only the account itself can tell what holds.

use crate::catalog::quotas::{Quota, Usage, general, instance};
use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::text;

declare_code!(T0399, "default-quotas", Note, "more instances than a new account may start");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0399];

/// Reported where the account-wide defaults are passed; the quota of the type is said with them.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(cluster), Some(mesh)) = (&plan.job.cluster, &plan.mesh) else { return };
    let Some(name) = cluster.instance.value() else { return };
    // A training plan brings its own capacity.
    if !plan.deployable || !cluster.training_plan.is_absent() {
        return;
    }
    let spot = cluster.spot.is_some();
    let (usage, across, per_job) = if spot {
        (Usage::Spot, "instances-across-spot-jobs", "instances-per-spot-job")
    } else {
        (Usage::OnDemand, "instances-across-jobs", "instances-per-job")
    };
    let passed = |quota: &Quota| quota.default.is_some_and(|default| mesh.nodes > default);
    let wide: Vec<Quota> = [general(across), general(per_job)].into_iter().flatten().filter(passed).collect();
    if wide.is_empty() {
        return;
    }
    let all: Vec<Quota> = instance(name, usage).into_iter().filter(|quota| quota.default.is_none_or(|default| mesh.nodes > default)).chain(wide).collect();
    let span = cluster.nodes.span().unwrap_or(cluster.span);
    let mut diagnostic = Diagnostic::new(
        &T0399,
        span,
        format!("{} of `{name}` pass {} of a new account", text::count(mesh.nodes, "node"), text::count(all.len() as u64, "default quota")),
    )
    .help("ask for more in Service Quotas before the run")
    .fact("codes", all.iter().filter_map(|quota| quota.code.clone()).collect::<Vec<_>>());
    for quota in &all {
        let code = quota.code.as_deref().unwrap_or("no code");
        diagnostic = diagnostic.note(match quota.default {
            Some(default) => format!("{code} {}: {default} by default", quota.name),
            None => format!("{code} {}: the default is not known", quota.name),
        });
    }
    problems.push(diagnostic);
}
