//! The region of a job: for its suggested commands, and for a bucket in another region.

use super::{Verdict, service_message};
use crate::fault::Fault;
use trainc_diag::Diagnostic;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_ir::Plan;

declare_code!(
    T0629,
    "bucket-region-mismatch",
    Error,
    "a bucket in another region than the job",
    found_in: Account
);

/// Returns the diagnostic for a bucket in another region; `what` names its subject, followed by a space.
pub(super) fn bucket_in_other_region(fault: &Fault, what: &str, span: Span) -> Diagnostic {
    let there = fault.region.as_deref().unwrap_or("another region");
    Diagnostic::new(
        &T0629,
        span,
        format!("{what}the bucket is in {there}, but {} was sent to the job's region", fault.call.describe()),
    )
    .help("name a bucket in the job's region: `upload=\"s3://…\"` in `program`")
    .note(service_message(fault))
    .fact("region", there)
}

/// Adds `--region` to AWS CLI commands in the help, because the CLI's default may differ from the job's
/// region.
pub(super) fn with_region_flag(plan: &Plan, mut verdict: Verdict) -> Verdict {
    const COMMAND: &str = "aws fsx ";
    let Some(region) = plan.job.region.value() else { return verdict };
    let with_region = |text: String| {
        let mut parts = text.split(COMMAND);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let verb =
                part.find(|sign: char| !(sign.is_ascii_lowercase() || sign == '-')).unwrap_or(part.len());
            let (verb, rest) = part.split_at(verb);
            out.push_str(&format!("{COMMAND}{verb} --region {region}{rest}"));
        }
        out
    };
    let help = verdict.diagnostic.help.take();
    verdict.diagnostic.help =
        help.map(|help| if help.contains("--region") { help } else { help.map_text(with_region) });
    verdict
}
