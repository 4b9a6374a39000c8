//! Waits for quota before creating billed resources: a file system is billed by the second, but useless while
//! a quota blocks the job.

use super::limits::Room;
use crate::calls::Call;
use crate::change::{Action, Target};
use crate::cloud::{Clock, Observe};
use crate::fault::{Class, Fault};
use crate::ledger::{Cause, Item, Recorder};
use crate::look::Look;
use crate::patience::{Patience, Wait};
use crate::prospect::Prospect;
use std::cell::Cell;
use std::time::Duration;
use trainc_diag::text;
use trainc_emit::ResourceKind;
use trainc_ir::Plan;

impl<'a, C: Observe, K: Clock> Look<'a, C, K> {
    /// If the user waits for capacity and a file system is still to be created, waits until the running jobs
    /// leave enough of the readable quotas. Returns the `Look` for the following steps, with the remaining
    /// wait time; `None` after a timeout, which was reported.
    pub async fn wait_for_room(
        &self,
        plan: &Plan,
        prospect: &Prospect,
        recorder: Recorder<'_>,
    ) -> Option<Look<'a, C, K>> {
        let Some(most) = self.patience.capacity else { return Some(*self) };
        let costs = |kind, action: &Action| kind == ResourceKind::FileSystem && *action == Action::Create;
        let (Target::Start(name), true) =
            (&prospect.target, prospect.changes.iter().any(|change| costs(change.kind, &change.action)))
        else {
            return Some(*self);
        };
        let item = Item::new(ResourceKind::TrainingJob, name);
        let mut wait = Wait::start(self.clock, most);
        while let Some(full) = self.full_quota(plan, prospect).await {
            let seconds = wait.seconds(self.clock);
            if wait.is_over(self.clock) {
                let fault = Fault::new(Call::CreateTrainingJob, Class::Quota, &full);
                recorder.record_failure(&item, Cause::Waited { fault, seconds });
                for item in prospect.desired.items(ResourceKind::FileSystem) {
                    recorder.record_not_started(item);
                }
                return None;
            }
            recorder.report_retry(&item, &full, seconds, wait.retry(self.clock, &self.patience));
            wait.pause_backoff(self.clock, &self.patience).await;
        }
        let left = most.saturating_sub(Duration::from_secs(wait.seconds(self.clock)));
        Some(Look { patience: Patience { capacity: Some(left), ..self.patience }, ..*self })
    }

    /// Returns a message, in the service's wording, about the quota that running jobs use up. `None` if the
    /// job fits, if it exceeds the quota by itself, or if this is unknown and starting the job will show it.
    async fn full_quota(&self, plan: &Plan, prospect: &Prospect) -> Option<String> {
        let asked = Cell::new(0);
        let look = Look { asked: Some(&asked), ..*self };
        let Room { limits, running, .. } = look.room(plan, prospect.view(), 0).await;
        let Some(Ok(running)) = running else { return None };
        limits.iter().filter(|limit| limit.is_shared).find_map(|limit| {
            let Some(Ok(has)) = limit.seen else { return None };
            let taken = running.of(limit);
            (limit.wanted <= has && limit.wanted + taken > has).then(|| {
                format!(
                    "The quota '{}' is {} Instances, with current utilization of {} Instances \
                        and a request delta of {} Instances",
                    limit.quota.name,
                    text::short_number(has),
                    text::short_number(taken),
                    text::short_number(limit.wanted)
                )
            })
        })
    }
}
