//! Addresses, whose holes an account fills.

use super::node::{NodeType as _, Slot};
use super::nodes::Job;
use super::origin::Field;
use super::s3;
use std::fmt;
use std::ops::Deref;

/// The mark for the account ID where it is unknown: in offline output and in the addresses of a manifest.
pub const ACCOUNT_MARK: &str = "${account}";

/// An S3 URI, an ARN, or a name of such a resource, with holes where the account's ID belongs.
///
/// A manifest writes a hole as `${account}`: in the bucket of a URI, or as the account of an ARN. Neither can
/// contain these characters literally; everywhere else they are text. The address reads as the text with the
/// account's ID if it was filled, otherwise with the marks.
#[derive(Clone, Debug, Default)]
pub struct Address {
    /// The texts around the holes: one more than there are holes.
    around: Vec<String>,
    /// The text with what is known.
    text: String,
}

impl Address {
    /// Splits a text at its holes.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let (head, tail) = split_substitution(&text);
        let mut around: Vec<String> = head.split(ACCOUNT_MARK).map(str::to_owned).collect();
        if let Some(last) = around.last_mut() {
            last.push_str(tail);
        }
        Self { around, text }
    }

    /// Returns the text, with the account's ID if it was filled.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Fills the holes with an account's ID.
    pub fn fill(&mut self, account: &str) {
        self.text = self.around.join(account);
    }

    /// Empties the holes.
    pub fn empty(&mut self) {
        self.text = self.around.join(ACCOUNT_MARK);
    }
}

impl Deref for Address {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Address {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Addresses are equal if they read alike.
impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Address {}

impl Field<Address> {
    /// Returns the text of the address, if there is one.
    pub fn text(&self) -> Option<&str> {
        self.value().map(Address::as_str)
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

/// Splits an address after the part in which the account is substituted.
fn split_substitution(text: &str) -> (&str, &str) {
    let end = substitution_end(text).unwrap_or_default();
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Replaces `${account}` in a resource name or address, as [`Address::fill`] does.
pub fn substitute_account(name: &str, account: &str) -> String {
    let end = substitution_end(name).unwrap_or(name.len());
    let (head, tail) = name.split_at_checked(end).unwrap_or((name, ""));
    head.replace(ACCOUNT_MARK, account) + tail
}

/// Passes every address of a job to a function.
pub fn for_each_address(job: &mut Job, with: &mut dyn FnMut(&mut Field<Address>)) {
    job.visit_texts(&mut |_, slot| {
        if let Slot::Address(field) = slot {
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
            let mut address = Address::new(written);
            assert_eq!(address.as_str(), written);
            address.fill("111122223333");
            assert_eq!(address.as_str(), whole);
            address.empty();
            assert_eq!(address.as_str(), written);
        }
    }
}
