//! S3 URIs of a job.

use trainc_diag::source::Span;
use trainc_ir::plan::DIGEST_MARK;
pub(crate) use trainc_ir::s3::parse;
use trainc_ir::{Address, Field, Plan};

/// Returns a bound text as messages show it: with the placeholder of the digest.
pub(crate) fn show_digest_placeholder(text: &str) -> String {
    text.replace(DIGEST_MARK, "{{ job.digest }}")
}

/// Returns the region in the name of a SageMaker SDK bucket: `sagemaker-us-east-1-111122223333`.
pub(crate) fn region_in_name(bucket: &str) -> Option<&str> {
    let (region, account) = bucket.strip_prefix("sagemaker-")?.rsplit_once('-')?;
    (account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit())).then_some(region)
}

/// The name of the objects that a role may read; the job does not write there.
pub(crate) const ROLE_READ: &str = "role read";

/// Returns every S3 URI of the job, with the span of its node and its name in the language.
pub(crate) fn uris(plan: &Plan) -> Vec<(&Field<Address>, Span, &'static str)> {
    plan.job.location_fields().into_iter().map(|one| (one.field, one.span, one.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdk_bucket_names_contain_the_region() {
        assert_eq!(region_in_name("sagemaker-us-east-1-111122223333"), Some("us-east-1"));
        assert_eq!(region_in_name("sagemaker-team-data"), None);
    }
}
