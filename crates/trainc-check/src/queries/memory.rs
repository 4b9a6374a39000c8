//! The predicted memory of a layout.

use crate::Context;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_predict::memory::{MemoryConstants, all_states, memory_with};
use trainc_predict::{Fit, Layout, Memory};

/// Returns the memory constants of the command's cost model.
pub(crate) fn memory_constants(context: &Context) -> MemoryConstants {
    MemoryConstants::from_constants(context.constants)
}

/// Predicts the memory of a layout with the command's constants.
pub(crate) fn predicted_memory(context: &Context, layout: &Layout) -> Memory {
    memory_with(layout, &memory_constants(context))
}

/// Returns whether the upper bound of a layout's memory fits its GPUs.
pub(crate) fn fits_at_upper_bound(context: &Context, layout: &Layout) -> bool {
    let memory = predicted_memory(context, layout);
    memory.capacity_bytes.is_some_and(|capacity| memory.interval.high <= capacity)
}

/// Describes the predicted memory of the plan, for rules that judge by rules of thumb.
pub(crate) fn describe_fit(context: &Context) -> Option<String> {
    let layout = Layout::from_plan(context.plan).ok()?;
    let memory = predicted_memory(context, &layout);
    let (fit, capacity) = (memory.fit()?, memory.capacity_bytes?);
    Some(format!(
        "predicted: {} of each {}'s {}: it {}",
        format_bytes(memory.per_gpu_bytes),
        context.plan.rank_noun(),
        format_bytes(capacity),
        fit.as_phrase()
    ))
}

/// Returns whether the job is predicted to fit, at least by the point estimate.
pub(crate) fn is_predicted_to_fit(context: &Context) -> bool {
    let Ok(layout) = Layout::from_plan(context.plan) else { return false };
    matches!(predicted_memory(context, &layout).fit(), Some(Fit::Surely | Fit::Maybe))
}

/// Formats a predicted number of bytes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, kept above zero")]
pub(crate) fn format_bytes(n: f64) -> String {
    text::bytes(n.max(0.0).round() as u64)
}

/// Model states that exceed the memory of all nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExcessStates {
    /// Weights, gradients and optimizer states, once, in bytes.
    pub(crate) states: f64,
    /// Memory of all GPUs, in bytes.
    gpus: f64,
    /// Memory of all hosts, in bytes.
    hosts: f64,
}

/// Returns the model states if a single copy exceeds the memory of all GPUs and hosts together: then no
/// degree, batch size or offloading makes the job fit, and its run time means nothing.
pub(crate) fn excess_states(layout: &Layout) -> Option<ExcessStates> {
    let hardware = &layout.hardware;
    let states = all_states(layout);
    let (gpus, hosts) =
        (hardware.gpus() * hardware.memory_bytes?, hardware.nodes * hardware.host_memory_bytes?);
    (states > gpus + hosts).then_some(ExcessStates { states, gpus, hosts })
}

/// Returns whether the plan has [`excess_states`].
pub(crate) fn has_excess_states(plan: &Plan) -> bool {
    Layout::from_plan(plan).is_ok_and(|layout| excess_states(&layout).is_some())
}

impl ExcessStates {
    /// Describes both sides: `weights, … take 1.03 TiB; 1 × `ml.g5.xlarge` has 22.4 GiB of GPU memory and …`.
    pub(crate) fn describe(&self, plan: &Plan) -> String {
        let nodes = plan.mesh.as_ref().map_or(1, |mesh| mesh.nodes);
        let kind = plan.job.rank_instance().map_or("node", |kind| kind.value.as_str());
        let [states, gpus, hosts] = [self.states, self.gpus, self.hosts].map(format_bytes);
        format!(
            "weights, gradients and optimizer states alone take {states}; {nodes} × `{kind}` has \
                {gpus} of GPU memory and {hosts} of host memory"
        )
    }
}
