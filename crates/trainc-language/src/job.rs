//! The job: the content of one manifest, with layers merged and units converted.
//!
//! A node that is not written is `None`; a value is a [`Field`], which distinguishes absent values from invalid ones that
//! were already reported.

use super::origin::{Field, Val};
use super::scalar::{RequestMember, Scalar};
use trainc_diag::source::Span;

/// The member of CreateTrainingJob that makes a job serverless.
pub const SERVERLESS: &str = "ServerlessJobConfig";

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The name of the job.
    pub name: Field<String>,
    /// The span of the word `job`, where problems of the whole job are reported.
    pub span: Span,
    /// The AWS region.
    pub region: Field<String>,
    /// The AWS account, twelve digits.
    pub account: Field<String>,
    /// Tags in the order written.
    pub tags: Vec<Pair>,
    /// The model.
    pub model: Option<Model>,
    /// The adapter, if only a part is trained.
    pub adapter: Option<Adapter>,
    /// Quantised base weights.
    pub quantize: Option<Quantize>,
    /// The cluster.
    pub cluster: Option<Cluster>,
    /// Engine and parallelism.
    pub parallel: Option<Parallel>,
    /// Whether the engine, as written or as most likely intended, runs the user's program in an image.
    pub needs_program: bool,
    /// Training settings.
    pub train: Train,
    /// The program.
    pub program: Option<Program>,
    /// The container image as written.
    pub image: Option<ImageRequest>,
    /// VPC settings.
    pub network: Option<Network>,
    /// File systems, in the order written.
    pub storage: Vec<Storage>,
    /// Input channels, in the order written.
    pub channels: Vec<Channel>,
    /// Checkpoints.
    pub checkpoint: Option<Checkpoint>,
    /// The output location of the model.
    pub output: Option<Output>,
    /// Buckets of other accounts that the job may write to.
    pub buckets: Vec<Bucket>,
    /// The execution role.
    pub role: Option<Role>,
    /// SageMaker Debugger.
    pub debugger: Option<Debugger>,
    /// SageMaker Profiler.
    pub profiler: Option<Profiler>,
    /// TensorBoard output.
    pub tensorboard: Option<Tensorboard>,
    /// Experiment association.
    pub experiment: Option<Experiment>,
    /// Remote debugging, on or off.
    pub remote_debug: Field<bool>,
    /// Infrastructure health check before the job, on or off.
    pub health_check: Field<bool>,
    /// Session chaining of the job's tags, on or off.
    pub session_chaining: Field<bool>,
    /// Measurements before the program starts.
    pub probe: Option<Probe>,
    /// The budget.
    pub budget: Option<Budget>,
    /// Raw members of the request.
    pub request: Vec<RequestMember>,
    /// Values of a sweep, which expand to several jobs.
    pub sweep: Vec<Vary>,
    /// The name in the manifest, if this is a job of a sweep, whose name has the values as suffix.
    pub swept_from: Option<String>,
    /// Suppressed warnings.
    pub allows: Vec<Allow>,
    /// Whether all layers and blocks could be read; otherwise a node that seems missing may be in an unreadable one.
    pub is_whole: bool,
    /// Values that a later layer changed, which the plan shows.
    pub overrides: Vec<Override>,
}

impl Job {
    /// Returns the input mode of a channel: its own, that of the job (`request { AlgorithmSpecification {
    /// TrainingInputMode … } }`, for S3), or `file`.
    pub fn input_mode<'a>(&'a self, channel: &'a Channel) -> &'a str {
        if let Some(own) = channel.input.value() {
            return own;
        }
        let of_job = self.input_mode_member().filter(|_| channel.from.is_absent());
        match of_job.and_then(|member| member.value.text()) {
            Some("FastFile") => "fast-file",
            Some("Pipe") => "pipe",
            _ => "file",
        }
    }

    /// Returns the request member with the input mode of channels that have none of their own.
    pub fn input_mode_member(&self) -> Option<&RequestMember> {
        self.request
            .iter()
            .find(|member| member.name == "AlgorithmSpecification")
            .and_then(|member| member.value.member("TrainingInputMode"))
    }

    /// Returns the engine, if one is set.
    pub fn engine(&self) -> Option<Engine> {
        self.parallel.as_ref()?.engine.get()
    }
}

/// A name and a text, both with their spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The name.
    pub key: String,
    /// The span of the name.
    pub key_span: Span,
    /// The text; a placeholder inside is replaced by bind.
    pub value: Field<String>,
}

/// `model`.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The word `model`.
    pub span: Span,
    /// Catalogue name or architecture as written.
    pub name: Field<String>,
    /// A Hugging Face config file, relative to the file that contains the path.
    pub config: Field<String>,
    /// Dimensions as written: `hidden`, `layers`, `heads`, `kv-heads`, `ffn`, `vocab`, `positions`, `experts`, `active-experts`.
    pub dimensions: Vec<(&'static str, Val<u64>)>,
    /// Dimensions with an invalid value, already reported.
    pub unusable: Vec<&'static str>,
    /// Whether the head shares the embedding's weights.
    pub tied: Field<bool>,
    /// The number of parameters, if only the size is specified.
    pub parameters: Field<u64>,
}

/// `adapter`.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// The word `adapter`.
    pub span: Span,
    /// `lora`.
    pub kind: Field<String>,
    /// Rank of the update.
    pub rank: Field<u64>,
    /// Scale of the update.
    pub alpha: Field<f64>,
    /// Dropout on the adapter's input, a fraction.
    pub dropout: Field<f64>,
    /// Names of the target matrices.
    pub targets: Field<Vec<String>>,
}

/// `quantize`.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantize {
    /// The word `quantize`.
    pub span: Span,
    /// `nf4` or `int8`.
    pub kind: Field<String>,
    /// Whether the scales are quantised too.
    pub double: Field<bool>,
    /// Precision of the arithmetic.
    pub compute: Field<String>,
}

/// `cluster`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The word `cluster`.
    pub span: Span,
    /// The instance type, `custom` or `local`.
    pub instance: Field<String>,
    /// Number of instances.
    pub nodes: Field<u64>,
    /// EBS volume of each instance, bytes.
    pub volume_bytes: Field<u64>,
    /// Key that encrypts the volume.
    pub volume_kms: Field<String>,
    /// Maximum run time, seconds.
    pub max_run_seconds: Field<u64>,
    /// Maximum wait for capacity, seconds.
    pub max_pending_seconds: Field<u64>,
    /// Spot instances.
    pub spot: Option<Spot>,
    /// Time for which instances are kept after the job, seconds.
    pub warm_pool_seconds: Field<u64>,
    /// Retries after internal server errors.
    pub retry: Field<u64>,
    /// A training plan's ARN.
    pub training_plan: Field<String>,
    /// Placement on UltraServers.
    pub placement: Option<Placement>,
    /// Instance groups of a heterogeneous cluster.
    pub groups: Vec<InstanceGroup>,
    /// The accelerator of a custom cluster.
    pub gpu: Option<CustomGpu>,
    /// Bytes per second between GPUs of a custom cluster's node.
    pub intra_bytes_per_second: Field<u64>,
    /// Bytes per second between nodes of a custom cluster.
    pub inter_bytes_per_second: Field<u64>,
    /// Processes of a local cluster, one rank each.
    pub ranks: Field<u64>,
    /// Mean time between failures of one node, seconds.
    pub node_mtbf_seconds: Field<u64>,
}

impl Cluster {
    /// Returns the losses of one node per hour that the manifest expects: spot interruptions (`spot
    /// interruptions-per-hour=`) and failures (`node-mtbf`). Returns `None` where neither is set.
    pub fn node_losses_per_hour(&self) -> Option<f64> {
        let interruptions = self.spot.as_ref().and_then(|spot| spot.interruptions_per_hour.get());
        let failures = self.node_mtbf_seconds.get().map(|seconds| 3_600.0 / (seconds as f64).max(1.0));
        match (interruptions, failures) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
        }
    }
}

/// `spot`.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// The word `spot`.
    pub span: Span,
    /// Maximum run and wait time together, seconds.
    pub max_wait_seconds: Field<u64>,
    /// Expected interruptions of one instance, per hour.
    pub interruptions_per_hour: Field<f64>,
}

/// `placement` of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The word `placement`.
    pub span: Span,
    /// Whether other jobs may run on the same UltraServers.
    pub multiple_jobs: Field<bool>,
    /// UltraServers, each with the number of the job's instances on it.
    pub ultra_servers: Vec<(Val<String>, Field<u64>)>,
}

/// `group` of a heterogeneous cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceGroup {
    /// The word `group`.
    pub span: Span,
    /// Its name.
    pub name: Field<String>,
    /// Instance type.
    pub instance: Field<String>,
    /// Number of instances.
    pub nodes: Field<u64>,
}

/// `gpu` of a custom cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomGpu {
    /// The word `gpu`.
    pub span: Span,
    /// The catalogue's name of the accelerator.
    pub name: Field<String>,
    /// Accelerators of each node.
    pub per_node: Field<u64>,
}

/// A training engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// PyTorch FSDP under torchrun.
    Fsdp,
    /// SageMaker model parallel, v1 or v2 by image version.
    Smp,
    /// SageMaker distributed data parallel.
    Smddp,
    /// PyTorch DDP.
    Ddp,
    /// One process that places layers on the GPUs of one node.
    DeviceMap,
    /// The Rust FSDP worker.
    Worker,
    /// A plain script.
    None,
}

impl Engine {
    /// All engines with their names in the language.
    pub const ALL: [(&'static str, Self); 7] = [
        ("fsdp", Self::Fsdp),
        ("smp", Self::Smp),
        ("smddp", Self::Smddp),
        ("ddp", Self::Ddp),
        ("device-map", Self::DeviceMap),
        ("worker", Self::Worker),
        ("none", Self::None),
    ];

    /// Returns its name in the language.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, engine)| *engine == self).map_or("none", |(name, _)| name)
    }
}

/// `parallel`.
#[derive(Clone, Debug, PartialEq)]
pub struct Parallel {
    /// The word `parallel`.
    pub span: Span,
    /// The engine.
    pub engine: Field<Engine>,
    /// `ddp`: the launcher.
    pub launcher: Field<String>,
    /// The instance group that runs the ranks.
    pub group: Field<String>,
    /// `fsdp`: sharding strategy.
    pub strategy: Field<String>,
    /// GPUs over which one replica's states are sharded.
    pub shard_degree: Field<u64>,
    /// GPUs over which each layer is split.
    pub tensor_degree: Field<u64>,
    /// Stages of the pipeline.
    pub pipeline_degree: Field<u64>,
    /// Pipeline schedule.
    pub schedule: Field<String>,
    /// Micro-batches in one pass through the pipeline.
    pub num_micro_batches: Field<u64>,
    /// Micro-batches in flight.
    pub num_active_micro_batches: Field<u64>,
    /// GPUs over which the sequence is split.
    pub context_degree: Field<u64>,
    /// GPUs over which experts are spread.
    pub expert_degree: Field<u64>,
    /// SMP v1 placement strategy.
    pub placement: Field<String>,
    /// Activation offload.
    pub offload_activations: Field<bool>,
    /// Layers or tasks loaded ahead when activations are offloaded.
    pub offload_horizon: Field<u64>,
    /// `fsdp`: decoder layer class that forms a unit.
    pub wrap: Field<String>,
    /// SMP v1: whether all tensor ranks read one batch.
    pub prescaled_batch: Field<bool>,
    /// SMP v1: whether optimizer states are sharded (ZeRO-1).
    pub shard_optimizer_state: Field<bool>,
    /// `ddp` with MPI: processes per host.
    pub processes: Field<u64>,
    /// Other parameters of the engine, in the order written.
    pub options: Vec<EngineOption>,
    /// Environment for MPI ranks, in the order written.
    pub mpi_env: Vec<Pair>,
    /// Options for mpirun, as written.
    pub mpi_options: Field<String>,
}

impl Parallel {
    /// Returns a node without any setting.
    pub fn at(span: Span) -> Self {
        Self {
            span,
            engine: Field::Absent,
            launcher: Field::Absent,
            group: Field::Absent,
            strategy: Field::Absent,
            shard_degree: Field::Absent,
            tensor_degree: Field::Absent,
            pipeline_degree: Field::Absent,
            schedule: Field::Absent,
            num_micro_batches: Field::Absent,
            num_active_micro_batches: Field::Absent,
            context_degree: Field::Absent,
            expert_degree: Field::Absent,
            placement: Field::Absent,
            offload_activations: Field::Absent,
            offload_horizon: Field::Absent,
            wrap: Field::Absent,
            prescaled_batch: Field::Absent,
            shard_optimizer_state: Field::Absent,
            processes: Field::Absent,
            options: Vec::new(),
            mpi_env: Vec::new(),
            mpi_options: Field::Absent,
        }
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

/// `train`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Train {
    /// The word `train`, where it was written.
    pub span: Option<Span>,
    /// `fp32`, `fp16`, `bf16` or `fp8`.
    pub precision: Field<String>,
    /// Scaling of 8-bit operands.
    pub recipe: Field<String>,
    /// Tokens in one sequence.
    pub sequence_length: Field<u64>,
    /// Sequences through one model replica at a time.
    pub micro_batch_size: Field<u64>,
    /// Passes per optimizer step.
    pub accumulation: Field<u64>,
    /// Sequences per optimizer step over all replicas.
    pub global_batch: Field<u64>,
    /// `none`, `selective` or `full`.
    pub activation_checkpointing: Field<Recompute>,
    /// Whether attention runs without the s × s matrix.
    pub flash_attention: Field<bool>,
    /// True if layers are compiled.
    pub compile: Field<bool>,
    /// `sdpa`, `fa2`, `fa3`, `cudnn` or `flex`.
    pub attention: Field<String>,
    /// `whole`, `chunked`, `fused` or `parallel`.
    pub loss: Field<String>,
    /// The optimizer.
    pub optimizer: Option<Optimizer>,
    /// Optimizer steps.
    pub steps: Field<u64>,
    /// Tokens.
    pub tokens: Field<u64>,
    /// Passes over the data.
    pub epochs: Field<f64>,
    /// Size of the data.
    pub dataset: Option<Dataset>,
    /// Seed of all random numbers.
    pub seed: Field<u64>,
}

/// The scope of activation recomputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    None,
    /// The attention core.
    Selective,
    /// Every layer.
    Full,
}

impl Recompute {
    /// Returns its name in the plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Selective => "selective",
            Self::Full => "full",
        }
    }
}

/// `optimizer`.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    /// The word `optimizer`.
    pub span: Span,
    /// Its name.
    pub name: Field<String>,
    /// Peak learning rate.
    pub lr: Field<f64>,
    /// First and second moment decay.
    pub betas: Field<(f64, f64)>,
    /// Stabiliser.
    pub eps: Field<f64>,
    /// Weight decay.
    pub weight_decay: Field<f64>,
    /// Global gradient norm limit.
    pub clip: Field<f64>,
    /// Warm-up.
    pub warmup: Field<Warmup>,
    /// `constant`, `linear`, `cosine`.
    pub schedule: Field<String>,
    /// Final learning rate.
    pub min_lr: Field<f64>,
}

/// Length of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// A fraction of the steps, below 1.
    Fraction(f64),
    /// Optimizer steps.
    Steps(u64),
}

/// `dataset`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The word `dataset`.
    pub span: Span,
    /// Sequences in one epoch.
    pub sequences: Field<u64>,
    /// Tokens in one epoch.
    pub tokens: Field<u64>,
    /// Bytes that one epoch reads.
    pub size_bytes: Field<u64>,
}

/// `program`.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The word `program`.
    pub span: Span,
    /// Entry point, relative to the source.
    pub entry: Field<String>,
    /// Local source directory, relative to the file that contains the path.
    pub source: Field<String>,
    /// Git repository.
    pub git: Field<String>,
    /// Branch or tag.
    pub branch: Field<String>,
    /// Commit.
    pub commit: Field<String>,
    /// Directory inside the repository.
    pub dir: Field<String>,
    /// A source archive in S3.
    pub s3: Field<String>,
    /// The S3 location to which the archive is uploaded.
    pub upload: Field<String>,
    /// Implementation whose modules and kernels run.
    pub code: Field<String>,
    /// The log level of the training toolkit, a word of Python's `logging`.
    pub log_level: Field<String>,
    /// Arguments of the script, in the order written.
    pub hyperparameters: Vec<Hyperparameter>,
    /// Environment of the container, in the order written.
    pub environment: Vec<Pair>,
    /// Environment variables whose values are fetched at start.
    pub secrets: Vec<Secret>,
    /// Metrics read from the log.
    pub metrics: Vec<Metric>,
    /// Local directories added to the source archive.
    pub dependencies: Vec<Val<String>>,
    /// Container entry point, for images without the training toolkit.
    pub entrypoint: Vec<Val<String>>,
    /// Container arguments.
    pub arguments: Vec<Val<String>>,
}

/// `hyperparameter`.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyperparameter {
    /// Its name.
    pub name: String,
    /// The span of the name.
    pub name_span: Span,
    /// Its value; a placeholder inside is replaced by bind.
    pub value: Field<Scalar>,
}

/// `secret`.
#[derive(Clone, Debug, PartialEq)]
pub struct Secret {
    /// The variable.
    pub name: String,
    /// The span of the variable.
    pub name_span: Span,
    /// ARN of the secret.
    pub from: Field<String>,
}

/// `metric`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// The span of the name.
    pub name_span: Span,
    /// The regular expression that extracts it.
    pub regex: Field<String>,
}

/// `image`.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageRequest {
    /// The word `image`.
    pub span: Span,
    /// `pytorch` or `huggingface`.
    pub family: Field<String>,
    /// PyTorch version (family `pytorch`).
    pub version: Field<String>,
    /// Transformers version (family `huggingface`).
    pub transformers: Field<String>,
    /// PyTorch version (family `huggingface`).
    pub pytorch: Field<String>,
    /// Python version, such as `py310`.
    pub python: Field<String>,
    /// An image URI, used unchanged.
    pub uri: Field<String>,
}

/// `network`.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The word `network`.
    pub span: Span,
    /// Subnets.
    pub subnets: Vec<Val<String>>,
    /// Security groups.
    pub security_groups: Vec<Val<String>>,
    /// The span of `subnets`, where it was written.
    pub subnets_span: Option<Span>,
    /// The span of `security-groups`, where it was written.
    pub security_groups_span: Option<Span>,
    /// No outbound calls from the container.
    pub isolation: Field<bool>,
    /// Encryption between containers.
    pub encrypt_traffic: Field<bool>,
}

/// `storage`.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// The word `storage`.
    pub span: Span,
    /// `lustre` or `efs`.
    pub kind: Field<String>,
    /// Its name in this manifest.
    pub name: Field<String>,
    /// An existing file system.
    pub id: Field<String>,
    /// Its mount name.
    pub mount: Field<String>,
    /// Size, bytes.
    pub capacity_bytes: Field<u64>,
    /// Deployment type, `persistent-2`.
    pub deployment: Field<String>,
    /// Megabytes per second and TiB.
    pub throughput_mb_s_tib: Field<u64>,
    /// `ssd` or `hdd`.
    pub storage_type: Field<String>,
    /// `none` or `lz4`.
    pub compression: Field<String>,
    /// Drive cache of HDD storage, `none` or `read`.
    pub drive_cache: Field<String>,
    /// Key that encrypts it.
    pub kms: Field<String>,
    /// Provisioned metadata operations per second.
    pub metadata_iops: Field<u64>,
    /// Weekly maintenance, `d:HH:MM` in UTC.
    pub maintenance: Field<String>,
    /// Lustre version.
    pub version: Field<String>,
    /// S3 prefixes linked for import.
    pub imports: Vec<StorageLink>,
    /// S3 prefixes linked for export.
    pub exports: Vec<StorageLink>,
    /// Whether it is deleted after the job.
    pub delete_after_job: Field<bool>,
    /// EFA for the file system.
    pub efa: Field<bool>,
}

/// `import` or `export` of a file system.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageLink {
    /// The word.
    pub span: Span,
    /// The S3 prefix.
    pub s3: Field<String>,
    /// The path in the file system.
    pub path: Field<String>,
}

/// `channel`.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// The word `channel`.
    pub span: Span,
    /// Its name.
    pub name: Field<String>,
    /// An S3 prefix.
    pub s3: Field<String>,
    /// A manifest file in S3.
    pub manifest: Field<String>,
    /// An augmented manifest file in S3.
    pub augmented_manifest: Field<String>,
    /// An S3 place with conversations in Converse format.
    pub converse: Field<String>,
    /// ARN of a data set of a SageMaker hub.
    pub dataset: Field<String>,
    /// Attributes of an augmented manifest.
    pub attributes: Field<Vec<String>>,
    /// The name of a `storage`.
    pub from: Field<String>,
    /// The path in the file system.
    pub path: Field<String>,
    /// `ro` or `rw`.
    pub mode: Field<String>,
    /// `file`, `fast-file` or `pipe`.
    pub input: Field<String>,
    /// `by-key` or `replicated`.
    pub shard: Field<String>,
    /// `gzip` or `none`.
    pub compression: Field<String>,
    /// `recordio` or `none`.
    pub record_wrapper: Field<String>,
    /// MIME type.
    pub content_type: Field<String>,
    /// Seed with which keys are shuffled.
    pub shuffle_seed: Field<u64>,
    /// Instance groups that get it.
    pub groups: Field<Vec<String>>,
    /// ARN of a private hub's reference to a model.
    pub hub: Field<String>,
    /// Whether the model's licence is accepted.
    pub accept_eula: Field<bool>,
    /// Key that its objects are encrypted with.
    pub kms: Field<String>,
}

/// `checkpoint`.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The word `checkpoint`.
    pub span: Span,
    /// S3 prefix that the local path is synchronised with.
    pub s3: Field<String>,
    /// Path in the container.
    pub local: Field<String>,
    /// The interval.
    pub every: Field<CheckpointInterval>,
    /// Number of checkpoints to keep.
    pub keep: Field<u64>,
    /// KMS key of the bucket.
    pub kms: Field<String>,
}

/// The interval between checkpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckpointInterval {
    /// Optimizer steps.
    Steps(u64),
    /// Seconds.
    Seconds(u64),
    /// The interval with the least expected loss (Young/Daly).
    Optimal,
}

/// `output`.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The word `output`.
    pub span: Span,
    /// S3 prefix.
    pub s3: Field<String>,
    /// Key that encrypts it.
    pub kms: Field<String>,
    /// Whether the model is packed into `model.tar.gz`.
    pub compress: Field<bool>,
}

/// `bucket`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// The word `bucket`.
    pub span: Span,
    /// Its name.
    pub name: Field<String>,
    /// The account that owns it.
    pub owner: Field<String>,
}

/// `role`.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// The word `role`.
    pub span: Span,
    /// Whether trainc creates it.
    pub create: Field<bool>,
    /// An existing role.
    pub arn: Field<String>,
    /// Permissions boundary of a created role.
    pub boundary: Field<String>,
    /// Path of a created role.
    pub path: Field<String>,
    /// S3 prefixes that a created role may read in addition to those of the job's nodes.
    pub reads: Vec<RoleRead>,
}

/// `read` of a role.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleRead {
    /// The word `read`.
    pub span: Span,
    /// The S3 prefix.
    pub s3: Field<String>,
}

/// `debugger`.
#[derive(Clone, Debug, PartialEq)]
pub struct Debugger {
    /// The word `debugger`.
    pub span: Span,
    /// Output location of the tensors; the output path by default.
    pub s3: Field<String>,
    /// Path in the container.
    pub local: Field<String>,
    /// Hook parameters.
    pub parameters: Vec<Pair>,
    /// Collections of tensors.
    pub collections: Vec<Collection>,
    /// Built-in rules.
    pub rules: Vec<MonitoringRule>,
}

/// `rule` of the debugger or the profiler.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitoringRule {
    /// The name as written.
    pub name: Val<String>,
    /// The span of the name.
    pub span: Span,
    /// Parameters.
    pub parameters: Vec<Pair>,
}

/// `collection` of the debugger.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    /// Its name.
    pub name: Val<String>,
    /// Its parameters.
    pub parameters: Vec<Pair>,
}

/// `profiler`.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiler {
    /// The word `profiler`.
    pub span: Span,
    /// Output location of its data; the output path by default.
    pub s3: Field<String>,
    /// Interval of system metrics, milliseconds.
    pub interval_milliseconds: Field<u64>,
    /// Profiling parameters.
    pub parameters: Vec<Pair>,
    /// Built-in rules.
    pub rules: Vec<MonitoringRule>,
}

/// `tensorboard`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensorboard {
    /// The word `tensorboard`.
    pub span: Span,
    /// Output location of event files.
    pub s3: Field<String>,
    /// Path in the container.
    pub local: Field<String>,
}

/// `experiment`.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The word `experiment`.
    pub span: Span,
    /// Experiment name.
    pub name: Field<String>,
    /// Trial name.
    pub trial: Field<String>,
    /// Display name of the trial component.
    pub component: Field<String>,
    /// Run name.
    pub run: Field<String>,
}

/// `budget`.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The word `budget`.
    pub span: Span,
    /// US dollars.
    pub usd: Field<f64>,
    /// Whether exceeding it is an error.
    pub hard: Field<bool>,
    /// Whether a running job that will exceed it, or stays too slow, is stopped.
    pub enforce: Field<bool>,
    /// Share of the run's first tokens/s, or of the planned ones if their interval was measured, below which the job is
    /// stopped.
    pub slowest: Field<f64>,
    /// Steps for which it must stay below.
    pub steps: Field<u64>,
}

impl Budget {
    /// Steps of the window if `steps` is not given.
    pub const DEFAULT_STEPS: u64 = 50;

    /// Returns true if a running job may be stopped.
    pub fn is_enforced(&self) -> bool {
        self.enforce.get() == Some(true)
    }
}

/// `probe`.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The word `probe`.
    pub span: Span,
    /// Share of the planned rate below which the job ends before training.
    pub minimum: Field<f64>,
}

/// `vary` of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    /// A path in `--set` syntax.
    pub path: Val<String>,
    /// Its values, one job each.
    pub values: Vec<Val<Scalar>>,
}

/// `allow "code" reason="…" until="2026-12-31"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Allow {
    /// The word `allow`.
    pub span: Span,
    /// The spans of the enclosing node, in every layer.
    pub scopes: Vec<Span>,
    /// Code or name as written.
    pub code: Field<String>,
    /// The reason.
    pub reason: Field<String>,
    /// Last day, ISO date.
    pub until: Field<String>,
}

/// A value that a later layer changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The path of the value, such as `cluster.nodes`.
    pub path: String,
    /// The span of the earlier value.
    pub from: Span,
    /// The span of the later value.
    pub by: Span,
    /// The path of the value that replaced it, such as `role.create`, if different.
    pub replaced_by: Option<String>,
}
