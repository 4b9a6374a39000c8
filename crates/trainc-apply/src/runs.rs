//! The runs of a job in an account, of this digest and of others.

use super::account::{JobSummary, Tags, TrainingJob};
use super::change::Choices;
use super::cloud::{Answer, Clock, Observe};
use super::desired::Desired;
use super::look::Look;
use super::observed::Runs;
use super::patience::none_if_not_found;
use super::prefetch::Prefetch;
use crate::ownership;
use futures_util::future::{OptionFuture, try_join_all};
use futures_util::join;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Maximum number of running runs of other digests whose role is read; each costs a call.
const MOST_CONCURRENT: usize = 1;

/// Maximum number of runs of other digests whose tags are read.
const MOST_OTHERS: usize = 4;

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Returns the runs of the job, of this digest and of others. With `--new-run`, a run of another digest
    /// is identified by its name only, since it does not block the new run.
    pub async fn runs(&self, desired: &Desired, choices: Choices) -> Answer<Runs> {
        self.runs_with_prefetch(Prefetch::default(), desired, choices).await
    }

    /// Like `runs`, with prefetched answers.
    pub(super) async fn runs_with_prefetch(
        &self,
        mut prefetched: Prefetch,
        desired: &Desired,
        choices: Choices,
    ) -> Answer<Runs> {
        let first = desired.name_of_run(1).unwrap_or_default();
        let (run, listed) = (prefetched.run(&first), prefetched.job_list(&desired.stem));
        let listed = async {
            match listed {
                Some(listed) => listed,
                None => self.ask(async |cloud| cloud.training_jobs(&desired.stem).await).await,
            }
        };
        let (direct, listed) = join!(self.job_with_prefetch(run, &first), listed);
        let (direct, listed) = (self.none_if_denied(direct)?, self.none_if_denied(listed)?);
        // Each of the two answers is incomplete without the other.
        let (Some(direct), Some(mut listed)) = (direct, listed) else { return Ok(Runs::default()) };
        // Names that only share the prefix belong to other jobs.
        listed.retain(|one| desired.is_run(&one.name));
        let known = JobCache::default();
        let last = listed.iter().filter_map(|one| desired.run_number(&one.name)).max().unwrap_or(0);
        let others = || listed.iter().filter(|one| desired.run_number(&one.name).is_none());
        // Without a run of this digest, the newest run of another one is read in any case.
        let newest = others().next().filter(|_| direct.is_none() && last <= 1);
        let (beside, newest) = join!(
            self.concurrent(desired, &listed, &known),
            OptionFuture::from(newest.map(|one| self.cache_newest_run(desired, one, &known, choices))),
        );
        let beside = beside?;
        newest.transpose()?;
        let mut runs = Runs { latest: direct, number: 1, concurrent: beside, ..Runs::default() };
        if last > 1
            && let Some(name) = desired.name_of_run(last)
            && let Some(latest) = self.job(&name).await?
        {
            runs.latest = Some(latest);
            runs.number = last;
        }
        if let Some((own, tags)) = &runs.latest
            && !own.is_over()
            && ownership::is_run_of_digest(desired, tags)
        {
            runs.other = self.rival(desired, (own, tags), &listed, &known).await?;
        }
        let lacked = runs.latest.as_ref().map(|(own, _)| own).filter(|own| own.lacked_capacity());
        if runs.latest.is_none() || lacked.is_some() {
            // After a run without capacity, only later runs count.
            let since = lacked.map_or(f64::NEG_INFINITY, |own| own.created);
            // The newest run that is ours.
            for one in others().filter(|one| one.created > since).take(MOST_OTHERS) {
                let tagged = if choices.new_run {
                    self.cached_job(&known, &one.name).await?.map(|job| (job, Tags::new()))
                } else {
                    self.cached_job_with_tags(&known, one).await?
                };
                let Some((job, tags)) = tagged else { continue };
                if (choices.new_run || ownership::is_ours(&tags, &desired.job)) && job.created > since {
                    runs.other = Some((job, tags));
                    break;
                }
            }
        }
        runs.described = known.jobs.into_inner().into_values().flatten().collect();
        Ok(runs)
    }

    /// Returns a training job of another digest, read at most once.
    async fn cached_job(&self, known: &JobCache, name: &str) -> Answer<Option<TrainingJob>> {
        if let Some(job) = known.jobs.borrow().get(name) {
            return Ok(job.clone());
        }
        let job = none_if_not_found(self.ask(async |cloud| cloud.training_job(name).await).await)?;
        known.jobs.borrow_mut().insert(name.to_owned(), job.clone());
        Ok(job)
    }

    /// Returns its tags, read at most once.
    async fn cached_tags(&self, known: &JobCache, arn: &str) -> Answer<Tags> {
        if let Some(tags) = known.tags.borrow().get(arn) {
            return Ok(tags.clone());
        }
        let tags = self.ask(async |cloud| cloud.job_tags(arn).await).await?;
        known.tags.borrow_mut().insert(arn.to_owned(), tags.clone());
        Ok(tags)
    }

    /// Reads both concurrently: the list contains the ARN.
    async fn cached_job_with_tags(
        &self,
        known: &JobCache,
        one: &JobSummary,
    ) -> Answer<Option<(TrainingJob, Tags)>> {
        let (job, tags) = join!(self.cached_job(known, &one.name), self.cached_tags(known, &one.arn));
        let Some(job) = job? else { return Ok(None) };
        Ok(Some((job, tags?)))
    }

    /// Reads the newest run of another digest into the cache, concurrently with [`Self::concurrent`], which
    /// describes running ones.
    async fn cache_newest_run(
        &self,
        desired: &Desired,
        one: &JobSummary,
        known: &JobCache,
        choices: Choices,
    ) -> Answer<()> {
        let described = async {
            if desired.role.is_some() && is_going(one) {
                return Ok(());
            }
            self.cached_job(known, &one.name).await.map(|_| ())
        };
        let tags = async {
            if choices.new_run { Ok(()) } else { self.cached_tags(known, &one.arn).await.map(|_| ()) }
        };
        let (described, tags) = join!(described, tags);
        described.and(tags)
    }
}

/// Cache of training jobs.
#[derive(Debug, Default)]
struct JobCache {
    /// By name; `None` if the job does not exist.
    jobs: RefCell<BTreeMap<String, Option<TrainingJob>>>,
    /// By ARN.
    tags: RefCell<BTreeMap<String, Tags>>,
}

/// Returns true if a listed job has not ended.
fn is_going(one: &JobSummary) -> bool {
    matches!(one.status.as_str(), "InProgress" | "Stopping")
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Returns a run of another digest that is in progress at the same time as this digest's, without
    /// `--new-run`: the apply that started the later one was interrupted before it could stop it.
    async fn rival(
        &self,
        desired: &Desired,
        (own, own_tags): (&TrainingJob, &Tags),
        listed: &[JobSummary],
        known: &JobCache,
    ) -> Answer<Option<(TrainingJob, Tags)>> {
        let going =
            listed.iter().filter(|one| desired.run_number(&one.name).is_none() && one.status == "InProgress");
        for one in going.take(MOST_OTHERS) {
            let Some((job, tags)) = self.cached_job_with_tags(known, one).await? else { continue };
            if !ownership::is_ours(&tags, &desired.job) || job.status != "InProgress" {
                continue;
            }
            let is_later = (job.created, job.name.as_str()) > (own.created, own.name.as_str());
            if !ownership::is_new_run(if is_later { &tags } else { own_tags }) {
                return Ok(Some((job, tags)));
            }
        }
        Ok(None)
    }

    /// Returns the listed jobs of other digests that have not ended and use the plan's role.
    async fn concurrent(
        &self,
        desired: &Desired,
        listed: &[JobSummary],
        known: &JobCache,
    ) -> Answer<Vec<String>> {
        let Some(role) = &desired.role else { return Ok(Vec::new()) };
        let running = listed.iter().filter(|one| desired.run_number(&one.name).is_none() && is_going(one));
        let asked = running.enumerate().map(async |(at, one)| {
            // Those above the limit are included unread: temporary excess permissions are harmless.
            let found = match at {
                ..MOST_CONCURRENT => self.cached_job(known, &one.name).await?,
                _ => return Ok(Some(one.name.clone())),
            };
            // An adopted role has the name at another path.
            let name = format!("/{}", role.create.role_name);
            let is_role = |job: &TrainingJob| {
                let arn = job.request.get("RoleArn").and_then(|arn| arn.as_str());
                arn.is_some_and(|arn| arn.ends_with(&name)) && !job.is_over()
            };
            Ok(found.filter(is_role).map(|job| job.name))
        });
        let found: Vec<Option<String>> = try_join_all(asked).await?;
        Ok(found.into_iter().flatten().collect())
    }
}
