//! Logs of a simulated job: lines are generated on demand, so that a long log needs no memory.

use super::job::Outcome;
use super::pace;
use super::state::JobState;
use crate::account::{LogEvent, LogFrom, LogPage, LogStream};

/// Number of lines before the first step.
const GREETING: u64 = 3;
/// Seconds from the program's start to its first step.
const BEGIN: f64 = 4.0;
/// A failing program logs no steps in the last `SILENT` seconds before its failure, and its error
/// `LAST_WORDS` seconds before it.
const SILENT: f64 = 30.0;
const LAST_WORDS: f64 = 20.0;
/// Maximum number of lines per page (GetLogEvents returns up to 10,000).
const PAGE: u64 = 500;

/// Returns the streams of a job at a time.
pub(super) fn streams(state: &JobState, now: f64) -> Vec<LogStream> {
    let Some(start) = program_start(state).filter(|start| *start <= now) else { return Vec::new() };
    (1..=state.job.instance_count().max(1))
        .map(|host| LogStream {
            name: format!("{}/algo-{host}-{}", state.job.name, whole_seconds(start)),
            first: Some(milliseconds(start)),
            last: Some(milliseconds(now.min(state.job.ended.unwrap_or(now)))),
        })
        .collect()
}

/// Returns the start of the program, if it has started.
fn program_start(state: &JobState) -> Option<f64> {
    state.job.transitions.iter().find(|one| one.status == "Training").map(|one| one.start)
}

/// Returns up to `most` lines of a stream from the end of the previous page.
pub(super) fn events(
    state: &JobState,
    stream: &str,
    from: LogFrom<'_>,
    most: u32,
    now: f64,
) -> Option<LogPage> {
    let host: u64 = stream.rsplit('/').next()?.split('-').nth(1)?.parse().ok()?;
    let start = program_start(state)?;
    let now = now.min(state.job.ended.unwrap_or(now));
    let mut at: u64 = from.token.and_then(|token| token.strip_prefix("f/")?.parse().ok()).unwrap_or(0);
    let mut page = LogPage::default();
    while let Some(event) = line(state, host, start, at).filter(|event| event.time <= milliseconds(now)) {
        if page.events.len() as u64 >= PAGE.min(u64::from(most)) {
            break;
        }
        if from.since.is_none_or(|since| event.time >= since) {
            page.events.push(event);
        }
        at += 1;
    }
    page.next = Some(format!("f/{at}"));
    Some(page)
}

fn line(state: &JobState, host: u64, start: f64, at: u64) -> Option<LogEvent> {
    let failing =
        matches!(state.outcome, Outcome::OutOfMemory | Outcome::Nccl | Outcome::Disk | Outcome::UserCode);
    // Timestamps of hosts differ.
    let shift = host as f64 * 0.007;
    let event = |seconds: f64, text: String| LogEvent { time: milliseconds(start + seconds + shift), text };
    if at < GREETING {
        let text = match at {
            0 => "Invoking user script".to_owned(),
            1 => format!("host algo-{host} of {}", state.job.instance_count()),
            _ => "NCCL version 2.26.2+cuda12.2".to_owned(),
        };
        return Some(event(at as f64, text));
    }
    let number = at - GREETING + 1;
    let said = pace::line(state, number).filter(|line| !failing || is_before(state, line));
    let Some(line) = said else {
        if !failing {
            return None;
        }
        let before =
            (1..number).rev().find(|one| pace::line(state, *one).is_some_and(|one| is_before(state, &one)));
        let since = (number - before.unwrap_or(0) - 1) as f64;
        let seconds = pace::fails_after(state) - LAST_WORDS + since;
        return (since < 4.0).then(|| event(seconds, failure_line(state.outcome, host, since)));
    };
    let share = line.step as f64 / state.steps.max(1) as f64;
    let (step, loss) = (line.step, 2.1 + 8.4 * (-4.0 * share).exp());
    let (rate, mfu) = (line.tokens_per_second, line.mfu);
    let text =
        format!("step={step} loss={loss:.4} grad_norm=0.81 lr=0.0003 tokens_per_s={rate:.0} mfu={mfu:.3}");
    Some(event(BEGIN + line.seconds, text))
}

/// Returns true if a failing program still logs this line.
fn is_before(state: &JobState, line: &pace::Line) -> bool {
    BEGIN + line.seconds < pace::fails_after(state) - SILENT
}

/// Returns a line of a failing program: the cause on the first host, its consequence on the others.
fn failure_line(outcome: Outcome, host: u64, line: f64) -> String {
    let first = host == 1;
    if line < 1.0 {
        return "Traceback (most recent call last):".to_owned();
    }
    let text = match outcome {
        Outcome::OutOfMemory if first => {
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a \
                total capacity of 39.39 GiB of which 1.21 GiB is free."
        }
        Outcome::Disk if first => {
            "OSError: [Errno 28] No space left on device: '/opt/ml/checkpoints/step-200.pt'"
        }
        Outcome::UserCode if first => "KeyError: 'input_ids'",
        _ => {
            "torch.distributed.DistBackendError: [Rank 8] Watchdog caught collective operation \
                timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE)"
        }
    };
    text.to_owned()
}

fn whole_seconds(seconds: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs()
}

fn milliseconds(seconds: f64) -> i64 {
    let time = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
