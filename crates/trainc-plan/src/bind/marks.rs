//! `${account}` in addresses: where it is filled in, and what else stands in its form and would stay as it is written.

use super::table::{Entry, Table};
use super::{brief, closing, inside};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::known::{self, ACCOUNT_MARK};
use trainc_ir::{Field, Plan};

declare_code!(T0272, "unsupported-substitution", Error, "`${…}` where no substitution is supported");

/// Marks that trainc writes into what it emits, where only the account knows the value.
const OF_TRAINC: [&str; 2] = ["role_arn", "fsx."];

/// Looks at every address as it is written, before placeholders are replaced: what one of them gives is text.
pub(super) fn judge(plan: &mut Plan, sources: &SourceMap, problems: &mut Problems) {
    let mut found: Vec<(Span, String, Wrong)> = Vec::new();
    known::addresses(&mut plan.job, &mut |field| {
        let Some((span, text)) = field.val().and_then(|val| Some((val.origin.span()?, &val.value))) else {
            return;
        };
        let wrong = marks(text);
        if !wrong.is_empty() {
            found.extend(wrong.into_iter().map(|(mark, wrong)| (span, mark, wrong)));
            *field = Field::Bad;
        }
    });
    if found.is_empty() {
        return;
    }
    let table = Table::of(plan);
    let account = plan.job.account.value().map(String::as_str);
    for (span, mark, wrong) in found {
        let at = inside(sources, span, &mark);
        problems.push(wrong.diagnostic(at, &mark, account, &table));
    }
}

/// Why a mark is not filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// `${` without `}`.
    Open,
    /// The account, in a part of the address that is a name of the user's.
    Elsewhere,
    /// No mark that there is.
    Unknown,
}

/// The marks of an address that stay as they are written.
fn marks(written: &str) -> Vec<(String, Wrong)> {
    let text = outside(written);
    let until = known::filled_until(&text).unwrap_or(0);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("${")).map(|at| from + at) {
        let rest = text.get(at..).unwrap_or("");
        // A name ends where the part of the address does.
        let end = rest.find('}').filter(|end| !rest.get(..*end).is_some_and(|name| name.contains('/')));
        let Some(end) = end else {
            found.push(("${".to_owned(), Wrong::Open));
            from = at + 2;
            continue;
        };
        let mark = rest.get(..=end).unwrap_or("");
        from = at + end + 1;
        if mark != ACCOUNT_MARK {
            found.push((mark.to_owned(), Wrong::Unknown));
        } else if at >= until {
            found.push((mark.to_owned(), Wrong::Elsewhere));
        }
    }
    found
}

/// The text with its placeholders covered, byte for byte.
fn outside(written: &str) -> String {
    let mut out = String::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let close = closing(after).map_or(after.len(), |close| close + 2);
        out.push_str(&"_".repeat(close + 2));
        rest = after.get(close..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

impl Wrong {
    fn diagnostic(self, at: Span, mark: &str, account: Option<&str>, table: &Table) -> Diagnostic {
        let name = mark.trim_start_matches("${").trim_end_matches('}').trim();
        let diagnostic = match self {
            Self::Open => return Diagnostic::new(&T0272, at, "`${` without its `}`").help(LITERAL),
            Self::Elsewhere => {
                let diagnostic = Diagnostic::new(
                    &T0272,
                    at,
                    format!("`{ACCOUNT_MARK}` is not filled in here, and would stay as it is written"),
                );
                match account {
                    Some(account) => diagnostic.help(format!("write `{account}`")).fix(at, account),
                    None => diagnostic.help("write the account's twelve digits"),
                }
            }
            Self::Unknown => {
                let diagnostic =
                    Diagnostic::new(&T0272, at, format!("nothing is filled in for `{}`", brief(mark)));
                let word = name.rsplit("::").next().unwrap_or(name).to_lowercase().replace('-', "_");
                let of_plan = table
                    .entries
                    .keys()
                    .find(|path| **path == name || path.rsplit('.').next().is_some_and(|last| last == word));
                if OF_TRAINC.iter().any(|own| name.starts_with(own)) {
                    diagnostic.note(
                        "trainc writes it itself into what it emits, where only the account knows the value",
                    )
                } else if word.contains("account") || text::nearest(&word, ["account"]).is_some() {
                    diagnostic.help(format!("did you mean `{ACCOUNT_MARK}`?")).fix(at, ACCOUNT_MARK)
                } else if let Some(path) = of_plan.filter(|path| is_value(table, path)) {
                    let placeholder = format!("{{{{ {path} }}}}");
                    diagnostic.help(format!("write `{placeholder}`")).fix(at, placeholder)
                } else {
                    diagnostic.help(LITERAL)
                }
            }
        };
        diagnostic.note(KNOWN)
    }
}

fn is_value(table: &Table, path: &str) -> bool {
    matches!(table.entries.get(path), Some(Entry::Value(_)))
}

/// How the characters themselves are written.
const LITERAL: &str = "write `{{ '${' }}` for the two characters themselves";

/// All that there is.
const KNOWN: &str = "in addresses `${account}` alone is filled in, in the name of a bucket and as the account of an ARN; \
                     values of the plan are written `{{ … }}`";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(written: &str) -> Vec<(String, Wrong)> {
        marks(written)
    }

    #[test]
    fn what_is_filled_in_is_no_problem() {
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
    fn what_is_not_is_named_with_its_reason() {
        for (written, mark, wrong) in [
            ("s3://runs-${acount}/x/", "${acount}", Wrong::Unknown),
            ("s3://runs/${account}/x/", "${account}", Wrong::Elsewhere),
            ("arn:aws:iam::${account}:role/${role_arn}", "${role_arn}", Wrong::Unknown),
            ("arn:aws:iam::111122223333:role/${account}", "${account}", Wrong::Elsewhere),
            ("${role_arn}", "${role_arn}", Wrong::Unknown),
            ("s3://runs/${account/x}/", "${", Wrong::Open),
        ] {
            assert_eq!(found(written), [(mark.to_owned(), wrong)], "{written}");
        }
    }
}
