//! What is still billed after the end of a job, as far as it exists in the account.

use crate::existing_job::Existing;
use trainc_apply::account::{FileSystem, TrainingJob};
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::diff::mounts;
use trainc_apply::fault::Class;
use trainc_apply::look::Look;
use trainc_apply::ownership::uses;
use trainc_emit::ResourceKind;
use trainc_report::after_end::BillKind;
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
    let has_file_system =
        systems.as_ref().is_none_or(|all| all.iter().any(|one| uses(&one.tags, &found.desired.job)));
    let since = job.ended.map(|end| {
        std::time::Duration::try_from_secs_f64(look.clock.now() - end).unwrap_or_default().as_secs()
    });
    // `destroy` deletes it, once no run reads it.
    let is_source_billed = billed.iter().any(|one| one.kind == BillKind::Source);
    let has_source = since.is_none() || !is_source_billed || has_source(look, found).await;
    billed.retain(|one| match one.kind {
        BillKind::FileSystem => has_file_system,
        // It ends by itself.
        BillKind::WarmPool => since.is_none_or(|since| one.seconds.is_some_and(|end| since < end)),
        BillKind::Source => has_source,
        BillKind::Checkpoints | BillKind::Output | BillKind::Logs => true,
    });
    (billed, systems)
}

/// Returns false if the source archive of a run does not exist.
async fn has_source<C: Cloud, K: Clock>(look: &Look<'_, C, K>, found: &Existing) -> bool {
    let Some(archive) = found.desired.uploads.iter().find(|one| one.kind == ResourceKind::Source) else {
        return true;
    };
    let (bucket, key) = (&archive.upload.bucket, &archive.upload.key);
    let keys = look.ask(async |cloud| cloud.objects(bucket, key, 1, None).await).await;
    keys.map_or_else(|fault| fault.class != Class::NotFound, |keys| !keys.is_empty())
}
