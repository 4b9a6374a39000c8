//! A `git` that talks to a host: ended when it takes too long, is silent or sends too much, and when trainc
//! ends.

use super::{Repository, last_error_line};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{PipeWriter, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the process is checked.
const TICK: Duration = Duration::from_millis(20);

/// Interval at which what it stored is measured.
const MEASURE: Duration = Duration::from_millis(250);

/// Time in which its output is read after its end: a process that it left behind may hold the pipe.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum size of what git prints in bytes.
const MOST_OUTPUT_BYTES: u64 = 64 << 20;

/// Runs the arguments until they end, or until nobody holds the other end of standard input any more: then
/// the whole process group ends, and with it the helpers that git starts. The memory of each of them is
/// limited to the first argument, in KiB, since a host also decides how much git has to remember.
const SUPERVISOR: &str = "ulimit -d \"$1\" 2>/dev/null
shift
exec 3<&0
\"$@\" </dev/null 3<&- &
git=$!
{ read -r _ <&3; kill -s KILL 0; } >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait \"$git\"
code=$?
kill -s KILL \"$watch\"
exit \"$code\"";

/// The limits of the conversation with a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Time for all requests to a host together.
    pub time: Duration,
    /// Time without a byte from it.
    pub silence: Duration,
    /// Size of what is stored in bytes.
    pub bytes: u64,
    /// Memory of each process in bytes.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_mins(10),
            silence: Duration::from_mins(1),
            bytes: 2 << 30,
            memory: 2 << 30,
        }
    }
}

/// Why git gave no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GitFault {
    /// A limit was exceeded: asking otherwise would not help.
    Limit(String),
    /// Another reason.
    Other(String),
}

impl GitFault {
    pub(super) fn into_words(self) -> String {
        let (Self::Limit(words) | Self::Other(words)) = self;
        words
    }
}

/// The conversation with a host.
pub(super) struct Conversation {
    limits: Limits,
    start: Instant,
}

impl Conversation {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, start: Instant::now() }
    }

    /// Runs git on a repository and returns its standard output; fails with the last line of its standard
    /// error, or with the limit that was exceeded.
    pub(super) fn run(&self, repository: &Repository, words: &[&str]) -> Result<Vec<u8>, GitFault> {
        let git = repository.command();
        let output = self.output(repository, &git, words)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let verb = words.first().unwrap_or(&"");
        let why = last_error_line(&output);
        Err(GitFault::Other(format!("git {verb}: {}", why.as_deref().unwrap_or("no reason given"))))
    }

    fn output(&self, repository: &Repository, git: &Command, words: &[&str]) -> Result<Output, GitFault> {
        let other = |error: &std::io::Error| {
            GitFault::Other(format!("`git` cannot be run: {}", crate::files::describe(error)))
        };
        let mut running = Running::start(git, words, self.limits.memory).map_err(|error| other(&error))?;
        let objects = repository.dir.join("objects");
        let (before, mut stored) = (size_of(&objects), 0);
        let (mut last, mut measured, mut seen) = (Instant::now(), Instant::now(), 0);
        let status = loop {
            if let Some(status) = running.child.try_wait().map_err(|error| other(&error))? {
                break status;
            }
            let printed = running.printed.load(Ordering::Relaxed);
            if measured.elapsed() >= MEASURE {
                stored = size_of(&objects).saturating_sub(before);
                measured = Instant::now();
            }
            if printed + stored != seen {
                (last, seen) = (Instant::now(), printed + stored);
            }
            let limits = &self.limits;
            let seconds = |limit: Duration| format!("{} s", limit.as_secs_f64());
            let exceeded = if printed > MOST_OUTPUT_BYTES || stored > limits.bytes {
                Some(format!("it sends more than {}", trainc_diag::text::bytes(limits.bytes)))
            } else if last.elapsed() >= limits.silence {
                Some(format!("the host sent nothing for {}", seconds(limits.silence)))
            } else if self.start.elapsed() >= limits.time {
                Some(format!("it takes longer than {}", seconds(limits.time)))
            } else {
                None
            };
            if let Some(words) = exceeded {
                return Err(GitFault::Limit(words));
            }
            std::thread::sleep(TICK);
        };
        let (stdout, stderr) = running.output();
        if status.code() == Some(127) {
            return Err(GitFault::Other("the program `git` is not installed".to_owned()));
        }
        Ok(Output { status, stdout, stderr })
    }
}

/// A supervised git. It ends when this is dropped.
struct Running {
    child: Child,
    /// Held as long as git may run.
    leash: Option<PipeWriter>,
    /// Number of bytes that it printed.
    printed: Arc<AtomicU64>,
    streams: Vec<(Text, JoinHandle<()>)>,
}

/// The text of a stream, as far as it was read.
type Text = Arc<Mutex<Vec<u8>>>;

impl Running {
    fn start(git: &Command, words: &[&str], memory: u64) -> std::io::Result<Self> {
        let (reader, leash) = std::io::pipe()?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SUPERVISOR, "sh", &(memory >> 10).to_string()])
            .arg(git.get_program())
            .args(git.get_args())
            .args(words);
        for (name, value) in git.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // Its own group, which is ended as a whole.
        command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let printed = Arc::new(AtomicU64::new(0));
        let mut streams = Vec::new();
        streams.extend(child.stdout.take().map(|out| read(out, &printed)));
        streams.extend(child.stderr.take().map(|err| read(err, &printed)));
        Ok(Self { child, leash: Some(leash), printed, streams })
    }

    /// Returns standard output and standard error, once git has ended.
    fn output(&mut self) -> (Vec<u8>, Vec<u8>) {
        let end = Instant::now() + GRACE;
        let mut texts = self.streams.drain(..).map(|(text, reader)| {
            while !reader.is_finished() && Instant::now() < end {
                std::thread::sleep(TICK);
            }
            text.lock().unwrap_or_else(PoisonError::into_inner).clone()
        });
        let stdout = texts.next().unwrap_or_default();
        (stdout, texts.next().unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.wait();
        }
        self.leash = None;
    }
}

/// Reads a stream to its end, or to a size at which git is ended anyway.
fn read(from: impl Read + Send + 'static, printed: &Arc<AtomicU64>) -> (Text, JoinHandle<()>) {
    let text = Text::default();
    let (out, printed) = (Arc::clone(&text), Arc::clone(printed));
    let reader = std::thread::spawn(move || {
        let mut from = from.take(MOST_OUTPUT_BYTES + 1);
        let mut block = [0; 8_192];
        while let Ok(read @ 1..) = from.read(&mut block) {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            out.extend_from_slice(block.get(..read).unwrap_or_default());
            printed.fetch_add(read as u64, Ordering::Relaxed);
        }
    });
    (text, reader)
}

/// Returns the size of the files below a directory in bytes.
fn size_of(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        // Renamed meanwhile: it is counted the next time.
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::os::unix::process::ExitStatusExt as _;

    fn repository(name: &str) -> Repository {
        let dir = std::env::temp_dir().join(format!("trainc-limited-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let repository = Repository { dir, is_bare: true };
        repository.run(&["init", "--bare", "--quiet"]).unwrap();
        repository
    }

    /// Returns the address of a host that accepts, and then does this with each connection.
    fn host(answer: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/x.git", listener.local_addr().unwrap());
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || answer(connection));
            }
        });
        address
    }

    fn ask(name: &str, url: &str, limits: Limits) -> GitFault {
        let repository = repository(name);
        let asked = Conversation::new(limits).run(&repository, &["ls-remote", "--", url]);
        std::fs::remove_dir_all(&repository.dir).unwrap();
        asked.unwrap_err()
    }

    #[test]
    fn a_host_that_is_silent_ends_the_fetch() {
        let url = host(|connection| {
            std::thread::sleep(Duration::from_mins(5));
            drop(connection);
        });
        let limits = Limits { silence: Duration::from_millis(300), ..Limits::default() };
        assert_eq!(
            ask("silent", &url, limits),
            GitFault::Limit("the host sent nothing for 0.3 s".to_owned())
        );
    }

    #[test]
    fn a_host_that_never_ends_is_left_in_time() {
        // It prints one line after another, which is no silence.
        let repository = repository("slow");
        let limits = Limits { time: Duration::from_millis(600), ..Limits::default() };
        let chatty = ["-c", "alias.chat=!while :; do echo x; sleep 0.05; done", "chat"];
        let asked = Conversation::new(limits).run(&repository, &chatty);
        assert_eq!(asked.unwrap_err(), GitFault::Limit("it takes longer than 0.6 s".to_owned()));
        std::fs::remove_dir_all(&repository.dir).unwrap();
    }

    #[test]
    fn a_host_that_sends_without_end_is_bounded_in_memory() {
        let url = host(|mut connection| {
            let head =
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n";
            let _ = connection.write_all(head);
            let part = vec![b'x'; 65_536];
            while connection.write_all(&part).is_ok() {}
        });
        let fault = ask("endless", &url, Limits { memory: 64 << 20, ..Limits::default() });
        assert!(matches!(&fault, GitFault::Other(words) if words.contains("ut of memory")), "{fault:?}");
    }

    #[test]
    fn what_is_stored_is_bounded() {
        let repository = repository("large");
        let limits = Limits { bytes: 1 << 20, ..Limits::default() };
        let large =
            ["-c", "alias.fill=!head -c 4000000 /dev/zero >objects/pack/tmp_pack_x; sleep 300", "fill"];
        let asked = Conversation::new(limits).run(&repository, &large);
        assert_eq!(asked.unwrap_err(), GitFault::Limit("it sends more than 1 MiB".to_owned()));
        std::fs::remove_dir_all(&repository.dir).unwrap();
    }

    #[test]
    fn git_and_its_helpers_end_when_nobody_holds_the_leash() {
        let repository = repository("leash");
        let words = ["-c", "alias.nap=!echo $$; sleep 300", "nap"];
        let mut running = Running::start(&repository.command(), &words, 1 << 30).unwrap();
        while running.printed.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(TICK);
        }
        // As when trainc is killed.
        running.leash = None;
        assert_eq!(running.child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        let (printed, _) = running.output();
        let helper = String::from_utf8(printed).unwrap().trim().parse().unwrap();
        let ended = || {
            rustix::process::test_kill_process(Pid::from_raw(helper).unwrap()).is_err() || is_zombie(helper)
        };
        let end = Instant::now() + Duration::from_mins(2);
        while !ended() && Instant::now() < end {
            std::thread::sleep(TICK);
        }
        assert!(ended(), "its helper runs on");
        std::fs::remove_dir_all(&repository.dir).unwrap();
    }

    /// Returns whether a process has ended and nobody has asked for its exit status.
    fn is_zombie(process: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.contains(") Z ")
    }
}
