//! Rendezvous of the hosts of a job, and detection of failed hosts. The first host's launcher listens. Every
//! rank registers its address and receives the addresses of all; every launcher keeps a connection on which
//! it sends heartbeats and failures of its ranks. Both sides of a connection prove that they have the job's
//! key, and no message contains a value of the config.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authentication::{
    self, Authenticator, Connection, HELLO, Key, Receiver, Sender, printable, to_hex,
};
use crate::config::Config;
use crate::exit::{Code, Failure};

/// Interval of a launcher's heartbeats.
const BEAT: Duration = Duration::from_secs(1);

/// Maximum number of config differences in a message.
const SHOWN: usize = 4;

/// Time that a host has to register once it has authenticated.
const REGISTRATION: Duration = Duration::from_secs(10);

/// Start of a connection to the rendezvous.
const PURPOSE: [u8; HELLO] = *b"trainc/2 join\0\0\0";

/// The MAC of each setting that must be equal on all hosts, by the setting's path.
pub type Settings = BTreeMap<String, String>;

/// Messages of the rendezvous protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// Registers a rank, which listens on this port of the sending host.
    Rank { rank: usize, port: u16, settings: Settings },
    /// Addresses of all ranks; an empty host means the first host.
    Roster(Vec<(String, u16)>),
    /// Registers the launcher of a host.
    Host { host: usize, settings: Settings },
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

/// Receives a message; its texts are printable.
fn receive(receiver: &mut Receiver) -> std::io::Result<Message> {
    Ok(match receiver.receive()? {
        Message::Gone(rank, why) => Message::Gone(rank, printable(&why)),
        Message::Refused(why) => Message::Refused(printable(&why)),
        Message::Differ(why) => Message::Differ(printable(&why)),
        Message::Roster(all) => {
            Message::Roster(all.into_iter().map(|(host, port)| (printable(&host), port)).collect())
        }
        other @ (Message::Rank { .. } | Message::Host { .. } | Message::Beat | Message::Done) => other,
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct State {
    ranks: Vec<Option<(String, u16)>>,
    hosts: Vec<Option<Arc<Mutex<Sender>>>>,
    done: Vec<bool>,
    gone: Option<(usize, String)>,
    differ: Option<String>,
}

impl State {
    /// Records a difference while ranks are still missing; the differing host would otherwise be awaited in
    /// vain.
    fn record_difference(&mut self, why: &str) {
        if self.differ.is_none() && self.ranks.iter().any(Option::is_none) {
            self.differ = Some(why.to_owned());
            for host in self.hosts.iter().flatten() {
                let _ = locked(host).send(&Message::Differ(why.to_owned()));
            }
        }
    }

    /// Records the first failure and sends it to all hosts.
    fn report_failure(&mut self, rank: usize, why: &str) {
        if self.gone.is_none() {
            self.gone = Some((rank, why.to_owned()));
            for host in self.hosts.iter().flatten() {
                let _ = locked(host).send(&Message::Gone(rank, why.to_owned()));
            }
        }
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    settings: Settings,
    per_host: usize,
    peer_dead: Duration,
    join: Duration,
}

/// Rendezvous server on the first host.
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Listens at `port` of the address that `first` has on this host, until this process ends.
    pub fn start(
        (first, port): (&str, u16),
        key: &Key,
        settings: Settings,
        hosts: usize,
        per_host: usize,
        peer_dead: Duration,
        join: Duration,
    ) -> Result<Self, Failure> {
        let listener = listen(first, port, join)?;
        let state = State {
            ranks: vec![None; hosts * per_host],
            hosts: (0..hosts).map(|_| None).collect(),
            done: vec![false; hosts],
            gone: None,
            differ: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            settings,
            per_host,
            peer_dead,
            join,
        });
        let here = Arc::clone(&shared);
        let mut authenticator = Authenticator::new(key);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Too many open files, for example: accepting again at once would fail again.
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let shared = Arc::clone(&here);
                let context = |hello: &[u8; HELLO]| (*hello == PURPOSE).then(Vec::new);
                authenticator.authenticate(stream, context, move |connection| {
                    let _ = shared.handle_connection(connection);
                });
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
    fn handle_connection(&self, connection: Connection) -> std::io::Result<()> {
        let from = connection.stream.peer_addr()?.ip();
        connection.stream.set_write_timeout(Some(self.peer_dead))?;
        let (mut sender, mut receiver) = connection.split()?;
        receiver.set_timeout(REGISTRATION)?;
        let registration = receive(&mut receiver)?;
        let (host, settings) = match &registration {
            Message::Rank { rank, settings, .. } => (rank / self.per_host, settings),
            Message::Host { host, settings } => (*host, settings),
            Message::Roster(_)
            | Message::Beat
            | Message::Gone(..)
            | Message::Done
            | Message::Refused(_)
            | Message::Differ(_) => return Ok(()),
        };
        if *settings != self.settings {
            let why = describe_differences(host, settings, &self.settings);
            let _ = sender.send(&Message::Differ(why.clone()));
            locked(&self.state).record_difference(&why);
            self.changed.notify_all();
            return Ok(());
        }
        if let Message::Rank { rank, port, .. } = registration {
            self.register_rank(&mut sender, from, rank, port);
            return Ok(());
        }
        self.serve_host(sender, receiver, host)
    }

    fn register_rank(&self, sender: &mut Sender, from: IpAddr, rank: usize, port: u16) {
        // Ranks of this host connect over its own interface; other hosts reach them by this host's name.
        let address = if rank < self.per_host { String::new() } else { from.to_string() };
        let mut state = locked(&self.state);
        match state.ranks.get_mut(rank) {
            Some(place) if place.is_none() => *place = Some((address, port)),
            Some(_) | None => {
                let refusal = Message::Refused(format!("rank {rank} is already registered or out of range"));
                let _ = sender.send(&refusal);
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
            let _ = sender.send(&Message::Differ(why.clone()));
        } else if late.timed_out() {
            let missing: Vec<String> =
                (0..state.ranks.len()).filter(|r| state.ranks[*r].is_none()).map(|r| r.to_string()).collect();
            let refusal = Message::Refused(format!("ranks {} did not connect in time", missing.join(", ")));
            let _ = sender.send(&refusal);
        } else {
            let _ = sender.send(&Message::Roster(state.ranks.iter().flatten().cloned().collect()));
        }
    }

    fn serve_host(&self, sender: Sender, mut receiver: Receiver, host: usize) -> std::io::Result<()> {
        receiver.set_timeout(self.peer_dead)?;
        let sender = Arc::new(Mutex::new(sender));
        {
            let mut state = locked(&self.state);
            let Some(place) = state.hosts.get_mut(host) else {
                let refusal = Message::Refused(format!("host {host} is out of range"));
                return locked(&sender).send(&refusal);
            };
            *place = Some(Arc::clone(&sender));
            if let Some((rank, why)) = state.gone.clone() {
                let _ = locked(&sender).send(&Message::Gone(rank, why));
            }
            if let Some(why) = state.differ.clone() {
                let _ = locked(&sender).send(&Message::Differ(why));
            }
        }
        let first = host * self.per_host;
        loop {
            let heard = receive(&mut receiver);
            let mut state = locked(&self.state);
            match heard {
                Ok(Message::Gone(rank, why)) => state.report_failure(rank, &why),
                Ok(Message::Done) => {
                    if let Some(done) = state.done.get_mut(host) {
                        *done = true;
                    }
                    return Ok(());
                }
                Ok(_) => {
                    let _ = locked(&sender).send(&Message::Beat);
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
                    return Ok(());
                }
            }
        }
    }
}

/// Names the settings that differ between two hosts, without their values, which may be secret.
fn describe_differences(host: usize, theirs: &Settings, ours: &Settings) -> String {
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let differ: Vec<&String> =
        names.into_iter().filter(|name| theirs.get(*name) != ours.get(*name)).collect();
    let shown: Vec<String> = differ.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = differ.len() - shown.len();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!(
        "host {host} has a different config or binary than the first host; these settings differ: {}{more}",
        shown.join(", ")
    )
}

/// Returns the MACs of the settings that must be equal on all hosts: config and version. With a MAC, a host
/// can compare a setting that it also has, and nobody can find out one that it does not have.
pub(crate) fn shared_settings(config: &Config, key: &Key) -> Settings {
    let mut all = serde_json::to_value(config).unwrap_or_default();
    if let Some(members) = all.as_object_mut() {
        members.insert("version of trainc-worker".to_owned(), env!("CARGO_PKG_VERSION").into());
    }
    let mut settings = Settings::new();
    add_settings("", &all, key, &mut settings);
    settings
}

fn add_settings(at: &str, value: &Value, key: &Key, settings: &mut Settings) {
    let Some(members) = value.as_object() else {
        let mac = key.mac(&[b"setting", at.as_bytes(), value.to_string().as_bytes()]);
        settings.insert(at.to_owned(), to_hex(&mac[..16]));
        return;
    };
    for (name, value) in members {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        add_settings(&path, value, key, settings);
    }
}

/// Listens at the address that the first host's name has on the first host itself: that of the interface by
/// which the other hosts of the job reach it.
fn listen(first: &str, port: u16, join: Duration) -> Result<TcpListener, Failure> {
    let until = Instant::now() + join;
    let addresses: Vec<_> = loop {
        match (first, port).to_socket_addrs() {
            Ok(found) => break found.collect(),
            // Host names may take minutes to resolve.
            Err(error) if Instant::now() > until => {
                return Err(peer_failure(format!(
                    "the first host's name, `{first}`, cannot be resolved: {error}"
                )));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    };
    if first != "localhost"
        && first.parse::<IpAddr>().is_err()
        && addresses.iter().all(|address| address.ip().is_loopback())
    {
        return Err(Failure::new(
            Code::Config,
            format!(
                "`{first}` resolves to a loopback address on the first host, where other hosts \
                    cannot connect: use the host's IP address as MASTER_ADDR"
            ),
        ));
    }
    TcpListener::bind(addresses.as_slice()).map_err(|e| {
        peer_failure(format!("cannot listen at `{first}`, `communication.rendezvous_port` {port}: {e}"))
    })
}

/// Connects to the first host and authenticates.
fn connect_first_host(first: &str, port: u16, key: &Key, join: Duration) -> Result<Connection, Failure> {
    let until = Instant::now() + join;
    loop {
        let connected = TcpStream::connect((first, port))
            .and_then(|stream| authentication::connect(stream, key, &PURPOSE, &[], until));
        match connected {
            Ok(connection) => return Ok(connection),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(Failure::new(
                    Code::Config,
                    format!(
                        "the first host, {first} port {port}, has another key than this host: \
                            `{}` must be the same on all hosts",
                        authentication::KEY_FILE
                    ),
                ));
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

/// Listens for the other ranks and registers this rank. Returns the listener and the addresses of all ranks,
/// ordered by rank.
pub fn join(
    first: &str,
    port: u16,
    key: &Key,
    settings: Settings,
    rank: usize,
    patience: Duration,
) -> Result<(TcpListener, Vec<String>), Failure> {
    let broken = |e: std::io::Error| peer_failure(format!("the first host, {first} port {port}: {e}"));
    let connection = connect_first_host(first, port, key, patience)?;
    // The interface that reaches the first host is the job's.
    let address = connection.stream.local_addr().map_err(broken)?.ip();
    let bug = |e: std::io::Error| peer_failure(format!("cannot listen for other hosts: {e}"));
    let listener = TcpListener::bind((address, 0)).map_err(bug)?;
    let mine = listener.local_addr().map_err(bug)?.port();
    let (mut sender, mut receiver) = connection.split().map_err(broken)?;
    receiver.set_timeout(patience).map_err(broken)?;
    sender.send(&Message::Rank { rank, port: mine, settings }).map_err(broken)?;
    let roster = match receive(&mut receiver).map_err(broken)? {
        Message::Roster(all) => all
            .into_iter()
            .map(|(host, port)| {
                let host = if host.is_empty() { first } else { &host };
                if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
            })
            .collect(),
        Message::Refused(why) => {
            return Err(peer_failure(format!("the first host, {first}, rejected rank {rank}: {why}")));
        }
        Message::Differ(why) => return Err(Failure::new(Code::Config, why)),
        Message::Rank { .. } | Message::Host { .. } | Message::Beat | Message::Gone(..) | Message::Done => {
            return Err(peer_failure(format!("the first host, {first}, sent an unexpected message")));
        }
    };
    Ok((listener, roster))
}

/// A launcher's connection to the first host.
pub struct HostConnection {
    sender: Arc<Mutex<Sender>>,
    gone: Arc<Mutex<Option<(usize, Failure)>>>,
}

impl HostConnection {
    /// Connects to the first host.
    pub fn connect(
        first: &str,
        port: u16,
        key: &Key,
        settings: Settings,
        host: usize,
        peer_dead: Duration,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let broken = |e: std::io::Error| peer_failure(format!("the first host, {first} port {port}: {e}"));
        let connection = connect_first_host(first, port, key, patience)?;
        let (mut sender, mut receiver) = connection.split().map_err(broken)?;
        sender.send(&Message::Host { host, settings }).map_err(broken)?;
        receiver.set_timeout(peer_dead).map_err(broken)?;
        let gone = Arc::new(Mutex::new(None));
        let sender = Arc::new(Mutex::new(sender));
        let (beats, heard) = (Arc::clone(&sender), Arc::clone(&gone));
        std::thread::spawn(move || {
            while locked(&beats).send(&Message::Beat).is_ok() {
                std::thread::sleep(BEAT);
            }
        });
        std::thread::spawn(move || {
            let found = loop {
                match receive(&mut receiver) {
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
        Ok(Self { sender, gone })
    }

    /// Returns the rank that failed on another host, and the failure.
    pub fn failure(&self) -> Option<(usize, Failure)> {
        locked(&self.gone).clone()
    }

    /// Reports a failed rank of this host.
    pub fn report_failure(&self, rank: usize, why: &str) {
        let _ = locked(&self.sender).send(&Message::Gone(rank, why.to_owned()));
    }

    /// Reports that all ranks of this host have ended successfully.
    pub fn done(&self) {
        let _ = locked(&self.sender).send(&Message::Done);
    }
}
