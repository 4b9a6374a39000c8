//! S3 URIs as rules read and show them.

use trainc_ir::plan::DIGEST_MARK;
pub(super) use trainc_ir::s3::parse;

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
    fn the_default_bucket_says_its_region() {
        assert_eq!(region_in_name("sagemaker-us-east-1-111122223333"), Some("us-east-1"));
        assert_eq!(region_in_name("sagemaker-team-data"), None);
    }
}
