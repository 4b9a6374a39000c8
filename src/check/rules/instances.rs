//! The instance type: whether it is still to be had.

use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};

declare_code!(T0443, "instance-retired", Warning, "an instance type that counts as retired");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0443];

/// The catalogue says why a type counts as retired.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(cluster), Some(instance)) = (&plan.job.cluster, &plan.instance) else { return };
    let Some(why) = instance.retired.as_ref().filter(|_| plan.deployable) else { return };
    let why = why.split(';').next().unwrap_or(why);
    problems.push(
        Diagnostic::new(&T0443, cluster.instance.span().unwrap_or(cluster.span), format!("`{}` counts as retired", instance.name))
            .note(why.to_owned())
            .note(format!("{} ({})", instance.provenance.source, instance.provenance.date)),
    );
}
