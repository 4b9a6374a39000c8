//! `delete-after-job`: the caller's permission to delete the file systems, checked before anything is
//! created.

use super::facts::Facts;
use super::skipped_checks::answer_or_report;
use crate::account::{Caller, Question};
use crate::calls::Call;
use crate::desired::Desired;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_diag::{NextCommand, help};
use trainc_emit::ResourceKind;
use trainc_ir::Plan;

declare_code!(
    T0641,
    "delete-not-permitted",
    Warning,
    "a file system that the caller cannot delete after the job",
    found_in: Account
);

pub(super) static CODES: &[&Code] = &[&T0641];

/// Returns the permissions to check for the caller; empty if no file system is deleted after the job.
pub(super) fn questions(desired: &Desired, caller: &Caller) -> Vec<Question> {
    let partition = caller.partition();
    let place = format!("arn:{partition}:fsx:{}:{}", desired.region, desired.account);
    let mut out = Vec::new();
    for system in desired.file_systems.iter().filter(|system| system.delete_after_job) {
        let links = (!system.associations.is_empty())
            .then_some((Call::DeleteDataRepositoryAssociation, ResourceKind::Association));
        let deletes = [Some((Call::DeleteFileSystem, ResourceKind::FileSystem)), links];
        out.extend(deletes.into_iter().flatten().map(|(call, kind)| Question {
            action: call.action(),
            resource: format!("{place}:{kind}/*"),
            context: vec![("aws:ResourceTag/trainc:job".to_owned(), desired.job.clone())],
        }));
    }
    out
}

/// Returns the IAM principal of the caller: for a session its role, assumed to have no path. `None` for the
/// root user, whom no policy restricts.
pub(super) fn principal(caller: &Caller) -> Option<String> {
    if caller.arn.ends_with(":root") {
        return None;
    }
    let Some((_, session)) = caller.arn.split_once(":assumed-role/") else { return Some(caller.arn.clone()) };
    let role = session.split('/').next().unwrap_or(session);
    Some(format!("arn:{}:iam::{}:role/{role}", caller.partition(), caller.account))
}

pub(super) fn judge(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    let Some(storage) = plan.job.storage.iter().find(|one| one.delete_after_job.get() == Some(true)) else {
        return;
    };
    let span = storage.delete_after_job.span().unwrap_or(storage.span);
    let Some(answers) =
        answer_or_report(&facts.release, "permission to delete it after the job", span, problems)
    else {
        return;
    };
    let mut lacking: Vec<&str> = answers
        .iter()
        .filter(|(_, allowed)| !allowed)
        .map(|(question, _)| question.action.as_str())
        .collect();
    lacking.sort_unstable();
    lacking.dedup();
    if lacking.is_empty() {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0641,
            span,
            format!(
                "the caller is not allowed to perform {}, so the file system is kept after the job",
                text::backtick_list(&lacking, "or")
            ),
        )
        .help(help![NextCommand::with_manifest_flag("catalog permissions apply")])
        .note(
            "`apply --wait` deletes it once the job has completed, and so does `destroy`; until then \
            it is billed by the hour",
        )
        .fact("actions", lacking.iter().map(|action| (*action).to_owned()).collect::<Vec<_>>()),
    );
}
