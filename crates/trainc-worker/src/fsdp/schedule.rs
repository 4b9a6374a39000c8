//! Communication schedule of a pass and a step, computed from the config: every call of [`Collectives`] in
//! order, and the units gathered at each time. Tests compare it with the calls of real engines. The order is
//! the same on all ranks, so no two ranks can wait for each other in different collectives.
//!
//! [`Collectives`]: crate::comm::Collectives

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use super::shard_len;
use super::vectors::Vectors;
use crate::comm::Kind;
use crate::config::{Config, Format};
use crate::model::layout::{Shape, Unit};

/// An operation of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Starts gathering a unit; does not wait.
    BeginGather,
    /// Completes gathering a unit.
    EndGather,
    /// Sums a unit's full gradient into the shards.
    ReduceScatter,
    /// Sums gradient shards over replicas; with bf16 also gathers the vectors in the shard group.
    AllReduce,
    /// Sums a few f64.
    Sum,
}

/// One call of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Group that communicates.
    pub group: Kind,
    /// Kind of operation.
    pub operation: Operation,
    /// Unit of the elements; none for sums of a few numbers and for the vectors of all units.
    pub unit: Option<usize>,
    /// Elements that the rank passes: of a shard for gathers and all-reduces, of the full unit for
    /// reduce-scatters.
    pub elements: usize,
}

/// The calls of a pass or a step.
#[derive(Debug)]
pub struct Schedule {
    /// Calls in order.
    pub calls: Vec<Call>,
    /// Units of the model.
    pub units: Vec<Unit>,
    /// Maximum number of pending gathers.
    pub most_ahead: usize,
    /// Maximum number of elements of units gathered at the same time.
    pub most_whole: usize,
    degree: usize,
    in_place: bool,
    prefetch: usize,
    order: VecDeque<usize>,
    begun: usize,
    whole: BTreeSet<usize>,
    /// For each size of a unit, its gathers that are pending or complete: now, and at most.
    gathers: BTreeMap<usize, (usize, usize)>,
}

impl Schedule {
    fn new(config: &Config) -> Self {
        let degree = config.mesh.shard_degree;
        Self {
            calls: Vec::new(),
            units: Shape::from_model(&config.model).units(),
            most_ahead: 0,
            most_whole: 0,
            degree,
            in_place: degree == 1 && config.precision.compute == Format::F32,
            prefetch: config.memory.prefetch,
            order: VecDeque::new(),
            begun: 0,
            whole: BTreeSet::new(),
            gathers: BTreeMap::new(),
        }
    }

    /// Computes the schedule of one optimizer step: its passes, then the reduction over replicas and the
    /// all-reduce for common decisions. With `masked` data the ranks first count the labels that are trained
    /// on.
    pub fn for_step(config: &Config, masked: bool) -> Self {
        let mut schedule = Self::new(config);
        let sum = |elements| Call { group: Kind::World, operation: Operation::Sum, unit: None, elements };
        if masked {
            schedule.calls.push(sum(1));
        }
        for _ in 0..config.batch.accumulation {
            if config.batch.accumulation > 1 {
                // Whether any rank has been asked to stop.
                schedule.calls.push(sum(1));
            }
            schedule.add_pass(config);
        }
        for unit in 0..schedule.units.len() {
            if schedule.units[unit].trained {
                let elements = schedule.shard(unit);
                schedule.push(Kind::Replica, Operation::AllReduce, unit, elements);
            }
        }
        // Loss, squared norm, requests to stop or save, progress of a save, and each rank's memory.
        schedule.calls.push(sum(5 + config.ranks()));
        schedule
    }

    /// Computes the schedule of one forward and backward pass.
    pub fn for_pass(config: &Config) -> Self {
        let mut schedule = Self::new(config);
        schedule.add_pass(config);
        schedule
    }

    fn add_pass(&mut self, config: &Config) {
        let (layers, tied) = (config.model.layers, config.model.tied_embeddings);
        let (adapters, reshard) = (self.units.len() > layers + 2, config.memory.reshard_after_forward);
        let block = |layer: usize| std::iter::once(1 + layer).chain(adapters.then_some(layers + 2 + layer));
        let last = layers + 1;
        let again = if reshard { layers - 1 } else { 0 };
        self.order = std::iter::once(0)
            .chain((0..layers).flat_map(block))
            .chain([last])
            .chain((0..again).rev().flat_map(block))
            .collect();
        self.begun = 0;
        if config.precision.compute == Format::Bf16 {
            let elements = Vectors::elements(&self.units);
            self.calls.push(Call {
                group: Kind::Shard,
                operation: Operation::AllReduce,
                unit: None,
                elements,
            });
        }
        self.gather(0);
        if !tied {
            self.free(0);
        }
        for layer in 0..layers {
            block(layer).for_each(|unit| self.gather(unit));
            if reshard && layer + 1 < layers {
                block(layer).for_each(|unit| self.free(unit));
            }
        }
        self.gather(last);
        self.free(last);
        self.free(0);
        self.reduce(last);
        for layer in (0..layers).rev() {
            for unit in block(layer) {
                if !self.whole.contains(&unit) {
                    self.gather(unit);
                }
            }
            if adapters {
                self.reduce(layers + 2 + layer);
            }
            block(layer).for_each(|unit| self.free(unit));
            self.reduce(1 + layer);
        }
        self.reduce(0);
    }

    fn shard(&self, unit: usize) -> usize {
        shard_len(self.units[unit].len, self.degree)
    }

    fn push(&mut self, group: Kind, operation: Operation, unit: usize, elements: usize) {
        self.calls.push(Call { group, operation, unit: Some(unit), elements });
    }

    fn gather(&mut self, unit: usize) {
        if self.in_place {
            return;
        }
        while self.begun < (1 + self.prefetch).min(self.order.len()) {
            let next = self.order[self.begun];
            self.push(Kind::Shard, Operation::BeginGather, next, self.shard(next));
            let (now, most) = self.gathers.entry(self.shard(next) * self.degree).or_default();
            *now += 1;
            *most = (*most).max(*now);
            self.begun += 1;
        }
        self.most_ahead = self.most_ahead.max(self.begun);
        assert_eq!(self.order.pop_front(), Some(unit), "units are gathered in their order");
        self.begun -= 1;
        self.push(Kind::Shard, Operation::EndGather, unit, self.shard(unit));
        self.whole.insert(unit);
        let whole: usize = self.whole.iter().map(|unit| self.shard(*unit) * self.degree).sum();
        self.most_whole = self.most_whole.max(whole);
    }

    fn free(&mut self, unit: usize) {
        let freed = self.whole.remove(&unit);
        if let (true, Some((now, _))) = (freed, self.gathers.get_mut(&(self.shard(unit) * self.degree))) {
            *now -= 1;
        }
    }

    fn reduce(&mut self, unit: usize) {
        if self.units[unit].trained {
            self.push(Kind::Shard, Operation::ReduceScatter, unit, self.shard(unit) * self.degree);
        }
    }

    /// Returns the elements of buffers for gathers that are reused for units of the same size.
    pub fn gather_elements(&self) -> usize {
        self.gathers.iter().map(|(elements, (_, most))| elements * most).sum()
    }

    /// Returns whether every gathered unit was freed and every gather completed.
    pub fn is_balanced(&self) -> bool {
        self.in_place || self.whole.is_empty() && self.begun == 0 && self.order.is_empty()
    }

    /// Returns the bytes that a rank sends for a call among `members` ranks.
    pub fn sent(config: &Config, call: &Call, members: usize) -> usize {
        let width = |format| if format == Format::Bf16 { 2 } else { 4 };
        let others = members.saturating_sub(1);
        match call.operation {
            Operation::BeginGather => width(config.precision.compute) * call.elements * others,
            // It only receives.
            Operation::EndGather => 0,
            Operation::ReduceScatter => {
                width(config.precision.reduce) * call.elements / members.max(1) * others
            }
            // A reduce-scatter followed by a gather of the sums.
            Operation::AllReduce => {
                // Vectors are sent in f32.
                let each = if call.unit.is_none() { 4 } else { width(config.precision.reduce) };
                2 * each * call.elements.div_ceil(members.max(1)) * others
            }
            Operation::Sum => 8 * call.elements * others,
        }
    }
}
