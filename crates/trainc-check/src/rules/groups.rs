//! The instance group of the engine in a heterogeneous cluster.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::job::InstanceGroup;
use trainc_ir::{Cluster, Engine, Parallel};

declare_code!(
    T0353,
    "engine-instance-group",
    Error,
    "an engine that is not assigned to exactly one instance group",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0353];

const SOURCE: &str =
    "SageMaker developer guide, heterogeneous clusters: `distribution` names exactly one group";

/// Checks that the engine runs on exactly one group of a heterogeneous cluster.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let (Some(cluster), Some(parallel)) = (&job.cluster, &job.parallel) else { return };
    let Some(engine) = context.plan.engine else { return };
    let launches = engine.front.takes_group;
    if let Some(written) = parallel.group.val() {
        let names: Vec<&str> =
            cluster.groups.iter().filter_map(|group| group.name.value().map(String::as_str)).collect();
        if !launches {
            problems.push(
                Diagnostic::new(
                    &T0353,
                    written.span_or(parallel.span),
                    format!("engine `{}` does not support `group=`", engine.name()),
                )
                .remove("group="),
            );
        } else if names.is_empty() {
            problems.push(
                Diagnostic::new(
                    &T0353,
                    written.span_or(parallel.span),
                    format!("the cluster has no group `{}`: it has a single instance type", written.value),
                )
                .label(cluster.span, "has no `group` node")
                .remove("group="),
            );
        } else if !names.contains(&written.value.as_str()) {
            problems.push(unknown_group(parallel, &written.value, &names, &candidate_groups(cluster)));
        }
        return;
    }
    // Groups without any accelerator are reported at their instance types.
    if !engine.law.is_script()
        && cluster.groups.len() > 1
        && (context.plan.is_worker() || !candidate_groups(cluster).is_empty())
    {
        problems.push(several_groups(cluster, parallel, engine, launches));
    }
}

/// Returns the names of the groups that can run the ranks: those with accelerators or an unknown type.
fn candidate_groups(cluster: &Cluster) -> Vec<&str> {
    let runs = |group: &&InstanceGroup| {
        group.instance.value().is_none_or(|name| {
            trainc_catalog::instances::get(name).is_some()
                || !trainc_catalog::instances::instance_exists(name)
        })
    };
    cluster.groups.iter().filter(runs).filter_map(|group| group.name.value().map(String::as_str)).collect()
}

fn unknown_group(parallel: &Parallel, written: &str, names: &[&str], candidates: &[&str]) -> Diagnostic {
    let span = parallel.group.span().unwrap_or(parallel.span);
    let diagnostic = Diagnostic::new(
        &T0353,
        span,
        format!("the cluster has no group `{written}`; its groups are {}", text::backtick_list(names, "and")),
    );
    let candidates = if candidates.is_empty() { names } else { candidates };
    if let Some(near) = text::nearest(written, candidates.iter().copied()) {
        return diagnostic.help(format!("did you mean `group=\"{near}\"`?")).fix(span, format!("\"{near}\""));
    }
    let options = format_group_options(candidates);
    diagnostic.choose(format!("write {}", text::backtick_list(&options, "or")), &options)
}

fn format_group_options(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("group=\"{name}\"")).collect()
}

fn several_groups(cluster: &Cluster, parallel: &Parallel, engine: Engine, launches: bool) -> Diagnostic {
    let names: Vec<&str> =
        cluster.groups.iter().filter_map(|group| group.name.value().map(String::as_str)).collect();
    let diagnostic = Diagnostic::new(
        &T0353,
        parallel.engine.span().unwrap_or(parallel.span),
        format!(
            "engine `{}` runs on exactly one instance group; this cluster has {}",
            engine.name(),
            text::backtick_list(&names, "and")
        ),
    )
    .note(SOURCE);
    let diagnostic = match cluster.groups.get(1) {
        Some(second) => diagnostic.label(second.span, "a second group"),
        None => diagnostic,
    };
    if launches {
        let options = format_group_options(&candidate_groups(cluster));
        diagnostic.choose(
            format!(
                "add {}; hosts of other groups run the script without the launcher",
                text::backtick_list(&options, "or")
            ),
            &options,
        )
    } else {
        diagnostic.help(match candidate_groups(cluster).as_slice() {
            [only] => format!("keep only group `{only}`"),
            _ => "keep one group".to_owned(),
        })
    }
}
