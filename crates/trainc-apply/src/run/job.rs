//! The training job, started at most once under a name that is chosen before.

use super::{Driver, Mounted};
use crate::account::{Tags, TrainingJob};
use crate::calls::Call;
use crate::change::{Action, Obstacle, Target};
use crate::cloud::{Clock, Cloud};
use crate::diff::{self};
use crate::fault::{Class, Fault};
use crate::ledger::{Cause, Item, Outcome};
use crate::ownership;
use crate::patience::{Wait, none_if_not_found};
use serde_json::{Value, json};
use std::time::Duration;
use trainc_emit::Verb;

/// Minimum time for which a run is watched that follows one without capacity, even if the wait time is over:
/// it may fail for the same reason, after its start was reported to the user.
const LAST: Duration = Duration::from_mins(20);

/// Time for which a job is retried whose role cannot be assumed yet, if this run wrote nothing to IAM: a
/// previous run may have done so just before.
const OTHERS_UNSEEN: Duration = Duration::from_secs(30);

impl<C: Cloud, K: Clock> Driver<'_, C, K> {
    pub(super) async fn apply_job(
        &self,
        item: &Item,
        target: &Target,
        systems: &[Mounted],
    ) -> Option<String> {
        let result = match target {
            Target::Attach(name) => self.attach(item, name).await,
            Target::Start(_) => match self.check_overtaken().await {
                Ok(()) => return self.start_until_placed(item, systems).await,
                Err(cause) => Err(cause),
            },
            // Blocked plans are never run.
            Target::Blocked(_) => return None,
        };
        self.ok_or_record(item, result)
    }

    /// Reads the runs again right before the job is started: creating a file system takes a quarter of an
    /// hour, during which another version of the job may have been started.
    async fn check_overtaken(&self) -> Result<(), Cause> {
        if self.choices.new_run {
            return Ok(());
        }
        let runs = self.look.runs(self.desired, self.choices).await?;
        match diff::target(self.desired, &runs, self.choices) {
            Target::Blocked(Obstacle::OtherDigest) => {
                Err(Cause::Obstacle(diff::job_change(self.desired, &runs, self.choices)))
            }
            // The start itself checks its own name.
            Target::Blocked(_) | Target::Attach(_) | Target::Start(_) => Ok(()),
        }
    }

    async fn attach(&self, item: &Item, name: &str) -> Result<String, Cause> {
        let found = if self.choices.adopt { self.look.job(name).await? } else { None };
        let Some((job, tags)) = found.filter(|(_, tags)| !ownership::is_run_of_digest(self.desired, tags))
        else {
            self.recorder.record_done(item, Outcome::Unchanged, None);
            return Ok(name.to_owned());
        };
        let change = diff::foreign_job_change(self.desired, &job, &tags);
        if change.action == Action::Stop(Obstacle::DifferentContent) {
            return Err(Cause::Obstacle(change));
        }
        self.recorder.record_adoption(item, &change);
        let tags = self.desired.job_tags();
        self.recorder.record_action(item, Verb::Adopt);
        self.look.ask(async |cloud| cloud.tag_job(&job.arn, &tags).await).await?;
        self.recorder.record_done(item, Outcome::Adopted, None);
        Ok(name.to_owned())
    }

    /// Starts the job. If the user waits for capacity, starts another run whenever one found no capacity.
    /// Each run is reported under its own name.
    async fn start_until_placed(&self, item: &Item, systems: &[Mounted]) -> Option<String> {
        let look = &self.look;
        let mut item = item.clone();
        let (mut wait, mut least) = (None, Duration::ZERO);
        loop {
            let name = self.ok_or_record(&item, self.start(&item, systems).await)?;
            let Some(most) = look.patience.capacity else { return Some(name) };
            let wait = wait.get_or_insert_with(|| Wait::start(look.clock, most));
            match self.ok_or_record(&item, self.wait_for_machines(&item, &name, wait, least).await)? {
                None => return Some(name),
                Some(next) => item = Item::new(item.kind, &next),
            }
            least = LAST;
        }
    }

    /// Waits until a run has its instances or ends. If it found no capacity, returns the name of the next
    /// run. Waits until the wait time is over, but at least for `least`.
    async fn wait_for_machines(
        &self,
        item: &Item,
        name: &str,
        wait: &mut Wait,
        least: Duration,
    ) -> Result<Option<String>, Cause> {
        let look = &self.look;
        let mut own = Wait::start(look.clock, least);
        loop {
            let Some(job) = none_if_not_found(look.ask(async |cloud| cloud.training_job(name).await).await)?
            else {
                return Ok(None);
            };
            if job.lacked_capacity() {
                let reason = job.failure.unwrap_or_default();
                let next = self.desired.run_number(name).and_then(|run| self.desired.name_of_run(run + 1));
                let (Some(next), false) = (next, wait.is_over(look.clock)) else {
                    return Err(Cause::Waited {
                        fault: capacity_fault(&reason),
                        seconds: wait.seconds(look.clock),
                    });
                };
                let retry = wait.retry(look.clock, &look.patience);
                self.recorder.report_retry(item, &reason, wait.seconds(look.clock), retry);
                wait.pause_backoff(look.clock, &look.patience).await;
                return Ok(Some(next));
            }
            let looking = matches!(job.secondary.as_str(), "Starting" | "Pending" | "LaunchingMLInstances");
            let is_late = wait.is_over(look.clock) && (least.is_zero() || own.is_over(look.clock));
            if job.is_over() || !looking || is_late {
                return Ok(None);
            }
            self.recorder.report_wait(item, &job.secondary, wait.seconds(look.clock));
            own.count_look();
            wait.pause_poll(look.clock, &look.patience).await;
        }
    }

    /// Reads the runs again right after the job was started: another version may have been started at the
    /// same time, before either was visible to the other. The later one, by creation time and then by name,
    /// is stopped by its own apply.
    async fn stop_if_overtaken(&self, item: &Item, job: &TrainingJob) -> Result<(), Cause> {
        let (look, desired) = (&self.look, self.desired);
        let mut unseen = self.visibility_wait();
        let running = loop {
            let running = look.running(&desired.stem).await?;
            // If our own job is not listed yet, the other may not be either.
            if job.is_over() || unseen.is_over(look.clock) || running.iter().any(|one| one.name == job.name) {
                break running;
            }
            if look.job(&job.name).await?.is_none_or(|(now, _)| now.is_over()) {
                break running;
            }
            self.pause(item, &mut unseen, "until SageMaker lists the job").await?;
        };
        for one in running.iter().filter(|one| desired.run_number(&one.name).is_none()) {
            if (one.created, one.name.as_str()) >= (job.created, job.name.as_str()) {
                continue;
            }
            let Some((other, _)) = self.own_unfinished_run(&one.name).await? else { continue };
            let name = job.name.as_str();
            match look.ask(async |cloud| cloud.stop_training_job(name).await).await {
                Ok(()) => {}
                // It has ended or is ending.
                Err(fault) if matches!(fault.class, Class::NotFound | Class::Busy | Class::Invalid) => {}
                Err(fault) => return Err(fault.into()),
            }
            return Err(Cause::Obstacle(diff::overtaken_run_change(desired, &other, name)));
        }
        Ok(())
    }

    /// Returns an unfinished run of another digest of this job. Its tags may become visible later than the
    /// run itself.
    async fn own_unfinished_run(&self, name: &str) -> Result<Option<(TrainingJob, Tags)>, Cause> {
        let mut unseen = self.visibility_wait();
        loop {
            let Some((job, tags)) = self.look.job(name).await? else { return Ok(None) };
            if job.is_over() || (tags.is_empty() && unseen.is_over(self.look.clock)) {
                return Ok(None);
            }
            if !tags.is_empty() {
                return Ok(ownership::is_ours(&tags, &self.desired.job).then_some((job, tags)));
            }
            unseen.pause_short(self.look.clock, &self.look.patience).await;
        }
    }

    async fn start(&self, item: &Item, systems: &[Mounted]) -> Result<String, Cause> {
        let look = &self.look;
        let name = item.name.as_str();
        let mut request = self.desired.request_for_run(name, systems);
        if self.choices.new_run {
            tag_new_run(&mut request);
        }
        let mut unseen = self.visibility_wait();
        let mut propagation = self.propagation();
        let mut capacity = look.patience.capacity.map(|most| Wait::start(look.clock, most));
        let mut made = None;
        loop {
            if let Some((job, tags)) = look.job(name).await? {
                // Tags are read separately from the job, and may become visible later.
                if tags.is_empty() && made.is_some() && !unseen.is_over(look.clock) {
                    self.pause(item, &mut unseen, "until SageMaker shows the job's tags").await?;
                    continue;
                }
                if !ownership::is_run_of_digest(self.desired, &tags) {
                    return Err(Cause::Obstacle(diff::foreign_job_change(self.desired, &job, &tags)));
                }
                if made.is_some() && !self.choices.new_run {
                    self.stop_if_overtaken(item, &job).await?;
                }
                self.recorder.record_done(item, made.unwrap_or(Outcome::Found), None);
                return Ok(job.name);
            }
            if made.is_some() {
                let state = match made {
                    Some(Outcome::Found) => {
                        "until SageMaker shows the job, whose name it reports as taken (ResourceInUse)"
                    }
                    _ => "until SageMaker shows the job",
                };
                self.pause(item, &mut unseen, state).await?;
                continue;
            }
            self.recorder.record_action(item, Verb::Create);
            match look.ask(async |cloud| cloud.create_training_job(&request).await).await {
                Ok(()) => made = Some(Outcome::Created),
                Err(fault) if fault.class == Class::Exists => made = Some(Outcome::Found),
                Err(fault) if fault.class == Class::NotPropagated => match propagation.as_mut() {
                    Some(wait) if !wait.is_over(look.clock) => {
                        self.recorder.report_wait(
                            item,
                            "until the role can be assumed",
                            wait.seconds(look.clock),
                        );
                        wait.pause_short(look.clock, &look.patience).await;
                    }
                    _ => return Err(fault.into()),
                },
                Err(fault) if matches!(fault.class, Class::Quota | Class::Capacity) => {
                    match capacity.as_mut() {
                        Some(wait) if !wait.is_over(look.clock) => {
                            let retry = wait.retry(look.clock, &look.patience);
                            self.recorder.report_retry(item, &fault.message, wait.seconds(look.clock), retry);
                            wait.pause_backoff(look.clock, &look.patience).await;
                        }
                        Some(wait) => {
                            return Err(Cause::Waited { fault, seconds: wait.seconds(look.clock) });
                        }
                        None => return Err(fault.into()),
                    }
                }
                Err(fault) => self.pause_for(item, &mut unseen, fault).await?,
            }
        }
    }

    /// Returns how long to retry while the role cannot be assumed; only for a role that trainc creates, which
    /// is valid but may be new.
    fn propagation(&self) -> Option<Wait> {
        self.desired.role.as_ref()?;
        let most = if self.wrote_iam.get() { self.look.patience.unseen } else { OTHERS_UNSEEN };
        Some(Wait::start(self.look.clock, most))
    }
}

/// Maximum number of tags of a training job (CreateTrainingJob, `Tags`).
const MOST_TAGS: usize = 50;

/// Tags a request as started with `--new-run`, so that it may run at the same time as another digest of the
/// job.
fn tag_new_run(request: &mut Value) {
    if let Some(tags) =
        request.get_mut("Tags").and_then(Value::as_array_mut).filter(|tags| tags.len() < MOST_TAGS)
    {
        tags.push(json!({"Key": ownership::NEW_RUN_TAG, "Value": "true"}));
    }
}

/// Converts the FailureReason of a run without capacity to a fault; the reason begins with the error code.
fn capacity_fault(reason: &str) -> Fault {
    const CODES: [&str; 2] = ["CapacityError", "ResourceLimitExceeded"];
    let said = reason.split_once(": ").filter(|(code, _)| CODES.contains(code));
    let (code, words) = said.unwrap_or(("CapacityError", reason));
    Fault::from_answer(Call::CreateTrainingJob, None, code, words)
}
