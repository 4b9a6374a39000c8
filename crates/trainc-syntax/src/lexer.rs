//! Splits text into tokens and reports lexical errors.
//!
//! In: any text. Out: tokens that cover it without a gap, and [`Fault`]s. Never fails; the time is linear in
//! the length of the text. Follows the grammar of KDL 2.0.

use super::characters::{is_disallowed, is_keyword, is_newline, is_space, is_word, looks_numeric};
use super::fault::{Fault, FaultKind};
use super::{literal, unclosed_string};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Newline,
    /// Blanks, a byte order mark at the start, and characters that were reported.
    Space,
    LineComment,
    BlockComment,
    /// A backslash up to and including the end of its line; if block comments are between, only the part
    /// after them.
    Escline,
    Slashdash,
    Open,
    Close,
    ParenOpen,
    ParenClose,
    Equals,
    Semicolon,
    Word,
    /// `true`, `null`, … without the `#`.
    BareKeyword,
    Quoted,
    Multi,
    Raw,
    RawMulti,
    Keyword,
    Number,
    /// Reported; read as a string of its own text.
    Broken,
    /// Reported; read as a string of which only the start is known.
    Unclosed,
}

impl Kind {
    /// Returns whether it is valid as a name or a key.
    pub(super) fn is_string(self) -> bool {
        matches!(self, Self::Word | Self::Quoted | Self::Multi | Self::Raw | Self::RawMulti)
    }

    /// Returns whether it is in the place of a value, valid or not.
    pub(super) fn is_value(self) -> bool {
        self.is_string()
            || matches!(
                self,
                Self::BareKeyword | Self::Keyword | Self::Number | Self::Broken | Self::Unclosed
            )
    }
}

/// A piece of the text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The tokens of a text and the errors in them.
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    pub(super) faults: Vec<Fault>,
    /// A string or comment extends to the end of the text; errors that follow from that are not reported.
    pub(super) cut_short: bool,
}

/// Splits a text into tokens.
pub(super) fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), faults: Vec::new(), cut_short: false };
    while lexer.at < text.len() {
        lexer.token();
    }
    Lexed { tokens: lexer.tokens, faults: lexer.faults, cut_short: lexer.cut_short }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    tokens: Vec<Token>,
    faults: Vec<Fault>,
    cut_short: bool,
}

impl Lexer<'_> {
    fn rest_from(&self, at: usize) -> &str {
        self.text.get(at..).unwrap_or("")
    }

    fn char_at(&self, at: usize) -> Option<char> {
        self.rest_from(at).chars().next()
    }

    /// Returns the first offset from `at` on where the test fails.
    fn end_of_run(&self, at: usize, test: impl Fn(char) -> bool) -> usize {
        let rest = self.rest_from(at);
        at + rest.find(|c| !test(c)).unwrap_or(rest.len())
    }

    fn line_end(&self, at: usize) -> usize {
        self.end_of_run(at, |c| !is_newline(c))
    }

    /// Returns the offset of the closing characters, if they are on the same line. Does not search further,
    /// because each string of a long line calls it.
    fn find_on_line(&self, from: usize, close: &str) -> Option<usize> {
        let rest = self.rest_from(from);
        for (at, c) in rest.char_indices() {
            if is_newline(c) {
                return None;
            }
            if rest.get(at..).is_some_and(|here| here.starts_with(close)) {
                return Some(from + at);
            }
        }
        None
    }

    fn newline_end(&self, at: usize) -> usize {
        if self.rest_from(at).starts_with("\r\n") {
            at + 2
        } else {
            at + self.char_at(at).map_or(0, char::len_utf8)
        }
    }

    fn push(&mut self, kind: Kind, end: usize) {
        self.tokens.push(Token { kind, start: self.at, end });
        self.at = end;
    }

    fn fault(&mut self, kind: FaultKind, start: usize, end: usize) {
        self.faults.push(Fault::new(kind, start, end));
    }

    fn token(&mut self) {
        let at = self.at;
        let Some(c) = self.char_at(at) else { return };
        let after = at + c.len_utf8();
        match c {
            '\u{FEFF}' if at == 0 => self.push(Kind::Space, after),
            '{' if self.placeholder_end(self.at).is_some() => self.path(self.at),
            '{' => self.push(Kind::Open, after),
            '}' => self.push(Kind::Close, after),
            '(' => self.push(Kind::ParenOpen, after),
            ')' => self.push(Kind::ParenClose, after),
            '=' if self.char_at(after) == Some('=') => {
                self.fault(FaultKind::DoubleEquals, after, after + 1);
                self.push(Kind::Equals, after + 1);
            }
            '=' => self.push(Kind::Equals, after),
            ';' => self.push(Kind::Semicolon, after),
            '"' => self.string(),
            '#' => self.hash(),
            '/' => self.slash(),
            '\\' => self.backslash(),
            '[' if self.list_end().is_some() => {
                let end = self.list_end().unwrap_or(after);
                self.fault(FaultKind::BracketValue, self.at, end);
                self.push(Kind::Broken, end);
            }
            '[' | ']' => {
                self.fault(FaultKind::Bracket, at, after);
                self.push(Kind::Space, after);
            }
            _ if is_newline(c) => self.push(Kind::Newline, self.newline_end(at)),
            _ if is_space(c) => self.push(Kind::Space, self.end_of_run(at, is_space)),
            _ if is_disallowed(c) => {
                let end = self.end_of_run(at, is_disallowed);
                self.fault(FaultKind::BadCharacter, at, end);
                self.push(Kind::Space, end);
            }
            '\'' => self.foreign_quotes(FaultKind::SingleQuotes, &["'"]),
            '“' | '”' | '„' | '‟' => self.foreign_quotes(FaultKind::CurlyQuotes, &["”", "“", "\""]),
            _ => self.word(),
        }
    }

    fn slash(&mut self) {
        let at = self.at;
        match self.char_at(at + 1) {
            Some('/') => self.line_comment(),
            Some('-') => self.push(Kind::Slashdash, at + 2),
            Some('*') => {
                let end = self.comment_end(at).unwrap_or_else(|| {
                    self.fault(FaultKind::UnclosedComment, at, at + 2);
                    self.cut_short = true;
                    self.text.len()
                });
                self.check_characters(at, end);
                self.push(Kind::BlockComment, end);
            }
            _ => self.path(at),
        }
    }

    /// Returns the end of the block comment that starts here; block comments nest.
    fn comment_end(&self, at: usize) -> Option<usize> {
        let mut depth = 1_usize;
        let mut end = at + 2;
        while depth > 0 {
            end += self.rest_from(end).find(['*', '/'])?;
            let found = self.rest_from(end);
            if found.starts_with("*/") {
                depth -= 1;
                end += 2;
            } else if found.starts_with("/*") {
                depth += 1;
                end += 2;
            } else {
                end += 1;
            }
        }
        Some(end)
    }

    fn line_comment(&mut self) {
        let end = self.line_end(self.at);
        self.check_characters(self.at, end);
        self.push(Kind::LineComment, end);
    }

    /// Reports the first run of characters that are forbidden even in comments.
    fn check_characters(&mut self, start: usize, end: usize) {
        let bad = self.text.get(start..end).and_then(|text| text.find(is_disallowed));
        if let Some(bad) = bad {
            let bad_end = self.end_of_run(start + bad, is_disallowed);
            self.fault(FaultKind::BadCharacter, start + bad, bad_end);
        }
    }

    /// Returns the end of a list in brackets on this line that is the value of a property.
    fn list_end(&self) -> Option<usize> {
        const LONGEST: usize = 500;
        self.tokens.last().filter(|token| token.kind == Kind::Equals)?;
        let rest = self.rest_from(self.at);
        let end = rest.find(|c| is_newline(c) || matches!(c, ']' | ';' | '{' | '}' | '='))?;
        (end <= LONGEST && rest.get(end..)?.starts_with(']')).then_some(self.at + end + 1)
    }

    /// Returns the end of a placeholder, `{{ model.name }}`, that starts here: KDL never has two adjacent
    /// braces.
    fn placeholder_end(&self, at: usize) -> Option<usize> {
        const LONGEST: usize = 200;
        let inside = self.rest_from(at).strip_prefix("{{")?;
        let close = inside.find(|c| is_newline(c) || matches!(c, '"' | ';' | '{' | '}'))?;
        (close <= LONGEST && inside.get(close..)?.starts_with("}}")).then_some(at + 2 + close + 2)
    }

    /// Reads a path, a URI or a placeholder without quotes: everything up to the next space outside of
    /// placeholders.
    fn path(&mut self, from: usize) {
        let mut end = from;
        loop {
            end = self.end_of_run(end, |c| {
                !is_space(c)
                    && !is_newline(c)
                    && !is_disallowed(c)
                    && !matches!(c, '"' | ';' | '{' | '}' | '(' | ')')
            });
            match self.placeholder_end(end) {
                Some(after) => end = after,
                None => break,
            }
        }
        self.fault(FaultKind::NeedsQuotes, self.at, end);
        self.push(Kind::Broken, end);
    }

    /// Reads a backslash at the end of its line. Block comments before the line end become separate tokens,
    /// and the rest of the line is the line continuation.
    fn backslash(&mut self) {
        let at = self.at;
        let mut pieces = Vec::new();
        let mut end = self.end_of_run(at + 1, is_space);
        while self.rest_from(end).starts_with("/*") {
            let Some(close) = self.comment_end(end) else {
                break;
            };
            pieces.extend([(Kind::Space, end), (Kind::BlockComment, close)]);
            end = self.end_of_run(close, is_space);
        }
        let line_end = if self.rest_from(end).starts_with("//") { self.line_end(end) } else { end };
        if self.char_at(line_end).is_some_and(|c| !is_newline(c)) {
            self.fault(FaultKind::StrayBackslash, at, at + 1);
            return self.push(Kind::Space, at + 1);
        }
        self.check_characters(at, line_end);
        for (kind, end) in pieces {
            if end > self.at {
                self.push(kind, end);
            }
        }
        self.push(Kind::Escline, self.newline_end(line_end));
    }

    /// Reads a text between quotes that KDL does not use, on one line.
    fn foreign_quotes(&mut self, kind: FaultKind, closing: &[&str]) {
        let at = self.at;
        let inside = at + self.char_at(at).map_or(1, char::len_utf8);
        let ends = closing.iter().filter_map(|close| Some(self.find_on_line(inside, close)? + close.len()));
        match ends.min() {
            Some(end) => {
                self.fault(kind, at, end);
                self.push(Kind::Broken, end);
            }
            None => self.word(),
        }
    }

    fn word(&mut self) {
        let at = self.at;
        let end = self.end_of_run(at, is_word);
        let word = self.text.get(at..end).unwrap_or("").to_owned();
        let next = self.rest_from(end);
        if word == "r" && next.trim_start_matches('#').starts_with('"') {
            return self.kdl1_raw_string();
        }
        // `s3://…` would be a word and a comment, `./scripts` a word and a stray slash.
        let path = next.starts_with('/')
            && !next.starts_with("/*")
            && !next.starts_with("/-")
            && (!next.starts_with("//") || word.ends_with(':'));
        if path {
            return self.path(end);
        }
        if is_keyword(&word) {
            self.push(Kind::BareKeyword, end);
        } else if looks_numeric(&word) {
            self.number(&word, end);
        } else if word == "," {
            self.comma(end);
        } else if word.starts_with(',') && self.tokens.last().is_some_and(|last| last.kind.is_value()) {
            // `"a","b"` and `"a",b`.
            self.comma(at + 1);
        } else if word.len() > 1 && word.ends_with(',') && self.begins_node(end) {
            self.push(Kind::Word, end - 1);
            self.comma(end);
        } else {
            self.push(Kind::Word, end);
        }
    }

    fn number(&mut self, word: &str, end: usize) {
        let at = self.at;
        let digits = word.trim_end_matches(',');
        match literal::number(digits) {
            literal::Number::Malformed => {
                self.fault(FaultKind::NeedsQuotes, at, end);
                self.push(Kind::Broken, end);
                return;
            }
            literal::Number::TooLarge => {
                self.fault(FaultKind::NumberTooLarge, at, at + digits.len());
                self.push(Kind::Number, at + digits.len());
            }
            literal::Number::Value(_) => self.push(Kind::Number, at + digits.len()),
        }
        if self.at < end {
            self.comma(end);
        }
    }

    /// Reports the commas up to `end`, which separate two nodes on one line, or values.
    fn comma(&mut self, end: usize) {
        const MOST: usize = 64;
        let parts =
            |token: &Token| matches!(token.kind, Kind::Newline | Kind::Semicolon | Kind::Open | Kind::Close);
        let node = self.tokens.iter().rev().take(MOST).take_while(|token| !parts(token));
        // A node has a name and a value before the comma; a list in brackets continues.
        let start = node.clone().last().map_or(self.at, |first| first.start);
        let is_list = self.text.get(start..self.at).is_some_and(|text| text.contains(['[', '(']));
        if node.filter(|token| token.kind.is_value()).count() > 1 && !is_list && self.begins_node(end) {
            self.fault(FaultKind::CommaForSemicolon, self.at, end);
            self.push(Kind::Semicolon, end);
        } else {
            self.fault(FaultKind::Comma, self.at, end);
            self.push(Kind::Space, end);
        }
    }

    /// Returns whether a name follows, and a value or a block after it.
    fn begins_node(&self, at: usize) -> bool {
        let rest = self.rest_from(at).trim_start_matches(is_space);
        let name = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c)).unwrap_or(rest.len());
        let behind = rest.get(name..).unwrap_or("");
        let value = behind.trim_start_matches(is_space);
        rest.starts_with(|c: char| c.is_ascii_alphabetic())
            && behind.starts_with(is_space)
            && value.starts_with(|c: char| c.is_ascii_alphanumeric() || "\"#-+{".contains(c))
    }

    fn hash(&mut self) {
        let at = self.at;
        let hashes_end = self.end_of_run(at, |c| c == '#');
        if self.char_at(hashes_end) == Some('"') {
            return self.raw_string(at, hashes_end);
        }
        let end = self.end_of_run(hashes_end, is_word);
        let word = self.text.get(hashes_end..end).unwrap_or("");
        if hashes_end == at + 1 && is_keyword(word) {
            return self.push(Kind::Keyword, end);
        }
        let first = self.tokens.iter().rev().find(|token| token.kind != Kind::Space);
        let line_start = first.is_none_or(|token| matches!(token.kind, Kind::Newline | Kind::LineComment));
        if word.is_empty() || (line_start && !is_keyword(&word.to_lowercase())) {
            self.fault(FaultKind::HashComment, at, hashes_end);
            return self.line_comment();
        }
        self.fault(FaultKind::UnknownKeyword, at, end);
        self.push(Kind::Broken, end);
    }

    /// Reads `r"…"` and `r#"…"#` of KDL 1.
    fn kdl1_raw_string(&mut self) {
        let at = self.at;
        let hashes_end = self.end_of_run(at + 1, |c| c == '#');
        let close = format!("\"{}", "#".repeat(hashes_end - at - 1));
        if let Some(found) = self.find_on_line(hashes_end + 1, &close) {
            let end = found + close.len();
            self.fault(FaultKind::OldRaw, at, end);
            self.push(Kind::Broken, end);
        } else {
            self.unclosed_string();
        }
    }

    fn raw_string(&mut self, at: usize, quote: usize) {
        let hashes = "#".repeat(quote - at);
        let rest = self.rest_from(quote);
        let multi = rest.strip_prefix("\"\"\"").is_some_and(|after| after.starts_with(is_newline));
        if multi {
            let body = quote + 3;
            let close = format!("\"\"\"{hashes}");
            let Some(found) = self.rest_from(body).find(&close) else {
                return self.unclosed_multi_line_string(body);
            };
            let end = body + found + close.len();
            self.check_multi_line_string(at, end);
            return self.push(Kind::RawMulti, end);
        }
        let close = format!("\"{hashes}");
        let Some(found) = self.find_on_line(quote + 1, &close) else {
            return self.unclosed_string();
        };
        let end = found + close.len();
        let body = self.text.get(quote + 1..found).unwrap_or("");
        if body == "\"" {
            self.fault(FaultKind::RawQuote, at, end);
            return self.push(Kind::Broken, end);
        }
        self.check_characters(quote + 1, found);
        self.push(Kind::Raw, end);
    }

    fn check_multi_line_string(&mut self, start: usize, end: usize) {
        if let Err(fault) = literal::string(self.text.get(start..end).unwrap_or("")) {
            self.faults.push(Fault { start: fault.start + start, end: fault.end + start, ..fault });
        }
    }

    fn unclosed_multi_line_string(&mut self, quotes_end: usize) {
        self.fault(FaultKind::UnclosedMulti, self.at, quotes_end);
        self.cut_short = true;
        self.push(Kind::Unclosed, self.text.len());
    }

    fn string(&mut self) {
        let at = self.at;
        if self.rest_from(at).starts_with("\"\"\"") {
            return self.multi_line_string();
        }
        let mut end = at + 1;
        let mut faults = Vec::new();
        while let Some(c) = self.char_at(end) {
            match c {
                '"' => {
                    self.faults.append(&mut faults);
                    return self.push(Kind::Quoted, end + 1);
                }
                '\\' => match literal::escape(self.rest_from(end)) {
                    Ok((_, length)) => end += length,
                    Err(length) => {
                        faults.push(Fault::new(FaultKind::BadEscape, end, end + length));
                        end += length;
                    }
                },
                _ if is_newline(c) => break,
                _ if is_disallowed(c) => {
                    let bad_end = self.end_of_run(end, is_disallowed);
                    faults.push(Fault::new(FaultKind::BadCharacter, end, bad_end));
                    end = bad_end;
                }
                _ => end += c.len_utf8(),
            }
        }
        self.unclosed_string();
    }

    fn multi_line_string(&mut self) {
        let at = self.at;
        let mut end = at + 3;
        loop {
            let rest = self.rest_from(end);
            let Some(next) = rest.find(['"', '\\']) else {
                return self.unclosed_multi_line_string(at + 3);
            };
            let found = rest.get(next..).unwrap_or("");
            if found.starts_with("\"\"\"") {
                end += next + 3;
                break;
            }
            // An escaped quote does not close the string; `check_multi` reports invalid escapes.
            let escaped = found.chars().nth(1).map_or(0, char::len_utf8);
            end += next + 1 + if found.starts_with('\\') { escaped } else { 0 };
        }
        self.check_multi_line_string(at, end);
        self.push(Kind::Multi, end);
    }

    /// Reads a one-line string that is not closed on its line. An earlier string of the line whose closing
    /// quote touches text is the more likely culprit: the opening quote of the next string closed it.
    fn unclosed_string(&mut self) {
        let mut first = self.tokens.len();
        let mut culprit = None;
        while let Some(token) = first.checked_sub(1).and_then(|before| self.tokens.get(before)) {
            if matches!(
                token.kind,
                Kind::Newline | Kind::LineComment | Kind::Escline | Kind::Open | Kind::Close
            ) {
                break;
            }
            first -= 1;
            let touches =
                self.tokens.get(first + 1).map_or(self.at == token.end, |next| next.kind.is_value());
            if token.kind == Kind::Quoted && touches {
                culprit = Some(first);
            }
        }
        if let Some(index) = culprit
            && let Some(token) = self.tokens.get(index).copied()
        {
            self.tokens.truncate(index);
            self.faults.retain(|fault| fault.start < token.start);
            self.at = token.start;
        }
        let line = self.text.get(self.at..self.line_end(self.at)).unwrap_or("").trim_end();
        let line_start = self
            .tokens
            .iter()
            .rev()
            .take_while(|token| !matches!(token.kind, Kind::Newline | Kind::LineComment | Kind::Escline));
        let in_line_block = line_start.clone().filter(|token| token.kind == Kind::Open).count()
            > line_start.filter(|token| token.kind == Kind::Close).count();
        // A brace at the end of the line is most likely not part of the text.
        let body = match line.strip_suffix('{').or_else(|| line.strip_suffix('}').filter(|_| in_line_block)) {
            Some(body) if body.ends_with(is_space) => body.trim_end(),
            _ => line,
        };
        // Neither are trailing properties: the string ends before them.
        let body = unclosed_string::trailing_properties(body).and_then(|at| body.get(..at)).unwrap_or(body);
        let end = self.at + body.len().max(1);
        self.fault(FaultKind::UnclosedString, self.at, end);
        self.push(Kind::Unclosed, end);
    }
}
