//! Which runs of a job an account knows: of the digest that is meant, and of others.

use super::account::{JobSummary, Tags, TrainingJob};
use super::cloud::{Answer, Clock, Observe};
use super::desired::Desired;
use super::diff::{self, Choices, Runs};
use super::observed::Look;
use super::patience::absent;
use super::strays;
use futures_util::future::try_join_all;
use futures_util::join;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The most running runs of other digests whose role is looked at: each costs a call.
const MOST_BESIDE: usize = 1;

/// The most runs of other digests whose tags are looked at.
const MOST_OTHERS: usize = 4;

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// The runs of the job, of this digest and of others. Where another run was asked for, it is enough to know one of
    /// another digest by its name: it stands in no way.
    pub async fn runs(&self, desired: &Desired, choices: Choices) -> Answer<Runs> {
        let first = desired.name_of_run(1).unwrap_or_default();
        let first = first.as_str();
        let stem = desired.stem.as_str();
        let (direct, listed) = join!(async { self.job(first).await }, async {
            self.ask(async |cloud| cloud.training_jobs(stem).await).await
        },);
        let (direct, listed) = (self.allowed(direct)?, self.allowed(listed)?);
        // What the one says depends on the other.
        let (Some(direct), Some(mut listed)) = (direct, listed) else { return Ok(Runs::default()) };
        // Names that only begin alike belong to other jobs.
        listed.retain(|one| is_run(desired, &one.name));
        let described = Described::default();
        let last = listed.iter().filter_map(|one| desired.run_of(&one.name)).max().unwrap_or(0);
        let beside = self.beside(desired, &listed, &described).await?;
        let mut runs = Runs { latest: direct, number: 1, beside, ..Runs::default() };
        if last > 1
            && let Some(name) = desired.name_of_run(last)
            && let Some(latest) = self.job(&name).await?
        {
            runs.latest = Some(latest);
            runs.number = last;
        }
        if let Some((own, tags)) = &runs.latest
            && !own.is_over()
            && diff::is_same(desired, tags)
        {
            runs.other = self.rival(desired, (own, tags), &listed, &described).await?;
        }
        let lacked = runs.latest.as_ref().map(|(own, _)| own).filter(|own| diff::lacked_capacity(own));
        if runs.latest.is_none() || lacked.is_some() {
            // After a run that found no machines only what came later counts.
            let since = lacked.map_or(f64::NEG_INFINITY, |own| own.created);
            // The newest that is ours.
            let others =
                listed.iter().filter(|one| desired.run_of(&one.name).is_none() && one.created > since);
            for one in others.take(MOST_OTHERS) {
                let Some(job) = self.described(&described, &one.name).await? else { continue };
                let tags = if choices.new_run {
                    Tags::new()
                } else {
                    self.ask(async |cloud| cloud.job_tags(&job.arn).await).await?
                };
                if (choices.new_run || diff::is_ours(&tags, &desired.job)) && job.created > since {
                    runs.other = Some((job, tags));
                    break;
                }
            }
        }
        runs.described = described.into_inner().into_values().flatten().collect();
        Ok(runs)
    }

    /// A training job of another digest, which several questions are about: asked for once.
    async fn described(&self, known: &Described, name: &str) -> Answer<Option<TrainingJob>> {
        if let Some(job) = known.borrow().get(name) {
            return Ok(job.clone());
        }
        let job = absent(self.ask(async |cloud| cloud.training_job(name).await).await)?;
        known.borrow_mut().insert(name.to_owned(), job.clone());
        Ok(job)
    }
}

/// Training jobs that were looked at, by name; none where the name is not there.
type Described = RefCell<BTreeMap<String, Option<TrainingJob>>>;

/// Whether a training job's name is one of the runs of a job, of whatever digest: of a long name it holds only a part.
fn is_run(desired: &Desired, name: &str) -> bool {
    let made_of = strays::job_of(name);
    made_of.is_some_and(|job| desired.job.starts_with(job) && job.starts_with(&desired.stem))
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// A run of another digest that goes on beside this one's, though nobody asked for both: whoever started the later one
    /// was cut off before it could look again.
    async fn rival(
        &self,
        desired: &Desired,
        (own, own_tags): (&TrainingJob, &Tags),
        listed: &[JobSummary],
        described: &Described,
    ) -> Answer<Option<(TrainingJob, Tags)>> {
        let going =
            listed.iter().filter(|one| desired.run_of(&one.name).is_none() && one.status == "InProgress");
        for one in going.take(MOST_OTHERS) {
            let Some(job) = self.described(described, &one.name).await? else { continue };
            let tags = self.ask(async |cloud| cloud.job_tags(&job.arn).await).await?;
            if !diff::is_ours(&tags, &desired.job) || job.status != "InProgress" {
                continue;
            }
            let is_later = (job.created, job.name.as_str()) > (own.created, own.name.as_str());
            if !diff::is_asked_for(if is_later { &tags } else { own_tags }) {
                return Ok(Some((job, tags)));
            }
        }
        Ok(None)
    }

    /// Which of the listed jobs are of other digests, not over, and run as the plan's role.
    async fn beside(
        &self,
        desired: &Desired,
        listed: &[JobSummary],
        described: &Described,
    ) -> Answer<Vec<String>> {
        let Some(role) = &desired.role else { return Ok(Vec::new()) };
        let running = listed.iter().filter(|one| {
            desired.run_of(&one.name).is_none() && matches!(one.status.as_str(), "InProgress" | "Stopping")
        });
        let asked = running.enumerate().map(async |(at, one)| {
            // Those that are too many to ask each are taken for such: a policy that is too wide for a while harms nobody.
            let found = match at {
                ..MOST_BESIDE => self.described(described, &one.name).await?,
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
