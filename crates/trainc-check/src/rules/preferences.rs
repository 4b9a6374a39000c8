//! Preferred instance types: the settings that they exclude, and their counts.

use crate::Context;
use crate::shared_codes::T0251;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0483,
    "instance-preferences",
    Error,
    "preferred instance types that the service does not accept",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0483];

/// Checks CTJ-18; the limits of their number and names are in the service's shape.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let (Some((member, preferences)), Some(cluster)) = (job.preferences(), &job.cluster) else { return };
    let written = cluster.instance.span().filter(|_| !job.is_instance_preferred());
    if let Some(span) = written.or_else(|| cluster.groups.first().map(|group| group.span)) {
        problems.push(
            Diagnostic::new(
                &T0251,
                member.span,
                "`InstancePreferences` excludes the instance type and groups of `cluster`",
            )
            .label(span, "of `cluster`")
            .help("write `cluster { … }` without a type, or remove `InstancePreferences`")
            .note("botocore's model of ResourceConfig"),
        );
    }
    let mut refuse = |message: &str, other: Option<(Span, &str)>, help: &str| {
        let diagnostic = Diagnostic::new(&T0483, member.span, message.to_owned())
            .help(help.to_owned())
            .note("InstancePreferences of ResourceConfig, botocore's model of CreateTrainingJob");
        problems.push(match other {
            Some((span, what)) => diagnostic.label(span, what),
            None => diagnostic,
        });
    };
    if let Some(spot) = &cluster.spot {
        refuse(
            "`InstancePreferences` excludes spot instances",
            Some((spot.span, "spot")),
            "remove `spot`, or write one type in `cluster`",
        );
    }
    if let Some(placement) = &cluster.placement {
        refuse(
            "`InstancePreferences` excludes a placement on UltraServers",
            Some((placement.span, "the placement")),
            "remove `placement`, or write one type in `cluster`",
        );
    }
    let counted = preferences.iter().filter(|preference| preference.count.is_some()).count();
    if counted > 0 && counted < preferences.len() {
        refuse(
            "only some of the preferred types have an `InstanceCount`",
            None,
            "write `InstanceCount` for every type, or `cluster nodes=…` and none",
        );
    } else if let Some(span) = cluster.nodes.span().filter(|_| counted > 0) {
        refuse(
            "both the preferred types and `cluster` have a number of instances",
            Some((span, "also set here")),
            "remove `nodes=`, or every `InstanceCount`",
        );
    }
    let mut seen: Vec<&str> = Vec::new();
    for (instance, _) in preferences.iter().filter_map(|preference| preference.instance) {
        if seen.contains(&instance) {
            refuse(&format!("`{instance}` is listed twice"), None, "list each type once");
        }
        seen.push(instance);
    }
}
