//! Memory against hand-computed cases, published statements, and the tensors that PyTorch saves.

use super::*;
use crate::layout::{
    AdapterKind, Attention, Code, Lora, Model, Moments, Precision, Prefetch, Quantisation, Recompute,
    Sharding,
};
use crate::samples::one_gpu;
use proptest::prelude::*;
use trainc_ir::architecture::{Architecture, Dimensions, Family};

pub(super) fn shipped() -> MemoryConstants {
    MemoryConstants::from_constants(Constants::shipped())
}

/// Predicts the memory of a layout by the shipped constants.
fn predict_with_shipped(layout: &Layout) -> Memory {
    memory_with(layout, &shipped())
}

fn architecture(family: Family, hidden: u64, layers: u64, heads: u64) -> Architecture {
    let written = Dimensions {
        hidden: Some(hidden),
        layers: Some(layers),
        heads: Some(heads),
        ..Dimensions::default()
    };
    Architecture::from_dimensions(family, &written).unwrap().0
}

/// The model of the published SageMaker runs on GPT-2 with 30 billion parameters.
fn gpt2_30b() -> Architecture {
    let written = Dimensions {
        hidden: Some(7_168),
        layers: Some(48),
        heads: Some(64),
        vocab: Some(50_257),
        positions: Some(2_048),
        ..Dimensions::default()
    };
    Architecture::from_dimensions(Family::GPT2, &written).unwrap().0
}

/// One GPU, mixed precision, no recomputation, AdamW.
pub(super) fn layout(architecture: &Architecture, gib: f64) -> Layout {
    let mut layout = one_gpu(Model::from_architecture(architecture, architecture.default_class()));
    layout.hardware.memory_bytes = Some(gib * GIB);
    layout
}

pub(super) fn sharded_layout(architecture: &Architecture, system: System, gpus: f64, gib: f64) -> Layout {
    let mut layout = layout(architecture, gib);
    layout.system = system;
    layout.sharding = Sharding::Full;
    layout.degrees.shard = gpus;
    layout.hardware.gpus_per_node = gpus.min(8.0);
    layout.hardware.nodes = (gpus / 8.0).max(1.0);
    layout.recompute = Recompute::Full;
    layout
}

pub(super) fn assert_near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "found {found}, expected {expected}");
}

/// Bytes per parameter of the states.
fn states_per_parameter(layout: &Layout) -> f64 {
    let stage = stages::candidate_fullest_stages(layout).remove(0);
    let states = states::states(layout, &stage);
    (states.parameters + states.gradients + states.optimizer) / stage.parameters()
}

/// Rajbhandari et al. 2020 section 3.1 (16), the README of Megatron-LM (18, 20, and 4 + 16/d, 6 + 12/d).
#[test]
fn states_by_recipe() {
    let model = gpt2_30b();
    let of = |change: &dyn Fn(&mut Layout)| {
        let mut one = layout(&model, 80.0);
        change(&mut one);
        states_per_parameter(&one)
    };
    assert_near(of(&|l| l.precision = Precision::Fp32), 16.0, 1e-9);
    assert_near(of(&|l| l.system = System::SmpV1), 16.0, 1e-9);
    assert_near(of(&|l| l.precision = Precision::Pure16 { bf16: true }), 8.0, 1e-9);
    let megatron = |l: &mut Layout, bf16: bool| {
        l.system = System::Megatron;
        l.code = Code::Megatron;
        l.precision = Precision::Mixed { bf16 };
    };
    assert_near(of(&|l| megatron(l, true)), 18.0, 1e-9);
    assert_near(of(&|l| megatron(l, false)), 20.0, 1e-9);
    let distributed = |l: &mut Layout, bf16: bool| {
        megatron(l, bf16);
        l.sharding = Sharding::Optimizer;
        l.degrees.replicas = 8.0;
    };
    assert_near(of(&|l| distributed(l, true)), 6.0 + 12.0 / 8.0, 1e-9);
    assert_near(of(&|l| l.moments = Moments::TwoInt8 { wide_embeddings: false }), 10.0 + 8.0 / 2048.0, 1e-9);
    // Moments of the token embeddings in 32 bit: 8 bytes of each of them instead of two and the scales.
    let embeddings = model.vocab as f64 * model.hidden as f64 / model.parameters().total as f64;
    assert_near(
        of(&|l| l.moments = Moments::TwoInt8 { wide_embeddings: true }),
        10.0 + 8.0 / 2048.0 + (6.0 - 8.0 / 2048.0) * embeddings,
        1e-9,
    );
    let zero = |l: &mut Layout, sharding| {
        l.system = System::SmpV1;
        l.sharding = sharding;
        l.degrees.shard = 64.0;
    };
    // Rajbhandari et al. 2020, figure 1: 31.4, 16.6 and 1.9 GB for 7.5 billion parameters on 64 GPUs.
    assert_near(7.5 * of(&|l| zero(l, Sharding::Optimizer)), 31.4, 0.003);
    assert_near(7.5 * of(&|l| zero(l, Sharding::Gradients)), 16.6, 0.003);
    assert_near(7.5 * of(&|l| zero(l, Sharding::Full)), 1.9, 0.015);
}

/// State needed to resume: 32-bit weights and two moments (FSDP, DDP; the 16-bit weights are cast from them),
/// or 16-bit weights with a 32-bit copy and the moments (DeepSpeed, SMP v1), as in the checkpoints of
/// `torch.save` and DeepSpeed.
#[test]
fn saved_states_by_recipe() {
    let of = |system: System, precision: Precision| {
        let mut one = layout(&gpt2_30b(), 80.0);
        (one.system, one.precision) = (system, precision);
        resumed_bytes_per_parameter(&one)
    };
    let mixed = Precision::Mixed { bf16: true };
    for (system, bytes) in [
        (System::Fsdp, 12.0),
        (System::SmpV2, 12.0),
        (System::Ddp, 12.0),
        (System::DeepSpeed, 14.0),
        (System::SmpV1, 14.0),
        (System::Megatron, 14.0),
    ] {
        assert_near(of(system, mixed), bytes, 1e-12);
    }
    assert_near(of(System::Ddp, Precision::Fp32), 12.0, 1e-12);
    assert_near(of(System::Ddp, Precision::Pure16 { bf16: true }), 6.0, 1e-12);
}

/// Korthikanti et al. 2022, figure 1 and equations 1 to 4: GiB of a 22 billion and a 175 billion model,
/// tensor degree 8; without either technique 59.25 and 66.84 GiB, with sequence parallelism and selective
/// recomputation 9.56 and 12.35.
#[test]
fn activations_of_korthikanti() {
    for (hidden, layers, heads, stages, chunks, micro, none, both) in
        [(6_144, 48, 64, 1.0, 1.0, 4.0, 59.25, 9.56), (12_288, 96, 96, 8.0, 3.0, 1.0, 66.84, 12.35)]
    {
        let model = architecture(Family::GPT2, hidden, layers, heads);
        let mut one = layout(&model, 80.0);
        one.system = System::Megatron;
        one.code = Code::Megatron;
        one.degrees.tensor = 8.0;
        one.degrees.pipeline = stages;
        one.degrees.virtual_stages = chunks;
        one.work.sequence_length = 2_048.0;
        one.work.micro_batch_size = micro;
        one.work.passes = 64.0;
        let waiting = |layout: &Layout| {
            let first = stages::candidate_fullest_stages(layout).remove(0);
            let each = activations::saved_activations(layout).kept * 2_048.0 * micro * first.layers;
            each * schedule::micro_batches_in_flight(layout, &first) / GIB
        };
        assert_near(waiting(&one), none, 0.01);
        one.sequence_parallel = true;
        one.recompute = Recompute::Selective;
        assert_near(waiting(&one), both, 0.01);
    }
    // s b h (34 + 5 a s / h) to the byte.
    let model = architecture(Family::GPT2, 1_024, 1, 16);
    let mut one = layout(&model, 80.0);
    one.system = System::Megatron;
    one.code = Code::Megatron;
    let bytes = layer_bytes_per_token(&one, &Kept::from_layout(&one), Attention::Eager);
    assert_eq!(bytes, 34.0 * 1_024.0 + 5.0 * 16.0 * 512.0);
}

/// ml-engineering, training/performance: bytes of activations over `2 s b h L` of transformers' models with
/// torch's own attention kernels: Llama 3.1 8B 28, Mistral 7B 28, SmolLM2 360M 24, Qwen3 4B 38, Gemma 2B 48.
#[test]
fn activations_of_transformers() {
    let of = |family, hidden, heads, kv_heads, ffn, head_dim| {
        let written = Dimensions {
            hidden: Some(hidden),
            layers: Some(1),
            heads: Some(heads),
            kv_heads: Some(kv_heads),
            ffn: Some(ffn),
            head_dim,
            ..Dimensions::default()
        };
        let model = Architecture::from_dimensions(family, &written).unwrap().0;
        let mut one = sharded_layout(&model, System::Fsdp, 8.0, 80.0);
        one.attention = Attention::Flash;
        one.model.dropout = false;
        layer_bytes_per_token(&one, &Kept::from_layout(&one), Attention::Flash) / (2.0 * hidden as f64)
    };
    assert_near(of(Family::LLAMA, 4_096, 32, 8, 14_336, None), 28.0, 0.08);
    assert_near(of(Family::MISTRAL, 4_096, 32, 8, 14_336, Some(128)), 28.0, 0.08);
    assert_near(of(Family::LLAMA, 960, 15, 5, 2_560, None), 24.0, 0.08);
    assert_near(of(Family::from_name("gemma").unwrap(), 2_048, 8, 1, 16_384, Some(256)), 48.0, 0.08);
    // A seventh of it is norms of queries and keys.
    assert_near(of(Family::from_name("qwen3").unwrap(), 2_560, 32, 8, 9_728, Some(128)), 38.0, 0.08);
}

/// Dettmers et al. 2023, section 3: 0.127 bits per parameter for doubly quantised scales instead of 0.5.
#[test]
fn quantised_weights() {
    let bits = |double| 8.0 * frozen_bytes_per_parameter(Some(Quantisation::Nf4 { double }));
    assert_near(bits(false), 4.5, 1e-9);
    assert_near(bits(true), 4.127, 1e-4);
    // litgpt, quantize.md: 13.52 GB and, doubly quantised, 4.26 GB of Llama 2 7B with a small cache.
    let mut one = layout(&architecture(Family::LLAMA, 4_096, 32, 32), 40.0);
    one.code = Code::Litgpt;
    one.precision = Precision::Pure16 { bf16: true };
    one.lora = Some(Lora { trainable: 4_194_304.0, kind: AdapterKind::LowRank });
    assert_near(memory(&one).parts.parameters / 1e9, 13.52, 0.01);
    one.quantisation = Some(Quantisation::Nf4 { double: true });
    assert_near(memory(&one).parts.parameters / 1e9, 4.26, 0.1);
}

/// Answer.AI, fsdp_qlora (2024-03): QLoRA of Llama 2 70B under FSDP with CPU offload runs on two GPUs of 24
/// GB, and its units are communicated quantised; in 16 bit the shards alone would not fit.
#[test]
fn seventy_billion_on_two_small_cards() {
    let written = Dimensions {
        hidden: Some(8_192),
        layers: Some(80),
        heads: Some(64),
        kv_heads: Some(8),
        ffn: Some(28_672),
        vocab: Some(32_000),
        ..Dimensions::default()
    };
    let model = Architecture::from_dimensions(Family::LLAMA, &written).unwrap().0;
    let mut one = sharded_layout(&model, System::Fsdp, 2.0, 23.6);
    one.lora = Some(Lora { trainable: 200e6, kind: AdapterKind::LowRank });
    one.quantisation = Some(Quantisation::Nf4 { double: true });
    one.attention = Attention::Flash;
    one.work.sequence_length = 1_024.0;
    one.work.micro_batch_size = 1.0;
    one.offload.parameters = true;
    one.offload.optimizer = true;
    let found = memory(&one);
    assert_eq!(found.fits, Some(true), "{found:?}");
    // Two layers of 856 million parameters at half a byte, the head and the embedding at two bytes, one
    // matrix.
    let gathered = 2.0 * 855.6e6 * 0.516 + 2.0 * (2.0 * 32_000.0 * 8_192.0 + 8_192.0 * 28_672.0);
    assert_near(found.parts.gathered, gathered, 0.01);
    one.offload = crate::layout::Offload::default();
    one.quantisation = None;
    assert_eq!(memory(&one).fits, Some(false));
}

/// AWS blog on sharded data parallelism, 2022: "8 V100 GPUs (32GB each) are sufficient to hold the model
/// states replica of a 10B-parameter model which needs about 200GB"; and 30 billion do not fit there.
#[test]
fn eight_v100_hold_ten_billion() {
    let ten = architecture(Family::GPT2, 4_608, 38, 36);
    assert_near(ten.parameters().total as f64, 10e9, 0.03);
    let one = sharded_layout(&ten, System::SmpV1, 8.0, 32.0);
    let found = memory(&one);
    let states = found.parts.parameters + found.parts.gradients + found.parts.optimizer;
    assert_near(8.0 * states, 200e9, 0.25);
    assert_eq!(found.fits, Some(true), "{found:?}");
    let fewer = sharded_layout(&ten, System::SmpV1, 4.0, 32.0);
    assert_eq!(memory(&fewer).fits, Some(false));
    assert_eq!(memory(&sharded_layout(&gpt2_30b(), System::SmpV1, 8.0, 32.0)).fits, Some(false));
}

/// The same: 30 billion on 16 nodes of eight A100 with 40 GB, shards of 128, micro-batch 6 of 2,048 tokens;
/// on one node it does not fit.
#[test]
fn thirty_billion_on_sixteen_nodes() {
    let mut one = sharded_layout(&gpt2_30b(), System::SmpV1, 128.0, 40.0);
    one.work.sequence_length = 2_048.0;
    one.work.micro_batch_size = 6.0;
    let found = memory(&one);
    // 16 B x 29,974,418,432 / 128.
    assert_near(found.parts.parameters + found.parts.gradients + found.parts.optimizer, 3.49 * GIB, 0.002);
    assert_eq!(found.fits, Some(true), "{found:?}");
    let mut narrow = sharded_layout(&gpt2_30b(), System::SmpV1, 8.0, 40.0);
    narrow.work = one.work;
    assert_eq!(memory(&narrow).fits, Some(false));
}

fn falcon_40b() -> Architecture {
    let written = Dimensions {
        hidden: Some(8_192),
        layers: Some(60),
        heads: Some(128),
        kv_heads: Some(8),
        ffn: Some(32_768),
        vocab: Some(65_024),
        parallel: Some(true),
        layer_norms: Some(2),
        ..Dimensions::default()
    };
    Architecture::from_dimensions(Family::from_name("falcon").unwrap(), &written).unwrap().0
}

/// AWS slides on training, 2023: Falcon-40B with QLoRA on a ml.g5.12xlarge, four A10G of 24 GB, distributed
/// by `device_map="auto"`; "multi-GPU still required for larger models e.g. Falcon 40B > 40 GB memory"
/// without it.
#[test]
fn falcon_40b_on_four_a10g() {
    let model = falcon_40b();
    assert_near(model.parameters().total as f64, 41.3e9, 0.02);
    let mut one = layout(&model, 22.35);
    one.system = System::DeviceMap;
    one.degrees.pipeline = 4.0;
    one.hardware.gpus_per_node = 4.0;
    one.work.sequence_length = 2_048.0;
    one.work.micro_batch_size = 4.0;
    one.recompute = Recompute::Full;
    one.attention = Attention::Flash;
    one.lora = Some(Lora { trainable: 4.4e8, kind: AdapterKind::LowRank });
    one.offload.paged = true;
    one.quantisation = Some(Quantisation::Nf4 { double: true });
    let found = memory(&one);
    assert_eq!(found.fits, Some(true), "{found:?}");
    // In 16 bit the weights alone take 82 GB of the 89.
    one.quantisation = None;
    assert_eq!(memory(&one).fits, Some(false));
    // One card does not hold the 16-bit model of "more than 40 GB" either.
    let mut alone = layout(&model, 40.0);
    alone.system = System::DeviceMap;
    alone.lora = one.lora;
    assert_eq!(memory(&alone).fits, Some(false));
}

/// A PyTorch FSDP blog of philschmid.de, 2023: GPT-NeoX 20B on two ml.p4d.24xlarge, full shards, micro-batch
/// 2.
#[test]
fn neox_20b_on_sixteen_a100() {
    let written = Dimensions {
        hidden: Some(6_144),
        layers: Some(44),
        heads: Some(64),
        ffn: Some(24_576),
        vocab: Some(50_432),
        positions: Some(2_048),
        ..Dimensions::default()
    };
    let model = Architecture::from_dimensions(Family::GPT_NEOX, &written).unwrap().0;
    assert_eq!(model.parameters().total, 20_554_567_680);
    let mut one = sharded_layout(&model, System::Fsdp, 16.0, 40.0);
    one.work.sequence_length = 2_048.0;
    one.work.micro_batch_size = 2.0;
    let found = memory(&one);
    assert_near(found.parts.parameters + found.parts.gradients + found.parts.optimizer, 19.14 * GIB, 0.001);
    assert_eq!(found.fits, Some(true), "{found:?}");
    assert_eq!(memory(&Layout { recompute: Recompute::None, ..one }).fits, Some(false));
}

/// AWS slides on training, 2023: full fine-tuning above one to two billion parameters needs several GPUs of
/// 24 GB; QLoRA needs them only above thirty to forty billion.
#[test]
fn rules_of_thumb_of_the_slides() {
    let full = |model: &Architecture| {
        let mut one = layout(model, 22.35);
        one.recompute = Recompute::Full;
        one.attention = Attention::Flash;
        memory(&one).fits
    };
    assert_eq!(full(&architecture(Family::LLAMA, 2_048, 16, 32)), Some(true));
    assert_eq!(full(&architecture(Family::LLAMA, 4_096, 32, 32)), Some(false));
    let qlora = |model: &Architecture| {
        let mut one = layout(model, 22.35);
        one.recompute = Recompute::Full;
        one.attention = Attention::Flash;
        one.offload.paged = true;
        one.lora = Some(Lora { trainable: 2e-3 * one.model.parameters, kind: AdapterKind::LowRank });
        one.quantisation = Some(Quantisation::Nf4 { double: true });
        memory(&one).fits
    };
    assert_eq!(qlora(&architecture(Family::LLAMA, 5_120, 40, 40)), Some(true));
    assert_eq!(qlora(&falcon_40b()), Some(false));
}

/// Compares with tensors saved by PyTorch, as recorded by `tests/python/saved_tensors.py`.
#[test]
fn as_pytorch_saves() {
    let record: serde_json::Value = serde_json::from_str(include_str!("testdata/pytorch.json")).unwrap();
    for case in record["layers"].as_array().unwrap() {
        let get = |name: &str| case[name].as_u64().unwrap();
        let family = Family::from_name(case["family"].as_str().unwrap()).unwrap();
        let written = Dimensions {
            hidden: Some(get("hidden")),
            layers: Some(1),
            heads: Some(get("heads")),
            kv_heads: case["kv_heads"].as_u64(),
            ffn: Some(get("ffn")),
            ..Dimensions::default()
        };
        let model = Architecture::from_dimensions(family, &written).unwrap().0;
        let mut one = layout(&model, 80.0);
        one.precision = if case["width"] == 4 { Precision::Fp32 } else { Precision::Pure16 { bf16: true } };
        one.work.sequence_length = get("sequence") as f64;
        one.model.dropout = false;
        let attention = if case["attention"] == "eager" { Attention::Eager } else { Attention::Flash };
        one.attention = attention;
        let ours = layer_bytes_per_token(&one, &Kept::from_layout(&one), attention);
        let theirs = get("saved_bytes") as f64 / (get("sequence") * get("batch")) as f64;
        assert!((ours / theirs - 1.0).abs() <= 0.1, "{case}: {ours} against {theirs}");
    }
    for case in record["models"].as_array().unwrap() {
        let model = Architecture::from_hf_config(&case["config"]).unwrap();
        let mut one = layout(&model, 80.0);
        one.precision = Precision::Pure16 { bf16: true };
        one.work.sequence_length = case["sequence"].as_f64().unwrap();
        one.model.dropout = false;
        let eager = case["attention"] == "eager";
        one.attention = if eager { Attention::Eager } else { Attention::Flash };
        // On a CPU torch's kernel reads grouped heads, and its output needs no copy.
        let kept = Kept { repeats_heads: false, copies_output: false, ..Kept::from_layout(&one) };
        let own = one.model.activations.unwrap().of(one.code);
        let ours = layer_bytes_per_token(&one, &kept, one.attention) + own.largest;
        let tokens = one.work.sequence_length * case["batch"].as_f64().unwrap();
        let theirs = case["saved_bytes"].as_f64().unwrap() / tokens;
        assert!((ours / theirs - 1.0).abs() <= 0.01, "{case}: {ours} against {theirs}");
    }
    for case in record["states"].as_array().unwrap() {
        let (one, theirs) = (layout_of_record(case), case["bytes_per_parameter"].as_f64().unwrap());
        let ours = states_per_parameter(&one);
        assert!((ours / theirs - 1.0).abs() <= 0.02, "{case}: {ours} against {theirs}");
        if let Some(theirs) = case["bucket_bytes_per_parameter"].as_f64() {
            let stage = stages::candidate_fullest_stages(&one).remove(0);
            let ours = units::units(&one, &stage).buffers / stage.parameters();
            assert!((ours / theirs - 1.0).abs() <= 0.02, "{case}: buckets {ours} against {theirs}");
        }
    }
}

/// Returns the layout of a recorded case, of a model of realistic size: a factored moment is negligible
/// compared with its matrices.
fn layout_of_record(case: &serde_json::Value) -> Layout {
    let word = |name: &str| case[name].as_str().unwrap();
    let model = architecture(Family::LLAMA, 4_096, 32, 32);
    let mut one = sharded_layout(&model, System::Fsdp, case["shard_degree"].as_f64().unwrap(), 80.0);
    one.degrees.replicas = case["replicas"].as_f64().unwrap();
    (one.system, one.sharding) = match word("engine") {
        "fsdp" => (System::Fsdp, Sharding::Full),
        "ddp" | "none" => (System::Ddp, Sharding::None),
        other => panic!("{other}"),
    };
    one.precision = match word("precision") {
        "fp32" => Precision::Fp32,
        "bf16" => Precision::Pure16 { bf16: true },
        "mixed" => Precision::Mixed { bf16: true },
        other => panic!("{other}"),
    };
    one.moments = match word("optimizer") {
        "adam" | "adamw" => Moments::Two,
        "sgd-momentum" => Moments::One,
        "sgd" => Moments::Zero,
        "adafactor" | "adafactor-transformers" => Moments::Factored,
        other => panic!("{other}"),
    };
    one
}

/// The cases that the record must contain, so that no missing case goes unnoticed.
#[test]
fn the_record_has_every_optimizer_and_engine() {
    let record: serde_json::Value = serde_json::from_str(include_str!("testdata/pytorch.json")).unwrap();
    let has = |wanted: &[(&str, serde_json::Value)]| {
        let states = record["states"].as_array().unwrap();
        states.iter().any(|case| wanted.iter().all(|(name, value)| case[*name] == *value))
    };
    for (engine, precision, optimizer, shard) in [
        ("fsdp", "fp32", "adamw", 4),
        ("fsdp", "mixed", "adamw", 4),
        ("fsdp", "bf16", "adam", 4),
        ("fsdp", "fp32", "sgd", 4),
        ("fsdp", "fp32", "sgd-momentum", 4),
        ("ddp", "fp32", "adamw", 1),
        ("ddp", "mixed", "adamw", 1),
        ("none", "fp32", "adafactor", 1),
        ("none", "fp32", "adafactor-transformers", 1),
    ] {
        let wanted = [
            ("engine", engine.into()),
            ("precision", precision.into()),
            ("optimizer", optimizer.into()),
            ("shard_degree", shard.into()),
        ];
        assert!(has(&wanted), "{wanted:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_behaves(
        layers in 2_u64..40,
        heads in 2_u64..32,
        log_shard in 0_u32..7,
        micro in 1_u64..16,
        sequence in 64_u64..4_096,
        system in prop::sample::select(vec![System::Fsdp, System::DeepSpeed, System::SmpV1, System::SmpV2, System::Worker]),
        recompute in prop::sample::select(vec![Recompute::None, Recompute::Selective, Recompute::Full]),
        flash in any::<bool>(),
    ) {
        let model = architecture(Family::LLAMA, heads * 64, layers, heads);
        let at = |shard: f64, micro: u64| {
            let mut one = sharded_layout(&model, system, shard, 80.0);
            one.hardware.memory_bytes = None;
            one.recompute = recompute;
            one.attention = if flash { Attention::Flash } else { Attention::Eager };
            one.work.sequence_length = sequence as f64;
            one.work.micro_batch_size = micro as f64;
            memory(&one)
        };
        let shard = 2_f64.powi(log_shard.cast_signed() + 1);
        let found = at(shard, micro);
        // Parts add up; nothing is negative; the interval holds the figure.
        let p = found.parts;
        let sum = p.parameters + p.gradients + p.optimizer + p.activations + p.gathered + p.logits + p.buffers + p.reserve;
        prop_assert!((sum - found.per_gpu_bytes).abs() < 1.0);
        for part in [p.parameters, p.gradients, p.optimizer, p.activations, p.gathered, p.logits, p.buffers, p.reserve] {
            prop_assert!(part >= 0.0 && part.is_finite());
        }
        prop_assert!(found.interval.low <= found.per_gpu_bytes && found.per_gpu_bytes <= found.interval.high);
        // It falls with the shard degree and rises with the micro-batch.
        prop_assert!(at(2.0 * shard, micro).per_gpu_bytes <= found.per_gpu_bytes + 1.0);
        prop_assert!(at(shard, micro + 1).per_gpu_bytes >= found.per_gpu_bytes - 1.0);
        for (figure, interval) in [
            (found.host_bytes, found.host_interval),
            (found.peak_checkpoint_bytes, found.peak_checkpoint_interval),
        ] {
            let (figure, interval) = (figure.unwrap(), interval.unwrap());
            prop_assert!(0.0 < interval.low && interval.low <= figure && figure <= interval.high, "{interval:?}");
        }
    }

    /// For every engine, its stages, adapters and offloads: more recomputation never needs more memory,
    /// except for the input of the one layer that is recomputed, which a model with a single layer per GPU
    /// does not recover.
    #[test]
    fn recomputing_more_never_needs_more_memory(layout in any_layout()) {
        let at = |recompute| gpu_memory_parts(&Layout { recompute, ..layout.clone() }, &shipped()).total();
        let [none, selective, full] = [Recompute::None, Recompute::Selective, Recompute::Full].map(at);
        // The reserve is a share of the allocations.
        let kept = Kept::from_layout(&layout);
        let tokens = layout.work.sequence_length * layout.work.sequences_at_once() / layout.degrees.context;
        let checkpoint = activations::checkpoint_bytes_per_token(&layout, &kept) * tokens;
        let single = stages::candidate_fullest_stages(&layout).iter().any(|stage| stage.layers * schedule::micro_batches_in_flight(&layout, stage) < 2.0);
        let room = if single { checkpoint * (1.0 + shipped().slack) } else { 0.0 };
        // The worker keeps the input of its only block as well, in 32 bit, and knows no selective
        // recomputation.
        let worker = if single && layout.system == System::Worker { 4.0 * tokens * layout.model.hidden } else { 0.0 };
        prop_assert!(selective <= none + worker + 1.0, "{selective} selective, {none} without");
        prop_assert!(full <= selective + room + 1.0, "{full} in full, {selective} selective");
        prop_assert!(full <= none + worker + 1.0, "{full} in full, {none} without");
    }

    /// Invariants of every layout: parts add up, none is negative, and more at once never needs less.
    #[test]
    fn every_layout_behaves(layout in any_layout()) {
        let found = memory(&layout);
        let p = found.parts;
        prop_assert!((p.total() - found.per_gpu_bytes).abs() < 1.0);
        for part in [p.parameters, p.gradients, p.optimizer, p.activations, p.gathered, p.logits, p.buffers, p.reserve] {
            prop_assert!(part >= 0.0 && part.is_finite(), "{p:?}");
        }
        prop_assert!(found.interval.low <= found.per_gpu_bytes && found.per_gpu_bytes <= found.interval.high);
        let mut more = layout.clone();
        more.work.micro_batch_size += 1.0;
        prop_assert!(memory(&more).per_gpu_bytes >= found.per_gpu_bytes - 1.0);
        let mut longer = layout.clone();
        longer.work.sequence_length += 64.0;
        prop_assert!(memory(&longer).per_gpu_bytes >= found.per_gpu_bytes - 1.0);
    }
}

prop_compose! {
    /// Returns layouts of every engine: shards, stages, copies, layers distributed over GPUs; with adapters,
    /// and with state in host memory.
    fn any_layout()(
        (system, sharding, tensor, pipeline) in prop::sample::select(vec![
            (System::Fsdp, Sharding::Full, 1, 1),
            (System::Fsdp, Sharding::Gradients, 1, 1),
            (System::Fsdp, Sharding::None, 1, 1),
            (System::DeepSpeed, Sharding::Optimizer, 1, 1),
            (System::DeepSpeed, Sharding::Gradients, 1, 1),
            (System::DeepSpeed, Sharding::Full, 1, 1),
            (System::SmpV1, Sharding::Full, 1, 1),
            (System::SmpV1, Sharding::None, 2, 4),
            (System::SmpV1, Sharding::Optimizer, 4, 2),
            (System::SmpV2, Sharding::Full, 2, 1),
            (System::Worker, Sharding::Full, 1, 1),
            (System::Ddp, Sharding::None, 1, 1),
            (System::DeviceMap, Sharding::None, 1, 4),
            (System::Megatron, Sharding::None, 2, 2),
            (System::Megatron, Sharding::Optimizer, 4, 8),
        ]),
        (layers, heads) in (1_u64..40, 2_u64..32),
        log_data in 0_u32..6,
        // Gradients persist between passes, or not at all: a single pass is a separate case.
        (micro, passes, sequence) in (1_u64..16, prop::sample::select(vec![1_u64, 1, 2, 7]), 64_u64..4_096),
        (flash, sequence_parallel, precision) in (any::<bool>(), any::<bool>(), prop::sample::select(vec![
            Precision::Fp32, Precision::Mixed { bf16: true }, Precision::Mixed { bf16: false }, Precision::Pure16 { bf16: true },
            Precision::Fp8(crate::Fp8Recipe::Tensorwise),
        ])),
        megatron in prop::sample::select(vec![Code::Megatron, Code::MegatronCore, Code::MegatronDeepspeed, Code::Nanotron]),
        (adapter, quantised) in (any::<bool>(), any::<bool>()),
        (activations, states, paged) in (any::<bool>(), any::<bool>(), any::<bool>()),
        family in prop::sample::select(vec![Family::LLAMA, Family::GPT2]),
    ) -> Layout {
        let layers = layers.max(pipeline);
        let model = architecture(family, heads * 64, layers, heads);
        let mut one = layout(&model, 80.0);
        one.hardware.memory_bytes = None;
        (one.system, one.sharding) = (system, sharding);
        if system == System::Megatron {
            one.code = megatron;
        }
        let data = if system == System::DeviceMap { 1.0 } else { 2_f64.powi(log_data.cast_signed()) };
        let sharded = matches!(sharding, Sharding::Full | Sharding::Gradients);
        (one.degrees.shard, one.degrees.replicas) = if sharded { (data, 1.0) } else { (1.0, data) };
        (one.degrees.tensor, one.degrees.pipeline) = (f64::from(tensor), pipeline as f64);
        one.hardware.nodes = (one.degrees.ranks() / 8.0).max(1.0);
        one.hardware.gpus_per_node = one.degrees.ranks().min(8.0);
        (one.work.micro_batch_size, one.work.sequence_length) = (micro as f64, sequence as f64);
        one.work.passes = passes as f64;
        one.work.num_micro_batches = if pipeline > 1 { passes as f64 } else { 1.0 };
        one.attention = if flash { Attention::Flash } else { Attention::Eager };
        one.sequence_parallel = sequence_parallel && tensor > 1;
        one.precision = precision;
        if adapter {
            one.lora = Some(Lora { trainable: 1e-3 * one.model.parameters, kind: AdapterKind::LowRank });
            one.quantisation = quantised.then_some(Quantisation::Nf4 { double: true });
        }
        one.offload.activations = activations;
        (one.offload.parameters, one.offload.optimizer) = (states && sharded, states && sharded);
        one.offload.paged = paged;
        one
    }
}

/// By hand: eight processes of 2 to 4 GB, nothing offloaded; with or without the copy of a checkpoint. The
/// states on a GPU and its context, with or without a gathered unit, have the error of a step's peaks.
#[test]
fn hosts_and_saves_are_expected_between_bounds() {
    let (layout, constants) = (sharded_layout(&gpt2_30b(), System::Fsdp, 128.0, 80.0), shipped());
    let found = memory_with(&layout, &constants);
    let (below, above) = constants.ends(&layout);
    let (host, between) = (found.host_bytes.unwrap(), found.host_interval.unwrap());
    assert_near(between.low, 16e9, 1e-9);
    assert_near(between.high, 32e9 + (host - 24e9) * (1.0 + above), 1e-9);
    let stage = stages::candidate_fullest_stages(&layout).remove(0);
    let states = states::states(&layout, &stage);
    let kept = states.parameters + states.gradients + states.optimizer;
    let (peak, between) = (found.peak_checkpoint_bytes.unwrap(), found.peak_checkpoint_interval.unwrap());
    let beside = peak - host::peak_checkpoint(&layout).1;
    assert_near(between.low, (kept + beside) * (1.0 - below), 1e-9);
    assert_near(between.high, peak * (1.0 + above), 1e-9);
    // The worker's processes have no interpreter, but load the same libraries.
    let worker = memory_with(&Layout { system: System::Worker, ..layout }, &constants);
    assert_near(worker.host_interval.unwrap().low, 16e9, 1e-9);
}

/// Without `wrap` FSDP gathers the whole model and holds the whole gradient: two plus two bytes per
/// parameter.
#[test]
fn one_unit_is_gathered_whole() {
    let mut layout = sharded_layout(&gpt2_30b(), System::Fsdp, 128.0, 80.0);
    let stage = stages::candidate_fullest_stages(&layout).remove(0);
    let blocks = units::units(&layout, &stage).gathered;
    layout.one_unit = true;
    assert_near(units::units(&layout, &stage).gathered, 4.0 * layout.model.parameters, 1e-9);
    assert!(blocks < 0.1 * 4.0 * layout.model.parameters, "{blocks}");
    // A checkpoint gathers the weights alone.
    let states = states::states(&layout, &stage);
    let kept = states.parameters + states.gradients + states.optimizer;
    assert_near(host::peak_checkpoint(&layout).1 - kept, 2.0 * layout.model.parameters, 1e-6);
}

/// Sizes of gathering and reducing in the manifest are exact to the byte.
#[test]
fn what_may_be_gathered_at_once() {
    let of = |layout: &Layout| {
        let stage = stages::candidate_fullest_stages(layout).remove(0);
        let found = units::units(layout, &stage);
        (found.gathered, found.buffers)
    };
    let mut smp = sharded_layout(&gpt2_30b(), System::SmpV1, 128.0, 40.0);
    assert_eq!(of(&smp), (2.0 * 1e9, 2.0 * 5e8));
    (smp.gathering.live_parameters, smp.gathering.bucket) = (3e9, 2e8);
    assert_eq!(of(&smp), (2.0 * 3e9, 2.0 * 2e8));
    // Never less than the current layer, never more than the whole model.
    smp.gathering.live_parameters = 0.0;
    assert_eq!(of(&smp).0, 2.0 * smp.model.layer_parameters);
    smp.gathering.live_parameters = 1e12;
    assert_eq!(of(&smp).0, 2.0 * smp.model.parameters);

    let mut fsdp = sharded_layout(&gpt2_30b(), System::Fsdp, 128.0, 40.0);
    let unit = 2.0 * fsdp.model.layer_parameters;
    let two = of(&fsdp).0;
    for (prefetch, limited, more) in [
        (Prefetch::None, true, -1.0),
        (Prefetch::After, true, -1.0),
        (Prefetch::None, false, 0.0),
        (Prefetch::Before, false, 1.0),
    ] {
        (fsdp.gathering.prefetch, fsdp.gathering.limited) = (prefetch, limited);
        assert_eq!(of(&fsdp).0 - two, more * unit, "{prefetch:?} {limited}");
    }
}

/// Up to and beyond a full card the total grows with every allocated byte, and it fits up to the card's
/// memory.
#[test]
fn memory_rises_through_a_full_card() {
    let constants = MemoryConstants::from_constants(Constants::shipped());
    let layout = sharded_layout(&gpt2_30b(), System::Fsdp, 64.0, 40.0);
    let capacity = 40.0 * GIB;
    let whole =
        |allocated: f64| allocated + reserve::reserve(allocated, &layout, Some(capacity), &constants).total();
    let mut last = 0.0;
    let mut full = 0;
    for step in 0..1_000 {
        let found = whole(45.0 * GIB * f64::from(step) / 1_000.0);
        assert!(found > last, "{step}: {found} after {last}");
        full += i32::from((found / capacity - 1.0).abs() < 1e-4);
        last = found;
    }
    assert!(full <= 1, "{full} sizes fill the card exactly");
    // Memory that the driver reserves is not usable: 39.58 GiB of 40.
    let room = capacity * (1.0 - 0.0104) - constants.context_bytes - constants.nccl_bytes;
    assert_near(whole(room / (1.0 + constants.fragments)), capacity, 1e-9);
}

/// Parts of the experts are inside the shard group, so all its ranks together hold the model once, for every
/// degree.
#[test]
fn expert_degree_leaves_the_sharded_states() {
    let mut layout = sharded_layout(&gpt2_30b(), System::SmpV2, 64.0, 80.0);
    layout.model.expert_parameters = 0.9 * layout.model.layer_parameters * layout.model.layers;
    let of = |layout: &Layout| states::states(layout, &stages::candidate_fullest_stages(layout).remove(0));
    let one = of(&layout);
    layout.degrees.expert = 8.0;
    let eight = of(&layout);
    assert_near(eight.parameters, one.parameters, 1e-9);
    assert_near(eight.optimizer, one.optimizer, 1e-9);
    assert_near(one.optimizer * 64.0, 8.0 * layout.model.parameters, 1e-6);
}

/// Returns the layout of a config.json under Megatron with flash attention, 4,096 tokens.
fn megatron_layout(config: &serde_json::Value) -> Layout {
    let mut one = layout(&Architecture::from_hf_config(config).unwrap(), 80.0);
    (one.system, one.code, one.attention) = (System::Megatron, Code::MegatronCore, Attention::Flash);
    (one.work.sequence_length, one.work.micro_batch_size, one.work.passes) = (4_096.0, 1.0, 16.0);
    one
}

/// DeepSeek-V3 in Megatron: latent queries, keys and values, and of each layer of experts the gathered input
/// and the products of 8 experts and the shared one. Counted by hand.
#[test]
fn activations_of_latent_attention_and_experts() {
    let one = megatron_layout(&serde_json::json!({"model_type": "deepseek_v3", "hidden_size": 7168,
        "num_hidden_layers": 61, "num_attention_heads": 128, "intermediate_size": 18432}));
    let h = 7_168.0;
    let mla = 2.0 * h + 4.0 * (1_536.0 + 512.0) + 2.0 * 128.0 * 640.0 + 4.0 * 128.0;
    let experts = 2.0 * h + 4.0 * 256.0 + 8.0 * (2.0 * h + 6.0 * 2_048.0) + 6.0 * 2_048.0;
    let dense = 2.0 * h + 6.0 * 18_432.0;
    let found = layer_bytes_per_token(&one, &Kept::from_layout(&one), Attention::Flash);
    // The norms of the two products keep their input; products keep the norms' output, which is counted with
    // them.
    let norms = 2.0 * 2.0 * h;
    assert_near(found, norms + mla + (58.0 * experts + 3.0 * dense) / 61.0, 1e-6);
    // In 8 bit the inputs of all products have half the bytes; the router's own is not modelled.
    let narrow = Layout { precision: Precision::Fp8(crate::Fp8Recipe::Mxfp8), ..one };
    let inputs = 2.0 * h + 1_536.0 + 512.0 + 128.0 * 128.0;
    let of_experts = 8.0 * (h + 2_048.0) + 2_048.0;
    let halved = inputs + (58.0 * of_experts + 3.0 * 18_432.0) / 61.0;
    let eight = layer_bytes_per_token(&narrow, &Kept::from_layout(&narrow), Attention::Flash);
    assert_near(found - eight, halved, 1e-6);
}

/// More tensor ranks than heads of keys and values hold copies of these: 4 heads over 8 ranks as 8 heads.
#[test]
fn few_key_heads_are_copied() {
    let config = |kv_heads: u64| {
        serde_json::json!({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2,
            "num_attention_heads": 32, "num_key_value_heads": kv_heads, "intermediate_size": 11008})
    };
    let bytes = |kv_heads, tensor| {
        let mut one = megatron_layout(&config(kv_heads));
        one.degrees.tensor = tensor;
        layer_bytes_per_token(&one, &Kept::from_layout(&one), Attention::Flash)
    };
    assert_eq!(bytes(4, 8.0), bytes(8, 8.0));
    assert_eq!(bytes(8, 4.0) - bytes(4, 4.0), 2.0 * 2.0 * 4.0 * 128.0 / 4.0);
}

/// The rank with the fullest experts holds more than the mean, which only the upper bound has; without expert
/// parallelism all tokens of a rank stay there.
#[test]
fn fuller_experts_raise_the_upper_bound() {
    let mut one = megatron_layout(&serde_json::json!({"model_type": "qwen3_moe", "hidden_size": 2048,
        "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 4, "moe_intermediate_size": 768}));
    one.degrees.shard = 8.0;
    let above = |layout: &Layout| {
        let found = memory(layout);
        (found.interval.high / found.per_gpu_bytes, found.interval.low / found.per_gpu_bytes)
    };
    let together = above(&one);
    one.degrees.expert = 8.0;
    let apart = above(&one);
    assert!(apart.0 > together.0, "{apart:?} {together:?}");
    assert_near(apart.1, together.1, 1e-9);
    // A benchmark forces equal loads.
    one.balanced_experts = true;
    assert_near(above(&one).0, together.0, 1e-9);
}

/// Llama 7B on the worker: 2 replicas of 32 shards, micro-batch 1 of 4,096 tokens.
fn llama_7b_on_worker() -> Layout {
    let written = Dimensions {
        hidden: Some(4_096),
        layers: Some(32),
        heads: Some(32),
        ffn: Some(11_008),
        vocab: Some(32_000),
        positions: Some(4_096),
        ..Dimensions::default()
    };
    let model = Architecture::from_dimensions(Family::LLAMA, &written).unwrap().0;
    let mut layout = sharded_layout(&model, System::Worker, 32.0, 40.0);
    layout.code = Code::Worker;
    layout.attention = Attention::Flash;
    layout.work.sequence_length = 4_096.0;
    layout.work.micro_batch_size = 1.0;
    layout
}

/// Bytes counted by hand. Llama 7B has 131,072,000 elements in its embedding, 202,383,360 in each block and
/// 131,076,096 in head and last norm; 32 divides them, and 16 the shards, so that nothing is padded.
#[test]
fn a_rank_of_the_worker_on_a_gpu() {
    let mut layout = llama_7b_on_worker();
    let found = predict_with_shipped(&layout);
    let (embed, block, head) = (131_072_000.0, 202_383_360.0, 131_076_096.0);
    let whole = 6_738_415_616.0;
    let parts = found.parts;
    assert_eq!((parts.parameters, parts.gradients), (4.0 * whole / 32.0, 4.0 * whole / 32.0));
    assert_eq!(parts.optimizer, 8.0 * whole / 32.0);
    // Two blocks in bf16 with the ends of the model, two whole gradients and two shards in 32 bit.
    let gradients = 8.0 * block + 8.0 * block / 32.0;
    assert_eq!(parts.gathered, 2.0 * (embed + head + 2.0 * block) + gradients);
    // 32 inputs in 32 bit. A block keeps two norms' outputs, q, k, v and attention's output in bf16, the
    // three parts of the feed-forward layers, and in 32 bit its middle, 32 sums of softmax and 4 statistics.
    let (h, f) = (4_096.0, 11_008.0);
    let rows = 4_096.0;
    let saved = 2.0 * (6.0 * h + 3.0 * f) + 4.0 * (h + 32.0 + 4.0);
    // The most of its backward pass: two tensors of the stream's width in 32 bit, and dq, dk, dv in bf16 and,
    // while positions are turned back, twice in 32 bit.
    let passing = 2.0 * 4.0 * h + (2.0 + 2.0 * 4.0) * 3.0 * h;
    assert_eq!(parts.activations, rows * (32.0 * 4.0 * h + saved + passing));
    // 2^26 / 32,000 = 2,097 rows of loss at once; rows in bf16 and 32 bit beside it. A block's temporaries
    // are gone then.
    let loss = 32_000.0 * (2.0 * rows + 16.0 * 2_097.0) + rows * 6.0 * h;
    assert_eq!(parts.logits, loss - rows * passing);
    assert_eq!(parts.buffers, 2.0 * GIB);
    // The driver's share and 6 % of split blocks: the context is one of the buffers.
    let (driver, allocated) = (0.0104 * 40.0 * GIB, parts.total() - parts.reserve);
    assert_near(parts.reserve, driver + 0.06 * allocated, 1e-9);
    // While a checkpoint is saved there are no activations.
    let idle = parts.total() - parts.activations - parts.logits;
    assert_near(found.peak_checkpoint_bytes.unwrap(), idle - parts.reserve + 0.0104 * 40.0 * GIB, 1e-9);

    layout.recompute = Recompute::None;
    let all = predict_with_shipped(&layout).parts.activations;
    assert_eq!(all, rows * (32.0 * (4.0 * h + saved) + passing));
    // Blocks that stay whole after the forward pass.
    (layout.worker.reshard, layout.worker.prefetch) = (false, 1.0);
    assert_eq!(predict_with_shipped(&layout).parts.gathered, 2.0 * whole + gradients);
    // Without gathers ahead one block is whole.
    (layout.worker.reshard, layout.worker.prefetch) = (true, 0.0);
    assert_eq!(predict_with_shipped(&layout).parts.gathered, 2.0 * (embed + head + block) + gradients);
}

/// Adapters alone have gradients and moments; the base is sharded in 32 bit and gathered in bf16.
#[test]
fn adapters_of_the_worker_on_a_gpu() {
    let mut layout = llama_7b_on_worker();
    let whole = predict_with_shipped(&layout).parts;
    let trainable = 32.0 * 131_072.0;
    layout.lora = Some(Lora { trainable, kind: AdapterKind::LowRank });
    let parts = predict_with_shipped(&layout).parts;
    assert_eq!(parts.gradients, 4.0 * trainable / 32.0);
    assert_eq!(parts.optimizer, 8.0 * trainable / 32.0);
    assert_eq!(parts.parameters, whole.parameters + parts.gradients);
    let block = 202_383_360.0;
    let adapter = 131_072.0;
    // Two gradients and their shards; two blocks are whole with their adapters.
    let gradients = 8.0 * (1.0 + 1.0 / 32.0) * (block - adapter);
    assert_eq!(whole.gathered - parts.gathered, gradients - 2.0 * 2.0 * adapter);
}
