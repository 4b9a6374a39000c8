//! Base layouts of tests.

use super::layout::{
    Attention, Code, Degrees, FlashKernel, Gathering, GpuKind, Hardware, Layout, Model, Moments, Offload,
    Precision, Recompute, Sharding, System, Work, WorkerSettings,
};
use super::speed::tests::gpt2_30b;

/// Returns one unspecified GPU, one sequence of 512 tokens, mixed precision, no recomputation, AdamW.
pub(super) fn one_gpu(model: Model) -> Layout {
    Layout {
        model,
        hardware: Hardware {
            gpu: None,
            memory_bytes: None,
            peak_flops: None,
            usable_share: None,
            memory_bytes_per_second: None,
            gpus_per_node: 1.0,
            nodes: 1.0,
            intra_bytes_per_second: None,
            inter_bytes_per_second: None,
            host_memory_bytes: None,
            efa: false,
            nvlink_gpus: None,
        },
        system: System::Ddp,
        degrees: Degrees {
            replicas: 1.0,
            shard: 1.0,
            tensor: 1.0,
            pipeline: 1.0,
            virtual_stages: 1.0,
            context: 1.0,
            expert: 1.0,
        },
        order: super::Order::MEGATRON,
        sharding: Sharding::None,
        work: Work {
            sequence_length: 512.0,
            micro_batch_size: 1.0,
            tensor_readers: 1.0,
            passes: 1.0,
            num_micro_batches: 1.0,
            num_active_micro_batches: None,
            global_sequences: 1.0,
        },
        precision: Precision::Mixed { bf16: true },
        recompute: Recompute::None,
        attention: Attention::Eager,
        flash: super::layout::FlashKernel::Second,
        loss: None,
        compiled: false,
        sequence_parallel: false,
        offload: Offload::default(),
        lora: None,
        quantisation: None,
        moments: Moments::Two,
        smddp: false,
        code: Code::HuggingFace,
        code_is_known: true,
        gradient_bytes: None,
        narrow_weights: false,
        tensor_overlap: super::layout::TensorOverlap::None,
        expert_kernel: super::layout::ExpertKernel::Grouped,
        dispatcher: super::layout::Dispatcher::AllToAll,
        splits_experts: false,
        balanced_experts: false,
        ulysses: false,
        optimizer_copies: false,
        frees_frozen: false,
        one_unit: false,
        input: None,
        gathering: Gathering::default(),
        worker: WorkerSettings::default(),
        release: None,
    }
}

/// Returns FSDP on four nodes of eight H100.
pub(super) fn h100_fsdp() -> Layout {
    let mut out = gpt2_30b(4.0, 32.0, 2048.0, 2.0, 64.0);
    out.hardware.gpu = Some(GpuKind::H100);
    (out.hardware.peak_flops, out.hardware.memory_bytes_per_second) = (Some(989e12), Some(3.35e12));
    (out.hardware.intra_bytes_per_second, out.hardware.inter_bytes_per_second) = (Some(900e9), Some(100e9));
    (out.system, out.attention, out.flash) = (System::Fsdp, Attention::Flash, FlashKernel::Second);
    out
}
