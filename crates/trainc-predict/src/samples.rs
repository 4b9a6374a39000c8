//! Base layouts of tests.

use super::layout::{
    Attention, Code, Degrees, Gathering, Hardware, Layout, Model, Moments, Offload, Precision, Recompute,
    Sharding, System, Work, WorkerSettings,
};

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
        flash2: true,
        compiled: false,
        sequence_parallel: false,
        offload: Offload::default(),
        lora: None,
        quantisation: None,
        moments: Moments::Two,
        smddp: false,
        code: Code::HuggingFace,
        optimizer_copies: false,
        frees_frozen: false,
        one_unit: false,
        input: None,
        gathering: Gathering::default(),
        worker: WorkerSettings::default(),
    }
}
