//! `allow "code" reason="…" until="…"`: silences a warning in the node that contains it.

use super::{Context, across_jobs, rules, superseded};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Allowable, Code, Diagnostic, Problems, Severity, find};
use trainc_ir::Allow;

declare_code!(T0240, "unknown-allow", Error, "an `allow` of a code that does not exist");
declare_code!(T0241, "unused-allow", Warning, "an `allow` that silences nothing", tags: [Dated, Unused]);
declare_code!(T0242, "expired-allow", Error, "an `allow` that has expired", tags: [Dated]);
declare_code!(T0243, "allow-on-error", Error, "an `allow` of an error");
declare_code!(T0244, "invalid-allow-date", Error, "an `allow` whose `until` is not a valid date");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0240, &T0241, &T0242, &T0243, &T0244];

/// Returns why an error can be allowed; `None` if it cannot.
fn allowable(diagnostic: &Diagnostic) -> Option<Allowable> {
    diagnostic.code.allowable.filter(|_| !diagnostic.is_certain)
}

impl Context<'_> {
    /// Returns whether the manifest allows an error, by its ID or name.
    pub(crate) fn allows_error(&self, code: &Code) -> bool {
        code.allowable.is_some()
            && self
                .plan
                .job
                .allows
                .iter()
                .filter_map(|allow| allow.code.value())
                .any(|name| code.is_called(name))
    }
}

/// Removes the warnings and notes that are silenced, and checks each `allow`.
pub(super) fn apply_allows(context: &Context, later_codes: &[&'static Code], problems: &mut Problems) {
    if context.plan.job.allows.is_empty() {
        return;
    }
    let codes = [&super::codes_of_compile(), later_codes].concat();
    let mut verdicts: Vec<Diagnostic> = Vec::new();
    for allow in &context.plan.job.allows {
        let Some(written) = allow.code.val() else {
            verdicts.extend(check_until_date(allow, None, allow.span, context.today));
            continue;
        };
        let span = written.span_or(allow.span);
        let Some(code) = find(&codes, &written.value) else {
            verdicts.push(unknown_code(&written.value, span, &codes));
            verdicts.extend(check_until_date(allow, None, span, context.today));
            continue;
        };
        match check_until_date(allow, Some(code), span, context.today) {
            Some(verdict) if verdict.code == &T0242 => {
                verdicts.push(verdict);
                continue;
            }
            Some(verdict) => verdicts.push(verdict),
            None => {}
        }
        let inside = |diagnostic: &Diagnostic| {
            let span = diagnostic.span;
            allow.scopes.iter().any(|scope| {
                span.source == scope.source && span.start >= scope.start && span.end <= scope.end
            })
        };
        let (mut silenced, mut errors) = (0, 0);
        let mut allowed = Vec::new();
        problems.retain(|diagnostic| {
            if diagnostic.code != code || !(inside(diagnostic) || covers_whole_job(context, allow)) {
                return true;
            }
            if diagnostic.severity == Severity::Error {
                let Some(why) = allowable(diagnostic) else {
                    errors += 1;
                    return true;
                };
                allowed.push(allowed_error(diagnostic, why, allow));
            }
            silenced += 1;
            false
        });
        verdicts.extend(allowed);
        if silenced > 0 {
            continue;
        }
        if across_jobs::WARNINGS.contains(&code) {
            continue;
        }
        // An error may keep the allowed warning from being reported.
        let mut others = problems.iter().filter(|problem| problem.severity == Severity::Error);
        if errors == 0 && others.any(|error| may_hide(error.code, code)) {
            continue;
        }
        verdicts.push(unused_allow(allow, code, span, errors > 0, &codes));
    }
    for verdict in verdicts {
        problems.push(verdict);
    }
}

/// Returns whether an error may keep a warning from being reported. Rules are independent of each other, but
/// a rule may report one of its codes in place of another, and an error from before the rules may remove what
/// a rule reads.
fn may_hide(error: &Code, warning: &Code) -> bool {
    !rules::is_of_rule(error) || rules::is_same_rule(error, warning) || superseded::may_hide(error, warning)
}

/// Returns an allowed error as a note, so that plan and report show what trainc did not check.
fn allowed_error(diagnostic: &Diagnostic, why: Allowable, allow: &Allow) -> Diagnostic {
    let reason = allow.reason.value().map_or("", String::as_str);
    let mut note = Diagnostic::new(diagnostic.code, diagnostic.span, diagnostic.message.clone());
    note.instance_type.clone_from(&diagnostic.instance_type);
    let what = match why {
        Allowable::AwsMayAccept => "allowed, and sent as written",
        Allowable::Prediction => "allowed against this prediction",
    };
    note.severity(Severity::Note).note(format!("{what}: {reason}")).allowed(reason)
}

fn unknown_code(written: &str, span: Span, codes: &[&'static Code]) -> Diagnostic {
    let names: Vec<&str> = codes.iter().flat_map(|code| [code.id, code.name]).collect();
    let diagnostic = Diagnostic::new(&T0240, span, format!("unknown code `{written}`"));
    match text::nearest(written, names) {
        Some(near) => diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\"")),
        None => diagnostic.help("`trainc catalog rules` lists all codes"),
    }
}

/// Returns the problem of the last day of an `allow`: it is not a date, or it is past. `code` is `None` if it
/// is unknown.
fn check_until_date(allow: &Allow, code: Option<&Code>, span: Span, today: &str) -> Option<Diagnostic> {
    let until = allow.until.val()?;
    let at = until.span_or(allow.span);
    if !is_date(&until.value) {
        let message = format!("`{}` is not a valid date", until.value);
        return Some(Diagnostic::new(&T0244, at, message).help("write `until=\"2026-12-31\"`"));
    }
    (until.value.as_str() < today).then(|| {
        let diagnostic =
            Diagnostic::new(&T0242, at, format!("this `allow` expired on {}; today is {today}", until.value));
        code.into_iter()
            .fold(diagnostic, |d, code| d.label(span, format!("{} is reported again", code.id)))
            .help("fix the cause and remove the `allow`, or give it a new date and a reason")
    })
}

/// Returns the problem of an `allow` that silenced nothing: its code is an error here, or is not reported.
fn unused_allow(allow: &Allow, code: &Code, span: Span, is_error: bool, codes: &[&Code]) -> Diagnostic {
    let named = |why: Allowable| {
        let mut ids: Vec<&str> =
            codes.iter().filter(|code| code.allowable == Some(why)).map(|code| code.id).collect();
        ids.sort_unstable();
        text::list(&ids, "and")
    };
    if is_error {
        let diagnostic = Diagnostic::new(
            &T0243,
            span,
            format!("{} `{}` is an error here, which no `allow` accepts", code.id, code.name),
        );
        let diagnostic = match code.allowable {
            Some(_) => diagnostic.note(format!("this {} is certain: no `allow` accepts it", code.id)),
            None => diagnostic,
        };
        diagnostic
            .note(format!(
                "an `allow` accepts warnings, notes, the errors {}, which keep trainc from sending \
                what AWS may accept, and the predictions {}",
                named(Allowable::AwsMayAccept),
                named(Allowable::Prediction)
            ))
            .help(format!("fix it (`trainc explain {}`) and remove the `allow`", code.id))
    } else {
        let diagnostic = Diagnostic::new(
            &T0241,
            allow.span,
            format!("this `allow` silences nothing: {} `{}` is not reported here", code.id, code.name),
        )
        .remove_it();
        if code.severity == Severity::Error && code.allowable.is_none() {
            diagnostic.note(format!("{} is an error, and errors cannot be allowed", code.id))
        } else {
            diagnostic
        }
    }
}

/// Returns whether an `allow` is in the job itself: then it covers the whole job, including its layers.
fn covers_whole_job(context: &Context, allow: &Allow) -> bool {
    let job = context.plan.job.span;
    allow
        .scopes
        .iter()
        .any(|scope| scope.source == job.source && scope.start <= job.start && scope.end >= job.end)
}

/// Returns whether the text is a calendar date, e.g. 2026-12-31.
pub fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let number = |part: &str, digits: usize| {
        (part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<u32>().ok())
            .flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

#[cfg(test)]
mod tests {
    use super::is_date;

    #[test]
    fn dates() {
        assert!(is_date("2026-12-31"));
        assert!(is_date("2028-02-29"));
        assert!(!is_date("2026-02-29"));
        assert!(!is_date("2026-1-1"));
        assert!(!is_date("soon"));
    }
}
