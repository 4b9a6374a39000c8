//! Whether the region has the instance type at all.

use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};

declare_code!(T0373, "instance-not-offered", Warning, "an instance type that EC2 does not offer in the region");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0373];

/// The catalogue has EC2's list; SageMaker's own is in no listing, and offers no more than EC2's.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(instance), Some(region), Some(cluster)) = (&plan.instance, &plan.region, &plan.job.cluster) else { return };
    let offered = &instance.ec2_offering_regions;
    if offered.is_empty() || offered.contains(&region.name) {
        return;
    }
    let mut diagnostic = Diagnostic::new(
        &T0373,
        cluster.instance.span().unwrap_or(cluster.span),
        format!("EC2 does not offer `{}` in {}, so that SageMaker training will hardly have it", instance.name, region.name),
    )
    .note(format!("EC2 offers it in {} (listing of {})", offered.join(", "), instance.provenance.date))
    .fact("regions", offered.clone());
    if let Some(span) = plan.job.region.span() {
        diagnostic = diagnostic.label(span, "the region");
    }
    let continent = region.name.split('-').next().unwrap_or("");
    if let Some(near) = offered.iter().find(|name| name.split('-').next() == Some(continent)).or(offered.first()) {
        diagnostic = diagnostic.help(format!("write `region \"{near}\"`, or take another type"));
    }
    problems.push(diagnostic);
}
