//! Memory against what frameworks say of their own: DeepSpeed's estimators, and the elements that rank 0
//! holds.

use super::tests::{assert_near, layout, sharded_layout, shipped};
use super::*;
use crate::layout::{AdapterKind, Code, Lora, Moments, Precision, Sharding};
use trainc_ir::architecture::{Architecture, Dimensions, Family};

fn parts_of_states(layout: &Layout) -> states::StateBytes {
    states::states(layout, &stages::candidate_fullest_stages(layout).remove(0))
}

fn all_states(layout: &Layout) -> f64 {
    let states = parts_of_states(layout);
    states.parameters + states.gradients + states.optimizer
}

fn gathered(layout: &Layout) -> f64 {
    units::units(layout, &stages::candidate_fullest_stages(layout).remove(0)).gathered
}

/// Returns a model of the catalogue under ZeRO on nodes of `per_node` GPUs.
fn zero(model: &str, sharding: Sharding, nodes: f64, per_node: f64) -> Layout {
    let row = trainc_catalog::models::find(model).unwrap();
    let mut one = sharded_layout(&row.architecture, System::DeepSpeed, nodes * per_node, 80.0);
    one.sharding = sharding;
    (one.hardware.nodes, one.hardware.gpus_per_node) = (nodes, per_node);
    one
}

/// `estimate_zero2_model_states_mem_needs` and `estimate_zero3_model_states_mem_needs` of DeepSpeed 0.19.8,
/// run on 2026-11-28: bytes on a GPU. At stage 3 they have four bytes for each parameter of the largest
/// module, which are gathered weights and their gradient here.
#[test]
fn states_are_those_of_the_estimators_of_deepspeed() {
    let (two, three) = (Sharding::Gradients, Sharding::Full);
    for (model, parameters, largest, sharding, nodes, per_node, optimizer, weights, bytes) in [
        ("llama-3.1-8b", 8_030_261_248.0, 525_336_576.0, two, 1.0, 8.0, false, false, 34_128_610_304.0),
        ("llama-3.1-8b", 8_030_261_248.0, 525_336_576.0, three, 1.0, 8.0, false, false, 20_169_434_112.0),
        ("llama-3.1-8b", 8_030_261_248.0, 525_336_576.0, three, 1.0, 4.0, true, true, 2_101_346_304.0),
        ("llama-3.1-70b", 70_553_706_496.0, 1_050_673_152.0, three, 4.0, 8.0, true, false, 8_612_299_264.0),
        ("qwen3-8b", 8_190_735_360.0, 622_329_856.0, three, 1.0, 8.0, false, false, 20_918_473_984.0),
    ] {
        let mut one = zero(model, sharding, nodes, per_node);
        assert_eq!(one.model.parameters, parameters, "{model}");
        (one.offload.optimizer, one.offload.parameters) = (optimizer, weights);
        let allowance = if sharding == Sharding::Full { 4.0 * largest } else { 0.0 };
        assert!((all_states(&one) - (bytes - allowance)).abs() < 8.0, "{model}: {}", all_states(&one));
        assert!((all_states(&one) + gathered(&one) - bytes).abs() < 8.0, "{model}: {}", gathered(&one));
    }
}

/// Bytes per parameter that each stage leaves on one of 8 ranks, counted by hand from the same code.
#[test]
fn each_stage_divides_more() {
    let of = |sharding, precision, change: &dyn Fn(&mut Layout)| {
        let mut one = zero("llama-3.1-8b", sharding, 1.0, 8.0);
        one.precision = precision;
        change(&mut one);
        all_states(&one) / one.model.parameters
    };
    let mixed = Precision::Mixed { bf16: true };
    for (sharding, bytes) in [
        (Sharding::None, 2.0 + 2.0 + 4.0 + 12.0),
        (Sharding::Optimizer, 2.0 + 2.0 + (4.0 + 12.0) / 8.0),
        (Sharding::Gradients, 2.0 + (2.0 + 4.0 + 12.0) / 8.0),
        (Sharding::Full, 18.0 / 8.0),
    ] {
        assert_near(of(sharding, mixed, &|_| ()), bytes, 1e-12);
    }
    // Without a precision block: the master copy of stages 1 and 2 is a clone, stage 3 has none.
    for (sharding, bytes) in [
        (Sharding::None, 16.0),
        (Sharding::Optimizer, 4.0 + 4.0 + 12.0 / 8.0),
        (Sharding::Gradients, 4.0 + 16.0 / 8.0),
        (Sharding::Full, 16.0 / 8.0),
    ] {
        assert_near(of(sharding, Precision::Fp32, &|_| ()), bytes, 1e-12);
    }
    // `bf16_master_weights_and_grads` and `bf16_optimizer_states`.
    let narrow = Precision::Pure16 { bf16: true };
    assert_near(of(Sharding::Gradients, narrow, &|_| ()), 2.0 + (2.0 + 2.0 + 4.0) / 8.0, 1e-12);
    assert_near(of(Sharding::Full, narrow, &|_| ()), (2.0 + 2.0 + 4.0) / 8.0, 1e-12);
    // `grad_accum_dtype` fp32: gradients are 32-bit at once.
    let wide = |one: &mut Layout| one.gradient_bytes = Some(4.0);
    assert_near(of(Sharding::Gradients, mixed, &wide), 2.0 + (4.0 + 12.0) / 8.0, 1e-12);
    assert_near(of(Sharding::Full, mixed, &wide), 18.0 / 8.0, 1e-12);
    // One moment, and none.
    assert_near(of(Sharding::Full, mixed, &|one| one.moments = Moments::One), 14.0 / 8.0, 1e-12);
    assert_near(of(Sharding::Full, mixed, &|one| one.moments = Moments::Zero), 10.0 / 8.0, 1e-12);
    // The optimizer on the host takes the gradients of a rank's own part with it; at stage 1 they are whole.
    let away = |one: &mut Layout| one.offload.optimizer = true;
    assert_near(of(Sharding::Optimizer, mixed, &away), 4.0, 1e-12);
    assert_near(of(Sharding::Gradients, mixed, &away), 2.0, 1e-12);
    assert_near(of(Sharding::Full, mixed, &away), 2.0 / 8.0, 1e-12);
    // `offload_param` below stage 3 is stored and not used.
    let weights = |one: &mut Layout| one.offload.parameters = true;
    assert_near(of(Sharding::Gradients, mixed, &weights), 2.0 + 18.0 / 8.0, 1e-12);
    assert_near(of(Sharding::Full, mixed, &weights), 16.0 / 8.0, 1e-12);
    // A second copy of the weights over the ranks of a node.
    let twice = |one: &mut Layout| one.gathering.secondary_shard = 8.0;
    assert_near(of(Sharding::Full, mixed, &twice), (18.0 + 2.0) / 8.0, 1e-12);
    assert_near(of(Sharding::Gradients, mixed, &twice), 2.0 + 18.0 / 8.0, 1e-12);
    // What leaves the GPUs of a node is on its host: 18 bytes a parameter, and 16 without the weights.
    for (weights, bytes) in [(true, 18.0), (false, 16.0)] {
        let mut one = zero("llama-3.1-8b", Sharding::Full, 2.0, 8.0);
        (one.offload.optimizer, one.offload.parameters) = (true, weights);
        let found = |one: &Layout| host_parts(one, &shipped()).offloaded;
        assert_near(found(&one), bytes * one.model.parameters / 2.0, 1e-9);
        // On disks they leave the host's memory, too.
        one.offload.optimizer_on_disk = true;
        assert!((found(&one) - (bytes - 16.0) * one.model.parameters / 2.0).abs() < 8.0);
        one.offload.parameters_on_disk = true;
        assert_eq!(found(&one), 0.0);
        // A copy of them needs no memory of GPUs or hosts either.
        let left = if weights { 0.0 } else { 2.0 };
        assert_near(1.0 + super::all_states(&one), 1.0 + left * one.model.parameters, 1e-9);
    }
}

/// Frozen weights are two bytes, divided at stage 3 alone, and have no gradient; an adapter's are those of a
/// model.
#[test]
fn adapters_under_zero() {
    for (sharding, frozen, own) in
        [(Sharding::Gradients, 2.0, 2.0 + 18.0 / 8.0), (Sharding::Full, 2.0 / 8.0, 18.0 / 8.0)]
    {
        let mut one = zero("llama-3.1-8b", sharding, 1.0, 8.0);
        let trainable = 20_971_520.0;
        one.lora = Some(Lora { trainable, kind: AdapterKind::LowRank });
        assert_near(all_states(&one), frozen * one.model.parameters + own * trainable, 1e-12);
    }
    let mut one = zero("llama-3.1-8b", Sharding::Full, 1.0, 8.0);
    let trained = gathered(&one);
    one.lora = Some(Lora { trainable: 1e6, kind: AdapterKind::LowRank });
    assert_eq!(trained - gathered(&one), 2.0 * 525_336_576.0);
}

/// The plans of transformers gather the logits of a tensor group, those of torchtitan split them up to the
/// loss.
#[test]
fn logits_of_a_tensor_group() {
    let logits = |code, tensor: f64| {
        let mut one = zero("llama-3.1-8b", Sharding::Full, 1.0, 8.0);
        (one.system, one.code, one.degrees.shard) = (System::Fsdp, code, 8.0 / tensor);
        one.degrees.tensor = tensor;
        memory(&one).parts.logits
    };
    assert_eq!(logits(Code::HuggingFace, 2.0), logits(Code::HuggingFace, 1.0));
    assert_eq!(logits(Code::Torchtitan, 2.0), logits(Code::Torchtitan, 1.0) / 2.0);
}

/// By hand: at the loss the last 5e8 parameters of Llama 2 7B are kept for their next use, and the gradient
/// of a table or a matrix exists whole. Limits of a ds_config bound what is kept, but not the largest module.
#[test]
fn what_zero_3_keeps_gathered() {
    let mut one = zero("llama-2-7b", Sharding::Full, 1.0, 8.0);
    let (table, matrix) = (32_000.0 * 4_096.0, 4_096.0 * 11_008.0);
    assert_eq!(gathered(&one), 2.0 * (5e8 + table));
    one.gathering.live_parameters = 3e8;
    assert_eq!(gathered(&one), 2.0 * (3e8 + table));
    one.gathering.reuse_distance = 0.0;
    one.gathering.prefetched_parameters = 1e8;
    assert_eq!(gathered(&one), 2.0 * (matrix + 1e8 + table));
    one.gathering.live_parameters = 0.0;
    assert_eq!(gathered(&one), 2.0 * 2.0 * table);
    // Buckets are allocated whole, two of them where reductions overlap below stage 3.
    let buffers = |one: &Layout| {
        let stage = stages::candidate_fullest_stages(one).remove(0);
        units::units(one, &stage).buffers
    };
    assert_eq!(buffers(&one), 2.0 * 5e8);
    (one.sharding, one.gathering.bucket, one.gathering.overlapped) = (Sharding::Gradients, 2e8, true);
    assert_eq!(buffers(&one), 2.0 * 2.0 * 2e8);
}

/// Elements of the parameters on rank 0 after sharding, as accelerate 1.15.0 and transformers 5.24.0 report
/// them on a fake process group with torch 2.13.0 (2026-11-28). The model: Llama of 2 layers, vocabulary 256,
/// not tied.
#[test]
fn elements_on_rank_0_are_those_of_the_frameworks() {
    let wide = [64, 128, 8, 8];
    for (name, [hidden, ffn, heads, kv_heads], replicas, shard, tensor, elements) in [
        ("accelerate, 4 ranks of FSDP2", wide, 1.0, 4.0, 1.0, 28_752.0),
        ("accelerate, 8 ranks of FSDP2", wide, 1.0, 8.0, 1.0, 14_376.0),
        ("accelerate, 2 replicas of 4", wide, 2.0, 4.0, 1.0, 28_752.0),
        ("transformers, fsdp_size 8", wide, 1.0, 8.0, 1.0, 14_376.0),
        ("transformers, dp_replicate_size 8", wide, 8.0, 1.0, 1.0, 115_008.0),
        ("transformers, tp_size 2, fsdp_size 4", wide, 1.0, 4.0, 2.0, 14_416.0),
        ("transformers, tp_size 8", wide, 1.0, 1.0, 8.0, 14_656.0),
        ("transformers, 2 heads of keys, tp_size 2, fsdp_size 4", [64, 128, 8, 2], 1.0, 4.0, 2.0, 12_880.0),
        // 256 rows over 3 ranks: the first has 86 of them.
        ("transformers, tp_size 3, fsdp_size 2", [48, 96, 6, 3], 1.0, 2.0, 3.0, 11_160.0),
    ] {
        let written = Dimensions {
            hidden: Some(hidden),
            layers: Some(2),
            heads: Some(heads),
            kv_heads: Some(kv_heads),
            ffn: Some(ffn),
            vocab: Some(256),
            positions: Some(4_096),
            tied: Some(false),
            ..Dimensions::default()
        };
        let model = Architecture::from_dimensions(Family::LLAMA, &written).unwrap().0;
        let mut one = layout(&model, 80.0);
        (one.system, one.sharding) = (System::Fsdp, Sharding::Full);
        (one.degrees.replicas, one.degrees.shard, one.degrees.tensor) = (replicas, shard, tensor);
        // Parameters are in 32 bit.
        assert_eq!(parts_of_states(&one).parameters / 4.0, elements, "{name}");
        // ZeRO-2 of accelerate leaves them whole, in 16 bit.
        (one.system, one.sharding, one.degrees.tensor) = (System::DeepSpeed, Sharding::Gradients, 1.0);
        assert_eq!(parts_of_states(&one).parameters / 2.0, one.model.parameters, "{name}");
    }
}
