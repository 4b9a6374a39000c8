//! The AWS account ID.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Field;

declare_code!(T0254, "invalid-account-id", Error, "not an AWS account ID");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0254];

/// Checks the ID of the account, and those that own buckets.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    check(&job.account, job.span, problems);
    for bucket in &job.buckets {
        check(&bucket.owner, bucket.span, problems);
    }
}

/// Checks that an account ID has exactly 12 digits.
fn check(field: &Field<String>, fallback: Span, problems: &mut Problems) {
    let Some(account) = field.val() else { return };
    let digits: String = account.value.chars().filter(char::is_ascii_digit).collect();
    if account.value.len() == 12 && digits.len() == 12 {
        return;
    }
    let span = account.span_or(fallback);
    let diagnostic = Diagnostic::new(
        &T0254,
        span,
        match digits.len() {
            12 => format!(
                "`{}` is not an AWS account ID: expected 12 digits and no other characters",
                account.value
            ),
            other => {
                format!("`{}` is not an AWS account ID: expected 12 digits, found {other}", account.value)
            }
        },
    );
    problems.push(if digits.len() == 12 {
        diagnostic.help(format!("write `\"{digits}\"`")).fix(span, format!("\"{digits}\""))
    } else {
        diagnostic
    });
}
