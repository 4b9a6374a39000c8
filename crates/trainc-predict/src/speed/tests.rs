use super::super::layout::*;
use super::super::samples::one_gpu;
use super::*;
use crate::constants::{MeasuredRuns, Position};
use crate::{Order, Setting};
use proptest::prelude::*;

/// GPT-2 with 30 billion parameters on p4d, sharded over `shard` GPUs.
pub(crate) fn gpt2_30b(
    nodes: f64,
    shard: f64,
    sequence_length: f64,
    micro_batch: f64,
    global: f64,
) -> Layout {
    let (layers, hidden, vocab) = (48.0, 7168.0, 50_257.0);
    let linear = layers * 12.0 * hidden * hidden;
    let gpus = nodes * 8.0;
    let model = Model {
        parameters: 29_974_418_432.0,
        layer_parameters: linear / layers,
        outer_parameters: 29_974_418_432.0 - linear,
        expert_parameters: 0.0,
        active_parameters: 29_974_418_432.0,
        linear_parameters: linear,
        layers,
        hidden,
        heads: 64.0,
        kv_heads: 64.0,
        head_dim: 112.0,
        ffn: 4.0 * hidden,
        ffn_matrices: 2.0,
        head_vocab: vocab,
        vocab,
        experts: 0.0,
        active_experts: 0.0,
        causal: true,
        dropout: true,
        parallel_blocks: false,
        tied: true,
        rms_norm: false,
        composite_gelu: true,
        activations: None,
    };
    Layout {
        hardware: Hardware {
            gpu: Some(GpuKind::A100),
            memory_bytes: Some(40.0 * 1_073_741_824.0),
            peak_flops: Some(312e12),
            usable_share: None,
            memory_bytes_per_second: Some(1555e9),
            gpus_per_node: 8.0,
            nodes,
            intra_bytes_per_second: Some(600e9),
            inter_bytes_per_second: Some(50e9),
            host_memory_bytes: None,
            efa: true,
            nvlink_gpus: None,
        },
        system: System::SmpV1,
        degrees: Degrees {
            replicas: gpus / shard,
            shard,
            tensor: 1.0,
            pipeline: 1.0,
            virtual_stages: 1.0,
            context: 1.0,
            expert: 1.0,
        },
        sharding: Sharding::Full,
        work: Work {
            sequence_length,
            micro_batch_size: micro_batch,
            tensor_readers: 1.0,
            passes: global / (gpus * micro_batch),
            num_micro_batches: 1.0,
            num_active_micro_batches: None,
            global_sequences: global,
        },
        recompute: Recompute::Full,
        flash: FlashKernel::First,
        loss: None,
        ..one_gpu(model)
    }
}

fn speed_with_shipped(layout: &Layout) -> Speed {
    speed(layout, Constants::shipped()).unwrap()
}

#[test]
fn conventions_agree_with_hand_computed_figures() {
    // 181.05 samples/s of 512 tokens on 128 GPUs are 173.66 TFLOPS a GPU by 8 N, 130.25 by 6 N.
    let mut found = speed_with_shipped(&gpt2_30b(16.0, 128.0, 512.0, 12.0, 3072.0));
    let scale = found.samples_per_second / 181.05;
    found.tflops.eight_n /= scale;
    found.tflops.six_n /= scale;
    assert!((found.tflops.eight_n / 173.660 - 1.0).abs() < 1e-4, "{}", found.tflops.eight_n);
    assert!((found.tflops.six_n / 130.245 - 1.0).abs() < 1e-4, "{}", found.tflops.six_n);
    // Megatron's formula with full recomputation gives 175.068; ours counts the same products.
    let hardware = found.tflops.hardware / scale;
    assert!((hardware / 175.07 - 1.0).abs() < 0.01, "{hardware}");
}

#[test]
fn what_is_not_known_is_an_error() {
    let whole = gpt2_30b(2.0, 16.0, 512.0, 1.0, 64.0);
    let without = |change: fn(&mut Layout)| {
        let mut layout = whole.clone();
        change(&mut layout);
        speed(&layout, Constants::shipped()).unwrap_err().0
    };
    assert!(without(|layout| layout.hardware.gpu = None).contains("accelerator"));
    assert!(without(|layout| layout.hardware.peak_flops = None).contains("peak"));
    assert!(without(|layout| layout.hardware.inter_bytes_per_second = None).contains("between nodes"));
    assert!(without(|layout| layout.precision = Precision::Fp32).contains("32-bit"));
    let on_cpus = without(|layout| (layout.system, layout.worker.cpu) = (System::Worker, true));
    assert!(on_cpus.contains("worker"));
}

#[test]
fn smddp_is_faster_over_efa_alone() {
    let slow = gpt2_30b(16.0, 128.0, 512.0, 1.0, 128.0);
    let fast = Layout { smddp: true, ..slow.clone() };
    assert!(speed_with_shipped(&fast).step_seconds < speed_with_shipped(&slow).step_seconds);
    let one = gpt2_30b(1.0, 8.0, 512.0, 1.0, 8.0);
    assert_eq!(speed_with_shipped(&Layout { smddp: true, ..one.clone() }), speed_with_shipped(&one));
}

/// Data are read while the GPUs work: a step takes the longer of the two, and waits for the difference.
#[test]
fn a_step_waits_for_what_reading_takes_longer() {
    let layout = gpt2_30b(2.0, 16.0, 512.0, 1.0, 64.0);
    let works = speed_with_shipped(&layout);
    assert_eq!(works.parts.input, None);
    let reading = |times: f64| {
        // 64 sequences of 8 MB in `times` times the step.
        let bytes_per_second = 64.0 * 8e6 / (times * works.step_seconds);
        let input = Some(crate::Input { sequence_bytes: 8e6, bytes_per_second });
        speed_with_shipped(&Layout { input, ..layout.clone() })
    };
    let fast = reading(0.999);
    assert_eq!((fast.parts.input, fast.step_seconds), (Some(0.0), works.step_seconds));
    assert_eq!((fast.interval, fast.mfu), (works.interval, works.mfu));
    let slow = reading(3.0);
    let near =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
    near(slow.step_seconds, 3.0 * works.step_seconds);
    near(slow.parts.input.unwrap(), 2.0 * works.step_seconds);
    near(slow.parts.total(), slow.step_seconds);
    near(slow.tokens_per_second, works.tokens_per_second / 3.0);
    near(slow.mfu, works.mfu / 3.0);
    assert!(slow.interval.low < slow.step_seconds && slow.step_seconds < slow.interval.high);
}

prop_compose! {
    fn layouts()(
        nodes in 0_u32..6, tensor in 0_u32..4, pipeline in 0_u32..4, micro in 0_u32..4, passes in 0_u32..6,
        s in 8_u32..14, full in any::<bool>(), flash in any::<bool>(), sharding in 0_usize..4,
        (system, code) in prop::sample::select(vec![
            (System::Fsdp, Code::HuggingFace),
            (System::Fsdp, Code::Torchtitan),
            (System::SmpV2, Code::HuggingFace),
            (System::DeepSpeed, Code::HuggingFace),
            (System::DeepSpeed, Code::MegatronDeepspeed),
            (System::Megatron, Code::Megatron),
            (System::Megatron, Code::MegatronCore),
            (System::Megatron, Code::MegatronDeepspeed),
            (System::Megatron, Code::Nanotron),
            (System::SmpV1, Code::HuggingFace),
            (System::Worker, Code::Worker),
        ]),
        recipe in prop::sample::select(vec![
            None, None, Some(Fp8Recipe::Tensorwise), Some(Fp8Recipe::Blockwise), Some(Fp8Recipe::Nvfp4),
        ]),
        third in any::<bool>(),
    ) -> Layout {
        let nodes = f64::from(1 << nodes);
        let gpus = nodes * 8.0;
        let tensor = f64::from(1 << tensor);
        let pipeline = f64::from(1 << pipeline).min(gpus / tensor);
        let data = gpus / tensor / pipeline;
        let sharding = [Sharding::None, Sharding::Optimizer, Sharding::Gradients, Sharding::Full][sharding];
        let (micro, passes) = (f64::from(1 << micro), f64::from(1 << passes));
        let mut layout = gpt2_30b(nodes, gpus, f64::from(1 << s), micro, micro * passes * data);
        let shard = if sharding == Sharding::None { 1.0 } else { data };
        layout.degrees = Degrees { replicas: data / shard, shard, tensor, pipeline, ..layout.degrees };
        layout.work.passes = passes;
        layout.sharding = sharding;
        (layout.system, layout.code) = (system, code);
        if let Some(recipe) = recipe {
            layout.precision = Precision::Fp8(recipe);
        }
        if third {
            layout.flash = FlashKernel::Third;
        }
        layout.recompute = if full { Recompute::Full } else { Recompute::None };
        layout.attention = if flash { Attention::Flash } else { Attention::Eager };
        layout
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_add_up_to_the_whole_and_none_is_negative(layout in layouts()) {
        let found = speed_with_shipped(&layout);
        prop_assert!((found.parts.total() / found.step_seconds - 1.0).abs() < 1e-12);
        let parts = found.parts;
        for part in [parts.compute, parts.exposed_communication, parts.bubble, parts.offload, parts.optimizer] {
            prop_assert!(part >= 0.0, "{parts:?}");
        }
        let links = found.communication;
        let least = parts.exposed_communication * (1.0 - 1e-12);
        prop_assert!(links.exposed_seconds() >= 0.0 && links.overlapped_seconds() >= 0.0 && links.total() >= least, "{parts:?} {links:?}");
        prop_assert!(links.exposed_seconds() <= parts.exposed_communication * (1.0 + 1e-12), "{parts:?} {links:?}");
        prop_assert!(found.interval.low < found.step_seconds && found.step_seconds < found.interval.high);
        prop_assert!(found.mfu > 0.0 && found.mfu < 1.0, "{}", found.mfu);
        prop_assert!(found.tflops.hardware >= found.tflops.model);
    }

    /// With a larger micro-batch or longer sequences a step of as many passes takes longer.
    #[test]
    fn more_work_takes_longer(layout in layouts()) {
        let before = speed_with_shipped(&layout).step_seconds;
        let mut larger = layout.clone();
        larger.work.micro_batch_size += 1.0;
        larger.work.global_sequences *= larger.work.micro_batch_size / layout.work.micro_batch_size;
        prop_assert!(speed_with_shipped(&larger).step_seconds >= before * (1.0 - 1e-12));
        let mut longer = layout.clone();
        longer.work.sequence_length *= 1.25;
        prop_assert!(speed_with_shipped(&longer).step_seconds >= before * (1.0 - 1e-12));
    }

    /// On twice the nodes, with as many times the replicas or shards, no collective is faster.
    #[test]
    fn collectives_are_not_faster_on_more_nodes(layout in layouts(), doublings in 1_u32..4) {
        let times = f64::from(1 << doublings);
        let mut wider = layout.clone();
        wider.hardware.nodes *= times;
        if layout.sharding == Sharding::None { wider.degrees.replicas *= times } else { wider.degrees.shard *= times }
        wider.work.global_sequences *= times;
        let (few, many) = (speed_with_shipped(&layout).communication, speed_with_shipped(&wider).communication);
        for (name, few, many) in [
            ("gather", few.gather, many.gather),
            ("gradients", few.gradients, many.gradients),
            ("tensor", few.tensor, many.tensor),
            ("pipeline", few.pipeline, many.pipeline),
        ] {
            prop_assert!(many >= few * (1.0 - 1e-9), "{name}: {few} s, {many} s on {times} times the nodes");
        }
    }

    #[test]
    fn recomputation_and_slower_links_never_gain(layout in layouts()) {
        let full = Layout { recompute: Recompute::Full, ..layout.clone() };
        let none = Layout { recompute: Recompute::None, ..layout.clone() };
        prop_assert!(speed_with_shipped(&full).step_seconds > speed_with_shipped(&none).step_seconds);
        let mut slow = layout.clone();
        slow.hardware.inter_bytes_per_second = Some(10e9);
        prop_assert!(speed_with_shipped(&slow).step_seconds >= speed_with_shipped(&layout).step_seconds * (1.0 - 1e-12));
    }

    /// The same global batch on twice the nodes, each GPU with half the passes: the time without
    /// communication falls, the compute time by half, so that the total falls until exposed communication
    /// grows by more.
    #[test]
    fn time_falls_with_nodes_until_communication_wins(
        layout in layouts(), log_nodes in 0_u32..5, log_passes in 1_u32..6, across in any::<bool>(),
    ) {
        let at = |nodes: f64, passes: f64| {
            let mut layout = layout.clone();
            layout.hardware.nodes = nodes;
            layout.degrees.pipeline = 1.0;
            layout.degrees.tensor = layout.degrees.tensor.min(8.0);
            let data = layout.hardware.gpus() / layout.degrees.tensor;
            // The shard group grows with the cluster, or stays inside a node.
            let inside = 8.0 / layout.degrees.tensor;
            let shard = if across { data } else { inside };
            layout.degrees.shard = if layout.sharding == Sharding::None { 1.0 } else { shard };
            layout.degrees.replicas = data / layout.degrees.shard;
            layout.work.passes = passes;
            layout.work.global_sequences = layout.work.micro_batch_size * passes * data;
            (layout.work.global_sequences, speed_with_shipped(&layout))
        };
        let (nodes, passes) = (f64::from(1 << log_nodes), f64::from(1 << log_passes));
        let ((global, few), (same, many)) = (at(nodes, passes), at(2.0 * nodes, passes / 2.0));
        prop_assert_eq!(global, same);
        prop_assert!((many.parts.compute / few.parts.compute - 0.5).abs() < 1e-9);
        let rest = |speed: &Speed| speed.step_seconds - speed.parts.exposed_communication;
        prop_assert!(rest(&many) < rest(&few));
        let more = many.parts.exposed_communication - few.parts.exposed_communication;
        prop_assert_eq!(many.step_seconds < few.step_seconds, more < rest(&few) - rest(&many));
        // Never more than twice as fast once there are several nodes.
        prop_assert!(nodes < 2.0 || few.step_seconds / many.step_seconds <= 2.0 + 1e-9);
    }

    /// The same work per GPU on twice the nodes, sharded over all: no step is shorter, and the increase is
    /// exposed communication.
    #[test]
    fn communication_wins_in_the_end(layout in layouts(), log_nodes in 1_u32..9) {
        let at = |nodes: f64| {
            let mut layout = layout.clone();
            layout.hardware.nodes = nodes;
            layout.sharding = Sharding::Full;
            let data = layout.hardware.gpus();
            layout.degrees = Degrees { replicas: 1.0, shard: data, tensor: 1.0, pipeline: 1.0, ..layout.degrees };
            layout.work.global_sequences = layout.work.micro_batch_size * layout.work.passes * data;
            speed_with_shipped(&layout).parts
        };
        let nodes = f64::from(1 << log_nodes);
        let (few, many) = (at(nodes), at(2.0 * nodes));
        prop_assert!((many.compute / few.compute - 1.0).abs() < 1e-9);
        prop_assert!(many.exposed_communication > few.exposed_communication);
        // Without bound: a sufficiently wide group waits longer than it computes.
        let wide = at(65_536.0 * 64.0);
        prop_assert!(wide.exposed_communication > wide.compute);
    }
}

#[test]
fn a_fixed_batch_gains_less_from_each_node() {
    // A fixed batch of 512 sequences, fully sharded: from one pass on, another node only lengthens the
    // gathers.
    let at = |nodes: f64, micro: f64| {
        speed_with_shipped(&gpt2_30b(nodes, nodes * 8.0, 512.0, micro, 512.0)).tokens_per_second / nodes
    };
    let (four, sixteen, sixty_four) = (at(4.0, 16.0), at(16.0, 4.0), at(64.0, 1.0));
    assert!(four > sixteen && sixteen > sixty_four, "{four} {sixteen} {sixty_four}");
    let whole = |nodes: f64, micro: f64| at(nodes, micro) * nodes;
    assert!(whole(16.0, 4.0) > 0.9 * whole(4.0, 16.0));
    assert!(whole(64.0, 1.0) < 1.2 * whole(16.0, 4.0), "communication has won");
}

#[test]
fn a_context_ring_sends_keys_and_values_and_merges_blocks() {
    let constants = Constants::shipped();
    let mut layout = gpt2_30b(2.0, 16.0, 32_768.0, 1.0, 16.0);
    layout.attention = Attention::Flash;
    layout.degrees.context = 4.0;
    let machine = Machine::of(&layout, constants).unwrap();
    // Three hops each (forward, recomputed, and twice backward) of 8,192 tokens' keys and values in 16 bit,
    // over 227 GB/s.
    let bytes = 2.0 * 2.0 * 8192.0 * 7168.0;
    let seconds = 3.0 * 4.0 * (bytes / (constants.get(Name::Nvlink) * 300e9) + 4e-5);
    assert!((links::context_ring_seconds_per_layer(&layout, &machine, 1.0) / seconds - 1.0).abs() < 1e-9);
    let found = speed(&layout, constants).unwrap();
    assert!((found.communication.context - layout.work.passes.max(1.0) * 48.0 * seconds).abs() < 1e-6);
    // Megatron sends eight heads of keys and values; others repeat them for 64 heads of queries.
    layout.code = Code::Megatron;
    layout.model.kv_heads = 8.0;
    assert!(links::context_ring_seconds_per_layer(&layout, &machine, 1.0) < seconds / 4.0);
    layout.degrees.context = 1.0;
    assert_eq!(links::context_ring_seconds_per_layer(&layout, &machine, 1.0), 0.0);
}

#[test]
fn handling_weights_costs_each_pass_the_same() {
    // Half the micro-batch and twice the passes do the same work, but handle every weight twice as often.
    let (one, two) = (gpt2_30b(2.0, 16.0, 512.0, 16.0, 256.0), gpt2_30b(2.0, 16.0, 512.0, 8.0, 256.0));
    let bytes = Constants::shipped().get(Name::Weights) * one.model.parameters / 1555e9;
    let more = speed_with_shipped(&two).parts.compute - speed_with_shipped(&one).parts.compute;
    assert!(more > 0.9 * bytes, "{more} {bytes}");
    // With a pipeline of Megatron the products accumulate into the buffer that is reduced.
    let alone =
        Layout { system: System::Ddp, sharding: Sharding::None, ..gpt2_30b(0.125, 1.0, 512.0, 1.0, 1.0) };
    let lora = Layout {
        lora: Some(Lora { trainable: 1e6, kind: AdapterKind::LowRank }),
        ..gpt2_30b(2.0, 16.0, 512.0, 1.0, 16.0)
    };
    for layout in [alone, lora, Layout { system: System::Megatron, ..one }] {
        let none = compute::compute_pass(&layout, &Machine::of(&layout, Constants::shipped()).unwrap());
        let mut constants = Constants::shipped().clone();
        *constants.value_mut("kernels.weights").unwrap() *= 2.0;
        let twice = compute::compute_pass(&layout, &Machine::of(&layout, &constants).unwrap());
        assert_eq!(none.gpu, twice.gpu);
    }
}

#[test]
fn gradients_under_autocast_are_reduced_in_32_bit() {
    let mut layout = gpt2_30b(2.0, 1.0, 512.0, 1.0, 16.0);
    (layout.system, layout.sharding) = (System::Ddp, Sharding::None);
    let mixed = speed_with_shipped(&layout).communication.gradients;
    layout.precision = Precision::Pure16 { bf16: true };
    assert!((mixed / speed_with_shipped(&layout).communication.gradients - 2.0).abs() < 1e-9);
}

#[test]
fn one_unit_hides_no_communication() {
    let mut layout = gpt2_30b(2.0, 16.0, 512.0, 2.0, 32.0);
    layout.system = System::Fsdp;
    let blocks = speed_with_shipped(&layout);
    layout.one_unit = true;
    let whole = speed_with_shipped(&layout);
    // Gathered once and scattered once instead of twice and once, all of it exposed.
    assert!((whole.communication.gather / blocks.communication.gather * 3.0 / 2.0 - 1.0).abs() < 1e-9);
    assert!((whole.parts.exposed_communication - whole.communication.gather).abs() < 1e-9);
    assert!(whole.step_seconds > blocks.step_seconds);
}

/// If each rank of a tensor group reads its own sequences, the group processes that many at once: the same
/// work as one reader of all of them, and never more than the GPUs can do.
#[test]
fn sequences_of_a_tensor_group_are_worked_on_by_all_of_it() {
    let mut shared = gpt2_30b(4.0, 1.0, 1024.0, 8.0, 1024.0);
    shared.degrees = Degrees { replicas: 4.0, shard: 1.0, tensor: 8.0, ..shared.degrees };
    shared.sharding = Sharding::None;
    shared.work.global_sequences =
        shared.work.micro_batch_size * shared.work.passes * shared.degrees.replicas;
    let mut apart = shared.clone();
    (apart.work.micro_batch_size, apart.work.tensor_readers) = (1.0, 8.0);
    let (shared, apart) = (speed_with_shipped(&shared), speed_with_shipped(&apart));
    assert!((shared.step_seconds / apart.step_seconds - 1.0).abs() < 1e-12);
    assert!(apart.mfu < 0.7, "{}", apart.mfu);
}

/// Stages and tensor ranks on 2 nodes of 8 GPUs: communication across nodes follows the placement.
#[test]
fn placement_decides_what_crosses_nodes() {
    let mut cluster = gpt2_30b(2.0, 1.0, 1024.0, 2.0, 32.0);
    cluster.degrees = Degrees { replicas: 4.0, shard: 1.0, tensor: 2.0, pipeline: 2.0, ..cluster.degrees };
    cluster.sharding = Sharding::None;
    cluster.order = Order::CLUSTER;
    let spread = Layout { order: Order::MEGATRON, ..cluster.clone() };
    let machine = Machine::of(&cluster, Constants::shipped()).unwrap();
    let constants = Constants::shipped();
    // By hand: 2 × 1024 tokens of 7,168 channels in 16 bit, in both directions; inside a node over NVLink.
    let bytes = 2.0 * 2.0 * 1024.0 * 7168.0;
    let inside = 2.0 * (bytes / (constants.get(Name::Nvlink) * 300e9) + 4e-5);
    assert!((links::pipeline_send_seconds(&cluster, &machine) / inside - 1.0).abs() < 1e-9);
    // Across nodes: eight GPUs of a node share its links, the two tensor ranks of a stage send a part each.
    let across = 2.0 * (bytes / (constants.get(Name::Pipeline) * 50e9 / 8.0 * 2.0) + 4e-5);
    assert!((links::pipeline_send_seconds(&spread, &machine) / across - 1.0).abs() < 1e-9);
    // With the stages inside a node its four groups of gradients span two nodes; with the stages apart none
    // does.
    let parameters = cluster.model.parameters / 4.0;
    let share = constants.get(Name::GradientsEfa) / (1.0 + 2.0 / constants.get(Name::GradientNodesEfa));
    let between = 4.0 * 2.0 * 2.0 * parameters * 0.5 / (share * 50e9);
    assert!((links::gradient_reduce_seconds(&cluster, &machine) / between - 1.0).abs() < 1e-9);
    let inside = 2.0 * 0.75 * 2.0 * parameters / (constants.get(Name::Nvlink) * 300e9);
    assert!((links::gradient_reduce_seconds(&spread, &machine) / inside - 1.0).abs() < 1e-9);
    // Steps differ by the difference of the links, not by orders of magnitude.
    let (one, other) = (speed_with_shipped(&cluster).step_seconds, speed_with_shipped(&spread).step_seconds);
    assert!(one / other < 5.0 && other / one < 5.0, "{one} {other}");
}

/// By hand: a LLaMA of 7B with frozen weights. Its matrices and head have 6,607,077,376 weights, 4 FLOP
/// each per token; an adapter of rank 8 on query and value has 4,194,304 at 6; attention over 2,048 tokens
/// 12 · L · h · s.
#[test]
fn frozen_weights_have_no_gradient_products() {
    let mut layout = gpt2_30b(1.0, 8.0, 2048.0, 1.0, 8.0);
    let (layers, hidden, ffn, vocab) = (32.0, 4096.0, 11_008.0, 32_000.0);
    let linear = layers * (4.0 * hidden * hidden + 3.0 * hidden * ffn);
    layout.model = Model {
        parameters: 6_738_415_616.0,
        active_parameters: 6_738_415_616.0,
        linear_parameters: linear,
        layers,
        hidden,
        heads: 32.0,
        kv_heads: 32.0,
        head_dim: 128.0,
        ffn,
        ffn_matrices: 3.0,
        head_vocab: vocab,
        vocab,
        ..layout.model
    };
    layout.recompute = Recompute::None;
    let whole = flops(&layout).needed;
    layout.lora = Some(Lora { trainable: 4_194_304.0, kind: AdapterKind::LowRank });
    let frozen = flops(&layout).needed;
    assert_eq!(linear + hidden * vocab, 6_607_077_376.0);
    let attention = 12.0 * layers * hidden * 2048.0;
    let per_token = 4.0 * 6_607_077_376.0 + 6.0 * 4_194_304.0 + attention;
    assert!((frozen / 2048.0 / per_token - 1.0).abs() < 1e-12, "{frozen}");
    assert!((whole / 2048.0 / (6.0 * 6_607_077_376.0 + attention) - 1.0).abs() < 1e-12, "{whole}");
    // Full recomputation: one more forward pass, 2 FLOP per weight in the layers, excluding the head.
    layout.recompute = Recompute::Full;
    let Flops { needed: model, performed: hardware, .. } = flops(&layout);
    let again = 2.0 * linear + 2.0 * 4_194_304.0 + attention / 3.0;
    assert!(((hardware - model) / 2048.0 / again - 1.0).abs() < 1e-12);
    // The conventions that count parameters do not distinguish frozen ones.
    let found = speed_with_shipped(&layout);
    let rate = found.tokens_per_second / 8.0 / 1e12;
    let (six, eight) = (6.0 * 6_738_415_616.0 * rate, 8.0 * 6_738_415_616.0 * rate);
    assert!(
        (found.tflops.six_n / six - 1.0).abs() < 1e-9 && (found.tflops.eight_n / eight - 1.0).abs() < 1e-9
    );
}

/// Settings that free no memory take no time: selective recomputation with FlashAttention, offloaded
/// activations with one micro-batch.
#[test]
fn options_without_effect_cost_nothing() {
    let mut layout = gpt2_30b(2.0, 16.0, 2048.0, 4.0, 256.0);
    (layout.system, layout.attention, layout.recompute) = (System::Fsdp, Attention::Flash, Recompute::None);
    let selective = Layout { recompute: Recompute::Selective, ..layout.clone() };
    let bytes = |layout: &Layout| crate::memory::memory(layout).parts.activations;
    assert!(bytes(&selective) <= bytes(&layout));
    assert_eq!(speed_with_shipped(&selective), speed_with_shipped(&layout));
    // If the score matrix is written, its core is recomputed.
    let eager = |recompute| Layout { recompute, attention: Attention::Eager, ..layout.clone() };
    let (none, some) = (eager(Recompute::None), eager(Recompute::Selective));
    assert!(
        bytes(&some) < bytes(&none)
            && speed_with_shipped(&some).step_seconds > speed_with_shipped(&none).step_seconds
    );

    let mut plain = gpt2_30b(2.0, 16.0, 2048.0, 4.0, 256.0);
    plain.work.passes = 4.0;
    let mut offloaded = plain.clone();
    offloaded.offload.activations = true;
    assert_eq!(
        (bytes(&offloaded), speed_with_shipped(&offloaded)),
        (bytes(&plain), speed_with_shipped(&plain))
    );
    // Four micro-batches of one batch hide copies behind one another.
    offloaded.work.num_micro_batches = 4.0;
    assert!(bytes(&offloaded) < bytes(&plain));
    offloaded.work.num_active_micro_batches = Some(1.0);
    assert_eq!(bytes(&offloaded), bytes(&plain));
}

/// By hand: one micro-batch in flight over four stages is no pipeline, all stages work one after the other;
/// two halve that time; with at least as many as stages, only the filling and draining of three turns
/// remain.
#[test]
fn fewer_in_flight_than_stages_wait_for_each_other() {
    let mut layout = gpt2_30b(1.0, 1.0, 2048.0, 1.0, 8.0);
    layout.system = System::SmpV1;
    layout.sharding = Sharding::None;
    layout.degrees = Degrees { replicas: 2.0, shard: 1.0, pipeline: 4.0, ..layout.degrees };
    (layout.work.passes, layout.work.num_micro_batches) = (8.0, 8.0);
    let bubble = |active| {
        let mut layout = layout.clone();
        layout.work.num_active_micro_batches = active;
        speed_with_shipped(&layout).parts.bubble
    };
    let turn = bubble(None) / 3.0;
    assert!(turn > 0.0);
    for (active, turns) in [(1.0, 24.0), (2.0, 9.0), (4.0, 3.0), (6.0, 3.0)] {
        let found = bubble(Some(active)) / turn;
        assert!((found / turns - 1.0).abs() < 1e-9, "{active} in flight: {found} turns, expected {turns}");
    }
    // Fewer micro-batches than stages: three turns of filling as before.
    layout.work.passes = 2.0;
    let two = speed_with_shipped(&layout).parts.bubble;
    layout.work.num_active_micro_batches = Some(1.0);
    assert!(speed_with_shipped(&layout).parts.bubble > two);
}

/// Without prefetching the backward pass waits for each unit; in the forward pass it is still prefetched.
#[test]
fn units_that_are_not_prefetched_are_waited_for() {
    let mut layout = gpt2_30b(2.0, 16.0, 2048.0, 4.0, 256.0);
    layout.system = System::Fsdp;
    let with = speed_with_shipped(&layout);
    let scatter = with.communication.scatter;
    let gather = 0.5 * (with.communication.gather - scatter);
    let mut more = |prefetch| {
        layout.gathering.prefetch = prefetch;
        speed_with_shipped(&layout).parts.exposed_communication - with.parts.exposed_communication
    };
    // After the gradients, only the backward gather is exposed; without prefetching also the scatter.
    let (after, none) = (more(Prefetch::After), more(Prefetch::None));
    assert!(after > 0.0 && after <= gather, "{after} of {gather}");
    assert!(none > after && none <= gather + scatter, "{none} of {gather} and {scatter}");
    // Hidden communication still costs its share.
    assert!((none - after) / scatter > 0.5, "{none} {after} {scatter}");
    layout.sharding = Sharding::Gradients;
    layout.gathering.prefetch = Prefetch::Before;
    let kept = speed_with_shipped(&layout);
    layout.gathering.prefetch = Prefetch::None;
    assert_eq!(speed_with_shipped(&layout), kept, "nothing is gathered backward");
}

/// Beyond the measured runs the interval widens with the distance and reports its cause.
#[test]
fn beyond_what_was_measured_the_interval_is_wider() {
    let half = |layout: &Layout| {
        let speed = speed_with_shipped(layout);
        ((speed.interval.high / speed.step_seconds).ln(), speed.extrapolation, speed.parts)
    };
    let measured = Constants::shipped().measured_limits(System::Fsdp).unwrap();
    let mut layout = gpt2_30b(2.0, 16.0, 2048.0, 4.0, 256.0);
    (layout.system, layout.code) = (System::Fsdp, Code::Composer);
    // MosaicML's fabric.
    (layout.hardware.efa, layout.hardware.inter_bytes_per_second) = (false, Some(200e9));
    let of_nodes = |nodes: f64| {
        let mut new = layout.clone();
        new.hardware.nodes = nodes;
        new.degrees.replicas *= nodes / layout.hardware.nodes;
        new.work.global_sequences *= nodes / layout.hardware.nodes;
        half(&new)
    };
    let most = measured.gpus / layout.hardware.gpus_per_node;
    let (inside, extrapolation, _) = of_nodes(most);
    assert_eq!((extrapolation.gpus, extrapolation.parameters), (None, None));
    let (twice, extrapolation, _) = of_nodes(2.0 * most);
    assert_eq!(extrapolation.gpus.unwrap().measured, measured.gpus);
    let (sixteen, ..) = of_nodes(16.0 * most);
    assert!(inside + 0.03 < twice && twice + 0.1 < sixteen, "{inside} {twice} {sixteen}");
    layout.model.parameters = 4.0 * measured.parameters;
    assert!(half(&layout).1.parameters.is_some());
}

/// Returns the constants as if one run had been measured: that of a layout.
fn with_one_run(layout: &Layout, rows: f64) -> Constants {
    let mut constants = Constants::shipped().clone();
    let parts = speed_with_shipped(layout).parts;
    let waiting = (parts.exposed_communication + parts.bubble + parts.offload) / parts.total();
    let positions = vec![Position::new(layout, waiting)];
    constants
        .set_fitted_settings(vec![(Setting::from_layout(layout).unwrap(), MeasuredRuns { rows, positions })]);
    constants
}

/// The width follows the distance from the measured run, whichever way the layout differs; the same run has
/// no distance.
#[test]
fn the_interval_widens_with_the_distance_from_a_measured_run() {
    let mut layout = gpt2_30b(2.0, 16.0, 2048.0, 4.0, 256.0);
    (layout.system, layout.code) = (System::Fsdp, Code::Composer);
    let constants = with_one_run(&layout, 20.0);
    let wider = |layout: &Layout| {
        let far = speed(layout, &constants).unwrap().extrapolation.far;
        far.map_or((0.0, Vec::new()), |far| (far.wider, far.differences()))
    };
    let (same, differs) = wider(&layout);
    assert!(same < 1e-6 && differs.is_empty(), "{same} {differs:?}");
    assert!(speed(&layout, &constants).unwrap().extrapolation.is_measured());
    let mut long = layout.clone();
    (long.work.sequence_length, long.work.micro_batch_size) = (8192.0, 1.0);
    assert!(wider(&long).0 > 0.01 && wider(&long).1.contains(&"sequence length"), "{:?}", wider(&long));
    let mut split = long.clone();
    (split.degrees.tensor, split.degrees.shard) = (8.0, 2.0);
    assert!(wider(&split).0 > wider(&long).0);
    let code = Layout { code: Code::Torchtitan, ..layout.clone() };
    assert_eq!(wider(&code).1, ["code"]);
    let mut efa = layout.clone();
    efa.hardware.efa = !efa.hardware.efa;
    assert!(wider(&efa).0 > 0.0 && wider(&efa).0 < wider(&code).0);
    // Without any run nothing is near.
    let mut none = constants.clone();
    none.set_fitted_settings(vec![(Setting::from_layout(&layout).unwrap(), MeasuredRuns::default())]);
    let far = speed(&layout, &none).unwrap().extrapolation.far.unwrap();
    assert!(far.nearest.is_none() && far.wider > wider(&split).0, "{far:?}");
}

/// The upper end is farther than the lower one: disturbed runs are slow.
#[test]
fn the_ends_of_an_interval_differ() {
    let speed = speed_with_shipped(&gpt2_30b(2.0, 16.0, 2048.0, 4.0, 256.0));
    let (low, high) =
        ((speed.step_seconds / speed.interval.low).ln(), (speed.interval.high / speed.step_seconds).ln());
    assert!((high / low / Constants::shipped().get(Name::Above) - 1.0).abs() < 1e-9, "{low} {high}");
}

/// The effect of DeepSpeed's buckets over Omni-Path in BLOOM's runs does not apply to EFA or other
/// optimizers.
#[test]
fn sharded_optimizer_states_reduce_as_whole_gradients_do() {
    let mut layout = gpt2_30b(4.0, 1.0, 512.0, 1.0, 64.0);
    layout.degrees = Degrees { replicas: 4.0, shard: 1.0, tensor: 8.0, ..layout.degrees };
    layout.sharding = Sharding::None;
    let whole = speed_with_shipped(&layout).communication.gradients;
    layout.sharding = Sharding::Optimizer;
    assert_eq!(speed_with_shipped(&layout).communication.gradients, whole);
    (layout.system, layout.code) = (System::Megatron, Code::MegatronDeepspeed);
    assert!(speed_with_shipped(&layout).communication.gradients > 2.0 * whole);
}

/// The half-width of a step is the mean of those of its parts, weighted by their time.
#[test]
fn the_step_is_as_far_off_as_its_parts_in_the_mean() {
    let speed = speed(&gpt2_30b(32.0, 128.0, 512.0, 4.0, 4096.0), Constants::shipped()).unwrap();
    let (parts, ends) = (&speed.parts, speed.part_intervals());
    let pairs = [
        (parts.compute, ends.compute),
        (parts.exposed_communication, ends.exposed_communication),
        (parts.bubble, ends.bubble),
        (parts.offload, ends.offload),
        (parts.optimizer, ends.optimizer),
    ];
    let mut mean = 0.0;
    for (seconds, Interval { low, high }) in pairs {
        assert!(low <= seconds && seconds <= high);
        if seconds > 0.0 {
            mean += seconds / speed.step_seconds * (high / seconds).ln();
        }
    }
    let whole = (speed.interval.high / speed.step_seconds).ln();
    assert!((mean - whole).abs() < 1e-9, "{mean} {whole}");
    // Waiting for links is more uncertain.
    let off = |figure: f64, ends: Interval| ends.high / figure;
    assert!(off(parts.exposed_communication, ends.exposed_communication) > off(parts.compute, ends.compute));
    assert_eq!(ends.input, None, "what is not known has no interval");
}

/// The worker on GPUs is timed by FSDP's constants, since no run of it was measured: the same work with the
/// reduction of 32-bit gradients, and a wider interval.
#[test]
fn the_worker_on_gpus_takes_the_time_of_fsdp() {
    let mut fsdp = gpt2_30b(2.0, 16.0, 512.0, 1.0, 64.0);
    (fsdp.system, fsdp.code) = (System::Fsdp, Code::Composer);
    let mut worker = Layout { system: System::Worker, code: Code::Worker, ..fsdp.clone() };
    worker.worker.wide_reduction = false;
    let (ours, theirs) = (speed_with_shipped(&worker), speed_with_shipped(&fsdp));
    assert_eq!((ours.step_seconds, &ours.parts), (theirs.step_seconds, &theirs.parts));
    // 0.2 for an engine without a measured run: the mean of both ends.
    assert_eq!(ours.extrapolation.far.unwrap().runs, 0.0);
    let both = ours.extrapolation.engine * f64::midpoint(1.0, Constants::shipped().get(Name::Above));
    assert!((both - 0.2).abs() < 1e-12 && theirs.extrapolation.engine == 0.0);
    assert!(ours.interval.low < theirs.interval.low && ours.interval.high > theirs.interval.high);
    // Gradients in 32 bit double the scatter, a third of a pass's collectives.
    worker.worker.wide_reduction = true;
    let wide = speed_with_shipped(&worker);
    assert!((wide.communication.gather / ours.communication.gather - 4.0 / 3.0).abs() < 1e-9);
    assert!((wide.communication.scatter / ours.communication.scatter - 2.0).abs() < 1e-9);
    // Blocks that stay whole are gathered once.
    worker.worker.reshard = false;
    let kept = speed_with_shipped(&worker);
    assert!((kept.communication.gather / wide.communication.gather - 3.0 / 4.0).abs() < 1e-9);
    // Without gathers ahead they are exposed.
    (worker.worker.reshard, worker.worker.prefetch) = (true, 0.0);
    assert!(speed_with_shipped(&worker).step_seconds > wide.step_seconds);
}
