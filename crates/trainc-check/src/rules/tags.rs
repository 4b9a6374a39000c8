//! Tags: reserved prefixes, and keys that differ only by case.

use crate::Context;
use std::collections::BTreeMap;
use trainc_catalog::reserved_names::{self, Kind};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(T0416, "reserved-tag", Error, "a tag key with a reserved prefix");
declare_code!(T0417, "duplicate-tag", Error, "two tag keys that differ only by case");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0416, &T0417];

/// Checks all tags of the job.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let mut seen: BTreeMap<String, (&str, trainc_diag::source::Span)> = BTreeMap::new();
    for tag in &context.plan.job.tags {
        if let Some(row) = reserved_names::get(Kind::Tag, &tag.key) {
            problems.push(
                Diagnostic::new(
                    &T0416,
                    tag.key_span,
                    format!(
                        "tag keys that start with `{}` are reserved for {}",
                        row.name.trim_end_matches('*'),
                        row.set_by
                    ),
                )
                .help("use another prefix")
                .note(format!("{} ({})", row.statement, row.provenance.source)),
            );
        }
        if let Some((first, span)) = seen.insert(tag.key.to_lowercase(), (&tag.key, tag.key_span)) {
            problems.push(
                Diagnostic::new(&T0417, tag.key_span, format!("tags `{first}` and `{}` differ only by case", tag.key))
                    .label(span, "the other one")
                    .help("keep one of them")
                    .note("the job's role gets the same tags, and IAM tag keys are case-insensitive \
                        (botocore, iam CreateRole)"),
            );
        }
    }
}
