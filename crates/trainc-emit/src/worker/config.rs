//! `worker/worker.json`, the config of the worker, by `schemas/worker.v1.json`: every field is present, null
//! if not set. Sizes are bytes, times seconds, counts integers.

use crate::fill::Fill;
use serde::Serialize;
use std::collections::BTreeMap;
use trainc_ir::Plan;
use trainc_ir::architecture::RopeScaling;
use trainc_ir::worker::{
    GRACE_SECONDS, TRAIN_CHANNEL, VALIDATION_CHANNEL, WEIGHTS_CHANNEL, Worker, WorkerActivation,
    WorkerFamily, WorkerNorm,
};

/// The version of the schema.
const SCHEMA: &str = "trainc.worker/v1";
/// TCP port of the first host; any free one.
const RENDEZVOUS_PORT: u16 = 7777;
/// Seconds to wait for other hosts: in a large job their names may take a quarter of an hour to resolve.
const JOIN_SECONDS: u64 = 1200;
/// Seconds without a heartbeat after which a rank is considered dead: with up to ten for the others to shut
/// down, all ranks end within thirty.
const PEER_DEAD_SECONDS: u64 = 20;
/// Intervals for which saves may fail before the run ends.
const MAX_AGE_INTERVALS: u64 = 3;
/// Timeout of a collective, seconds.
const COLLECTIVE_SECONDS: u64 = 600;

#[derive(Serialize)]
pub(super) struct Config {
    schema: &'static str,
    job: String,
    digest: String,
    cluster: Cluster,
    mesh: Mesh,
    model: Model,
    precision: Precision,
    memory: Memory,
    batch: Batch,
    optimizer: Optimizer,
    schedule: Schedule,
    data: Data,
    checkpoint: Checkpoint,
    output: Output,
    log: Log,
    communication: Communication,
    limits: Limits,
    gpu: Gpu,
}
#[derive(Serialize)]
struct Gpu {
    attention: String,
    self_check: &'static str,
    peak_flops: Option<f64>,
    network_bytes_per_s: Option<f64>,
}
#[derive(Serialize)]
struct Cluster {
    instance: String,
    nodes: u64,
    gpus_per_node: u64,
}
#[derive(Serialize)]
struct Mesh {
    shard_degree: u64,
    data_parallel_replicas: u64,
}
#[derive(Serialize)]
struct Model {
    family: WorkerFamily,
    vocab_size: u64,
    hidden_size: u64,
    intermediate_size: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    sequence_length: u64,
    norm: Norm,
    activation: WorkerActivation,
    biases: &'static str,
    positions: Positions,
    parallel_residual: bool,
    tied_embeddings: bool,
    initializer_range: f64,
    weights: Option<String>,
    adapter: Option<Adapter>,
}
#[derive(Serialize)]
struct Norm {
    kind: WorkerNorm,
    eps: f64,
}
#[derive(Serialize)]
struct Positions {
    kind: &'static str,
    theta: Option<f64>,
    fraction: Option<f64>,
    scaling: Option<RopeScaling>,
}
#[derive(Serialize)]
struct Adapter {
    kind: String,
    rank: u64,
    alpha: f64,
    dropout: f64,
    targets: Vec<String>,
}
#[derive(Serialize)]
struct Precision {
    compute: &'static str,
    reduce: &'static str,
}
#[derive(Serialize)]
struct Memory {
    recompute: &'static str,
    prefetch: u64,
    reshard_after_forward: bool,
    offload: &'static str,
}
#[derive(Serialize)]
struct Batch {
    micro: u64,
    accumulation: u64,
    global_sequences: u64,
}
#[derive(Serialize)]
struct Optimizer {
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    clip_norm: Option<f64>,
}
#[derive(Serialize)]
struct Schedule {
    kind: String,
    warmup_steps: u64,
    steps: u64,
    minimum_learning_rate: f64,
}
#[derive(Serialize)]
struct Data {
    train: String,
    validation: Option<String>,
    seed: u64,
    epochs: Option<u64>,
    shuffle: bool,
    document_mask: bool,
}
#[derive(Serialize)]
struct Checkpoint {
    directory: String,
    every_seconds: Option<u64>,
    every_steps: Option<u64>,
    keep: u64,
    grace_seconds: u64,
    resume: &'static str,
    max_age_intervals: u64,
    accept_changes: bool,
}
#[derive(Serialize)]
struct Output {
    model: &'static str,
    data: &'static str,
    failure: &'static str,
}
#[derive(Serialize)]
struct Log {
    every_steps: u64,
    evaluate_every_steps: Option<u64>,
}
#[derive(Serialize)]
struct Communication {
    backend: &'static str,
    rendezvous_port: u16,
    join_seconds: u64,
    peer_dead_seconds: u64,
    collective_seconds: u64,
    environment: BTreeMap<String, String>,
}
#[derive(Serialize)]
struct Limits {
    max_seconds: Option<u64>,
    max_loss: Option<f64>,
}

/// Returns the config of a plan with engine `worker`.
pub(super) fn config(plan: &Plan, fill: Fill) -> Option<Config> {
    let worker = plan.worker.as_ref()?;
    let (mesh, batch) = (plan.mesh.as_ref()?, plan.batch.as_ref()?);
    let steps = plan.run.steps.as_ref()?.value;
    let (optimizer, run) = (&worker.optimizer, &worker.run);
    Some(Config {
        schema: SCHEMA,
        job: plan.job.name.value().cloned().unwrap_or_default(),
        // The digest covers the config without itself.
        digest: fill.digest().to_owned(),
        cluster: Cluster {
            instance: plan.job.cluster.as_ref()?.instance.value()?.clone(),
            nodes: mesh.nodes,
            gpus_per_node: if has_gpus(plan) { mesh.gpus_per_node } else { 0 },
        },
        mesh: Mesh { shard_degree: mesh.shard_degree.value, data_parallel_replicas: mesh.replicas.value },
        model: model(plan, worker, fill)?,
        precision: Precision {
            compute: dtype_name(worker.bf16.value),
            reduce: dtype_name(worker.reduce_bf16.value),
        },
        memory: Memory {
            recompute: if worker.recompute.value { "block" } else { "none" },
            prefetch: worker.prefetch.value,
            reshard_after_forward: worker.reshard_after_forward.value,
            offload: if worker.offload.value { "cpu" } else { "none" },
        },
        batch: Batch {
            micro: batch.micro_batch_size.value,
            accumulation: batch.accumulation.value,
            global_sequences: batch.global_sequences.value,
        },
        optimizer: Optimizer {
            learning_rate: optimizer.learning_rate.value,
            beta1: optimizer.betas.value.0,
            beta2: optimizer.betas.value.1,
            eps: optimizer.eps.value,
            weight_decay: optimizer.weight_decay.value,
            clip_norm: optimizer.clip_norm.as_ref().map(|clip| clip.value),
        },
        schedule: Schedule {
            kind: worker.schedule.kind.value.clone(),
            warmup_steps: worker.schedule.warmup_steps.value,
            steps,
            minimum_learning_rate: worker.schedule.minimum_learning_rate.value,
        },
        log: Log { every_steps: run.log_interval_steps, evaluate_every_steps: run.evaluation_interval_steps },
        data: Data {
            train: directory(worker, TRAIN_CHANNEL, fill)?,
            validation: directory(worker, VALIDATION_CHANNEL, fill),
            seed: worker.seed.value,
            // The plan converts epochs to steps.
            epochs: None,
            shuffle: true,
            document_mask: worker.document_mask.value,
        },
        checkpoint: Checkpoint {
            directory: fill.text(&run.checkpoint_directory),
            every_seconds: run.checkpoint_interval_seconds,
            every_steps: run.checkpoint_interval_steps,
            keep: worker.keep.value,
            grace_seconds: GRACE_SECONDS,
            resume: "auto",
            max_age_intervals: MAX_AGE_INTERVALS,
            accept_changes: worker.accept_changes.value,
        },
        output: Output { model: run.output.model, data: run.output.data, failure: run.output.failure },
        communication: Communication {
            backend: "auto",
            rendezvous_port: RENDEZVOUS_PORT,
            join_seconds: JOIN_SECONDS,
            peer_dead_seconds: PEER_DEAD_SECONDS,
            collective_seconds: COLLECTIVE_SECONDS,
            environment: plan.payload.environment.iter().cloned().collect(),
        },
        limits: Limits { max_seconds: run.save_and_stop_seconds, max_loss: None },
        gpu: gpu(plan, worker, mesh.nodes),
    })
}

/// Returns what the worker's self-check and log compare a GPU and the network with.
fn gpu(plan: &Plan, worker: &Worker, nodes: u64) -> Gpu {
    let peak = plan.instance.as_ref().and_then(|instance| instance.accelerator.peak_bf16_tflops);
    let network = plan.instance.as_ref().filter(|instance| nodes > 1 && instance.efa == Some(true));
    Gpu {
        attention: worker.attention.value.clone(),
        self_check: if worker.self_check_ends_run.value { "enforce" } else { "warn" },
        peak_flops: peak.map(|tflops| tflops * 1e12),
        network_bytes_per_s: network.and_then(|instance| instance.network_gbps).map(|gbps| gbps * 1e9 / 8.0),
    }
}

fn model(plan: &Plan, worker: &Worker, fill: Fill) -> Option<Model> {
    let a = plan.model.as_ref()?.architecture.as_ref()?;
    let parts = &worker.model;
    Some(Model {
        family: parts.family,
        vocab_size: a.vocab,
        hidden_size: a.hidden,
        intermediate_size: a.ffn,
        layers: a.layers,
        heads: a.heads,
        kv_heads: a.kv_heads,
        head_dim: a.head_dim,
        sequence_length: plan.job.train.sequence_length.get()?,
        norm: Norm { kind: parts.norm, eps: parts.norm_eps.value },
        activation: parts.activation,
        biases: if parts.biases { "all" } else { "none" },
        positions: Positions {
            kind: if parts.rotary.is_some() { "rotary" } else { "learned" },
            theta: parts.rotary.as_ref().map(|rotary| rotary.theta),
            fraction: parts.rotary.as_ref().map(|rotary| rotary.fraction.value),
            scaling: parts.rotary.as_ref().and_then(|rotary| Some(rotary.scaling.as_ref()?.value.clone())),
        },
        parallel_residual: a.parallel,
        tied_embeddings: a.tied,
        initializer_range: parts.initializer_range.value,
        weights: directory(worker, WEIGHTS_CHANNEL, fill),
        adapter: worker.run.adapter.as_ref().map(|adapter| Adapter {
            kind: adapter.kind.clone(),
            rank: adapter.rank,
            alpha: adapter.alpha,
            dropout: adapter.dropout,
            targets: adapter.targets.clone(),
        }),
    })
}

fn dtype_name(bf16: bool) -> &'static str {
    if bf16 { "bf16" } else { "f32" }
}

fn has_gpus(plan: &Plan) -> bool {
    plan.machine.as_ref().is_some_and(|machine| machine.gpu.is_some())
}

/// Returns the directory of a channel.
fn directory(worker: &Worker, name: &str, fill: Fill) -> Option<String> {
    worker.run.input_directories.get(name).map(|directory| fill.text(directory))
}
