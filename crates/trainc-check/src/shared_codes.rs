//! Codes that several rules report. Each is listed in the `CODES` of one of them.

use crate::queries::torchrun::PytorchVersion;
use trainc_diag::Diagnostic;
use trainc_diag::declare_code;
use trainc_ir::Plan;

declare_code!(T0251, "conflicting-values", Error, "two values that are mutually exclusive");
declare_code!(
    T0351,
    "short-version",
    Error,
    "a short version where the SDK requires the full version",
    ends: Speed
);
declare_code!(
    T0410,
    "environment-limit",
    Error,
    "an environment variable that exceeds the limits of a training job"
);
declare_code!(
    T0431,
    "instance-groups",
    Error,
    "instance groups that the service does not accept",
    ends: Speed
);
declare_code!(T0437, "malformed-arn", Error, "a malformed ARN, key ID or alias");

/// Returns the problem of an abbreviated version where the SDK requires the full version.
pub(crate) fn short_version(plan: &Plan, version: &PytorchVersion, what: &str) -> Diagnostic {
    let diagnostic = Diagnostic::new(
        &T0351,
        version.span,
        format!("{what} requires the full version {}, not {}", version.full, version.written),
    )
    .note("the SageMaker SDK compares the version literally with its list")
    .fact("full", version.full);
    let image = plan.image.as_ref();
    if let Some(transformers) = image.and_then(|image| image.transformers.as_deref()) {
        // Both versions: the SDK also rejects an abbreviated one together with a full one.
        return diagnostic.write(format!("transformers=\"{transformers}\" pytorch=\"{}\"", version.full));
    }
    diagnostic
        .help(format!("write `version=\"{}\"`", version.full))
        .fix(version.span, format!("\"{}\"", version.full))
}
