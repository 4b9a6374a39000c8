//! Hierarchical collectives for groups that span hosts: between hosts each rank exchanges data only with the
//! ranks at its own position, and the rest stays on the host. In a gather only one shard per rank and host
//! crosses the network, as in MiCS' hierarchical all-gather; in a sum, only the sums of the host's ranks.

use super::{Collectives, Wire};
use crate::exit::Failure;

/// A group as seen by one of its ranks.
///
/// Shards are numbered host by host within a position: shard = position * hosts + host. The result of the
/// first step is then contiguous, and nothing has to be moved after the second.
pub(super) struct Hierarchical {
    inner: Box<dyn Collectives>,
    outer: Box<dyn Collectives>,
    piece: Vec<f32>,
    kind: super::Kind,
}

impl Hierarchical {
    /// Combines both steps, or returns the only one that is needed.
    pub(super) fn combine_steps(
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
            // Ranks of the world and of replicas are numbered host by host.
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
        // Each rank of a host sends a different part; adding zeros joins the parts. -0.0 preserves the sign
        // of a zero sum.
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
