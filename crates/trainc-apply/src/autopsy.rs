//! Failure analysis of a job: the first host that logs a cause, and the kind of cause.

mod failure_kind;

use super::account::{LogEvent, TrainingJob};
use failure_kind::{kind_of_line, kind_of_reason};
use std::collections::{BTreeMap, VecDeque};

pub(super) use failure_kind::CODES;
use trainc_diag::FailureKind;

/// Lines of context before a cause.
const CONTEXT: usize = 6;

/// Lines of the same host after a cause: NCCL writes `Last error:` and the reason up to three lines after its
/// first line.
const AFTER: usize = 6;

/// Log lines of all hosts that may explain a failure.
#[derive(Clone, Debug, Default)]
pub struct Autopsy {
    /// The last lines of each host.
    last: BTreeMap<String, VecDeque<LogEvent>>,
    /// First evidence of each kind of cause: time, host and context lines.
    causes: BTreeMap<FailureKind, Evidence>,
    /// The number of lines still to be added to each cause.
    open: BTreeMap<FailureKind, usize>,
}

/// Log lines that show a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Time, milliseconds since 1970.
    pub time: i64,
    /// The host.
    pub host: String,
    /// The line.
    pub line: String,
    /// The line with the lines before it and the next few lines of the same host.
    pub lines: Vec<String>,
    /// True if the line states the cause; false if it is only the last line of the host that fell silent
    /// first.
    pub is_said: bool,
}

impl Autopsy {
    /// Reads a line of a host's log.
    pub fn read(&mut self, host: &str, event: &LogEvent) {
        for (kind, left) in &mut self.open {
            if let Some(cause) = self.causes.get_mut(kind).filter(|cause| *left > 0 && cause.host == host) {
                cause.lines.push(event.text.clone());
                *left -= 1;
            }
        }
        if let Some(kind) = kind_of_line(&event.text) {
            let first = self.causes.get(&kind).is_none_or(|known| event.time < known.time);
            if first {
                let before =
                    self.last.get(host).map(|lines| lines.iter().map(|one| one.text.clone()).collect());
                let mut lines: Vec<String> = before.unwrap_or_default();
                lines.push(event.text.clone());
                let cause = Evidence {
                    time: event.time,
                    host: host.to_owned(),
                    line: event.text.clone(),
                    lines,
                    is_said: true,
                };
                self.causes.insert(kind, cause);
                self.open.insert(kind, AFTER);
            }
        }
        let last = self.last.entry(host.to_owned()).or_default();
        last.push_back(event.clone());
        if last.len() > CONTEXT {
            last.pop_front();
        }
    }

    /// Returns the finding from the logs and the service's status.
    pub fn finding(&self, job: &TrainingJob) -> Finding {
        let kind = self.kind(job);
        let cause = self.causes.get(&kind).cloned().or_else(|| self.last_lines(kind));
        Finding { kind, cause }
    }

    fn kind(&self, job: &TrainingJob) -> FailureKind {
        let states: Vec<&str> = job.transitions.iter().map(|one| one.status.as_str()).collect();
        if states.contains(&"MaxWaitTimeExceeded") {
            return FailureKind::Wait;
        }
        if states.contains(&"MaxRuntimeExceeded") {
            return FailureKind::Time;
        }
        if job.status == "Stopped" {
            return FailureKind::Stopped;
        }
        let reason = job.failure.as_deref().unwrap_or_default();
        // A program may log this error for its own AWS calls.
        let limited =
            ["ResourceLimitExceeded", "account-level service limit"].iter().any(|sign| reason.contains(sign));
        if limited && !reason.starts_with("AlgorithmError") {
            return FailureKind::Quota;
        }
        if reason.contains("CapacityError") || reason.contains("Unable to provision requested ML compute") {
            return FailureKind::Capacity;
        }
        if reason.contains("pull") && reason.contains("image") || reason.contains("CannotPullContainer") {
            return FailureKind::Image;
        }
        let said = kind_of_reason(reason);
        if let Some(kind) = said.filter(|kind| matches!(kind, FailureKind::Permission | FailureKind::Service))
        {
            return kind;
        }
        // trainc's own scripts say what they ended.
        if let Some(kind) = [FailureKind::Probe, FailureKind::Budget]
            .into_iter()
            .find(|kind| said == Some(*kind) || self.causes.contains_key(kind))
        {
            return kind;
        }
        // A process killed for lack of memory rarely logs a message.
        let known = |kind| self.causes.contains_key(&kind);
        if let Some(kind) = said
            .filter(|kind| matches!(kind, FailureKind::Memory | FailureKind::HostMemory | FailureKind::Disk))
            && !known(FailureKind::Memory)
            && !known(FailureKind::HostMemory)
            && !known(FailureKind::Disk)
        {
            return kind;
        }
        // Symptoms of another cause are only reported if there is no other cause.
        let first =
            self.causes.keys().find(|kind| !matches!(kind, FailureKind::Program | FailureKind::Collective));
        let program = self.causes.get(&FailureKind::Program);
        let collective = self.causes.get(&FailureKind::Collective);
        match (first, program, collective) {
            (Some(kind), ..) => *kind,
            (None, Some(program), Some(collective)) if collective.time < program.time => {
                FailureKind::Collective
            }
            (None, Some(_), _) => FailureKind::Program,
            (None, None, Some(_)) => FailureKind::Collective,
            (None, None, None) => said.unwrap_or(FailureKind::Unknown),
        }
    }

    /// Returns the last lines of the host that fell silent first, for a job without a line that states the
    /// cause: a killed program logs little.
    fn last_lines(&self, kind: FailureKind) -> Option<Evidence> {
        // The program did not cause these, so its last lines are irrelevant.
        let outside = [
            FailureKind::Stopped,
            FailureKind::Time,
            FailureKind::Wait,
            FailureKind::Quota,
            FailureKind::Capacity,
        ];
        if outside.contains(&kind) {
            return None;
        }
        let (host, lines) =
            self.last.iter().min_by_key(|(_, lines)| lines.back().map_or(i64::MAX, |one| one.time))?;
        let last = lines.back()?;
        Some(Evidence {
            time: last.time,
            host: host.clone(),
            line: last.text.clone(),
            lines: lines.iter().map(|one| one.text.clone()).collect(),
            is_said: false,
        })
    }
}

/// Result of a failure analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of cause.
    pub kind: FailureKind,
    /// The first log lines that show it.
    pub cause: Option<Evidence>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Transition;

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
        assert_eq!(finding.kind, FailureKind::Memory);
        let cause = finding.cause.unwrap();
        assert_eq!((cause.host.as_str(), cause.lines.len()), ("algo-1", 2));
    }

    #[test]
    fn what_a_script_of_trainc_ended_is_its_cause() {
        let stopped = read(&[
            ("algo-1", 5, r#"{"trainc_brake": "stop", "text": "T0681 tokens/s were 60 % of the plan"}"#),
            ("algo-1", 9, "RuntimeError: interrupted"),
        ]);
        assert_eq!((stopped.kind, stopped.code().id), (FailureKind::Budget, "T0681"));
        let probed = read(&[
            ("algo-2", 4, "NCCL error"),
            ("algo-1", 5, r#"{"trainc_probe": "ended", "host": "algo-3", "text": "T0680 slow: algo-3"}"#),
        ]);
        assert_eq!((probed.kind, probed.code().id), (FailureKind::Probe, "T0680"));
        assert!(probed.cause.unwrap().line.contains("algo-3"));
        // The lines in which the scripts report that all is well are no cause.
        let healthy = read(&[
            ("algo-1", 1, r#"{"trainc_brake": "on", "slowest": 0.7}"#),
            ("algo-1", 2, r#"{"trainc_probe": "done", "share": 0.98}"#),
        ]);
        assert_eq!(healthy.kind, FailureKind::Unknown);
    }

    #[test]
    fn a_program_and_a_collective_are_told_apart_by_time() {
        let program = read(&[("algo-1", 3, "KeyError: 'x'"), ("algo-2", 9, "NCCL error")]);
        assert_eq!(program.kind, FailureKind::Program);
        let network = read(&[("algo-2", 3, "NCCL error"), ("algo-1", 9, "RuntimeError: aborted")]);
        assert_eq!(network.kind, FailureKind::Collective);
        assert_eq!(read(&[("algo-1", 1, "warning: nothing")]).kind, FailureKind::Unknown);
    }

    /// NCCL logs a lost host in several lines: the reason follows the line with the error class.
    #[test]
    fn what_follows_a_cause_is_kept_and_bounded() {
        let said = [
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251",
            "ncclSystemError: System call failed or device error.",
            "Last error:",
            "socketPollConnect: connect to 10.0.1.7<40123> returned Connection refused",
        ];
        let mut lines = vec![("algo-1", 7, "step 4")];
        lines.extend(said.iter().map(|line| ("algo-1", 8, *line)));
        // Lines of another host in between are not part of the reason.
        lines.insert(3, ("algo-2", 8, "step 3"));
        let cause = read(&lines).cause.unwrap();
        assert_eq!(cause.lines.split_first().unwrap(), (&"step 4".to_owned(), &said.map(str::to_owned)[..]));
        assert_eq!(cause.line, said[0]);
        lines.extend(std::iter::repeat_n(("algo-1", 9, "RuntimeError: aborted"), 40));
        let cause = read(&lines).cause.unwrap();
        assert_eq!((cause.line.as_str(), cause.lines.len()), (said[0], 2 + AFTER));
    }

    /// FailureReasons in the service's wording.
    #[test]
    fn a_reason_of_the_service_is_no_error_of_the_program() {
        for (reason, kind) in [
            (
                "InternalServerError: We encountered an internal error. Please try again.",
                FailureKind::Service,
            ),
            ("ClientError: Artifact upload failed: the provided token has expired", FailureKind::Permission),
            ("ClientError: Data download failed: no objects below s3://b/p", FailureKind::Input),
            (
                "ClientError: Please use an instance type with more memory, or reduce the size",
                FailureKind::HostMemory,
            ),
            ("AlgorithmError: , exit code: 137", FailureKind::HostMemory),
            ("AlgorithmError: , exit code: 1370", FailureKind::Unknown),
            ("AlgorithmError: , exit code: 1", FailureKind::Unknown),
            ("ResourceLimitExceeded: The account-level service limit 'x' is 8 Instances", FailureKind::Quota),
            ("AlgorithmError: ExecuteUserScriptError: ResourceLimitExceeded", FailureKind::Program),
            ("AlgorithmError: [Errno 28] No space left on device", FailureKind::Disk),
            (
                "AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage \"KeyError: 'x'\"",
                FailureKind::Program,
            ),
        ] {
            let job = TrainingJob {
                status: "Failed".to_owned(),
                failure: Some(reason.to_owned()),
                ..TrainingJob::default()
            };
            assert_eq!(Autopsy::default().finding(&job).kind, kind, "{reason}");
        }
        // The two time limits need different advice.
        for (state, kind) in
            [("MaxRuntimeExceeded", FailureKind::Time), ("MaxWaitTimeExceeded", FailureKind::Wait)]
        {
            let transitions = vec![Transition { status: state.to_owned(), ..Transition::default() }];
            let job = TrainingJob { status: "Stopped".to_owned(), transitions, ..TrainingJob::default() };
            let found = Autopsy::default().finding(&job);
            assert_eq!((found.kind, found.code().id), (kind, "T0659"));
        }
        // A killed program logs little: its last lines are shown, but not as a cause.
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
        assert_eq!(
            (finding.kind, cause.host.as_str(), cause.is_said),
            (FailureKind::HostMemory, "algo-2", false)
        );
        assert_eq!(cause.lines, ["step 2", "Killed"]);
        assert_eq!(autopsy.finding(&failed("CapacityError: none")).cause, None);
        // If the host logged a cause before it was killed, that is the cause.
        let mut autopsy = Autopsy::default();
        let text = "OSError: [Errno 28] No space left on device".to_owned();
        autopsy.read("algo-1", &LogEvent { time: 1, text });
        let failure = Some("AlgorithmError: , exit code: 137".to_owned());
        let job = TrainingJob { status: "Failed".to_owned(), failure, ..TrainingJob::default() };
        assert_eq!(autopsy.finding(&job).kind, FailureKind::Disk);
    }
}
