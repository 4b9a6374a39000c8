//! S3 URIs of a job.

use trainc_diag::source::Span;
use trainc_ir::plan::DIGEST_MARK;
pub(crate) use trainc_ir::s3::parse;
use trainc_ir::{Field, Plan};

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
pub(crate) fn uris(plan: &Plan) -> Vec<(&Field<String>, Span, String)> {
    let job = &plan.job;
    let mut out: Vec<(&Field<String>, Span, String)> = Vec::new();
    if let Some(program) = &job.program {
        out.push((&program.s3, program.span, "program s3=".to_owned()));
        out.push((&program.upload, program.span, "program upload=".to_owned()));
    }
    for storage in &job.storage {
        out.extend(storage.imports.iter().map(|link| (&link.s3, link.span, "import".to_owned())));
        out.extend(storage.exports.iter().map(|link| (&link.s3, link.span, "export".to_owned())));
    }
    for channel in &job.channels {
        out.push((&channel.s3, channel.span, "channel s3=".to_owned()));
        out.push((&channel.manifest, channel.span, "channel manifest=".to_owned()));
        out.push((&channel.converse, channel.span, "channel converse=".to_owned()));
        out.push((&channel.augmented_manifest, channel.span, "channel augmented-manifest=".to_owned()));
    }
    if let Some(node) = &job.checkpoint {
        out.push((&node.s3, node.span, "checkpoint s3=".to_owned()));
    }
    if let Some(node) = &job.output {
        out.push((&node.s3, node.span, "output s3=".to_owned()));
    }
    if let Some(node) = &job.debugger {
        out.push((&node.s3, node.span, "debugger s3=".to_owned()));
    }
    if let Some(node) = &job.profiler {
        out.push((&node.s3, node.span, "profiler s3=".to_owned()));
    }
    if let Some(node) = &job.tensorboard {
        out.push((&node.s3, node.span, "tensorboard s3=".to_owned()));
    }
    for read in job.role.iter().flat_map(|role| &role.reads) {
        out.push((&read.s3, read.span, ROLE_READ.to_owned()));
    }
    out
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
