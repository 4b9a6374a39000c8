//! The worker as a child process: reads its output, forwards signals, and converts its exit code.

use super::screen::Screen;
use super::{Args, Place, display_path};
use crate::args::Global;
use crate::exit;
use crate::terminal::io::Io;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, PipeReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use trainc_ir::Plan;
use trainc_predict::memory::{MemoryConstants, memory_with};
use trainc_predict::{Constants, Layout};
use trainc_project::signals::stop_signals;

/// Interval at which signals are checked while there is no output.
const TICK: Duration = Duration::from_millis(50);
/// Number of the worker's last lines shown when it fails.
const LAST_LINES: usize = 12;

enum Line {
    Out(String),
    Err(String),
}

/// Starts the worker, follows it until it ends, and returns the exit code.
pub(super) fn run(
    io: &mut Io,
    global: &Global,
    args: &Args,
    plan: &Plan,
    binary: &Path,
    place: &Place,
) -> u8 {
    let key = match random_key() {
        Ok(key) => key,
        Err(error) => {
            io.note(&format!("error: cannot create the key of the run: {error}\n"));
            return exit::USAGE;
        }
    };
    let mut command = Command::new(binary);
    command
        .args(["launch", "--key-stdin"])
        .arg(&place.config)
        // If this process ends in any way, the worker saves and ends after it.
        .args(["--parent", &std::process::id().to_string()])
        .stdin(key)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(ranks) = args.ranks {
        command.args(["--ranks", &ranks.to_string()]);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            io.note(&format!("error: `{}` does not start: {error}\n", display_path(binary)));
            return exit::USAGE;
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in stop_signals() {
        // If it cannot be registered, the signal ends both processes by default.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    let json = args.output == "json";
    let steps = plan.run.steps.as_ref().map_or(0, |steps| steps.value);
    let tokens = plan.batch.as_ref().and_then(|batch| batch.global_tokens).unwrap_or(0);
    let planned = predict_rank_memory(plan, args.ranks, args.input.overlay.constants());
    let mut screen = Screen::new(steps, tokens, planned, global.quiet || json, io.unicode);
    if json {
        io.print_json(&format!("{}\n", json!({"type": "version", "format": "1.0"})));
    }
    let lines = lines(&mut child);
    let mut watch =
        Watch { stop: &stop, json, screen: &mut screen, log: open_log(&place.out.join("log.txt")) };
    let last = watch.follow(io, &child, &lines);
    let ended = Ended::of(child.wait());
    screen.clear_bar();
    finish(io, json, global, &Run { ended, last, screen: &screen, place, planned })
}

/// Returns the reading end of a pipe that contains a random key: other users can read arguments and
/// environment of a process, but not what it inherits.
fn random_key() -> std::io::Result<PipeReader> {
    let mut key = [0_u8; 32];
    getrandom::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
    let (reader, mut writer) = std::io::pipe()?;
    for byte in key {
        write!(writer, "{byte:02x}")?;
    }
    Ok(reader)
}

/// Predicts the memory of a rank in bytes. Like the worker, it maps the ranks of the cluster to the processes
/// of this machine: the shard degree becomes the largest divisor of their number up to the plan's. The plan's
/// constants are used, but do not affect ranks on CPUs, whose memory is computed exactly.
fn predict_rank_memory(plan: &Plan, ranks: Option<u64>, constants: &Constants) -> Option<u64> {
    let mut layout = Layout::from_plan(plan).ok()?;
    if let Some(ranks) = ranks {
        let most = plan.mesh.as_ref()?.shard_degree.value.min(ranks);
        let degree = (1..=most).rev().find(|degree| ranks.is_multiple_of(*degree))?;
        layout.degrees.shard = degree as f64;
        layout.degrees.replicas = (ranks / degree) as f64;
        layout.worker.cpu = true;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, above zero")]
    Some(memory_with(&layout, &MemoryConstants::from_constants(constants)).per_gpu_bytes.round() as u64)
}

/// Returns the memory in bytes that the worker computed, from its log of the start.
fn read_computed_memory(place: &Place) -> Option<u64> {
    let text = fs::read_to_string(place.out.join("output/metrics.jsonl")).ok()?;
    // The last start is that of this run.
    let start = text
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|line| line.get("event").is_some_and(|event| event == "start"))?;
    let parts = start.get("memory_parts")?.as_object()?;
    Some(parts.values().filter_map(Value::as_u64).sum())
}

/// Reads both streams line by line, in order of arrival.
fn lines(child: &mut Child) -> Receiver<Line> {
    let (sender, receiver) = channel();
    fn read(from: impl std::io::Read + Send + 'static, sender: Sender<Line>, wrap: fn(String) -> Line) {
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if sender.send(wrap(line)).is_err() {
                    break;
                }
            }
        });
    }
    if let Some(out) = child.stdout.take() {
        read(out, sender.clone(), Line::Out);
    }
    if let Some(err) = child.stderr.take() {
        read(err, sender, Line::Err);
    }
    receiver
}

/// Opens the log of all runs of the job; `None` if that fails, since a run works without a log.
fn open_log(path: &Path) -> Option<File> {
    fs::OpenOptions::new().create(true).append(true).open(path).ok()
}

/// Handles the worker's output.
struct Watch<'a> {
    stop: &'a AtomicBool,
    json: bool,
    screen: &'a mut Screen,
    log: Option<File>,
}

impl Watch<'_> {
    /// Reads until both streams end; returns the last human-readable lines.
    fn follow(&mut self, io: &mut Io, child: &Child, lines: &Receiver<Line>) -> VecDeque<String> {
        let mut last = VecDeque::new();
        loop {
            if self.stop.swap(false, Ordering::Relaxed) {
                self.screen.note("saving a checkpoint, then stopping");
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                if let Some(pid) = pid {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
            match lines.recv_timeout(TICK) {
                Ok(Line::Out(line)) => self.handle_metrics_line(io, &line),
                Ok(Line::Err(line)) => {
                    let logged = self.log.as_mut().map(|log| log.write_all(format!("{line}\n").as_bytes()));
                    if let Some(Err(error)) = logged {
                        self.log = None;
                        self.screen
                            .note(&format!("warning: log.txt: {error}; no further metrics are written"));
                    }
                    if let Some(fault) = line.strip_prefix("error: ") {
                        // Shown at the end, with an explanation.
                        last.push_back(fault.to_owned());
                    } else if !line.starts_with("step=") {
                        self.screen.note(&line);
                        last.push_back(line);
                    }
                    if last.len() > LAST_LINES {
                        last.pop_front();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return last,
            }
        }
    }

    fn handle_metrics_line(&mut self, io: &mut Io, line: &str) {
        let Ok(value) = serde_json::from_str::<Value>(line) else { return };
        self.screen.step(&value);
        if self.json {
            io.print_json(&format!("{}\n", with_type_member(value)));
        }
    }
}

/// Adds the member `type` to a line of the worker, for readers of JSON lines.
fn with_type_member(mut value: Value) -> Value {
    if let Value::Object(members) = &mut value {
        let kind = if members.contains_key("validation_loss") {
            "evaluation"
        } else if members.contains_key("warning") {
            "warning"
        } else {
            "step"
        };
        members.insert("type".to_owned(), Value::from(kind));
    }
    value
}

/// How the launcher ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Unknown.
    Lost,
}

impl Ended {
    fn of(status: std::io::Result<ExitStatus>) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let Ok(status) = status else { return Self::Lost };
        status.code().map(Self::Code).or(status.signal().map(Self::Signal)).unwrap_or(Self::Lost)
    }

    /// Returns the exit code as in a shell: 128 plus the signal number for a signal.
    fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
            Self::Lost => 1,
        }
    }
}

/// Formats a signal with its name, if it has one.
fn describe_signal(signal: i32) -> String {
    let name = signal_hook::low_level::signal_name(signal).map(|name| format!(" ({name})"));
    format!("signal {signal}{}", name.unwrap_or_default())
}

/// The outcome of a run.
struct Run<'a> {
    ended: Ended,
    last: VecDeque<String>,
    screen: &'a Screen,
    place: &'a Place,
    planned: Option<u64>,
}

fn finish(io: &mut Io, json: bool, global: &Global, run: &Run) -> u8 {
    let code = run.ended.code();
    let ours = match code {
        0 => exit::DONE,
        3 => exit::MANIFEST,
        _ => exit::FAILED,
    };
    let said = || {
        let written = fs::read_to_string(run.place.out.join("failure")).ok();
        written.map(|text| text.trim().to_owned()).or_else(|| run.last.back().cloned())
    };
    // A killed worker writes no reason, and the last line of its log is unrelated.
    let reason = match run.ended {
        Ended::Code(0 | 75) => None,
        Ended::Code(_) | Ended::Lost => said(),
        Ended::Signal(signal) => Some(format!("the worker was killed by {}", describe_signal(signal))),
    };
    if json {
        let line = json!({
            "type": "result", "exit": ours, "worker_code": code, "steps": run.screen.steps_done(),
            "loss": run.screen.last_loss(), "memory": {
                "resident_bytes": run.screen.peak_resident_bytes(), "planned_bytes": run.planned,
                "counted_bytes": read_computed_memory(run.place),
            },
            "reason": reason, "out": run.place.out.to_string_lossy(),
        });
        io.print_json(&format!("{line}\n"));
        return ours;
    }
    match code {
        0 if global.quiet => {}
        0 => io.print(&format!(
            "{}\nmodel       {}\n",
            run.screen.summary(),
            display_path(&run.place.out.join("model"))
        )),
        75 => io.print(&format!(
            "{}\nstopped with a checkpoint in {} (worker's code 75); the same command goes on from there\n",
            run.screen.summary(),
            display_path(&run.place.checkpoints)
        )),
        _ => {
            io.note(&format!(
                "error: the run failed: {}\n  {}\n  its log is {}\n",
                reason.as_deref().unwrap_or("it said nothing"),
                match run.ended {
                    Ended::Code(code) => format!("worker's code {code}: {}", describe_exit_code(code)),
                    Ended::Signal(signal) => advice_after_signal(signal),
                    Ended::Lost => "how it ended is not known".to_owned(),
                },
                display_path(&run.place.out.join("log.txt"))
            ));
        }
    }
    ours
}

/// Returns advice after a signal that does not allow the worker to save.
fn advice_after_signal(signal: i32) -> String {
    let why = if signal == signal_hook::consts::SIGKILL {
        "SIGKILL, which the kernel sends when memory runs out, leaves no time to save: "
    } else {
        ""
    };
    format!("{why}the same command goes on from the last checkpoint")
}

/// Describes an exit code of the worker; `trainc-worker --help` has the same table.
fn describe_exit_code(code: i32) -> &'static str {
    match code {
        2 => "invalid command line",
        3 => "the config is invalid or does not match this machine",
        10 => "data or weights are invalid",
        11 => "a checkpoint cannot be read or written",
        12 => "the loss is not finite or exceeds its limit",
        13 => "a rank failed or a timeout expired",
        14 => "a device or a library is missing",
        15 => "results cannot be written",
        76 => "stopped before a checkpoint was saved",
        1 | 101 => "a bug in the worker",
        _ => "a code that this version of trainc does not know",
    }
}
