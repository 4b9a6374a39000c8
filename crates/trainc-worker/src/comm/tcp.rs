//! Collectives between hosts, with a TCP connection for each pair of members and each kind of message. They
//! are only used as the outer step of groups that span hosts; within a host ranks share memory. Each
//! connection has a sending thread, so that ranks that send to each other at the same time cannot deadlock on
//! full buffers.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::shared_memory::Watchdog;
use super::topology::{Kind, Step, Topology};
use super::{Collectives, Wire, sum_packed_parts, tree_sum_f64};
use crate::authentication::{self, Authenticator, Connection, HELLO, Key};
use crate::exit::{Code, Failure};
use crate::rendezvous::Settings;

/// Interval at which a rank that waits for bytes checks the board.
const BOARD_CHECK: Duration = Duration::from_millis(200);
/// Elements per message of a sum.
const CHUNK: usize = 256 * 1024;
/// Start of the handshake, followed by kind, purpose and the connecting rank.
const START: [u8; 8] = *b"trainc/2";

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Gather,
    Sum,
}

/// One end of a connection.
struct Peer {
    rank: usize,
    stream: TcpStream,
    queue: Option<Sender<Arc<Vec<u8>>>>,
    sending: Option<JoinHandle<()>>,
}

impl Drop for Peer {
    /// Flushes all messages before this process ends.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(sending) = self.sending.take() {
            let _ = sending.join();
        }
    }
}

/// A group whose members are on different hosts, as seen by one of them.
pub(super) struct Tcp {
    me: usize,
    members: usize,
    watch: Watchdog,
    gather: Vec<Option<Peer>>,
    sum: Vec<Option<Peer>>,
    /// This rank's own shards of the pending gathers.
    begun: VecDeque<Vec<f32>>,
}

fn lost_connection(rank: usize, why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Peer, format!("lost the connection to rank {rank}: {why}"))
}

impl Peer {
    fn new(rank: usize, stream: TcpStream, watch: &Watchdog) -> Result<Self, Failure> {
        let prepare = || -> std::io::Result<TcpStream> {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(BOARD_CHECK))?;
            stream.set_write_timeout(Some(watch.collective_timeout()))?;
            stream.try_clone()
        };
        let mut out = prepare().map_err(|e| lost_connection(rank, e))?;
        let (queue, messages) = channel::<Arc<Vec<u8>>>();
        let sending = std::thread::spawn(move || {
            // A failed send is detected by the reader: this rank reads from the same peer, and the peer from
            // this rank.
            while let Ok(message) = messages.recv() {
                if out.write_all(&message).is_err() {
                    break;
                }
            }
            let _ = out.shutdown(std::net::Shutdown::Write);
        });
        Ok(Self { rank, stream, queue: Some(queue), sending: Some(sending) })
    }

    fn send(&self, message: Arc<Vec<u8>>) -> Result<(), Failure> {
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(message).is_ok());
        if sent { Ok(()) } else { Err(lost_connection(self.rank, "the peer no longer accepts messages")) }
    }

    fn receive(&mut self, bytes: usize, watch: &Watchdog) -> Result<Vec<u8>, Failure> {
        let mut message = vec![0u8; bytes];
        let (mut have, began) = (0, Watchdog::now());
        while have < bytes {
            match self.stream.read(&mut message[have..]) {
                Ok(0) => {
                    // The rank that ends first is not necessarily the cause: the board may name another.
                    watch.check_peers(began)?;
                    return Err(lost_connection(self.rank, "closed by the peer"));
                }
                Ok(n) => have += n,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    watch.check_peers(began)?;
                }
                Err(e) => return Err(lost_connection(self.rank, e)),
            }
        }
        Ok(message)
    }
}

fn words_to_bytes(words: &[f32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn bytes_to_words(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn packed(values: &[f32], wire: Wire) -> Vec<f32> {
    let mut words = vec![0.0; wire.words(values.len())];
    wire.pack(values, &mut words);
    words
}

impl Tcp {
    /// Exchanges words: sends `to(member)` to each member and returns the words of all, including this
    /// rank's.
    fn exchange(&mut self, words: usize, to: impl Fn(usize) -> Vec<f32>) -> Result<Vec<Vec<f32>>, Failure> {
        for (member, peer) in self.sum.iter().enumerate() {
            if let Some(peer) = peer {
                peer.send(Arc::new(words_to_bytes(&to(member))))?;
            }
        }
        let mut all = Vec::with_capacity(self.members);
        for (member, peer) in self.sum.iter_mut().enumerate() {
            all.push(match peer {
                Some(peer) => bytes_to_words(&peer.receive(4 * words, &self.watch)?),
                None => to(member),
            });
        }
        Ok(all)
    }
}

impl Collectives for Tcp {
    fn rank(&self) -> usize {
        self.me
    }

    fn size(&self) -> usize {
        self.members
    }

    fn begin_gather(&mut self, shard: &[f32], wire: Wire) -> Result<(), Failure> {
        let words = packed(shard, wire);
        let message = Arc::new(words_to_bytes(&words));
        for peer in self.gather.iter().flatten() {
            peer.send(Arc::clone(&message))?;
        }
        self.begun.push_back(words);
        Ok(())
    }

    fn end_gather(&mut self, full: &mut [f32], wire: Wire) -> Result<(), Failure> {
        let each = full.len() / self.members;
        let mine = self.begun.pop_front().unwrap_or_default();
        for (to, peer) in full.chunks_exact_mut(each).zip(&mut self.gather) {
            match peer {
                Some(peer) => {
                    wire.unpack(&bytes_to_words(&peer.receive(4 * wire.words(each), &self.watch)?), to);
                }
                None => wire.unpack(&mine, to),
            }
        }
        Ok(())
    }

    fn reduce_scatter(&mut self, full: &[f32], shard: &mut [f32], wire: Wire) -> Result<(), Failure> {
        let each = full.len() / self.members;
        for first in (0..each).step_by(CHUNK) {
            let n = CHUNK.min(each - first);
            let parts = self.exchange(wire.words(n), |member| {
                packed(&full[member * each + first..member * each + first + n], wire)
            })?;
            let parts: Vec<&[f32]> = parts.iter().map(Vec::as_slice).collect();
            sum_packed_parts(&parts, wire, &mut shard[first..first + n], true);
        }
        Ok(())
    }

    fn all_reduce(&mut self, values: &mut [f32], wire: Wire) -> Result<(), Failure> {
        let members = self.members;
        for values in values.chunks_mut(CHUNK) {
            // Each member sums one part and sends the sum to all.
            let part = values.len().div_ceil(members);
            let mut padded = values.to_vec();
            padded.resize(part * members, 0.0);
            let parts = self.exchange(wire.words(part), |member| {
                packed(&padded[member * part..(member + 1) * part], wire)
            })?;
            let parts: Vec<&[f32]> = parts.iter().map(Vec::as_slice).collect();
            let mut sum = vec![0.0; part];
            sum_packed_parts(&parts, wire, &mut sum, false);
            let sums = self.exchange(part, |_| sum.clone())?;
            for (to, from) in values.chunks_mut(part.max(1)).zip(&sums) {
                to.copy_from_slice(&from[..to.len()]);
            }
        }
        Ok(())
    }

    fn all_reduce_f64(&mut self, values: &mut [f64]) -> Result<(), Failure> {
        let words: Vec<f32> = values
            .iter()
            .flat_map(|v| [v.to_bits() as u32, (v.to_bits() >> 32) as u32].map(f32::from_bits))
            .collect();
        let parts = self.exchange(words.len(), |_| words.clone())?;
        for (i, value) in values.iter_mut().enumerate() {
            let each = |part: &Vec<f32>| {
                let (low, high) = (part[2 * i].to_bits(), part[2 * i + 1].to_bits());
                f64::from_bits(u64::from(low) | u64::from(high) << 32)
            };
            *value = tree_sum_f64(&parts.iter().map(each).collect::<Vec<_>>());
        }
        Ok(())
    }
}

/// The connections of one rank: those of each kind of group that spans hosts.
#[derive(Default)]
pub struct Connections {
    made: Vec<(Kind, Tcp)>,
}

impl Connections {
    /// Connects to all ranks of other hosts that share a group with this one and have the same key and
    /// settings. In each pair the higher rank connects.
    pub fn connect(
        topology: &Topology,
        rank: usize,
        listener: &TcpListener,
        roster: &[String],
        (key, settings): (&Key, &Settings),
        watch: &Watchdog,
        join: Duration,
    ) -> Result<Self, Failure> {
        let until = Instant::now() + join;
        let digest: Vec<u8> = settings
            .iter()
            .flat_map(|(path, mac)| [path.as_bytes(), b"=", mac.as_bytes(), b"\n"].concat())
            .collect();
        // The hello names the rank that connects, the context the one that is connected to.
        let context = |to: usize| [&(to as u64).to_le_bytes()[..], &digest].concat();
        let mut open: Vec<(Kind, Purpose, usize, TcpStream)> = Vec::new();
        let mut expected: BTreeMap<[u8; HELLO], (Kind, Purpose, usize)> = BTreeMap::new();
        for kind in super::topology::KINDS {
            for other in topology.members(kind, Step::Outer, rank) {
                for purpose in purposes(kind) {
                    if other < rank {
                        let to = (&*roster[other], other, &context(other)[..]);
                        let stream = connect_peer(to, key, &hello(kind, *purpose, rank), until)?;
                        open.push((kind, *purpose, other, stream));
                    } else if other > rank {
                        expected.insert(hello(kind, *purpose, other), (kind, *purpose, other));
                    }
                }
            }
        }
        listener
            .set_nonblocking(true)
            .map_err(|e| Failure::new(Code::Peer, format!("cannot listen: {e}")))?;
        let mut authenticator = Authenticator::new(key);
        let (arrived, arrivals) = channel();
        while !expected.is_empty() {
            while let Ok(connection) = arrivals.try_recv() {
                let connection: Connection = connection;
                if let Some((kind, purpose, other)) = expected.remove(&connection.hello) {
                    open.push((kind, purpose, other, connection.stream));
                }
            }
            match listener.accept() {
                Ok((stream, _)) => {
                    let (context, arrived) = (context(rank), arrived.clone());
                    authenticator.authenticate(
                        stream,
                        |_| Some(context),
                        move |connection| {
                            // Nothing waits for connections once all have arrived.
                            let _ = arrived.send(connection);
                        },
                    );
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    watch.check_peers(Watchdog::now())?;
                    if Instant::now() > until {
                        return Err(Failure::new(
                            Code::Peer,
                            format!("{} connections from other hosts were not established", expected.len()),
                        ));
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(e) => return Err(Failure::new(Code::Peer, format!("cannot accept: {e}"))),
            }
        }
        let mut made = Vec::new();
        for kind in super::topology::KINDS {
            let members = topology.members(kind, Step::Outer, rank);
            if members.len() == 1 {
                continue;
            }
            let mut tcp = Tcp {
                me: members.iter().position(|r| *r == rank).unwrap_or(0),
                members: members.len(),
                watch: watch.clone(),
                gather: members.iter().map(|_| None).collect(),
                sum: members.iter().map(|_| None).collect(),
                begun: VecDeque::new(),
            };
            while let Some(at) = open.iter().position(|(k, ..)| *k == kind) {
                let (_, purpose, other, stream) = open.swap_remove(at);
                let Some(place) = members.iter().position(|r| *r == other) else { continue };
                let side = if purpose == Purpose::Gather { &mut tcp.gather } else { &mut tcp.sum };
                side[place] = Some(Peer::new(other, stream, watch)?);
            }
            made.push((kind, tcp));
        }
        Ok(Self { made })
    }

    /// Removes and returns the outer step of a kind of group, if it spans hosts.
    pub(super) fn take(&mut self, kind: Kind) -> Option<Box<dyn Collectives>> {
        let at = self.made.iter().position(|(k, _)| *k == kind)?;
        Some(Box::new(self.made.swap_remove(at).1))
    }
}

fn purposes(kind: Kind) -> &'static [Purpose] {
    if kind == Kind::Shard { &[Purpose::Gather, Purpose::Sum] } else { &[Purpose::Sum] }
}

fn hello(kind: Kind, purpose: Purpose, rank: usize) -> [u8; HELLO] {
    let mut text = [0; HELLO];
    text[..8].copy_from_slice(&START);
    text[8] = kind as u8;
    text[9] = purpose as u8;
    text[10..14].copy_from_slice(&(rank as u32).to_le_bytes());
    text
}

/// Connects to a rank, given its address, number and context.
fn connect_peer(
    (address, other, context): (&str, usize, &[u8]),
    key: &Key,
    hello: &[u8; HELLO],
    until: Instant,
) -> Result<TcpStream, Failure> {
    loop {
        let connected = TcpStream::connect(address)
            .and_then(|stream| authentication::connect(stream, key, hello, context, until));
        match connected {
            Ok(connection) => return Ok(connection.stream),
            Err(error) if Instant::now() > until => {
                return Err(Failure::new(
                    Code::Peer,
                    format!("rank {other} at {address} cannot be reached: {error}"),
                ));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::SharedMemory;
    use crate::comm::shm::Plan;
    use crate::model::init::mix;

    fn key() -> Key {
        Key::parse(&"07".repeat(32)).unwrap()
    }

    fn value(rank: usize, round: usize, i: usize) -> f32 {
        (mix((rank * 1_000_003 + round * 7919 + i) as u64) % 256) as f32
    }

    /// Threads as ranks of several hosts, each host with its own memory, connected over the loopback.
    fn stress(shards: usize, replicas: usize, hosts: usize, rounds: usize) {
        let topology = Topology { shards, replicas, hosts };
        let plan = |host| Plan { topology, largest_shard: 4096, prefetch: 1, host: Some(host) };
        let memories: Vec<SharedMemory> =
            (0..hosts).map(|host| SharedMemory::create(plan(host).bytes()).unwrap()).collect();
        let listeners: Vec<TcpListener> =
            (0..topology.ranks()).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
        let roster: Vec<String> = listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect();
        std::thread::scope(|scope| {
            for (rank, listener) in listeners.iter().enumerate() {
                let (roster, memories) = (&roster, &memories);
                scope.spawn(move || {
                    let host = rank / topology.per_host();
                    let long = Duration::from_mins(1);
                    let watch = Watchdog::new(&memories[host], topology.ranks(), long, long);
                    let same = (&key(), &Settings::new());
                    let made =
                        Connections::connect(&topology, rank, listener, roster, same, &watch, long).unwrap();
                    let mut groups = plan(host).groups_with(&watch, rank, made);
                    let group = rank / shards * shards;
                    let place = groups.shard.rank();
                    for round in 0..rounds {
                        let n = 16 * (1 + mix(round as u64) as usize % 200);
                        let wire = if round % 3 == 0 { Wire::Bf16 } else { Wire::F32 };
                        // Shards are identified by their position, not by the rank that holds them.
                        let shard: Vec<f32> = (0..n).map(|i| value(group * 100 + place, round, i)).collect();
                        groups.shard.begin_gather(&shard, wire).unwrap();
                        groups.shard.begin_gather(&shard, wire).unwrap();
                        let full: Vec<f32> = (0..n * shards).map(|i| value(rank, round, i)).collect();
                        let mut part = vec![1.0f32; n];
                        groups.shard.reduce_scatter(&full, &mut part, wire).unwrap();
                        for (i, p) in part.iter().enumerate() {
                            let sum: f32 =
                                (group..group + shards).map(|r| value(r, round, place * n + i)).sum();
                            // Integers up to 256 are exact in bf16; sums of a host's ranks are rounded once
                            // more.
                            let error = if wire == Wire::F32 { 0.0 } else { sum / 128.0 };
                            assert!((*p - sum - 1.0).abs() <= error, "{p} for {}", sum + 1.0);
                        }
                        for _ in 0..2 {
                            let mut full = vec![0.0f32; n * shards];
                            groups.shard.end_gather(&mut full, wire).unwrap();
                            for (i, f) in full.iter().enumerate() {
                                assert_eq!(*f, value(group * 100 + i / n, round, i % n));
                            }
                        }
                        let mut all = vec![rank as f64 + 0.5, round as f64];
                        groups.world.all_reduce_f64(&mut all).unwrap();
                        let ranks = topology.ranks() as f64;
                        assert_eq!(all, [ranks * ranks / 2.0, ranks * round as f64]);
                        let mut sum: Vec<f32> = (0..n + 3).map(|i| value(rank, round, i)).collect();
                        groups.replica.all_reduce(&mut sum, Wire::F32).unwrap();
                        for (i, s) in sum.iter().enumerate() {
                            let same = (0..replicas).map(|r| value(r * shards + rank % shards, round, i));
                            assert_eq!(*s, same.sum::<f32>());
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn threads_as_ranks_of_hosts_agree() {
        stress(2, 1, 2, 60);
        stress(4, 1, 2, 40);
        stress(2, 3, 3, 30);
        stress(2, 4, 2, 30);
    }

    #[test]
    fn a_stranger_is_not_let_in_and_a_lost_peer_is_named() {
        let topology = Topology { shards: 2, replicas: 1, hosts: 2 };
        let listeners = [0, 1].map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let roster = listeners.each_ref().map(|l| l.local_addr().unwrap().to_string());
        let mut stranger = TcpStream::connect(&roster[0]).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // These send nothing, or a valid hello without the key; none of them delays the others.
        let _silent: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(&roster[0]).unwrap()).collect();
        let mut impostor = TcpStream::connect(&roster[0]).unwrap();
        impostor.write_all(&hello(Kind::World, Purpose::Sum, 1)).unwrap();
        impostor.write_all(&[0; 64]).unwrap();
        std::thread::scope(|scope| {
            for (rank, listener) in listeners.iter().enumerate() {
                let roster = &roster;
                scope.spawn(move || {
                    let plan = Plan { topology, largest_shard: 16, prefetch: 0, host: Some(rank) };
                    let memory = SharedMemory::create(plan.bytes()).unwrap();
                    let long = Duration::from_mins(1);
                    let watch = Watchdog::new(&memory, 2, long, long);
                    let same = (&key(), &Settings::new());
                    let made =
                        Connections::connect(&topology, rank, listener, roster, same, &watch, long).unwrap();
                    let mut groups = plan.groups_with(&watch, rank, made);
                    groups.world.barrier().unwrap();
                    if rank == 0 {
                        let failure = groups.world.barrier().unwrap_err();
                        assert_eq!(failure.code, Code::Peer);
                        assert_eq!(failure.message, "lost the connection to rank 1: closed by the peer");
                    }
                });
            }
        });
    }
}
