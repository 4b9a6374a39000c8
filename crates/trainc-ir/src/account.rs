//! What an account knows about a plan.

use super::plan::Plan;
use std::collections::BTreeMap;
use trainc_language::Field;
use trainc_language::address::for_each_address;

/// Facts of an account about a plan. They affect neither the job nor its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountFacts {
    /// The account ID.
    pub account: Option<String>,
    /// The ARN of the role that trainc created.
    pub role_arn: Option<String>,
    /// ID and mount name of each file system that trainc created, by its name in the manifest.
    pub file_systems: BTreeMap<String, (String, Option<String>)>,
}

impl Plan {
    /// Fills the holes of all addresses with an account ID.
    #[must_use]
    pub fn with_account(mut self, account: &str) -> Self {
        for_each_address(&mut self.job, &mut |field| {
            if let Some(address) = field.value_mut() {
                address.fill(account);
            }
        });
        self.account_facts.account = Some(account.to_owned());
        self
    }

    /// Applies [`with_account`](Self::with_account) with the account of the manifest, if it has one.
    #[must_use]
    pub fn with_manifest_account(self) -> Self {
        match self.job.account.value().cloned() {
            Some(account) => self.with_account(&account),
            None => self,
        }
    }

    /// Returns the account ID, if known.
    pub fn account(&self) -> Option<&str> {
        self.account_facts.account.as_deref().or_else(|| self.job.account.value().map(String::as_str))
    }

    /// Returns the plan with a mark for everything that only an account knows: its ID in addresses, its role
    /// and its file systems.
    #[must_use]
    pub fn with_marks(&self) -> Self {
        let mut plan = self.clone();
        plan.account_facts = AccountFacts::default();
        plan.job.account = Field::Absent;
        for_each_address(&mut plan.job, &mut |field| {
            if let Some(address) = field.value_mut() {
                address.empty();
            }
        });
        plan
    }
}
