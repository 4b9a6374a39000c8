//! Self-check: whether this binary, this PyTorch and these GPUs compute what the tests on CPU tensors have shown, before
//! any data is read. Wrong operators, formats, strides, groups or orders of work differ here, and end the run with exit
//! code 12.

use std::time::Instant;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::comm::{Comm, Timing};
use super::device::Device;
use super::engine::AtenEngine;
use super::ffi::{self, Buffer, Kind, Place, Tensor};
use super::find;
use crate::checkpoint::model_settings;
use crate::comm::Groups;
use crate::comm::single_rank::SingleRank;
use crate::comm::topology::Kind as Members;
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

/// Largest deviations of bf16 from f32. That of the loss is the one of the recorded cases; the others are three times what
/// CPU tensors show over all families, `bounds_are_measured` in tests/aten.rs.
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

/// Bytes of an engine of one rank for each parameter: master weights, moments, a shard of gradients and two buffers with
/// their sums in 32 bit, and weights in bf16.
const BYTES: usize = 34;

fn differs(what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Loss, format!("self-check: {what}"))
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

/// The job's family with small dimensions: grouped heads, rotated parts of heads, ties and adapters as in the job.
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

/// One block and the head at the job's widths, with one short sequence. The token table is cut, and the feed-forward layer
/// where the block does not fit into `free` bytes; the remainders that kernels depend on stay.
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
struct Step {
    loss: f64,
    gradients: Vec<(String, Vec<f32>)>,
    moments: Vec<(String, Vec<f32>)>,
}

/// Trains an engine of one rank.
fn steps(config: &Config, device: Device, count: usize, fault: bool) -> Result<Vec<Step>> {
    let mut engine = engine_alone(config, device)?;
    if fault {
        // As if a kernel were wrong.
        let unit = engine.shards().iter().rposition(|shard| shard.unit.trained).unwrap_or(0);
        let mut values = engine.read_shard(unit, StateKind::Master)?.into_owned();
        values.iter_mut().step_by(7).for_each(|value| *value *= 1.5);
        engine.write_shard(unit, StateKind::Master, &values)?;
    }
    engine.set_document_starts(&documents(config));
    // With the usual epsilon the first step is the sign of each gradient, which rounding flips where it is almost 0.
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
        all.push(Step { loss, gradients, moments });
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
    bounds: Option<&Bounds>,
    fault: bool,
) -> Result<Deviation> {
    let mut reference = config.clone();
    reference.precision.compute = Format::F32;
    let expected = steps(&reference, Device::cpu(device.attention), count, false)?;
    let found = steps(config, device, count, fault)?;
    let mut worst = Deviation::default();
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let step = number + 1;
        let check = |name: &str, value: f64, bound: Option<f64>| match bound {
            Some(bound) if exceeds(value, bound) => Err(differs(format!(
                "{what}, step {step}: {name} deviates by {value:.2e}, expected at most {bound:.1e}"
            ))),
            _ => Ok(()),
        };
        let loss = (found.loss / expected.loss - 1.0).abs();
        check("the loss", loss, bounds.map(|b| b.loss))?;
        worst.loss = worst.loss.max(loss);
        for ((name, values), (_, expected)) in found.gradients.iter().zip(&expected.gradients) {
            let gradient = apart(values, expected);
            check(&format!("the gradient of `{name}`"), gradient, bounds.map(|b| b.gradient))?;
            worst.gradient = worst.gradient.max(gradient);
        }
        for ((name, values), (_, expected)) in found.moments.iter().zip(&expected.moments) {
            let moment = apart(values, expected);
            check(&format!("the first moment of `{name}`"), moment, bounds.map(|b| b.moment))?;
            worst.moment = worst.moment.max(moment);
        }
    }
    Ok(worst)
}

/// Measures the deviations of a device without bounds, for the tests that the bounds come from.
pub fn measure(config: &Config) -> Result<Deviation> {
    let device = Device::cpu(super::Attention::Flash);
    compare("tiny model", &tiny(config), device, STEPS, None, false)
}

/// Bandwidth of the collectives at the job's sizes, in bytes that a rank receives per second; none for groups of one rank.
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

/// Returns the bound of the numbers whose sum over a group is exact in a format, and the deviation to allow where a group
/// is too large for that.
fn exact_numbers(format: Kind, ranks: usize) -> (usize, f32) {
    match format {
        Kind::Bf16 if ranks <= 128 => (256 / ranks + 1, 0.0),
        // Each partial sum is rounded to 8 bits.
        Kind::Bf16 => (3, 0.05),
        Kind::F32 | Kind::F64 | Kind::I64 | Kind::I32 => (256, 0.0),
    }
}

/// Checks every collective at the size of the largest unit, and measures its bandwidth.
fn collectives(config: &Config, groups: &Groups, comm: &Comm, device: Device) -> Result<Bandwidth> {
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
    let verify = |what: &str, values: &[f32], allowed: f32, expected: &dyn Fn(usize) -> f32| {
        let wrong = |(place, value): &(usize, &f32)| {
            let expected = expected(*place);
            value.is_nan() || (**value - expected).abs() > allowed * expected
        };
        values.iter().enumerate().find(wrong).map_or(Ok(()), |(place, value)| {
            let (count, expected) = (values.len(), expected(place));
            Err(differs(format!(
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
fn timings(config: &Config, groups: Groups, comm: Comm, device: Device) -> Result<(Groups, Comm)> {
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
                    return Err(differs(format!(
                        "the {name} of step {} is {value} with {timing}, but {} when each collective is waited for: collectives and compute are not ordered",
                        step + 1,
                        expected[at]
                    )));
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
        config.mesh,
        config.precision,
        config.cluster
    ]);
    hash.update(parts.to_string());
    Ok(hex(&hash.finalize()))
}

/// Runs all checks. Every rank must call it. Returns the groups, and what was found.
pub(super) fn run(
    config: &Config,
    mut groups: Groups,
    comm: Comm,
    device: Device,
) -> Result<(Groups, Comm, Value)> {
    let began = Instant::now();
    let fault = fault_injection::is_wrong_kernel();
    let small = compare("tiny model", &tiny(config), device, STEPS, Some(&BF16), fault)?;
    // One rank of each host, on all its cores.
    let mut large = Deviation::default();
    let block = wide(config, comm.free_memory()?);
    if groups.world.rank().is_multiple_of(topology(config).per_host()) {
        large = compare("one block at the job's widths", &block, device, 1, Some(&BF16), false)?;
    }
    groups.world.barrier()?;
    let bandwidth = collectives(config, &groups, &comm, device)?;
    let mut slowest = |rate: Option<f64>| -> Result<Option<f64>> {
        let all = gather_from_ranks(&mut groups, rate.unwrap_or(f64::INFINITY))?;
        Ok(Some(least(&all)).filter(|rate| rate.is_finite()))
    };
    let (gather, reduce_scatter, all_reduce) =
        (slowest(bandwidth.gather)?, slowest(bandwidth.reduce_scatter)?, slowest(bandwidth.all_reduce)?);
    comm.release()?;
    let (groups, comm) = timings(config, groups, comm, device)?;
    let (major, minor, patch) = ffi::version()?;
    let found = json!({
        "seconds": began.elapsed().as_secs_f64(),
        "torch": format!("{major}.{minor}.{patch}"),
        "nccl": comm.version()?,
        "device": if device.place == Place::Cuda { "cuda" } else { "cpu" },
        "attention": format!("{:?}", device.attention).to_lowercase(),
        "tiny_model": {"loss": small.loss, "gradient": small.gradient, "moment": small.moment},
        "block": {"loss": large.loss, "gradient": large.gradient, "moment": large.moment,
            "intermediate_size": block.model.intermediate_size, "tokens": block.model.sequence_length},
        "instance": config.cluster.instance,
        "nodes": config.cluster.nodes,
        "shard_degree": config.mesh.shard_degree,
        "data_parallel_replicas": config.mesh.data_parallel_replicas,
        "gather_bytes_per_s": gather,
        "reduce_scatter_bytes_per_s": reduce_scatter,
        "all_reduce_bytes_per_s": all_reduce,
    });
    Ok((groups, comm, found))
}
