//! Heterogeneous clusters: the ranks run on one group.

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
    "an engine that is not assigned to exactly one instance group"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0353];

/// Where the rule comes from.
const SOURCE: &str =
    "SageMaker developer guide, heterogeneous clusters: `distribution` names exactly one group";

/// A distribution runs on exactly one group of a heterogeneous cluster.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let (Some(cluster), Some(parallel)) = (&job.cluster, &job.parallel) else { return };
    let Some(engine) = parallel.engine.get() else { return };
    let launches = matches!(engine, Engine::Fsdp | Engine::Smp | Engine::Smddp | Engine::Ddp);
    if let Some(written) = parallel.group.val() {
        let names: Vec<&str> =
            cluster.groups.iter().filter_map(|group| group.name.value().map(String::as_str)).collect();
        if !launches {
            problems.push(
                Diagnostic::new(
                    &T0353,
                    written.span_or(parallel.span),
                    format!("engine `{}` starts no ranks on a group", engine.name()),
                )
                .help("remove `group=`"),
            );
        } else if names.is_empty() {
            problems.push(
                Diagnostic::new(
                    &T0353,
                    written.span_or(parallel.span),
                    format!("the cluster has no group `{}`: it is of one kind", written.value),
                )
                .label(cluster.span, "no `group` in it")
                .help("remove `group=`"),
            );
        } else if !names.contains(&written.value.as_str()) {
            problems.push(unknown(parallel, &written.value, &names, &places(cluster)));
        }
        return;
    }
    // Where no group has an accelerator, that is said of the types.
    if engine != Engine::None
        && cluster.groups.len() > 1
        && (engine == Engine::Worker || !places(cluster).is_empty())
    {
        problems.push(several(cluster, parallel, engine, launches));
    }
}

/// Names of the groups that could take the ranks: those with accelerators, or whose type is not known.
fn places(cluster: &Cluster) -> Vec<&str> {
    let runs = |group: &&InstanceGroup| {
        group.instance.value().is_none_or(|name| {
            trainc_catalog::instances::get(name).is_some()
                || !trainc_catalog::instances::instance_exists(name)
        })
    };
    cluster.groups.iter().filter(runs).filter_map(|group| group.name.value().map(String::as_str)).collect()
}

fn unknown(parallel: &Parallel, written: &str, names: &[&str], places: &[&str]) -> Diagnostic {
    let span = parallel.group.span().unwrap_or(parallel.span);
    let diagnostic = Diagnostic::new(
        &T0353,
        span,
        format!("the cluster has no group `{written}`; it has {}", text::ticked(names, "and")),
    );
    let places = if places.is_empty() { names } else { places };
    match text::nearest(written, places.iter().copied()) {
        Some(near) => {
            diagnostic.help(format!("did you mean `group=\"{near}\"`?")).fix(span, format!("\"{near}\""))
        }
        None => diagnostic.help(format!("write {}", text::list(&options(places), "or"))),
    }
}

fn options(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("`group=\"{name}\"`")).collect()
}

fn several(cluster: &Cluster, parallel: &Parallel, engine: Engine, launches: bool) -> Diagnostic {
    let names: Vec<&str> =
        cluster.groups.iter().filter_map(|group| group.name.value().map(String::as_str)).collect();
    let diagnostic = Diagnostic::new(
        &T0353,
        parallel.engine.span().unwrap_or(parallel.span),
        format!(
            "engine `{}` runs on exactly one instance group; this cluster has {}",
            engine.name(),
            text::ticked(&names, "and")
        ),
    )
    .note(SOURCE);
    let diagnostic = match cluster.groups.get(1) {
        Some(second) => diagnostic.label(second.span, "a second group"),
        None => diagnostic,
    };
    if launches {
        diagnostic.help(format!(
            "add {}; hosts of the others run the script by itself",
            text::list(&options(&places(cluster)), "or")
        ))
    } else {
        diagnostic.help(match places(cluster).as_slice() {
            [only] => format!("keep group `{only}` alone"),
            _ => "keep one group".to_owned(),
        })
    }
}
