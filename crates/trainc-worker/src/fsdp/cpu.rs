//! Engine of CPU ranks: kernels of this crate, and collectives over shared memory and TCP.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::vectors::Vectors;
use super::{Engine, MemoryParts, PassSums, Shard, StateKind, shards, wire};
use crate::comm::{Groups, Wire};
use crate::config::{Config, Format, Optimizer, Recompute};
use crate::exit::Failure;
use crate::kernels::rows;
use crate::model::adapter::Target;
use crate::model::block::{self, Pass, SavedActivations, Scratch};
use crate::model::embedding_head::{self, HeadScratch};
use crate::model::gradients::{Gradients, Workspace};
use crate::model::init;
use crate::model::layout::Shape;
use crate::optim;

/// Values of this rank's shard of one unit.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) master: Vec<f32>,
    exp_avg: Vec<f32>,
    exp_avg_sq: Vec<f32>,
    /// Sum of this step's gradients.
    grad: Vec<f32>,
}

/// Training state of one CPU rank.
pub struct CpuEngine {
    /// Communication groups.
    pub groups: Groups,
    shards: Vec<Shard>,
    values: Vec<Values>,
    loss: f64,
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

impl CpuEngine {
    /// Creates an engine with fresh weights.
    pub fn new(config: &Config, groups: Groups, threads: usize) -> Self {
        let shape = Shape::from_model(&config.model);
        let degree = config.mesh.shard_degree;
        let bf16 = config.precision.compute == Format::Bf16;
        let pass = Pass::new(&shape, config.batch.micro, threads, bf16);
        let shards = shards(&shape, groups.shard.rank(), degree);
        let values: Vec<Values> = shards
            .iter()
            .map(|shard| {
                let zeros = || vec![0.0f32; if shard.unit.trained { shard.len } else { 0 }];
                let mut master = vec![0.0f32; shard.len];
                init::fill_initial(&shard.unit, config.data.seed, shard.start, &mut master);
                Values { master, exp_avg: zeros(), exp_avg_sq: zeros(), grad: zeros() }
            })
            .collect();
        let recompute = config.memory.recompute == Recompute::Block;
        // Frozen units have no gradient; adapters have a separate one.
        let whole = shards.iter().take(shape.layers + 2).filter(|s| s.unit.trained);
        let largest = whole.map(|s| s.len * degree).max().unwrap_or(0);
        let trains_embedding = shape.tied && shape.adapter.is_none();
        let width = pass.rows * shape.hidden;
        Self {
            live: shards.iter().map(|_| None).collect(),
            pool: Vec::new(),
            order: VecDeque::new(),
            begun: 0,
            gradient: vec![0.0; largest],
            embed_gradient: vec![0.0; if trains_embedding { shards[0].len * degree } else { 0 }],
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
                    gradient: vec![0.0; adapter.len * degree],
                    room: Workspace::new(pass.rows, shape.hidden, lora.rank),
                }
            }),
            vectors: bf16.then(|| Vectors::new(shards.iter().map(|shard| &shard.unit))),
            shards,
            values,
            loss: 0.0,
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
            self.groups.shard.begin_gather(&self.values[next].master, self.wire)?;
            self.begun += 1;
        }
        assert_eq!(self.order.pop_front(), Some(unit), "units are gathered in their order");
        self.begun -= 1;
        let elements = self.shards[unit].len * self.degree;
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
            let master = &self.values[unit].master;
            let at = self.pool.iter().position(|b| b.capacity() == master.len());
            let mut full =
                at.map_or_else(|| Vec::with_capacity(master.len()), |at| self.pool.swap_remove(at));
            full.clear();
            full.extend(master);
            full
        });
        if let (Some(lora), Some(adapter_state)) = (&self.pass.shape.adapter, &self.adapter_state) {
            let p = unit_weights(&self.live, &self.values, adapter);
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
            unit_weights(&self.live, &self.values, 0),
            tokens,
            &mut self.x,
        );
        if !tied {
            self.free(0);
        }
        for layer in 0..layers {
            self.gather_block(layer)?;
            let p = unit_weights(&self.live, &self.values, 1 + layer);
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
            vectors.gather_vectors(&self.shards, &self.values, self.groups.shard.as_mut())?;
        }
        let layers = self.pass.shape.layers;
        let blocks: Vec<usize> = (0..layers).flat_map(|layer| self.block_units(layer)).collect();
        self.set_gather_order(std::iter::once(0).chain(blocks).chain([layers + 1]));
        Ok(())
    }

    /// Adds a unit's full gradient to the shards, if it is trained.
    fn reduce_unit(&mut self, unit: usize) -> Result<(), Failure> {
        let shard = &self.shards[unit];
        if !shard.unit.trained {
            return Ok(());
        }
        let full = &self.gradient[..shard.len * self.degree];
        self.groups.shard.reduce_scatter(full, &mut self.values[unit].grad, self.reduce)
    }
}

impl Engine for CpuEngine {
    fn groups(&mut self) -> &mut Groups {
        &mut self.groups
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn rows(&self) -> usize {
        self.pass.rows
    }

    fn set_document_starts(&mut self, begins: &[u32]) {
        self.pass.begins.clear();
        self.pass.begins.extend(begins);
    }

    fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Failure> {
        let layers = self.pass.shape.layers;
        self.begin_forward()?;
        self.forward(tokens, false)?;
        let last = unit_weights(&self.live, &self.values, layers + 1);
        let matrix = head_matrix(&self.pass.shape, &self.live, &self.values);
        let logits = embedding_head::logits(&self.pass, last, matrix, &self.x, &mut self.head);
        self.free(layers + 1);
        self.free(0);
        Ok(logits)
    }

    fn evaluate(&mut self, tokens: &[u32], labels: &[u32]) -> Result<f64, Failure> {
        let layers = self.pass.shape.layers;
        self.begin_forward()?;
        self.forward(tokens, false)?;
        let last = unit_weights(&self.live, &self.values, layers + 1);
        let matrix = head_matrix(&self.pass.shape, &self.live, &self.values);
        let sum = embedding_head::evaluate(&self.pass, last, matrix, &self.x, labels, &mut self.head);
        self.free(layers + 1);
        self.free(0);
        Ok(sum)
    }

    fn micro_step(&mut self, tokens: &[u32], labels: &[u32], scale: f64) -> Result<(), Failure> {
        let (layers, tied) = (self.pass.shape.layers, self.pass.shape.tied);
        let last = layers + 1;
        let again = if self.reshard { layers - 1 } else { 0 };
        self.begin_forward()?;
        let again: Vec<usize> = (0..again).rev().flat_map(|layer| self.block_units(layer)).collect();
        self.order.extend(again);
        self.forward(tokens, true)?;
        // Head.
        let n = self.shards[last].len * self.degree;
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
        self.loss += embedding_head::loss(
            &self.pass,
            unit_weights(&self.live, &self.values, last),
            head_matrix(&self.pass.shape, &self.live, &self.values),
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
        self.reduce_unit(last)?;
        for layer in (0..layers).rev() {
            self.gather_block(layer)?;
            let p = unit_weights(&self.live, &self.values, 1 + layer);
            let slot = if self.recompute { 0 } else { layer };
            let saved = &mut self.saved[slot];
            if self.recompute && layer + 1 < layers {
                saved.x.copy_from_slice(&self.inputs[layer]);
                block::forward(&self.pass, p, saved, &mut self.scratch, &mut self.x);
            }
            let adapter_state = self.adapter_state.as_mut().zip(self.pass.shape.adapter.as_ref());
            let gradients = if let Some((AdapterState { targets, gradient, room }, lora)) = adapter_state {
                let p = unit_weights(&self.live, &self.values, layers + 2 + layer);
                Gradients::Adapters { lora, targets, p, g: gradient, room }
            } else {
                let len = self.shards[1 + layer].unit.len;
                let n = self.shards[1 + layer].len * self.degree;
                let (block, padding) = self.gradient[..n].split_at_mut(len);
                padding.fill(0.0);
                Gradients::All(block)
            };
            block::backward(&self.pass, p, saved, &mut self.scratch, &mut self.d, gradients);
            if let Some(adapter_state) = &self.adapter_state {
                let shard = &mut self.values[layers + 2 + layer].grad;
                self.groups.shard.reduce_scatter(&adapter_state.gradient, shard, self.reduce)?;
            }
            self.free_block(layer);
            self.reduce_unit(1 + layer)?;
        }
        if !self.shards[0].unit.trained {
            return Ok(());
        }
        let n = self.shards[0].len * self.degree;
        let g = if tied {
            &mut self.embed_gradient
        } else {
            self.gradient[..n].fill(0.0);
            &mut self.gradient
        };
        embedding_head::embed_backward(&self.pass, tokens, &self.d, g);
        self.groups.shard.reduce_scatter(&g[..n], &mut self.values[0].grad, self.reduce)
    }

    fn reduce(&mut self) -> Result<PassSums, Failure> {
        let mut sum = 0.0;
        for (_, values) in self.shards.iter().zip(&mut self.values).filter(|(shard, _)| shard.unit.trained) {
            self.groups.replica.all_reduce(&mut values.grad, self.reduce)?;
            sum += rows::sum_of_squares(&values.grad);
        }
        let squared_norm = if self.groups.replica.rank() == 0 { sum } else { 0.0 };
        Ok(PassSums { loss: std::mem::take(&mut self.loss), squared_norm })
    }

    fn update(&mut self, optimizer: &Optimizer, step: usize, rate: f64, factor: f64) -> Result<(), Failure> {
        for (s, values) in self.shards.iter().zip(&mut self.values).filter(|(s, _)| s.unit.trained) {
            let end = s.start + s.len;
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
                        &mut values.master[r.clone()],
                        &mut values.exp_avg[r.clone()],
                        &mut values.exp_avg_sq[r.clone()],
                        &values.grad[r],
                    );
                }
            }
            values.grad.fill(0.0);
        }
        Ok(())
    }

    fn clear_gradients(&mut self) -> Result<(), Failure> {
        self.loss = 0.0;
        for values in &mut self.values {
            values.grad.fill(0.0);
        }
        Ok(())
    }

    fn read_shard(&self, shard: usize, state: StateKind) -> Result<Cow<'_, [f32]>, Failure> {
        let values = &self.values[shard];
        Ok(Cow::Borrowed(match state {
            StateKind::Master => &values.master,
            StateKind::ExpAvg => &values.exp_avg,
            StateKind::ExpAvgSq => &values.exp_avg_sq,
        }))
    }

    fn write_shard(&mut self, shard: usize, state: StateKind, new: &[f32]) -> Result<(), Failure> {
        let values = &mut self.values[shard];
        match state {
            StateKind::Master => &mut values.master,
            StateKind::ExpAvg => &mut values.exp_avg,
            StateKind::ExpAvgSq => &mut values.exp_avg_sq,
        }
        .copy_from_slice(new);
        Ok(())
    }

    fn peak_memory(&self) -> u64 {
        crate::log::peak_resident()
    }

    fn allocated(&self) -> MemoryParts {
        let sum = |buffers: &[&Vec<f32>]| buffers.iter().map(|b| 4 * b.capacity()).sum::<usize>();
        let of = |part: fn(&Values) -> usize| self.values.iter().map(part).sum::<usize>();
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

    fn gather_master_weights(&mut self, unit: usize) -> Result<Vec<f32>, Failure> {
        let shard = &self.shards[unit];
        let mut full = vec![0.0; shard.len * self.degree];
        self.groups.shard.begin_gather(&self.values[unit].master, Wire::F32)?;
        self.groups.shard.end_gather(&mut full, Wire::F32)?;
        full.truncate(shard.unit.len);
        Ok(full)
    }
}

fn unit_weights<'a>(live: &'a [Option<Vec<f32>>], values: &'a [Values], unit: usize) -> &'a [f32] {
    live[unit].as_deref().unwrap_or(&values[unit].master)
}

fn head_matrix<'a>(shape: &Shape, live: &'a [Option<Vec<f32>>], values: &'a [Values]) -> &'a [f32] {
    let table = shape.vocab * shape.hidden;
    if shape.tied {
        &unit_weights(live, values, 0)[..table]
    } else {
        &unit_weights(live, values, shape.layers + 1)[embedding_head::matrix_offset(shape)..][..table]
    }
}
