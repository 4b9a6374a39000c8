//! Heterogeneous clusters: the ranks run on one group.

use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::Engine;
use crate::text;

declare_code!(T0353, "engine-over-groups", Error, "an engine over more than one instance group");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0353];

/// A distribution runs on exactly one group of a heterogeneous cluster, and no node says on which.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let (Some(cluster), Some(parallel)) = (&job.cluster, &job.parallel) else { return };
    let Some(engine) = parallel.engine.val().filter(|engine| engine.value != Engine::None) else { return };
    let [_, second, ..] = cluster.groups.as_slice() else { return };
    let names: Vec<&String> = cluster.groups.iter().filter_map(|group| group.name.value()).collect();
    problems.push(
        Diagnostic::new(
            &T0353,
            engine.span_or(parallel.span),
            format!(
                "engine `{}` runs on exactly one instance group; this cluster has {}",
                engine.value.name(),
                text::ticked(&names, "and")
            ),
        )
        .label(second.span, "a second group")
        .help("keep one group, or write `engine=\"none\"` and start the ranks from the script")
        .note("SageMaker developer guide, heterogeneous clusters: `distribution` names exactly one group"),
    );
}
