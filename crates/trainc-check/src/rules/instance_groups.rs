//! Instance groups of a heterogeneous cluster, and the channels that name them.

use crate::Context;
use crate::shared_codes::T0431;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};


/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0431];

/// CTJ-43 and 57; the limits rule checks the number and names of groups.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let Some(cluster) = &job.cluster else { return };
    let names: Vec<&str> =
        cluster.groups.iter().filter_map(|group| group.name.value()).map(String::as_str).collect();
    let Some(first) = cluster.groups.first() else {
        for channel in job.channels.iter().filter(|channel| channel.from.is_absent()) {
            let Some(groups) = channel.groups.val() else { continue };
            problems.push(
                Diagnostic::new(
                    &T0431,
                    groups.span_or(channel.span),
                    "the channel refers to instance groups, but the cluster has none",
                )
                .remove("groups=").or_else("define the cluster with `group` nodes")
                .note("`InstanceGroupNames` must refer to the job's `InstanceGroups`"),
            );
        }
        return;
    };
    if let Some(span) = cluster.instance.span().or_else(|| cluster.nodes.span()) {
        problems.push(
            Diagnostic::new(&T0431, span, "a cluster with groups cannot set an instance type or a number of \
                nodes")
                .label(first.span, "the first group")
                .help("write them on each `group`, and `cluster { … }` without them")
                .note("`InstanceGroups` excludes `InstanceType` and `InstanceCount` (botocore's model \
                    of ResourceConfig)"),
        );
    }
    let with = job.channels.iter().filter(|channel| !channel.groups.is_absent()).count();
    for channel in &job.channels {
        if with > 0 && channel.groups.is_absent() {
            problems.push(
                Diagnostic::new(&T0431, channel.span, "`groups` must be set on every channel or on none")
                    .add(format!("groups=\"{}\"", names.join(",")))
                    .note("developer guide, \"Train using a heterogeneous cluster\""),
            );
        }
        let Some(groups) = channel.groups.val() else { continue };
        for group in groups.value.iter().filter(|group| !names.contains(&group.as_str())) {
            let span = groups.span_or(channel.span);
            let diagnostic = Diagnostic::new(&T0431, span, format!("the cluster has no group `{group}`"));
            problems.push(match text::nearest(group, names.iter().copied()) {
                Some(near) => diagnostic.did_you_mean(near),
                None => diagnostic.note(format!("its groups are {}", text::backtick_list(&names, "and"))),
            });
        }
    }
}
