//! Names that other tools use for nodes and properties, where they are too different to be recognised as typos. They are
//! compared without case, hyphens and underscores.

/// Names of the API and of the SageMaker Python SDK, with what to write instead; the file describes its columns.
pub(crate) const OTHER_NAMES: &str = include_str!("other_names.tsv");

/// The entries of [`NODE_ALIASES`] whose value is a property of the node, not its argument.
pub(crate) const PROPERTY_ALIAS_NODES: &[&str] =
    &["activation-loading-horizon", "pipeline", "microbatches", "active-microbatches"];

/// Nodes: another tool's name, trainc's name, and an explanation.
pub(crate) const NODE_ALIASES: &[(&str, &str, &str)] = &[
    ("partitions", "pipeline-degree", "(SMP's `partitions`)"),
    ("pipeline-parallel-degree", "pipeline-degree", "(SMP's `partitions`)"),
    ("sharded-data-parallel-degree", "shard-degree", "(the same name for all engines)"),
    ("hybrid-shard-degree", "shard-degree", "(the same name for all engines)"),
    ("tensor-parallel-degree", "tensor-degree", "(the same name for all engines)"),
    ("context-parallel-degree", "context-degree", "(the same name for all engines)"),
    ("expert-parallel-degree", "expert-degree", "(the same name for all engines)"),
    ("placement-strategy", "placement", "(SMP's `placement_strategy`)"),
    ("sm-activation-offloading", "offload-activations", "(SMP v2's own name differs)"),
    (
        "activation-loading-horizon",
        "offload-activations",
        "with `horizon=` (SMP's `activation_loading_horizon`)",
    ),
    ("pipeline", "pipeline-degree", "with `schedule=\"simple\"` or \"interleaved\" (SMP's `pipeline`)"),
    ("microbatches", "pipeline-degree", "with this as a property"),
    ("active-microbatches", "pipeline-degree", "with this as a property"),
    ("gradient-accumulation", "accumulation", "for the passes per optimizer step"),
    ("gradient-accumulation-steps", "accumulation", "for the passes per optimizer step"),
    ("batch-size", "micro-batch", "for the sequences of one pass"),
    ("micro-batch-size", "micro-batch", "for the sequences of one pass"),
    ("per-device-train-batch-size", "micro-batch", "for the sequences of one pass"),
    ("seq-len", "sequence-length", "for the tokens of one sequence"),
    ("seq-length", "sequence-length", "for the tokens of one sequence"),
    ("max-seq-length", "sequence-length", "for the tokens of one sequence"),
    ("gradient-checkpointing", "activation-checkpointing", "for recomputation"),
    ("bf16", "precision", "with \"bf16\", \"fp16\" or \"fp32\""),
    ("fp16", "precision", "with \"bf16\", \"fp16\" or \"fp32\""),
    ("dtype", "precision", "with \"bf16\", \"fp16\" or \"fp32\""),
    ("hyperparameters", "hyperparameter", "once for each, such as `hyperparameter \"name\" value`"),
    ("env", "environment", "for variables of the container"),
    ("max-runtime", "max-run", "for the maximum run time"),
    ("max-runtime-in-seconds", "max-run", "for the maximum run time, such as \"4h\""),
    ("max-steps", "steps", "for the optimizer steps of the run"),
    ("global-batch-size", "global-batch", "for the sequences of an optimizer step"),
    ("per-device-batch", "micro-batch", "for the sequences of one pass"),
    ("per-device-batch-size", "micro-batch", "for the sequences of one pass"),
    ("sharding-strategy", "strategy", "for the FSDP sharding strategy"),
    ("auto-wrap-policy", "wrap", "for the layer class"),
    ("vpc", "network", "with `subnets` and `security-groups`"),
    ("vpc-config", "network", "with `subnets` and `security-groups`"),
    ("num-steps", "steps", "for the optimizer steps of the run"),
];

/// Properties: another tool's name, and trainc's name.
pub(crate) const PROPERTY_ALIASES: &[(&str, &str)] = &[
    ("count", "nodes"),
    ("instance-count", "nodes"),
    ("num-nodes", "nodes"),
    ("instances", "nodes"),
    ("source-dir", "source"),
    ("uri", "s3"),
    ("s3-uri", "s3"),
    ("learning-rate", "lr"),
    ("warmup-steps", "warmup"),
    ("lr-scheduler", "schedule"),
    ("lr-schedule", "schedule"),
    ("beta1", "betas"),
    ("beta2", "betas"),
    ("adam-beta1", "betas"),
    ("adam-beta2", "betas"),
    ("r", "rank"),
    ("lora-r", "rank"),
    ("lora-alpha", "alpha"),
    ("lora-dropout", "dropout"),
    ("target-modules", "targets"),
    ("framework-version", "version"),
    ("py-version", "python"),
    ("python-version", "python"),
    ("pytorch-version", "pytorch"),
    ("transformers-version", "transformers"),
    ("image-uri", "uri"),
];
