//! S3 URIs as rules read them: bucket and key.

use crate::ir::plan::DIGEST_MARK;

/// A bucket and a key, borrowed from `s3://bucket/key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uri<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// What follows the bucket's `/`; empty for the whole bucket.
    pub key: &'a str,
}

/// Takes a URI apart; `None` if it does not begin with `s3://`.
pub(super) fn parse(uri: &str) -> Option<Uri<'_>> {
    let rest = uri.strip_prefix("s3://")?;
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    Some(Uri { bucket, key })
}

/// A bound text as messages show it: what stands for the digest is written as the placeholder again.
pub(super) fn shown(text: &str) -> String {
    text.replace(DIGEST_MARK, "{{ job.digest }}")
}

/// The region that a bucket's name says, for the buckets of the SageMaker SDK: `sagemaker-us-east-1-111122223333`.
pub(super) fn region_in_name(bucket: &str) -> Option<&str> {
    let (region, account) = bucket.strip_prefix("sagemaker-")?.rsplit_once('-')?;
    (account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit())).then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        assert_eq!(parse("s3://b/k/x"), Some(Uri { bucket: "b", key: "k/x" }));
        assert_eq!(parse("s3://bucket"), Some(Uri { bucket: "bucket", key: "" }));
        assert_eq!(parse("https://bucket/x"), None);
    }

    #[test]
    fn the_default_bucket_says_its_region() {
        assert_eq!(region_in_name("sagemaker-us-east-1-111122223333"), Some("us-east-1"));
        assert_eq!(region_in_name("sagemaker-team-data"), None);
    }
}
