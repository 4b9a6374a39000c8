//! The AWS account ID.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(T0254, "invalid-account-id", Error, "not an AWS account ID");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0254];

/// Checks that the account ID has exactly 12 digits.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(account) = context.plan.job.account.val() else { return };
    let digits: String = account.value.chars().filter(char::is_ascii_digit).collect();
    if account.value.len() == 12 && digits.len() == 12 {
        return;
    }
    let span = account.span_or(context.plan.job.span);
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
