//! Reads the quotas that a job comes near to, and the other jobs that run now.

use super::facts::{Limit, Lookup, Running};
use super::requirements::{View, wanted_limits};
use crate::account::{JobSummary, TrainingJob};
use crate::cloud::{Answer, Clock, Observe};
use crate::look::Look;
use crate::patience::none_if_not_found;
use futures_util::future::join_all;
use futures_util::join;
use std::cell::Cell;
use trainc_ir::Plan;

/// The most calls that a plan makes for what runs now, and what a new account has, to be asked about: an account where everybody works must cost no
/// more than one's own, and this is the least certain of all that is asked.
const MOST_CALLS: usize = 24;
/// The most running jobs whose size is asked for, the newest first: each costs a call.
const MOST_RUNNING: usize = 2;

/// The calls that are left for what only comes up later, where running jobs are listed early.
const LATE: usize = 4;

/// The quotas of a job and the running jobs that use them.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// The limits that it comes near to.
    pub limits: Vec<Limit>,
    /// True if the default quotas hold, if they were confirmed.
    pub holds: Option<bool>,
    /// The other running jobs.
    pub running: Lookup<Running>,
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Looks at the room for a job that is to be started, where so many calls are still to be made by others.
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
            let taken = running.instances as f64;
            holds = self.confirm_defaults(&mut limits, |_| taken, holds).await;
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
                // One that was never changed has the value of a new account, which the catalogue knows.
                limit.seen = match (none_if_not_found(own), limit.quota.default) {
                    (Ok(Some(own)), _) => Some(Ok(own)),
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

    /// Asks the service where the catalogue's figures of a new account would refuse the job beside so many instances: a
    /// figure that has aged must not. One of them is asked for, once: if it holds, the others are believed, which came from
    /// the same pages on the same day; if it does not, nothing is said of those that would refuse. Whether they are to be
    /// believed, once that is known.
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
        // One that the catalogue has no figure of would prove nothing.
        let proves = |limit: &Limit| refuses(limit) && limit.quota.default.is_some();
        let at = limits.iter().position(proves).or_else(|| limits.iter().position(refuses));
        let Some(limit) = at.and_then(|at| limits.get_mut(at)) else { return known };
        let holds = match known {
            Some(holds) => holds,
            // It is unknown: the job itself will show it.
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

    /// Instances of the plan's type that run now, where that may decide: not where the job is more than a limit by itself.
    /// Asked of as many jobs as the calls that are left allow.
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
        // A limit that was never changed may be asked for once more, if what runs now fills it.
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
        let kind = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value());
        let spot = is_spot(plan);
        let known = known.iter().filter(|job| seen.iter().any(|one| one.name == job.name));
        let same = known.chain(asked.iter().flatten()).filter(|job| {
            job.instance_type() == kind.map(String::as_str) && job.is_spot() == spot && !job.is_over()
        });
        Some(Ok(Running {
            instances: same.map(TrainingJob::instance_count).sum(),
            is_all: unseen.len() <= most,
        }))
    }
}

fn is_spot(plan: &Plan) -> bool {
    plan.job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_some())
}
