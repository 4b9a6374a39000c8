//! Training systems, which differ in schedules, buffers and measured runs.

/// Systems whose schedules and buffers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// PyTorch FSDP.
    Fsdp,
    /// DeepSpeed ZeRO.
    DeepSpeed,
    /// SageMaker model parallel v1: sharded data parallelism, or pipeline and tensor parallelism.
    SmpV1,
    /// SageMaker model parallel v2 (FSDP inside).
    SmpV2,
    /// Megatron-LM, Megatron-DeepSpeed.
    Megatron,
    /// DDP under NCCL or SMDDP, and one GPU alone.
    Ddp,
    /// One process that distributes layers over the GPUs of one node; one GPU works at a time.
    DeviceMap,
    /// The Rust FSDP worker.
    Worker,
}

impl System {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Fsdp,
        Self::DeepSpeed,
        Self::SmpV1,
        Self::SmpV2,
        Self::Megatron,
        Self::Ddp,
        Self::DeviceMap,
        Self::Worker,
    ];

    /// Returns its word in a file of constants, and its display name.
    const fn key_and_display_name(self) -> (&'static str, &'static str) {
        match self {
            Self::Fsdp => ("fsdp", "FSDP"),
            Self::DeepSpeed => ("deepspeed", "DeepSpeed"),
            Self::SmpV1 => ("smp-v1", "SMP v1"),
            Self::SmpV2 => ("smp-v2", "SMP v2"),
            Self::Megatron => ("megatron", "Megatron-LM"),
            Self::Ddp => ("ddp", "DDP"),
            Self::DeviceMap => ("device-map", "a device map"),
            Self::Worker => ("worker", "the worker"),
        }
    }

    /// Returns its word in a file of constants.
    pub const fn as_str(self) -> &'static str {
        self.key_and_display_name().0
    }

    /// Returns its display name.
    pub const fn display_name(self) -> &'static str {
        self.key_and_display_name().1
    }
}

/// States sharded over the shard group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharding {
    /// None: every rank has all states.
    None,
    /// Optimizer states (ZeRO-1).
    Optimizer,
    /// Optimizer states and gradients (ZeRO-2, `SHARD_GRAD_OP`).
    Gradients,
    /// Optimizer states, gradients and parameters (ZeRO-3, `FULL_SHARD`, sharded data parallelism).
    Full,
}
