//! SageMaker model parallel (SMP), whose generation the image decides.

use crate::laws;
use crate::smp::parameter_name;
use trainc_catalog::images::version_key;
use trainc_ir::engine::Front;
use trainc_ir::{Field, Launcher, Mesh, Parallel, Plan, Scalar};

/// SMP of a generation that the image does not decide.
pub static SMP: Front = Front {
    word: "smp",
    title: "smp",
    laws: &[&laws::SMP],
    in_image,
    launchers: &[("", Launcher::SmpV1)],
    parameters: v1_parameters,
    libraries: &["smp-v1"],
    takes_group: true,
    // Its documentation requires `debugger_hook_config=False` (developer guide, "Considerations for Using
    // SageMaker Debugger with SageMaker Model Parallelism").
    takes_debugger: false,
    ..Front::PLAIN
};

/// SMP v1, under MPI.
pub static SMP_V1: Front = Front {
    title: "smp v1",
    generation: Some("v1"),
    laws: &[&laws::SMP_V1],
    table: Some("v1/"),
    has_versioned_parameters: true,
    ..SMP
};

/// SMP v2, under torchrun.
pub static SMP_V2: Front = Front {
    title: "smp v2",
    generation: Some("v2"),
    laws: &[&laws::SMP_V2],
    launchers: &[("", Launcher::SmpV2)],
    parameters: v2_parameters,
    table: Some("v2/"),
    libraries: &["smp-v2"],
    image_family: Some("smp"),
    ..SMP
};

/// Returns the generation in an image: v2 in its own images and from PyTorch 2.0.1 on.
fn in_image(family: &str, pytorch: Option<&str>) -> Option<&'static Front> {
    if family == "smp" {
        return Some(&SMP_V2);
    }
    let pytorch = pytorch?;
    let is_v2 = version_key(pytorch) >= version_key("2.0.1") && pytorch != "2.0";
    Some(if family == "pytorch" && is_v2 { &SMP_V2 } else { &SMP_V1 })
}

fn int(n: u64) -> Scalar {
    Scalar::Int(i128::from(n))
}

fn v2_parameters(_: &Plan, parallel: &Parallel, mesh: &Mesh) -> Vec<(&'static str, Scalar)> {
    // If omitted, SMP would choose a degree that may differ from the plan.
    let shard_degree = ("hybrid_shard_degree", int(mesh.shard_degree.value));
    let mut out = vec![shard_degree];
    for (key, field) in [
        ("tensor_parallel_degree", &parallel.tensor_degree),
        ("context_parallel_degree", &parallel.context_degree),
        ("expert_parallel_degree", &parallel.expert_degree),
    ] {
        out.extend(field.get().map(|degree| (key, int(degree))));
    }
    let offload = parallel.offload_activations.get();
    out.extend(offload.map(|on| ("sm_activation_offloading", Scalar::Bool(on))));
    out.extend(parallel.offload_horizon.get().map(|horizon| ("activation_loading_horizon", int(horizon))));
    out.extend(passed_options(parallel));
    out
}

fn v1_parameters(plan: &Plan, parallel: &Parallel, mesh: &Mesh) -> Vec<(&'static str, Scalar)> {
    let text = |field: &Field<String>| field.value().cloned().map(Scalar::Text);
    let flag = |field: &Field<bool>| field.get().map(Scalar::Bool);
    let count = |field: &Field<u64>| field.get().map(int);
    let precision = plan.job.train.precision.value().map(String::as_str);
    let parameters = [
        ("ddp", v1_ddp(parallel, mesh)),
        ("tensor_parallel_degree", parallel.tensor_degree.get().map(|_| int(mesh.tensor_degree.value))),
        ("microbatches", count(&parallel.num_micro_batches)),
        ("partitions", Some(int(mesh.pipeline_degree.value))),
        ("pipeline", text(&parallel.schedule)),
        ("active_microbatches", count(&parallel.num_active_micro_batches)),
        ("placement_strategy", text(&parallel.placement)),
        ("shard_optimizer_state", flag(&parallel.shard_optimizer_state)),
        ("prescaled_batch", flag(&parallel.prescaled_batch)),
        ("sharded_data_parallel_degree", count(&parallel.shard_degree)),
        ("offload_activations", flag(&parallel.offload_activations)),
        ("activation_loading_horizon", count(&parallel.offload_horizon)),
        ("bf16", (precision == Some("bf16")).then_some(Scalar::Bool(true))),
        ("fp16", (precision == Some("fp16")).then_some(Scalar::Bool(true))),
    ];
    let mut out: Vec<(&'static str, Scalar)> =
        parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    out.extend(passed_options(parallel).into_iter().filter(|(name, _)| *name != "ddp"));
    out
}

/// Returns SMP v1's `ddp`: as written, otherwise true if SMP v1 requires it, which is the case with tensor
/// parallelism, sharding, sharded optimizer states, or data parallelism (SDK documentation of `ddp`: "must
/// be set to true if there is data parallelism").
fn v1_ddp(parallel: &Parallel, mesh: &Mesh) -> Option<Scalar> {
    let written = parallel.options.iter().find(|option| option.name == "ddp");
    if let Some(Field::Is(val)) = written.map(|option| &option.value) {
        return Some(val.value.clone());
    }
    let is_required = mesh.world_size > mesh.pipeline_degree.value
        || parallel.tensor_degree.get().is_some_and(|degree| degree > 1)
        || parallel.shard_degree.get().is_some_and(|degree| degree > 1)
        || parallel.shard_optimizer_state.get() == Some(true);
    is_required.then_some(Scalar::Bool(true))
}

/// Returns the options that trainc passes to SMP unchanged.
fn passed_options(parallel: &Parallel) -> Vec<(&'static str, Scalar)> {
    let passed = |name: &str, value: &Field<Scalar>| Some((parameter_name(name)?, value.value()?.clone()));
    parallel.options.iter().filter_map(|option| passed(option.name, &option.value)).collect()
}
