//! Why a job failed: the first host that says a cause, what kind of cause it is, which rule speaks of it, and what to
//! do next.

use super::account::{LogEvent, TrainingJob};
use crate::declare_code;
use crate::diag::Code;
use crate::ir::Plan;
use crate::ir::plan::DIGEST_MARK;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

declare_code!(T0650, "job-failed", Error, "a training job that failed for a reason of its own");
declare_code!(T0651, "job-out-of-memory", Error, "a training job that ran out of GPU or host memory");
declare_code!(T0652, "job-collective-failed", Error, "a training job whose hosts lost each other");
declare_code!(T0653, "job-disk-full", Error, "a training job whose volume was full");
declare_code!(T0654, "job-program-failed", Error, "a training job whose program raised an error");
declare_code!(T0655, "job-not-permitted", Error, "a training job whose role may not do something");
declare_code!(T0656, "job-image-failed", Error, "a training job whose image could not be started");
declare_code!(T0657, "job-without-capacity", Error, "a training job that found no machines");
declare_code!(T0658, "job-stopped", Error, "a training job that was stopped");
declare_code!(T0659, "job-out-of-time", Error, "a training job that reached its longest run or wait");
declare_code!(T0662, "job-over-quota", Error, "a training job that a quota of the account ended");
declare_code!(T0660, "job-service-failed", Error, "a training job that failed inside SageMaker");
declare_code!(
    T0661,
    "job-input-refused",
    Error,
    "a training job that could not read its input or write its output"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] =
    &[&T0650, &T0651, &T0652, &T0653, &T0654, &T0655, &T0656, &T0657, &T0658, &T0659, &T0660, &T0661, &T0662];

/// The kind of a cause. Those that follow from others come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// GPU or host memory.
    Memory,
    /// The volume.
    Disk,
    /// The role.
    Permission,
    /// The image.
    Image,
    /// No machines.
    Capacity,
    /// A fault of the service.
    Service,
    /// What SageMaker moves between S3 and the hosts.
    Input,
    /// An exception of the program.
    Program,
    /// Hosts that lost each other: often because one of them failed.
    Collective,
    /// Somebody stopped it.
    Stopped,
    /// The longest run.
    Time,
    /// The longest wait for spot capacity, the run itself counted in.
    Wait,
    /// A quota of the account.
    Quota,
    /// Nothing known.
    Unknown,
}

/// What lines say, by the kind of cause. Each text was seen in logs of PyTorch, NCCL or S3.
const SIGNS: &[(Kind, &[&str])] = &[
    (
        Kind::Memory,
        &[
            "CUDA out of memory",
            "OutOfMemoryError",
            "cudaErrorMemoryAllocation",
            "oom-kill",
            "Cannot allocate memory",
        ],
    ),
    (Kind::Disk, &["No space left on device", "Errno 28", "Disk quota exceeded"]),
    (
        Kind::Permission,
        &["AccessDenied", "Access Denied", "AccessDeniedException", "is not authorized to perform"],
    ),
    (
        Kind::Collective,
        &[
            "collective operation timeout",
            "NCCL error",
            "ncclSystemError",
            "ncclRemoteError",
            "DistBackendError",
            "Socket Timeout",
            "NET/OFI",
        ],
    ),
];

impl Kind {
    /// The code of this kind.
    pub fn code(self) -> &'static Code {
        match self {
            Self::Memory => &T0651,
            Self::Collective => &T0652,
            Self::Disk => &T0653,
            Self::Program => &T0654,
            Self::Permission => &T0655,
            Self::Image => &T0656,
            Self::Capacity => &T0657,
            Self::Stopped => &T0658,
            Self::Time | Self::Wait => &T0659,
            Self::Quota => &T0662,
            Self::Service => &T0660,
            Self::Input => &T0661,
            Self::Unknown => &T0650,
        }
    }

    /// What happened, a fragment.
    pub fn words(self) -> &'static str {
        match self {
            Self::Memory => "out of memory",
            Self::Disk => "the volume is full",
            Self::Permission => "the role may not do something",
            Self::Image => "the image could not be started",
            Self::Capacity => "AWS had no such machines free",
            Self::Program => "the program raised an error",
            Self::Collective => "a collective operation failed: the hosts lost each other",
            Self::Stopped => "somebody stopped it",
            Self::Time => "it reached its longest run",
            Self::Wait => "it reached its longest wait for spot capacity, in which its run counts",
            Self::Quota => "a quota of the account was used up",
            Self::Service => "SageMaker had a fault of its own",
            Self::Input => "SageMaker could not fetch its input or upload its output",
            Self::Unknown => "for a reason that its log does not show",
        }
    }

    /// The rules that speak of it, by code.
    pub fn rules(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &["T0383"],
            Self::Disk => &["T0427", "T0430"],
            Self::Collective => &["T0397", "T0398", "T0627"],
            Self::Permission => &["T0633"],
            Self::Image => &["T0440", "T0441"],
            Self::Capacity => &["T0604"],
            Self::Program => &["T0260", "T0502"],
            Self::Time | Self::Wait => &["T0422", "T0425"],
            Self::Quota => &["T0621"],
            Self::Input => &["T0628"],
            Self::Stopped | Self::Service | Self::Unknown => &[],
        }
    }

    /// What to do next: `manifest` is what follows a command, its path and the flags that led here.
    pub fn next(self, manifest: &str, plan: &Plan, job: &TrainingJob) -> String {
        match self {
            Self::Memory => {
                format!("lower micro-batch and raise accumulation, or shard wider: trainc plan {manifest} -v")
            }
            Self::Disk => {
                format!("raise `volume`, or keep fewer checkpoints, then trainc apply {manifest} --new-run")
            }
            // What a role of one's own may do IAM is asked about; one that trainc makes may do what the manifest names.
            Self::Permission if plan.job.role.as_ref().is_some_and(|role| role.arn.value().is_some()) => {
                format!("trainc plan {manifest} asks IAM what the role may not do")
            }
            Self::Permission => format!(
                "where the program reads S3 that the manifest does not name, write `read \"s3://…\"` in `role`, then trainc apply {manifest} --new-run; else allow what the reason names in the bucket's or the key's policy"
            ),
            Self::Image => format!("trainc check {manifest} says what is known of the image"),
            Self::Capacity => format!("trainc apply {manifest} --wait-for-capacity 2h"),
            Self::Program => format!("mend the program, then trainc apply {manifest} --new-run"),
            Self::Collective => format!("trainc logs {manifest} shows what the hosts said before"),
            Self::Stopped => format!("trainc apply {manifest} --new-run starts another run"),
            Self::Time => longer("max-run", "", manifest, plan, job),
            Self::Wait => longer("max-wait", " of `spot`", manifest, plan, job),
            Self::Quota => {
                format!("trainc plan {manifest} shows the quota, and asks for more of it")
            }
            Self::Service => {
                format!("trainc apply {manifest} --new-run: it is nothing that the manifest says")
            }
            Self::Input => format!("trainc plan {manifest} asks for the buckets and what lies in them"),
            Self::Unknown => format!("trainc logs {manifest}"),
        }
    }
}

/// How a run that had too little time is gone on with. A longer one is another digest: whether it finds the checkpoints of
/// this one hangs on whether their path names the digest.
fn longer(what: &str, of: &str, manifest: &str, plan: &Plan, job: &TrainingJob) -> String {
    let then = format!("then trainc apply {manifest} --new-run");
    let Some(path) = plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.s3.value()) else {
        return format!(
            "raise `{what}`{of}, {then}: it begins at step 0, for the manifest keeps no checkpoints"
        );
    };
    let why = if path.contains(DIGEST_MARK) { ", for their path names the digest" } else { "" };
    match job.request.pointer("/CheckpointConfig/S3Uri").and_then(Value::as_str) {
        // An address with a placeholder left in it is the same in one account.
        Some(kept) if why.is_empty() && (kept == path || path.contains("${")) => {
            format!("raise `{what}`{of}, {then}: it finds the checkpoints of this one in {kept}")
        }
        Some(kept) => format!(
            "raise `{what}`{of}, and write `s3={kept:?}` in `checkpoint`, where this run kept its own, {then}; else it begins at step 0{why}"
        ),
        None => format!("raise `{what}`{of}, {then}: it begins at step 0, for this one kept no checkpoints"),
    }
}

/// Lines of context before and after a cause.
const CONTEXT: usize = 6;

/// What the hosts said, as far as it bears on a failure.
#[derive(Clone, Debug, Default)]
pub struct Autopsy {
    /// The last lines of each host.
    last: BTreeMap<String, VecDeque<LogEvent>>,
    /// The first cause of each kind: when, which host, and the lines around it.
    causes: BTreeMap<Kind, Cause>,
}

/// Where a cause was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// When, milliseconds since 1970.
    pub time: i64,
    /// The host.
    pub host: String,
    /// The line.
    pub line: String,
    /// The lines before it, and some after it.
    pub lines: Vec<String>,
    /// Whether the line names the cause; else it is only the last one of the host that fell silent first.
    pub is_said: bool,
}

impl Autopsy {
    /// Reads a line of a host.
    pub fn read(&mut self, host: &str, event: &LogEvent) {
        if let Some(kind) = kind_of(&event.text) {
            let first = self.causes.get(&kind).is_none_or(|known| event.time < known.time);
            if first {
                let before =
                    self.last.get(host).map(|lines| lines.iter().map(|one| one.text.clone()).collect());
                let mut lines: Vec<String> = before.unwrap_or_default();
                lines.push(event.text.clone());
                let cause = Cause {
                    time: event.time,
                    host: host.to_owned(),
                    line: event.text.clone(),
                    lines,
                    is_said: true,
                };
                self.causes.insert(kind, cause);
            }
        }
        let last = self.last.entry(host.to_owned()).or_default();
        last.push_back(event.clone());
        if last.len() > CONTEXT {
            last.pop_front();
        }
    }

    /// What it comes to, with what the service says.
    pub fn finding(&self, job: &TrainingJob) -> Finding {
        let kind = self.kind(job);
        let cause = self.causes.get(&kind).cloned().or_else(|| self.last_words(kind));
        Finding { kind, cause }
    }

    fn kind(&self, job: &TrainingJob) -> Kind {
        let states: Vec<&str> = job.transitions.iter().map(|one| one.status.as_str()).collect();
        if states.contains(&"MaxWaitTimeExceeded") {
            return Kind::Wait;
        }
        if states.contains(&"MaxRuntimeExceeded") {
            return Kind::Time;
        }
        if job.status == "Stopped" {
            return Kind::Stopped;
        }
        let reason = job.failure.as_deref().unwrap_or_default();
        // A program may meet such an answer of its own calls.
        let limited =
            ["ResourceLimitExceeded", "account-level service limit"].iter().any(|sign| reason.contains(sign));
        if limited && !reason.starts_with("AlgorithmError") {
            return Kind::Quota;
        }
        if reason.contains("CapacityError") || reason.contains("Unable to provision requested ML compute") {
            return Kind::Capacity;
        }
        if reason.contains("pull") && reason.contains("image") || reason.contains("CannotPullContainer") {
            return Kind::Image;
        }
        let said = kind_of_reason(reason);
        if let Some(kind) = said.filter(|kind| matches!(kind, Kind::Permission | Kind::Service)) {
            return kind;
        }
        // Who was killed for its memory seldom has the time to say so.
        let known = |kind| self.causes.contains_key(&kind);
        if let Some(kind) = said.filter(|kind| matches!(kind, Kind::Memory | Kind::Disk))
            && !known(Kind::Memory)
            && !known(Kind::Disk)
        {
            return kind;
        }
        // What follows from another cause is named only when there is no other.
        let first = self.causes.keys().find(|kind| !matches!(kind, Kind::Program | Kind::Collective));
        let program = self.causes.get(&Kind::Program);
        let collective = self.causes.get(&Kind::Collective);
        match (first, program, collective) {
            (Some(kind), ..) => *kind,
            (None, Some(program), Some(collective)) if collective.time < program.time => Kind::Collective,
            (None, Some(_), _) => Kind::Program,
            (None, None, Some(_)) => Kind::Collective,
            (None, None, None) => said.unwrap_or(Kind::Unknown),
        }
    }

    /// The last lines of the host that fell silent first, where no line names the cause: a killed program says little.
    fn last_words(&self, kind: Kind) -> Option<Cause> {
        // No program is to blame for these: what it wrote last says nothing of them.
        let outside = [Kind::Stopped, Kind::Time, Kind::Wait, Kind::Quota, Kind::Capacity];
        if outside.contains(&kind) {
            return None;
        }
        let (host, lines) =
            self.last.iter().min_by_key(|(_, lines)| lines.back().map_or(i64::MAX, |one| one.time))?;
        let last = lines.back()?;
        Some(Cause {
            time: last.time,
            host: host.clone(),
            line: last.text.clone(),
            lines: lines.iter().map(|one| one.text.clone()).collect(),
            is_said: false,
        })
    }
}

/// What a failed job comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of cause.
    pub kind: Kind,
    /// Where it was said first.
    pub cause: Option<Cause>,
}

/// The kind of cause that a FailureReason is. `InternalServerError:`, `ClientError:` and `AlgorithmError:` are the
/// service's own words for whose fault it is, and no exception of the program. A container that the kernel killed ends
/// with 137: 128, and signal 9.
fn kind_of_reason(reason: &str) -> Option<Kind> {
    let signs = SIGNS.iter().find(|(_, signs)| signs.iter().any(|sign| reason.contains(sign)));
    if let Some((kind, _)) = signs {
        return Some(*kind);
    }
    let has = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    let killed = reason.match_indices("137").any(|(at, _)| {
        let before = reason.get(..at).unwrap_or_default().trim_end();
        let after = reason.get(at + 3..).unwrap_or_default();
        (before.ends_with("exit code:") || before.ends_with("exit code") || before.ends_with("ExitCode"))
            && !after.starts_with(|next: char| next.is_ascii_digit())
    });
    if killed || has(&["more memory", "OutOfMemory", "out of memory"]) {
        return Some(Kind::Memory);
    }
    if has(&["no space left", "disk space", "larger volume", "VolumeSizeInGB"]) {
        return Some(Kind::Disk);
    }
    if reason.starts_with("InternalServerError") {
        return Some(Kind::Service);
    }
    if has(&["ExecuteUserScriptError", "Traceback (most recent call last)"]) {
        return Some(Kind::Program);
    }
    if reason.starts_with("ClientError") {
        let refused =
            has(&["expired", "credential", "not authorized", "ermission", "Forbidden", "assume role"]);
        return Some(if refused { Kind::Permission } else { Kind::Input });
    }
    None
}

/// The kind of cause that a line is, if it is one.
fn kind_of(line: &str) -> Option<Kind> {
    let known = SIGNS.iter().find(|(_, signs)| signs.iter().any(|sign| line.contains(sign)));
    if let Some((kind, _)) = known {
        return Some(*kind);
    }
    // `KeyError: 'input_ids'`: the last line of a Python traceback.
    let (name, rest) = line.split_once(": ")?;
    let last = name.rsplit('.').next().unwrap_or(name);
    let word = last.chars().all(|c| c.is_alphanumeric() || c == '_') && !last.is_empty();
    (word && !rest.is_empty() && (last.ends_with("Error") || last.ends_with("Exception")))
        .then_some(Kind::Program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::account::Transition;

    fn read(lines: &[(&str, i64, &str)]) -> Finding {
        let mut autopsy = Autopsy::default();
        for (host, time, text) in lines {
            autopsy.read(host, &LogEvent { time: *time, text: (*text).to_owned() });
        }
        let job = TrainingJob { status: "Failed".to_owned(), ..TrainingJob::default() };
        autopsy.finding(&job)
    }

    #[test]
    fn the_cause_comes_before_what_follows_from_it() {
        let finding = read(&[
            ("algo-2", 5, "DistBackendError: NCCL error"),
            ("algo-1", 9, "step 4"),
            ("algo-1", 10, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
        ]);
        assert_eq!(finding.kind, Kind::Memory);
        let cause = finding.cause.unwrap();
        assert_eq!((cause.host.as_str(), cause.lines.len()), ("algo-1", 2));
    }

    #[test]
    fn a_program_and_a_collective_are_told_apart_by_time() {
        let program = read(&[("algo-1", 3, "KeyError: 'x'"), ("algo-2", 9, "NCCL error")]);
        assert_eq!(program.kind, Kind::Program);
        let network = read(&[("algo-2", 3, "NCCL error"), ("algo-1", 9, "RuntimeError: aborted")]);
        assert_eq!(network.kind, Kind::Collective);
        assert_eq!(read(&[("algo-1", 1, "warning: nothing")]).kind, Kind::Unknown);
    }

    /// Reasons as the service words them.
    #[test]
    fn a_reason_of_the_service_is_no_error_of_the_program() {
        for (reason, kind) in [
            ("InternalServerError: We encountered an internal error. Please try again.", Kind::Service),
            ("ClientError: Artifact upload failed: the provided token has expired", Kind::Permission),
            ("ClientError: Data download failed: no objects below s3://b/p", Kind::Input),
            ("ClientError: Please use an instance type with more memory, or reduce the size", Kind::Memory),
            ("AlgorithmError: , exit code: 137", Kind::Memory),
            ("AlgorithmError: , exit code: 1370", Kind::Unknown),
            ("AlgorithmError: , exit code: 1", Kind::Unknown),
            ("ResourceLimitExceeded: The account-level service limit 'x' is 8 Instances", Kind::Quota),
            ("AlgorithmError: ExecuteUserScriptError: ResourceLimitExceeded", Kind::Program),
            ("AlgorithmError: [Errno 28] No space left on device", Kind::Disk),
            (
                "AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage \"KeyError: 'x'\"",
                Kind::Program,
            ),
        ] {
            let job = TrainingJob {
                status: "Failed".to_owned(),
                failure: Some(reason.to_owned()),
                ..TrainingJob::default()
            };
            assert_eq!(Autopsy::default().finding(&job).kind, kind, "{reason}");
        }
        // Which of the two limits of time it was decides what to raise.
        for (state, kind) in [("MaxRuntimeExceeded", Kind::Time), ("MaxWaitTimeExceeded", Kind::Wait)] {
            let transitions = vec![Transition { status: state.to_owned(), ..Transition::default() }];
            let job = TrainingJob { status: "Stopped".to_owned(), transitions, ..TrainingJob::default() };
            let found = Autopsy::default().finding(&job).kind;
            assert_eq!((found, found.code().id), (kind, "T0659"));
        }
        // Who is killed says next to nothing: its last lines are shown all the same, and not as a cause.
        let mut autopsy = Autopsy::default();
        for (host, time, text) in [("algo-1", 5, "step 3"), ("algo-2", 3, "step 2"), ("algo-2", 4, "Killed")]
        {
            autopsy.read(host, &LogEvent { time, text: text.to_owned() });
        }
        let failed = |failure: &str| TrainingJob {
            status: "Failed".to_owned(),
            failure: Some(failure.to_owned()),
            ..TrainingJob::default()
        };
        let finding = autopsy.finding(&failed("AlgorithmError: ExecuteUserScriptError: ExitCode 137"));
        let cause = finding.cause.unwrap();
        assert_eq!((finding.kind, cause.host.as_str(), cause.is_said), (Kind::Memory, "algo-2", false));
        assert_eq!(cause.lines, ["step 2", "Killed"]);
        assert_eq!(autopsy.finding(&failed("CapacityError: none")).cause, None);
        // What the host said before it was killed is the cause all the same where it names one.
        let mut autopsy = Autopsy::default();
        let text = "OSError: [Errno 28] No space left on device".to_owned();
        autopsy.read("algo-1", &LogEvent { time: 1, text });
        let failure = Some("AlgorithmError: , exit code: 137".to_owned());
        let job = TrainingJob { status: "Failed".to_owned(), failure, ..TrainingJob::default() };
        assert_eq!(autopsy.finding(&job).kind, Kind::Disk);
    }
}
