//! Checks `${…}` in S3 URIs and ARNs: only `${account}` is substituted, and only in bucket names and as the
//! account of an ARN.

use super::values::{PlanValues, ValueEntry};
use super::{find_closing_braces, shorten, span_of_piece, visit_slots};
use std::collections::BTreeSet;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::address::{self, ACCOUNT_MARK};
use trainc_ir::{Field, Plan};

declare_code!(T0272, "unsupported-substitution", Error, "`${…}` where no substitution is supported");

declare_code!(T0730, "literal-substitution", Warning, "`${account}` in a text that is sent as written");

/// Marks that trainc writes into its output for values that only the account has.
const OUTPUT_MARKS: [&str; 2] = ["role_arn", "fsx."];

/// Checks every URI and ARN as written, before placeholders are replaced: `${…}` in a replacement is ordinary
/// text.
pub(super) fn check(plan: &mut Plan, sources: &SourceMap, problems: &mut Problems) {
    let mut found: Vec<(Span, String, Unsupported)> = Vec::new();
    let mut addresses: BTreeSet<Span> = BTreeSet::new();
    address::for_each_address(&mut plan.job, &mut |field| {
        let Some((span, text)) = field.val().and_then(|val| Some((val.origin.span()?, &val.value))) else {
            return;
        };
        addresses.insert(span);
        let unsupported = unsupported_marks(text);
        if !unsupported.is_empty() {
            found.extend(unsupported.into_iter().map(|(mark, why)| (span, mark, why)));
            *field = Field::Bad;
        }
    });
    let account = plan.job.account.value().cloned();
    visit_slots(plan, &mut |slot| {
        let Some((text, span)) = slot.text().zip(slot.span()) else { return };
        if !addresses.contains(&span) {
            problems.extend(literal_marks(text, span, account.as_deref(), sources));
        }
    });
    if found.is_empty() {
        return;
    }
    let values = PlanValues::new(plan);
    let account = account.as_deref();
    for (span, mark, unsupported) in found {
        let at = span_of_piece(sources, span, &mark);
        problems.push(unsupported.diagnostic(at, &mark, account, &values));
    }
}

/// Warns about the marks of trainc's output in a text that is no address: they are sent as they are.
fn literal_marks(written: &str, span: Span, account: Option<&str>, sources: &SourceMap) -> Problems {
    let mut problems = Problems::default();
    let text = mask_placeholders(written);
    let mut marks: Vec<&str> = Vec::new();
    for (at, _) in text.match_indices("${") {
        let rest = text.get(at..).unwrap_or_default();
        let Some(mark) = rest.find('}').and_then(|end| rest.get(..=end)) else { continue };
        let name = mark.trim_start_matches("${").trim_end_matches('}');
        let is_mark = mark == ACCOUNT_MARK || OUTPUT_MARKS.iter().any(|own| name.starts_with(own));
        if !is_mark || marks.contains(&mark) {
            continue;
        }
        marks.push(mark);
        let literal = format!("`{{{{ '${{' }}}}{name}}}`");
        let diagnostic = Diagnostic::new(
            &T0730,
            span_of_piece(sources, span, mark),
            format!("`{mark}` is sent as written"),
        );
        let (value, note) = match account.filter(|_| mark == ACCOUNT_MARK) {
            Some(account) => (format!("`{account}`"), ADDRESSES_ONLY),
            None if mark == ACCOUNT_MARK => ("the 12-digit account ID".to_owned(), ADDRESSES_ONLY),
            None => ("the value".to_owned(), OUTPUT_ONLY),
        };
        problems.push(
            diagnostic.help(format!("write {value}, or {literal} if the program needs the mark")).note(note),
        );
    }
    problems
}

/// Note on the account's mark in other texts than addresses.
const ADDRESSES_ONLY: &str =
    "trainc fills in `${account}` in addresses only: in a bucket name, or as the account of an ARN";

/// Note on a mark of the output in a manifest.
const OUTPUT_ONLY: &str = "trainc writes this mark into its output for values that only the account has; \
    manifests cannot use it";

/// Reason why a mark is not substituted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsupported {
    /// `${` without `}`.
    Unclosed,
    /// `${account}` in a part of the address that the user names.
    Position,
    /// An unknown name.
    Name,
}

/// Returns the marks of an address that are not substituted.
fn unsupported_marks(written: &str) -> Vec<(String, Unsupported)> {
    let text = mask_placeholders(written);
    let until = address::substitution_end(&text).unwrap_or(0);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("${")).map(|at| from + at) {
        let rest = text.get(at..).unwrap_or("");
        // A mark cannot contain a slash.
        let end = rest.find('}').filter(|end| !rest.get(..*end).is_some_and(|name| name.contains('/')));
        let Some(end) = end else {
            found.push(("${".to_owned(), Unsupported::Unclosed));
            from = at + 2;
            continue;
        };
        let mark = rest.get(..=end).unwrap_or("");
        from = at + end + 1;
        if mark != ACCOUNT_MARK {
            found.push((mark.to_owned(), Unsupported::Name));
        } else if at >= until {
            found.push((mark.to_owned(), Unsupported::Position));
        }
    }
    found
}

/// Replaces every byte of a placeholder by an underscore.
fn mask_placeholders(written: &str) -> String {
    let mut out = String::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let close = find_closing_braces(after).map_or(after.len(), |close| close + 2);
        out.push_str(&"_".repeat(close + 2));
        rest = after.get(close..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

impl Unsupported {
    fn diagnostic(self, at: Span, mark: &str, account: Option<&str>, values: &PlanValues) -> Diagnostic {
        let name = mark.trim_start_matches("${").trim_end_matches('}').trim();
        let diagnostic = match self {
            Self::Unclosed => return Diagnostic::new(&T0272, at, "`${` without a closing `}`").help(LITERAL),
            Self::Position => {
                let diagnostic = Diagnostic::new(
                    &T0272,
                    at,
                    format!("`{ACCOUNT_MARK}` is not supported in this part of the address"),
                );
                match account {
                    Some(account) => diagnostic.help(format!("write `{account}`")).fix(at, account),
                    None => diagnostic.help("write the 12-digit account ID"),
                }
            }
            Self::Name => {
                let diagnostic =
                    Diagnostic::new(&T0272, at, format!("unsupported substitution `{}`", shorten(mark)));
                let word = name.rsplit("::").next().unwrap_or(name).to_lowercase().replace('-', "_");
                let plan_path = values
                    .entries
                    .keys()
                    .find(|path| **path == name || path.rsplit('.').next().is_some_and(|last| last == word));
                if OUTPUT_MARKS.iter().any(|own| name.starts_with(own)) {
                    diagnostic.note(OUTPUT_ONLY)
                } else if word.contains("account") || text::nearest(&word, ["account"]).is_some() {
                    diagnostic.help(format!("did you mean `{ACCOUNT_MARK}`?")).fix(at, ACCOUNT_MARK)
                } else if let Some(path) = plan_path.filter(|path| has_value(values, path)) {
                    let placeholder = format!("{{{{ {path} }}}}");
                    diagnostic.help(format!("write `{placeholder}`")).fix(at, placeholder)
                } else {
                    diagnostic.help(LITERAL)
                }
            }
        };
        diagnostic.note(SUPPORTED)
    }
}

fn has_value(values: &PlanValues, path: &str) -> bool {
    matches!(values.entries.get(path), Some(ValueEntry::Value(_)))
}

/// Help for the literal characters.
const LITERAL: &str = "write `{{ '${' }}` for a literal `${`";

/// Note on the supported substitutions.
const SUPPORTED: &str = "the only `${…}` substitution is `${account}`, in a bucket name or as the account \
    of an ARN; for values of the plan write `{{ … }}`";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(written: &str) -> Vec<(String, Unsupported)> {
        unsupported_marks(written)
    }

    #[test]
    fn supported_marks_are_accepted() {
        for fine in [
            "s3://runs-${account}/x/",
            "s3://{{ job }}-${account}/{{ job.digest }}/",
            "s3://{{ 4 / 2 }}-${account}/x",
            "arn:aws:iam::${account}:role/x",
            "s3://runs/{{ '${' }}x}/",
            "s3://runs/$x/{y}/",
        ] {
            assert_eq!(found(fine), [], "{fine}");
        }
    }

    #[test]
    fn unsupported_marks_are_reported_with_the_reason() {
        for (written, mark, wrong) in [
            ("s3://runs-${acount}/x/", "${acount}", Unsupported::Name),
            ("s3://runs/${account}/x/", "${account}", Unsupported::Position),
            ("arn:aws:iam::${account}:role/${role_arn}", "${role_arn}", Unsupported::Name),
            ("arn:aws:iam::111122223333:role/${account}", "${account}", Unsupported::Position),
            ("${role_arn}", "${role_arn}", Unsupported::Name),
            ("s3://runs/${account/x}/", "${", Unsupported::Unclosed),
        ] {
            assert_eq!(found(written), [(mark.to_owned(), wrong)], "{written}");
        }
    }
}
