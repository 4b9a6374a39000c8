//! Values of a manifest that may change to make a job fit: those that pass every other rule.

use crate::queries::optimizer::requires_cuda_tensors;
use crate::queries::torchrun::uses_torchrun;
use trainc_engine::smp::splits_sequences;
use trainc_ir::engine::{Absent, Law, Quantized, States};
use trainc_ir::hardware::AcceleratorKind;
use trainc_ir::{Axis, Parallel, Plan};
use trainc_plan::plan::divisors::divisors;
use trainc_predict::{self as predict, memory::remedies::Freedom};

/// Returns the values that the edits may take.
pub(crate) fn allowed_edits(plan: &Plan) -> Freedom {
    let (Some(mesh), Some(batch)) = (&plan.mesh, &plan.batch) else { return Freedom::default() };
    let micro = batch.micro_batch_size.value;
    let per_node = mesh.gpus_per_node.max(1);
    let whole_nodes = |degree: &u64| degree.is_multiple_of(per_node) || per_node.is_multiple_of(*degree);
    let others = mesh.tensor_degree.value * mesh.pipeline_degree.value;
    let parallel = plan.job.parallel.as_ref();
    let law = mesh.law;
    let free = match law.states {
        States::Sharded => true,
        States::ByStrategy => law.strategy(parallel).is_some_and(|strategy| !strategy.is_fixed),
        States::ByDegree => {
            let sharded_optimizer = parallel.and_then(|p| p.shard_optimizer_state.get()) == Some(true);
            !law.shards_optimizer || others == 1 && !sharded_optimizer
        }
        States::Whole => false,
    };
    let data = mesh.replicas.value * mesh.shard_degree.value;
    let shard_degrees = if free && law.replicas.is_none() {
        divisors(data)
            .into_iter()
            .filter(|degree| *degree > mesh.shard_degree.value && whole_nodes(degree))
            .collect()
    } else {
        Vec::new()
    };
    // A shard group that is the whole world grows with the nodes.
    let grows = mesh.replicas.value == 1
        && law.can_shard()
        && parallel.is_some_and(|parallel| shards_follow(law, parallel));
    let global = plan.job.train.global_batch.get();
    let per_pass = batch.per_replica;
    let nodes = if grows && plan.instance.is_some() {
        (1..=5)
            .map(|power| mesh.nodes << power)
            .filter(|nodes| {
                let ranks = mesh.data_ranks.value * nodes / mesh.nodes.max(1);
                // With the smallest micro-batch; larger ones are checked together with the nodes.
                let least = per_pass / micro.max(1) * ranks;
                global.is_none_or(|global| global.is_multiple_of(least.max(1)))
            })
            .collect()
    } else {
        Vec::new()
    };
    let micro_batches = divisors(micro).into_iter().filter(|smaller| *smaller < micro).collect();
    let architecture = plan.model.as_ref().and_then(|model| model.architecture.as_ref());
    let optimizer = plan.job.train.optimizer.as_ref().and_then(|optimizer| optimizer.name.value());
    let optimizer = optimizer.map_or("adamw", String::as_str);
    Freedom {
        micro_batches,
        shard_degrees,
        tensor_degrees: tensor_degrees(plan).unwrap_or_default(),
        context_degrees: context_degrees(plan).unwrap_or_default(),
        pipeline_degrees: pipeline_degrees(plan).unwrap_or_default(),
        sharded_engine: can_switch_to_fsdp(plan),
        full_shard: law.whole_world_strategy().is_some(),
        wrap: architecture.is_some() && predict::is_one_fsdp_unit(plan),
        nf4: can_use_nf4(plan),
        offload_states: law.offloads_states && !requires_cuda_tensors(optimizer),
        nodes,
        ..Freedom::default()
    }
}

/// Returns true if the shard degree follows from the other degrees: none is written, and where each axis has
/// a degree of its own, it is not 1 then.
fn shards_follow(law: &Law, parallel: &Parallel) -> bool {
    let shard = law.factors.iter().find(|factor| factor.axis == Axis::Shard);
    let is_one = shard.is_some_and(|factor| matches!(factor.absent, Absent::One(_)));
    parallel.shard_degree.is_absent() && !(law.replicas.is_some() && is_one)
}

/// Returns the tensor degrees above the present one inside a node that divide heads and widths, the data
/// ranks and the shard groups. Where tensor ranks may read their own data, only if they do not and nothing is
/// sharded.
fn tensor_degrees(plan: &Plan) -> Option<Vec<u64>> {
    let mesh = plan.mesh.as_ref().filter(|mesh| mesh.law.varies.contains(&Axis::Tensor))?;
    let parallel = plan.job.parallel.as_ref()?;
    let architecture = plan.model.as_ref()?.architecture.as_ref()?;
    let (shard, own) = (mesh.shard_degree.value.max(1), mesh.tensor_degree.value.max(1));
    if mesh.law.replicas.is_some() && !shards_follow(mesh.law, parallel) {
        return None;
    }
    if mesh.law.tensor_reads && (shard > 1 || mesh.law.reads_by_tensor(Some(parallel))) {
        return None;
    }
    let data = mesh.replicas.value * shard;
    let widths = [architecture.heads, architecture.kv_heads, architecture.hidden, architecture.ffn];
    let divides = |degree: u64| widths.iter().all(|width| width.is_multiple_of(degree));
    let takes = |degree: u64| {
        let more = degree / own;
        let left = data / more.max(1);
        data.is_multiple_of(more) && (parallel.shard_degree.is_absent() || left.is_multiple_of(shard))
    };
    let inside = (1..=5).map(|power| own << power).take_while(|degree| *degree <= mesh.gpus_per_node);
    Some(inside.filter(|degree| divides(*degree) && takes(*degree)).collect())
}

/// Returns the context degrees above the present one inside a node, for the families whose sequences SMP v2
/// splits: divisors of the shard group that split the sequence into two whole pieces per rank.
fn context_degrees(plan: &Plan) -> Option<Vec<u64>> {
    let mesh = plan.mesh.as_ref().filter(|_| splits_sequences(plan))?;
    let tokens = plan.job.train.sequence_length.get()?;
    let (shard, own) = (mesh.shard_degree.value, mesh.context_degree.value.max(1));
    let inside = (1..=5).map(|power| own << power).take_while(|degree| *degree <= mesh.gpus_per_node);
    Some(inside.filter(|degree| shard.is_multiple_of(*degree) && tokens.is_multiple_of(2 * degree)).collect())
}

/// Returns the pipeline degrees above the present one, if nothing is sharded and the library assigns the
/// layers.
fn pipeline_degrees(plan: &Plan) -> Option<Vec<u64>> {
    let mesh = plan.mesh.as_ref().filter(|mesh| mesh.law.varies.contains(&Axis::Pipeline))?;
    let architecture = plan.model.as_ref()?.architecture.as_ref()?;
    let parallel = plan.job.parallel.as_ref()?;
    if mesh.shard_degree.value > 1 || parallel.is_switched_off("auto-partition") {
        return None;
    }
    let own = mesh.pipeline_degree.value.max(1);
    let layers = architecture.layers + architecture.decoder_layers;
    let data = mesh.replicas.value;
    let stages = (1..=4).map(|power| own << power).take_while(|stages| *stages <= layers);
    Some(stages.filter(|stages| data.is_multiple_of(stages / own)).collect())
}

/// Returns whether torchrun starts DDP without settings that only DDP has: then it can start FSDP instead.
fn can_switch_to_fsdp(plan: &Plan) -> bool {
    let whole_model = plan.engine.is_some_and(|engine| engine.law.whole_model);
    let Some(parallel) = plan.job.parallel.as_ref().filter(|_| whole_model) else { return false };
    let torchrun = uses_torchrun(plan);
    let is_gpu = plan.instance.as_ref().is_none_or(|row| row.accelerator.kind == AcceleratorKind::Gpu);
    let known = plan.model.as_ref().is_some_and(|model| model.architecture.is_some());
    torchrun
        && is_gpu
        && known
        && plan.job.quantize.is_none()
        && parallel.processes.is_absent()
        && parallel.mpi_env.is_empty()
        && parallel.mpi_options.is_absent()
        && parallel.options.is_empty()
}

/// Returns whether the engine supports 4-bit weights under the job's adapter, and nothing is quantised yet.
fn can_use_nf4(plan: &Plan) -> bool {
    let carries = plan.mesh.as_ref().is_some_and(|mesh| !matches!(mesh.law.quantized, Quantized::None(_)));
    let computes = plan.job.train.precision.value().is_some_and(|precision| precision != "fp32");
    carries && computes && plan.job.adapter.is_some() && plan.job.quantize.is_none()
}
