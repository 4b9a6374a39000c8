//! Memory shared by the ranks of one host; with `aten::ffi` the only unsafe code of the worker. It holds a
//! board with one line per rank (heartbeats, failed ranks), and channels, in which every member of a group
//! writes numbered messages that every member reads. A channel hands out a slot's memory only while its
//! counters rule out any other access.
#![allow(unsafe_code, reason = "memory shared between processes is outside what the compiler can check")]

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals};
use rustix::time::{ClockId, clock_gettime};

use crate::exit::{Code, Failure};

/// Distance between counters of different ranks in bytes: two cache lines, to avoid false sharing.
const LINE: usize = 128;

/// Turns for which a waiting rank only yields its core: a few milliseconds, longer than ranks of one step
/// wait for each other.
const YIELDS: u32 = 1 << 13;
/// Turns between two looks at the board of the ranks.
const CHECKED: u32 = 1 << 6;
/// Shortest and longest sleep after that.
const SHORT: Duration = Duration::from_micros(20);
const LONG: Duration = Duration::from_millis(1);

/// Bytes for a rank's failure reason: its length, then UTF-8.
const WORDS: usize = 1024;

/// Returns milliseconds of a clock shared by all processes of this host.
fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// A mapping of an anonymous file, which disappears when its last process ends.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    map: Arc<MmapRaw>,
    file: Arc<File>,
}

impl SharedMemory {
    /// Creates zeroed memory of a fixed size: access beyond the end of a file that was truncated is a SIGBUS.
    pub fn create(bytes: usize) -> Result<Self, Failure> {
        let fail = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(Code::Bug, format!("cannot {what} shared memory of {bytes} bytes: {error}"))
        };
        let file = rustix::fs::memfd_create("trainc-worker", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map(File::from)
            .map_err(|error| fail("create", &error))?;
        file.set_len(bytes as u64).map_err(|error| fail("resize", &error))?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(|error| fail("seal", &error))?;
        Self::map(file)
    }

    /// Opens memory of another process at the path returned by its `SharedMemory::path`.
    pub fn open(path: &str, bytes: usize) -> Result<Self, Failure> {
        let fail = |error: &dyn std::fmt::Display| {
            Failure::new(Code::Peer, format!("cannot open the launcher's shared memory {path}: {error}"))
        };
        let file = File::options().read(true).write(true).open(path).map_err(|error| fail(&error))?;
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(fail(&"its size is not sealed"));
        }
        let length = file.metadata().map_err(|error| fail(&error))?.len();
        if length != bytes as u64 {
            return Err(Failure::new(
                Code::Peer,
                format!(
                    "shared memory has {length} bytes, but this rank expects {bytes}: the configs differ"
                ),
            ));
        }
        Self::map(file)
    }

    fn map(file: File) -> Result<Self, Failure> {
        let map = MmapRaw::map_raw(&file)
            .map_err(|error| Failure::new(Code::Bug, format!("cannot map shared memory: {error}")))?;
        Ok(Self { map: Arc::new(map), file: Arc::new(file) })
    }

    /// Returns the path under which child processes can open it.
    pub fn path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.map.len(), "a counter lies inside the mapping");
        // SAFETY: inside the mapping and aligned (asserted; mappings begin at a page); the mapping lives as
        // long as `self`; counters are touched only through atomics, by every process, since no slot overlaps
        // them.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    /// # Safety
    /// Until the slice is dropped, no process may write these elements.
    unsafe fn read(&self, at: usize, elements: usize) -> &[f32] {
        assert!(
            at.is_multiple_of(4) && at + 4 * elements <= self.map.len(),
            "a slot lies inside the mapping"
        );
        // SAFETY: inside and aligned (asserted); any bits are an f32; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(at).cast(), elements) }
    }

    /// # Safety
    /// Until the slice is dropped, no other code in any process may read or write these elements.
    #[allow(
        clippy::mut_from_ref,
        reason = "the mapping is shared by nature; the caller holds the slot alone"
    )]
    unsafe fn write(&self, at: usize, elements: usize) -> &mut [f32] {
        assert!(
            at.is_multiple_of(4) && at + 4 * elements <= self.map.len(),
            "a slot lies inside the mapping"
        );
        // SAFETY: inside and aligned (asserted); any bits are an f32; the caller keeps everyone else away.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(at).cast(), elements) }
    }
}

/// Timeouts of all waits, and the board: first the failed rank, then one line per rank, then each rank's
/// failure reason.
#[derive(Clone, Debug)]
pub struct Watchdog {
    memory: SharedMemory,
    ranks: usize,
    peer_dead: Duration,
    collective: Duration,
}

impl Watchdog {
    /// Returns the size of the board in bytes.
    pub fn bytes(ranks: usize) -> usize {
        LINE * (ranks + 1) + WORDS * ranks
    }

    /// Creates a view of the board at the start of `memory`.
    pub fn new(memory: &SharedMemory, ranks: usize, peer_dead: Duration, collective: Duration) -> Self {
        Self { memory: memory.clone(), ranks, peer_dead, collective }
    }

    /// Returns the timeout of a collective.
    pub(super) fn collective_timeout(&self) -> Duration {
        self.collective
    }

    /// Returns the clock of the timeouts in milliseconds.
    pub(super) fn now() -> u64 {
        now_ms()
    }

    /// Returns a rank of this host without a heartbeat for `limit`.
    pub fn find_silent_rank(&self, limit: Duration) -> Option<usize> {
        (0..self.ranks).find(|rank| self.is_silent(*rank, limit))
    }

    /// Returns whether this rank has sent no heartbeat for `limit`.
    pub fn is_silent(&self, rank: usize, limit: Duration) -> bool {
        let beat = self.memory.counter(LINE * (rank + 1)).load(Ordering::Relaxed);
        beat > 0 && u128::from(now_ms().saturating_sub(beat)) > limit.as_millis()
    }

    /// Marks this rank as connected to all its peers.
    pub fn mark_connected(&self, rank: usize) {
        self.memory.counter(LINE * (rank + 1) + 8).store(1, Ordering::Relaxed);
    }

    /// Returns the number of connected ranks.
    pub fn count_connected(&self) -> usize {
        let there = |rank: &usize| self.memory.counter(LINE * (rank + 1) + 8).load(Ordering::Relaxed) > 0;
        (0..self.ranks).filter(there).count()
    }

    /// Records a heartbeat of this rank.
    pub fn beat(&self, rank: usize) {
        self.memory.counter(LINE * (rank + 1)).store(now_ms(), Ordering::Relaxed);
    }

    /// Returns the number of ranks that have sent a heartbeat.
    pub fn count_joined(&self) -> usize {
        let alive = |rank: &usize| self.memory.counter(LINE * (rank + 1)).load(Ordering::Relaxed) > 0;
        (0..self.ranks).filter(alive).count()
    }

    /// Marks a rank as dead for all ranks; the first one marked is kept.
    pub fn mark_dead(&self, rank: usize) {
        let line = self.memory.counter(0);
        let _ = line.compare_exchange(0, rank as u64 + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn reason_offset(&self, rank: usize) -> usize {
        assert!(rank < self.ranks, "a rank has its place on the board");
        LINE * (self.ranks + 1) + WORDS * rank
    }

    /// Records the reason of this rank's failure for the launcher; long texts are truncated.
    pub fn record_reason(&self, rank: usize, text: &str) {
        let mut bytes = text.as_bytes();
        while bytes.len() > WORDS - 8 || std::str::from_utf8(bytes).is_err() {
            bytes = &bytes[..(bytes.len() - 1).min(WORDS - 8)];
        }
        let at = self.reason_offset(rank);
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.memory.counter(at + 8 + 8 * i).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.memory.counter(at).store(bytes.len() as u64, Ordering::Release);
    }

    /// Returns a rank's recorded failure reason.
    pub fn reason(&self, rank: usize) -> Option<String> {
        let at = self.reason_offset(rank);
        let length = (self.memory.counter(at).load(Ordering::Acquire) as usize).min(WORDS - 8);
        let word = |i: usize| self.memory.counter(at + 8 + 8 * i).load(Ordering::Relaxed).to_le_bytes();
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(word).collect();
        bytes.truncate(length);
        (length > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Fails if a rank of this host is dead.
    pub fn check(&self) -> Result<(), Failure> {
        self.check_peers(now_ms())
    }

    pub(super) fn check_peers(&self, began: u64) -> Result<(), Failure> {
        let gone = self.memory.counter(0).load(Ordering::Relaxed);
        if gone > 0 {
            return Err(Failure::new(Code::Peer, format!("rank {} died", gone - 1)));
        }
        let now = now_ms();
        for rank in 0..self.ranks {
            let beat = self.memory.counter(LINE * (rank + 1)).load(Ordering::Relaxed);
            if beat > 0 && now.saturating_sub(beat) > self.peer_dead.as_millis() as u64 {
                return Err(Failure::new(
                    Code::Peer,
                    format!("rank {rank} sent no heartbeat for {} s", self.peer_dead.as_secs_f64()),
                ));
            }
        }
        if now.saturating_sub(began) > self.collective.as_millis() as u64 {
            let seconds = self.collective.as_secs_f64();
            return Err(Failure::new(Code::Peer, format!("a collective took more than {seconds} s")));
        }
        Ok(())
    }

    /// Waits until `ready`: spins briefly, then yields the core, then sleeps for longer and longer, and
    /// checks the board from time to time.
    fn wait(&self, ready: impl Fn() -> bool) -> Result<(), Failure> {
        for _ in 0..200 {
            if ready() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let (began, mut turns, mut pause) = (now_ms(), 0u32, SHORT);
        while !ready() {
            turns += 1;
            if turns < YIELDS {
                std::thread::yield_now();
                // On a busy machine each turn may take milliseconds.
                if turns.is_multiple_of(CHECKED) {
                    self.check_peers(began)?;
                }
                continue;
            }
            // Other ranks save, evaluate or check something alone: their cores are not needed here.
            self.check_peers(began)?;
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONG);
        }
        Ok(())
    }
}

/// A channel of numbered messages from every member of a group to every member. A member writes message n
/// into slot n mod `slots` after all have consumed message n - slots, and reads message n of the others after
/// they have produced it.
#[derive(Debug)]
pub(super) struct Channel {
    memory: SharedMemory,
    watch: Watchdog,
    base: usize,
    me: usize,
    members: usize,
    slots: usize,
    capacity: usize,
    produced: u64,
    consumed: u64,
}

impl Channel {
    fn slot_bytes(capacity: usize) -> usize {
        (4 * capacity).next_multiple_of(LINE)
    }

    /// Returns the bytes of a channel whose slots hold `capacity` f32.
    pub(super) fn bytes(members: usize, slots: usize, capacity: usize) -> usize {
        members * (2 * LINE + slots * Self::slot_bytes(capacity))
    }

    /// Creates member `me`'s view of the channel at `base`. All members pass the same numbers, and there is
    /// only one view for each (base, me).
    pub(super) fn new(
        watch: &Watchdog,
        base: usize,
        me: usize,
        members: usize,
        slots: usize,
        capacity: usize,
    ) -> Self {
        let memory = watch.memory.clone();
        assert!(base.is_multiple_of(LINE) && me < members && slots > 0, "a channel begins at a line");
        Self { memory, watch: watch.clone(), base, me, members, slots, capacity, produced: 0, consumed: 0 }
    }

    /// Returns the capacity of a message in elements.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    fn produced_of(&self, member: usize) -> &AtomicU64 {
        self.memory.counter(self.base + member * 2 * LINE)
    }

    fn consumed_of(&self, member: usize) -> &AtomicU64 {
        self.memory.counter(self.base + member * 2 * LINE + LINE)
    }

    fn slot(&self, member: usize, message: u64) -> usize {
        let index = member * self.slots + (message % self.slots as u64) as usize;
        self.base + self.members * 2 * LINE + index * Self::slot_bytes(self.capacity)
    }

    /// Writes the next message.
    pub(super) fn produce(&mut self, elements: usize, fill: impl FnOnce(&mut [f32])) -> Result<(), Failure> {
        assert!(elements <= self.capacity, "a message fits its slot");
        let n = self.produced;
        for member in 0..self.members {
            self.watch.wait(|| self.consumed_of(member).load(Ordering::Acquire) + self.slots as u64 > n)?;
        }
        // SAFETY: only this member writes its slots, and `&mut self` is its only channel value. Every member
        // has consumed message n - slots (the wait above, with acquire), so none reads this slot until it
        // sees message n, which is announced below with release.
        fill(unsafe { self.memory.write(self.slot(self.me, n), elements) });
        self.produced = n + 1;
        self.produced_of(self.me).store(self.produced, Ordering::Release);
        Ok(())
    }

    /// Reads the oldest message not read yet, of all members in order.
    pub(super) fn consume(&mut self, elements: usize, take: impl FnOnce(&[&[f32]])) -> Result<(), Failure> {
        assert!(elements <= self.capacity, "a message fits its slot");
        let n = self.consumed;
        for member in 0..self.members {
            self.watch.wait(|| self.produced_of(member).load(Ordering::Acquire) > n)?;
        }
        let parts: Vec<&[f32]> = (0..self.members)
            // SAFETY: the member has written message n (the wait above, with acquire) and writes this slot
            // again only after this member has consumed it, which is announced below, when the slices are
            // gone.
            .map(|member| unsafe { self.memory.read(self.slot(member, n), elements) })
            .collect();
        take(&parts);
        drop(parts);
        self.consumed = n + 1;
        self.consumed_of(self.me).store(self.consumed, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_sealed() {
        let memory = SharedMemory::create(4096).unwrap();
        let other = File::options().write(true).open(memory.path()).unwrap();
        assert!(other.set_len(0).is_err() && other.set_len(8192).is_err());
        SharedMemory::open(&memory.path(), 4096).unwrap();
        // A file whose owner could truncate it while it is mapped.
        let path = std::env::temp_dir().join(format!("trainc-worker-unsealed-{}", std::process::id()));
        std::fs::write(&path, [0; 4096]).unwrap();
        let failure = SharedMemory::open(path.to_str().unwrap(), 4096).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(failure.message.contains("its size is not sealed"), "{failure}");
    }
}
