//! A group that spans hosts, in two steps: between hosts each rank talks only to the ranks at its own place, and all
//! else stays on the host. Of a gather only one shard per rank and host crosses the network, as in MiCS' hierarchical
//! all-gather; of a sum, only what the host's ranks have summed before.

use super::{Collectives, Wire};
use crate::exit::Failure;

/// The group, seen by one of its ranks.
///
/// Shards are numbered host by host within a place: shard = place * hosts + host. What the first step gathers is then
/// one piece of the whole, and nothing has to be moved after the second.
pub(super) struct Hierarchical {
    inner: Box<dyn Collectives>,
    outer: Box<dyn Collectives>,
    piece: Vec<f32>,
    kind: super::Kind,
}

impl Hierarchical {
    /// Both steps, or the one that is needed.
    pub(super) fn group(
        kind: super::Kind,
        inner: Box<dyn Collectives>,
        outer: Box<dyn Collectives>,
    ) -> Box<dyn Collectives> {
        match (inner.size(), outer.size()) {
            (_, 1) => inner,
            (1, _) => outer,
            _ => Box::new(Self { inner, outer, piece: Vec::new(), kind }),
        }
    }
}

impl Collectives for Hierarchical {
    fn rank(&self) -> usize {
        match self.kind {
            // Ranks of the world and replicas count host by host.
            super::Kind::World | super::Kind::Replica => {
                self.outer.rank() * self.inner.size() + self.inner.rank()
            }
            super::Kind::Shard => self.inner.rank() * self.outer.size() + self.outer.rank(),
        }
    }

    fn size(&self) -> usize {
        self.inner.size() * self.outer.size()
    }

    fn begin_gather(&mut self, shard: &[f32], wire: Wire) -> Result<(), Failure> {
        self.outer.begin_gather(shard, wire)
    }

    fn end_gather(&mut self, full: &mut [f32], wire: Wire) -> Result<(), Failure> {
        self.piece.resize(full.len() / self.inner.size(), 0.0);
        self.outer.end_gather(&mut self.piece, wire)?;
        self.inner.begin_gather(&self.piece, wire)?;
        self.inner.end_gather(full, wire)
    }

    fn reduce_scatter(&mut self, full: &[f32], shard: &mut [f32], wire: Wire) -> Result<(), Failure> {
        self.piece.resize(full.len() / self.inner.size(), 0.0);
        self.piece.fill(0.0);
        self.inner.reduce_scatter(full, &mut self.piece, wire)?;
        self.outer.reduce_scatter(&self.piece, shard, wire)
    }

    fn all_reduce(&mut self, values: &mut [f32], wire: Wire) -> Result<(), Failure> {
        self.inner.all_reduce(values, wire)?;
        // Each rank of a host sends another part; adding zeros puts the parts together. Zeros below nothing, which keep
        // the sign of a sum that is 0.
        let part = values.len().div_ceil(self.inner.size());
        let from = (self.inner.rank() * part).min(values.len());
        let to = (from + part).min(values.len());
        self.outer.all_reduce(&mut values[from..to], wire)?;
        values[..from].fill(-0.0);
        values[to..].fill(-0.0);
        self.inner.all_reduce(values, Wire::F32)
    }

    fn all_reduce_f64(&mut self, values: &mut [f64]) -> Result<(), Failure> {
        self.inner.all_reduce_f64(values)?;
        self.outer.all_reduce_f64(values)
    }
}
