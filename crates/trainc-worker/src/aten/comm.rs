//! Collectives of a GPU rank over tensors: shards and gradients in, gathered units and sums out. A group of
//! one rank sends nothing.

use std::cell::RefCell;
use std::fmt;

use super::device::Device;
use super::ffi::{Buffer, Group, Kind, Links, Pending, Place, Tensor};
use crate::comm::topology::Kind as Members;
use crate::exit::Failure;
use crate::fsdp::schedule::Operation;

type Calls = Vec<(Members, Operation, usize)>;

/// When work is done in the self-check. Whatever is not ordered by events gives other results in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// Each collective ends before the next call.
    Synchronised,
    /// As in training.
    Free,
    /// Collectives start late.
    SlowLinks,
    /// Compute ends late.
    SlowCompute,
}

impl Timing {
    pub(super) const ALL: [Self; 4] = [Self::Synchronised, Self::Free, Self::SlowLinks, Self::SlowCompute];
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Synchronised => "each collective waited for",
            Self::Free => "free timing",
            Self::SlowLinks => "delayed collectives",
            Self::SlowCompute => "delayed compute",
        })
    }
}

/// Memory and matrices for delays.
struct Delay {
    timing: Timing,
    device: Device,
    memory: Buffer,
    matrix: Tensor,
    product: Tensor,
    /// What freed buffers are filled with.
    nan: Tensor,
}

/// Rows of the matrices whose products delay compute: a few milliseconds on a GPU.
const SLOW: i64 = 4096;
/// Bytes that are written to delay collectives.
const WRITTEN: usize = 256 << 20;
/// Repetitions of both.
const TIMES: usize = 16;

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
    delay: Option<Delay>,
}

impl Comm {
    /// Creates the groups; `links` must connect those with more than one rank.
    pub(super) fn new(links: Option<Links>, place: Place, shard: (usize, usize), replicas: usize) -> Self {
        Self { links, place, shard, replicas, calls: RefCell::default(), delay: None }
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

    /// Sets when work is done. Other timings than in training fill freed buffers with NaN.
    pub(super) fn set_timing(&mut self, timing: Timing, device: Device) -> Result<(), Failure> {
        self.delay = None;
        self.release()?;
        let (rows, bytes) = if device.place == Place::Cuda { (SLOW, WRITTEN) } else { (64, 1 << 16) };
        let matrix = |value: f32| -> Result<Tensor, Failure> {
            let tensor = device.empty(&[rows, rows], Kind::Bf16)?;
            tensor.copy(&Tensor::upload(&[value], &[1], device.place)?)?;
            Ok(tensor)
        };
        if timing != Timing::Free {
            let memory = self.buffer(bytes / 4, Kind::F32)?;
            let nan = Tensor::upload(&[f32::NAN], &[1], device.place)?;
            self.delay =
                Some(Delay { timing, device, memory, matrix: matrix(1.0)?, product: matrix(0.0)?, nan });
        }
        Ok(())
    }

    /// Delays the collective that starts next, or the compute before it.
    fn delay(&self) -> Result<(), Failure> {
        let (Some(delay), Some(links)) = (&self.delay, &self.links) else { return Ok(()) };
        match delay.timing {
            Timing::Synchronised | Timing::Free => Ok(()),
            Timing::SlowLinks => links.write_repeatedly(&delay.memory, TIMES),
            Timing::SlowCompute => (0..TIMES)
                .try_for_each(|_| delay.device.product(&delay.product, &delay.matrix, &delay.matrix)),
        }
    }

    /// Ends a call as the timing says.
    fn after<B>(&self, pending: Result<Pending<B>, Failure>) -> Result<Pending<B>, Failure> {
        if self.delay.as_ref().is_some_and(|delay| delay.timing == Timing::Synchronised) {
            self.synchronise()?;
        }
        pending
    }

    /// Fills a buffer that is no longer used, if the timing says so.
    pub(super) fn spoil(&self, buffer: &Buffer) -> Result<(), Failure> {
        self.delay.as_ref().map_or(Ok(()), |delay| buffer.copy(&delay.nan))
    }

    /// Waits for all collectives and for the compute before them.
    pub(super) fn synchronise(&self) -> Result<(), Failure> {
        self.links.as_ref().map_or(Ok(()), Links::synchronise)
    }

    /// Waits for all collectives, and frees the memory of buffers that were dropped.
    pub(super) fn release(&self) -> Result<(), Failure> {
        self.links.as_ref().map_or(Ok(()), Links::release)
    }

    /// Returns the free memory of the GPU in bytes; no limit without links.
    pub(super) fn free_memory(&self) -> Result<usize, Failure> {
        self.links.as_ref().map_or(Ok(usize::MAX), Links::free_memory)
    }

    /// Returns NCCL's version; none without links.
    pub(super) fn version(&self) -> Result<Option<i32>, Failure> {
        self.links.as_ref().map(Links::version).transpose()
    }

    /// Prepares memory that is never freed for copies from the GPU.
    #[expect(clippy::mut_mut, reason = "the memory itself is replaced")]
    pub(super) fn pin(&self, memory: &mut &'static mut [f32]) {
        if let Some(links) = &self.links {
            links.pin(memory);
        }
    }

    /// Allocates memory for collectives.
    pub(super) fn buffer(&self, elements: usize, kind: Kind) -> Result<Buffer, Failure> {
        match &self.links {
            Some(links) => links.buffer(elements, kind, self.place),
            None => Buffer::alone(elements, kind, self.place),
        }
    }

    /// Starts gathering `n` elements of each rank of the shard group; this rank's are at its place in the
    /// buffer.
    pub(super) fn begin_gather(&self, full: Buffer, n: usize) -> Result<Pending<Buffer>, Failure> {
        self.note(Members::Shard, Operation::BeginGather, n);
        match self.links(self.shard.1) {
            Some(links) => {
                self.delay()?;
                self.after(links.gather(full, n))
            }
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
            self.delay()?;
            return self.after(links.reduce_scatter(full, part, n));
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
            Some(links) => {
                self.delay()?;
                self.after(links.all_reduce(group, values, n))
            }
            None => Ok(Pending::done(values)),
        }
    }

    /// Returns the buffers of a collective. Compute issued later sees its result.
    pub(super) fn take<B>(&self, pending: Pending<B>) -> Result<B, Failure> {
        match &self.links {
            Some(links) => links.take(pending),
            None => pending.into_buffers(),
        }
    }
}
