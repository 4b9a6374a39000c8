//! What only an account knows, put where the plan leaves room for it. Never by looking for a mark in a text: what a user
//! wrote for the program may say the same.

use super::job::Job;
use super::origin::Field;
use super::plan::Plan;
use super::s3;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What stands for the account, where the manifest does not say it: in offline output, and in the places of a manifest
/// that name something of the account.
pub const ACCOUNT_MARK: &str = "${account}";

/// What an account says of a plan; nothing of it shapes the job, or its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountFacts {
    /// The account.
    pub account: Option<String>,
    /// The ARN of the role that trainc made.
    pub role_arn: Option<String>,
    /// Id, and mount name, of each file system that trainc made, by its name in the manifest.
    pub file_systems: BTreeMap<String, (String, Option<String>)>,
    /// Addresses that stand filled in, and how they begin as written: the digest is of what is written.
    pub filled: Vec<(String, String)>,
}

impl Plan {
    /// The plan in an account: its number stands where the manifest says `${account}` in the name of a bucket or as
    /// the account of an ARN. Neither can have those letters itself, so that nothing else can be meant.
    #[must_use]
    pub fn in_account(mut self, account: &str) -> Self {
        let mut filled = Vec::new();
        addresses(&mut self.job, &mut |field| {
            if let Some(text) = field.value_mut() {
                fill(text, account, &mut filled);
            }
        });
        self.account_facts.filled.extend(filled);
        self.account_facts.account = Some(account.to_owned());
        self
    }

    /// The plan in the account that its manifest writes, if it writes one.
    #[must_use]
    pub fn in_own_account(self) -> Self {
        match self.job.account.value().cloned() {
            Some(account) => self.in_account(&account),
            None => self,
        }
    }

    /// The account, where the manifest or the account itself says it.
    pub fn account(&self) -> Option<&str> {
        self.account_facts.account.as_deref().or_else(|| self.job.account.value().map(String::as_str))
    }

    /// The plan without what the account said of file systems and roles.
    pub fn offline(&self) -> Cow<'_, Self> {
        if self.account_facts.file_systems.is_empty() && self.account_facts.role_arn.is_none() {
            return Cow::Borrowed(self);
        }
        let mut plan = self.clone();
        plan.account_facts.file_systems.clear();
        plan.account_facts.role_arn = None;
        Cow::Owned(plan)
    }
}

/// Where the part of an address ends in which the account is filled in; none where the text is no address.
pub fn filled_until(text: &str) -> Option<usize> {
    match s3::parse(text) {
        // The scheme and the bucket, or the host of a web address.
        Some(_) => {
            let start = text.find("://").map_or(0, |at| at + 3);
            Some(text.get(start..).and_then(|rest| rest.find('/')).map_or(text.len(), |at| start + at))
        }
        // `arn:partition:service:region:account:resource`: the resource is a name of the user's.
        None if text.starts_with("arn:") => {
            Some(text.match_indices(':').nth(4).map_or(text.len(), |(at, _)| at))
        }
        None => None,
    }
}

/// What a resource that trainc names, or an address, is called in an account: as [`Plan::in_account`] fills it in.
pub fn in_account(name: &str, account: &str) -> String {
    let end = filled_until(name).unwrap_or(name.len());
    let (head, tail) = name.split_at_checked(end).unwrap_or((name, ""));
    head.replace(ACCOUNT_MARK, account) + tail
}

fn fill(text: &mut String, account: &str, filled: &mut Vec<(String, String)>) {
    let Some(head) = filled_until(text).and_then(|end| text.get(..end)) else { return };
    if !head.contains(ACCOUNT_MARK) {
        return;
    }
    filled.push((head.replace(ACCOUNT_MARK, account), head.to_owned()));
    *text = in_account(text, account);
}

/// Shows every field that is an address of S3 or an ARN.
pub fn addresses(job: &mut Job, with: &mut dyn FnMut(&mut Field<String>)) {
    if let Some(program) = &mut job.program {
        with(&mut program.s3);
        with(&mut program.upload);
        program.secrets.iter_mut().for_each(|secret| with(&mut secret.from));
    }
    for storage in &mut job.storage {
        with(&mut storage.kms);
        for link in storage.imports.iter_mut().chain(&mut storage.exports) {
            with(&mut link.s3);
        }
    }
    for channel in &mut job.channels {
        with(&mut channel.s3);
        with(&mut channel.manifest);
        with(&mut channel.augmented_manifest);
        with(&mut channel.converse);
        with(&mut channel.kms);
    }
    if let Some(cluster) = &mut job.cluster {
        with(&mut cluster.volume_kms);
        with(&mut cluster.training_plan);
    }
    if let Some(checkpoint) = &mut job.checkpoint {
        with(&mut checkpoint.s3);
        with(&mut checkpoint.kms);
    }
    if let Some(output) = &mut job.output {
        with(&mut output.s3);
        with(&mut output.kms);
    }
    if let Some(debugger) = &mut job.debugger {
        with(&mut debugger.s3);
    }
    if let Some(profiler) = &mut job.profiler {
        with(&mut profiler.s3);
    }
    if let Some(tensorboard) = &mut job.tensorboard {
        with(&mut tensorboard.s3);
    }
    if let Some(role) = &mut job.role {
        with(&mut role.arn);
        with(&mut role.boundary);
        role.reads.iter_mut().for_each(|read| with(&mut read.s3));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_filled_in_as_its_address_is() {
        assert_eq!(in_account("sagemaker-us-west-2-${account}", "1"), "sagemaker-us-west-2-1");
        assert_eq!(in_account("s3://a-${account}/${account}/x", "1"), "s3://a-1/${account}/x");
    }

    #[test]
    fn only_buckets_and_accounts_of_arns_are_filled_in() {
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
            let mut filled = Vec::new();
            fill(&mut text, "111122223333", &mut filled);
            assert_eq!(text, whole);
            assert_eq!(filled.is_empty(), written == whole);
        }
    }
}
