//! The message for each mistake of syntax.
//!
//! In: a [`Fault`] and the text. Out: one [`Diagnostic`], with a fix where there is only one.

use super::characters::is_space;
use super::codes::{T0101, T0102, T0103, T0104, T0105, T0106, T0109, T0112};
use super::fault::{Fault, FaultKind};
use super::fault_fixes::{comma_separated, span_with_space, touches, value_in_parentheses};
use super::literal::{expand_suffix, leading_number, quoted};
use trainc_diag::Diagnostic;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text;

/// A fault and the text around it.
struct Place<'t> {
    fault: &'t Fault,
    text: &'t str,
    span: Span,
    /// The text at fault.
    raw: &'t str,
    /// The second place of the fault, with its text.
    other: Option<(Span, &'t str)>,
}

impl Place<'_> {
    fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&T0101, self.span, message)
    }
}

/// Returns the diagnostic of a fault.
pub(super) fn describe(source: SourceId, text: &str, fault: &Fault) -> Diagnostic {
    let place = Place {
        fault,
        text,
        span: Span::new(source, fault.start, fault.end),
        raw: text.get(fault.start..fault.end).unwrap_or(""),
        other: fault
            .other
            .map(|(start, end)| (Span::new(source, start, end), text.get(start..end).unwrap_or(""))),
    };
    match fault.kind {
        FaultKind::UnclosedString
        | FaultKind::UnopenedString
        | FaultKind::UnclosedMulti
        | FaultKind::UnclosedComment
        | FaultKind::BadEscape
        | FaultKind::MultiStart
        | FaultKind::MultiEnd
        | FaultKind::MultiIndent
        | FaultKind::RawQuote
        | FaultKind::OldRaw
        | FaultKind::HashComment
        | FaultKind::SingleQuotes
        | FaultKind::CurlyQuotes => string_diagnostic(&place),
        FaultKind::NeedsQuotes
        | FaultKind::NeedsHash
        | FaultKind::KeywordAsName
        | FaultKind::UnknownKeyword
        | FaultKind::NumberTooLarge
        | FaultKind::MissingValue
        | FaultKind::BadType
        | FaultKind::NotAName => value_diagnostic(&place),
        FaultKind::BadCharacter
        | FaultKind::StrayBackslash
        | FaultKind::Comma
        | FaultKind::CommaForSemicolon
        | FaultKind::Bracket
        | FaultKind::BracketValue
        | FaultKind::StrayEquals
        | FaultKind::DoubleEquals
        | FaultKind::NodeEquals
        | FaultKind::StrayParen
        | FaultKind::StraySemicolon
        | FaultKind::MissingSpace
        | FaultKind::SlashdashNothing => punctuation_diagnostic(&place),
        FaultKind::UnclosedBrace
        | FaultKind::SurplusBrace
        | FaultKind::MissingTerminator
        | FaultKind::BlockWithoutNode
        | FaultKind::BlockOnOwnLine
        | FaultKind::SecondBlock => block_diagnostic(&place),
    }
}

/// Describes a fault of a string or a comment.
#[expect(clippy::wildcard_enum_match_arm, reason = "`describe` lists all kinds")]
fn string_diagnostic(place: &Place) -> Diagnostic {
    let Place { fault, span, raw, .. } = *place;
    let shown = first_line_truncated(raw);
    match fault.kind {
        FaultKind::UnclosedString => unclosed_string(span, raw, place.text),
        FaultKind::UnopenedString => {
            let (value, text) = place.other.unwrap_or((span, raw));
            Diagnostic::new(&T0106, value, "the string has no opening quote".to_owned())
                .primary_label("only the closing quote is present")
                .help(format!("write `{}`", quoted(text)))
                .fix(Span { end: value.start, ..value }, "\"")
        }
        FaultKind::UnclosedMulti => Diagnostic::new(&T0106, span, "the string is never closed".to_owned())
            .primary_label("starts here and includes the rest of the file")
            .help(format!("add a line with `{}`", closing_of(raw))),
        FaultKind::UnclosedComment => Diagnostic::new(&T0112, span, "the comment is never closed".to_owned())
            .primary_label("starts here and includes the rest of the file")
            .help("add `*/` where it ends"),
        FaultKind::BadEscape => {
            let diagnostic =
                place.error(format!("invalid escape sequence `{shown}`")).primary_label("unknown escape");
            let rest = raw.strip_prefix('\\').unwrap_or("");
            if rest.starts_with('u') {
                diagnostic
                    .help("write `\\u{…}` with the one to six hexadecimal digits of a Unicode character")
            } else if rest == "/" {
                diagnostic.help("write `/`").fix(span, "/")
            } else {
                diagnostic
                    .help(format!("write `\\\\{rest}` to get `\\{rest}`"))
                    .fix(span, format!("\\\\{rest}"))
            }
        }
        FaultKind::MultiStart => place
            .error("the text of a multi-line string must start on the line after `\"\"\"`".to_owned())
            .primary_label("text follows on the same line")
            .help("add a line break after `\"\"\"`, or use single `\"` for a one-line string"),
        FaultKind::MultiEnd => place
            .error("the closing `\"\"\"` must be on its own line".to_owned())
            .primary_label("text precedes it")
            .help("add a line break before `\"\"\"`"),
        FaultKind::MultiIndent => place
            .error("the line is less indented than the closing `\"\"\"`".to_owned())
            .primary_label("starts further left")
            .help("indent the line as far as the closing `\"\"\"`")
            .note("the whitespace before the closing `\"\"\"` is removed from every line"),
        FaultKind::RawQuote => place
            .error("`#\"\"\"#` is not a valid string".to_owned())
            .primary_label("starts like a multi-line string")
            .help("write `\"\\\"\"`")
            .fix(span, "\"\\\"\""),
        FaultKind::OldRaw => {
            let rest = raw.strip_prefix('r').unwrap_or(raw);
            let new = if rest.starts_with('#') { rest.to_owned() } else { format!("#{rest}#") };
            place
                .error("unexpected `r` before a raw string".to_owned())
                .primary_label("KDL 1 syntax")
                .help(format!("write `{}`", first_line_truncated(&new)))
                .fix(span, new)
        }
        FaultKind::HashComment => place
            .error("a comment starts with `//`".to_owned())
            .primary_label("`#` starts a keyword or a raw string")
            .help("write `//`")
            .fix(span, "//"),
        FaultKind::CurlyQuotes => {
            let plain = quoted(raw.trim_matches(['“', '”', '„', '‟', '"']));
            place
                .error("strings need straight quotes, not typographic quotes".to_owned())
                .primary_label("typographic quotes")
                .help(format!("write `{plain}`"))
                .fix(span, plain)
        }
        _ => {
            let double = quoted(raw.trim_matches('\''));
            place
                .error("strings need double quotes, not single quotes".to_owned())
                .primary_label("single quotes")
                .help(format!("write `{double}`"))
                .fix(span, double)
        }
    }
}

/// Describes a fault of a keyword, a number or a value.
#[expect(clippy::wildcard_enum_match_arm, reason = "`describe` lists all kinds")]
fn value_diagnostic(place: &Place) -> Diagnostic {
    let Place { fault, span, raw, .. } = *place;
    let shown = first_line_truncated(raw);
    match fault.kind {
        FaultKind::NeedsQuotes => needs_quotes(span, raw),
        FaultKind::NeedsHash => Diagnostic::new(&T0103, span, format!("`{raw}` is written `#{raw}`"))
            .primary_label("keywords start with `#`")
            .help(format!("write `#{raw}`, or `{}` for the string", quoted(raw)))
            .fix(span, format!("#{raw}")),
        FaultKind::KeywordAsName => {
            Diagnostic::new(&T0103, span, format!("`{raw}` cannot be an unquoted name"))
                .primary_label("a keyword where a name is expected")
                .help(format!("write `{}`", quoted(raw)))
                .fix(span, quoted(raw))
        }
        FaultKind::UnknownKeyword => unknown_keyword(span, raw),
        FaultKind::NumberTooLarge => Diagnostic::new(&T0109, span, format!("number `{shown}` is too large"))
            .primary_label("out of range")
            .note("the largest integer is 2^127 - 1; the largest other number is 1.8e308"),
        FaultKind::MissingValue => {
            place.error(format!("`{shown}` has no value")).primary_label("expected a value after this")
        }
        FaultKind::BadType => {
            let what = "no type name, or no value after it";
            let one = place
                .error("`(` starts a type annotation, such as `(name)value`".to_owned())
                .primary_label(if raw.ends_with(')') { what } else { "never closed" });
            match value_in_parentheses(raw) {
                Some(value) => one.help(format!("write `{}`", first_line_truncated(&value))).fix(span, value),
                None => one.help("remove the parentheses, or quote the value"),
            }
        }
        _ => place
            .error(format!("`{shown}` is not a valid name"))
            .primary_label("expected a name")
            .help(format!("write `{}` to use it as a name", quoted(&shown))),
    }
}

/// Describes a fault of punctuation.
#[expect(clippy::wildcard_enum_match_arm, reason = "`describe` lists all kinds")]
fn punctuation_diagnostic(place: &Place) -> Diagnostic {
    let Place { fault, text, span, raw, other } = *place;
    match fault.kind {
        FaultKind::BadCharacter => {
            let code = raw.chars().next().map_or(0, u32::from);
            let diagnostic = place
                .error(format!("the character U+{code:04X} is not allowed"))
                .primary_label("invisible character");
            diagnostic.help("remove it").fix(span, "").fact("character", code)
        }
        FaultKind::StrayBackslash => place
            .error("`\\` is only valid at the end of a line or in a string".to_owned())
            .primary_label("the line continues after it")
            .help("remove it, or quote the value"),
        FaultKind::CommaForSemicolon => place
            .error("nodes on one line are separated by `;`, not by commas".to_owned())
            .primary_label("a comma")
            .help("write `;`, or start a new line")
            .fix(span, ";"),
        FaultKind::Comma => place
            .error("values are separated by spaces, not by commas".to_owned())
            .primary_label("a comma")
            .help("remove it")
            .fix(
                span,
                if text.get(fault.end..).is_some_and(|rest| rest.starts_with(is_space)) { "" } else { " " },
            ),
        FaultKind::BracketValue => {
            let one = comma_separated(raw);
            place
                .error("a property takes one value, not a list".to_owned())
                .primary_label("write several values as one comma-separated string")
                .help(format!("write `{}`", first_line_truncated(&one)))
                .fix(span, one)
        }
        FaultKind::Bracket => place
            .error(format!("`{raw}` is only valid in strings"))
            .primary_label("several values are separated by spaces, without brackets")
            .help("remove it")
            .fix(span, ""),
        FaultKind::StrayEquals => place
            .error("`=` has no name before it".to_owned())
            .primary_label("a property is `name=value`")
            .help("write the name of the property before it, or remove it"),
        FaultKind::DoubleEquals => place
            .error("a property takes one `=`".to_owned())
            .primary_label("one too many")
            .help("remove it")
            .fix(span, ""),
        FaultKind::NodeEquals => {
            let name = other.map_or("", |(_, name)| name);
            let rest = text.get(fault.end..).and_then(|rest| rest.lines().next()).unwrap_or("");
            let value = [" //", " {", ";"]
                .iter()
                .fold(rest, |rest, stop| rest.split(stop).next().unwrap_or(rest))
                .trim();
            let value = if value.is_empty() { "value" } else { value };
            place
                .error(format!("unexpected `=` before the value of node `{name}`"))
                .primary_label("only properties take `=`")
                .help(format!("write `{name} {}`", first_line_truncated(value)))
                .fix(span_with_space(text, span), if touches(text, fault) { " " } else { "" })
        }
        FaultKind::StrayParen => place
            .error("unmatched `)`".to_owned())
            .primary_label("no `(` before it")
            .help("remove it")
            .fix(span, ""),
        FaultKind::StraySemicolon => place
            .error("`;` without a node".to_owned())
            .primary_label("no node before it")
            .help("remove it")
            .fix(span, ""),
        FaultKind::MissingSpace => place
            .error("a space is missing".to_owned())
            .primary_label("not separated from the preceding text")
            .help("add a space before it")
            .fix(Span { end: span.start, ..span }, " "),
        _ => place
            .error("`/-` has nothing to comment out".to_owned())
            .primary_label("expected a node, value or block after `/-`")
            .help("remove it, or write `//` for a comment"),
    }
}

/// Describes a fault of a block or its braces.
#[expect(clippy::wildcard_enum_match_arm, reason = "`describe` lists all kinds")]
fn block_diagnostic(place: &Place) -> Diagnostic {
    let Place { fault, span, other, .. } = *place;
    match fault.kind {
        FaultKind::UnclosedBrace => unclosed_brace(span, other),
        FaultKind::SurplusBrace => {
            let diagnostic = Diagnostic::new(&T0105, span, "unmatched `}`".to_owned());
            match other {
                // The block that it would close is closed before its content.
                Some((line, _)) if line.end >= span.end => {
                    Diagnostic::new(&T0105, span, "the block ends here, before its indented lines".to_owned())
                        .primary_label("one `}` too many")
                        .help("remove it")
                        .fix(span, "")
                }
                Some((line, text)) => diagnostic
                    .primary_label("no block is open here")
                    .label(line, "its block has no `{`")
                    .help(format!("write `{} {{`", first_line_truncated(text)))
                    .fix(Span { start: line.end, ..line }, " {"),
                None => diagnostic.primary_label("no block is open here").help("remove it").fix(span, ""),
            }
        }
        FaultKind::MissingTerminator => place
            .error("a node ends with the `}` of its block".to_owned())
            .primary_label("after the closing `}`")
            .help("start a new line here, or move it before the `{`"),
        FaultKind::BlockWithoutNode => place
            .error("a block without a node".to_owned())
            .primary_label("no node before this `{`")
            .help("write the name of the node before it"),
        FaultKind::BlockOnOwnLine => place
            .error("`{` must be on the same line as its node".to_owned())
            .primary_label("the node ended on the previous line")
            .help("move it to the end of the previous line"),
        _ => place.error("a node can have only one block".to_owned()).primary_label("second block"),
    }
}

/// Truncates a text to its first line, and that to 40 characters.
fn first_line_truncated(text: &str) -> String {
    const MOST: usize = 40;
    let line = text.lines().next().unwrap_or("");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or("")),
        None => line.to_owned(),
    }
}

/// Returns the closing quotes for the opening ones.
fn closing_of(open: &str) -> String {
    let hashes = open.len() - open.trim_start_matches('#').len();
    format!("\"\"\"{}", "#".repeat(hashes))
}

fn unknown_keyword(span: Span, raw: &str) -> Diagnostic {
    let word = raw.trim_start_matches('#').to_lowercase();
    let known = ["true", "false", "null", "inf", "nan"];
    let suggestion = match word.as_str() {
        "yes" | "on" => Some("true"),
        "no" | "off" => Some("false"),
        "none" | "nil" => Some("null"),
        _ => text::nearest(&word, known),
    };
    let diagnostic =
        Diagnostic::new(&T0103, span, format!("unknown keyword `{}`", first_line_truncated(raw)))
            .primary_label("`#` starts a keyword");
    match suggestion {
        Some(keyword) => diagnostic.help(format!("write `#{keyword}`")).fix(span, format!("#{keyword}")),
        None => diagnostic.help(format!("write `{}` for the string", quoted(raw))).fix(span, quoted(raw)),
    }
}

fn unclosed_brace(span: Span, other: Option<(Span, &str)>) -> Diagnostic {
    let diagnostic =
        Diagnostic::new(&T0104, span, "the block is never closed".to_owned()).primary_label("opened here");
    match other {
        Some((place, next)) => diagnostic
            .label(place, "according to the indentation, the block ends before this line")
            .help(format!("add `}}` on the line before `{}`", first_line_truncated(next))),
        None => diagnostic.help("add `}` at the end of the block"),
    }
}

/// Describes a one-line string without a closing quote. The lexer ended it before the properties that follow,
/// or at the end of the line.
fn unclosed_string(span: Span, raw: &str, text: &str) -> Diagnostic {
    let behind = text.get(span.end as usize..).and_then(|rest| rest.lines().next()).unwrap_or("").trim();
    let next = behind.split(is_space).next().filter(|word| word.contains('='));
    let one = Diagnostic::new(&T0106, span, "the string is not closed on its line".to_owned());
    let one = match next {
        Some(_) => one.primary_label("its closing quote is missing"),
        None => one
            .primary_label("the string starts here and runs to the end of the line")
            .note("a multi-line string starts and ends with `\"\"\"`, each on its own line"),
    };
    let quote = |one: Diagnostic| one.fix(Span { start: span.end, ..span }, "\"");
    match (close_string(raw), next) {
        (Some(text), _) => quote(one.help(format!("write `{text}`"))),
        (None, Some(next)) => {
            quote(one.help(format!("add the closing quote before `{}`", first_line_truncated(next))))
        }
        (None, None) => one.help("add the closing quote where the text ends"),
    }
}

/// Returns the string with its closing quote, if it is a single word.
fn close_string(raw: &str) -> Option<String> {
    let text = raw.trim_end().strip_prefix('"')?;
    let plain = !text.is_empty() && !text.contains([' ', '\t', '"', '\\', ';', '{', '}', '=']);
    plain.then(|| format!("\"{text}\""))
}

/// Describes an unquoted value that is not a name: a number with a unit, a path, an address, a placeholder.
fn needs_quotes(span: Span, raw: &str) -> Diagnostic {
    let text = quoted(raw);
    let shown = first_line_truncated(raw);
    let diagnostic = Diagnostic::new(&T0102, span, format!("`{shown}` needs quotes")).fix(span, text.clone());
    let pointed = raw.strip_prefix('.').filter(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    if let Some(digits) = pointed {
        return diagnostic
            .primary_label("a number starts with a digit")
            .help(format!("write `0.{digits}`"))
            .fix(span, format!("0.{digits}"));
    }
    let plain = raw.replace(',', "");
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    // `0,0002`: a group of thousands does not start with a zero.
    if let Some(("0", fraction)) = raw.split_once(',').filter(|(_, fraction)| is_number(fraction)) {
        return Diagnostic::new(&T0102, span, format!("`{shown}` is not a valid number"))
            .primary_label("the decimal separator is a point")
            .help(format!("write `0.{fraction}`"))
            .fix(span, format!("0.{fraction}"));
    }
    if raw.contains(',') && is_number(&plain) && raw.split(',').skip(1).all(|group| group.len() == 3) {
        let grouped = raw.replace(',', "_");
        return Diagnostic::new(&T0102, span, format!("`{shown}` is not a valid number"))
            .primary_label("thousands are separated by `_` or not at all")
            .help(format!("write `{plain}` or `{grouped}`"))
            .fix(span, grouped);
    }
    if let numbers @ [_, ..] = expand_suffix(raw).as_slice() {
        return Diagnostic::new(&T0102, span, format!("`{shown}` is neither a number nor a string"))
            .primary_label("a number followed by other characters")
            .help(format!(
                "write {} for the number, or `{text}` for the string",
                text::backtick_list(numbers, "or")
            ));
    }
    if let Some(number) = leading_number(raw) {
        // Either may be meant, so there is no fix.
        return Diagnostic::new(&T0102, span, format!("`{shown}` needs quotes"))
            .primary_label("neither a number nor a string")
            .help(format!("write `{number}` for the number, or `{text}` for the string"));
    }
    let here = if raw.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')) {
        "a number followed by other characters"
    } else {
        "only names can be unquoted"
    };
    diagnostic.primary_label(here).help(format!("write `{text}`"))
}
