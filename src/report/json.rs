//! plan.json: the whole plan for scripts. Keys only grow; sizes are bytes, times seconds, money US dollars.

use crate::diag::json::{Problem, problem};
use crate::diag::Problems;
use crate::emit::Identity;
use crate::ir::{Axis, Plan};
use crate::source::SourceMap;
use serde::Serialize;
use serde_json::Value;

/// The version of this form: the first number changes when a reader must.
pub const FORMAT_VERSION: &str = "1.0";

/// A plan for scripts. What is not known is null.
#[derive(Debug, Serialize)]
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
    pub cluster: Cluster,
    pub mesh: Option<Mesh>,
    pub groups: Groups,
    pub model: Option<Model>,
    pub batch: Option<Batch>,
    pub image: Option<Image>,
    pub source: Option<Source>,
    pub memory: Memory,
    pub speed: Speed,
    pub run: Run,
    pub price: Option<Price>,
    pub resources: Vec<Resource>,
    pub overrides: Vec<Override>,
    pub notes: Vec<String>,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Manifest {
    pub path: String,
    pub sha256: String,
}

#[derive(Debug, Serialize)]
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

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Gpu {
    pub name: Option<String>,
    pub memory_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Mesh {
    pub engine: &'static str,
    pub data_parallel_replicas: u64,
    pub shard_degree: u64,
    pub tensor_degree: u64,
    pub pipeline_degree: u64,
    pub context_degree: u64,
    pub expert_degree: u64,
    pub data_ranks: u64,
    pub minimum_nodes: Option<u64>,
    pub recommended_nodes: Option<u64>,
    pub shard_group_nodes: u64,
}

#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Groups {
    pub shard: Vec<Vec<u64>>,
    pub replica: Vec<Vec<u64>>,
    pub tensor: Vec<Vec<u64>>,
    pub pipeline: Vec<Vec<u64>>,
    pub context: Vec<Vec<u64>>,
    pub expert: Vec<Vec<u64>>,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Model {
    pub name: String,
    pub parameters: u64,
    pub parameters_trainable: Option<u64>,
    pub layers: Option<u64>,
    pub hidden: Option<u64>,
    pub heads: Option<u64>,
    pub kv_heads: Option<u64>,
    pub ffn: Option<u64>,
    pub vocab: Option<u64>,
    pub sequence_length: Option<u64>,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Batch {
    pub micro: u64,
    pub microbatches: u64,
    pub per_replica: u64,
    pub accumulation: u64,
    pub global_sequences: u64,
    pub global_tokens: Option<u64>,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Image {
    pub uri: String,
    pub pytorch: Option<String>,
    pub transformers: Option<String>,
    pub python: Option<String>,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Source {
    pub digest: String,
    pub files: usize,
    pub bytes: u64,
}

#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Memory {
    pub per_gpu_bytes: Option<u64>,
    pub capacity_bytes: Option<u64>,
    pub fits: Option<bool>,
    pub interval: Option<Value>,
    pub host_bytes: Option<u64>,
    pub peak_checkpoint_bytes: Option<u64>,
    pub parts: MemoryParts,
}

#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct MemoryParts {
    pub parameters: Option<u64>,
    pub gradients: Option<u64>,
    pub optimizer: Option<u64>,
    pub activations: Option<u64>,
    pub gathered: Option<u64>,
    pub logits: Option<u64>,
    pub buffers: Option<u64>,
    pub reserve: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Speed {
    pub step_seconds: Option<f64>,
    pub tokens_per_second: Option<f64>,
    pub samples_per_second: Option<f64>,
    pub tflops_per_gpu: Option<f64>,
    pub mfu: Option<f64>,
    pub interval: Option<Value>,
    pub parts: SpeedParts,
}

#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct SpeedParts {
    pub compute: Option<f64>,
    pub exposed_communication: Option<f64>,
    pub bubble: Option<f64>,
    pub offload: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Run {
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    pub seconds: Option<f64>,
    pub cost_usd: Option<f64>,
    pub cost_parts: Option<Value>,
    pub most_usd: Option<f64>,
    pub price_source: Option<String>,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Price {
    pub usd_per_hour: f64,
    pub region: String,
    pub date: String,
    pub source: String,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Resource {
    pub kind: &'static str,
    pub name: String,
    pub action: &'static str,
    pub because: String,
}

#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "schemas/plan.v1.json says what each member is")]
pub struct Override {
    pub path: String,
    pub from: String,
    pub by: String,
}

/// The plan for scripts.
pub fn document(
    path: &str,
    manifest_sha256: &str,
    plan: Option<&Plan>,
    identity: Option<&Identity>,
    problems: &Problems,
    sources: &SourceMap,
) -> Document {
    let job = plan.map(|plan| &plan.job);
    let mesh = plan.and_then(|plan| plan.mesh.as_ref());
    let machine = plan.and_then(|plan| plan.machine.as_ref());
    let cluster = job.and_then(|job| job.cluster.as_ref());
    let place = |span: crate::source::Span| match sources.get(span.source) {
        Some(source) => {
            let (line, column) = source.line_column(span.start);
            format!("{}:{line}:{column}", source.name)
        }
        None => String::new(),
    };
    Document {
        format_version: FORMAT_VERSION,
        trainc_version: env!("CARGO_PKG_VERSION"),
        catalog_version: crate::catalog::VERSION,
        job: job.and_then(|job| job.name.value().cloned()),
        digest: identity.map(|identity| identity.digest.clone()),
        training_job_name: identity.map(|identity| identity.training_job.clone()),
        manifest: Manifest { path: path.to_owned(), sha256: manifest_sha256.to_owned() },
        region: job.and_then(|job| job.region.value().cloned()),
        account: job.and_then(|job| job.account.value().cloned()),
        cluster: Cluster {
            instance: cluster.and_then(|cluster| cluster.instance.value().cloned()),
            nodes: mesh.map(|mesh| mesh.nodes).or_else(|| cluster.and_then(|cluster| cluster.nodes.get())),
            gpus_per_node: machine.map(|machine| machine.gpus_per_node),
            world_size: mesh.map(|mesh| mesh.world_size),
            gpu: Gpu {
                name: machine.and_then(|machine| machine.gpu.clone()),
                memory_bytes: machine.and_then(|machine| machine.gpu_memory_bytes),
            },
            max_run_seconds: cluster.and_then(|cluster| cluster.max_run_seconds.get()),
            spot: cluster.is_some_and(|cluster| cluster.spot.is_some()),
        },
        mesh: mesh.map(|mesh| Mesh {
            engine: mesh.engine.name(),
            data_parallel_replicas: mesh.replicas.value,
            shard_degree: mesh.shard_degree.value,
            tensor_degree: mesh.tensor_degree.value,
            pipeline_degree: mesh.pipeline_degree.value,
            context_degree: mesh.context_degree.value,
            expert_degree: mesh.expert_degree.value,
            data_ranks: mesh.data_ranks.value,
            minimum_nodes: mesh.minimum_nodes.as_ref().map(|val| val.value),
            recommended_nodes: mesh.recommended_nodes.as_ref().map(|val| val.value),
            shard_group_nodes: mesh.nodes_of_group(Axis::Shard),
        }),
        groups: mesh.map(groups).unwrap_or_default(),
        model: plan.and_then(model),
        batch: plan.and_then(|plan| plan.batch.as_ref()).map(|batch| Batch {
            micro: batch.micro.value,
            microbatches: batch.microbatches,
            per_replica: batch.per_replica,
            accumulation: batch.accumulation.value,
            global_sequences: batch.global_sequences.value,
            global_tokens: batch.global_tokens,
        }),
        image: plan.and_then(|plan| plan.image.as_ref()).map(|image| Image {
            uri: image.uri.clone(),
            pytorch: image.pytorch.clone(),
            transformers: image.transformers.clone(),
            python: image.python.clone(),
        }),
        source: plan.and_then(|plan| Some((plan, plan.source.as_ref()?))).map(|(plan, _)| {
            let files = crate::emit::archive::files(plan);
            Source {
                digest: crate::emit::archive::source_digest(plan),
                files: files.len(),
                bytes: files.iter().map(|file| file.bytes.len() as u64).sum(),
            }
        }),
        memory: Memory {
            capacity_bytes: machine.and_then(|machine| machine.gpu_memory_bytes),
            ..Memory::default()
        },
        speed: Speed::default(),
        run: plan.map(run).unwrap_or_default(),
        price: plan.and_then(|plan| plan.price.as_ref()).map(|price| Price {
            usd_per_hour: price.usd_per_hour,
            region: price.region.clone(),
            date: price.date.clone(),
            source: price.source.clone(),
        }),
        resources: Vec::new(),
        overrides: job.map_or_else(Vec::new, |job| {
            job.overrides
                .iter()
                .map(|over| Override { path: over.path.clone(), from: place(over.from), by: place(over.by) })
                .collect()
        }),
        notes: Vec::new(),
        problems: problems.iter().map(|diagnostic| problem(sources, diagnostic)).collect(),
    }
}

fn groups(mesh: &crate::ir::Mesh) -> Groups {
    Groups {
        shard: mesh.groups(Axis::Shard),
        replica: mesh.groups(Axis::Replica),
        tensor: mesh.groups(Axis::Tensor),
        pipeline: mesh.groups(Axis::Pipeline),
        context: mesh.groups(Axis::Context),
        expert: mesh.groups(Axis::Expert),
    }
}

fn model(plan: &Plan) -> Option<Model> {
    let model = plan.model.as_ref()?;
    let a = model.architecture.as_ref();
    Some(Model {
        name: model.name.clone(),
        parameters: model.parameters.value,
        parameters_trainable: model.trainable.as_ref().map(|val| val.value),
        layers: a.map(|a| a.layers),
        hidden: a.map(|a| a.hidden),
        heads: a.map(|a| a.heads),
        kv_heads: a.map(|a| a.kv_heads),
        ffn: a.map(|a| a.ffn),
        vocab: a.map(|a| a.vocab),
        sequence_length: plan.job.train.sequence_length.get(),
    })
}

fn run(plan: &Plan) -> Run {
    Run {
        steps: plan.run.steps.as_ref().map(|val| val.value),
        tokens: plan.run.tokens.as_ref().map(|val| val.value),
        most_usd: most_usd(plan),
        price_source: plan.price.as_ref().map(|price| format!("{} {}", price.source, price.date).trim().to_owned()),
        ..Run::default()
    }
}

/// What the instances cost if the job runs until max-run stops it.
pub fn most_usd(plan: &Plan) -> Option<f64> {
    let price = plan.price.as_ref()?;
    let nodes = plan.mesh.as_ref()?.nodes;
    let seconds = plan.job.cluster.as_ref()?.max_run_seconds.get()?;
    Some(price.usd_per_hour * nodes as f64 * seconds as f64 / 3_600.0)
}
