//! Rendezvous of the hosts of a job, and detection of failed hosts. The first host's launcher listens. Every rank
//! registers its address and receives the addresses of all; every launcher keeps a connection on which it sends
//! heartbeats and failures of its ranks. Messages are lines of JSON.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::config::{Config, differences};
use crate::exit::{Code, Failure};

/// Interval of a launcher's heartbeats.
const BEAT: Duration = Duration::from_secs(1);

/// Maximum number of config differences in a message.
const SHOWN: usize = 4;

/// Messages of the rendezvous protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// Registers a rank, which listens on this port of the sending host.
    Rank { rank: usize, port: u16, config: String },
    /// Addresses of all ranks; an empty host means the first host.
    Roster(Vec<(String, u16)>),
    /// Registers the launcher of a host.
    Host { host: usize, config: String },
    /// Heartbeat.
    Beat,
    /// Failed rank and the reason.
    Gone(usize, String),
    /// All ranks of this host have ended successfully.
    Done,
    /// The registration was rejected.
    Refused(String),
    /// The hosts have different configs or binaries, so none continues.
    Differ(String),
}

fn peer_failure(message: impl Into<String>) -> Failure {
    Failure::new(Code::Peer, message)
}

fn send(mut stream: &TcpStream, message: &Message) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn receive(reader: &mut BufReader<TcpStream>) -> std::io::Result<Message> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct State {
    ranks: Vec<Option<(String, u16)>>,
    hosts: Vec<Option<TcpStream>>,
    done: Vec<bool>,
    gone: Option<(usize, String)>,
    differ: Option<String>,
}

impl State {
    /// Records a difference while ranks are still missing; the differing host would otherwise be awaited in vain.
    fn record_difference(&mut self, why: &str) {
        if self.differ.is_none() && self.ranks.iter().any(Option::is_none) {
            self.differ = Some(why.to_owned());
            for host in self.hosts.iter().flatten() {
                let _ = send(host, &Message::Differ(why.to_owned()));
            }
        }
    }

    /// Records the first failure and sends it to all hosts.
    fn report_failure(&mut self, rank: usize, why: &str) {
        if self.gone.is_none() {
            self.gone = Some((rank, why.to_owned()));
            for host in self.hosts.iter().flatten() {
                let _ = send(host, &Message::Gone(rank, why.to_owned()));
            }
        }
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    config: String,
    per_host: usize,
    peer_dead: Duration,
    join: Duration,
}

/// Rendezvous server on the first host.
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Listens at `port` until this process ends.
    pub fn start(
        port: u16,
        config: &str,
        hosts: usize,
        per_host: usize,
        peer_dead: Duration,
        join: Duration,
    ) -> Result<Self, Failure> {
        let listener = TcpListener::bind(("0.0.0.0", port)).map_err(|e| {
            peer_failure(format!("cannot listen at `communication.rendezvous_port` {port}: {e}"))
        })?;
        let state = State {
            ranks: vec![None; hosts * per_host],
            hosts: (0..hosts).map(|_| None).collect(),
            done: vec![false; hosts],
            gone: None,
            differ: None,
        };
        let config = config.to_owned();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            config,
            per_host,
            peer_dead,
            join,
        });
        let here = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&here);
                std::thread::spawn(move || shared.handle_connection(&stream));
            }
        });
        Ok(Self { shared })
    }

    /// Waits until every host is done, so that none takes this host's exit for a failure.
    pub fn wait_for_hosts(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            let state = locked(&self.shared.state);
            if state.gone.is_some() || state.done.iter().all(|done| *done) {
                break;
            }
            drop(state);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Shared {
    fn handle_connection(&self, stream: &TcpStream) {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let Ok(copy) = stream.try_clone() else { return };
        let mut reader = BufReader::new(copy);
        let called = receive(&mut reader);
        let (host, config) = match &called {
            Ok(Message::Rank { rank, config, .. }) => (rank / self.per_host, config),
            Ok(Message::Host { host, config }) => (*host, config),
            Ok(_) | Err(_) => return,
        };
        if *config != self.config {
            let why = describe_differences(host, config, &self.config);
            let _ = send(stream, &Message::Differ(why.clone()));
            locked(&self.state).record_difference(&why);
            self.changed.notify_all();
            return;
        }
        match called {
            Ok(Message::Rank { rank, port, .. }) => self.register_rank(stream, rank, port),
            Ok(Message::Host { host, .. }) => self.serve_host(stream, reader, host),
            Ok(_) | Err(_) => {}
        }
    }

    fn register_rank(&self, stream: &TcpStream, rank: usize, port: u16) {
        let from = stream.peer_addr().map_or_else(|_| String::new(), |a| a.ip().to_string());
        // Ranks of this host connect over the loopback interface; other hosts reach them by this host's name.
        let address = if rank < self.per_host { String::new() } else { from };
        let mut state = locked(&self.state);
        match state.ranks.get_mut(rank) {
            Some(place) if place.is_none() => *place = Some((address, port)),
            Some(_) | None => {
                let refusal = Message::Refused(format!("rank {rank} is already registered or out of range"));
                let _ = send(stream, &refusal);
                return;
            }
        }
        self.changed.notify_all();
        let (state, late) = self
            .changed
            .wait_timeout_while(state, self.join, |state| {
                state.differ.is_none() && state.ranks.iter().any(Option::is_none)
            })
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &state.differ {
            let _ = send(stream, &Message::Differ(why.clone()));
        } else if late.timed_out() {
            let missing: Vec<String> =
                (0..state.ranks.len()).filter(|r| state.ranks[*r].is_none()).map(|r| r.to_string()).collect();
            let _ = send(
                stream,
                &Message::Refused(format!("ranks {} did not connect in time", missing.join(", "))),
            );
        } else {
            let _ = send(stream, &Message::Roster(state.ranks.iter().flatten().cloned().collect()));
        }
    }

    fn serve_host(&self, stream: &TcpStream, mut reader: BufReader<TcpStream>, host: usize) {
        let _ = stream.set_read_timeout(Some(self.peer_dead));
        let Ok(copy) = stream.try_clone() else { return };
        {
            let mut state = locked(&self.state);
            if let Some((rank, why)) = state.gone.clone() {
                let _ = send(stream, &Message::Gone(rank, why));
            }
            if let Some(why) = state.differ.clone() {
                let _ = send(stream, &Message::Differ(why));
            }
            if let Some(place) = state.hosts.get_mut(host) {
                *place = Some(copy);
            }
        }
        let first = host * self.per_host;
        loop {
            let heard = receive(&mut reader);
            let mut state = locked(&self.state);
            match heard {
                Ok(Message::Gone(rank, why)) => state.report_failure(rank, &why),
                Ok(Message::Done) => {
                    if let Some(done) = state.done.get_mut(host) {
                        *done = true;
                    }
                    return;
                }
                Ok(_) => {
                    let _ = send(stream, &Message::Beat);
                }
                Err(error) => {
                    let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    let seconds = self.peer_dead.as_secs_f64();
                    let why = if silent {
                        format!("host {host} (ranks from {first}) sent no heartbeat for {seconds} s")
                    } else {
                        format!("the launcher of host {host} (ranks from {first}) died")
                    };
                    state.report_failure(first, &why);
                    return;
                }
            }
        }
    }
}

/// Describes the differences between the settings of two hosts, as returned by [`shared_settings`].
fn describe_differences(host: usize, theirs: &str, ours: &str) -> String {
    let both = (serde_json::from_str(theirs), serde_json::from_str(ours));
    let mut all: Vec<String> = match &both {
        (Ok(theirs), Ok(ours)) => differences("", theirs, ours)
            .into_iter()
            .map(|(at, theirs, ours)| format!("`{at}` is {theirs} there and {ours} on the first host"))
            .collect(),
        _ => vec!["the binaries differ".to_owned()],
    };
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("host {host} has a different config or binary than the first host: {}{more}", all.join(", "))
}

/// Returns the settings that must be equal on all hosts: config and version.
pub(crate) fn shared_settings(config: &Config) -> String {
    let mut all = serde_json::to_value(config).unwrap_or_default();
    if let Some(members) = all.as_object_mut() {
        members.insert("version of trainc-worker".to_owned(), env!("CARGO_PKG_VERSION").into());
    }
    all.to_string()
}

fn connect_first_host(first: &str, port: u16, join: Duration) -> Result<TcpStream, Failure> {
    let until = Instant::now() + join;
    loop {
        match TcpStream::connect((first, port)) {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            // Host names may take minutes to resolve.
            Err(error) if Instant::now() > until => {
                return Err(peer_failure(format!(
                    "the first host, {first} port {port}, cannot be reached: {error}"
                )));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Registers this rank's port and returns the addresses of all ranks, ordered by rank.
pub fn join(
    first: &str,
    port: u16,
    config: &str,
    rank: usize,
    mine: u16,
    patience: Duration,
) -> Result<Vec<String>, Failure> {
    let stream = connect_first_host(first, port, patience)?;
    let broken = |e: std::io::Error| peer_failure(format!("the first host, {first} port {port}: {e}"));
    stream.set_read_timeout(Some(patience)).map_err(broken)?;
    send(&stream, &Message::Rank { rank, port: mine, config: config.to_owned() }).map_err(broken)?;
    match receive(&mut BufReader::new(stream)).map_err(broken)? {
        Message::Roster(all) => Ok(all
            .into_iter()
            .map(|(host, port)| {
                let host = if host.is_empty() { first } else { &host };
                if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
            })
            .collect()),
        Message::Refused(why) => {
            Err(peer_failure(format!("the first host, {first}, rejected rank {rank}: {why}")))
        }
        Message::Differ(why) => Err(Failure::new(Code::Config, why)),
        other @ (Message::Rank { .. }
        | Message::Host { .. }
        | Message::Beat
        | Message::Gone(..)
        | Message::Done) => {
            Err(peer_failure(format!("the first host, {first}, sent an unexpected message: {other:?}")))
        }
    }
}

/// A launcher's connection to the first host.
pub struct HostConnection {
    stream: TcpStream,
    gone: Arc<Mutex<Option<(usize, Failure)>>>,
}

impl HostConnection {
    /// Connects to the first host.
    pub fn open(
        first: &str,
        port: u16,
        config: &str,
        host: usize,
        peer_dead: Duration,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let stream = connect_first_host(first, port, patience)?;
        let broken = |e: std::io::Error| peer_failure(format!("the first host, {first} port {port}: {e}"));
        send(&stream, &Message::Host { host, config: config.to_owned() }).map_err(broken)?;
        stream.set_read_timeout(Some(peer_dead)).map_err(broken)?;
        let gone = Arc::new(Mutex::new(None));
        let (beats, ears, heard) =
            (stream.try_clone().map_err(broken)?, stream.try_clone().map_err(broken)?, Arc::clone(&gone));
        std::thread::spawn(move || {
            while send(&beats, &Message::Beat).is_ok() {
                std::thread::sleep(BEAT);
            }
        });
        std::thread::spawn(move || {
            let mut reader = BufReader::new(ears);
            let found = loop {
                match receive(&mut reader) {
                    Ok(Message::Gone(rank, why)) => break (rank, peer_failure(why)),
                    Ok(Message::Refused(why)) => {
                        break (0, peer_failure(format!("the first host rejected this host: {why}")));
                    }
                    Ok(Message::Differ(why)) => break (0, Failure::new(Code::Config, why)),
                    Ok(_) => {}
                    Err(_) => break (0, peer_failure("the first host (ranks from 0) sent no heartbeat")),
                }
            };
            *locked(&heard) = Some(found);
        });
        Ok(Self { stream, gone })
    }

    /// Returns the rank that failed on another host, and the failure.
    pub fn failure(&self) -> Option<(usize, Failure)> {
        locked(&self.gone).clone()
    }

    /// Reports a failed rank of this host.
    pub fn report_failure(&self, rank: usize, why: &str) {
        let _ = send(&self.stream, &Message::Gone(rank, why.to_owned()));
    }

    /// Reports that all ranks of this host have ended successfully.
    pub fn done(&self) {
        let _ = send(&self.stream, &Message::Done);
    }
}
