//! Fully sharded data parallelism: each rank holds a shard of every unit, and a unit's full parameters exist only
//! around their use. Micro-batches in; sums of the loss, gradient shards and updated shards out.

mod memory_parts;
pub mod schedule;
mod vectors;

use std::collections::VecDeque;

use crate::comm::shm::Plan;
use crate::comm::{Groups, Topology, Wire};
use crate::config::{Config, Format, Recompute};
use crate::exit::Failure;
use crate::kernels::rows;
use crate::model::adapter::Target;
use crate::model::block::{self, Pass, SavedActivations, Scratch};
use crate::model::embedding_head::{self, HeadScratch};
use crate::model::gradients::{Gradients, Workspace};
use crate::model::init;
use crate::model::layout::{Shape, Unit};
use crate::optim;

use vectors::Vectors;

pub use memory_parts::MemoryParts;

/// Alignment of shards in elements.
const ALIGN: usize = 16;

/// Returns the elements of one shard of a unit of `len` elements.
pub fn shard_len(len: usize, degree: usize) -> usize {
    len.div_ceil(degree).next_multiple_of(ALIGN)
}

/// This rank's shard of one unit, padded at the end with elements that stay 0.
#[derive(Debug)]
pub struct Shard {
    /// Unit that is sharded.
    pub unit: Unit,
    /// Index of its first element in the unit.
    pub start: usize,
    /// Master weights.
    pub master: Vec<f32>,
    /// AdamW's first moment.
    pub exp_avg: Vec<f32>,
    /// AdamW's second moment.
    pub exp_avg_sq: Vec<f32>,
    /// Sum of this step's gradients.
    pub grad: Vec<f32>,
}

/// Training state of one rank.
pub struct Engine {
    /// In order of use: embed, blocks, head.
    pub shards: Vec<Shard>,
    /// Communication groups.
    pub groups: Groups,
    pass: Pass<f32>,
    degree: usize,
    wire: Wire,
    reduce: Wire,
    prefetch: usize,
    reshard: bool,
    recompute: bool,
    live: Vec<Option<Vec<f32>>>,
    pool: Vec<Vec<f32>>,
    order: VecDeque<usize>,
    begun: usize,
    gradient: Vec<f32>,
    embed_gradient: Vec<f32>,
    saved: Vec<SavedActivations<f32>>,
    inputs: Vec<Vec<f32>>,
    scratch: Scratch<f32>,
    head: HeadScratch<f32>,
    x: Vec<f32>,
    d: Vec<f32>,
    adapter_state: Option<AdapterState>,
    /// Only if the matrices are gathered in bf16.
    vectors: Option<Vectors>,
}

/// State for training the adapters of a block.
struct AdapterState {
    targets: Vec<Target>,
    gradient: Vec<f32>,
    room: Workspace<f32>,
}

/// Returns the layout of the shared memory for a config.
pub fn shared_memory_plan(config: &Config) -> Plan {
    let shards = config.mesh.shard_degree;
    let units = Shape::from_model(&config.model).units();
    Plan {
        topology: topology(config),
        largest_shard: units.iter().map(|u| shard_len(u.len, shards)).max().unwrap_or(0),
        prefetch: config.memory.prefetch,
        host: None,
    }
}

/// Returns the ranks and hosts of a config.
pub fn topology(config: &Config) -> Topology {
    Topology {
        shards: config.mesh.shard_degree,
        replicas: config.mesh.data_parallel_replicas,
        hosts: config.cluster.nodes,
    }
}

fn wire(format: Format) -> Wire {
    match format {
        Format::F32 => Wire::F32,
        Format::Bf16 => Wire::Bf16,
    }
}

impl Engine {
    /// Creates an engine with fresh weights.
    pub fn new(config: &Config, groups: Groups, threads: usize) -> Self {
        let shape = Shape::from_model(&config.model);
        let degree = config.mesh.shard_degree;
        let bf16 = config.precision.compute == Format::Bf16;
        let pass = Pass::new(&shape, config.batch.micro, threads, bf16);
        let me = groups.shard.rank();
        let shards: Vec<Shard> = shape
            .units()
            .into_iter()
            .map(|unit| {
                let n = shard_len(unit.len, degree);
                let zeros = || vec![0.0f32; if unit.trained { n } else { 0 }];
                let mut master = vec![0.0f32; n];
                init::fill_initial(&unit, config.data.seed, me * n, &mut master);
                Shard { start: me * n, master, exp_avg: zeros(), exp_avg_sq: zeros(), grad: zeros(), unit }
            })
            .collect();
        let recompute = config.memory.recompute == Recompute::Block;
        // Frozen units have no gradient; adapters have a separate one.
        let whole = shards.iter().take(shape.layers + 2).filter(|s| s.unit.trained);
        let largest = whole.map(|s| s.master.len() * degree).max().unwrap_or(0);
        let trains_embedding = shape.tied && shape.adapter.is_none();
        let width = pass.rows * shape.hidden;
        Self {
            live: shards.iter().map(|_| None).collect(),
            pool: Vec::new(),
            order: VecDeque::new(),
            begun: 0,
            gradient: vec![0.0; largest],
            embed_gradient: vec![0.0; if trains_embedding { shards[0].master.len() * degree } else { 0 }],
            saved: (0..if recompute { 1 } else { shape.layers })
                .map(|_| SavedActivations::new(&pass))
                .collect(),
            inputs: if recompute { vec![vec![0.0; width]; shape.layers] } else { Vec::new() },
            scratch: Scratch::new(&pass),
            head: HeadScratch::new(&pass),
            x: vec![0.0; width],
            d: vec![0.0; width],
            adapter_state: shape.adapter.as_ref().zip(shards.get(shape.layers + 2)).map(|(lora, adapter)| {
                AdapterState {
                    targets: lora.unit(&shape, 0).1,
                    gradient: vec![0.0; adapter.master.len() * degree],
                    room: Workspace::new(pass.rows, shape.hidden, lora.rank),
                }
            }),
            vectors: bf16.then(|| Vectors::new(shards.iter().map(|shard| &shard.unit))),
            shards,
            groups,
            degree,
            wire: wire(config.precision.compute),
            reduce: wire(config.precision.reduce),
            prefetch: config.memory.prefetch,
            reshard: config.memory.reshard_after_forward,
            recompute,
            pass,
        }
    }

    /// Returns the rows of a micro-batch.
    pub fn rows(&self) -> usize {
        self.pass.rows
    }

    /// Sets the start of each row's document in its sequence for the following passes; empty if documents are joined.
    pub fn set_document_starts(&mut self, begins: &[u32]) {
        self.pass.begins.clear();
        self.pass.begins.extend(begins);
    }

    fn is_in_place(&self) -> bool {
        self.degree == 1 && self.wire == Wire::F32
    }

    /// Sets the order in which units will be gathered.
    fn set_gather_order(&mut self, order: impl IntoIterator<Item = usize>) {
        self.order = order.into_iter().collect();
        self.begun = 0;
    }

    /// Gathers the next unit of the order and prefetches those that follow.
    fn gather(&mut self, unit: usize) -> Result<(), Failure> {
        if self.is_in_place() || self.live[unit].is_some() {
            return Ok(());
        }
        while self.begun < (1 + self.prefetch).min(self.order.len()) {
            let next = self.order[self.begun];
            self.groups.shard.begin_gather(&self.shards[next].master, self.wire)?;
            self.begun += 1;
        }
        assert_eq!(self.order.pop_front(), Some(unit), "units are gathered in their order");
        self.begun -= 1;
        let elements = self.shards[unit].master.len() * self.degree;
        // Buffers of this size are reused without a new allocation.
        let at = self.pool.iter().position(|b| b.capacity() == elements);
        let mut full = at.map_or_else(|| Vec::with_capacity(elements), |at| self.pool.swap_remove(at));
        full.resize(elements, 0.0);
        self.groups.shard.end_gather(&mut full, self.wire)?;
        if let Some(vectors) = &self.vectors {
            vectors.copy_into_unit(unit, &mut full);
        }
        self.live[unit] = Some(full);
        Ok(())
    }

    /// Returns the unit of a block's adapters.
    fn adapter(&self, layer: usize) -> Option<usize> {
        self.pass.shape.adapter.as_ref().map(|_| self.pass.shape.layers + 2 + layer)
    }

    /// Returns the units of a block in the order in which they are gathered.
    fn block_units(&self, layer: usize) -> impl Iterator<Item = usize> + use<> {
        std::iter::once(1 + layer).chain(self.adapter(layer))
    }

    /// Gathers a block and adds its adapters.
    fn gather_block(&mut self, layer: usize) -> Result<(), Failure> {
        let Some(adapter) = self.adapter(layer) else { return self.gather(1 + layer) };
        if self.live[1 + layer].is_some() {
            return Ok(());
        }
        self.gather(1 + layer)?;
        self.gather(adapter)?;
        let unit = 1 + layer;
        let mut full = self.live[unit].take().unwrap_or_else(|| {
            // The master weights must not change.
            let master = &self.shards[unit].master;
            let at = self.pool.iter().position(|b| b.capacity() == master.len());
            let mut full =
                at.map_or_else(|| Vec::with_capacity(master.len()), |at| self.pool.swap_remove(at));
            full.clear();
            full.extend(master);
            full
        });
        if let (Some(lora), Some(adapter_state)) = (&self.pass.shape.adapter, &self.adapter_state) {
            let p = unit_weights(&self.live, &self.shards, adapter);
            lora.add(&adapter_state.targets, p, &mut full, self.pass.threads);
        }
        self.live[unit] = Some(full);
        Ok(())
    }

    fn free_block(&mut self, layer: usize) {
        self.free(1 + layer);
        if let Some(adapter) = self.adapter(layer) {
            self.free(adapter);
        }
    }

    fn free(&mut self, unit: usize) {
        if let Some(full) = self.live[unit].take() {
            self.pool.push(full);
        }
    }

    /// Runs the embedding and the blocks; leaves the last block's output in `x`.
    fn forward(&mut self, tokens: &[u32], keep: bool) -> Result<(), Failure> {
        let (layers, tied) = (self.pass.shape.layers, self.pass.shape.tied);
        self.gather(0)?;
        embedding_head::embed_forward(
            &self.pass,
            unit_weights(&self.live, &self.shards, 0),
            tokens,
            &mut self.x,
        );
        if !tied {
            self.free(0);
        }
        for layer in 0..layers {
            self.gather_block(layer)?;
            let p = unit_weights(&self.live, &self.shards, 1 + layer);
            let slot = if keep && !self.recompute { layer } else { 0 };
            if keep && self.recompute {
                self.inputs[layer].copy_from_slice(&self.x);
            }
            let saved = &mut self.saved[slot];
            saved.x.copy_from_slice(&self.x);
            block::forward(&self.pass, p, saved, &mut self.scratch, &mut self.x);
            if !keep || (self.reshard && layer + 1 < layers) {
                self.free_block(layer);
            }
        }
        self.gather(layers + 1)
    }

    fn begin_forward(&mut self) -> Result<(), Failure> {
        if let Some(vectors) = &mut self.vectors {
            vectors.gather_vectors(&self.shards, self.groups.shard.as_mut())?;
        }
        let layers = self.pass.shape.layers;
        let blocks: Vec<usize> = (0..layers).flat_map(|layer| self.block_units(layer)).collect();
        self.set_gather_order(std::iter::once(0).chain(blocks).chain([layers + 1]));
        Ok(())
    }

    /// Returns the logits of a micro-batch, row by row.
    pub fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Failure> {
        let layers = self.pass.shape.layers;
        self.begin_forward()?;
        self.forward(tokens, false)?;
        let last = unit_weights(&self.live, &self.shards, layers + 1);
        let matrix = head_matrix(&self.pass.shape, &self.live, &self.shards);
        let logits = embedding_head::logits(&self.pass, last, matrix, &self.x, &mut self.head);
        self.free(layers + 1);
        self.free(0);
        Ok(logits)
    }

    /// Returns the sum of the loss over a micro-batch, without gradients.
    pub fn evaluate(&mut self, tokens: &[u32], labels: &[u32]) -> Result<f64, Failure> {
        let layers = self.pass.shape.layers;
        self.begin_forward()?;
        self.forward(tokens, false)?;
        let last = unit_weights(&self.live, &self.shards, layers + 1);
        let matrix = head_matrix(&self.pass.shape, &self.live, &self.shards);
        let sum = embedding_head::evaluate(&self.pass, last, matrix, &self.x, labels, &mut self.head);
        self.free(layers + 1);
        self.free(0);
        Ok(sum)
    }

    /// Runs the forward and backward pass of a micro-batch: returns the sum of the loss and adds the gradients of
    /// `scale` times it to the shards.
    pub fn micro_step(&mut self, tokens: &[u32], labels: &[u32], scale: f64) -> Result<f64, Failure> {
        let (layers, tied) = (self.pass.shape.layers, self.pass.shape.tied);
        let last = layers + 1;
        let again = if self.reshard { layers - 1 } else { 0 };
        self.begin_forward()?;
        let again: Vec<usize> = (0..again).rev().flat_map(|layer| self.block_units(layer)).collect();
        self.order.extend(again);
        self.forward(tokens, true)?;
        // Head.
        let n = self.shards[last].master.len() * self.degree;
        let table = self.pass.shape.vocab * self.pass.shape.hidden;
        let at = embedding_head::matrix_offset(&self.pass.shape);
        let (gnorm, gmatrix) = if let Some(adapter_state) = &mut self.adapter_state {
            (&mut adapter_state.room.norm_buffer()[..at], None)
        } else {
            self.gradient[..n].fill(0.0);
            let (gnorm, rest) = self.gradient.split_at_mut(at);
            if tied {
                self.embed_gradient.fill(0.0);
                (gnorm, Some(&mut self.embed_gradient[..table]))
            } else {
                (gnorm, Some(&mut rest[..table]))
            }
        };
        let sum = embedding_head::loss(
            &self.pass,
            unit_weights(&self.live, &self.shards, last),
            head_matrix(&self.pass.shape, &self.live, &self.shards),
            &self.x,
            labels,
            scale,
            &mut self.head,
            &mut self.d,
            gnorm,
            gmatrix,
        );
        self.free(last);
        if tied {
            self.free(0);
        }
        self.reduce(last)?;
        for layer in (0..layers).rev() {
            self.gather_block(layer)?;
            let p = unit_weights(&self.live, &self.shards, 1 + layer);
            let slot = if self.recompute { 0 } else { layer };
            let saved = &mut self.saved[slot];
            if self.recompute && layer + 1 < layers {
                saved.x.copy_from_slice(&self.inputs[layer]);
                block::forward(&self.pass, p, saved, &mut self.scratch, &mut self.x);
            }
            let adapter_state = self.adapter_state.as_mut().zip(self.pass.shape.adapter.as_ref());
            let gradients = if let Some((AdapterState { targets, gradient, room }, lora)) = adapter_state {
                let p = unit_weights(&self.live, &self.shards, layers + 2 + layer);
                Gradients::Adapters { lora, targets, p, g: gradient, room }
            } else {
                let len = self.shards[1 + layer].unit.len;
                let n = self.shards[1 + layer].master.len() * self.degree;
                let (block, padding) = self.gradient[..n].split_at_mut(len);
                padding.fill(0.0);
                Gradients::All(block)
            };
            block::backward(&self.pass, p, saved, &mut self.scratch, &mut self.d, gradients);
            if let Some(adapter_state) = &self.adapter_state {
                let shard = &mut self.shards[layers + 2 + layer].grad;
                self.groups.shard.reduce_scatter(&adapter_state.gradient, shard, self.reduce)?;
            }
            self.free_block(layer);
            self.reduce(1 + layer)?;
        }
        if !self.shards[0].unit.trained {
            return Ok(sum);
        }
        let n = self.shards[0].master.len() * self.degree;
        let g = if tied {
            &mut self.embed_gradient
        } else {
            self.gradient[..n].fill(0.0);
            &mut self.gradient
        };
        embedding_head::embed_backward(&self.pass, tokens, &self.d, g);
        self.groups.shard.reduce_scatter(&g[..n], &mut self.shards[0].grad, self.reduce)?;
        Ok(sum)
    }

    /// Adds a unit's full gradient to the shards, if it is trained.
    fn reduce(&mut self, unit: usize) -> Result<(), Failure> {
        let n = self.shards[unit].master.len() * self.degree;
        let shard = &mut self.shards[unit];
        if !shard.unit.trained {
            return Ok(());
        }
        self.groups.shard.reduce_scatter(&self.gradient[..n], &mut shard.grad, self.reduce)
    }

    /// Sums the gradients over replicas. Returns this rank's part of the squared norm of the full gradient.
    pub fn reduce_replicas(&mut self) -> Result<f64, Failure> {
        let mut sum = 0.0;
        for shard in self.shards.iter_mut().filter(|s| s.unit.trained) {
            self.groups.replica.all_reduce(&mut shard.grad, self.reduce)?;
            sum += rows::sum_of_squares(&shard.grad);
        }
        Ok(if self.groups.replica.rank() == 0 { sum } else { 0.0 })
    }

    /// Updates the shards and clears the gradients.
    pub fn update(&mut self, optimizer: &crate::config::Optimizer, step: usize, rate: f64, factor: f64) {
        for s in self.shards.iter_mut().filter(|s| s.unit.trained) {
            let end = s.start + s.master.len();
            for tensor in &s.unit.tensors {
                let range = tensor.range();
                let (from, to) = (range.start.max(s.start), range.end.min(end));
                if from < to {
                    let r = from - s.start..to - s.start;
                    optim::adamw(
                        optimizer,
                        step,
                        rate,
                        tensor.decay,
                        factor,
                        &mut s.master[r.clone()],
                        &mut s.exp_avg[r.clone()],
                        &mut s.exp_avg_sq[r.clone()],
                        &s.grad[r],
                    );
                }
            }
            s.grad.fill(0.0);
        }
    }

    /// Returns the trained shards, which are those in a checkpoint.
    pub fn trained_shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter(|s| s.unit.trained)
    }

    /// Drops the gradients of a partial step.
    pub fn clear_gradients(&mut self) {
        for shard in &mut self.shards {
            shard.grad.fill(0.0);
        }
    }

    /// Returns the memory currently allocated by this rank, without shared memory and copies for a save.
    pub fn allocated(&self) -> MemoryParts {
        let sum = |buffers: &[&Vec<f32>]| buffers.iter().map(|b| 4 * b.capacity()).sum::<usize>();
        let of = |part: fn(&Shard) -> usize| self.shards.iter().map(part).sum::<usize>();
        let live = self.live.iter().flatten().chain(&self.pool).map(|b| 4 * b.capacity()).sum::<usize>();
        let saved =
            self.saved.iter().map(SavedActivations::allocated).chain(self.inputs.iter().map(Vec::capacity));
        let (scratch, head) = (self.scratch.allocated(), self.head.allocated());
        let adapter_state = self.adapter_state.as_ref();
        let (room, adapter) =
            (adapter_state.map_or(0, |a| a.room.allocated()), adapter_state.map(|a| &a.gradient));
        MemoryParts {
            parameters: of(|s| 4 * s.master.capacity()),
            gradients: of(|s| 4 * s.grad.capacity()),
            optimizer: of(|s| 4 * (s.exp_avg.capacity() + s.exp_avg_sq.capacity())),
            activations: 4 * (saved.sum::<usize>() + scratch + room) + sum(&[&self.x, &self.d]),
            gathered: live
                + sum(&[&self.gradient, &self.embed_gradient])
                + adapter.map_or(0, |gradient| sum(&[gradient]))
                + self.vectors.as_ref().map_or(0, |vectors| 4 * vectors.allocated()),
            logits: 4 * head,
            buffers: 0,
        }
    }

    /// Returns a unit's full master weights in f32. Every rank of the shard group must call it.
    pub fn gather_master_weights(&mut self, unit: usize) -> Result<Vec<f32>, Failure> {
        let shard = &self.shards[unit];
        let mut full = vec![0.0; shard.master.len() * self.degree];
        self.groups.shard.begin_gather(&shard.master, Wire::F32)?;
        self.groups.shard.end_gather(&mut full, Wire::F32)?;
        full.truncate(shard.unit.len);
        Ok(full)
    }
}

fn unit_weights<'a>(live: &'a [Option<Vec<f32>>], shards: &'a [Shard], unit: usize) -> &'a [f32] {
    live[unit].as_deref().unwrap_or(&shards[unit].master)
}

fn head_matrix<'a>(shape: &Shape, live: &'a [Option<Vec<f32>>], shards: &'a [Shard]) -> &'a [f32] {
    let table = shape.vocab * shape.hidden;
    if shape.tied {
        &unit_weights(live, shards, 0)[..table]
    } else {
        &unit_weights(live, shards, shape.layers + 1)[embedding_head::matrix_offset(shape)..][..table]
    }
}
