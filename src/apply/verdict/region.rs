//! A call that S3 answers from another region.

use super::words;
use crate::apply::fault::Fault;
use crate::apply::preflight::T0629;
use crate::diag::Diagnostic;
use crate::source::Span;

/// A bucket of another region than the job's; `what` says whose bucket, and ends with a space.
pub(super) fn elsewhere(fault: &Fault, what: &str, span: Span) -> Diagnostic {
    let there = fault.region.as_deref().unwrap_or("another region");
    Diagnostic::new(
        &T0629,
        span,
        format!("{what}the bucket is in {there}, and {} was asked in the job's region", fault.call.words()),
    )
    .help("name a bucket of the job's region: `upload=\"s3://…\"` in `program`")
    .note(words(fault))
    .fact("region", there)
}
