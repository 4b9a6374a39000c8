//! Resources of a job that are deleted with it, or after it.

use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::desired::Desired;
use trainc_apply::destroy::{Consent, Inventory, Remover};
use trainc_apply::ledger::{Ledger, Listener, Recorder};
use trainc_apply::look::Look;
use trainc_apply::verdict::{self, Verdict};
use trainc_emit as emit;
use trainc_ir::Plan;

/// Returns the resources of a plan's job.
pub async fn find_job_resources<C: Cloud, K: Clock>(
    plan: &Plan,
    look: &Look<'_, C, K>,
) -> Result<Inventory, Verdict> {
    find_job_resources_below(plan, look, &[emit::archive_base_prefix(plan), emit::worker_home(plan)]).await
}

/// Returns the resources of a plan's job, with uploads below these prefixes.
pub async fn find_job_resources_below<C: Cloud, K: Clock>(
    plan: &Plan,
    look: &Look<'_, C, K>,
    homes: &[String],
) -> Result<Inventory, Verdict> {
    let failed = |fault| verdict::read_failed(plan, &fault);
    let caller = look.ask(async |cloud| cloud.caller_identity().await).await.map_err(failed)?;
    if let Some(other) = verdict::account_mismatch(plan, &caller) {
        return Err(other);
    }
    let desired = Desired::new(plan, &caller).map_err(|verdict| *verdict)?;
    let homes: Vec<String> =
        homes.iter().map(|home| home.replace(trainc_ir::ACCOUNT_MARK, &caller.account)).collect();
    look.inventory(&desired, &homes).await.map_err(failed)
}

/// Deletes the file systems with `delete-after-job` unless another job uses them; returns the failures.
pub async fn delete_file_systems<C: Cloud, K: Clock>(
    plan: &Plan,
    look: Look<'_, C, K>,
    listener: &dyn Listener,
) -> Vec<Verdict> {
    if !plan.job.storage.iter().any(|storage| storage.delete_after_job.get() == Some(true)) {
        return Vec::new();
    }
    let remains = match find_job_resources(plan, &look).await {
        Ok(remains) => remains.only_released(),
        Err(failed) => return vec![failed],
    };
    let ledger = Ledger::default();
    let remover = Remover { look, recorder: Recorder { ledger: &ledger, listener } };
    remover.run(&remains, &remains.removals(Consent::default())).await;
    ledger.failures().into_iter().map(|(item, cause)| verdict::verdict(plan, &item, &cause)).collect()
}
