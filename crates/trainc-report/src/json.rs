//! plan.json: the whole plan for scripts. Keys are only added; sizes are bytes, times seconds, money US
//! dollars.

use crate::after_end::BillKind;
use schemars::JsonSchema;
use serde::Serialize;
use trainc_diag::json::Problem;
use trainc_emit::iam::Statement;
use trainc_emit::{ResourceKind, Verb};
use trainc_ir::{Delivery, Price, PriceEstimate, QuotaRoom};
use trainc_predict::{
    Checkpoints, Communication, CostParts, Interval, MemoryParts, PartInterval, RunParts, SpeedParts, Spot,
    Tflops,
};

/// The version of the format: the major number changes with incompatible changes.
pub const FORMAT_VERSION: &str = "1.0";

/// The JSON Schema of [`Document`], for `trainc schema plan`.
pub const SCHEMA: &str = include_str!("../schemas/plan.v1.json");

/// The output of `trainc plan -o json` for one manifest (an array of these for several), and `plan.json` of
/// `trainc emit`. Sizes are bytes, times seconds, money US dollars. An unknown figure is null, and `notes`
/// has the reason. Members are only added: readers must ignore unknown members, and only a new major number
/// of `format_version` removes members.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "trainc plan, version 1")]
pub struct Document {
    /// Major and minor version of this format.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    pub format_version: &'static str,
    /// The version of trainc that wrote it.
    pub trainc_version: &'static str,
    /// The date of the catalogue.
    pub catalog_version: &'static str,
    /// In an emitted directory: the files that `emit` wrote. Absent from the output of `plan -o json`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The job's name; null if it could not be read.
    pub job: Option<String>,
    /// SHA-256 over everything that determines the job; null for a plan with errors.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// The name of the training job that `apply` creates; null for a plan with errors.
    pub training_job_name: Option<String>,
    /// The manifest.
    pub manifest: Manifest,
    /// The AWS region.
    pub region: Option<String>,
    /// The AWS account; null if it is not set and `${account}` is its placeholder.
    pub account: Option<String>,
    /// The account with which `resources` were compared; absent from an offline plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub compared_with: Option<String>,
    /// Whether apply would change anything; absent from an offline plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub changes: Option<bool>,
    /// Why apply would be refused at present; absent if it would not be, and from an offline plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Blocked")]
    pub blocked: Option<Blocked>,
    /// The instances.
    pub cluster: Cluster,
    /// The degrees as the engine counts them: replicas × shard × tensor × pipeline = world size, for
    /// accelerate, deepspeed, distributed-config and torchtitan also × context × ulysses; null if it could
    /// not be computed.
    pub mesh: Option<Mesh>,
    /// Groups of ranks, by axis. An axis of degree 1 is []; above 65,536 ranks all axes are [].
    pub groups: Groups,
    /// The model; null if it is not known.
    pub model: Option<Model>,
    /// per_replica × accumulation × data_ranks = global_sequences; null if it is not known.
    pub batch: Option<Batch>,
    /// How the settings that decide memory, time, cost or what is trained reach the program.
    pub delivery: Delivery,
    /// The container.
    pub image: Option<Image>,
    /// The uploaded program.
    pub source: Option<Source>,
    /// Predicted memory per GPU; null without a prediction.
    pub memory: Memory,
    /// Predicted speed: its members are null without a prediction, and it is null where an error decides
    /// which layout or container runs.
    #[serde(serialize_with = "speed_or_null")]
    #[schemars(with = "Option<Speed>")]
    pub speed: Speed,
    /// The predicted run.
    pub run: Run,
    /// The user's measured runs that step time, run and cost are conditioned on. Absent if there are none
    /// with enough in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Evidence")]
    pub evidence: Option<Evidence>,
    /// Price of an instance; null if the catalogue has none, and for a cluster of instance groups.
    pub price: Option<Price>,
    /// Price of an instance of each instance group. Absent without instance groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group_prices: Vec<GroupPrice>,
    /// The job on each of its preferred instance types (`request { ResourceConfig { InstancePreferences … }
    /// }`), in their order: SageMaker uses the first with capacity. The members of the plan are those of the
    /// first. Absent without instance preferences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// The cheapest machine (instance type and number of nodes) on which the job is predicted to cost or to
    /// take at least a fifth less, and not more of the other. It surely fits the memory, keeps the budget and
    /// passes every check. Null if there is none. Only in the output of `plan` on one manifest, never in
    /// emitted files, since it depends on the prices of all types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Option<BetterMachine>>,
    /// What is still billed after the end of the training job. Empty for a cluster outside SageMaker.
    pub after_end: Vec<AfterEnd>,
    /// Quotas of the account that running jobs share with this one. Present if the plan was compared with an
    /// account in which the job would start and their values are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaRoom>,
    /// The AWS resources and what is done with each, in the order in which they are needed.
    pub resources: Vec<Resource>,
    /// The permissions of the role that trainc creates, with reasons: the statements of iam/policy.json in
    /// their order. Empty if it creates none.
    pub policy: Vec<Statement>,
    /// Values that a later layer overrides or removes.
    pub overrides: Vec<Override>,
    /// Why a figure is null, as `path: reason`, and the limits of the prediction.
    pub notes: Vec<String>,
    /// In order of place, in the format of diagnostic.v1.json.
    pub problems: Vec<Problem>,
}

fn speed_or_null<S: serde::Serializer>(speed: &Speed, serializer: S) -> Result<S::Ok, S::Error> {
    if speed.is_undecided { serializer.serialize_none() } else { speed.serialize(serializer) }
}

/// A cheaper or faster machine: instance type and number of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BetterMachine {
    /// The instance type.
    pub instance: String,
    /// Number of instances.
    #[schemars(range(min = 1))]
    pub nodes: u64,
    /// Expected seconds of the run.
    pub seconds: f64,
    /// Their interval; null if the run does not finish at the upper bound.
    pub seconds_interval: Option<Interval>,
    /// Expected US dollars of the run.
    pub cost_usd: f64,
    /// Their interval, with that of the seconds.
    pub cost_usd_interval: Option<Interval>,
    /// The share of the cost that it saves; of the time, where it saves less than a fifth of the cost.
    pub saves: f64,
}

/// The user's measured runs that a prediction is conditioned on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The table of runs: `.trainc/runs.csv` of the repository, or that of `--runs`.
    pub file: String,
    /// Newest date of its runs; null if it has none.
    pub newest: Option<String>,
    /// Number of runs of the same layout with the same image.
    pub same: usize,
    /// Number of runs of similar layouts, or with another image.
    pub near: usize,
}

/// The manifest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Manifest {
    /// As the user wrote it.
    pub path: String,
    /// SHA-256 of the file; empty if it could not be read.
    pub sha256: String,
}

/// Why apply would be refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blocked {
    /// The exit code of apply.
    pub exit: u8,
    /// The codes of the blocking problems; each is in `problems`.
    pub codes: Vec<&'static str>,
}

/// The instances.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cluster {
    /// Instance type, `custom` or `local`.
    pub instance: Option<String>,
    /// Instances.
    pub nodes: Option<u64>,
    /// Accelerators of each instance.
    pub gpus_per_node: Option<u64>,
    /// GPUs in total.
    pub world_size: Option<u64>,
    /// The accelerator of a rank.
    pub gpu: Gpu,
    /// The time after which SageMaker stops the job, seconds.
    pub max_run_seconds: Option<u64>,
    /// Whether the job runs on spot instances.
    pub spot: bool,
}

/// The accelerator of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Gpu {
    /// Product name.
    pub name: Option<String>,
    /// Memory of each, bytes.
    pub memory_bytes: Option<u64>,
}

/// The degrees as the engine counts them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Mesh {
    /// The engine, as in the manifest.
    pub engine: &'static str,
    /// Full copies of the model state.
    pub data_parallel_replicas: u64,
    /// The same as data_parallel_replicas.
    pub replicate_degree: u64,
    /// Ranks over which one copy is sharded; under accelerate, deepspeed and torchtitan the states are
    /// divided over context and Ulysses ranks as well.
    pub shard_degree: u64,
    /// Ranks over which each layer is split.
    pub tensor_degree: u64,
    /// Stages; for engine `device-map` the GPUs with layers.
    pub pipeline_degree: u64,
    /// The same as context_degree.
    pub context: u64,
    /// The same as expert_degree.
    pub expert: u64,
    /// Context parallel degree: for smp within the shard axis, for other engines an axis of its own.
    pub context_degree: u64,
    /// Ranks that split a sequence outside attention and the heads inside it (DeepSpeed-Ulysses).
    pub ulysses_degree: u64,
    /// Expert parallel degree, within the shard axis, or within the shard, context and tensor axes.
    pub expert_degree: u64,
    /// Ranks that read different data.
    pub data_ranks: u64,
    /// ceil(parameters / 3 billion): the minimum nodes of a shard group by the rule; null if it does not
    /// apply.
    pub minimum_nodes: Option<u64>,
    /// minimum_nodes rounded up to a power of two.
    pub recommended_nodes: Option<u64>,
    /// The most nodes that a shard group spans.
    pub shard_group_nodes: u64,
}

/// Groups of ranks, by axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Groups {
    /// Ranks of each shard group.
    pub shard: Vec<Vec<u64>>,
    /// Ranks of each replica group.
    pub replica: Vec<Vec<u64>>,
    /// Ranks of each tensor group.
    pub tensor: Vec<Vec<u64>>,
    /// Ranks of each pipeline group.
    pub pipeline: Vec<Vec<u64>>,
    /// Ranks of each context group.
    pub context: Vec<Vec<u64>>,
    /// Ranks of each ulysses group.
    pub ulysses: Vec<Vec<u64>>,
    /// Ranks of each expert group.
    pub expert: Vec<Vec<u64>>,
}

/// The model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Model {
    /// As written, or from its config.
    pub name: String,
    /// All parameters.
    pub parameters: u64,
    /// Trainable parameters.
    pub parameters_trainable: Option<u64>,
    /// Parameters that process a token: all without the experts that are not chosen, input embedding
    /// included.
    pub parameters_active: Option<u64>,
    /// The output head shares the weight of the token embedding.
    pub tied: Option<bool>,
    /// FLOP of forward and backward pass per token at the sequence length, without recomputation and towers;
    /// attention over the keys that a causal mask and windows leave.
    #[schemars(range(min = 0.0))]
    pub training_flops_per_token: Option<f64>,
    /// Parts of the model. The counted ones sum to `parameters`.
    pub parts: Vec<ModelPart>,
    /// Layers.
    pub layers: Option<u64>,
    /// Hidden size.
    pub hidden: Option<u64>,
    /// Query heads.
    pub heads: Option<u64>,
    /// Key and value heads.
    pub kv_heads: Option<u64>,
    /// Intermediate size of the feed-forward layer.
    pub ffn: Option<u64>,
    /// Rows of the token embedding.
    pub vocab: Option<u64>,
    /// Tokens per sequence in training.
    pub sequence_length: Option<u64>,
}

/// A part of the model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelPart {
    /// The part, such as `experts`, `vision tower` or `multi-token prediction`.
    pub name: &'static str,
    /// Parameters, or numbers of a buffer.
    pub parameters: u64,
    /// Whether the class of transformers has it as parameters. Otherwise published files of the model may
    /// hold it.
    pub counted: bool,
    /// Why it is not counted; empty for a counted part.
    pub reason: &'static str,
}

/// The batch: per_replica × accumulation × data_ranks = global_sequences.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Batch {
    /// Sequences per micro-batch.
    pub micro: u64,
    /// Micro-batches per pipeline pass.
    pub microbatches: u64,
    /// micro × microbatches.
    pub per_replica: u64,
    /// Passes per optimizer step.
    pub accumulation: u64,
    /// Sequences per optimizer step.
    pub global_sequences: u64,
    /// Tokens per optimizer step.
    pub global_tokens: Option<u64>,
}

/// The container.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Image {
    /// The image URI, as in the request.
    pub uri: String,
    /// Version of PyTorch.
    pub pytorch: Option<String>,
    /// Version of Transformers.
    pub transformers: Option<String>,
    /// Version of Python, as `py310`.
    pub python: Option<String>,
}

/// The uploaded program.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Source {
    /// SHA-256 over paths, modes and contents.
    pub digest: String,
    /// Number of files, including generated ones.
    pub files: usize,
    /// Size of all files, unpacked.
    pub bytes: u64,
}

/// Predicted memory per GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Memory {
    /// Peak memory of the fullest GPU, bytes.
    pub per_gpu_bytes: Option<u64>,
    /// Memory of the GPU, bytes.
    pub capacity_bytes: Option<u64>,
    /// Whether it fits.
    pub fits: Option<bool>,
    /// 90 % interval; null without a prediction.
    pub interval: Option<Interval>,
    /// Host memory of one node, bytes.
    pub host_bytes: Option<u64>,
    /// Interval. No run in the table measured host memory, so for GPU ranks these are bounds, as a note says:
    /// each process between its observed minimum and maximum (`host` of the constants), offloaded memory with
    /// the relative error of `interval`, and no copy of a checkpoint in the lower bound. On CPUs ±8 %, the
    /// tested accuracy of the worker's own memory accounting.
    pub host_bytes_interval: Option<Interval>,
    /// Peak while saving a checkpoint, bytes.
    pub peak_checkpoint_bytes: Option<u64>,
    /// Interval. No run in the table measured a GPU while saving a checkpoint, so for GPU ranks the errors of
    /// peak memory in a step are used, as a note says, and the lower bound gathers no unit. On CPUs ±8 %.
    pub peak_checkpoint_bytes_interval: Option<Interval>,
    /// Parts that add up to per_gpu_bytes.
    pub parts: MemoryParts<Option<u64>>,
    /// Interval of each part. Stored weights, gradients and optimizer states are counted: both bounds equal
    /// the figure. Only the total was measured, so the bounds of `interval`, less the counted parts, are
    /// divided over the other parts in proportion to their size: the bounds of all parts add up to those of
    /// `interval`, and none is below 0. On CPUs every part is ±8 % of the worker's own memory accounting.
    /// Null without a prediction.
    pub parts_interval: MemoryParts<Option<PartInterval>>,
}

/// Predicted speed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Speed {
    /// True if an error decides which layout or container runs, so that nothing has a speed.
    #[serde(skip)]
    pub is_undecided: bool,
    /// One optimizer step, seconds.
    pub step_seconds: Option<f64>,
    /// Tokens per second, all GPUs.
    pub tokens_per_second: Option<f64>,
    /// Sequences per second, all GPUs.
    pub samples_per_second: Option<f64>,
    /// tflops.hardware.
    pub tflops_per_gpu: Option<f64>,
    /// Model FLOPS utilization: model FLOPS relative to the GPU's peak, a fraction.
    pub mfu: Option<f64>,
    /// TFLOPS per GPU, by convention.
    pub tflops: Tflops<Option<f64>>,
    /// 90 % interval; null without a prediction.
    pub interval: Option<Interval>,
    /// Tokens per second over the interval of the step time; null without a prediction.
    pub tokens_per_second_interval: Option<Interval>,
    /// Sequences per second over the interval of the step time; null without a prediction.
    pub samples_per_second_interval: Option<Interval>,
    /// TFLOPS of a GPU over the interval of the step time; null without a prediction.
    pub tflops_per_gpu_interval: Option<Interval>,
    /// `tflops` over the interval of the step time; null without a prediction.
    pub tflops_interval: Tflops<Option<Interval>>,
    /// MFU over the interval of the step time; null without a prediction.
    pub mfu_interval: Option<Interval>,
    /// Parts that add up to step_seconds.
    pub parts: SpeedParts<Option<f64>>,
    /// Interval of each part. Only whole steps were measured: each part has the relative error of its step,
    /// larger for waiting than for computing (`interval` of the constants), and the half-width of the step's
    /// `interval` is their time-weighted mean. Of waiting for data, each bound of reading is compared with
    /// the opposite bound of the rest. Null where the part is.
    pub parts_interval: SpeedParts<Option<Interval>>,
    /// Communication in a step by collective, hidden and exposed; exposed_communication of parts is the
    /// exposed part.
    pub communication: Communication<Option<f64>>,
    /// Interval of each collective, with the relative error of waiting in a step; null without a prediction.
    pub communication_interval: Communication<Option<Interval>>,
}

/// The predicted run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Run {
    /// Optimizer steps.
    pub steps: Option<u64>,
    /// Tokens trained on.
    pub tokens: Option<u64>,
    /// Expected billed time, seconds: the sum of the known parts, including interruptions at a given rate;
    /// null if the run would never finish at that rate. cost_usd is for this time. A download of unknown size
    /// is excluded; run.parts.download is then null, with a note.
    pub seconds: Option<f64>,
    /// 90 % interval of the run time; null without a prediction, and if at the upper bound the run would
    /// never finish at the given interruption rate.
    pub interval: Option<Interval>,
    /// Parts that add up to seconds.
    pub parts: RunParts<Option<f64>>,
    /// Interval of each part. Only bounds are known for the parts other than training (`interval.around_low`
    /// and `interval.around_high` of the constants). Training has the step's interval, interruptions have the
    /// lower or upper bound of everything else. Null where the part is; of the interruptions also if at the
    /// upper bound the run would never finish.
    pub parts_interval: RunParts<Option<Interval>>,
    /// Checkpoints; null without any.
    pub checkpoint: Option<Checkpoints>,
    /// The run with interruptions at the given rate; null without a rate, and if the run would never finish
    /// at it.
    pub spot: Option<Spot>,
    /// Expected cost, US dollars, including repeated work at a given interruption rate. Null if the price of
    /// a file system that the job creates is not known: the note has a lower bound. Volumes without a known
    /// price are excluded, with a note.
    pub cost_usd: Option<f64>,
    /// The cost at both bounds of the run time; at a given interruption rate, of
    /// run.spot.expected_seconds_interval. Null if the cost or that interval is.
    pub cost_usd_interval: Option<Interval>,
    /// Parts that add up to cost_usd.
    pub cost_parts: CostParts<Option<f64>>,
    /// Each part at both bounds of the run time; null where the part is.
    pub cost_parts_interval: CostParts<Option<Interval>>,
    /// Cost of the expected time, including work lost to interruptions, at on-demand prices, US dollars.
    /// Present for spot instances without a known discount, which cost less.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub on_demand_usd: Option<f64>,
    /// on_demand_usd at both bounds of the run time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Interval")]
    pub on_demand_usd_interval: Option<Interval>,
    /// Cost of a run until max-run at on-demand prices, US dollars: instances, and volumes and file systems
    /// with a known price; a note names the others. Of several preferred instance types it is that of the
    /// dearest; in `choices` that of each. Null without the price of all instances: the note has the known
    /// part.
    pub most_usd: Option<f64>,
    /// Source of the price.
    pub price_source: Option<String>,
}

/// Price of an instance of an instance group.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GroupPrice {
    /// The group's name.
    pub group: Option<String>,
    /// Its instance type.
    pub instance: Option<String>,
    /// Number of instances.
    pub nodes: Option<u64>,
    /// Price of an instance; null if the catalogue has none, and for a cluster of instance groups.
    pub price: Option<Price>,
}

/// The job on one of its preferred instance types.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Choice {
    /// The instance type.
    pub instance: Option<String>,
    /// Number of instances.
    pub nodes: Option<u64>,
    /// The degrees as the engine counts them: replicas × shard × tensor × pipeline = world size, for
    /// accelerate, deepspeed, distributed-config and torchtitan also × context × ulysses; null if it could
    /// not be computed.
    pub mesh: Option<Mesh>,
    /// per_replica × accumulation × data_ranks = global_sequences; null if it is not known.
    pub batch: Option<Batch>,
    /// Predicted memory per GPU; null without a prediction.
    pub memory: Memory,
    /// Predicted speed: its members are null without a prediction, and it is null where an error decides
    /// which layout or container runs.
    #[serde(serialize_with = "speed_or_null")]
    #[schemars(with = "Option<Speed>")]
    pub speed: Speed,
    /// The predicted run.
    pub run: Run,
    /// Price of an instance; null if the catalogue has none, and for a cluster of instance groups.
    pub price: Option<Price>,
    /// In order of place, in the format of diagnostic.v1.json.
    pub problems: Vec<Problem>,
}

/// Something that is still billed after the end of the training job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AfterEnd {
    /// `file-system`: one that the job creates. `warm-pool`: instances kept after the job. `checkpoints`,
    /// `output` and `source`: objects in S3. `logs`: log streams in CloudWatch.
    #[schemars(with = "String")]
    pub kind: BillKind,
    /// Name of the file system in the manifest.
    pub name: Option<String>,
    /// Cost at most, US dollars, for a warm pool that no job takes; null if the price is not known, and for
    /// the other kinds.
    #[schemars(range(min = 0.0))]
    pub most_usd: Option<f64>,
    /// Cost of a month, US dollars, of a file system or of all checkpoints; null if the price or the size is
    /// not known, and for the other kinds.
    #[schemars(range(min = 0.0))]
    pub usd_per_month: Option<f64>,
    /// Longest time, seconds, of a warm pool.
    pub seconds: Option<u64>,
    /// Checkpoints that the run leaves: all that it writes, or `keep`.
    pub count: Option<u64>,
    /// `keep` of the manifest, if the run writes more checkpoints: the program deletes the others, and
    /// SageMaker deletes them in S3; else null.
    #[schemars(range(min = 1))]
    pub keep: Option<u64>,
    /// Size: capacity of a file system, sum of the checkpoints; null if not known.
    pub bytes: Option<u64>,
    /// Predicted size of a checkpoint; null if not known.
    pub each_bytes: Option<u64>,
    /// Date of the price, a day or a text; null if the user set it or none is known.
    pub price_date: Option<String>,
    /// Source of the price; null if none is known.
    pub price_source: Option<String>,
    /// The interval of an estimated price.
    #[serde(skip)]
    pub price_estimate: Option<PriceEstimate>,
    /// True if the command that runs the job deletes it.
    #[serde(skip)]
    pub is_deleted_after_job: bool,
    /// What ends it, such as `deleted`.
    pub until: String,
}

/// An AWS resource.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Resource {
    /// `role`, `file-system`, `source`, `training-job`, …
    #[schemars(with = "String")]
    pub kind: ResourceKind,
    /// Its name, id or path.
    pub name: String,
    /// What trainc does with it; `use` for a resource that must exist.
    #[schemars(with = "String")]
    pub action: Verb,
    /// The reason.
    pub because: String,
    /// The other jobs that use it, for an existing file system that several jobs share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<String>,
}

/// A value that a later layer overrides or removes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Override {
    /// The overridden value, as `cluster.nodes`.
    pub path: String,
    /// The place of the earlier value, `file:line:column`.
    pub from: String,
    /// The place of the later value.
    pub by: String,
    /// The value that replaces it, as `role.create`; null if the later value has the same path.
    pub replaced_by: Option<String>,
    /// Whether no value takes its place: `by` is `#null`, or an engine that does not support it.
    pub removed: bool,
}
