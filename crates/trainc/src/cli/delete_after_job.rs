//! After the job: what the manifest lets go with it goes (`delete-after-job`).

use super::destroy::remains;
use super::progress::Progress;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::destroy::{Consent, Remover};
use trainc_apply::ledger::{Ledger, Recorder};
use trainc_apply::look::Look;
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::{Invocation, NextCommand, text};
use trainc_ir::Plan;

/// Deletes the file systems that go with a job that has completed, unless another job runs on them; what failed.
pub(super) async fn release<C: Cloud, K: Clock>(
    plan: &Plan,
    look: Look<'_, C, K>,
    progress: &Progress,
) -> Vec<Verdict> {
    if !plan.job.storage.iter().any(|storage| storage.delete_after_job.get() == Some(true)) {
        return Vec::new();
    }
    let remains = match remains(plan, &look).await {
        Ok(remains) => remains.only_released(),
        Err(failed) => return vec![failed],
    };
    let ledger = Ledger::default();
    let remover = Remover { look, recorder: Recorder { ledger: &ledger, listener: progress } };
    remover.run(&remains, Consent::default()).await;
    progress.clear();
    ledger.failed().into_iter().map(|(item, cause)| verdict::verdict(plan, &item, &cause)).collect()
}

/// That file systems which the manifest lets go with the job are still there, and the command that takes them away: nobody
/// waited for the job to end. Empty where none is.
pub(super) fn outlasting(names: &[&str], invocation: &Invocation) -> String {
    let (stay, it) = match names {
        [] => return String::new(),
        [_] => ("is still there and billed", "it"),
        _ => ("are still there and billed", "them"),
    };
    let names = text::backtick_list(names, "and");
    let destroy = invocation.command(&NextCommand::new("destroy"));
    format!("  next  {destroy}: {names} {stay}, and `delete-after-job` lets {it} go\n")
}
