//! `parallel` and the parameters of every engine.

use crate::spec::{NodeSpec, Repeat, Ty, arg, optional_arg, prop, required_prop, value_node};

/// The engines, in the order of the reference.
pub const ENGINE_NAMES: &[&str] = &["fsdp", "smp", "smddp", "ddp", "device-map", "worker", "none"];

static STRATEGY: NodeSpec = NodeSpec {
    name: "strategy",
    doc: "fsdp: sharding strategy",
    args: &[arg("strategy", Ty::Word(&["full-shard", "shard-grad-op", "hybrid-shard", "no-shard"]))],
    ..NodeSpec::LEAF
};
static SHARD_DEGREE: NodeSpec =
    value_node("shard-degree", Ty::Count, "GPUs that the states of one replica are sharded over");
static TENSOR_DEGREE: NodeSpec = value_node("tensor-degree", Ty::Count, "GPUs that each layer is split over");
static PIPELINE_DEGREE: NodeSpec = NodeSpec {
    name: "pipeline-degree",
    doc: "stages of the pipeline",
    args: &[arg("degree", Ty::Int(1, u64::MAX))],
    props: &[
        prop("schedule", Ty::Word(&["simple", "interleaved"]), "order of the passes"),
        prop("microbatches", Ty::Int(1, u64::MAX), "micro-batches in one pass"),
        prop("active-microbatches", Ty::Int(1, u64::MAX), "micro-batches in flight"),
    ],
    ..NodeSpec::LEAF
};
static CONTEXT_DEGREE: NodeSpec =
    value_node("context-degree", Ty::Count, "GPUs that the sequence is split over");
static EXPERT_DEGREE: NodeSpec =
    value_node("expert-degree", Ty::Count, "GPUs that the experts are distributed over");
static WRAP: NodeSpec = value_node("wrap", Ty::Plain, "fsdp: decoder layer class that forms a unit");
static PLACEMENT: NodeSpec = NodeSpec {
    name: "placement",
    doc: "smp v1: which axis varies fastest over the ranks; a permutation of D, P, T, right-most fastest",
    args: &[arg("strategy", Ty::Word(&["cluster", "spread", "DPT", "DTP", "PDT", "PTD", "TDP", "TPD"]))],
    ..NodeSpec::LEAF
};
static OFFLOAD_ACTIVATIONS: NodeSpec = NodeSpec {
    name: "offload-activations",
    doc: "smp: checkpointed activations are kept in host memory",
    args: &[optional_arg("on", Ty::Bool)],
    props: &[prop("horizon", Ty::Int(1, u64::MAX), "layers or tasks loaded ahead")],
    ..NodeSpec::LEAF
};
static PRESCALED: NodeSpec =
    value_node("prescaled-batch", Ty::Bool, "smp v1: all tensor-parallel ranks read the same batch");
static SHARD_OPTIMIZER: NodeSpec =
    value_node("shard-optimizer-state", Ty::Bool, "smp v1: shard optimizer states over the replicas");
static PROCESSES: NodeSpec =
    value_node("processes", Ty::Count, "ddp, smp: processes per host; default: one per GPU");
static MPI_ENV: NodeSpec = NodeSpec {
    name: "mpi-env",
    doc: "environment variables of the MPI ranks (-x K=V)",
    free_props: Some(Ty::Scalar),
    repeat: Repeat::Many,
    ..NodeSpec::LEAF
};
static MPI_OPTIONS: NodeSpec =
    value_node("mpi-options", Ty::Text, "additional options of mpirun, passed as written");

/// A child of `parallel` and the engines that support it.
#[derive(Debug)]
pub struct OptionRow {
    /// The node.
    pub spec: &'static NodeSpec,
    /// The engines that support it.
    pub engines: &'static [&'static str],
}

const MPI: &[&str] = &["smp", "smddp", "ddp"];

/// Children of `parallel` that determine the mesh or its launch.
static MESH_NODES: &[OptionRow] = &[
    OptionRow { spec: &STRATEGY, engines: &["fsdp"] },
    OptionRow { spec: &SHARD_DEGREE, engines: &["fsdp", "smp", "worker"] },
    OptionRow { spec: &TENSOR_DEGREE, engines: &["smp"] },
    OptionRow { spec: &PIPELINE_DEGREE, engines: &["smp"] },
    OptionRow { spec: &CONTEXT_DEGREE, engines: &["smp"] },
    OptionRow { spec: &EXPERT_DEGREE, engines: &["smp"] },
    OptionRow { spec: &WRAP, engines: &["fsdp"] },
    OptionRow { spec: &PLACEMENT, engines: &["smp"] },
    OptionRow { spec: &OFFLOAD_ACTIVATIONS, engines: &["smp"] },
    OptionRow { spec: &PRESCALED, engines: &["smp"] },
    OptionRow { spec: &SHARD_OPTIMIZER, engines: &["smp"] },
    OptionRow { spec: &PROCESSES, engines: &["ddp", "smp"] },
    OptionRow { spec: &MPI_ENV, engines: MPI },
    OptionRow { spec: &MPI_OPTIONS, engines: MPI },
];

/// Returns the engines that support a child of `parallel`; `None` for other nodes.
pub fn engines_of(spec: &NodeSpec) -> Option<&'static [&'static str]> {
    MESH_NODES.iter().chain(OPTIONS).find(|row| std::ptr::eq(row.spec, spec)).map(|row| row.engines)
}

macro_rules! options {
    ($($ident:ident = $name:literal $ty:expr, $engines:expr, $doc:literal;)*) => {
        $(static $ident: NodeSpec = NodeSpec { name: $name, doc: $doc, args: $ty, ..NodeSpec::LEAF };)*
        /// Parameters that are passed on to the engine, in the order of the reference.
        pub static OPTIONS: &[OptionRow] = &[$(OptionRow { spec: &$ident, engines: $engines },)*];
        pub(crate) static PARALLEL: NodeSpec = NodeSpec {
            name: "parallel",
            doc: "parallelism: the engine and its degrees",
            props: &[
                required_prop("engine", Ty::Plain, "fsdp, smp, smddp, ddp, device-map, worker or none"),
                prop(
                    "launcher",
                    Ty::Word(&["torchrun", "pytorchddp", "mpi", "parameter-server", "multi-worker-mirrored"]),
                    "ddp: `torchrun`, `pytorchddp` or `mpi`; none: a strategy of TensorFlow, `parameter-server` or `multi-worker-mirrored`",
                ),
                prop("group", Ty::Plain, "instance group of the cluster that the ranks run on"),
            ],
            children: &[
                &STRATEGY, &SHARD_DEGREE, &TENSOR_DEGREE, &PIPELINE_DEGREE, &CONTEXT_DEGREE, &EXPERT_DEGREE, &WRAP,
                &PLACEMENT, &OFFLOAD_ACTIVATIONS, &PRESCALED, &SHARD_OPTIMIZER, &PROCESSES, &MPI_ENV, &MPI_OPTIONS,
                $(&$ident,)*
            ],
            ..NodeSpec::LEAF
        };
    };
}

const ON: &[crate::spec::Arg] = &[optional_arg("on", Ty::Bool)];
const COUNT: &[crate::spec::Arg] = &[arg("count", Ty::Int(0, u64::MAX))];
const NUMBER: &[crate::spec::Arg] = &[arg("number", Ty::Number(0.0, f64::MAX))];
const PORT: &[crate::spec::Arg] = &[arg("port", Ty::Int(1, 65_535))];

options! {
    MIN_PARAMETERS = "min-parameters" COUNT, &["fsdp"], "fsdp: minimum parameters of a unit";
    PREFETCH = "prefetch" &[arg("value", Ty::Scalar)], &["fsdp", "worker"],
        "fsdp: `backward-pre`, `backward-post` or `none`; worker: units gathered ahead";
    OFFLOAD = "offload" ON, &["fsdp", "worker"], "keep parameters and optimizer states in host memory";
    LIMIT_ALL_GATHERS = "limit-all-gathers" ON, &["fsdp"], "fsdp: gather at most two units at a time";
    RESHARD = "reshard-after-forward" ON, &["worker"], "worker: free a unit after the forward pass and gather it again";
    DOCUMENT_MASK = "document-mask" ON, &["worker"], "worker: restrict attention to one document";
    REDUCE = "reduce" &[arg("precision", Ty::Word(&["f32", "bf16"]))], &["worker"], "worker: precision of the reduction";
    ATTENTION = "attention" &[arg("kernels", Ty::Word(&["auto", "flash", "cudnn"]))], &["worker"],
        "worker: kernels of attention on GPUs";
    SELF_CHECK = "self-check" &[arg("on-failure", Ty::Word(&["enforce", "warn"]))], &["worker"],
        "worker: whether a failed self-check of GPUs ends the run";
    ACCEPT_CHANGES = "accept-changes" ON, &["worker"],
        "worker: resume with other data, another seed, batch or schedule";
    OPTIMIZE = "optimize" &[arg("value", Ty::Word(&["memory", "speed"]))], &["smp"], "smp v1";
    AUTO_PARTITION = "auto-partition" ON, &["smp"], "smp v1: the library assigns layers to stages";
    DEFAULT_PARTITION = "default-partition" COUNT, &["smp"], "smp v1: stage of modules without an assigned stage";
    CONTIGUOUS = "contiguous" ON, &["smp"], "smp v1 (TensorFlow)";
    HOROVOD = "horovod" ON, &["smp"], "smp v1 (TensorFlow)";
    MEMORY_WEIGHT = "memory-weight" &[arg("weight", Ty::Number(0.0, 1.0))], &["smp"], "smp v1: weight of memory against compute in partitioning";
    DDP = "ddp" ON, &["smp"], "smp v1: data parallelism; derived from the mesh by default";
    DDP_PORT = "ddp-port" PORT, &["smp"], "smp v1";
    DDP_DIST_BACKEND = "ddp-dist-backend" &[arg("backend", Ty::Word(&["auto", "nccl"]))], &["smp"], "smp v1";
    DETERMINISTIC_SERVER = "deterministic-server" ON, &["smp"], "smp v1";
    SKIP_TRACING = "skip-tracing" ON, &["smp"], "smp v1: no tracing before partitioning";
    DELAYED_INIT = "delayed-parameter-initialization" ON, &["smp"], "smp v1: create parameters shard by shard";
    FP16_PARAMS = "fp16-params" ON, &["smp"], "smp v1: parameters in fp16";
    SDP_BUCKET = "sdp-reduce-bucket-size" COUNT, &["smp"], "smp v1: elements reduced at a time";
    SDP_PERSISTENCE = "sdp-param-persistence-threshold" COUNT, &["smp"], "smp v1: parameters with fewer elements stay gathered";
    SDP_LIVE = "sdp-max-live-parameters" COUNT, &["smp"], "smp v1: maximum elements gathered at a time";
    SDP_HIERARCHICAL = "sdp-hierarchical-allgather" ON, &["smp"], "smp v1: all-gather in two steps";
    SDP_CLIPPING = "sdp-gradient-clipping" NUMBER, &["smp"], "smp v1: maximum gradient norm";
    CACHE_FLUSH = "fsdp-cache-flush-warnings" ON, &["smp"], "smp v2";
    EMPTY_SHARDS = "allow-empty-shards" ON, &["smp"], "smp v2";
    RANDOM_SEED = "random-seed" COUNT, &["smp"], "smp v2";
}
