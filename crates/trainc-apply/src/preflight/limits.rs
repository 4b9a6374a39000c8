//! Reads the quotas that a job may exceed, and the usage of other running jobs.

use super::facts::{Limit, Lookup, Running};
use super::requirements::{View, wanted_limits};
use crate::account::JobSummary;
use crate::cloud::{Answer, Clock, Observe};
use crate::look::Look;
use crate::patience::none_if_not_found;
use futures_util::future::join_all;
use futures_util::join;
use std::cell::Cell;
use std::collections::BTreeMap;
use trainc_ir::Plan;

/// Maximum number of calls of a plan up to which running jobs and default quotas are queried. These are the
/// least decisive queries, and a plan must not need more calls in a busy account.
const MOST_CALLS: usize = 24;
/// Maximum number of running jobs that are described, newest first; each costs a call.
const MOST_RUNNING: usize = 2;

/// Calls reserved for later queries if running jobs are listed early.
const LATE: usize = 4;

/// The quotas of a job and the running jobs that use them.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// The quotas that the job may exceed.
    pub limits: Vec<Limit>,
    /// True if the catalogue's defaults apply, false if they do not; `None` if not checked.
    pub holds: Option<bool>,
    /// The other running jobs.
    pub running: Lookup<Running>,
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Reads the quotas of a job to be started; `later` is the number of calls that others still need.
    pub(super) async fn room(&self, plan: &Plan, view: View<'_>, later: usize) -> Room {
        let wanted = wanted_limits(plan, view);
        let is_shared = wanted.iter().any(|limit| limit.is_shared);
        let early = async {
            if is_shared && self.calls_left() > LATE + later {
                Some(self.list_jobs_in_progress().await)
            } else {
                None
            }
        };
        let (mut limits, listed) = join!(self.limits(wanted), early);
        let mut holds = self.confirm_defaults(&mut limits, |_| 0.0, None).await;
        let running = self.running_now(plan, view, &limits, later, (holds.is_some(), listed)).await;
        if let Some(Ok(running)) = &running {
            holds = self.confirm_defaults(&mut limits, |limit| running.of(limit), holds).await;
        }
        Room { limits, holds, running }
    }

    async fn list_jobs_in_progress(&self) -> Answer<Vec<JobSummary>> {
        self.ask(async |cloud| cloud.running_jobs(false).await).await
    }

    async fn limits(&self, wanted: Vec<Limit>) -> Vec<Limit> {
        let asked = wanted.into_iter().map(async |mut limit| {
            if let Some(code) = limit.quota.code.clone() {
                let service = limit.quota.service.as_str();
                let own = self.ask(async |cloud| cloud.quota(service, &code).await).await;
                // A quota that was never changed has its default value, which the catalogue has.
                limit.seen = match (none_if_not_found(own), limit.quota.default) {
                    (Ok(Some(own)), _) => {
                        limit.is_own = true;
                        Some(Ok(own))
                    }
                    (Ok(None), default) => {
                        limit.is_default = true;
                        default.map(|value| Ok(value as f64))
                    }
                    (Err(fault), _) => Some(Err(fault)),
                };
            }
            limit
        });
        join_all(asked).await
    }

    /// Returns the calls left for the least decisive queries.
    fn calls_left(&self) -> usize {
        MOST_CALLS.saturating_sub(self.asked.map_or(0, Cell::get))
    }

    /// Confirms the catalogue's default quotas with the service if they would refuse the job with this usage,
    /// since the catalogue may be outdated. Reads only one of them: if it matches, the others are trusted
    /// too, which have the same source and date; otherwise nothing is reported for those that would refuse
    /// the job. Returns whether the defaults apply, once known.
    pub(super) async fn confirm_defaults(
        &self,
        limits: &mut [Limit],
        taken: impl Fn(&Limit) -> f64,
        known: Option<bool>,
    ) -> Option<bool> {
        let refuses = |limit: &Limit| {
            let taken = if limit.is_shared { taken(limit) } else { limit.taken };
            let is_over = |seen: &Answer<f64>| matches!(seen, Ok(has) if limit.wanted + taken > *has);
            limit.is_default && limit.seen.as_ref().is_none_or(is_over)
        };
        // A quota without a catalogue value would confirm nothing.
        let proves = |limit: &Limit| refuses(limit) && limit.quota.default.is_some();
        let at = limits.iter().position(proves).or_else(|| limits.iter().position(refuses));
        let Some(limit) = at.and_then(|at| limits.get_mut(at)) else { return known };
        let holds = match known {
            Some(holds) => holds,
            // Unknown: the job itself will show it.
            None if self.calls_left() == 0 => false,
            None => {
                let service = limit.quota.service.as_str();
                let code = limit.quota.code.as_deref().unwrap_or_default();
                let told = self.ask(async |cloud| cloud.default_quota(service, code).await).await;
                let figure = limit.quota.default.map(|value| value as f64);
                let holds = matches!((&told, figure), (Ok(told), Some(figure)) if *told <= figure);
                limit.seen = Some(told);
                limit.is_default = false;
                holds
            }
        };
        for limit in limits.iter_mut().filter(|limit| !holds && refuses(limit)) {
            limit.seen = None;
            limit.is_default = false;
        }
        Some(holds)
    }

    /// Returns the instances of the plan's type in use, unless the job exceeds a quota by itself. Describes
    /// only as many running jobs as the remaining calls allow.
    async fn running_now(
        &self,
        plan: &Plan,
        view: View<'_>,
        limits: &[Limit],
        later: usize,
        (is_confirmed, listed): (bool, Option<Answer<Vec<JobSummary>>>),
    ) -> Lookup<Running> {
        let mut shared = limits.iter().filter(|limit| limit.is_shared).peekable();
        let decides = shared.peek().is_some()
            && shared.all(|limit| !matches!(limit.seen, Some(Ok(has)) if limit.wanted > has));
        // One more call may be needed for a default quota, if the running instances use it up.
        let kept = later + usize::from(!is_confirmed && limits.iter().any(|limit| limit.is_default));
        if !decides {
            return None;
        }
        let listed = match listed {
            Some(listed) => listed,
            None if self.calls_left() <= kept => return None,
            None => self.list_jobs_in_progress().await,
        };
        let running = match listed {
            Ok(running) => running,
            Err(fault) => return Some(Err(fault)),
        };
        let spare = self.calls_left().saturating_sub(kept);
        let known = view.described;
        let (seen, unseen): (Vec<_>, Vec<_>) =
            running.iter().partition(|one| known.iter().any(|job| job.name == one.name));
        let most = MOST_RUNNING.saturating_sub(seen.len()).min(spare);
        let asked = unseen
            .iter()
            .take(most)
            .map(async |one| self.ask(async |cloud| cloud.training_job(&one.name).await).await);
        let asked: Vec<_> = join_all(asked).await;
        let known = known.iter().filter(|job| seen.iter().any(|one| one.name == job.name));
        let live = known
            .chain(asked.iter().flatten())
            .filter(|job| job.is_spot() == plan.is_spot() && !job.is_over());
        let alternatives = plan.fleet.alternatives();
        let mut instances = BTreeMap::new();
        for job in live {
            let kind = job
                .instance_type()
                .filter(|kind| alternatives.is_some_and(|all| all.of_type(kind).is_some()));
            if let Some(kind) = kind {
                *instances.entry(kind.to_owned()).or_default() += job.instance_count();
            }
        }
        Some(Ok(Running { instances, is_all: unseen.len() <= most }))
    }
}
