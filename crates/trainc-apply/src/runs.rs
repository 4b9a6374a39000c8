//! Which runs of a job an account knows: of the digest that is meant, and of others.

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

/// The most running runs of other digests whose role is looked at: each costs a call.
const MOST_CONCURRENT: usize = 1;

/// The most runs of other digests whose tags are looked at.
const MOST_OTHERS: usize = 4;

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// The runs of the job, of this digest and of others. Where another run was asked for, it is enough to know one of
    /// another digest by its name: it stands in no way.
    pub async fn runs(&self, desired: &Desired, choices: Choices) -> Answer<Runs> {
        self.runs_with_prefetch(Prefetch::default(), desired, choices).await
    }

    /// The same, where some of it was asked already.
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
        // What the one says depends on the other.
        let (Some(direct), Some(mut listed)) = (direct, listed) else { return Ok(Runs::default()) };
        // Names that only begin alike belong to other jobs.
        listed.retain(|one| desired.is_run(&one.name));
        let known = JobCache::default();
        let last = listed.iter().filter_map(|one| desired.run_number(&one.name)).max().unwrap_or(0);
        let others = || listed.iter().filter(|one| desired.run_number(&one.name).is_none());
        // Where nothing of this digest is there, the newest of another is asked about in any case.
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
            // After a run that found no machines only what came later counts.
            let since = lacked.map_or(f64::NEG_INFINITY, |own| own.created);
            // The newest that is ours.
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

    /// A training job of another digest, which several questions are about: asked for once.
    async fn cached_job(&self, known: &JobCache, name: &str) -> Answer<Option<TrainingJob>> {
        if let Some(job) = known.jobs.borrow().get(name) {
            return Ok(job.clone());
        }
        let job = none_if_not_found(self.ask(async |cloud| cloud.training_job(name).await).await)?;
        known.jobs.borrow_mut().insert(name.to_owned(), job.clone());
        Ok(job)
    }

    /// Its tags, asked for once.
    async fn cached_tags(&self, known: &JobCache, arn: &str) -> Answer<Tags> {
        if let Some(tags) = known.tags.borrow().get(arn) {
            return Ok(tags.clone());
        }
        let tags = self.ask(async |cloud| cloud.job_tags(arn).await).await?;
        known.tags.borrow_mut().insert(arn.to_owned(), tags.clone());
        Ok(tags)
    }

    /// Both at once: the list tells the ARN.
    async fn cached_job_with_tags(
        &self,
        known: &JobCache,
        one: &JobSummary,
    ) -> Answer<Option<(TrainingJob, Tags)>> {
        let (job, tags) = join!(self.cached_job(known, &one.name), self.cached_tags(known, &one.arn));
        let Some(job) = job? else { return Ok(None) };
        Ok(Some((job, tags?)))
    }

    /// Gets to know the newest run of another digest, while [`Self::concurrent`] asks: what that one describes is left to it.
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

/// Training jobs that were looked at.
#[derive(Debug, Default)]
struct JobCache {
    /// By name; none where the name is not there.
    jobs: RefCell<BTreeMap<String, Option<TrainingJob>>>,
    /// By ARN.
    tags: RefCell<BTreeMap<String, Tags>>,
}

/// Returns true if a listed job is not over.
fn is_going(one: &JobSummary) -> bool {
    matches!(one.status.as_str(), "InProgress" | "Stopping")
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// A run of another digest that goes on beside this one's, though nobody asked for both: whoever started the later one
    /// was cut off before it could look again.
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

    /// Which of the listed jobs are of other digests, not over, and run as the plan's role.
    async fn concurrent(
        &self,
        desired: &Desired,
        listed: &[JobSummary],
        known: &JobCache,
    ) -> Answer<Vec<String>> {
        let Some(role) = &desired.role else { return Ok(Vec::new()) };
        let running = listed.iter().filter(|one| desired.run_number(&one.name).is_none() && is_going(one));
        let asked = running.enumerate().map(async |(at, one)| {
            // Those that are too many to ask each are taken for such: a policy that is too wide for a while harms nobody.
            let found = match at {
                ..MOST_CONCURRENT => self.cached_job(known, &one.name).await?,
                _ => return Ok(Some(one.name.clone())),
            };
            // A role that was taken over has its name at another path.
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
