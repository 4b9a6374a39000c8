//! Collectives over shared memory: each group has a channel for gathers, whose messages are whole shards so that the
//! next unit can be offered ahead, and a channel of small messages for everything that is summed.

use std::time::Duration;

use super::memory::{Channel, Memory, Watch};
use super::solo::Solo;
use super::{Collectives, Groups, Wire, reduce};
use crate::exit::Failure;
use crate::kernels::real::Real;

/// Elements of a message of the summing channel: 128 KiB, so that a few ranks' messages stay in the cache.
const CHUNK: usize = 32 * 1024;

/// How large a host's shared memory is and what lies where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Ranks of a shard group.
    pub shards: usize,
    /// Replicas.
    pub replicas: usize,
    /// Elements of the largest shard.
    pub largest_shard: usize,
    /// Gathers begun ahead.
    pub prefetch: usize,
}

impl Plan {
    /// Ranks.
    pub fn ranks(&self) -> usize {
        self.shards * self.replicas
    }

    fn slots(&self) -> usize {
        self.prefetch + 2
    }

    fn sum_bytes(members: usize) -> usize {
        if members == 1 { 0 } else { Channel::bytes(members, 2, CHUNK) }
    }

    fn gather_bytes(&self) -> usize {
        if self.shards == 1 { 0 } else { Channel::bytes(self.shards, self.slots(), self.largest_shard) }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        Watch::bytes(self.ranks())
            + Self::sum_bytes(self.ranks())
            + self.replicas * (self.gather_bytes() + Self::sum_bytes(self.shards))
            + self.shards * Self::sum_bytes(self.replicas)
    }

    /// The groups of `rank`.
    pub fn groups(
        &self,
        memory: &Memory,
        rank: usize,
        peer_dead: Duration,
        collective: Duration,
    ) -> (Groups, Watch) {
        let watch = Watch::new(memory, self.ranks(), peer_dead, collective);
        watch.beat(rank);
        let (shard, replica) = (rank % self.shards, rank / self.shards);
        let mut base = Watch::bytes(self.ranks());
        let world = Shm::group(&watch, base, None, rank, self.ranks());
        base += Self::sum_bytes(self.ranks());
        let each = self.gather_bytes() + Self::sum_bytes(self.shards);
        let here = base + replica * each;
        let gather = (self.shards > 1)
            .then(|| Channel::new(&watch, here, shard, self.shards, self.slots(), self.largest_shard));
        let shards = Shm::group(&watch, here + self.gather_bytes(), gather, shard, self.shards);
        base += self.replicas * each + shard * Self::sum_bytes(self.replicas);
        let replicas = Shm::group(&watch, base, None, replica, self.replicas);
        (Groups { world, shard: shards, replica: replicas }, watch)
    }
}

struct Shm {
    gather: Option<Channel>,
    sum: Channel,
    me: usize,
    members: usize,
}

impl Shm {
    fn group(
        watch: &Watch,
        base: usize,
        gather: Option<Channel>,
        me: usize,
        members: usize,
    ) -> Box<dyn Collectives> {
        if members == 1 {
            return Box::new(Solo::default());
        }
        Box::new(Self { gather, sum: Channel::new(watch, base, me, members, 2, CHUNK), me, members })
    }
}

fn message(elements: usize, wire: Wire) -> usize {
    match wire {
        Wire::F32 => elements,
        Wire::Bf16 => elements.div_ceil(2),
    }
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
        channel.produce(message(shard.len(), wire), |slot| match wire {
            Wire::F32 => slot.copy_from_slice(shard),
            Wire::Bf16 => {
                for (slot, pair) in slot.iter_mut().zip(shard.chunks(2)) {
                    let low = pair[0].bf16().to_bits() >> 16;
                    let high = pair.get(1).map_or(0, |v| v.bf16().to_bits() & 0xffff_0000);
                    *slot = f32::from_bits(low | high);
                }
            }
        })
    }

    fn end_gather(&mut self, full: &mut [f32], wire: Wire) -> Result<(), Failure> {
        let each = full.len() / self.members;
        let Some(channel) = &mut self.gather else { return Ok(()) };
        channel.consume(message(each, wire), |parts| {
            for (to, part) in full.chunks_exact_mut(each).zip(parts) {
                match wire {
                    Wire::F32 => to.copy_from_slice(part),
                    Wire::Bf16 => {
                        for (pair, packed) in to.chunks_mut(2).zip(*part) {
                            pair[0] = f32::from_bits(packed.to_bits() << 16);
                            if let Some(second) = pair.get_mut(1) {
                                *second = f32::from_bits(packed.to_bits() & 0xffff_0000);
                            }
                        }
                    }
                }
            }
        })
    }

    fn reduce_scatter(&mut self, full: &[f32], shard: &mut [f32]) -> Result<(), Failure> {
        let each = full.len() / self.members;
        let piece = (self.sum.capacity() / self.members).max(1);
        let me = self.me;
        for first in (0..each).step_by(piece) {
            let n = piece.min(each - first);
            self.sum.produce(n * self.members, |slot| {
                for (to, from) in slot.chunks_exact_mut(n).zip(full.chunks_exact(each)) {
                    to.copy_from_slice(&from[first..first + n]);
                }
            })?;
            self.sum.consume(n * self.members, |parts| {
                let mine: Vec<&[f32]> = parts.iter().map(|part| &part[me * n..(me + 1) * n]).collect();
                reduce(&mine, &mut shard[first..first + n], true);
            })?;
        }
        Ok(())
    }

    fn all_reduce(&mut self, values: &mut [f32]) -> Result<(), Failure> {
        for values in values.chunks_mut(CHUNK) {
            self.sum.produce(values.len(), |slot| slot.copy_from_slice(values))?;
            self.sum.consume(values.len(), |parts| reduce(parts, values, false))?;
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
                    *value = parts
                        .iter()
                        .map(|part| {
                            let (low, high) = (part[2 * i].to_bits(), part[2 * i + 1].to_bits());
                            f64::from_bits(u64::from(low) | u64::from(high) << 32)
                        })
                        .sum();
                }
            })?;
        }
        Ok(())
    }

    fn broadcast(&mut self, root: usize, values: &mut [f32]) -> Result<(), Failure> {
        let me = self.me;
        for values in values.chunks_mut(CHUNK) {
            self.sum.produce(values.len(), |slot| {
                if me == root {
                    slot.copy_from_slice(values);
                }
            })?;
            self.sum.consume(values.len(), |parts| values.copy_from_slice(parts[root]))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Code;
    use crate::model::init::mix;

    fn value(rank: usize, round: usize, i: usize) -> f32 {
        (mix((rank * 1_000_003 + round * 7919 + i) as u64) % 1000) as f32 / 8.0
    }

    fn stress(shards: usize, replicas: usize, rounds: usize) {
        let plan = Plan { shards, replicas, largest_shard: 2048, prefetch: 1 };
        let memory = Memory::create(plan.bytes()).unwrap();
        std::thread::scope(|scope| {
            for rank in 0..plan.ranks() {
                let memory = memory.clone();
                scope.spawn(move || {
                    let long = Duration::from_mins(1);
                    let (mut groups, _watch) = plan.groups(&memory, rank, long, long);
                    let mine = rank / shards * shards;
                    for round in 0..rounds {
                        let n = 16 * (1 + mix(round as u64) as usize % 128);
                        let wire = if round % 3 == 0 { Wire::Bf16 } else { Wire::F32 };
                        let shard: Vec<f32> = (0..n).map(|i| (value(rank, round, i)).bf16()).collect();
                        // Two gathers begun before one ends, with a sum between them.
                        groups.shard.begin_gather(&shard, wire).unwrap();
                        groups.shard.begin_gather(&shard, wire).unwrap();
                        let full: Vec<f32> = (0..n * shards).map(|i| value(rank, round, i)).collect();
                        let mut part = vec![1.0f32; n];
                        groups.shard.reduce_scatter(&full, &mut part).unwrap();
                        for (i, p) in part.iter().enumerate() {
                            let at = (rank - mine) * n + i;
                            let sum: f32 = (0..shards).map(|r| value(mine + r, round, at)).sum();
                            assert_eq!(*p, sum + 1.0);
                        }
                        for _ in 0..2 {
                            let mut full = vec![0.0f32; n * shards];
                            groups.shard.end_gather(&mut full, wire).unwrap();
                            for (i, f) in full.iter().enumerate() {
                                assert_eq!(*f, value(mine + i / n, round, i % n).bf16());
                            }
                        }
                        let mut all = vec![rank as f64 + 0.5, round as f64];
                        groups.world.all_reduce_f64(&mut all).unwrap();
                        let ranks = plan.ranks() as f64;
                        assert_eq!(all, [ranks * (ranks - 1.0) / 2.0 + ranks * 0.5, ranks * round as f64]);
                        let mut sum = vec![value(rank, round, 0); 3];
                        groups.replica.all_reduce(&mut sum).unwrap();
                        let expected: f32 =
                            (0..replicas).map(|r| value(r * shards + rank % shards, round, 0)).sum();
                        assert_eq!(sum, [expected; 3]);
                        let mut word = vec![rank as f32; 5];
                        let root = round % plan.ranks();
                        groups.world.broadcast(root, &mut word).unwrap();
                        assert_eq!(word, [root as f32; 5]);
                    }
                });
            }
        });
    }

    #[test]
    fn threads_as_ranks_agree() {
        stress(2, 1, 300);
        stress(1, 3, 100);
        stress(4, 2, 100);
        stress(3, 1, 100);
    }

    #[test]
    fn large_sums_go_in_pieces() {
        let plan = Plan { shards: 2, replicas: 1, largest_shard: 100_000, prefetch: 0 };
        let memory = Memory::create(plan.bytes()).unwrap();
        let sums: Vec<f32> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..2)
                .map(|rank| {
                    let memory = memory.clone();
                    scope.spawn(move || {
                        let long = Duration::from_mins(1);
                        let (mut groups, _) = plan.groups(&memory, rank, long, long);
                        let full: Vec<f32> = (0..200_000).map(|i| (i % 1000) as f32).collect();
                        let mut shard = vec![0.0; 100_000];
                        groups.shard.reduce_scatter(&full, &mut shard).unwrap();
                        assert!(shard.iter().enumerate().all(|(i, v)| *v == 2.0 * (i % 1000) as f32));
                        let mut all = full;
                        groups.world.all_reduce(&mut all).unwrap();
                        all[199_999]
                    })
                })
                .collect();
            ranks.into_iter().map(|r| r.join().unwrap()).collect()
        });
        assert_eq!(sums, [1998.0, 1998.0]);
    }

    #[test]
    fn a_peer_that_stays_away_is_an_error() {
        let plan = Plan { shards: 2, replicas: 1, largest_shard: 16, prefetch: 0 };
        let memory = Memory::create(plan.bytes()).unwrap();
        let short = Duration::from_millis(150);
        let (mut groups, _) = plan.groups(&memory, 0, Duration::from_mins(1), short);
        let failure = groups.world.barrier().unwrap_err();
        assert_eq!(failure.code, Code::Peer);
        assert!(failure.message.contains("a collective took more than 0.15 s"), "{failure}");
        let (mut groups, watch) = plan.groups(&memory, 0, Duration::from_mins(1), Duration::from_mins(1));
        watch.bury(1);
        assert_eq!(groups.world.barrier().unwrap_err().message, "rank 1 died");
        let memory = Memory::create(plan.bytes()).unwrap();
        let (_, watch) = plan.groups(&memory, 1, short, Duration::from_mins(1));
        let (mut groups, _) = plan.groups(&memory, 0, short, Duration::from_mins(1));
        let beats = std::thread::spawn(move || {
            for _ in 0..8 {
                std::thread::sleep(Duration::from_millis(50));
                watch.beat(0);
            }
        });
        let failure = groups.world.barrier().unwrap_err();
        assert_eq!(failure.message, "rank 1 gave no sign of life for 0.15 s");
        beats.join().unwrap();
    }
}
