//! Kinds of causes that end a job: their signs in logs, their codes, and the next step.

use super::Finding;
use crate::account::TrainingJob;
use serde_json::Value;
use trainc_diag::{Code, FailureKind, Help, NextCommand, declare_code, help};
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{EngineOption, Parallel, Plan, Scalar};

declare_code!(
    T0650,
    "job-failed",
    Error,
    "a training job that failed for an unknown reason",
    found_in: Account
);
declare_code!(
    T0651,
    "job-out-of-memory",
    Error,
    "a training job that ran out of GPU or host memory",
    found_in: Account
);
declare_code!(
    T0652,
    "job-collective-failed",
    Error,
    "a training job with a failed collective operation",
    found_in: Account
);
declare_code!(T0653, "job-disk-full", Error, "a training job whose volume was full", found_in: Account);
declare_code!(
    T0654,
    "job-program-failed",
    Error,
    "a training job whose program raised an error",
    found_in: Account
);
declare_code!(
    T0655,
    "job-access-denied",
    Error,
    "a training job whose role lacks a permission",
    found_in: Account
);
declare_code!(
    T0656,
    "job-image-failed",
    Error,
    "a training job whose image could not be pulled or started",
    found_in: Account
);
declare_code!(
    T0657,
    "job-without-capacity",
    Error,
    "a training job for which no capacity was available",
    found_in: Account
);
declare_code!(T0658, "job-stopped", Error, "a training job that was stopped", found_in: Account);
declare_code!(
    T0659,
    "job-timed-out",
    Error,
    "a training job that reached its maximum run time or wait time",
    found_in: Account
);
declare_code!(
    T0662,
    "job-over-quota",
    Error,
    "a training job that failed because of an exhausted quota",
    found_in: Account
);
declare_code!(
    T0660,
    "job-service-failed",
    Error,
    "a training job that failed inside SageMaker",
    found_in: Account
);
declare_code!(
    T0661,
    "job-data-transfer-failed",
    Error,
    "a training job that could not read its input or write its output",
    found_in: Account
);
declare_code!(
    T0680,
    "probe-below-minimum",
    Error,
    "a training job that its probe ended before the program started",
    found_in: Account
);
declare_code!(
    T0681,
    "stopped-by-budget",
    Error,
    "a training job that its enforced budget stopped",
    found_in: Account
);

/// The codes of this file.
pub(crate) static CODES: &[&Code] = &[
    &T0650, &T0651, &T0652, &T0653, &T0654, &T0655, &T0656, &T0657, &T0658, &T0659, &T0660, &T0661, &T0662,
    &T0680, &T0681,
];

/// Texts that identify the kind of a cause, taken from logs of PyTorch, NCCL and S3.
const SIGNS: &[(FailureKind, &[&str])] = &[
    // Lines and failure files of trainc's own scripts.
    (FailureKind::Probe, &[r#""trainc_probe": "ended""#, "T0680 "]),
    (FailureKind::Budget, &[r#""trainc_brake": "stop""#, "T0681 "]),
    (FailureKind::Memory, &["CUDA out of memory", "OutOfMemoryError", "cudaErrorMemoryAllocation"]),
    (
        FailureKind::HostMemory,
        &["oom-kill", "Cannot allocate memory", "DefaultCPUAllocator: can't allocate memory"],
    ),
    (FailureKind::Disk, &["No space left on device", "Errno 28", "Disk quota exceeded"]),
    (
        FailureKind::Permission,
        &["AccessDenied", "Access Denied", "AccessDeniedException", "is not authorized to perform"],
    ),
    (
        FailureKind::Collective,
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

impl Finding {
    /// Returns the diagnostic code of this kind of failure.
    pub fn code(&self) -> &'static Code {
        match self.kind {
            FailureKind::Probe => &T0680,
            FailureKind::Budget => &T0681,
            FailureKind::Memory | FailureKind::HostMemory => &T0651,
            FailureKind::Collective => &T0652,
            FailureKind::Disk => &T0653,
            FailureKind::Program => &T0654,
            FailureKind::Permission => &T0655,
            FailureKind::Image => &T0656,
            FailureKind::Capacity => &T0657,
            FailureKind::Stopped => &T0658,
            FailureKind::Time | FailureKind::Wait => &T0659,
            FailureKind::Quota => &T0662,
            FailureKind::Service => &T0660,
            FailureKind::Input => &T0661,
            FailureKind::Unknown => &T0650,
        }
    }

    /// Describes what happened, as a sentence fragment.
    pub fn describe(&self) -> &'static str {
        match self.kind {
            FailureKind::Probe => "its probe measured less than the minimum",
            FailureKind::Budget => "its enforced budget stopped it",
            FailureKind::Memory => "out of GPU memory",
            FailureKind::HostMemory => "out of host memory",
            FailureKind::Disk => "the volume is full",
            FailureKind::Permission => "the role lacks a permission",
            FailureKind::Image => "the image could not be pulled or started",
            FailureKind::Capacity => "AWS had no capacity for the instance type",
            FailureKind::Program => "the program raised an error",
            FailureKind::Collective => {
                "a collective operation failed: the hosts lost contact with each other"
            }
            FailureKind::Stopped => "it was stopped",
            FailureKind::Time => "it reached its maximum run time",
            FailureKind::Wait => {
                "it reached its maximum wait time for spot capacity, which includes the run time"
            }
            FailureKind::Quota => "a quota of the account was exhausted",
            FailureKind::Service => "SageMaker had an internal error",
            FailureKind::Input => "SageMaker could not download its input or upload its output",
            FailureKind::Unknown => "the log does not show the cause",
        }
    }

    /// Returns the help for a job that failed with this cause.
    pub fn help(&self, plan: &Plan, job: &TrainingJob) -> Help {
        match self.kind {
            FailureKind::Probe => help![
                new_run(),
                " starts it on other instances; the lines of the probe in ",
                NextCommand::new("logs"),
                " have the figures of each node",
            ],
            FailureKind::Budget => help![
                NextCommand::new("report"),
                " compares its steps with the plan; raise `usd`, or lower `slowest`, then ",
                new_run(),
            ],
            FailureKind::Memory => help![
                "lower the micro-batch and raise accumulation, or increase the shard degree: ",
                NextCommand::new("plan").flag("-v"),
            ],
            // GPU memory matters only if the job offloads from it.
            FailureKind::HostMemory => {
                let offloads = plan.job.parallel.as_ref().is_some_and(offloads);
                let less = if offloads {
                    "reduce offloading"
                } else {
                    "reduce the memory of the program's processes"
                };
                help![
                    format!(
                        "{less}, or choose an instance type with more memory (trainc catalog \
                            instances), then "
                    ),
                    new_run(),
                ]
            }
            FailureKind::Disk => help!["raise `volume`, or keep fewer checkpoints, then ", new_run()],
            // IAM can simulate an existing role; a role created by trainc has the permissions that the
            // manifest names.
            FailureKind::Permission
                if plan.job.role.as_ref().is_some_and(|role| role.arn.value().is_some()) =>
            {
                help![NextCommand::new("plan"), " checks with IAM which permissions the role lacks"]
            }
            FailureKind::Permission => help![
                "if the program reads S3 locations that the manifest does not name, add `read \
                    \"s3://…\"` to `role`, then ",
                new_run(),
                "; otherwise allow what the reason names in the bucket policy or key policy",
            ],
            FailureKind::Image => help![NextCommand::new("plan"), " checks that the registry has the image"],
            FailureKind::Capacity => help![NextCommand::new("apply").flag("--wait-for-capacity 2h")],
            FailureKind::Program => help!["fix the program, then ", new_run()],
            FailureKind::Collective => help![NextCommand::new("logs"), " shows what the hosts logged before"],
            FailureKind::Stopped => help![new_run(), " starts another run"],
            FailureKind::Time => help_longer_run("max-run", "", plan, job),
            FailureKind::Wait => help_longer_run("max-wait", " of `spot`", plan, job),
            FailureKind::Quota => help![NextCommand::new("plan"), " shows the quota and how to increase it"],
            FailureKind::Service => help![new_run(), ": the manifest is not the cause"],
            FailureKind::Input => help![NextCommand::new("plan"), " checks the buckets and their contents"],
            FailureKind::Unknown => help![NextCommand::new("logs")],
        }
    }
}

fn new_run() -> NextCommand {
    NextCommand::new("apply").flag("--new-run")
}

/// Returns true if the job offloads data from GPU memory to host memory.
fn offloads(parallel: &Parallel) -> bool {
    let is_on = |one: &EngineOption| one.name == "offload" && one.value.value() == Some(&Scalar::Bool(true));
    parallel.offload_activations.get() == Some(true) || parallel.options.iter().any(is_on)
}

/// Returns the help for a run that exceeded a time limit. A longer limit changes the digest, so the new run
/// finds the checkpoints of this one only if their path does not contain the digest.
fn help_longer_run(what: &str, of: &str, plan: &Plan, job: &TrainingJob) -> Help {
    let help = |edit: &str, then: &str| help![format!("raise `{what}`{of}, {edit}then "), new_run(), then];
    let Some(path) = plan.job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.s3.text()) else {
        return help("", ": it starts at step 0, because the manifest has no `checkpoint`");
    };
    let why = if path.contains(DIGEST_MARK) { ", because their path contains the digest" } else { "" };
    match job.request.pointer("/CheckpointConfig/S3Uri").and_then(Value::as_str) {
        // A path that still contains a placeholder is the same within one account.
        Some(kept) if why.is_empty() && (kept == path || path.contains("${")) => {
            help("", &format!(": it resumes from this run's checkpoints in {kept}"))
        }
        Some(kept) => help(
            &format!("and write `s3={kept:?}` in `checkpoint`, where this run saved its checkpoints, "),
            &format!("; otherwise it starts at step 0{why}"),
        ),
        None => help("", ": it starts at step 0, because this run saved no checkpoints"),
    }
}

/// Returns the kind of cause of a FailureReason. `InternalServerError:`, `ClientError:` and `AlgorithmError:`
/// are the service's classification and not exceptions of the program. A container that the kernel killed
/// exits with 137: 128 + signal 9.
pub(super) fn kind_of_reason(reason: &str) -> Option<FailureKind> {
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
    if killed || has(&["more memory"]) {
        return Some(FailureKind::HostMemory);
    }
    if has(&["OutOfMemory", "out of memory"]) {
        return Some(FailureKind::Memory);
    }
    if has(&["no space left", "disk space", "larger volume", "VolumeSizeInGB"]) {
        return Some(FailureKind::Disk);
    }
    if reason.starts_with("InternalServerError") {
        return Some(FailureKind::Service);
    }
    if has(&["ExecuteUserScriptError", "Traceback (most recent call last)"]) {
        return Some(FailureKind::Program);
    }
    if reason.starts_with("ClientError") {
        let refused =
            has(&["expired", "credential", "not authorized", "ermission", "Forbidden", "assume role"]);
        return Some(if refused { FailureKind::Permission } else { FailureKind::Input });
    }
    None
}

/// Returns the kind of cause that a log line states, if any.
pub(super) fn kind_of_line(line: &str) -> Option<FailureKind> {
    let known = SIGNS.iter().find(|(_, signs)| signs.iter().any(|sign| line.contains(sign)));
    if let Some((kind, _)) = known {
        return Some(*kind);
    }
    // `KeyError: 'input_ids'`: the last line of a Python traceback.
    let (name, rest) = line.split_once(": ")?;
    let last = name.rsplit('.').next().unwrap_or(name);
    let word = last.chars().all(|c| c.is_alphanumeric() || c == '_') && !last.is_empty();
    (word && !rest.is_empty() && (last.ends_with("Error") || last.ends_with("Exception")))
        .then_some(FailureKind::Program)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel kills a process with signal 9, which the service reports as 128 + 9; GPU memory is not
    /// involved.
    #[test]
    fn what_the_kernel_killed_is_about_the_host() {
        for reason in [
            "AlgorithmError: , exit code: 137",
            "AlgorithmError: ExecuteUserScriptError: ExitCode 137",
            "ClientError: Please use an instance type with more memory, or reduce the size of training data",
            "AlgorithmError: RuntimeError: [enforce fail at alloc_cpu.cpp:117] \
                DefaultCPUAllocator: can't allocate memory",
        ] {
            assert_eq!(kind_of_reason(reason), Some(FailureKind::HostMemory), "{reason}");
        }
        for reason in [
            "AlgorithmError: ExitCode 1 torch.OutOfMemoryError: CUDA out of memory",
            "AlgorithmError: OutOfMemory",
        ] {
            assert_eq!(kind_of_reason(reason), Some(FailureKind::Memory), "{reason}");
        }
    }
}
