//! Facts of an account and their substitution into a plan. Marks are replaced in addresses only, since other texts of the
//! user may contain the same characters.

use super::job::Job;
use super::origin::Field;
use super::plan::Plan;
use super::s3;
use std::collections::BTreeMap;
use trainc_language::{NodeType, Slot};

/// The mark for the account ID where it is unknown: in offline output and in the addresses of a manifest.
pub const ACCOUNT_MARK: &str = "${account}";

/// Facts of an account about a plan. They affect neither the job nor its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountFacts {
    /// The account ID.
    pub account: Option<String>,
    /// The ARN of the role that trainc created.
    pub role_arn: Option<String>,
    /// ID and mount name of each file system that trainc created, by its name in the manifest.
    pub file_systems: BTreeMap<String, (String, Option<String>)>,
    /// Beginnings of addresses with the account's ID in place of its mark, each with the text as written.
    pub filled: BTreeMap<String, String>,
}

impl Plan {
    /// Replaces `${account}` by the account ID in bucket names and as the account of ARNs. Neither can contain these
    /// characters literally.
    #[must_use]
    pub fn with_account(mut self, account: &str) -> Self {
        let mut filled = BTreeMap::new();
        for_each_address(&mut self.job, &mut |field| {
            if let Some(text) = field.value_mut() {
                fill_account(text, account, &mut filled);
            }
        });
        self.account_facts.filled.extend(filled);
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

    /// Returns the plan with a mark for everything that only an account knows: its ID in the addresses that were written with
    /// `${account}`, and its role and file systems.
    #[must_use]
    pub fn with_marks(&self) -> Self {
        let mut plan = self.clone();
        let facts = std::mem::take(&mut plan.account_facts);
        plan.job.account = Field::Absent;
        for_each_address(&mut plan.job, &mut |field| {
            if let Some(text) = field.value_mut() {
                restore_mark(text, &facts.filled);
            }
        });
        plan
    }
}

/// Returns the end of the part of an address in which the account is substituted; `None` for other texts.
pub fn substitution_end(text: &str) -> Option<usize> {
    match s3::parse(text) {
        // The scheme and the bucket, or the host of a URL.
        Some(_) => {
            let start = text.find("://").map_or(0, |at| at + 3);
            Some(text.get(start..).and_then(|rest| rest.find('/')).map_or(text.len(), |at| start + at))
        }
        // `arn:partition:service:region:account:resource`: the user chooses the name of the resource.
        None if text.starts_with("arn:") => {
            Some(text.match_indices(':').nth(4).map_or(text.len(), |(at, _)| at))
        }
        None => None,
    }
}

/// Replaces `${account}` in a resource name or address, as [`Plan::with_account`] does.
pub fn substitute_account(name: &str, account: &str) -> String {
    let end = substitution_end(name).unwrap_or(name.len());
    let (head, tail) = name.split_at_checked(end).unwrap_or((name, ""));
    head.replace(ACCOUNT_MARK, account) + tail
}

fn fill_account(text: &mut String, account: &str, filled: &mut BTreeMap<String, String>) {
    let Some(head) = substitution_end(text).and_then(|end| text.get(..end)) else { return };
    if !head.contains(ACCOUNT_MARK) {
        return;
    }
    filled.insert(head.replace(ACCOUNT_MARK, account), head.to_owned());
    *text = substitute_account(text, account);
}

/// Undoes [`fill_account`].
fn restore_mark(text: &mut String, filled: &BTreeMap<String, String>) {
    let Some((head, tail)) = substitution_end(text).and_then(|end| text.split_at_checked(end)) else {
        return;
    };
    if let Some(written) = filled.get(head) {
        *text = format!("{written}{tail}");
    }
}

/// Passes every field that is an S3 URI or an ARN to a function.
pub fn for_each_address(job: &mut Job, with: &mut dyn FnMut(&mut Field<String>)) {
    job.visit_texts(&mut |declared, slot| {
        if let Slot::Text(field) = slot
            && declared.is_address
        {
            with(field);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_substituted_alike() {
        assert_eq!(substitute_account("sagemaker-us-west-2-${account}", "1"), "sagemaker-us-west-2-1");
        assert_eq!(substitute_account("s3://a-${account}/${account}/x", "1"), "s3://a-1/${account}/x");
    }

    #[test]
    fn only_buckets_and_accounts_of_arns_are_substituted() {
        for (written, whole) in [
            ("s3://runs-${account}/${account}/x", "s3://runs-111122223333/${account}/x"),
            ("s3://runs-${account}", "s3://runs-111122223333"),
            ("s3://runs/${account}/", "s3://runs/${account}/"),
            (
                "https://runs-${account}.s3.us-west-2.amazonaws.com/k",
                "https://runs-111122223333.s3.us-west-2.amazonaws.com/k",
            ),
            ("arn:aws:iam::${account}:role/x", "arn:aws:iam::111122223333:role/x"),
            ("arn:aws:iam::111122223333:role/${account}", "arn:aws:iam::111122223333:role/${account}"),
            ("${account}", "${account}"),
        ] {
            let mut text = written.to_owned();
            let mut filled = BTreeMap::new();
            fill_account(&mut text, "111122223333", &mut filled);
            assert_eq!(text, whole);
            assert_eq!(filled.is_empty(), written == whole);
        }
    }
}
