//! Placeholders in offline output and the account's values for them, for `emit --resolve`.

use super::cloud::{Answer, Clock, Observe};
use super::desired::Desired;
use super::file_systems::find_for_storage;
use super::look::Look;
use super::patience::none_if_not_found;
use crate::file_systems;
use crate::ownership;
use trainc_emit::{ROLE_ARN_MARK, storage_marks};
use trainc_ir::AccountFacts;

/// The placeholders of a plan, resolved or unresolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placeholders {
    /// Values from the account.
    pub account_facts: AccountFacts,
    /// Unresolved placeholders, each with the reason.
    pub unresolved: Vec<(String, String)>,
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Resolves the placeholders of a plan from existing resources of the job. Those of resources that apply
    /// would create, or that are not the job's, stay unresolved.
    pub async fn placeholders(&self, desired: &Desired) -> Answer<Placeholders> {
        let mut out = Placeholders::default();
        if let Some(wanted) = &desired.role {
            let name = wanted.create.role_name.as_str();
            let found = none_if_not_found(self.ask(async |cloud| cloud.role(name).await).await)?;
            let why = match found {
                None => format!("role `{name}` does not exist yet; `apply` creates it"),
                Some(role) if !ownership::is_ours(&role.tags, &desired.job) => {
                    format!("the role `{name}` belongs to {}", ownership::owner(&role.tags))
                }
                Some(role) => {
                    out.account_facts.role_arn = Some(role.arn);
                    String::new()
                }
            };
            if out.account_facts.role_arn.is_none() {
                out.unresolved.push((ROLE_ARN_MARK.to_owned(), why));
            }
        }
        if desired.file_systems.is_empty() {
            return Ok(out);
        }
        let all = self.ask(async |cloud| cloud.file_systems().await).await?;
        for wanted in &desired.file_systems {
            let (id_mark, mount_mark) = storage_marks(&wanted.name);
            let ours = find_for_storage(&all, desired, wanted);
            let Some(system) = file_systems::oldest_live(&ours) else {
                let why = format!("file system `{}` does not exist yet; `apply` creates it", wanted.name);
                out.unresolved.push((id_mark, why.clone()));
                out.unresolved.push((mount_mark, why));
                continue;
            };
            if system.mount.is_none() {
                let why = format!("{} is {}, and has no mount name yet", system.id, system.lifecycle);
                out.unresolved.push((mount_mark, why));
            }
            out.account_facts
                .file_systems
                .insert(wanted.name.clone(), (system.id.clone(), system.mount.clone()));
        }
        Ok(out)
    }
}
