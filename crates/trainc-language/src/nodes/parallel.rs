//! `parallel` and the parameters of every engine.

use crate::ast::Node;
use crate::declared::{Declared, child, children, prop, prop_of, props_of};
use crate::node::{Pair, Part, Slot, TextVisitor, Visitor, node};
use crate::origin::{Field, Val};
use crate::scalar::Scalar;
use crate::spec::{Arg, NodeSpec, Repeat, Ty, arg, optional_arg};
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
    pub struct Parallel("parallel") derive Default {
        /// fsdp, accelerate, deepspeed, distributed-config, torchtitan, smp, smddp, ddp, device-map, worker
        /// or none
        pub engine: Field<EngineName> = prop("engine", Ty::Plain).required();
        /// ddp: `torchrun`, `pytorchddp` or `mpi`; none: a strategy of TensorFlow, `parameter-server` or
        /// `multi-worker-mirrored`
        pub launcher: Field<String> = prop("launcher", Ty::Word(LAUNCHERS));
        /// instance group of the cluster that the ranks run on
        pub group: Field<String> = prop("group", Ty::Plain);
        /// the program's own configuration, kept as it is: accelerate's YAML, DeepSpeed's JSON, the JSON of
        /// DistributedConfig, torchtitan's TOML; relative to this file
        pub file: Field<String> = prop("file", Ty::Plain);
        /// version of the engine's package, where neither requirements.txt nor the image says it
        pub version: Field<String> = prop("version", Ty::Plain);
        /// fsdp, accelerate: sharding strategy; accelerate, deepspeed: stage of ZeRO, `zero-0` to `zero-3`
        pub strategy: Field<String> = child("strategy", Ty::Word(STRATEGIES))
            .argument("strategy")
            .engines(&["fsdp", "accelerate", "deepspeed", "torchtitan"]);
        /// copies of the states, each on GPUs of its own
        pub replicate_degree: Field<u64> = child("replicate-degree", Ty::Count).engines(REPLICATES);
        /// GPUs that the states of one replica are sharded over
        pub shard_degree: Field<u64> = child("shard-degree", Ty::Count).engines(SHARDS);
        /// GPUs that each layer is split over
        pub tensor_degree: Field<u64> = child("tensor-degree", Ty::Count).engines(SPLITS_LAYERS);
        /// stages of the pipeline
        pub pipeline_degree: Field<u64> =
            child("pipeline-degree", Ty::Int(1, u64::MAX)).argument("degree").engines(HAS_STAGES);
        /// order of the passes
        pub schedule: Field<String> =
            prop_of("pipeline-degree", "schedule", Ty::Word(&["simple", "interleaved"]));
        /// micro-batches in one pass
        pub num_micro_batches: Field<u64> = prop_of("pipeline-degree", "microbatches", Ty::Int(1, u64::MAX));
        /// micro-batches in flight
        pub num_active_micro_batches: Field<u64> =
            prop_of("pipeline-degree", "active-microbatches", Ty::Int(1, u64::MAX));
        /// GPUs that the sequence is split over
        pub context_degree: Field<u64> = child("context-degree", Ty::Count).engines(SPLITS_SEQUENCES);
        /// GPUs that the sequence is split over outside attention, and the heads inside it
        /// (DeepSpeed-Ulysses)
        pub ulysses_degree: Field<u64> =
            child("ulysses-degree", Ty::Count).engines(&["accelerate", "deepspeed"]);
        /// GPUs that the experts are distributed over
        pub expert_degree: Field<u64> = child("expert-degree", Ty::Count).engines(SPREADS_EXPERTS);
        /// fsdp, accelerate: decoder layer class that forms a unit
        pub wrap: Field<String> = child("wrap", Ty::Plain).engines(&["fsdp", "accelerate"]);
        /// smp v1: which axis varies fastest over the ranks; a permutation of D, P, T, right-most fastest
        pub placement: Field<String> =
            child("placement", Ty::Word(PLACEMENTS)).argument("strategy").engines(&["smp"]);
        /// smp: checkpointed activations are kept in host memory
        pub offload_activations: Field<bool> = child("offload-activations", Ty::Bool).engines(&["smp"]);
        /// layers or tasks loaded ahead
        pub offload_horizon: Field<u64> =
            prop_of("offload-activations", "horizon", Ty::Int(1, u64::MAX)).listed("offload-horizon");
        /// smp v1: all tensor-parallel ranks read the same batch
        pub prescaled_batch: Field<bool> = child("prescaled-batch", Ty::Bool).engines(&["smp"]);
        /// smp v1: shard optimizer states over the replicas
        pub shard_optimizer_state: Field<bool> = child("shard-optimizer-state", Ty::Bool).engines(&["smp"]);
        /// ddp, smp: processes per host; default: one per GPU
        pub processes: Field<u64> = child("processes", Ty::Count).engines(&["ddp", "smp"]);
        /// other parameters of the engine, in the order of the reference
        pub options: Vec<EngineOption> = children(OPTIONS).after_others();
        /// environment variables of the MPI ranks (-x K=V)
        pub mpi_env: Vec<Pair> = props_of("mpi-env", Ty::Scalar).repeat(Repeat::Many).engines(MPI);
        /// additional options of mpirun, passed as written
        pub mpi_options: Field<String> = child("mpi-options", Ty::Text).engines(MPI);
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

macro_rules! options {
    ($($ident:ident = $name:literal $ty:expr, $engines:expr, $doc:literal;)*) => {
        $(static $ident: NodeSpec =
            NodeSpec { name: $name, doc: $doc, args: $ty, engines: Some($engines), ..NodeSpec::LEAF };)*
        /// Parameters that are passed on to the engine, in the order of the reference.
        pub static OPTIONS: &[&NodeSpec] = &[$(&$ident,)*];
    };
}

const ON: &[Arg] = &[optional_arg("on", Ty::Bool)];
const OFFLOADED: &[Arg] = &[optional_arg("on", Ty::BoolOr(&["optimizer"]))];
const COUNT: &[Arg] = &[arg("count", Ty::Int(0, u64::MAX))];
const NUMBER: &[Arg] = &[arg("number", Ty::Number(0.0, f64::MAX))];
const PORT: &[Arg] = &[arg("port", Ty::Int(1, 65_535))];

options! {
    MIN_PARAMETERS = "min-parameters" COUNT, &["fsdp"], "fsdp: minimum parameters of a unit";
    PREFETCH = "prefetch" &[arg("value", Ty::Scalar)], &["fsdp", "worker"],
        "fsdp: `backward-pre`, `backward-post` or `none`; worker: units gathered ahead";
    OFFLOAD = "offload" OFFLOADED, OFFLOADS, "keep parameters and optimizer states in host memory; \
        accelerate, deepspeed: `optimizer` keeps only the optimizer states there";
    LIMIT_ALL_GATHERS = "limit-all-gathers" ON, &["fsdp"], "fsdp: gather at most two units at a time";
    RESHARD = "reshard-after-forward" ON, &["worker"], "worker: free a unit after the forward pass and \
        gather it again";
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
    DEFAULT_PARTITION = "default-partition" COUNT, &["smp"], "smp v1: stage of modules without an assigned \
        stage";
    CONTIGUOUS = "contiguous" ON, &["smp"], "smp v1 (TensorFlow)";
    HOROVOD = "horovod" ON, &["smp"], "smp v1 (TensorFlow)";
    MEMORY_WEIGHT = "memory-weight" &[arg("weight", Ty::Number(0.0, 1.0))], &["smp"], "smp v1: weight of memory \
        against compute in partitioning";
    DDP = "ddp" ON, &["smp"], "smp v1: data parallelism; derived from the mesh by default";
    DDP_PORT = "ddp-port" PORT, &["smp"], "smp v1";
    DDP_DIST_BACKEND = "ddp-dist-backend" &[arg("backend", Ty::Word(&["auto", "nccl"]))], &["smp"], "smp v1";
    DETERMINISTIC_SERVER = "deterministic-server" ON, &["smp"], "smp v1";
    SKIP_TRACING = "skip-tracing" ON, &["smp"], "smp v1: no tracing before partitioning";
    DELAYED_INIT = "delayed-parameter-initialization" ON, &["smp"], "smp v1: create parameters shard by \
        shard";
    FP16_PARAMS = "fp16-params" ON, &["smp"], "smp v1: parameters in fp16";
    SDP_BUCKET = "sdp-reduce-bucket-size" COUNT, &["smp"], "smp v1: elements reduced at a time";
    SDP_PERSISTENCE = "sdp-param-persistence-threshold" COUNT, &["smp"], "smp v1: parameters with fewer \
        elements stay gathered";
    SDP_LIVE = "sdp-max-live-parameters" COUNT, &["smp"], "smp v1: maximum elements gathered at a time";
    SDP_HIERARCHICAL = "sdp-hierarchical-allgather" ON, &["smp"], "smp v1: all-gather in two steps";
    SDP_CLIPPING = "sdp-gradient-clipping" NUMBER, &["smp"], "smp v1: maximum gradient norm";
    CACHE_FLUSH = "fsdp-cache-flush-warnings" ON, &["smp"], "smp v2";
    EMPTY_SHARDS = "allow-empty-shards" ON, &["smp"], "smp v2";
    RANDOM_SEED = "random-seed" COUNT, &["smp"], "smp v2";
}
