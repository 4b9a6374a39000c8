//! The role: created, tagged, and given its trust policy and its permissions, one call at a time.

use super::{Driver, SEEN_LATE, outcome_word};
use crate::change::Action;
use crate::cloud::{Answer, Clock, Cloud};
use crate::desired::WantedRole;
use crate::diff::{RoleStep, role_change};
use crate::fault::Class;
use crate::ledger::{Cause, Item, Outcome};
use crate::patience::Wait;
use crate::policy;
use trainc_emit::iam::POLICY_NAME;
use trainc_emit::{ResourceKind, Verb};

impl<C: Cloud, K: Clock> Driver<'_, C, K> {
    pub(super) async fn apply_role(&self) -> Option<()> {
        let Some(wanted) = &self.desired.role else { return Some(()) };
        let item = Item::new(ResourceKind::Role, &wanted.create.role_name);
        self.ok_or_record(&item, self.ensure_role(wanted, &item).await)
    }

    async fn ensure_role(&self, wanted: &WantedRole, item: &Item) -> Result<(), Cause> {
        let mut wait = self.visibility_wait();
        let mut late = Wait::start(self.look.clock, SEEN_LATE);
        let mut made: Vec<RoleStep> = Vec::new();
        let (mut adopted, mut taken) = (false, false);
        let mut wanted = wanted.clone();
        let (mut asked, mut seen) = (false, false);
        loop {
            let found = self.look.role(&wanted).await?;
            if found.is_none() && seen {
                if wait.is_over(self.look.clock) {
                    return Err(Cause::Gone);
                }
                self.pause(item, &mut wait, "until it is visible again").await?;
                continue;
            }
            seen = found.is_some();
            let (change, _, steps) = role_change(&wanted, found.as_ref(), self.choices);
            if matches!(change.action, Action::Stop(_)) {
                return Err(Cause::Obstacle(change));
            }
            if steps.is_empty() {
                let what = if adopted { Outcome::Adopted } else { outcome_word(&made, &RoleStep::Create) };
                self.recorder.record_done(item, what, None);
                return Ok(());
            }
            if taken && found.is_none() {
                let state = "until IAM shows the role, whose name it reports as taken (EntityAlreadyExists)";
                self.pause(item, &mut wait, state).await?;
                continue;
            }
            if change.action == Action::Adopt && !adopted {
                self.recorder.record_adoption(item, &change);
                adopted = true;
            }
            let Some(step) = steps.into_iter().find(|step| !made.contains(step)) else {
                // All calls were made, but the account does not show the changes yet.
                self.pause(item, &mut wait, "until IAM shows the changes").await?;
                continue;
            };
            if let (RoleStep::Policy, false, Some(policy)) =
                (&step, asked, found.as_ref().and_then(|found| found.policy.as_ref()))
            {
                // After the first read, another version may have been started with this role.
                asked = true;
                if !self.look.runs(self.desired, self.choices).await?.concurrent.is_empty() {
                    wanted.policy = policy::union(&wanted.policy, policy);
                    continue;
                }
            }
            self.recorder
                .record_action(item, if step == RoleStep::Create { Verb::Create } else { Verb::Update });
            match self.role_step(&wanted, &step).await {
                Ok(()) => {
                    self.wrote_iam.set(true);
                    made.push(step);
                }
                Err(fault) if fault.class == Class::Exists => {
                    made.push(step);
                    taken = true;
                }
                // A caller that may only write to roles with the job's tag may do so once IAM sees the new
                // tag.
                Err(fault)
                    if fault.class == Class::Denied && is_tagged(&made) && !late.is_over(self.look.clock) =>
                {
                    self.recorder.report_wait(
                        item,
                        "until IAM sees the role's tags",
                        late.seconds(self.look.clock),
                    );
                    late.pause_short(self.look.clock, &self.look.patience).await;
                }
                Err(fault) => self.pause_for(item, &mut wait, fault).await?,
            }
        }
    }

    async fn role_step(&self, wanted: &WantedRole, step: &RoleStep) -> Answer<()> {
        let name = wanted.create.role_name.as_str();
        let look = &self.look;
        match step {
            RoleStep::Create => look.ask(async |cloud| cloud.create_role(&wanted.create).await).await,
            RoleStep::Tag(tags) => look.ask(async |cloud| cloud.tag_role(name, tags).await).await,
            RoleStep::Trust => {
                let trust = wanted.create.assume_role_policy_document.as_str();
                look.ask(async |cloud| cloud.update_trust(name, trust).await).await
            }
            RoleStep::Policy => {
                look.ask(async |cloud| cloud.put_role_policy(name, POLICY_NAME, &wanted.policy).await).await
            }
        }
    }
}

/// Returns true if this run has tagged the role.
fn is_tagged(made: &[RoleStep]) -> bool {
    made.iter().any(|step| matches!(step, RoleStep::Create | RoleStep::Tag(_)))
}
