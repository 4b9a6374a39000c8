//! Collectives over shared memory. Each group has a channel for gathers, whose messages are whole shards so
//! that the next unit can be prefetched, and a channel of small messages for sums.

use std::time::Duration;

use super::hierarchical::Hierarchical;
use super::shared_memory::{Channel, SharedMemory, Watchdog};
use super::single_rank::SingleRank;
use super::tcp::Connections;
use super::topology::{KINDS, Kind, Step, Topology};
use super::{Collectives, Groups, Wire, sum_packed_parts, tree_sum_f64};
use crate::exit::Failure;

/// Elements of a message in the channel for sums: 128 KiB, so that the messages of a few ranks stay in the
/// cache.
const CHUNK: usize = 32 * 1024;

/// A group of one step: its ranks, and the offsets of its channels.
struct GroupLayout {
    kind: Kind,
    step: Step,
    members: Vec<usize>,
    base: usize,
}

/// Size and layout of the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Ranks and hosts.
    pub topology: Topology,
    /// Elements of the largest shard.
    pub largest_shard: usize,
    /// Number of prefetched gathers.
    pub prefetch: usize,
    /// Host whose memory this is; none if all ranks run on this host.
    pub host: Option<usize>,
}

impl Plan {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.topology.ranks()
    }

    /// Returns the slots and elements of the gathers of a step.
    fn gather_slots(&self, kind: Kind, step: Step, members: usize) -> Option<(usize, usize)> {
        if kind != Kind::Shard || members == 1 {
            return None;
        }
        let hosts = self.topology.members(kind, Step::Outer, 0).len();
        Some(match step {
            // A gather between hosts is followed by the gather on the host immediately.
            Step::Inner if hosts > 1 => (2, self.largest_shard * hosts),
            Step::Inner | Step::Outer => (self.prefetch + 2, self.largest_shard),
        })
    }

    fn group_bytes(&self, kind: Kind, step: Step, members: usize) -> usize {
        if members == 1 {
            return 0;
        }
        let gather = self.gather_slots(kind, step, members);
        Channel::bytes(members, 2, CHUNK)
            + gather.map_or(0, |(slots, elements)| Channel::bytes(members, slots, elements))
    }

    /// Returns every group, and the end of the last.
    fn layout(&self) -> (Vec<GroupLayout>, usize) {
        let mut at = Watchdog::bytes(self.ranks());
        let mut all = Vec::new();
        for kind in KINDS {
            for step in [Step::Inner, Step::Outer] {
                for members in self.topology.groups(kind, step) {
                    let elsewhere =
                        |host| step == Step::Outer || members[0] / self.topology.per_host() != host;
                    if self.host.is_some_and(elsewhere) {
                        continue;
                    }
                    let bytes = self.group_bytes(kind, step, members.len());
                    all.push(GroupLayout { kind, step, members, base: at });
                    at += bytes;
                }
            }
        }
        (all, at)
    }

    /// Returns the bytes of all slots for gathers.
    pub fn gather_bytes(&self) -> usize {
        let all = [Step::Inner, Step::Outer].into_iter().flat_map(|step| {
            let groups = self.topology.groups(Kind::Shard, step);
            groups.into_iter().filter_map(move |members| {
                let (slots, elements) = self.gather_slots(Kind::Shard, step, members.len())?;
                Some(Channel::bytes(members.len(), slots, elements))
            })
        });
        all.sum()
    }

    /// Returns the total size in bytes.
    pub fn bytes(&self) -> usize {
        self.layout().1
    }

    /// Returns the groups of `rank` if all ranks run on this host.
    pub fn groups(
        &self,
        memory: &SharedMemory,
        rank: usize,
        peer_dead: Duration,
        collective: Duration,
    ) -> (Groups, Watchdog) {
        let watch = Watchdog::new(memory, self.ranks(), peer_dead, collective);
        watch.beat(rank);
        (self.groups_with(&watch, rank, Connections::default()), watch)
    }

    /// Returns the groups of `rank`; traffic between hosts uses `connections`.
    pub fn groups_with(&self, watch: &Watchdog, rank: usize, mut connections: Connections) -> Groups {
        let (all, _) = self.layout();
        let one = |kind: Kind, step: Step| -> Box<dyn Collectives> {
            let mine = all.iter().find(|g| g.kind == kind && g.step == step && g.members.contains(&rank));
            let Some(GroupLayout { members, base, .. }) = mine else {
                return Box::new(SingleRank::default());
            };
            let me = members.iter().position(|r| *r == rank).unwrap_or(0);
            self.shm(watch, kind, step, *base, me, members.len())
        };
        let mut both = |kind| {
            let outer = connections.take(kind).unwrap_or_else(|| one(kind, Step::Outer));
            Hierarchical::combine_steps(kind, one(kind, Step::Inner), outer)
        };
        Groups { world: both(Kind::World), shard: both(Kind::Shard), replica: both(Kind::Replica) }
    }

    fn shm(
        &self,
        watch: &Watchdog,
        kind: Kind,
        step: Step,
        base: usize,
        me: usize,
        members: usize,
    ) -> Box<dyn Collectives> {
        if members == 1 {
            return Box::new(SingleRank::default());
        }
        let gather = self.gather_slots(kind, step, members).map(|(slots, elements)| {
            Channel::new(watch, base + Channel::bytes(members, 2, CHUNK), me, members, slots, elements)
        });
        Box::new(Shm { gather, sum: Channel::new(watch, base, me, members, 2, CHUNK), me, members })
    }
}

struct Shm {
    gather: Option<Channel>,
    sum: Channel,
    me: usize,
    members: usize,
}

impl Collectives for Shm {
    fn rank(&self) -> usize {
        self.me
    }

    fn size(&self) -> usize {
        self.members
    }

    fn begin_gather(&mut self, shard: &[f32], wire: Wire) -> Result<(), Failure> {
        let Some(channel) = &mut self.gather else { return Ok(()) };
        channel.produce(wire.words(shard.len()), |slot| wire.pack(shard, slot))
    }

    fn end_gather(&mut self, full: &mut [f32], wire: Wire) -> Result<(), Failure> {
        let each = full.len() / self.members;
        let Some(channel) = &mut self.gather else { return Ok(()) };
        channel.consume(wire.words(each), |parts| {
            for (to, part) in full.chunks_exact_mut(each).zip(parts) {
                wire.unpack(part, to);
            }
        })
    }

    fn reduce_scatter(&mut self, full: &[f32], shard: &mut [f32], wire: Wire) -> Result<(), Failure> {
        let each = full.len() / self.members;
        let piece = (self.sum.capacity() / self.members).max(1);
        let me = self.me;
        for first in (0..each).step_by(piece) {
            let n = piece.min(each - first);
            let words = wire.words(n);
            self.sum.produce(words * self.members, |slot| {
                for (to, from) in slot.chunks_exact_mut(words).zip(full.chunks_exact(each)) {
                    wire.pack(&from[first..first + n], to);
                }
            })?;
            self.sum.consume(words * self.members, |parts| {
                let mine: Vec<&[f32]> =
                    parts.iter().map(|part| &part[me * words..(me + 1) * words]).collect();
                sum_packed_parts(&mine, wire, &mut shard[first..first + n], true);
            })?;
        }
        Ok(())
    }

    fn all_reduce(&mut self, values: &mut [f32], wire: Wire) -> Result<(), Failure> {
        for values in values.chunks_mut(CHUNK) {
            let words = wire.words(values.len());
            self.sum.produce(words, |slot| wire.pack(values, slot))?;
            self.sum.consume(words, |parts| sum_packed_parts(parts, wire, values, false))?;
        }
        Ok(())
    }

    fn all_reduce_f64(&mut self, values: &mut [f64]) -> Result<(), Failure> {
        for values in values.chunks_mut(CHUNK / 2) {
            self.sum.produce(2 * values.len(), |slot| {
                for (pair, value) in slot.chunks_exact_mut(2).zip(values.iter()) {
                    let bits = value.to_bits();
                    pair[0] = f32::from_bits(bits as u32);
                    pair[1] = f32::from_bits((bits >> 32) as u32);
                }
            })?;
            self.sum.consume(2 * values.len(), |parts| {
                for (i, value) in values.iter_mut().enumerate() {
                    let each = |part: &&[f32]| {
                        let (low, high) = (part[2 * i].to_bits(), part[2 * i + 1].to_bits());
                        f64::from_bits(u64::from(low) | u64::from(high) << 32)
                    };
                    let all: Vec<f64> = parts.iter().map(each).collect();
                    *value = tree_sum_f64(&all);
                }
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::exit::Code;
    use crate::kernels::real::Real;
    use crate::model::init::mix;

    fn plan(shards: usize, replicas: usize, hosts: usize, largest_shard: usize, prefetch: usize) -> Plan {
        let topology = Topology { shards, replicas, hosts };
        assert!(topology.fits_two_steps());
        Plan { topology, largest_shard, prefetch, host: None }
    }

    fn value(rank: usize, round: usize, i: usize) -> f32 {
        (mix((rank * 1_000_003 + round * 7919 + i) as u64) % 1000) as f32 / 8.0
    }

    fn stress(shards: usize, replicas: usize, hosts: usize, rounds: usize) {
        let plan = plan(shards, replicas, hosts, 2048, 1);
        let memory = SharedMemory::create(plan.bytes()).unwrap();
        std::thread::scope(|scope| {
            for rank in 0..plan.ranks() {
                let memory = memory.clone();
                scope.spawn(move || {
                    let long = Duration::from_mins(1);
                    let (mut groups, _watch) = plan.groups(&memory, rank, long, long);
                    let mine = rank / shards * shards;
                    // Order of the shards: by rank, or host by host within a position.
                    let across = plan.topology.members(Kind::Shard, Step::Outer, rank).len();
                    let inside = shards / across;
                    let holder = |shard: usize| mine + shard % across * inside + shard / across;
                    let place = groups.shard.rank();
                    assert_eq!((holder(place), groups.world.rank()), (rank, rank));
                    assert_eq!(groups.replica.rank(), rank / shards);
                    for round in 0..rounds {
                        let n = 16 * (1 + mix(round as u64) as usize % 128);
                        let wire = if round % 3 == 0 { Wire::Bf16 } else { Wire::F32 };
                        let shard: Vec<f32> = (0..n).map(|i| (value(rank, round, i)).bf16()).collect();
                        // Two pending gathers with a sum in between.
                        groups.shard.begin_gather(&shard, wire).unwrap();
                        groups.shard.begin_gather(&shard, wire).unwrap();
                        let full: Vec<f32> = (0..n * shards).map(|i| value(rank, round, i)).collect();
                        let mut part = vec![1.0f32; n];
                        groups.shard.reduce_scatter(&full, &mut part, Wire::F32).unwrap();
                        for (i, p) in part.iter().enumerate() {
                            let at = place * n + i;
                            let sum: f32 = (0..shards).map(|r| value(mine + r, round, at)).sum();
                            assert_eq!(*p, sum + 1.0);
                        }
                        for _ in 0..2 {
                            let mut full = vec![0.0f32; n * shards];
                            groups.shard.end_gather(&mut full, wire).unwrap();
                            for (i, f) in full.iter().enumerate() {
                                assert_eq!(*f, value(holder(i / n), round, i % n).bf16());
                            }
                        }
                        let mut all = vec![rank as f64 + 0.5, round as f64];
                        groups.world.all_reduce_f64(&mut all).unwrap();
                        let ranks = plan.ranks() as f64;
                        assert_eq!(all, [ranks * (ranks - 1.0) / 2.0 + ranks * 0.5, ranks * round as f64]);
                        let mut sum = vec![value(rank, round, 0); 3];
                        groups.replica.all_reduce(&mut sum, Wire::F32).unwrap();
                        let expected: f32 =
                            (0..replicas).map(|r| value(r * shards + rank % shards, round, 0)).sum();
                        assert_eq!(sum, [expected; 3]);
                        // Sums of rounded values: small integers are exact in bf16.
                        let mut small = vec![(rank + round % 8) as f32; 7];
                        groups.world.all_reduce(&mut small, Wire::Bf16).unwrap();
                        let all: usize = (0..plan.ranks()).map(|r| r + round % 8).sum();
                        assert_eq!(small, [all as f32; 7]);
                        let mut part = vec![0.0f32; 3];
                        let full = vec![rank as f32; 3 * shards];
                        groups.shard.reduce_scatter(&full, &mut part, Wire::Bf16).unwrap();
                        let all: usize = (mine..mine + shards).sum();
                        assert_eq!(part, [all as f32; 3]);
                    }
                });
            }
        });
    }

    #[test]
    fn threads_as_ranks_agree() {
        stress(2, 1, 1, 300);
        stress(1, 3, 1, 100);
        stress(4, 2, 1, 100);
        stress(3, 1, 1, 100);
    }

    #[test]
    fn threads_as_ranks_on_hosts_agree() {
        stress(4, 1, 2, 100);
        stress(2, 4, 2, 60);
        stress(4, 2, 4, 60);
        stress(6, 1, 3, 60);
    }

    #[test]
    fn large_sums_go_in_pieces() {
        let plan = plan(2, 1, 1, 100_000, 0);
        let memory = SharedMemory::create(plan.bytes()).unwrap();
        let sums: Vec<f32> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..2)
                .map(|rank| {
                    let memory = memory.clone();
                    scope.spawn(move || {
                        let long = Duration::from_mins(1);
                        let (mut groups, _) = plan.groups(&memory, rank, long, long);
                        let full: Vec<f32> = (0..200_000).map(|i| (i % 1000) as f32).collect();
                        let mut shard = vec![0.0; 100_000];
                        groups.shard.reduce_scatter(&full, &mut shard, Wire::F32).unwrap();
                        assert!(shard.iter().enumerate().all(|(i, v)| *v == 2.0 * (i % 1000) as f32));
                        let mut all = full;
                        groups.world.all_reduce(&mut all, Wire::F32).unwrap();
                        all[199_999]
                    })
                })
                .collect();
            ranks.into_iter().map(|r| r.join().unwrap()).collect()
        });
        assert_eq!(sums, [1998.0, 1998.0]);
    }

    #[test]
    fn last_words() {
        let plan = plan(2, 1, 1, 16, 0);
        let memory = SharedMemory::create(plan.bytes()).unwrap();
        let watch = Watchdog::new(&memory, 2, Duration::MAX, Duration::MAX);
        assert_eq!(watch.reason(1), None);
        watch.record_reason(1, "the disk is full: é");
        watch.record_reason(0, &"é".repeat(600));
        assert_eq!(watch.reason(1).unwrap(), "the disk is full: é");
        assert_eq!(watch.reason(0).unwrap(), "é".repeat(508));
    }

    #[test]
    fn a_peer_that_stays_away_is_an_error() {
        let plan = plan(2, 1, 1, 16, 0);
        let memory = SharedMemory::create(plan.bytes()).unwrap();
        let short = Duration::from_millis(150);
        let (mut groups, _) = plan.groups(&memory, 0, Duration::from_mins(1), short);
        let failure = groups.world.barrier().unwrap_err();
        assert_eq!(failure.code, Code::Peer);
        assert!(failure.message.contains("a collective took more than 0.15 s"), "{failure}");
        let (mut groups, watch) = plan.groups(&memory, 0, Duration::from_mins(1), Duration::from_mins(1));
        watch.mark_dead(1);
        assert_eq!(groups.world.barrier().unwrap_err().message, "rank 1 died");
        let memory = SharedMemory::create(plan.bytes()).unwrap();
        // Long enough for the beats of a busy machine.
        let silence = Duration::from_secs(2);
        let (_, watch) = plan.groups(&memory, 1, silence, Duration::from_mins(1));
        let (mut groups, _) = plan.groups(&memory, 0, silence, Duration::from_mins(1));
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                    watch.beat(0);
                }
            });
            let failure = groups.world.barrier().unwrap_err();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(failure.message, "rank 1 sent no heartbeat for 2 s");
        });
    }
}
