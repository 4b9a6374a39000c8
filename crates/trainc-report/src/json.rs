//! plan.json: the whole plan for scripts. Keys are only added; sizes are bytes, times seconds, money US
//! dollars.

use crate::after_end::BillKind;
use serde::Serialize;
use trainc_diag::json::Problem;
use trainc_emit::{ResourceKind, Verb};
use trainc_ir::PriceEstimate;

/// The version of the format: the major number changes with incompatible changes.
pub const FORMAT_VERSION: &str = "1.0";

/// The JSON Schema of [`Document`], for `trainc schema plan`.
pub const SCHEMA: &str = include_str!("../schemas/plan.v1.json");

/// A plan for scripts. Unknown values are null.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Document {
    pub format_version: &'static str,
    pub trainc_version: &'static str,
    pub catalog_version: &'static str,
    pub job: Option<String>,
    pub digest: Option<String>,
    pub training_job_name: Option<String>,
    pub manifest: Manifest,
    pub region: Option<String>,
    pub account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    pub cluster: Cluster,
    pub mesh: Option<Mesh>,
    pub groups: Groups,
    pub model: Option<Model>,
    pub batch: Option<Batch>,
    pub delivery: Delivery,
    pub image: Option<Image>,
    pub source: Option<Source>,
    pub memory: Memory,
    #[serde(serialize_with = "speed_or_null")]
    pub speed: Speed,
    pub run: Run,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    pub price: Option<Price>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group_prices: Vec<GroupPrice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// A better machine, or null if there is none; absent unless one was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Option<BetterMachine>>,
    pub after_end: Vec<AfterEnd>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Quota>,
    pub resources: Vec<Resource>,
    pub policy: Vec<Statement>,
    pub overrides: Vec<Override>,
    pub notes: Vec<String>,
    pub problems: Vec<Problem>,
}

fn speed_or_null<S: serde::Serializer>(speed: &Speed, serializer: S) -> Result<S::Ok, S::Error> {
    if speed.is_undecided { serializer.serialize_none() } else { speed.serialize(serializer) }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct BetterMachine {
    pub instance: String,
    pub nodes: u64,
    pub seconds: f64,
    pub seconds_interval: Option<Interval>,
    pub cost_usd: f64,
    pub cost_usd_interval: Option<Interval>,
    pub saves: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Evidence {
    pub file: String,
    pub newest: Option<String>,
    pub same: usize,
    pub near: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Statement {
    pub sid: String,
    pub because: String,
    pub actions: Vec<&'static str>,
    pub resources: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Delivery {
    pub passed: Vec<Passed>,
    pub assumed: Vec<Assumed>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Passed {
    pub setting: String,
    pub by: &'static str,
    #[serde(rename = "as")]
    pub name: String,
    pub value: serde_json::Value,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Assumed {
    pub setting: String,
    pub value: serde_json::Value,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Manifest {
    pub path: String,
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Blocked {
    pub exit: u8,
    pub codes: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Cluster {
    pub instance: Option<String>,
    pub nodes: Option<u64>,
    pub gpus_per_node: Option<u64>,
    pub world_size: Option<u64>,
    pub gpu: Gpu,
    pub max_run_seconds: Option<u64>,
    pub spot: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Gpu {
    pub name: Option<String>,
    pub memory_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Mesh {
    pub engine: &'static str,
    pub data_parallel_replicas: u64,
    pub replicate_degree: u64,
    pub shard_degree: u64,
    pub tensor_degree: u64,
    pub pipeline_degree: u64,
    pub context: u64,
    pub expert: u64,
    pub context_degree: u64,
    pub ulysses_degree: u64,
    pub expert_degree: u64,
    pub data_ranks: u64,
    pub minimum_nodes: Option<u64>,
    pub recommended_nodes: Option<u64>,
    pub shard_group_nodes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Groups {
    pub shard: Vec<Vec<u64>>,
    pub replica: Vec<Vec<u64>>,
    pub tensor: Vec<Vec<u64>>,
    pub pipeline: Vec<Vec<u64>>,
    pub context: Vec<Vec<u64>>,
    pub ulysses: Vec<Vec<u64>>,
    pub expert: Vec<Vec<u64>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Model {
    pub name: String,
    pub parameters: u64,
    pub parameters_trainable: Option<u64>,
    pub parameters_active: Option<u64>,
    pub tied: Option<bool>,
    pub training_flops_per_token: Option<f64>,
    pub parts: Vec<ModelPart>,
    pub layers: Option<u64>,
    pub hidden: Option<u64>,
    pub heads: Option<u64>,
    pub kv_heads: Option<u64>,
    pub ffn: Option<u64>,
    pub vocab: Option<u64>,
    pub sequence_length: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct ModelPart {
    pub name: &'static str,
    pub parameters: u64,
    pub counted: bool,
    pub reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Batch {
    pub micro: u64,
    pub microbatches: u64,
    pub per_replica: u64,
    pub accumulation: u64,
    pub global_sequences: u64,
    pub global_tokens: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Image {
    pub uri: String,
    pub pytorch: Option<String>,
    pub transformers: Option<String>,
    pub python: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Source {
    pub digest: String,
    pub files: usize,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Memory {
    pub per_gpu_bytes: Option<u64>,
    pub capacity_bytes: Option<u64>,
    pub fits: Option<bool>,
    pub interval: Option<Interval>,
    pub host_bytes: Option<u64>,
    pub host_bytes_interval: Option<Interval>,
    pub peak_checkpoint_bytes: Option<u64>,
    pub peak_checkpoint_bytes_interval: Option<Interval>,
    pub parts: MemoryParts,
    pub parts_interval: MemoryParts<PartInterval>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct MemoryParts<T = u64> {
    pub parameters: Option<T>,
    pub gradients: Option<T>,
    pub optimizer: Option<T>,
    pub activations: Option<T>,
    pub gathered: Option<T>,
    pub logits: Option<T>,
    pub buffers: Option<T>,
    pub reserve: Option<T>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Speed {
    /// True if an error decides which layout or container runs, so that nothing has a speed.
    #[serde(skip)]
    pub is_undecided: bool,
    pub step_seconds: Option<f64>,
    pub tokens_per_second: Option<f64>,
    pub samples_per_second: Option<f64>,
    pub tflops_per_gpu: Option<f64>,
    pub mfu: Option<f64>,
    pub tflops: Tflops,
    pub interval: Option<Interval>,
    pub tokens_per_second_interval: Option<Interval>,
    pub samples_per_second_interval: Option<Interval>,
    pub tflops_per_gpu_interval: Option<Interval>,
    pub tflops_interval: TflopsInterval,
    pub mfu_interval: Option<Interval>,
    pub parts: SpeedParts,
    pub parts_interval: SpeedParts<Interval>,
    pub communication: Communication,
    pub communication_interval: Communication<Interval>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Communication<T = f64> {
    pub tensor: Option<T>,
    pub pipeline: Option<T>,
    pub experts: Option<T>,
    pub context: Option<T>,
    pub gather: Option<T>,
    pub replicas: Option<T>,
    pub gradients: Option<T>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct SpeedParts<T = f64> {
    pub compute: Option<T>,
    pub exposed_communication: Option<T>,
    pub bubble: Option<T>,
    pub offload: Option<T>,
    pub optimizer: Option<T>,
    pub input: Option<T>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Run {
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    pub seconds: Option<f64>,
    pub interval: Option<Interval>,
    pub parts: RunParts,
    pub parts_interval: RunPartsInterval,
    pub checkpoint: Option<Checkpoint>,
    pub spot: Option<Spot>,
    pub cost_usd: Option<f64>,
    pub cost_usd_interval: Option<Interval>,
    pub cost_parts: CostParts,
    pub cost_parts_interval: CostPartsInterval,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_demand_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_demand_usd_interval: Option<Interval>,
    pub most_usd: Option<f64>,
    pub price_source: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Price {
    pub usd_per_hour: f64,
    pub region: Option<String>,
    pub date: Option<String>,
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<PriceEstimate>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct GroupPrice {
    pub group: Option<String>,
    pub instance: Option<String>,
    pub nodes: Option<u64>,
    pub price: Option<Price>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Choice {
    pub instance: Option<String>,
    pub nodes: Option<u64>,
    pub mesh: Option<Mesh>,
    pub batch: Option<Batch>,
    pub memory: Memory,
    #[serde(serialize_with = "speed_or_null")]
    pub speed: Speed,
    pub run: Run,
    pub price: Option<Price>,
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct AfterEnd {
    pub kind: BillKind,
    pub name: Option<String>,
    pub most_usd: Option<f64>,
    pub usd_per_month: Option<f64>,
    pub seconds: Option<u64>,
    pub count: Option<u64>,
    pub keep: Option<u64>,
    pub bytes: Option<u64>,
    pub each_bytes: Option<u64>,
    pub price_date: Option<String>,
    pub price_source: Option<String>,
    #[serde(skip)]
    pub price_estimate: Option<PriceEstimate>,
    #[serde(skip)]
    pub is_deleted_after_job: bool,
    pub until: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Quota {
    pub name: String,
    pub code: Option<String>,
    pub value: f64,
    pub needed: f64,
    pub in_use: Option<f64>,
    pub in_use_is_lower_bound: bool,
    pub is_default: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Resource {
    pub kind: ResourceKind,
    pub name: String,
    pub action: Verb,
    pub because: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Override {
    pub path: String,
    pub from: String,
    pub by: String,
    pub replaced_by: Option<String>,
    pub removed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct PartInterval {
    pub low: f64,
    pub high: f64,
    pub origin: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Tflops {
    pub model: Option<f64>,
    pub hardware: Option<f64>,
    pub six_n: Option<f64>,
    pub eight_n: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct CostParts {
    pub instances: Option<f64>,
    pub volumes: Option<f64>,
    pub file_systems: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct RunParts {
    pub startup: Option<f64>,
    pub download: Option<f64>,
    pub training: Option<f64>,
    pub checkpoints: Option<f64>,
    pub evaluation: Option<f64>,
    pub interruptions: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Checkpoint {
    pub bytes: u64,
    pub seconds: f64,
    pub seconds_interval: Interval,
    pub best_interval_seconds: Option<f64>,
    pub best_interval_seconds_interval: Option<Interval>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Spot {
    pub expected_seconds: f64,
    pub expected_seconds_interval: Option<Interval>,
    pub p90_seconds: f64,
    pub p90_seconds_interval: Option<Interval>,
    pub interruptions: f64,
    pub interruptions_interval: Option<Interval>,
    pub expected_usd: Option<f64>,
    pub expected_usd_interval: Option<Interval>,
    pub p90_usd: Option<f64>,
    pub p90_usd_interval: Option<Interval>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct TflopsInterval {
    pub model: Option<Interval>,
    pub hardware: Option<Interval>,
    pub six_n: Option<Interval>,
    pub eight_n: Option<Interval>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct CostPartsInterval {
    pub instances: Option<Interval>,
    pub volumes: Option<Interval>,
    pub file_systems: Option<Interval>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct RunPartsInterval {
    pub startup: Option<Interval>,
    pub download: Option<Interval>,
    pub training: Option<Interval>,
    pub checkpoints: Option<Interval>,
    pub evaluation: Option<Interval>,
    pub interruptions: Option<Interval>,
}
