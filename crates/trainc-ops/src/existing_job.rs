//! The training job of a manifest in an account.

use trainc_apply::account::{Tags, TrainingJob};
use trainc_apply::cloud::{Clock, Observe};
use trainc_apply::desired::Desired;
use trainc_apply::diff::{Action, Obstacle, foreign_job_change, foreign_run_change};
use trainc_apply::ledger::Item;
use trainc_apply::look::Look;
use trainc_apply::ownership::is_ours;
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::{Help, NextCommand, help};
use trainc_emit::ResourceKind;
use trainc_ir::Plan;

/// The training job of a manifest.
pub struct Found {
    /// Desired state of the manifest.
    pub desired: Desired,
    /// The latest run of this digest, else the latest of another one.
    pub job: Option<(TrainingJob, Tags)>,
    /// True if that is a run of another digest than the manifest's.
    pub is_other: bool,
}

/// Finds the training job of a plan in the account.
pub async fn find<C: Observe, K: Clock>(look: &Look<'_, C, K>, plan: &Plan) -> Result<Found, Verdict> {
    let failed = |fault| verdict::read_failed(plan, &fault);
    let caller = look.ask(async |cloud| cloud.caller_identity().await).await.map_err(failed)?;
    if let Some(other) = verdict::account_mismatch(plan, &caller) {
        return Err(other);
    }
    let desired = Desired::new(plan, &caller).map_err(|verdict| *verdict)?;
    let runs = look.runs(&desired, trainc_apply::diff::Choices::default()).await.map_err(failed)?;
    // What a repository holds decides the digest, and nothing was fetched: the newest run of the name is
    // meant.
    let is_other = runs.latest.is_none() && !plan.has_unread_source();
    Ok(Found { desired, job: runs.latest.or(runs.other), is_other })
}

/// Returns all runs of the job in progress, of any digest.
pub async fn running<C: Observe, K: Clock>(
    look: &Look<'_, C, K>,
    plan: &Plan,
    desired: &Desired,
) -> Result<Vec<TrainingJob>, Verdict> {
    let found = look.own_running_jobs(&desired.stem, &desired.job).await;
    found.map_err(|fault| verdict::read_failed(plan, &fault))
}

/// Returns the problem if the tags of a training job do not belong to this job.
pub fn verdict_if_foreign_job(
    plan: &Plan,
    desired: &Desired,
    job: &TrainingJob,
    tags: &Tags,
) -> Option<Verdict> {
    if is_ours(tags, &desired.job) {
        return None;
    }
    let change = foreign_run_change(job, tags);
    let span = verdict::manifest_span(plan, &Item::new(ResourceKind::TrainingJob, &job.name));
    let verdict = verdict::obstacle(&change, span);
    let can_be_taken = foreign_job_change(desired, job, tags).action == Action::Stop(Obstacle::Foreign);
    let help = if can_be_taken {
        help![
            "if it belongs to this job, adopt it: ",
            NextCommand::new("apply").flag("--adopt"),
            "; else give the job another name",
        ]
    } else if job.is_over() {
        Help::from("give the job another name: the training job has other settings and cannot be adopted")
    } else {
        Help::from(format!(
            "give the job another name; its owner can stop it with aws sagemaker \
                stop-training-job --training-job-name {} --region {}",
            job.name, desired.region
        ))
    };
    Some(Verdict { diagnostic: verdict.diagnostic.help(help), ..verdict })
}

/// An existing training job.
pub struct Existing {
    /// Desired state of the manifest.
    pub desired: Desired,
    /// The job.
    pub job: TrainingJob,
    /// True if it is a run of another digest than the manifest's.
    pub is_other: bool,
    /// True if trainc created it for this job, by its tags; a warning was printed otherwise.
    pub is_ours: bool,
}
