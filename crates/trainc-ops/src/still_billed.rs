//! What is still billed after the end of a job, as far as it exists in the account.

use crate::existing_job::Existing;
use trainc_apply::account::{FileSystem, TrainingJob};
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::diff::mounts;
use trainc_apply::fault::Class;
use trainc_apply::look::Look;
use trainc_apply::ownership::uses;
use trainc_report::json::AfterEnd;

/// Returns the file systems of the account; `None` if they may not be read, or if neither the run nor the
/// plan has one.
async fn file_systems<C: Cloud, K: Clock>(
    look: &Look<'_, C, K>,
    job: &TrainingJob,
    billed: &[AfterEnd],
) -> Option<Vec<FileSystem>> {
    // A simulated account only has the file systems that it created.
    let has_others = !look.cloud.is_simulated() && !job.is_over() && !mounts(job).is_empty();
    if !billed.iter().any(AfterEnd::is_file_system) && !has_others {
        return None;
    }
    let mut all = look.ask(async |cloud| cloud.file_systems().await).await.ok()?;
    all.retain(|system| system.lifecycle != "DELETING");
    Some(all)
}

/// Returns what of `billed`, the bills after the end of a run by its plan, exists, with the file systems of
/// the account. What may not be read is assumed to exist.
pub async fn still_billed<C: Cloud, K: Clock>(
    look: &Look<'_, C, K>,
    mut billed: Vec<AfterEnd>,
    found: &Existing,
) -> (Vec<AfterEnd>, Option<Vec<FileSystem>>) {
    let job = &found.job;
    let systems = file_systems(look, job, &billed).await;
    let is_there =
        systems.as_ref().is_none_or(|all| all.iter().any(|one| uses(&one.tags, &found.desired.job)));
    billed.retain(|one| is_there || !one.is_file_system());
    if let Some(end) = job.ended {
        let since =
            std::time::Duration::try_from_secs_f64(look.clock.now() - end).unwrap_or_default().as_secs();
        billed.retain(|one| one.is_billed_after(since));
        // `destroy` deletes it, once no run reads it.
        if billed.iter().any(AfterEnd::is_source) && !has_source(look, found).await {
            billed.retain(|one| !one.is_source());
        }
    }
    (billed, systems)
}

/// Returns false if the source archive of a run does not exist.
async fn has_source<C: Cloud, K: Clock>(look: &Look<'_, C, K>, found: &Existing) -> bool {
    let Some(archive) = found.desired.uploads.iter().find(|one| one.kind == "source") else { return true };
    let (bucket, key) = (&archive.upload.bucket, &archive.upload.key);
    let keys = look.ask(async |cloud| cloud.objects(bucket, key, 1, None).await).await;
    keys.map_or_else(|fault| fault.class != Class::NotFound, |keys| !keys.is_empty())
}
