//! The words for each mistake of the writing.
//!
//! In: a [`Fault`] of the reader and the text. Out: one [`Diagnostic`], with the edit that mends it where there is
//! only one.

use super::characters::is_space;
use super::codes::{T0101, T0102, T0103, T0104, T0105, T0106, T0109, T0112};
use super::fault::{Fault, FaultKind};
use super::fault_fixes::{alone, inside, one_text, touches};
use super::literal::{number_before, quoted, shortened};
use trainc_diag::Diagnostic;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text;

/// A mistake and the text around it.
struct Place<'t> {
    fault: &'t Fault,
    text: &'t str,
    span: Span,
    /// What is to blame, as written.
    raw: &'t str,
    /// A further place that belongs to it, as written.
    other: Option<(Span, &'t str)>,
}

impl Place<'_> {
    fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&T0101, self.span, message)
    }
}

/// The problem that a mistake of the writing is, in words.
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
        | FaultKind::CurlyQuotes => strings(&place),
        FaultKind::NeedsQuotes
        | FaultKind::NeedsHash
        | FaultKind::KeywordAsName
        | FaultKind::UnknownKeyword
        | FaultKind::NumberTooLarge
        | FaultKind::MissingValue
        | FaultKind::BadType
        | FaultKind::NotAName => values(&place),
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
        | FaultKind::SlashdashNothing => marks(&place),
        FaultKind::UnclosedBrace
        | FaultKind::SurplusBrace
        | FaultKind::MissingTerminator
        | FaultKind::BlockWithoutNode
        | FaultKind::BlockOnOwnLine
        | FaultKind::SecondBlock => blocks(&place),
    }
}

/// What is wrong with a string or a comment.
#[expect(clippy::wildcard_enum_match_arm, reason = "the table in `describe` is the one that names all")]
fn strings(place: &Place) -> Diagnostic {
    let Place { fault, span, raw, .. } = *place;
    let shown = short(raw);
    match fault.kind {
        FaultKind::UnclosedString => unclosed_string(span, raw, place.text),
        FaultKind::UnopenedString => {
            let (value, text) = place.other.unwrap_or((span, raw));
            Diagnostic::new(&T0106, value, "the string has no opening quote".to_owned())
                .primary_label("only its closing quote is there")
                .help(format!("write `{}`", quoted(text)))
                .fix(Span { end: value.start, ..value }, "\"")
        }
        FaultKind::UnclosedMulti => Diagnostic::new(&T0106, span, "the string is never closed".to_owned())
            .primary_label("it starts here and takes in the rest of the file")
            .help(format!("add a line with `{}`", closing_of(raw))),
        FaultKind::UnclosedComment => Diagnostic::new(&T0112, span, "the comment is never closed".to_owned())
            .primary_label("it starts here and takes in the rest of the file")
            .help("add `*/` where it ends"),
        FaultKind::BadEscape => {
            let diagnostic = place.error(format!("`{shown}` is no escape")).primary_label("unknown escape");
            let rest = raw.strip_prefix('\\').unwrap_or("");
            if rest.starts_with('u') {
                diagnostic.help("write `\\u{…}` with one to six hexadecimal digits of a character")
            } else if rest == "/" {
                diagnostic.help("write `/`").fix(span, "/")
            } else {
                diagnostic
                    .help(format!("write `\\\\{rest}` for a backslash"))
                    .fix(span, format!("\\\\{rest}"))
            }
        }
        FaultKind::MultiStart => place
            .error("a string of several lines starts on the line after `\"\"\"`".to_owned())
            .primary_label("text follows on the same line")
            .help("break the line after `\"\"\"`; a string of one line stands between single `\"`"),
        FaultKind::MultiEnd => place
            .error("the closing `\"\"\"` stands on a line of its own".to_owned())
            .primary_label("text stands before it")
            .help("break the line before `\"\"\"`"),
        FaultKind::MultiIndent => place
            .error("the line is less indented than the closing `\"\"\"`".to_owned())
            .primary_label("starts further left")
            .help("indent the line as far as the closing `\"\"\"`")
            .note("the blanks before the closing `\"\"\"` are taken off every line"),
        FaultKind::RawQuote => place
            .error("`#\"\"\"#` is no string".to_owned())
            .primary_label("starts like a string of several lines")
            .help("write `\"\\\"\"`")
            .fix(span, "\"\\\"\""),
        FaultKind::OldRaw => {
            let rest = raw.strip_prefix('r').unwrap_or(raw);
            let new = if rest.starts_with('#') { rest.to_owned() } else { format!("#{rest}#") };
            place
                .error("a raw string is written without `r`".to_owned())
                .primary_label("this is KDL 1")
                .help(format!("write `{}`", short(&new)))
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
                .error("a string stands between straight quotes, not typographic ones".to_owned())
                .primary_label("the quotes of a text processor")
                .help(format!("write `{plain}`"))
                .fix(span, plain)
        }
        _ => {
            let double = quoted(raw.trim_matches('\''));
            place
                .error("a string stands between double quotes, not single ones".to_owned())
                .primary_label("single quotes")
                .help(format!("write `{double}`"))
                .fix(span, double)
        }
    }
}

/// What is wrong with a keyword, a number or a value.
#[expect(clippy::wildcard_enum_match_arm, reason = "the table in `describe` is the one that names all")]
fn values(place: &Place) -> Diagnostic {
    let Place { fault, span, raw, .. } = *place;
    let shown = short(raw);
    match fault.kind {
        FaultKind::NeedsQuotes => needs_quotes(span, raw),
        FaultKind::NeedsHash => Diagnostic::new(&T0103, span, format!("`{raw}` is written `#{raw}`"))
            .primary_label("a keyword needs its `#`")
            .help(format!("write `#{raw}`, or `{}` for the text", quoted(raw)))
            .fix(span, format!("#{raw}")),
        FaultKind::KeywordAsName => {
            Diagnostic::new(&T0103, span, format!("`{raw}` is no name without quotes"))
                .primary_label("a keyword stands where a name is expected")
                .help(format!("write `{}`", quoted(raw)))
                .fix(span, quoted(raw))
        }
        FaultKind::UnknownKeyword => unknown_keyword(span, raw),
        FaultKind::NumberTooLarge => {
            Diagnostic::new(&T0109, span, format!("`{shown}` is too large for a number"))
                .primary_label("does not fit")
                .note("whole numbers go up to 2^127 - 1, others up to 1.8e308")
        }
        FaultKind::MissingValue => {
            place.error(format!("`{shown}` has no value")).primary_label("a value is expected behind this")
        }
        FaultKind::BadType => {
            let what = "no type name, or nothing that has the type";
            let one = place
                .error("`(` starts a type, as in `(name)value`".to_owned())
                .primary_label(if raw.ends_with(')') { what } else { "never closed" });
            match inside(raw) {
                Some(value) => one.help(format!("write `{}`", short(&value))).fix(span, value),
                None => one.help("remove the parentheses, or quote the value"),
            }
        }
        _ => place
            .error(format!("`{shown}` is no name"))
            .primary_label("a name is expected here")
            .help(format!("write `{}` if it is one", quoted(&shown))),
    }
}

/// What is wrong with a sign that separates.
#[expect(clippy::wildcard_enum_match_arm, reason = "the table in `describe` is the one that names all")]
fn marks(place: &Place) -> Diagnostic {
    let Place { fault, text, span, raw, other } = *place;
    match fault.kind {
        FaultKind::BadCharacter => {
            let code = raw.chars().next().map_or(0, u32::from);
            let diagnostic = place
                .error(format!("the character U+{code:04X} is not allowed"))
                .primary_label("cannot be seen");
            diagnostic.help("remove it").fix(span, "").fact("character", code)
        }
        FaultKind::StrayBackslash => place
            .error("`\\` stands at the end of a line only, or in a string".to_owned())
            .primary_label("the line goes on after it")
            .help("remove it, or quote the value"),
        FaultKind::CommaForSemicolon => place
            .error("nodes of one line are parted by `;`, not by commas".to_owned())
            .primary_label("a comma")
            .help("write `;`, or start a new line")
            .fix(span, ";"),
        FaultKind::Comma => place
            .error("values are separated by blanks, not by commas".to_owned())
            .primary_label("a comma")
            .help("remove it")
            .fix(
                span,
                if text.get(fault.end..).is_some_and(|rest| rest.starts_with(is_space)) { "" } else { " " },
            ),
        FaultKind::BracketValue => {
            let one = one_text(raw);
            place
                .error("a property has one value, and no list".to_owned())
                .primary_label("several values are one text, parted by commas")
                .help(format!("write `{}`", short(&one)))
                .fix(span, one)
        }
        FaultKind::Bracket => place
            .error(format!("`{raw}` has no meaning outside of strings"))
            .primary_label("several values stand one after the other, without brackets")
            .help("remove it")
            .fix(span, ""),
        FaultKind::StrayEquals => place
            .error("`=` has no name before it".to_owned())
            .primary_label("a property is `name=value`")
            .help("write the name of the property before it, or remove it"),
        FaultKind::DoubleEquals => place
            .error("a property has one `=`".to_owned())
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
                .error(format!("the value of `{name}` follows without `=`"))
                .primary_label("only properties have one, after the node's name")
                .help(format!("write `{name} {}`", short(value)))
                .fix(alone(text, span), if touches(text, fault) { " " } else { "" })
        }
        FaultKind::StrayParen => place
            .error("`)` closes nothing".to_owned())
            .primary_label("no `(` before it")
            .help("remove it")
            .fix(span, ""),
        FaultKind::StraySemicolon => place
            .error("`;` ends no node".to_owned())
            .primary_label("no node before it")
            .help("remove it")
            .fix(span, ""),
        FaultKind::MissingSpace => place
            .error("a blank is missing".to_owned())
            .primary_label("touches what stands before it")
            .help("put a blank before it")
            .fix(Span { end: span.start, ..span }, " "),
        _ => place
            .error("`/-` has nothing to leave out".to_owned())
            .primary_label("a node, a value or a block is expected behind it")
            .help("remove it, or write `//` for a comment"),
    }
}

/// What is wrong with a block and its braces.
#[expect(clippy::wildcard_enum_match_arm, reason = "the table in `describe` is the one that names all")]
fn blocks(place: &Place) -> Diagnostic {
    let Place { fault, span, other, .. } = *place;
    match fault.kind {
        FaultKind::UnclosedBrace => unclosed_brace(span, other),
        FaultKind::SurplusBrace => {
            let diagnostic = Diagnostic::new(&T0105, span, "`}` closes nothing".to_owned());
            match other {
                // The block that it closes is closed before what belongs in it.
                Some((line, _)) if line.end >= span.end => Diagnostic::new(
                    &T0105,
                    span,
                    "the block ends here, before the lines that are in it".to_owned(),
                )
                .primary_label("one `}` too many")
                .help("remove it")
                .fix(span, ""),
                Some((line, text)) => diagnostic
                    .primary_label("no block is open here")
                    .label(line, "its block has no `{`")
                    .help(format!("write `{} {{`", short(text)))
                    .fix(Span { start: line.end, ..line }, " {"),
                None => diagnostic.primary_label("no block is open here").help("remove it").fix(span, ""),
            }
        }
        FaultKind::MissingTerminator => place
            .error("a node ends with its block".to_owned())
            .primary_label("stands behind the closing `}`")
            .help("start a new line here, or move it before the `{`"),
        FaultKind::BlockWithoutNode => place
            .error("a block has no node".to_owned())
            .primary_label("no node before this `{`")
            .help("write the name of the node before it"),
        FaultKind::BlockOnOwnLine => place
            .error("`{` stands on the line of its node".to_owned())
            .primary_label("the node has ended on the line before")
            .help("move it to the end of the line before"),
        _ => place.error("a node has one block".to_owned()).primary_label("this is its second"),
    }
}

/// As much of a text as a message can bear.
fn short(text: &str) -> String {
    const MOST: usize = 40;
    let line = text.lines().next().unwrap_or("");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or("")),
        None => line.to_owned(),
    }
}

/// The quotes that close what these opened.
fn closing_of(open: &str) -> String {
    let hashes = open.len() - open.trim_start_matches('#').len();
    format!("\"\"\"{}", "#".repeat(hashes))
}

fn unknown_keyword(span: Span, raw: &str) -> Diagnostic {
    let word = raw.trim_start_matches('#').to_lowercase();
    let known = ["true", "false", "null", "inf", "nan"];
    let meant = match word.as_str() {
        "yes" | "on" => Some("true"),
        "no" | "off" => Some("false"),
        "none" | "nil" => Some("null"),
        _ => text::nearest(&word, known),
    };
    let diagnostic = Diagnostic::new(&T0103, span, format!("`{}` is no keyword", short(raw)))
        .primary_label("`#` starts a keyword");
    match meant {
        Some(meant) => diagnostic.help(format!("write `#{meant}`")).fix(span, format!("#{meant}")),
        None => diagnostic.help(format!("write `{}` for the text", quoted(raw))).fix(span, quoted(raw)),
    }
}

fn unclosed_brace(span: Span, other: Option<(Span, &str)>) -> Diagnostic {
    let diagnostic =
        Diagnostic::new(&T0104, span, "the block is never closed".to_owned()).primary_label("opened here");
    match other {
        Some((place, next)) => diagnostic
            .label(place, "the indentation says that it has ended before this")
            .help(format!("add `}}` on the line before `{}`", short(next))),
        None => diagnostic.help("add `}` at the end of the block"),
    }
}

/// The problem of a string of one line without its end: what stands behind it was read, or it took in all of the line.
fn unclosed_string(span: Span, raw: &str, text: &str) -> Diagnostic {
    let behind = text.get(span.end as usize..).and_then(|rest| rest.lines().next()).unwrap_or("").trim();
    let next = behind.split(is_space).next().filter(|word| word.contains('='));
    let one = Diagnostic::new(&T0106, span, "the string is not closed on its line".to_owned());
    let one = match next {
        Some(_) => one.primary_label("its closing quote is missing"),
        None => one
            .primary_label("it starts here and takes in the rest of the line")
            .note("text of several lines stands between `\"\"\"` and `\"\"\"`, each on its own line"),
    };
    let quote = |one: Diagnostic| one.fix(Span { start: span.end, ..span }, "\"");
    match (closed(raw), next) {
        (Some(text), _) => quote(one.help(format!("write `{text}`"))),
        (None, Some(next)) => quote(one.help(format!("add the closing quote before `{}`", short(next)))),
        (None, None) => one.help("add the closing quote where the text ends"),
    }
}

/// A string that nobody closed, closed: one word alone surely ends where it ends.
fn closed(raw: &str) -> Option<String> {
    let text = raw.trim_end().strip_prefix('"')?;
    let plain = !text.is_empty() && !text.contains([' ', '\t', '"', '\\', ';', '{', '}', '=']);
    plain.then(|| format!("\"{text}\""))
}

/// The problem of a value without quotes that is no name: a number with a unit, a path, an address, a placeholder.
fn needs_quotes(span: Span, raw: &str) -> Diagnostic {
    let text = quoted(raw);
    let shown = short(raw);
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
    // `0,0002`: no thousands begin with a zero.
    if let Some(("0", fraction)) = raw.split_once(',').filter(|(_, fraction)| is_number(fraction)) {
        return Diagnostic::new(&T0102, span, format!("`{shown}` is no number"))
            .primary_label("a fraction follows a point")
            .help(format!("write `0.{fraction}`"))
            .fix(span, format!("0.{fraction}"));
    }
    if raw.contains(',') && is_number(&plain) && raw.split(',').skip(1).all(|group| group.len() == 3) {
        let grouped = raw.replace(',', "_");
        return Diagnostic::new(&T0102, span, format!("`{shown}` is no number"))
            .primary_label("thousands are parted by `_`, or by nothing")
            .help(format!("write `{plain}` or `{grouped}`"))
            .fix(span, grouped);
    }
    if let numbers @ [_, ..] = shortened(raw).as_slice() {
        return Diagnostic::new(&T0102, span, format!("`{shown}` is neither a number nor a text"))
            .primary_label("a number with something behind it")
            .help(format!(
                "write {} for the number, or `{text}` for the text",
                text::backtick_list(numbers, "or")
            ));
    }
    if let Some(number) = number_before(raw) {
        // Which of the two is meant is not known: there is no edit.
        return Diagnostic::new(&T0102, span, format!("`{shown}` needs quotes"))
            .primary_label("neither a number nor a text")
            .help(format!("write `{number}` for the number, or `{text}` for the text"));
    }
    let here = if raw.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')) {
        "a number with something behind it"
    } else {
        "only names go without quotes"
    };
    diagnostic.primary_label(here).help(format!("write `{text}`"))
}
