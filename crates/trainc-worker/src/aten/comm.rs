//! Collectives of a GPU rank over tensors: shards and gradients in, gathered units and sums out. A group of one rank
//! sends nothing.

use std::cell::RefCell;

use super::ffi::{Buffer, Group, Kind, Links, Pending, Place};
use crate::comm::topology::Kind as Members;
use crate::exit::Failure;
use crate::fsdp::schedule::Operation;

type Calls = Vec<(Members, Operation, usize)>;

/// The groups of one rank.
pub(super) struct Comm {
    links: Option<Links>,
    place: Place,
    /// This rank's index in its shard group, and the group's size.
    pub(super) shard: (usize, usize),
    /// Size of its replica group.
    pub(super) replicas: usize,
    /// Calls in order, for a comparison with the schedule.
    calls: RefCell<Calls>,
}

impl Comm {
    /// Creates the groups; `links` must connect those with more than one rank.
    pub(super) fn new(links: Option<Links>, place: Place, shard: (usize, usize), replicas: usize) -> Self {
        Self { links, place, shard, replicas, calls: RefCell::default() }
    }

    fn links(&self, size: usize) -> Option<&Links> {
        self.links.as_ref().filter(|_| size > 1)
    }

    fn note(&self, members: Members, operation: Operation, elements: usize) {
        if cfg!(debug_assertions) {
            self.calls.borrow_mut().push((members, operation, elements));
        }
    }

    /// Returns the calls since the last time; only in builds with debug assertions.
    pub(super) fn take_calls(&self) -> Calls {
        self.calls.take()
    }

    /// Allocates memory for collectives.
    pub(super) fn buffer(&self, elements: usize, kind: Kind) -> Result<Buffer, Failure> {
        match &self.links {
            Some(links) => links.buffer(elements, kind, self.place),
            None => Buffer::alone(elements, kind, self.place),
        }
    }

    /// Starts gathering `n` elements of each rank of the shard group; this rank's are at its place in the buffer.
    pub(super) fn begin_gather(&self, full: Buffer, n: usize) -> Result<Pending<Buffer>, Failure> {
        self.note(Members::Shard, Operation::BeginGather, n);
        match self.links(self.shard.1) {
            Some(links) => links.gather(full, n),
            None => Ok(Pending::done(full)),
        }
    }

    /// Returns a gathered unit. Compute issued later sees all of it.
    pub(super) fn end_gather(&self, pending: Pending<Buffer>, n: usize) -> Result<Buffer, Failure> {
        self.note(Members::Shard, Operation::EndGather, n);
        self.take(pending)
    }

    /// Starts summing `full` over the shard group; `part` receives the sum of this rank's `n` elements.
    pub(super) fn reduce_scatter(
        &self,
        full: Buffer,
        part: Buffer,
        n: usize,
    ) -> Result<Pending<(Buffer, Buffer)>, Failure> {
        self.note(Members::Shard, Operation::ReduceScatter, n * self.shard.1);
        if let Some(links) = self.links(self.shard.1) {
            return links.reduce_scatter(full, part, n);
        }
        part.view(&[n as i64], 0)?.copy(&full.view(&[n as i64], 0)?)?;
        Ok(Pending::done((full, part)))
    }

    /// Starts summing the first `n` elements over a group, in place.
    pub(super) fn all_reduce(
        &self,
        members: Members,
        values: Buffer,
        n: usize,
    ) -> Result<Pending<Buffer>, Failure> {
        self.note(members, Operation::AllReduce, n);
        let (group, size) = match members {
            Members::Replica => (Group::Replica, self.replicas),
            Members::Shard | Members::World => (Group::Shard, self.shard.1),
        };
        match self.links(size) {
            Some(links) => links.all_reduce(group, values, n),
            None => Ok(Pending::done(values)),
        }
    }

    /// Returns the buffers of a collective. Compute issued later sees its result.
    pub(super) fn take<B>(&self, pending: Pending<B>) -> Result<B, Failure> {
        match &self.links {
            Some(links) => links.take(pending),
            None => Ok(pending.into_buffers()),
        }
    }
}
