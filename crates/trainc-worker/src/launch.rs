//! Launcher: starts one process per rank, forwards signals, and ends all ranks when one fails.

use std::io::{PipeReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::aten;
use crate::authentication::Key;
use crate::comm::shm::Plan;
use crate::comm::tcp::Connections;
use crate::comm::{Groups, SharedMemory, Watchdog};
use crate::config::Config;
use crate::console;
use crate::exit::{Code, Failure};
use crate::fault_injection;
use crate::fsdp::{CpuEngine, Engine, MemoryParts, shared_memory_plan, topology};
use crate::log::MetricsLog;
use crate::placement::Placement;
use crate::preflight;
use crate::rendezvous::{self, HostConnection, Server};
use crate::signals;
use crate::train::{self, Outcome};

/// Time that the other ranks have to report after one has failed.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without a heartbeat after which a failing run no longer waits for a rank.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit of a preflight, from when all ranks of all hosts have connected and GPUs have passed the
/// self-check.
const PREFLIGHT: Duration = Duration::from_mins(1);

/// Network interface of NCCL's TCP connections.
const INTERFACE: &str = "NCCL_SOCKET_IFNAME";

/// Threads of PyTorch's kernels on the CPU.
const THREADS: &str = "OMP_NUM_THREADS";

/// Settings of PyTorch's allocator.
const ALLOCATOR: &str = "PYTORCH_CUDA_ALLOC_CONF";

/// Checks that this host has the devices and memory that the config requires.
pub fn check_host(config: &Config) -> Result<(), Failure> {
    if config.uses_gpus() {
        config.check_gpus()?;
        // Each rank has its own GPU; PyTorch's libraries are found here and loaded by the ranks.
        let (found, needed) = (aten::visible_gpus().len(), config.cluster.gpus_per_node);
        if found < needed {
            return Err(Failure::new(
                Code::Device,
                format!(
                    "{found} GPUs found, but the config requires {needed} per host ({}); `launch \
                        --ranks N` trains on CPU ranks",
                    config.cluster.instance
                ),
            ));
        }
        return aten::torch_directory().map(|_| ());
    }
    let (needed, available) =
        (MemoryParts::from_config(config).total() * topology(config).per_host(), available_memory());
    if available.is_some_and(|available| needed > available) {
        return Err(Failure::new(
            Code::Config,
            format!(
                "{} ranks require {} MiB of memory, but only {} MiB are available",
                topology(config).per_host(),
                needed >> 20,
                available.unwrap_or(0) >> 20
            ),
        ));
    }
    Ok(())
}

/// Returns the memory available to new processes in bytes: the kernel's estimate, capped by the cgroup limit.
fn available_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.split_whitespace().next()?.parse::<usize>().ok()? * 1024;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|t| t.trim().parse().ok());
    Some(limit.map_or(machine, |limit: usize| limit.min(machine)))
}

/// Returns the threads for each rank's matrix multiplications: one. With faer, two threads on two busy cores
/// measured slower than one.
fn threads() -> usize {
    1
}

/// Converts seconds of the config; values beyond the range of a clock mean no limit.
pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)
}

/// Purpose of the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Training.
    Train,
    /// Checking whether training will work.
    Preflight,
    /// Checking whether the GPUs compute correctly.
    SelfCheck,
}

/// Detects the placement of this launcher and checks it against the config.
pub fn detect_placement(config: &Config, ranks_given: Option<usize>) -> Result<Placement, Failure> {
    if ranks_given.is_some() {
        return Ok(Placement::single_host());
    }
    let place = Placement::detect()?;
    place.check_config(config)?;
    Ok(place)
}

/// Runs all ranks of `config`, whose file is `path`, as child processes. Returns their outcome. Several hosts
/// require `key`, or the file next to the config.
pub fn launch(
    config: &Config,
    place: &Placement,
    path: &Path,
    key: Option<Key>,
    ranks_given: Option<usize>,
    purpose: Purpose,
) -> Result<Outcome, Failure> {
    if place.local_rank > 0 {
        // The first process of this host starts all its ranks.
        return Ok(Outcome::Done);
    }
    check_host(config)?;
    let (ranks, per_host) = (config.ranks(), topology(config).per_host());
    let c = &config.communication;
    let (peer_dead, join) = (seconds(c.peer_dead_seconds), seconds(c.join_seconds));
    let port = place.port.unwrap_or(c.rendezvous_port);
    let key = match key {
        None if place.hosts > 1 => Some(Key::read(path, place.hosts)?),
        key => key.filter(|_| place.hosts > 1),
    };
    let (mut server, mut line) = (None, None);
    if let Some(key) = &key {
        let (first, same) = (place.first_host.as_str(), rendezvous::shared_settings(config, key));
        if place.host == 0 {
            let at = (first, port);
            server = Some(Server::start(at, key, same.clone(), place.hosts, per_host, peer_dead, join)?);
        }
        line = Some(HostConnection::connect(first, port, key, same, place.host, peer_dead, join)?);
    }
    let bug = |what: &str, e: &dyn std::fmt::Display| Failure::new(Code::Bug, format!("cannot {what}: {e}"));
    let plan = Plan { host: (place.hosts > 1).then_some(place.host), ..shared_memory_plan(config) };
    let memory = SharedMemory::create(plan.bytes())?;
    let watch = Watchdog::new(&memory, ranks, Duration::MAX, Duration::MAX);
    let signal = Arc::new(AtomicBool::new(false));
    for number in signals::stop_signals() {
        signal_hook::flag::register(number, Arc::clone(&signal))
            .map_err(|e| bug("register signal handlers", &e))?;
    }
    let devices =
        if config.uses_gpus() { Some((aten::torch_directory()?, aten::visible_gpus())) } else { None };
    let program = std::env::current_exe().map_err(|e| bug("locate this executable", &e))?;
    let mut children: Vec<Option<Child>> = Vec::new();
    let mine = place.host * per_host;
    for rank in mine..mine + per_host {
        let mut command = Command::new(&program);
        command.arg("rank").arg(path).args(["--rank", &rank.to_string(), "--memory", &memory.path()]);
        command.args(["--parent", &std::process::id().to_string()]);
        if ranks_given.is_some() {
            command.args(["--ranks", &ranks.to_string()]);
        }
        match purpose {
            Purpose::Train => {}
            Purpose::Preflight => {
                command.arg("--preflight");
            }
            Purpose::SelfCheck => {
                command.arg("--selfcheck");
            }
        }
        if let Some(key) = &key {
            command.args(["--rendezvous", &format!("{}:{port}", place.first_host)]);
            // Arguments and environment of a process can be read by others; what it inherits cannot.
            command.stdin(key_pipe(key).map_err(|e| bug("pass on the key", &e))?);
        }
        command.envs(&config.communication.environment);
        if let Some((torch, gpus)) = &devices {
            command.env(aten::TORCH_VARIABLE, torch);
            if std::env::var_os(ALLOCATOR).is_none()
                && !config.communication.environment.contains_key(ALLOCATOR)
            {
                // Blocks of different sizes follow each other: without it the allocator's memory is
                // fragmented.
                command.env(ALLOCATOR, "expandable_segments:True");
            }
            // NCCL connects over the interface between the hosts, not over one of the container's own.
            if let Some(interface) = &place.interface
                && std::env::var_os(INTERFACE).is_none()
                && !config.communication.environment.contains_key(INTERFACE)
            {
                command.env(INTERFACE, interface);
            }
            if let Some(gpu) = gpus.get(rank - mine) {
                command.env("CUDA_VISIBLE_DEVICES", gpu);
            }
            // The self-check computes on CPU tensors too: the ranks share the cores.
            if std::env::var_os(THREADS).is_none() {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                command.env(THREADS, (cores / per_host).max(1).to_string());
            }
        }
        match command.spawn() {
            Ok(child) => children.push(Some(child)),
            Err(error) => {
                kill_all(&mut children);
                return Err(bug(&format!("start rank {rank}"), &error));
            }
        }
    }
    let (mut codes, mut ended) = (Vec::new(), Vec::new());
    let (began, mut asked, mut connected) = (Instant::now(), None::<Instant>, None::<Instant>);
    loop {
        if signal.swap(false, Ordering::Relaxed) {
            asked.get_or_insert_with(Instant::now);
            send_signal(&children, Signal::TERM);
        }
        codes.extend(reap(&mut children, mine, &mut ended));
        // A hung rank is the cause of a failure, not the peer that noticed it first and ended. The limit is
        // slightly shorter than the ranks' own, since one of them has already timed out.
        let still = children
            .iter()
            .enumerate()
            .find(|(rank, child)| child.is_some() && watch.is_silent(mine + rank, peer_dead.mul_f64(0.9)));
        if let (Some((rank, _)), true) = (still, failed_by_peers(&ended)) {
            watch.mark_dead(mine + rank);
            kill_all(&mut children);
            return Err(report_failure(
                line.as_ref(),
                mine + rank,
                silence_message(mine + rank, c.peer_dead_seconds),
            ));
        }
        if let Some((rank, _)) = ended.first() {
            watch.mark_dead(*rank);
            let (began, mut reported) = (Instant::now(), false);
            while began.elapsed() < REPORT_TIMEOUT && has_live_rank(&children, mine, &watch) {
                reap(&mut children, mine, &mut ended);
                report_to_hosts(line.as_ref(), &ended, &watch, &mut reported);
                std::thread::sleep(Duration::from_millis(10));
            }
            kill_all(&mut children);
            report_to_hosts(line.as_ref(), &ended, &watch, &mut reported);
            return Err(failure_of_other_host(line.as_ref(), root_cause(&ended, &watch), reported));
        }
        if let Some((rank, failure)) = line.as_ref().and_then(HostConnection::failure) {
            watch.mark_dead(rank);
            // If all ranks fail for the same reason, the order of reports is arbitrary: this host prefers its
            // own ranks' reason.
            let began = Instant::now();
            while began.elapsed() < REPORT_TIMEOUT && has_live_rank(&children, mine, &watch) {
                reap(&mut children, mine, &mut ended);
                std::thread::sleep(Duration::from_millis(10));
            }
            kill_all(&mut children);
            let own = !ended.is_empty() && !failed_by_peers(&ended);
            return Err(if own { root_cause(&ended, &watch) } else { failure });
        }
        // The other ranks of this host may all be waiting for another host, so none of them notices a hung
        // rank.
        if let Some(rank) = watch.find_silent_rank(peer_dead + Duration::from_secs(1)) {
            watch.mark_dead(rank);
            kill_all(&mut children);
            return Err(report_failure(line.as_ref(), rank, silence_message(rank, c.peer_dead_seconds)));
        }
        if children.iter().all(Option::is_none) {
            break;
        }
        // Ranks of this host start before those of other hosts, which may take long to join.
        if connected.is_none() && watch.count_connected() == per_host {
            connected = Some(Instant::now());
        }
        let most = crate::fault_injection::minute().unwrap_or(PREFLIGHT);
        if purpose == Purpose::Preflight && connected.is_some_and(|at| at.elapsed() > most) {
            kill_all(&mut children);
            return Err(report_failure(
                line.as_ref(),
                mine,
                format!("preflight took more than {} s", most.as_secs()),
            ));
        }
        if watch.count_joined() < per_host && began.elapsed() > seconds(config.communication.join_seconds) {
            kill_all(&mut children);
            let missing = per_host - watch.count_joined();
            let message =
                format!("{missing} of {per_host} ranks did not start within `communication.join_seconds`");
            return Err(report_failure(line.as_ref(), mine, message));
        }
        if asked.is_some_and(|at| at.elapsed() > seconds(config.checkpoint.grace_seconds)) {
            kill_all(&mut children);
            return Err(Failure::new(
                Code::Unsaved,
                "the ranks did not save a checkpoint within `checkpoint.grace_seconds`",
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if let Some(line) = &line {
        line.done();
    }
    if let Some(server) = &server {
        server.wait_for_hosts(peer_dead);
    }
    Ok(if codes.contains(&75) { Outcome::Saved } else { Outcome::Done })
}

/// Returns the reading end of a pipe that contains the key.
fn key_pipe(key: &Key) -> std::io::Result<PipeReader> {
    let (reader, mut writer) = std::io::pipe()?;
    writer.write_all(key.to_text().as_bytes())?;
    Ok(reader)
}

/// Reads the key that the parent process passed as standard input.
pub fn read_inherited_key() -> Result<Key, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(1024).read_to_string(&mut text);
    let key = read.ok().and_then(|_| Key::parse(&text));
    key.ok_or_else(|| Failure::new(Code::Usage, "standard input is not a key of 64 hexadecimal digits"))
}

/// Collects ranks that have ended: returns their exit codes and adds failed ones to `failed`.
fn reap(children: &mut [Option<Child>], mine: usize, failed: &mut Vec<(usize, ExitStatus)>) -> Vec<i32> {
    let mut codes = Vec::new();
    for (rank, slot) in children.iter_mut().enumerate() {
        let Some(status) = slot.as_mut().and_then(|child| child.try_wait().ok().flatten()) else {
            continue;
        };
        *slot = None;
        match status.code() {
            Some(code @ (0 | 75)) => codes.push(code),
            _ => failed.push((mine + rank, status)),
        }
    }
    codes
}

/// Returns whether a rank of this host is still running and responsive.
fn has_live_rank(children: &[Option<Child>], mine: usize, watch: &Watchdog) -> bool {
    let speaks = |(rank, child): (usize, &Option<Child>)| {
        child.is_some() && !watch.is_silent(mine + rank, SILENCE_TIMEOUT)
    };
    children.iter().enumerate().any(speaks)
}

/// Returns whether ranks have failed, and all of them because of peers.
fn failed_by_peers(failed: &[(usize, ExitStatus)]) -> bool {
    !failed.is_empty() && failed.iter().all(|(_, status)| status.code() == Some(Code::Peer as i32))
}

/// Reports a failure that this launcher detected to the other hosts, so that they do not blame its own exit.
/// Returns it.
fn report_failure(line: Option<&HostConnection>, rank: usize, why: String) -> Failure {
    if let Some(line) = line {
        line.report_failure(rank, &why);
    }
    Failure::new(Code::Peer, why)
}

fn silence_message(rank: usize, seconds: f64) -> String {
    format!("rank {rank} sent no heartbeat for {seconds} s")
}

/// Reports a rank of this host that failed on its own to the other hosts, once.
fn report_to_hosts(
    line: Option<&HostConnection>,
    failed: &[(usize, ExitStatus)],
    watch: &Watchdog,
    reported: &mut bool,
) {
    let itself = failed.iter().find(|(_, status)| status.code() != Some(Code::Peer as i32));
    if let (Some(line), Some((rank, _)), false) = (line, itself, *reported) {
        line.report_failure(*rank, &root_cause(failed, watch).message);
        *reported = true;
    }
}

/// Returns the cause that another host reported, if this host's ranks only lost their peers.
fn failure_of_other_host(line: Option<&HostConnection>, mine: Failure, reported: bool) -> Failure {
    let Some(line) = line.filter(|_| !reported) else { return mine };
    let began = Instant::now();
    while began.elapsed() < REPORT_TIMEOUT {
        if let Some((_, failure)) = line.failure() {
            return failure;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    mine
}

/// Returns the root cause: the first failed rank that did not fail because of a peer.
fn root_cause(failed: &[(usize, ExitStatus)], watch: &Watchdog) -> Failure {
    use std::os::unix::process::ExitStatusExt;
    let cause = failed.iter().find(|(_, status)| status.code() != Some(Code::Peer as i32));
    let Some((rank, status)) = cause.or(failed.first()) else {
        return Failure::new(Code::Bug, "no rank failed");
    };
    if let Some(signal) = status.signal() {
        return Failure::new(
            Code::Peer,
            format!("rank {rank} was killed by signal {signal} ({})", 128 + signal),
        );
    }
    let known = [
        Code::Config,
        Code::Data,
        Code::Checkpoint,
        Code::Loss,
        Code::Peer,
        Code::Device,
        Code::Output,
        Code::Unsaved,
    ];
    let number = status.code().unwrap_or(1);
    let code = known.into_iter().find(|c| *c as i32 == number).unwrap_or(Code::Bug);
    let message = match watch.reason(*rank) {
        Some(words) if code == Code::Peer => words,
        Some(words) => format!("rank {rank}: {words}"),
        None => format!("rank {rank} exited with code {number}"),
    };
    Failure::new(code, message)
}

fn send_signal(children: &[Option<Child>], signal: Signal) {
    for child in children.iter().flatten() {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

fn kill_all(children: &mut [Option<Child>]) {
    for child in children.iter_mut().flatten() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Runs one rank as a child of the launcher.
pub fn run_rank(
    config: &Config,
    rank: usize,
    memory: &str,
    rendezvous: Option<&str>,
    purpose: Purpose,
) -> Result<Outcome, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for number in signals::stop_signals() {
        signal_hook::flag::register(number, Arc::clone(&stop))
            .map_err(|e| Failure::new(Code::Bug, format!("cannot register signal handlers: {e}")))?;
    }
    let topology = topology(config);
    if rank >= topology.ranks() {
        return Err(Failure::new(
            Code::Usage,
            format!("rank {rank} is out of range for {} ranks", topology.ranks()),
        ));
    }
    let host = rendezvous.map(|_| rank / topology.per_host());
    let plan = Plan { host, ..shared_memory_plan(config) };
    let memory = SharedMemory::open(memory, plan.bytes())?;
    let c = &config.communication;
    let watch =
        Watchdog::new(&memory, plan.ranks(), seconds(c.peer_dead_seconds), seconds(c.collective_seconds));
    watch.beat(rank);
    let heart = watch.clone();
    std::thread::spawn(move || {
        loop {
            heart.beat(rank);
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    let connections = rendezvous.map(|at| connect(config, rank, at, &watch)).transpose();
    let connections = connections.inspect_err(|failure| watch.record_reason(rank, &failure.message))?;
    let groups = plan.groups_with(&watch, rank, connections.unwrap_or_default());
    let (last, hook) = (watch.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        last.record_reason(rank, &panic.to_string());
        hook(panic);
    }));
    let result = run_with_engine(config, groups, (&watch, rank), &stop, purpose);
    if let Err(failure) = &result {
        watch.record_reason(rank, &failure.message);
    }
    result
}

/// Does a rank's work once its groups are connected.
fn run_with_engine(
    config: &Config,
    mut groups: Groups,
    board: (&Watchdog, usize),
    stop: &AtomicBool,
    purpose: Purpose,
) -> Result<Outcome, Failure> {
    let first = groups.world.rank() == 0;
    let mut connection = None;
    let mut checked = None;
    if let Some(runtime) = aten::Runtime::detect(config)? {
        let made = aten::connect(config, &mut groups, &runtime, Some(board))?;
        let remembered = (purpose == Purpose::Train).then_some(Path::new(&config.checkpoint.directory));
        connection =
            Some(if runtime.gpu || purpose == Purpose::SelfCheck || fault_injection::self_checks() {
                let (again, made, found) = made.self_check(config, groups, remembered)?;
                groups = again;
                checked = found;
                made
            } else {
                made
            });
    }
    if let Some(found) = checked.filter(|_| first) {
        let rate =
            |(name, key): (&str, &str)| Some(format!(", {name} {:.1} GB/s", found[key].as_f64()? / 1e9));
        let rates = [
            ("gather", "gather_bytes_per_s"),
            ("reduce-scatter", "reduce_scatter_bytes_per_s"),
            ("all-reduce", "all_reduce_bytes_per_s"),
        ];
        for warning in found["warnings"].as_array().into_iter().flatten() {
            let warning = warning.as_str().unwrap_or_default();
            console::print_stdout(serde_json::json!({"event": "warning", "warning": warning}));
            console::print_stderr(format_args!("warning: {warning}"));
        }
        console::print_stderr(format_args!(
            "self-check: passed after {:.1} s{}",
            found["seconds"].as_f64().unwrap_or(0.0),
            rates.into_iter().filter_map(rate).collect::<String>()
        ));
        let mut line = serde_json::json!({"check": "selfcheck", "ok": true});
        if let (Some(line), serde_json::Value::Object(found)) = (line.as_object_mut(), found) {
            line.extend(found);
        }
        console::print_stdout(line);
    }
    board.0.mark_connected(board.1);
    let has_gpus = connection.is_some();
    let create = |groups| -> Result<Box<dyn Engine>, Failure> {
        Ok(match connection {
            Some(connection) => Box::new(connection.into_engine(config, groups)?),
            None => Box::new(CpuEngine::new(config, groups, threads())),
        })
    };
    match purpose {
        Purpose::Train => {
            train::run(config, groups, create, stop, &mut MetricsLog::new(Path::new(&config.output.data)))
        }
        Purpose::Preflight => preflight::run(config, groups, create).map(|()| Outcome::Done),
        Purpose::SelfCheck if has_gpus => Ok(Outcome::Done),
        Purpose::SelfCheck => {
            Err(Failure::new(Code::Config, "the config has no GPUs to check: `cluster.gpus_per_node` is 0"))
        }
    }
}

/// Connects to the ranks of other hosts.
fn connect(config: &Config, rank: usize, at: &str, watch: &Watchdog) -> Result<Connections, Failure> {
    let key = read_inherited_key()?;
    let (first, port) = at.rsplit_once(':').unwrap_or((at, ""));
    let port = port
        .parse()
        .map_err(|_| Failure::new(Code::Usage, format!("`{at}` is not of the form HOST:PORT")))?;
    let join = seconds(config.communication.join_seconds);
    let settings = rendezvous::shared_settings(config, &key);
    let (listener, roster) = rendezvous::join(first, port, &key, settings.clone(), rank, join)?;
    Connections::connect(&topology(config), rank, &listener, &roster, (&key, &settings), watch, join)
}
