//! What has an effect on SageMaker alone, in a job on another cluster.

use crate::Context;
use crate::codes::T0250;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Help, Problems};
use trainc_ir::{Cluster, Job, Origin};
use trainc_language::NodeType;

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[];

/// Reports nodes and values without effect.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    // The unreadable part of a manifest may contain what uses a value.
    let Some(cluster) = job.cluster.as_ref().and_then(|cluster| cluster.instance.span()) else { return };
    if !job.is_whole || is_layered_over_another(job) {
        return;
    }
    // A layer may be that of jobs on SageMaker, too.
    let is_of_job = |span: Span| span.source == cluster.source;
    let mut report = |name: &str, span: Span| {
        let message = format!("`{name}` has no effect: this cluster does not run on SageMaker");
        problems.push(Diagnostic::new(&T0250, span, message).help(Help::remove_it()));
    };
    job.visit_nodes(&mut |spec, span| {
        if spec.only_sagemaker && is_of_job(span) {
            report(spec.name, span);
        }
    });
    job.visit("", &mut |leaf| {
        let written = leaf.origin.and_then(Origin::span).filter(|span| is_of_job(*span));
        if let Some(span) = written.filter(|_| leaf.declared.only_sagemaker) {
            report(leaf.declared.name, span);
        }
    });
}

/// Returns whether the cluster replaces that of an earlier layer, whose other nodes may be for SageMaker.
fn is_layered_over_another(job: &Job) -> bool {
    job.overrides.iter().any(|change| change.path == Cluster::SPEC.name)
}
