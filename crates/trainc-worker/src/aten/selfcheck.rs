//! Self-check: whether this binary, this PyTorch and these GPUs compute what the tests on CPU tensors have
//! shown, before any data is read. Wrong operators, formats, strides, groups or orders of work differ here,
//! and end the run with exit code 12.

use std::time::Instant;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::comm::{Comm, Timing};
use super::device::{Attention, Device, HeadShape};
use super::engine::AtenEngine;
use super::ffi::{self, Buffer, Kind, Place, Tensor};
use super::find;
use crate::checkpoint::model_settings;
use crate::comm::Groups;
use crate::comm::single_rank::SingleRank;
use crate::comm::topology::{Kind as Members, Step};
use crate::config::{Config, Format, Optimizer, Scaling};
use crate::data::tokens::hex;
use crate::exit::{Code, Failure};
use crate::fault_injection;
use crate::fsdp::{self, Engine, StateKind, shard_len, topology};
use crate::model::init::mix;
use crate::model::layout::Shape;
use crate::optim;
use crate::preflight::{gather_from_ranks, least};

type Result<T> = std::result::Result<T, Failure>;

/// Largest deviations of bf16 from f32. That of the loss is the one of the recorded cases; the others are
/// three times what CPU tensors show over all families, `bounds_are_measured` in tests/aten.rs.
struct Bounds {
    /// Of the loss, relative.
    loss: f64,
    /// Norm of a tensor's gradient's deviation over the norm of the gradient.
    gradient: f64,
    /// The same of a unit's first moment.
    moment: f64,
}

const BF16: Bounds = Bounds { loss: 2.1e-3, gradient: 0.08, moment: 0.04 };

/// Steps of the tiny model.
const STEPS: usize = 3;

/// Work of the block at the job's widths in FLOPs, on the CPU: a few seconds.
const HEAVY: f64 = 5e11;

/// Elements of the largest token table that is computed on the CPU.
const TABLE: usize = 1 << 22;

/// Bytes of an engine of one rank for each parameter: master weights, moments, a shard of gradients and two
/// buffers with their sums in 32 bit, and weights in bf16.
const BYTES: usize = 34;

fn differs(what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Loss, format!("self-check: {what}"))
}

/// Receives what is wrong: ends the check, or notes it if the config says that a failed check is a warning.
struct Judge {
    setting: crate::config::SelfCheck,
    warnings: Vec<String>,
}

impl Judge {
    /// Compares a measured bandwidth with that of the network.
    fn compare_rate(&mut self, name: &str, rate: f64, expected: f64) -> Result<()> {
        let said =
            format!("{name}: {:.2} GB/s per rank, but the network has {:.2}", rate / 1e9, expected / 1e9);
        let look = "run with NCCL_DEBUG=INFO and look for `NET/OFI`";
        if rate < expected / 4.0 {
            let why = format!("NCCL does not use the network's adapters: {look}");
            self.reject(Failure::new(Code::Device, format!("self-check: {said}; {why}")))?;
        } else if rate < expected / 2.0 {
            self.warnings.push(format!("{said}: {look}"));
        }
        Ok(())
    }

    fn reject(&mut self, failure: Failure) -> Result<()> {
        match self.setting {
            crate::config::SelfCheck::Enforce => {
                let way = "; `gpu.self_check` \"warn\" makes this a warning";
                Err(Failure::new(failure.code, failure.message + way))
            }
            crate::config::SelfCheck::Warn => {
                self.warnings.push(failure.message);
                Ok(())
            }
        }
    }
}

/// A config of one rank without files.
fn alone(config: &Config) -> Config {
    let mut c = config.clone();
    c.mesh.shard_degree = 1;
    c.mesh.data_parallel_replicas = 1;
    c.cluster.nodes = 1;
    c.batch.accumulation = 1;
    c
}

/// The job's family with small dimensions: grouped heads, rotated parts of heads, ties and adapters as in the
/// job.
fn tiny(config: &Config) -> Config {
    let mut c = alone(config);
    let m = &mut c.model;
    m.vocab_size = 253;
    m.hidden_size = 64;
    m.intermediate_size = 96;
    m.layers = 2;
    m.kv_heads = if m.kv_heads == m.heads { 4 } else { 2 };
    m.heads = 4;
    m.head_dim = 32;
    m.sequence_length = 48;
    m.initializer_range = 0.08;
    if let Some(Scaling { original_positions: Some(positions), .. }) = &mut m.positions.scaling {
        *positions = 24;
    }
    if let Some(adapter) = &mut m.adapter {
        adapter.rank = adapter.rank.min(4);
    }
    c.batch.micro = 2;
    c.batch.global_sequences = 2;
    c.memory.prefetch = c.memory.prefetch.min(2);
    c
}

/// One block and the head at the job's widths, with one short sequence. The token table is cut, and the
/// feed-forward layer where the block does not fit into `free` bytes; the remainders that kernels depend on
/// stay.
fn wide(config: &Config, free: usize) -> Config {
    let mut c = alone(config);
    let m = &mut c.model;
    m.layers = 1;
    let cut = |width: usize, to: usize| if width > to { to / 64 * 64 + width % 64 } else { width };
    m.vocab_size = cut(m.vocab_size, (TABLE / m.hidden_size).max(512));
    while Shape::from_model(m).parameters() * BYTES > free / 2 && m.intermediate_size > 256 {
        m.intermediate_size = cut(m.intermediate_size, m.intermediate_size / 2);
    }
    let parameters = Shape::from_model(m).parameters() as f64;
    let tokens = (HEAVY / (6.0 * parameters)).clamp(64.0, 512.0) as usize / 8 * 8;
    m.sequence_length = m.sequence_length.min(tokens);
    c.batch.micro = 1;
    c.batch.global_sequences = 1;
    c.memory.prefetch = 0;
    c
}

fn engine_alone(config: &Config, device: Device) -> Result<AtenEngine> {
    let one = || Box::new(SingleRank::default());
    let groups = Groups { world: one(), shard: one(), replica: one() };
    AtenEngine::new(config, groups, device, Comm::new(None, device.place, (0, 1), 1))
}

/// Tokens and labels of a micro-batch; a few labels are excluded.
fn batch(config: &Config, seed: u64) -> (Vec<u32>, Vec<u32>) {
    let (rows, vocab) = (config.batch.micro * config.model.sequence_length, config.model.vocab_size as u64);
    let token = |i: usize| (mix(seed * 0x1_0000_0000 + i as u64) % vocab) as u32;
    let label = |i: usize| if i % 11 == 5 { crate::kernels::rows::IGNORED } else { token(i + 1) };
    ((0..rows).map(token).collect(), (0..rows).map(label).collect())
}

fn counted(labels: &[u32]) -> f64 {
    labels.iter().filter(|label| **label != crate::kernels::rows::IGNORED).count() as f64
}

/// Starts of documents of a third of a sequence, if the job masks documents.
fn documents(config: &Config) -> Vec<u32> {
    if !config.data.document_mask {
        return Vec::new();
    }
    let (rows, sequence) = (config.batch.micro * config.model.sequence_length, config.model.sequence_length);
    let each = (sequence / 3).max(1);
    (0..rows).map(|row| (row % sequence / each * each) as u32).collect()
}

/// Loss of a step, and each tensor's gradient.
struct StepResult {
    loss: f64,
    gradients: Vec<(String, Vec<f32>)>,
    moments: Vec<(String, Vec<f32>)>,
}

/// Trains an engine of one rank.
fn steps(config: &Config, device: Device, count: usize, fault: bool) -> Result<Vec<StepResult>> {
    let mut engine = engine_alone(config, device)?;
    if fault {
        // As if a kernel were wrong.
        let unit = engine.shards().iter().rposition(|shard| shard.unit.trained).unwrap_or(0);
        let mut values = engine.read_shard(unit, StateKind::Master)?.into_owned();
        values.iter_mut().step_by(7).for_each(|value| *value *= 1.5);
        engine.write_shard(unit, StateKind::Master, &values)?;
    }
    engine.set_document_starts(&documents(config));
    // With the usual epsilon the first step is the sign of each gradient, which rounding flips where it is
    // almost 0.
    let optimizer = Optimizer { eps: 1e-2, ..config.optimizer.clone() };
    let mut all = Vec::new();
    for step in 0..count {
        let (tokens, labels) = batch(config, step as u64);
        let scale = 1.0 / counted(&labels);
        engine.micro_step(&tokens, &labels, scale)?;
        let loss = engine.reduce()?.loss * scale;
        let mut gradients = Vec::new();
        for at in (&engine as &dyn Engine).trained() {
            let values = engine.read_gradient(at)?;
            for tensor in &engine.shards()[at].unit.tensors {
                gradients.push((tensor.name.clone(), values[tensor.range()].to_vec()));
            }
        }
        engine.update(&optimizer, step, 1e-2, 1.0)?;
        let mut moments = Vec::new();
        for at in (&engine as &dyn Engine).trained() {
            let name = engine.shards()[at].unit.name.clone();
            moments.push((name, engine.read_shard(at, StateKind::ExpAvg)?.into_owned()));
        }
        all.push(StepResult { loss, gradients, moments });
    }
    Ok(all)
}

/// Returns the norm of a - b over the norm of b.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = square(&mut a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    let size = square(&mut b.iter().map(|b| f64::from(*b)));
    if difference == 0.0 { 0.0 } else { difference / size.max(f64::MIN_POSITIVE) }
}

/// Returns whether a value is above its bound, or is NaN.
fn exceeds(value: f64, bound: f64) -> bool {
    value.is_nan() || value > bound
}

/// Largest deviations found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deviation {
    /// Of the loss, relative.
    pub loss: f64,
    /// Of a tensor's gradient, relative to its norm.
    pub gradient: f64,
    /// Of a unit's first moment, relative to its norm.
    pub moment: f64,
}

/// Compares a device with CPU tensors in f32.
fn compare(
    what: &str,
    config: &Config,
    device: Device,
    count: usize,
    judge: Option<&mut Judge>,
    fault: bool,
) -> Result<Deviation> {
    let mut reference = config.clone();
    reference.precision.compute = Format::F32;
    let expected = steps(&reference, Device::cpu(device.attention), count, false)?;
    let found = steps(config, device, count, fault)?;
    let (mut worst, mut wrong) = (Deviation::default(), None);
    let mut check = |step: usize, name: &str, value: f64, bound: f64| {
        if wrong.is_none() && exceeds(value, bound) {
            wrong = Some(differs(format!(
                "{what}, step {step}: {name} deviates by {value:.2e}, expected at most {bound:.1e}"
            )));
        }
    };
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let step = number + 1;
        let loss = (found.loss / expected.loss - 1.0).abs();
        check(step, "the loss", loss, BF16.loss);
        worst.loss = worst.loss.max(loss);
        for ((name, values), (_, expected)) in found.gradients.iter().zip(&expected.gradients) {
            let gradient = apart(values, expected);
            check(step, &format!("the gradient of `{name}`"), gradient, BF16.gradient);
            worst.gradient = worst.gradient.max(gradient);
        }
        for ((name, values), (_, expected)) in found.moments.iter().zip(&expected.moments) {
            let moment = apart(values, expected);
            check(step, &format!("the first moment of `{name}`"), moment, BF16.moment);
            worst.moment = worst.moment.max(moment);
        }
    }
    if let (Some(judge), Some(wrong)) = (judge, wrong) {
        judge.reject(wrong)?;
    }
    Ok(worst)
}

/// Measures the deviations of a device without bounds, for the tests that the bounds come from.
pub fn measure(config: &Config) -> Result<Deviation> {
    let device = Device::cpu(super::Attention::Flash);
    compare("tiny model", &tiny(config), device, STEPS, None, false)
}

/// Bandwidth of the collectives at the job's sizes, in bytes that a rank receives per second; none for groups
/// of one rank.
#[derive(Clone, Copy, Debug, Default)]
struct Bandwidth {
    gather: Option<f64>,
    reduce_scatter: Option<f64>,
    all_reduce: Option<f64>,
}

/// A number that names a place and a rank, below `most`. Integers up to 256 are exact in bf16.
fn number(place: usize, rank: usize, most: usize) -> f32 {
    ((place % 127 + rank % 64) % most) as f32
}

/// Returns the bound of the numbers whose sum over a group is exact in a format, and the deviation to allow
/// where a group is too large for that.
fn exact_numbers(format: Kind, ranks: usize) -> (usize, f32) {
    match format {
        Kind::Bf16 if ranks <= 128 => (256 / ranks + 1, 0.0),
        // Each partial sum is rounded to 8 bits.
        Kind::Bf16 => (3, 0.05),
        Kind::F32 | Kind::F64 | Kind::I64 | Kind::I32 => (256, 0.0),
    }
}

/// Checks every collective at the size of the largest unit, and measures its bandwidth.
fn collectives(
    config: &Config,
    groups: &Groups,
    comm: &Comm,
    device: Device,
    judge: &mut Judge,
) -> Result<Bandwidth> {
    let (rank, degree) = comm.shard;
    let units = Shape::from_model(&config.model).units();
    let n = units.iter().map(|unit| shard_len(unit.len, degree)).max().unwrap_or(0);
    let format = |format: Format| if format == Format::F32 { Kind::F32 } else { Kind::Bf16 };
    let (compute, reduce) = (format(config.precision.compute), format(config.precision.reduce));
    // The vectors of all units, which are gathered in f32 by a sum.
    let vectors = fsdp::vector_places(units.iter()).1;
    let mut found = Bandwidth::default();
    let rate = |bytes: usize, began: Instant| Some(bytes as f64 / began.elapsed().as_secs_f64().max(1e-9));
    let read = |buffer: &Buffer, n: usize| -> Result<Vec<f32>> {
        let size = [n as i64];
        device.to(&buffer.view(&size, 0)?, &size, Kind::F32)?.read()
    };
    let write = |buffer: &Buffer, values: &[f32]| -> Result<()> {
        let size = [values.len() as i64];
        buffer.view(&size, 0)?.copy(&Tensor::upload(values, &size, device.place)?)
    };
    let mut verify = |what: &str, values: &[f32], allowed: f32, expected: &dyn Fn(usize) -> f32| {
        let wrong = |(place, value): &(usize, &f32)| {
            let expected = expected(*place);
            value.is_nan() || (**value - expected).abs() > allowed * expected
        };
        values.iter().enumerate().find(wrong).map_or(Ok(()), |(place, value)| {
            let (count, expected) = (values.len(), expected(place));
            judge.reject(differs(format!(
                "{what} of {count} elements: element {place} is {value}, expected {expected}"
            )))
        })
    };
    let sum_of = |from: usize, step: usize, count: usize| -> Vec<usize> {
        (0..count).map(|i| from + i * step).collect()
    };
    if degree > 1 {
        // The ranks of this shard group are consecutive.
        let first = groups.world.rank() - rank;
        let mut full = comm.buffer(n * degree, compute)?;
        let most = exact_numbers(compute, 1).0;
        let own: Vec<f32> = (0..n).map(|place| number(place, first + rank, most)).collect();
        let own = Tensor::upload(&own, &[n as i64], device.place)?;
        for round in 0..2 {
            full.view(&[n as i64], rank * n)?.copy(&own)?;
            comm.synchronise()?;
            let began = Instant::now();
            full = comm.end_gather(comm.begin_gather(full, n)?, n)?;
            comm.synchronise()?;
            if round > 0 {
                found.gather = rate(n * (degree - 1) * compute.bytes(), began);
            }
        }
        let values = read(&full, n * degree)?;
        drop((full, own));
        verify("gather", &values, 0.0, &|place| number(place % n, first + place / n, most))?;
        drop(values);
        let (mut full, mut part) = (comm.buffer(n * degree, reduce)?, comm.buffer(n, reduce)?);
        let (most, allowed) = exact_numbers(reduce, degree);
        let all: Vec<f32> = (0..n * degree).map(|place| number(place, first + rank, most)).collect();
        write(&full, &all)?;
        drop(all);
        for round in 0..2 {
            comm.synchronise()?;
            let began = Instant::now();
            (full, part) = comm.take(comm.reduce_scatter(full, part, n)?)?;
            comm.synchronise()?;
            if round > 0 {
                found.reduce_scatter = rate(reduce.bytes() * n * (degree - 1), began);
            }
        }
        let ranks = sum_of(first, 1, degree);
        verify("reduce-scatter", &read(&part, n)?, allowed, &|place| {
            ranks.iter().map(|rank| number(n * comm.shard.0 + place, *rank, most)).sum()
        })?;
        if compute != Kind::F32 {
            let (values, most) = (comm.buffer(vectors, Kind::F32)?, exact_numbers(Kind::F32, degree).0);
            let own: Vec<f32> = (0..vectors).map(|place| number(place, first + rank, most)).collect();
            write(&values, &own)?;
            let values = comm.take(comm.all_reduce(Members::Shard, values, vectors)?)?;
            verify("all-reduce of vectors", &read(&values, vectors)?, 0.0, &|place| {
                ranks.iter().map(|rank| number(place, *rank, most)).sum()
            })?;
        }
    }
    if comm.replicas > 1 {
        let mut values = comm.buffer(n, reduce)?;
        let (most, allowed) = exact_numbers(reduce, comm.replicas);
        let own: Vec<f32> = (0..n).map(|place| number(place, groups.world.rank(), most)).collect();
        for round in 0..2 {
            write(&values, &own)?;
            comm.synchronise()?;
            let began = Instant::now();
            values = comm.take(comm.all_reduce(Members::Replica, values, n)?)?;
            comm.synchronise()?;
            if round > 0 {
                found.all_reduce = rate(2 * reduce.bytes() * n * (comm.replicas - 1) / comm.replicas, began);
            }
        }
        let ranks = sum_of(rank, degree, comm.replicas);
        verify("all-reduce", &read(&values, n)?, allowed, &|place| {
            ranks.iter().map(|rank| number(place, *rank, most)).sum()
        })?;
    }
    Ok(found)
}

/// Trains the tiny model on the job's mesh in each timing, with NaN in freed buffers.
fn timings(
    config: &Config,
    groups: Groups,
    comm: Comm,
    device: Device,
    judge: &mut Judge,
) -> Result<(Groups, Comm)> {
    let mut c = tiny(config);
    c.mesh = config.mesh.clone();
    c.cluster = config.cluster.clone();
    c.batch.global_sequences = c.batch.micro * config.ranks();
    let (mut groups, mut comm) = (groups, comm);
    let mut expected: Vec<f64> = Vec::new();
    for timing in Timing::ALL {
        comm.set_timing(timing, device)?;
        let mut engine = AtenEngine::new(&c, groups, device, comm)?;
        engine.set_document_starts(&documents(&c));
        let rank = engine.groups().world.rank() as u64;
        for step in 0..STEPS {
            let (tokens, labels) = batch(&c, 1000 * rank + step as u64);
            let mut count = [counted(&labels)];
            engine.groups().world.all_reduce_f64(&mut count)?;
            engine.micro_step(&tokens, &labels, 1.0 / count[0])?;
            let sums = engine.reduce()?;
            let mut all = [sums.loss, sums.squared_norm];
            engine.groups().world.all_reduce_f64(&mut all)?;
            let norm = all[1].sqrt();
            for (name, value) in [("loss", all[0] / count[0]), ("gradient norm", norm)] {
                let at = 2 * step + usize::from(name != "loss");
                if timing == Timing::Synchronised {
                    expected.push(value);
                }
                let deviation = (value / expected[at] - 1.0).abs();
                let bound = if name == "loss" { BF16.loss } else { BF16.gradient };
                if exceeds(deviation, bound) {
                    judge.reject(differs(format!(
                        "the {name} of step {} is {value} with {timing}, but {} when each \
                            collective is waited for: collectives and compute are not ordered",
                        step + 1,
                        expected[at]
                    )))?;
                }
            }
            engine.update(&c.optimizer, step, 1e-3, optim::clip_factor(norm, c.optimizer.clip_norm))?;
        }
        (groups, comm) = engine.into_parts();
        comm.release()?;
    }
    comm.set_timing(Timing::Free, device)?;
    Ok((groups, comm))
}

/// Identifies what a check holds for: binary, PyTorch, NCCL, driver, GPU, model and mesh.
pub(super) fn key(config: &Config, comm: &Comm, gpu: &str) -> Result<String> {
    let mut hash = Sha256::new();
    let program = std::env::current_exe().and_then(std::fs::read);
    hash.update(program.map_err(|e| Failure::new(Code::Bug, format!("cannot read this executable: {e}")))?);
    let parts = json!([
        ffi::version()?,
        comm.version()?,
        find::driver_version(),
        gpu,
        model_settings(config),
        config.data.document_mask,
        config.batch.micro,
        config.gpu,
        config.mesh,
        config.precision,
        config.cluster
    ]);
    hash.update(parts.to_string());
    Ok(hex(&hash.finalize()))
}

/// Rows of a sequence whose deviation is measured together.
const TILE: usize = 64;

/// Attention at the job's micro-batch, length, heads and width: random queries, keys and values, and the
/// gradient of the output.
struct AttentionCase {
    shape: HeadShape,
    begins: Vec<u32>,
    qkv: Tensor,
    gradient: Tensor,
}

/// What a kernel computes: the output, and the gradients of queries, keys and values, each as rows of heads.
struct AttentionResult {
    out: Tensor,
    dqkv: Tensor,
}

impl AttentionCase {
    fn new(config: &Config, device: Device) -> Result<Self> {
        let m = &config.model;
        let shape = HeadShape {
            batch: config.batch.micro as i64,
            sequence: m.sequence_length as i64,
            heads: m.heads as i64,
            kv_heads: m.kv_heads as i64,
            dim: m.head_dim as i64,
        };
        let rows = shape.batch * shape.sequence;
        // Of variance 1, so that the softmax is neither flat nor a choice.
        let random = |width: i64, seed: u64| -> Result<Tensor> {
            let number = |i: i64| (mix(seed << 40 ^ i as u64) >> 40) as f32 / (1 << 24) as f32 - 0.5;
            let values: Vec<f32> = (0..rows * width).map(|i| number(i) * 12f32.sqrt()).collect();
            device.to(&Tensor::upload(&values, &[rows, width], device.place)?, &[rows, width], Kind::Bf16)
        };
        Ok(Self {
            shape,
            begins: documents(config),
            qkv: random(shape.width(), 1)?,
            gradient: random(shape.heads * shape.dim, 2)?,
        })
    }

    fn compute(
        &self,
        device: Device,
        qkv: &Tensor,
        gradient: &Tensor,
        shape: HeadShape,
    ) -> Result<AttentionResult> {
        let (rows, kind) = (shape.batch * shape.sequence, qkv.kind()?);
        let begins = &self.begins[..self.begins.len().min(rows as usize)];
        let documents = (!begins.is_empty()).then(|| device.documents(begins, shape.sequence as usize));
        let documents = documents.transpose()?;
        let out = device.empty(&[rows, shape.heads * shape.dim], kind)?;
        let dqkv = device.empty(&[rows, shape.width()], kind)?;
        let saved = device.attention(shape, qkv, documents.as_ref(), &out)?;
        device.attention_backward(shape, gradient, qkv, &out, &saved, &dqkv)?;
        Ok(AttentionResult { out, dqkv })
    }

    /// Returns the f32 values of some heads of one sequence: `count` heads from `head` on of rows of `heads`
    /// heads.
    fn part(
        &self,
        device: Device,
        from: &Tensor,
        heads: i64,
        batch: i64,
        (head, count): (i64, i64),
    ) -> Result<Vec<f32>> {
        let HeadShape { sequence, dim, .. } = self.shape;
        let at = batch * sequence * heads * dim + head * dim;
        let sizes = [sequence, count * dim];
        device.to(&from.strided(&sizes, &[heads * dim, 1], at as usize)?, &sizes, Kind::F32)?.read()
    }

    /// Returns one group of heads of one sequence: its queries, keys and values side by side.
    fn group(&self, device: Device, from: &Tensor, batch: i64, group: i64) -> Result<Vec<f32>> {
        let HeadShape { sequence, heads, kv_heads, dim, .. } = self.shape;
        let (each, all) = (heads / kv_heads, heads + 2 * kv_heads);
        let parts = [(group * each, each), (heads + group, 1), (heads + kv_heads + group, 1)];
        let parts = parts.map(|part| Ok((part.1, self.part(device, from, all, batch, part)?)));
        let [q, k, v] = parts;
        let mut rows = Vec::new();
        let parts = [q?, k?, v?];
        for row in 0..sequence as usize {
            for (count, values) in &parts {
                let width = (count * dim) as usize;
                rows.extend(&values[row * width..(row + 1) * width]);
            }
        }
        Ok(rows)
    }
}

/// Returns the largest deviation of a tile of rows of one head, relative to the head's whole tile.
fn largest_of_tiles(found: &[f32], expected: &[f32], heads: usize, dim: usize) -> f64 {
    let rows = found.len() / (heads * dim);
    let mut most = 0.0f64;
    for head in 0..heads {
        for first in (0..rows).step_by(TILE) {
            let (mut difference, mut size) = (0.0f64, 0.0f64);
            for row in first..rows.min(first + TILE) {
                let at = (row * heads + head) * dim..(row * heads + head + 1) * dim;
                for (a, b) in found[at.clone()].iter().zip(&expected[at]) {
                    difference += (f64::from(*a) - f64::from(*b)).powi(2);
                    size += f64::from(*b).powi(2);
                }
            }
            let deviation = (difference / size.max(f64::MIN_POSITIVE)).sqrt();
            most = if deviation.is_nan() { f64::INFINITY } else { most.max(deviation) };
        }
    }
    most
}

/// Checks attention and its gradients at the job's micro-batch, length and heads on each kernel of this GPU:
/// all heads of all sequences against the other kernel, and as many groups of heads as a CPU computes in
/// seconds against f32. Returns the largest deviation.
fn attention(config: &Config, device: Device, others: &[Attention], judge: &mut Judge) -> Result<f64> {
    let case = AttentionCase::new(config, device)?;
    let shape = case.shape;
    let (heads, groups, dim) = (shape.heads as usize, shape.kv_heads, shape.dim as usize);
    let kernels: Vec<Attention> = std::iter::once(device.attention).chain(others.iter().copied()).collect();
    let mut results = Vec::new();
    for attention in &kernels {
        let result =
            case.compute(Device { attention: *attention, ..device }, &case.qkv, &case.gradient, shape)?;
        if fault_injection::is_wrong_attention() && results.is_empty() {
            // As if the kernel were wrong in the last rows of a long sequence.
            let rows = (shape.batch * shape.sequence) as usize;
            let last = result.out.view(&[1, heads as i64 * shape.dim], (rows - 1) * heads * dim)?;
            last.copy(&Tensor::upload(&[0.5f32], &[1], device.place)?)?;
        }
        results.push(result);
    }
    let mut worst = 0.0f64;
    let mut check = |what: String, found: &[f32], expected: &[f32], heads: usize| {
        let deviation = largest_of_tiles(found, expected, heads, dim);
        worst = worst.max(deviation);
        if exceeds(deviation, BF16.gradient) {
            let (batch, sequence, bound) = (shape.batch, shape.sequence, BF16.gradient);
            return judge.reject(differs(format!(
                "attention of {batch} x {sequence} tokens, {what}: {TILE} rows of a head deviate \
                    by {deviation:.2e}, expected at most {bound:.1e}"
            )));
        }
        Ok(())
    };
    let all = (heads as i64, shape.heads + 2 * shape.kv_heads);
    for (kernel, other) in kernels.iter().zip(&results).skip(1) {
        let names = format!("{:?} and {kernel:?}", kernels[0]).to_lowercase();
        for batch in 0..shape.batch {
            let out = |r: &AttentionResult| case.part(device, &r.out, all.0, batch, (0, all.0));
            check(format!("output of {names}"), &out(&results[0])?, &out(other)?, heads)?;
            let back = |r: &AttentionResult| case.part(device, &r.dqkv, all.1, batch, (0, all.1));
            check(format!("gradients of {names}"), &back(&results[0])?, &back(other)?, all.1 as usize)?;
        }
    }
    // A group of heads is independent of the others.
    let group = HeadShape { batch: 1, heads: shape.heads / groups, kv_heads: 1, ..shape };
    let flops = 14.0 * (group.heads * group.dim) as f64 * (shape.sequence as f64).powi(2) / 2.0;
    // Sequences of which not even one group is computed in seconds are compared between kernels only.
    let count =
        if flops > 2.0 * HEAVY { 0 } else { ((HEAVY / 4.0 / flops) as i64).clamp(1, shape.batch * groups) };
    let cpu = Device::cpu(device.attention);
    for number in 0..count {
        // The last one first, then spread over all.
        let at = (shape.batch * groups - 1) - number * (shape.batch * groups) / count;
        let (batch, number) = (at / groups, at % groups);
        let rows = [shape.sequence, group.width()];
        let qkv = Tensor::upload(&case.group(device, &case.qkv, batch, number)?, &rows, cpu.place)?;
        let (first, width) = (number * group.heads, group.heads * group.dim);
        let part = |from: &Tensor| case.part(device, from, shape.heads, batch, (first, group.heads));
        let gradient = Tensor::upload(&part(&case.gradient)?, &[shape.sequence, width], cpu.place)?;
        let expected = case.compute(cpu, &qkv, &gradient, group)?;
        let (out, dqkv) = (expected.out.read::<f32>()?, expected.dqkv.read::<f32>()?);
        for (kernel, found) in kernels.iter().zip(&results) {
            let name = format!("{kernel:?}").to_lowercase();
            check(format!("output of {name}"), &part(&found.out)?, &out, group.heads as usize)?;
            let back = case.group(device, &found.dqkv, batch, number)?;
            check(format!("gradients of {name}"), &back, &dqkv, group.heads as usize + 2)?;
        }
    }
    if count == 0 && kernels.len() == 1 {
        let (kernel, sequence) = (kernels[0], shape.sequence);
        judge.warnings.push(format!(
            "attention was not compared at {sequence} tokens: {kernel:?} is the only kernel for \
                this job, and a CPU is too slow"
        ));
    }
    Ok(worst)
}

/// Compares the bandwidth between hosts with the network's: below half of it is a warning, below a quarter
/// NCCL does not use it.
fn compare_network(config: &Config, found: &Bandwidth, judge: &mut Judge) -> Result<()> {
    /// Bytes of a collective below which latency decides.
    const LEAST: usize = 32 << 20;
    let Some(network) = config.gpu.network_bytes_per_s else { return Ok(()) };
    let t = topology(config);
    let shape = Shape::from_model(&config.model);
    let largest = shape.units().iter().map(|unit| unit.len).max().unwrap_or(0);
    let crosses = |kind| t.members(kind, Step::Outer, 0).len() > 1;
    let width = |format| if format == Format::F32 { 4 } else { 2 };
    // Ranks of a host whose groups are different ones share its network.
    let (gathered, summed) =
        (largest * width(config.precision.compute), largest / t.shards * width(config.precision.reduce));
    for (name, rate, bytes, sharing) in [
        ("gather", found.gather.filter(|_| crosses(Members::Shard)), gathered, 1),
        (
            "all-reduce",
            found.all_reduce.filter(|_| crosses(Members::Replica)),
            summed,
            t.per_host().min(t.shards),
        ),
    ] {
        if let Some(rate) = rate.filter(|_| bytes >= LEAST) {
            judge.compare_rate(&format!("{name} between hosts"), rate, network / sharing as f64)?;
        }
    }
    Ok(())
}

/// Runs all checks. Every rank must call it. Returns the groups, and what was found. `others` are the GPU's
/// other kernels of attention.
pub(super) fn run(
    config: &Config,
    mut groups: Groups,
    comm: Comm,
    device: Device,
    others: &[Attention],
) -> Result<(Groups, Comm, Value)> {
    let began = Instant::now();
    let mut judge = Judge { setting: config.gpu.self_check, warnings: Vec::new() };
    let fault = fault_injection::is_wrong_kernel();
    let small = compare("tiny model", &tiny(config), device, STEPS, Some(&mut judge), fault)?;
    // One rank of each host, on all its cores.
    let (mut large, mut attended) = (Deviation::default(), 0.0);
    let block = wide(config, comm.free_memory()?);
    if groups.world.rank().is_multiple_of(topology(config).per_host()) {
        large = compare("one block at the job's widths", &block, device, 1, Some(&mut judge), false)?;
        attended = attention(config, device, others, &mut judge)?;
    }
    groups.world.barrier()?;
    let bandwidth = collectives(config, &groups, &comm, device, &mut judge)?;
    let mut slowest = |rate: Option<f64>| -> Result<Option<f64>> {
        let all = gather_from_ranks(&mut groups, rate.unwrap_or(f64::INFINITY))?;
        Ok(Some(least(&all)).filter(|rate| rate.is_finite()))
    };
    let found = Bandwidth {
        gather: slowest(bandwidth.gather)?,
        reduce_scatter: slowest(bandwidth.reduce_scatter)?,
        all_reduce: slowest(bandwidth.all_reduce)?,
    };
    compare_network(config, &found, &mut judge)?;
    comm.release()?;
    let (groups, comm) = timings(config, groups, comm, device, &mut judge)?;
    let (major, minor, patch) = ffi::version()?;
    let found = json!({
        "seconds": began.elapsed().as_secs_f64(),
        "torch": format!("{major}.{minor}.{patch}"),
        "nccl": comm.version()?,
        "device": if device.place == Place::Cuda { "cuda" } else { "cpu" },
        "attention": format!("{:?}", device.attention).to_lowercase(),
        "attention_checked": 1 + others.len(),
        "attention_deviation": attended,
        "tiny_model": {"loss": small.loss, "gradient": small.gradient, "moment": small.moment},
        "block": {"loss": large.loss, "gradient": large.gradient, "moment": large.moment,
            "intermediate_size": block.model.intermediate_size, "tokens": block.model.sequence_length},
        "instance": config.cluster.instance,
        "nodes": config.cluster.nodes,
        "shard_degree": config.mesh.shard_degree,
        "data_parallel_replicas": config.mesh.data_parallel_replicas,
        "gather_bytes_per_s": found.gather,
        "reduce_scatter_bytes_per_s": found.reduce_scatter,
        "all_reduce_bytes_per_s": found.all_reduce,
        "warnings": judge.warnings,
    });
    Ok((groups, comm, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(rate: f64, expected: f64, setting: crate::config::SelfCheck) -> (Result<()>, Vec<String>) {
        let mut judge = Judge { setting, warnings: Vec::new() };
        let result = judge.compare_rate("gather between hosts", rate, expected);
        (result, judge.warnings)
    }

    /// Below half of the network's bandwidth is a warning, below a quarter ends the run, unless a warning is
    /// enough.
    #[test]
    fn bandwidth_between_hosts_is_compared_with_the_network() {
        use crate::config::SelfCheck::{Enforce, Warn};
        let (result, warnings) = judged(30e9, 50e9, Enforce);
        assert!(result.is_ok() && warnings.is_empty());
        let (result, warnings) = judged(20e9, 50e9, Enforce);
        assert!(result.is_ok() && warnings[0].contains("20.00 GB/s per rank"), "{warnings:?}");
        let (result, _) = judged(2e9, 50e9, Enforce);
        let failure = result.unwrap_err();
        assert_eq!(failure.code, Code::Device);
        assert!(failure.message.contains("NCCL does not use the network's adapters"), "{failure}");
        let (result, warnings) = judged(2e9, 50e9, Warn);
        assert!(result.is_ok() && warnings.len() == 1);
    }
}
