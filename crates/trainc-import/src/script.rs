//! Runs a Python script with every AWS call answered, and reads what it recorded.

use crate::{RECORDER, Recording};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trainc_project::files::{describe, read_regular};
use trainc_project::signals::stop_signals;

/// Interval at which the process is checked.
const TICK: Duration = Duration::from_millis(20);
/// Time after the timeout in which Python may write where the script hangs.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum size of the record in bytes.
const MOST_RECORD_BYTES: u64 = 64 << 20;

/// Variables with credentials, which the script does not get.
const CREDENTIALS: &[&str] = &[
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// A script to run.
pub struct Script<'a> {
    /// Path of the script.
    pub path: &'a Path,
    /// Its arguments.
    pub arguments: &'a [String],
    /// The Python that runs it.
    pub python: PathBuf,
    /// Time after which it is ended.
    pub timeout: Duration,
    /// Whether statements that fail are skipped.
    pub keep_going: bool,
    /// Region in place of the configured one.
    pub region: Option<&'a str>,
}

/// What a run of a script left.
pub struct ScriptRun {
    /// The record.
    pub recording: Recording,
    /// Where it hung, if it did not end in time.
    pub hang: Option<String>,
    /// What it printed.
    pub output: String,
    /// True if a signal stopped it.
    pub stopped: bool,
}

/// Returns true if a file is a Python script: by its name, or by its first line.
pub fn is_python(path: &Path, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    path.extension().is_some_and(|extension| extension == "py" || extension == "pyw")
        || (first.starts_with("#!") && first.contains("python"))
}

/// Returns the user's Python: that of the active virtual environment, or the first of the path.
pub fn find_python(named: Option<&Path>) -> PathBuf {
    if let Some(named) = named {
        return named.to_path_buf();
    }
    let active = std::env::var_os("VIRTUAL_ENV").map(|active| Path::new(&active).join("bin/python"));
    active.filter(|python| python.is_file()).unwrap_or_else(|| PathBuf::from("python3"))
}

impl Script<'_> {
    /// Runs it; returns the reason if it cannot be started.
    pub fn run(&self) -> Result<ScriptRun, String> {
        let scratch =
            Scratch::new().map_err(|error| format!("no temporary directory: {}", describe(&error)))?;
        let (recorder, record) = (scratch.0.join("trainc_recorder.py"), scratch.0.join("record"));
        let (output, temporary) = (scratch.0.join("output"), scratch.0.join("tmp"));
        let prepared = fs::create_dir(&temporary)
            .and_then(|()| fs::write(&recorder, RECORDER))
            .and_then(|()| Ok((File::create(&output)?, File::create(&record)?)));
        let (file, _) = prepared.map_err(|error| describe(&error))?;
        let errors = file.try_clone().map_err(|error| describe(&error))?;
        let mut command = Command::new(&self.python);
        command
            .arg(&recorder)
            .arg(&record)
            .arg(self.timeout.as_secs_f64().to_string())
            .arg(if self.keep_going { "go-on" } else { "stop" })
            .arg(self.path)
            .args(self.arguments)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("MPLBACKEND", "Agg")
            .env("TMPDIR", &temporary)
            .env("AWS_ACCESS_KEY_ID", "trainc")
            .env("AWS_SECRET_ACCESS_KEY", "trainc")
            // Its own group, which is ended as a whole.
            .process_group(0);
        for name in CREDENTIALS {
            command.env_remove(name);
        }
        // botocore only reads AWS_DEFAULT_REGION.
        let region = self.region.map(OsString::from).or_else(|| std::env::var_os("AWS_REGION"));
        if let Some(region) = region.filter(|region| !region.is_empty()) {
            command.env("AWS_REGION", &region).env("AWS_DEFAULT_REGION", &region);
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("`{}` does not start: {}", self.python.display(), describe(&error)))?;
        let stopped = wait(&mut child, self.timeout + GRACE);
        let text = |path: &Path| {
            let bytes = read_regular(path, MOST_RECORD_BYTES).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let recording = Recording::read(&text(&record));
        let mut hang_path = record.into_os_string();
        hang_path.push(".hang");
        let hang = (!recording.ended).then(|| without_recorder(&text(Path::new(&hang_path)), &recorder));
        let mut run = ScriptRun { hang, recording, output: text(&output), stopped };
        if self.keep_going && run.recording.jobs() > 0 {
            self.end_at_hang(&mut run);
        }
        Ok(run)
    }

    /// Ends the recording where the script hung: it waits for a result of a job, which no account gives.
    fn end_at_hang(&self, run: &mut ScriptRun) {
        let Some(hang) = run.hang.take() else { return };
        let reason = format!("the script did not end within {} s", self.timeout.as_secs());
        run.recording.stopped = Some((reason, line_in_traceback(&hang, self.path)));
        run.recording.ended = true;
    }
}

/// Waits until a process ends, and ends its group after the timeout or a signal. Returns true for a signal.
fn wait(child: &mut Child, timeout: Duration) -> bool {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in stop_signals() {
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    let end = Instant::now() + timeout;
    while matches!(child.try_wait(), Ok(None)) {
        let stopped = stop.load(Ordering::Relaxed);
        if stopped || Instant::now() > end {
            break;
        }
        std::thread::sleep(TICK);
    }
    // Also what the script has left running.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    stop.load(Ordering::Relaxed)
}

/// Returns a traceback without the frames of the recorder.
fn without_recorder(traceback: &str, recorder: &Path) -> String {
    let frame = format!("File \"{}\"", recorder.display());
    let lines = traceback.lines().filter(|line| !line.contains(&frame)).map(|line| format!("{line}\n"));
    lines.collect()
}

/// Returns the line of a script that a traceback names first.
pub(crate) fn line_in_traceback(traceback: &str, script: &Path) -> Option<usize> {
    let script = script.canonicalize().ok()?;
    let frame = format!("File \"{}\", line ", script.display());
    let rest = traceback.lines().find_map(|line| line.trim_start().strip_prefix(&frame))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A directory that only this user can read, deleted at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(|error| std::io::Error::other(error.to_string()))?;
        let path = std::env::temp_dir().join(format!("trainc-import-{:016x}", u64::from_le_bytes(random)));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
