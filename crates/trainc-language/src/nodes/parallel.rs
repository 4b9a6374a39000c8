//! `parallel` and the parameters of every engine.

use crate::ast::Node;
use crate::declared::{Declared, DefaultValue, arg, child, children, prop, prop_of, props_of};
use crate::node::{Pair, Part, Slot, TextVisitor, Visitor, node};
use crate::origin::{Field, Val};
use crate::scalar::Scalar;
use crate::spec::{Arg, NodeSpec, Repeat, Ty};
use trainc_diag::source::Span;

/// The engines, in the order of the reference.
pub const ENGINE_NAMES: &[&str] = &[
    "fsdp",
    "accelerate",
    "deepspeed",
    "distributed-config",
    "torchtitan",
    "smp",
    "smddp",
    "ddp",
    "device-map",
    "worker",
    "none",
];

/// The name of an engine. The crate `trainc-engine` has the engines themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineName(&'static str);

impl EngineName {
    /// The name of a plain script, which a job without `parallel` is.
    pub const PLAIN: Self = Self("none");

    /// Returns the engine with this name.
    pub fn parse(word: &str) -> Option<Self> {
        ENGINE_NAMES.iter().find(|name| **name == word).map(|name| Self(name))
    }

    /// Returns the word of the language.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

const MPI: &[&str] = &["smp", "smddp", "ddp"];
const STRATEGIES: &[&str] =
    &["full-shard", "shard-grad-op", "hybrid-shard", "no-shard", "zero-0", "zero-1", "zero-2", "zero-3"];
const SHARDS: &[&str] =
    &["fsdp", "accelerate", "deepspeed", "distributed-config", "torchtitan", "smp", "worker"];
const REPLICATES: &[&str] = &["accelerate", "distributed-config", "torchtitan"];
const SPLITS_LAYERS: &[&str] = &["accelerate", "deepspeed", "distributed-config", "torchtitan", "smp"];
const HAS_STAGES: &[&str] = &["distributed-config", "torchtitan", "smp"];
const SPLITS_SEQUENCES: &[&str] = &["accelerate", "torchtitan", "smp"];
const SPREADS_EXPERTS: &[&str] = &["distributed-config", "torchtitan", "smp"];
const OFFLOADS: &[&str] = &["fsdp", "accelerate", "deepspeed", "distributed-config", "torchtitan", "worker"];
const PLACEMENTS: &[&str] = &["cluster", "spread", "DPT", "DTP", "PDT", "PTD", "TDP", "TPD"];
const LAUNCHERS: &[&str] = &["torchrun", "pytorchddp", "mpi", "parameter-server", "multi-worker-mirrored"];

node! {
    /// parallelism: the engine and its degrees
    pub struct Parallel("parallel"; reaches: "the plan") derive Default {
        /// fsdp, accelerate, deepspeed, distributed-config, torchtitan, smp, smddp, ddp, device-map, worker
        /// or none
        pub engine: Field<EngineName> = prop("engine", Ty::Plain).required();
        /// ddp: `torchrun`, `pytorchddp` or `mpi`; none: a strategy of TensorFlow, `parameter-server` or
        /// `multi-worker-mirrored`
        pub launcher: Field<String> = prop("launcher", Ty::Word(LAUNCHERS))
            .otherwise("`torchrun` for `ddp`; a plain start for `none`")
            .reaches("the launcher");
        /// instance group of the cluster that the ranks run on
        pub group: Field<String> = prop("group", Ty::Plain).otherwise("the only group")
            .reaches("the launcher");
        /// the program's own configuration, kept as it is: accelerate's YAML, DeepSpeed's JSON, the JSON of
        /// DistributedConfig, torchtitan's TOML; relative to this file
        pub file: Field<String> = prop("file", Ty::Plain)
            .otherwise("trainc writes the file of accelerate, DeepSpeed or DistributedConfig")
            .reaches("the archive, as it is");
        /// version of the engine's package, where neither requirements.txt nor the image says it
        pub version: Field<String> = prop("version", Ty::Plain)
            .otherwise("what requirements.txt or the image has");
        /// fsdp, accelerate: sharding strategy; accelerate, deepspeed: stage of ZeRO, `zero-0` to `zero-3`
        pub strategy: Field<String> = child("strategy", Ty::Word(STRATEGIES))
            .argument("strategy")
            .engines(&["fsdp", "accelerate", "deepspeed", "torchtitan"])
            .otherwise("`full-shard`; `deepspeed` requires it or a `file`");
        /// copies of the states, each on GPUs of its own
        pub replicate_degree: Field<u64> = child("replicate-degree", Ty::Count).engines(REPLICATES)
            .otherwise("`1`; accelerate `no-shard`: all ranks that the other degrees leave");
        /// GPUs that the states of one replica are sharded over
        pub shard_degree: Field<u64> = child("shard-degree", Ty::Count).engines(SHARDS)
            .otherwise(
                "`full-shard`, `shard-grad-op`, ZeRO, torchtitan: all ranks that the other degrees leave; \
                 `hybrid-shard`: the GPUs of a node; `no-shard`, `smp`: `1`; `worker`: one node per 3 \
                 billion parameters",
            );
        /// GPUs that each layer is split over
        pub tensor_degree: Field<u64> = child("tensor-degree", Ty::Count).engines(SPLITS_LAYERS)
            .otherwise("`1`; `distributed-config`: the ranks that the other degrees leave");
        /// stages of the pipeline
        pub pipeline_degree: Field<u64> =
            child("pipeline-degree", Ty::Int(1, u64::MAX)).argument("degree").engines(HAS_STAGES)
            .default("1");
        /// order of the passes
        pub schedule: Field<String> =
            prop_of("pipeline-degree", "schedule", Ty::Word(&["simple", "interleaved"]))
            .smp("pipeline");
        /// micro-batches in one pass
        pub num_micro_batches: Field<u64> = prop_of("pipeline-degree", "microbatches", Ty::Int(1, u64::MAX))
            .default("1");
        /// micro-batches in flight
        pub num_active_micro_batches: Field<u64> =
            prop_of("pipeline-degree", "active-microbatches", Ty::Int(1, u64::MAX))
            .smp("active_microbatches");
        /// GPUs that the sequence is split over
        pub context_degree: Field<u64> = child("context-degree", Ty::Count).engines(SPLITS_SEQUENCES)
            .default("1");
        /// GPUs that the sequence is split over outside attention, and the heads inside it
        /// (DeepSpeed-Ulysses)
        pub ulysses_degree: Field<u64> =
            child("ulysses-degree", Ty::Count).engines(&["accelerate", "deepspeed"])
            .default("1");
        /// GPUs that the experts are distributed over
        pub expert_degree: Field<u64> = child("expert-degree", Ty::Count).engines(SPREADS_EXPERTS)
            .default("1");
        /// fsdp, accelerate: decoder layer class that forms a unit
        pub wrap: Field<String> = child("wrap", Ty::Plain).engines(&["fsdp", "accelerate"])
            .otherwise("the whole model is one unit, unless the program wraps its layers");
        /// smp v1: which axis varies fastest over the ranks; a permutation of D, P, T, right-most fastest
        pub placement: Field<String> =
            child("placement", Ty::Word(PLACEMENTS)).argument("strategy").engines(&["smp"])
            .smp("placement_strategy");
        /// smp: checkpointed activations are kept in host memory
        pub offload_activations: Field<bool> = child("offload-activations", Ty::Bool).engines(&["smp"])
            .smp("offload_activations");
        /// layers or tasks loaded ahead
        pub offload_horizon: Field<u64> =
            prop_of("offload-activations", "horizon", Ty::Int(1, u64::MAX)).listed("offload-horizon")
            .smp("activation_loading_horizon");
        /// smp v1: all tensor-parallel ranks read the same batch
        pub prescaled_batch: Field<bool> = child("prescaled-batch", Ty::Bool).engines(&["smp"])
            .smp("prescaled_batch");
        /// smp v1: shard optimizer states over the replicas
        pub shard_optimizer_state: Field<bool> = child("shard-optimizer-state", Ty::Bool).engines(&["smp"])
            .smp("shard_optimizer_state");
        /// ddp, smp: processes per host
        pub processes: Field<u64> = child("processes", Ty::Count).engines(&["ddp", "smp"])
            .otherwise("one for each GPU")
            .reaches("the launcher");
        /// other parameters of the engine, in the order of the reference
        pub options: Vec<EngineOption> = children(OPTIONS).after_others();
        /// environment variables of the MPI ranks (-x K=V)
        pub mpi_env: Vec<Pair> = props_of("mpi-env", Ty::Scalar).repeat(Repeat::Many).engines(MPI)
            .otherwise("none")
            .reaches("the launcher");
        /// additional options of mpirun, passed as written
        pub mpi_options: Field<String> = child("mpi-options", Ty::Text).engines(MPI).otherwise("none")
            .reaches("the launcher");
    }
}

/// A parameter that is passed to the engine unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOption {
    /// Its name in the language, with dashes.
    pub name: &'static str,
    /// The span of the name.
    pub span: Span,
    /// The value.
    pub value: Field<Scalar>,
}

impl Parallel {
    /// Returns a node without any setting.
    pub fn at(span: Span) -> Self {
        Self { span, ..Self::default() }
    }

    /// Returns true if a parameter of the engine is switched off.
    pub fn is_switched_off(&self, option: &str) -> bool {
        let mut options = self.options.iter();
        options.any(|one| one.name == option && one.value.value() == Some(&Scalar::Bool(false)))
    }
}

impl Part for Vec<EngineOption> {
    fn read(declared: &'static Declared, node: &Node) -> Option<Self> {
        let option = |spec: &&'static NodeSpec| {
            let child = node.child(spec.name)?;
            let value = match child.arg(0) {
                // A switch without argument is on.
                None => Field::Is(Val::written(Scalar::Bool(true), child.name.span)),
                written => Field::of(written, declared),
            };
            Some(EngineOption { name: spec.name, span: child.name.span, value })
        };
        Some(OPTIONS.iter().filter_map(option).collect())
    }

    fn visit(&self, declared: &'static Declared, path: &str, with: Visitor) {
        for EngineOption { name, value, .. } in self {
            value.visit_as(name, declared, path, with);
        }
    }

    fn visit_texts(&mut self, declared: &'static Declared, with: TextVisitor) {
        for option in self {
            with(declared, Slot::Scalar(&mut option.value));
        }
    }
}

/// Returns the engines that support a child of `parallel`; `None` for other nodes.
pub fn engines_of(spec: &NodeSpec) -> Option<&'static [&'static str]> {
    spec.engines
}

/// Declares parameters of engines: the argument, the engines, the default.
macro_rules! options {
    ($($ident:ident = $name:literal [$argument:literal $ty:expr], $engines:expr, $default:expr,
        $doc:literal;)*) => {
        $(static $ident: NodeSpec = NodeSpec {
            name: $name,
            doc: $doc,
            // A switch without its argument is on.
            args: &[Arg {
                name: $argument,
                ty: $ty,
                required: !matches!($ty, Ty::Bool | Ty::BoolOr(_)),
                many: false,
            }],
            engines: Some($engines),
            declared: &[Declared { default: $default, required: false, ..arg(0, $argument, $ty).doc($doc) }],
            ..NodeSpec::LEAF
        };)*
        /// Parameters that are passed on to the engine, in the order of the reference.
        pub static OPTIONS: &[&NodeSpec] = &[$(&$ident,)*];
    };
}

const ANY_COUNT: Ty = Ty::Int(0, u64::MAX);
const ON: DefaultValue = DefaultValue::Value("#true");
const OFF: DefaultValue = DefaultValue::Value("#false");
const WORKER: &[&str] = &["worker"];
const SMP: &[&str] = &["smp"];

/// Returns the default of a parameter of SageMaker model parallel.
const fn smp(parameter: &'static str) -> DefaultValue {
    DefaultValue::OfSmp(parameter)
}

options! {
    MIN_PARAMETERS = "min-parameters" ["count" ANY_COUNT], &["fsdp"],
        DefaultValue::Words("units by `wrap` alone"), "fsdp: minimum parameters of a unit";
    PREFETCH = "prefetch" ["value" Ty::Scalar], &["fsdp", "worker"],
        DefaultValue::Words("fsdp: `backward-pre`, PyTorch's default; worker: `1`"),
        "fsdp: `backward-pre`, `backward-post` or `none`; worker: units gathered ahead";
    OFFLOAD = "offload" ["on" Ty::BoolOr(&["optimizer"])], OFFLOADS, OFF,
        "keep parameters and optimizer states in host memory; accelerate, deepspeed: `optimizer` keeps \
        only the optimizer states there";
    LIMIT_ALL_GATHERS = "limit-all-gathers" ["on" Ty::Bool], &["fsdp"], ON,
        "fsdp: gather at most two units at a time";
    RESHARD = "reshard-after-forward" ["on" Ty::Bool], WORKER, ON,
        "worker: free a unit after the forward pass and gather it again";
    DOCUMENT_MASK = "document-mask" ["on" Ty::Bool], WORKER,
        OFF, "worker: restrict attention to one document";
    REDUCE = "reduce" ["precision" Ty::Word(&["f32", "bf16"])], WORKER, DefaultValue::Value("f32"),
        "worker: precision of the reduction";
    ATTENTION = "attention" ["kernels" Ty::Word(&["auto", "flash", "cudnn"])], WORKER,
        DefaultValue::Value("auto"), "worker: kernels of attention on GPUs";
    SELF_CHECK = "self-check" ["on-failure" Ty::Word(&["enforce", "warn"])], WORKER,
        DefaultValue::Value("enforce"), "worker: whether a failed self-check of GPUs ends the run";
    ACCEPT_CHANGES = "accept-changes" ["on" Ty::Bool], WORKER, OFF,
        "worker: resume with other data, another seed, batch or schedule";
    OPTIMIZE = "optimize" ["value" Ty::Word(&["memory", "speed"])], SMP, smp("optimize"),
        "smp v1: what the pipeline is optimised for";
    AUTO_PARTITION = "auto-partition" ["on" Ty::Bool], SMP, smp("auto_partition"),
        "smp v1: the library assigns layers to stages";
    DEFAULT_PARTITION = "default-partition" ["count" ANY_COUNT], SMP, smp("default_partition"),
        "smp v1: stage of modules without an assigned stage";
    CONTIGUOUS = "contiguous" ["on" Ty::Bool], SMP, smp("contiguous"), "smp v1 (TensorFlow)";
    HOROVOD = "horovod" ["on" Ty::Bool], SMP, smp("horovod"), "smp v1 (TensorFlow)";
    MEMORY_WEIGHT = "memory-weight" ["weight" Ty::Number(0.0, 1.0)], SMP, smp("memory_weight"),
        "smp v1: weight of memory against compute in partitioning";
    DDP = "ddp" ["on" Ty::Bool], SMP, DefaultValue::Words("on where the mesh has data parallelism"),
        "smp v1: data parallelism";
    DDP_PORT = "ddp-port" ["port" Ty::Int(1, 65_535)], SMP, smp("ddp_port"),
        "smp v1: port of `ddp`";
    DDP_DIST_BACKEND = "ddp-dist-backend" ["backend" Ty::Word(&["auto", "nccl"])], SMP,
        smp("ddp_dist_backend"), "smp v1: backend of `ddp`";
    DETERMINISTIC_SERVER = "deterministic-server" ["on" Ty::Bool], SMP, smp("deterministic_server"), "smp v1";
    SKIP_TRACING = "skip-tracing" ["on" Ty::Bool], SMP, smp("skip_tracing"),
        "smp v1: no tracing before partitioning";
    DELAYED_INIT = "delayed-parameter-initialization" ["on" Ty::Bool], SMP,
        smp("delayed_parameter_initialization"), "smp v1: create parameters shard by shard";
    FP16_PARAMS = "fp16-params" ["on" Ty::Bool], SMP, smp("fp16_params"), "smp v1: parameters in fp16";
    SDP_BUCKET = "sdp-reduce-bucket-size" ["count" ANY_COUNT], SMP, smp("sdp_reduce_bucket_size"),
        "smp v1: elements reduced at a time";
    SDP_PERSISTENCE = "sdp-param-persistence-threshold" ["count" ANY_COUNT], SMP,
        smp("sdp_param_persistence_threshold"), "smp v1: parameters with fewer elements stay gathered";
    SDP_LIVE = "sdp-max-live-parameters" ["count" ANY_COUNT], SMP, smp("sdp_max_live_parameters"),
        "smp v1: maximum elements gathered at a time";
    SDP_HIERARCHICAL = "sdp-hierarchical-allgather" ["on" Ty::Bool], SMP, smp("sdp_hierarchical_allgather"),
        "smp v1: all-gather in two steps";
    SDP_CLIPPING = "sdp-gradient-clipping" ["number" Ty::Number(0.0, f64::MAX)], SMP,
        smp("sdp_gradient_clipping"), "smp v1: maximum gradient norm";
    CACHE_FLUSH = "fsdp-cache-flush-warnings" ["on" Ty::Bool], SMP, smp("fsdp_cache_flush_warnings"),
        "smp v2: warn of flushes of PyTorch's memory cache";
    EMPTY_SHARDS = "allow-empty-shards" ["on" Ty::Bool], SMP, smp("allow_empty_shards"),
        "smp v2: allow empty shards of tensors that are not divisible";
    RANDOM_SEED = "random-seed" ["count" ANY_COUNT], SMP, smp("random_seed"),
        "smp v2: seed of the distributed modules";
}
