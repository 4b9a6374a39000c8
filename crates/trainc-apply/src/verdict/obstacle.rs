//! Diagnostics for resources that block a plan.

use super::{
    T0605, T0606, T0610, T0611, T0645, T0669, T0671, T0672, T0673, Verdict, exit, manifest_span,
    with_region_flag,
};
use crate::change::{Action, Change, Obstacle, SHARED_WITH};
use crate::ledger::Item;
use trainc_diag::Diagnostic;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Detail, NextCommand, help};
use trainc_emit::ResourceKind;
use trainc_ir::Plan;

/// Maximum number of characters of a differing value.
const MOST_CHARACTERS: usize = 60;

/// Returns the diagnostic for a blocked resource at its span in the manifest, with commands for the job's
/// region.
pub fn plan_obstacle(plan: &Plan, change: &Change) -> Verdict {
    let item = Item::new(change.kind, &change.name);
    with_region_flag(plan, obstacle(change, manifest_span(plan, &item)))
}

/// Returns the diagnostic for an obstacle.
pub fn obstacle(change: &Change, span: Span) -> Verdict {
    let Action::Stop(kind) = change.action else {
        return Verdict {
            diagnostic: Diagnostic::new(&T0611, span, change.because.clone()),
            exit: exit::BUG,
            flag: None,
        };
    };
    let name = &change.name;
    let (code, message, exit) = match kind {
        Obstacle::Foreign | Obstacle::DifferentContent => (&T0605, change.because.clone(), exit::FOREIGN),
        Obstacle::OtherDigest => (&T0606, change.because.clone(), exit::DIFFERENT),
        Obstacle::ConcurrentVersion => (&T0645, change.because.clone(), exit::DIFFERENT),
        Obstacle::StartedMeanwhile => (&T0672, change.because.clone(), exit::INCOMPLETE),
        Obstacle::BecameSoleUser => (&T0673, change.because.clone(), exit::INCOMPLETE),
        Obstacle::Replace => (&T0610, format!("`{name}`: {}", change.because), exit::INCOMPLETE),
        Obstacle::Broken | Obstacle::Misconfigured => {
            (&T0611, format!("`{name}`: {}", change.because), exit::INCOMPLETE)
        }
        Obstacle::RunsExhausted => (&T0669, change.because.clone(), exit::MANIFEST),
        Obstacle::TooManyUsers => (&T0671, format!("`{name}`: {}", change.because), exit::MANIFEST),
    };
    let mut diagnostic = Diagnostic::new(code, span, message).fact("name", name.as_str());
    for one in &change.differences {
        let (found, wanted) = text::differing_parts(&one.found, &one.wanted, MOST_CHARACTERS);
        diagnostic =
            diagnostic.note(format!("{}: `{found}` in the account, `{wanted}` in the plan", one.what));
    }
    if !change.differences.is_empty() {
        diagnostic = diagnostic.detail(Detail::Differences(change.differences.len()));
    }
    diagnostic = match kind {
        // The owner of the bucket could replace uploads, so buckets are not adopted.
        Obstacle::Foreign if change.kind == ResourceKind::Bucket => {
            diagnostic.help("name one of your buckets: `upload=\"s3://…\"` in `program`").note(
                "S3 returns 403 when the caller's account is given as the expected owner \
                (HeadBucket, ExpectedBucketOwner)",
            )
        }
        Obstacle::Foreign if is_upload(change) => diagnostic
            .help(help![format!("aws s3 rm {} && ", trainc_emit::quote(name)), NextCommand::new("apply"),])
            .note(
                "everyone who may write to the bucket can compute the key: trainc starts no job with \
                content that it cannot verify",
            )
            .note(
                "an object that this job's `apply` uploaded is verified with `s3:GetObject`, and \
                with `kms:Decrypt` of the key that encrypts it",
            ),
        Obstacle::Foreign => diagnostic
            .help("give the job another name, or adopt the resource with `--adopt`")
            .note("trainc never changes resources that lack its tags"),
        Obstacle::DifferentContent => diagnostic.help("give the job another name").note(
            "a training job cannot be changed: `--adopt` would label it with this digest, but it \
                was started with other settings",
        ),
        Obstacle::OtherDigest => diagnostic
            .help(help![
                "add `--new-run` to start it in addition to the other run, which `",
                NextCommand::new("stop").flag("--run NAME"),
                "` ends if it is no longer wanted",
            ])
            .note("editing a manifest never stops or replaces a running job"),
        Obstacle::ConcurrentVersion => diagnostic
            .help(help![
                "stop the unwanted run with `",
                NextCommand::new("stop").flag("--run NAME"),
                "`, or keep both with `--new-run`",
            ])
            .note("the later run was started without `--new-run`, before the earlier one was visible"),
        Obstacle::BecameSoleUser => diagnostic
            .help(help!["run `", delete_data(), "` again: it shows the file system first"])
            .note("only resources that were shown are deleted"),
        Obstacle::StartedMeanwhile => diagnostic
            .help(help!["run `", NextCommand::new("destroy"), "` again: it lists that job too"])
            .note("the resources of a running job are not deleted"),
        // Storage can only increase: with the existing capacity all other settings can stay.
        Obstacle::Replace if differs_only_in_capacity(change) => {
            let there = change.differences.first().map_or("", |one| one.found.as_str());
            diagnostic
                .help(format!("write `capacity={:?}` or more", there.replace([' ', ','], "")))
                .note("FSx cannot shrink storage, and a new file system starts empty")
        }
        Obstacle::Replace if change.kind == ResourceKind::Association => diagnostic
            .help(
                "give the storage another `name=`: the job then creates a file system with this \
                link, and the old one stays until it is destroyed",
            )
            .note(
                "FSx rejects a link whose path overlaps another's; `aws fsx \
                delete-data-repository-association` removes the old link, and its files stay in S3",
            ),
        Obstacle::Replace if change.because.contains(SHARED_WITH) => diagnostic
            .help(help![
                "give it another `name=`: this job then creates its own, and `",
                NextCommand::new("destroy"),
                "` leaves this one to the other jobs",
            ])
            .note("FSx cannot change this in place"),
        Obstacle::Replace => diagnostic
            .help(help!["delete the old one with `", delete_data(), "`, or give the new one another `name=`"])
            .note("FSx cannot change this in place, and a new file system starts empty"),
        Obstacle::Broken if is_upload(change) => diagnostic
            .help(help![format!("aws s3 rm {} && ", trainc_emit::quote(name)), NextCommand::new("apply"),])
            .note(
                "the key contains the digest of the content: a job that restarts after a spot \
                interruption would run the wrong content",
            ),
        // The data is intact, so deleting it is not suggested.
        Obstacle::Misconfigured if change.kind == ResourceKind::Association => diagnostic
            .help(
                "fix what FSx names: FSx needs permission to read the bucket and its event \
                notifications on it; the link recovers within 15 minutes, then run the same command again",
            )
            .note(
                "FSx does not import or export automatically until then (FSx for Lustre, data \
                repository association lifecycle state)",
            ),
        Obstacle::Misconfigured => diagnostic
            .help(
                "fix what FSx names, then run the same command again once `aws fsx \
                describe-file-systems` shows it AVAILABLE",
            )
            .note(
                "FSx recovers from this state and keeps the data (FSx for Lustre, file system \
                status); `trainc destroy --delete-data` would delete it",
            ),
        Obstacle::RunsExhausted => diagnostic
            .help("change a setting of the job, e.g. its `seed`: the new digest starts again at run 1")
            .note("a run's name ends in its number, which has at most three digits"),
        Obstacle::TooManyUsers => {
            diagnostic.help("give the storage another `name=`: this job then creates its own").note(
                "an FSx resource has at most 50 tags, and each job that uses it needs one (FSx API \
                reference, TagResource)",
            )
        }
        Obstacle::Broken if change.kind == ResourceKind::Association => diagnostic
            .help(help![
                format!(
                    "aws fsx delete-data-repository-association --association-id {} && ",
                    change.because.split_whitespace().next().unwrap_or("ID")
                ),
                NextCommand::new("apply"),
            ])
            .note(
                "FSx cannot recover a failed link; deleting it keeps the file system and its data \
                (FSx for Lustre, data repository association lifecycle state)",
            ),
        // Other jobs use it too: this job leaves it and creates another, which the others then join.
        Obstacle::Broken if change.because.contains(SHARED_WITH) => diagnostic
            .help(help![NextCommand::new("destroy"), " && ", new_run()])
            .note(
                "`destroy` leaves the failed file system to the other jobs; `apply` creates another, \
                which they use once they are applied",
            )
            .note(
                "FSx cannot recover a failed file system (FSx for Lustre, file system status); the \
                last of its jobs deletes it with `trainc destroy --delete-data`",
            ),
        Obstacle::Broken => diagnostic.help(help![delete_data(), " && ", new_run()]).note(
            "FSx cannot recover a failed file system: its data is lost (FSx for Lustre, file \
                system status)",
        ),
    };
    let flag = match kind {
        Obstacle::Foreign => {
            Some("--adopt").filter(|_| change.kind != ResourceKind::Bucket && !is_upload(change))
        }
        Obstacle::OtherDigest | Obstacle::ConcurrentVersion => Some("--new-run"),
        Obstacle::DifferentContent
        | Obstacle::StartedMeanwhile
        | Obstacle::BecameSoleUser
        | Obstacle::Replace
        | Obstacle::Broken
        | Obstacle::Misconfigured
        | Obstacle::RunsExhausted
        | Obstacle::TooManyUsers => None,
    };
    Verdict { diagnostic, exit, flag }
}

/// Returns true if the resource is an archive or a file of the worker.
fn is_upload(change: &Change) -> bool {
    matches!(change.kind, ResourceKind::Source | ResourceKind::Worker)
}

fn delete_data() -> NextCommand {
    NextCommand::new("destroy").flag("--delete-data")
}

fn new_run() -> NextCommand {
    NextCommand::new("apply").flag("--new-run")
}

/// Returns true if the only difference is the storage capacity.
fn differs_only_in_capacity(change: &Change) -> bool {
    matches!(change.differences.as_slice(), [one] if one.what == "StorageCapacity")
}
