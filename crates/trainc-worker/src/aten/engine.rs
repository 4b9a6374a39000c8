//! Training state of one GPU rank: shards, gathered units, gradients. The order of its collectives is that of
//! `fsdp::schedule`.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::block::{Adapters, Pass, Saved, Weights};
use super::comm::Comm;
use super::device::Device;
use super::embedding_head::{self, Head, HeadGradients, Inputs};
use super::ffi::{self, Buffer, Kind, Pending, Tensor};
use crate::comm::Groups;
use crate::comm::topology::Kind as Members;
use crate::config::{Config, Format, Optimizer, Recompute};
use crate::exit::{Code, Failure};
use crate::fsdp::schedule::Operation;
use crate::fsdp::{self, Engine, MemoryParts, PassSums, Shard, StateKind};
use crate::model::adapter::Target;
use crate::model::embedding_head::matrix_offset;
use crate::model::init;
use crate::model::layout::Shape;

type Result<T> = std::result::Result<T, Failure>;

/// A block's input, and its activations unless they are recomputed.
type Kept = (Tensor, Option<Saved>);

/// Values of this rank's shard of one unit; moments and gradient only if it is trained.
struct Values {
    master: Tensor,
    trained: Option<Trained>,
}

struct Trained {
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    /// Sum of this step's gradients; none while it is being summed over replicas.
    gradient: Option<Buffer>,
    /// Whether it has values of this step.
    is_summed: bool,
}

/// Buffers of a unit's full gradient, and of this rank's part of its sum.
struct Sum {
    buffers: Option<(Buffer, Buffer)>,
    /// The same in the format in which they are sent, if it is not f32.
    sent: Option<(Buffer, Buffer)>,
    pending: Option<(Pending<(Buffer, Buffer)>, usize)>,
}

/// Vectors of all units in f32, when units are gathered in bf16: `fsdp::vectors` says why.
struct Vectors {
    values: Option<Buffer>,
    elements: usize,
    places: Vec<Vec<fsdp::VectorPlace>>,
}

/// Training state of one GPU rank.
pub struct AtenEngine {
    groups: Groups,
    pass: Pass,
    shards: Vec<Shard>,
    values: Vec<Values>,
    vectors: Option<Vectors>,
    targets: Vec<Target>,
    begins: Vec<u32>,
    degree: usize,
    rank: usize,
    prefetch: usize,
    reshard: bool,
    recompute: bool,
    live: Vec<Option<Buffer>>,
    pool: Vec<(usize, Buffer)>,
    order: VecDeque<usize>,
    begun: VecDeque<Pending<Buffer>>,
    /// Two for the units in turn, so that one is summed while the next is computed; the last is the tied
    /// embedding's.
    sums: Vec<Sum>,
    turn: usize,
    loss: Option<Tensor>,
    /// Last: its links wait for the stream before buffers are freed.
    comm: Comm,
}

fn bug(what: &str) -> Failure {
    Failure::new(Code::Bug, what)
}

fn kind(format: Format) -> Kind {
    match format {
        Format::F32 => Kind::F32,
        Format::Bf16 => Kind::Bf16,
    }
}

/// Returns the initial values of a shard, computed on all cores.
fn initial_values(shard: &Shard, seed: u64) -> Vec<f32> {
    /// Elements below which a thread is not worth its start.
    const LEAST: usize = 1 << 16;
    let mut values = vec![0.0f32; shard.len];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let each = shard.len.div_ceil(cores).max(LEAST);
    std::thread::scope(|scope| {
        for (number, part) in values.chunks_mut(each).enumerate() {
            scope.spawn(move || init::fill_initial(&shard.unit, seed, shard.start + number * each, part));
        }
    });
    values
}

impl AtenEngine {
    /// Creates an engine with fresh weights.
    pub(super) fn new(config: &Config, groups: Groups, device: Device, comm: Comm) -> Result<Self> {
        let shape = Shape::from_model(&config.model);
        let (rank, degree) = comm.shard;
        let compute = kind(config.precision.compute);
        let pass = Pass::new(device, &shape, config.batch.micro, compute)?;
        let shards = fsdp::shards(&shape, rank, degree);
        let mut values = Vec::new();
        for shard in &shards {
            let fresh = initial_values(shard, config.data.seed);
            let n = shard.len as i64;
            let trained = shard.unit.trained.then(|| -> Result<Trained> {
                Ok(Trained {
                    exp_avg: device.zeros(&[n], Kind::F32)?,
                    exp_avg_sq: device.zeros(&[n], Kind::F32)?,
                    gradient: Some(comm.buffer(shard.len, Kind::F32)?),
                    is_summed: false,
                })
            });
            let master = Tensor::upload(&fresh, &[n], device.place)?;
            values.push(Values { master, trained: trained.transpose()? });
        }
        let reduce = kind(config.precision.reduce);
        let sum = |elements: usize| -> Result<Sum> {
            let both = |kind| -> Result<(Buffer, Buffer)> {
                Ok((comm.buffer(elements * degree, kind)?, comm.buffer(elements, kind)?))
            };
            let sent = (reduce != Kind::F32).then(|| both(reduce)).transpose()?;
            Ok(Sum { buffers: Some(both(Kind::F32)?), sent, pending: None })
        };
        let tied = shape.tied && shape.adapter.is_none();
        // The tied embedding's gradient has a buffer of its own, since it is summed from the head to the
        // embedding.
        let in_turn = shards.iter().skip(usize::from(tied)).filter(|s| s.unit.trained);
        let largest = in_turn.map(|s| s.len).max().unwrap_or(0);
        let mut sums = vec![sum(largest)?, sum(largest)?];
        if tied {
            sums.push(sum(shards[0].len)?);
        }
        let vectors = if compute == Kind::F32 {
            None
        } else {
            let (places, elements) = fsdp::vector_places(shards.iter().map(|shard| &shard.unit));
            Some(Vectors { values: Some(comm.buffer(elements, Kind::F32)?), elements, places })
        };
        let targets = shape.adapter.as_ref().map(|lora| lora.unit(&shape, 0).1).unwrap_or_default();
        Ok(Self {
            live: shards.iter().map(|_| None).collect(),
            groups,
            pass,
            shards,
            values,
            vectors,
            targets,
            begins: Vec::new(),
            degree,
            rank,
            prefetch: config.memory.prefetch,
            reshard: config.memory.reshard_after_forward,
            recompute: config.memory.recompute == Recompute::Block,
            pool: Vec::new(),
            order: VecDeque::new(),
            begun: VecDeque::new(),
            sums,
            turn: 0,
            loss: None,
            comm,
        })
    }

    /// Returns the groups and the collectives.
    pub(super) fn into_parts(self) -> (Groups, Comm) {
        (self.groups, self.comm)
    }

    /// Returns the gradient of a trained shard, after [`Engine::reduce`].
    pub(super) fn read_gradient(&self, shard: usize) -> Result<Vec<f32>> {
        let trained = self.values[shard].trained.as_ref().and_then(|trained| trained.gradient.as_ref());
        trained.ok_or_else(|| bug("a frozen unit has no gradient"))?.read()
    }

    /// Returns the collectives since the last time; only in builds with debug assertions.
    pub fn take_calls(&self) -> Vec<(Members, Operation, usize)> {
        self.comm.take_calls()
    }

    fn is_in_place(&self) -> bool {
        self.degree == 1 && self.pass.kind == Kind::F32
    }

    fn layers(&self) -> usize {
        self.pass.shape.layers
    }

    /// Returns the unit of a block's adapters.
    fn adapter(&self, layer: usize) -> Option<usize> {
        self.pass.shape.adapter.as_ref().map(|_| self.layers() + 2 + layer)
    }

    /// Returns the units of a block in the order in which they are gathered.
    fn block_units(&self, layer: usize) -> impl Iterator<Item = usize> + use<> {
        std::iter::once(1 + layer).chain(self.adapter(layer))
    }

    /// Starts gathering a unit: this rank's shard is converted into its place of the full unit.
    fn begin_gather(&mut self, unit: usize) -> Result<()> {
        let n = self.shards[unit].len;
        let elements = n * self.degree;
        let at = self.pool.iter().position(|(size, _)| *size == elements);
        let full = match at {
            Some(at) => self.pool.swap_remove(at).1,
            None => self.comm.buffer(elements, self.pass.kind)?,
        };
        full.view(&[n as i64], self.rank * n)?.copy(&self.values[unit].master)?;
        self.begun.push_back(self.comm.begin_gather(full, n)?);
        Ok(())
    }

    /// Gathers the next unit of the order and prefetches those that follow.
    fn gather(&mut self, unit: usize) -> Result<()> {
        if self.is_in_place() || self.live[unit].is_some() {
            return Ok(());
        }
        while self.begun.len() < (1 + self.prefetch).min(self.order.len()) {
            self.begin_gather(self.order[self.begun.len()])?;
        }
        if self.order.pop_front() != Some(unit) {
            return Err(bug("units are gathered in their order"));
        }
        let pending = self.begun.pop_front().ok_or_else(|| bug("a gather was not started"))?;
        self.live[unit] = Some(self.comm.end_gather(pending, self.shards[unit].len)?);
        Ok(())
    }

    fn gather_block(&mut self, layer: usize) -> Result<()> {
        self.block_units(layer).try_for_each(|unit| self.gather(unit))
    }

    fn free(&mut self, unit: usize) -> Result<()> {
        if let Some(full) = self.live[unit].take() {
            self.comm.spoil(&full)?;
            self.pool.push((self.shards[unit].len * self.degree, full));
        }
        Ok(())
    }

    fn free_block(&mut self, layer: usize) -> Result<()> {
        self.block_units(layer).try_for_each(|unit| self.free(unit))
    }

    /// Returns a unit's full parameters: gathered, or the master weights themselves.
    fn full(&self, unit: usize) -> &Tensor {
        self.live[unit].as_deref().unwrap_or(&self.values[unit].master)
    }

    fn weights(&self, unit: usize) -> Weights<'_> {
        let vectors = self.vectors.as_ref();
        let vectors = vectors.and_then(|v| Some((&**v.values.as_ref()?, v.places.get(unit)?.as_slice())));
        Weights { full: self.full(unit), vectors }
    }

    fn adapters(&self, layer: usize) -> Option<Adapters<'_>> {
        let (lora, unit) = (self.pass.shape.adapter.as_ref()?, self.adapter(layer)?);
        Some(Adapters { lora, targets: &self.targets, full: self.full(unit) })
    }

    fn head(&self) -> Result<Head<'_>> {
        let (s, last) = (&self.pass.shape, self.layers() + 1);
        let (unit, at) = if s.tied { (0, 0) } else { (last, matrix_offset(s)) };
        Ok(Head { weights: self.weights(last), matrix: self.weights(unit).matrix(at, s.vocab, s.hidden)? })
    }

    /// Gathers all vectors in f32, and sets the order in which units will be gathered.
    fn begin_pass(&mut self) -> Result<()> {
        if let Some(vectors) = &mut self.vectors {
            let all = vectors.values.take().ok_or_else(|| bug("the vectors are being gathered"))?;
            let n = vectors.elements;
            self.pass.device.zero(&all.view(&[n as i64], 0)?)?;
            for ((shard, values), places) in self.shards.iter().zip(&self.values).zip(&vectors.places) {
                for (range, at) in places {
                    let (from, to) = (range.start.max(shard.start), range.end.min(shard.start + shard.len));
                    if from < to {
                        let sizes = [(to - from) as i64];
                        let own = values.master.view(&sizes, from - shard.start)?;
                        all.view(&sizes, at + from - range.start)?.copy(&own)?;
                    }
                }
            }
            let pending = self.comm.all_reduce(Members::Shard, all, n)?;
            vectors.values = Some(self.comm.take(pending)?);
        }
        let layers = self.layers();
        let blocks = (0..layers).flat_map(|layer| self.block_units(layer));
        self.order = std::iter::once(0).chain(blocks).chain([layers + 1]).collect();
        Ok(())
    }

    /// Sets the documents of the next pass.
    fn set_documents(&mut self) -> Result<()> {
        let sequence = self.pass.shape.heads.sequence;
        self.pass.documents = if self.begins.is_empty() {
            None
        } else {
            Some(self.pass.device.documents(&self.begins, sequence)?)
        };
        Ok(())
    }

    /// Runs the embedding and the blocks. Returns the last block's output, and for each block its input and,
    /// unless they are recomputed, its activations; those of the last block are always kept.
    fn forward(&mut self, inputs: &Inputs, keep: bool) -> Result<(Tensor, Vec<Kept>)> {
        self.set_documents()?;
        self.gather(0)?;
        let mut x = embedding_head::embed(&self.pass, &self.weights(0), inputs)?;
        if !self.pass.shape.tied {
            self.free(0)?;
        }
        let mut kept = Vec::new();
        let layers = self.layers();
        for layer in 0..layers {
            self.gather_block(layer)?;
            let (out, saved) = self.pass.forward(&self.weights(1 + layer), self.adapters(layer), &x)?;
            let input = std::mem::replace(&mut x, out);
            if keep {
                let again = self.recompute && layer + 1 < layers;
                kept.push((input, (!again).then_some(saved)));
            }
            if !keep || (self.reshard && layer + 1 < layers) {
                self.free_block(layer)?;
            }
        }
        self.gather(layers + 1)?;
        Ok((x, kept))
    }

    fn free_ends(&mut self) -> Result<()> {
        self.free(self.layers() + 1)?;
        self.free(0)
    }

    /// Returns buffers that are large enough for a trained unit.
    fn sum_of(&self, unit: usize) -> usize {
        if unit == 0 && self.sums.len() > 2 { 2 } else { 0 }
    }

    /// Returns the next gradient buffer in turn: what it held before is in the shards.
    fn next_sum(&mut self) -> Result<usize> {
        let at = self.turn % 2;
        self.turn += 1;
        self.settle(at)?;
        Ok(at)
    }

    fn gradient(&self, sum: usize) -> Result<&Tensor> {
        let buffers = self.sums[sum].buffers.as_ref();
        buffers.map(|(full, _)| &**full).ok_or_else(|| bug("a gradient is being summed"))
    }

    /// Completes a sum: adds this rank's part to its shard.
    fn settle(&mut self, sum: usize) -> Result<()> {
        let Some((pending, unit)) = self.sums[sum].pending.take() else { return Ok(()) };
        let (full, part) = self.comm.take(pending)?;
        let n = [self.shards[unit].len as i64];
        let trained =
            self.values[unit].trained.as_mut().ok_or_else(|| bug("a frozen unit has a gradient"))?;
        let shard = trained.gradient.as_ref().ok_or_else(|| bug("a gradient is being summed"))?;
        let part_view = part.view(&n, 0)?;
        if trained.is_summed {
            shard.copy(&self.pass.device.add(shard, &part_view, 1.0)?)?;
        } else {
            shard.copy(&part_view)?;
            trained.is_summed = true;
        }
        let slot = &mut self.sums[sum];
        if slot.buffers.is_none() {
            slot.buffers = Some((full, part));
        } else {
            slot.sent = Some((full, part));
        }
        Ok(())
    }

    /// Starts summing a unit's full gradient over the shard group.
    fn start_sum(&mut self, sum: usize, unit: usize) -> Result<()> {
        let (n, len) = (self.shards[unit].len, self.shards[unit].unit.len);
        let padding = n * self.degree - len;
        let slot = &mut self.sums[sum];
        let (full, part) = slot.buffers.take().ok_or_else(|| bug("a gradient is being summed"))?;
        if padding > 0 {
            self.pass.device.zero(&full.view(&[padding as i64], len)?)?;
        }
        let pending = match slot.sent.take() {
            None => self.comm.reduce_scatter(full, part, n)?,
            Some((sent, received)) => {
                let sizes = [(n * self.degree) as i64];
                sent.view(&sizes, 0)?.copy(&full.view(&sizes, 0)?)?;
                slot.buffers = Some((full, part));
                self.comm.reduce_scatter(sent, received, n)?
            }
        };
        slot.pending = Some((pending, unit));
        Ok(())
    }

    fn add_loss(&mut self, loss: Tensor) -> Result<()> {
        self.loss = Some(match self.loss.take() {
            Some(sum) => self.pass.device.add(&sum, &loss, 1.0)?,
            None => loss,
        });
        Ok(())
    }

    fn trained(&mut self) -> impl Iterator<Item = &mut Trained> {
        self.values.iter_mut().filter_map(|values| values.trained.as_mut())
    }
}

impl Engine for AtenEngine {
    fn groups(&mut self) -> &mut Groups {
        &mut self.groups
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn rows(&self) -> usize {
        self.pass.rows as usize
    }

    fn set_document_starts(&mut self, begins: &[u32]) {
        self.begins.clear();
        self.begins.extend(begins);
    }

    fn micro_step(&mut self, tokens: &[u32], labels: &[u32], scale: f64) -> Result<()> {
        let (layers, tied) = (self.layers(), self.pass.shape.tied);
        let last = layers + 1;
        self.begin_pass()?;
        let again = if self.reshard { layers - 1 } else { 0 };
        let again: Vec<usize> = (0..again).rev().flat_map(|layer| self.block_units(layer)).collect();
        self.order.extend(again);
        let inputs = Inputs::upload(&self.pass, tokens, &self.begins)?;
        let labels = embedding_head::upload_labels(self.pass.device, labels)?;
        let scale = Tensor::upload(&[scale as f32], &[], self.pass.device.place)?;
        let (x, mut kept) = self.forward(&inputs, true)?;
        let trains_head = self.shards[last].unit.trained;
        let sum = if trains_head { Some(self.next_sum()?) } else { None };
        let (vocab, hidden) = (self.pass.shape.vocab as i64, self.pass.shape.hidden as i64);
        let gradients = match sum {
            None => HeadGradients { norm: None, matrix: None },
            Some(sum) => {
                if tied {
                    self.settle(2)?;
                }
                let full = self.gradient(sum)?;
                let at = matrix_offset(&self.pass.shape);
                let matrix = if tied {
                    self.gradient(2)?.view(&[vocab, hidden], 0)?
                } else {
                    full.view(&[vocab, hidden], at)?
                };
                HeadGradients { norm: Some(full.alias()?), matrix: Some(matrix) }
            }
        };
        let (loss, mut d) = self.head()?.loss(&self.pass, &x, &labels, &scale, &gradients)?;
        drop((x, gradients));
        self.add_loss(loss)?;
        self.free_ends()?;
        if let Some(sum) = sum {
            self.start_sum(sum, last)?;
        }
        for layer in (0..layers).rev() {
            self.gather_block(layer)?;
            let (x, saved) = kept.pop().ok_or_else(|| bug("a block's input is missing"))?;
            let saved = match saved {
                Some(saved) => saved,
                None => self.pass.forward(&self.weights(1 + layer), self.adapters(layer), &x)?.1,
            };
            let sum = self.next_sum()?;
            let gradient = self.gradient(sum)?;
            let (weights, adapters) = (self.weights(1 + layer), self.adapters(layer));
            d = self.pass.backward(&weights, adapters, &x, &saved, &d, gradient)?;
            drop((x, saved));
            if let Some(unit) = self.adapter(layer) {
                self.start_sum(sum, unit)?;
                self.free_block(layer)?;
            } else {
                self.free_block(layer)?;
                self.start_sum(sum, 1 + layer)?;
            }
        }
        if !self.shards[0].unit.trained {
            return Ok(());
        }
        let sum = if tied { 2 } else { self.next_sum()? };
        embedding_head::embed_backward(&self.pass, &inputs, &d, self.gradient(sum)?, tied)?;
        self.start_sum(sum, 0)
    }

    fn evaluate(&mut self, tokens: &[u32], labels: &[u32]) -> Result<f64> {
        self.begin_pass()?;
        let inputs = Inputs::upload(&self.pass, tokens, &self.begins)?;
        let labels = embedding_head::upload_labels(self.pass.device, labels)?;
        let (x, _) = self.forward(&inputs, false)?;
        let sum = self.head()?.evaluate(&self.pass, &x, &labels)?;
        self.free_ends()?;
        sum.read::<f64>()?.first().copied().ok_or_else(|| bug("a loss has no value"))
    }

    fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        self.begin_pass()?;
        let inputs = Inputs::upload(&self.pass, tokens, &self.begins)?;
        let (x, _) = self.forward(&inputs, false)?;
        let logits = self.head()?.logits(&self.pass, &x)?;
        self.free_ends()?;
        Ok(logits)
    }

    fn reduce(&mut self) -> Result<PassSums> {
        for sum in 0..self.sums.len() {
            self.settle(sum)?;
        }
        let device = self.pass.device;
        let mut pending = Vec::new();
        for unit in 0..self.shards.len() {
            let (n, sum) = (self.shards[unit].len, self.sum_of(unit));
            let Some(trained) = &mut self.values[unit].trained else { continue };
            let gradient = trained.gradient.take().ok_or_else(|| bug("a gradient is being summed"))?;
            if !trained.is_summed {
                device.zero(&gradient)?;
                trained.is_summed = true;
            }
            let sent = &mut self.sums[sum].sent;
            match sent.take_if(|_| self.comm.replicas > 1) {
                None => pending.push((unit, self.comm.all_reduce(Members::Replica, gradient, n)?)),
                // The buffers of the shard group's sums are free now.
                Some((full, part)) => {
                    part.view(&[n as i64], 0)?.copy(&gradient)?;
                    let waiting = self.comm.all_reduce(Members::Replica, part, n)?;
                    let part = self.comm.take(waiting)?;
                    gradient.copy(&part.view(&[n as i64], 0)?)?;
                    *sent = Some((full, part));
                    pending.push((unit, Pending::done(gradient)));
                }
            }
        }
        let mut squares = device.zeros(&[], Kind::F64)?;
        for (unit, waiting) in pending {
            let gradient = self.comm.take(waiting)?;
            squares = device.add(&squares, &device.sum_of_squares(&gradient, self.shards[unit].len)?, 1.0)?;
            if let Some(trained) = &mut self.values[unit].trained {
                trained.gradient = Some(gradient);
            }
        }
        let first =
            |tensor: Tensor| -> Result<f64> { Ok(tensor.read::<f64>()?.first().copied().unwrap_or(0.0)) };
        let loss = self.loss.take().map(first).transpose()?.unwrap_or(0.0);
        let squares = first(squares)?;
        let squared_norm = if self.groups.replica.rank() == 0 { squares } else { 0.0 };
        Ok(PassSums { loss, squared_norm })
    }

    fn update(&mut self, optimizer: &Optimizer, step: usize, rate: f64, factor: f64) -> Result<()> {
        let device = self.pass.device;
        let count = Tensor::upload(&[(step + 1) as f32], &[], device.place)?;
        let unscale = Tensor::upload(&[(1.0 / factor) as f32], &[], device.place)?;
        for decay in [true, false] {
            let mut parts: [Vec<Tensor>; 4] = Default::default();
            for (shard, values) in self.shards.iter().zip(&self.values) {
                let Some(trained) = &values.trained else { continue };
                let gradient = trained.gradient.as_ref().ok_or_else(|| bug("a gradient is being summed"))?;
                for tensor in shard.unit.tensors.iter().filter(|tensor| tensor.decay == decay) {
                    let range = tensor.range();
                    let end = shard.start + shard.len;
                    let (from, to) = (range.start.max(shard.start), range.end.min(end));
                    if from >= to {
                        continue;
                    }
                    let all = [&values.master, &**gradient, &trained.exp_avg, &trained.exp_avg_sq];
                    for (part, all) in parts.iter_mut().zip(all) {
                        part.push(all.view(&[(to - from) as i64], from - shard.start)?);
                    }
                }
            }
            let lists = parts.each_ref().map(|part| part.iter().collect::<Vec<&Tensor>>());
            if !lists[0].is_empty() {
                let lists = lists.each_ref().map(Vec::as_slice);
                device.adamw(optimizer, rate, decay, &count, &unscale, lists)?;
            }
        }
        self.trained().for_each(|trained| trained.is_summed = false);
        Ok(())
    }

    fn clear_gradients(&mut self) -> Result<()> {
        for sum in 0..self.sums.len() {
            self.settle(sum)?;
        }
        self.trained().for_each(|trained| trained.is_summed = false);
        self.loss = None;
        Ok(())
    }

    fn read_shard(&self, shard: usize, state: StateKind) -> Result<Cow<'_, [f32]>> {
        Ok(Cow::Owned(self.state(shard, state)?.read()?))
    }

    fn copy_shard(&self, shard: usize, state: StateKind, to: &mut [f32]) -> Result<()> {
        self.state(shard, state)?.read_into(to)
    }

    #[expect(clippy::mut_mut, reason = "the memory itself is replaced")]
    fn pin(&self, memory: &mut &'static mut [f32]) {
        self.comm.pin(memory);
    }

    fn write_shard(&mut self, shard: usize, state: StateKind, values: &[f32]) -> Result<()> {
        self.state(shard, state)?.write(values)
    }

    fn gather_master_weights(&mut self, unit: usize) -> Result<Vec<f32>> {
        let sum = self.sum_of(unit);
        self.settle(sum)?;
        let (n, len) = (self.shards[unit].len, self.shards[unit].unit.len);
        let (full, part) = self.sums[sum].buffers.take().ok_or_else(|| bug("a gradient is being summed"))?;
        full.view(&[n as i64], self.rank * n)?.copy(&self.values[unit].master)?;
        let full = self.comm.end_gather(self.comm.begin_gather(full, n)?, n)?;
        let values = full.view(&[len as i64], 0)?.read()?;
        self.sums[sum].buffers = Some((full, part));
        Ok(values)
    }

    fn peak_memory(&self) -> u64 {
        ffi::allocated().1 as u64
    }

    fn allocated(&self) -> MemoryParts {
        let shards: usize = self.shards.iter().map(|s| s.len).sum();
        let trained: usize = self.shards.iter().filter(|s| s.unit.trained).map(|s| s.len).sum();
        let mut parts = MemoryParts {
            parameters: 4 * shards,
            gradients: 4 * trained,
            optimizer: 8 * trained,
            activations: 0,
            gathered: self.gathered_bytes(),
            logits: 0,
            buffers: 0,
        };
        // Activations and logits are never alive at the same time: the rest of the peak.
        parts.activations = ffi::allocated().1.saturating_sub(parts.total());
        parts
    }
}

impl AtenEngine {
    /// Returns the bytes of gathered units, full gradients and vectors.
    fn gathered_bytes(&self) -> usize {
        let live = self.shards.iter().zip(&self.live).filter(|(_, live)| live.is_some());
        let live = live.map(|(shard, _)| shard.len * self.degree);
        let units: usize = self.pool.iter().map(|(size, _)| *size).chain(live).sum();
        let sum = |sum: &Sum| {
            let bytes = |pair: &Option<(Buffer, Buffer)>| {
                pair.as_ref().map_or(0, |(full, part)| full.bytes() + part.bytes())
            };
            bytes(&sum.buffers) + bytes(&sum.sent)
        };
        let vectors = self.vectors.as_ref().map_or(0, |vectors| 4 * vectors.elements);
        units * self.pass.kind.bytes() + self.sums.iter().map(sum).sum::<usize>() + vectors
    }

    fn state(&self, shard: usize, state: StateKind) -> Result<&Tensor> {
        let values = &self.values[shard];
        let trained = || values.trained.as_ref().ok_or_else(|| bug("a frozen unit has no moments"));
        Ok(match state {
            StateKind::Master => &values.master,
            StateKind::ExpAvg => &trained()?.exp_avg,
            StateKind::ExpAvgSq => &trained()?.exp_avg_sq,
        })
    }
}
