//! The parameters of SageMaker model parallel in a manifest, under their names in both generations.

use trainc_diag::source::Span;
use trainc_engine::smp::parameter_name;
use trainc_ir::{Field, Parallel, Scalar, Val};

/// A parameter as written.
pub(crate) struct WrittenParameter {
    /// Its name in the language.
    pub(crate) name: &'static str,
    /// Its name in `mp_parameters` of SMP v1; the catalogue says whether v1 has it.
    pub(crate) v1: &'static str,
    /// Its name in `mp_parameters` of SMP v2.
    pub(crate) v2: &'static str,
    /// Its span in the manifest.
    pub(crate) span: Span,
    /// Its value.
    pub(crate) value: Scalar,
}

impl WrittenParameter {
    /// Returns whether it is a switch that is on, a degree above one, or any other value.
    pub(crate) fn is_in_use(&self) -> bool {
        match &self.value {
            Scalar::Bool(on) => *on,
            Scalar::Int(n) => *n > 1,
            Scalar::Text(_) | Scalar::Float(_) | Scalar::Null => true,
        }
    }
}

/// Returns every valid parameter that is written, in the order of the language.
pub(crate) fn parameters(parallel: &Parallel) -> Vec<WrittenParameter> {
    let mut out = Vec::new();
    let at = parallel.span;
    let mut put = |name: &'static str, v1: &'static str, v2: &'static str, val: Option<(Span, Scalar)>| {
        if let Some((span, value)) = val {
            out.push(WrittenParameter { name, v1, v2, span, value });
        }
    };
    let whole =
        |field: &Field<u64>| field.val().map(|val| (val.span_or(at), Scalar::Int(i128::from(val.value))));
    let switch = |field: &Field<bool>| field.val().map(|val| (val.span_or(at), Scalar::Bool(val.value)));
    let text = |field: &Field<String>| {
        field.val().map(|val: &Val<String>| (val.span_or(at), Scalar::Text(val.value.clone())))
    };
    put("shard-degree", "sharded_data_parallel_degree", "hybrid_shard_degree", whole(&parallel.shard_degree));
    put("tensor-degree", "tensor_parallel_degree", "tensor_parallel_degree", whole(&parallel.tensor_degree));
    put("pipeline-degree", "partitions", "partitions", whole(&parallel.pipeline_degree));
    put("schedule", "pipeline", "pipeline", text(&parallel.schedule));
    put("microbatches", "microbatches", "microbatches", whole(&parallel.num_micro_batches));
    put(
        "active-microbatches",
        "active_microbatches",
        "active_microbatches",
        whole(&parallel.num_active_micro_batches),
    );
    put(
        "context-degree",
        "context_parallel_degree",
        "context_parallel_degree",
        whole(&parallel.context_degree),
    );
    put("expert-degree", "expert_parallel_degree", "expert_parallel_degree", whole(&parallel.expert_degree));
    put("placement", "placement_strategy", "placement_strategy", text(&parallel.placement));
    put(
        "offload-activations",
        "offload_activations",
        "sm_activation_offloading",
        switch(&parallel.offload_activations),
    );
    put(
        "horizon",
        "activation_loading_horizon",
        "activation_loading_horizon",
        whole(&parallel.offload_horizon),
    );
    put("prescaled-batch", "prescaled_batch", "prescaled_batch", switch(&parallel.prescaled_batch));
    put(
        "shard-optimizer-state",
        "shard_optimizer_state",
        "shard_optimizer_state",
        switch(&parallel.shard_optimizer_state),
    );
    for option in &parallel.options {
        if let (Some(key), Some(value)) = (parameter_name(option.name), option.value.value()) {
            put(option.name, key, key, Some((option.span, value.clone())));
        }
    }
    out
}
