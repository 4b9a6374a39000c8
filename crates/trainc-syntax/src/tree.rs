//! Parses tokens into a tree of nodes that keeps comments and blank lines, and recovers from errors.
//!
//! In: any text within the limits. Out: [`Tree`], with everything that could be parsed and all faults. Used
//! by `document`, `format` and `edit`.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "token kinds that a match does not list are treated alike"
)]

use super::braces;
use super::characters::is_newline;
use super::fault::{Fault, FaultKind};
use super::lexer::{self, Kind, Token};
use super::literal;

/// The largest manifest, in bytes.
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// The deepest nesting of blocks.
pub(super) const MAX_DEPTH: usize = 32;

/// A limit that a text exceeds, so that it is not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Longer than [`MAX_BYTES`].
    TooLarge,
    /// The brace at that byte opens a block deeper than [`MAX_DEPTH`].
    TooDeep(usize),
}

/// An item of a block, in the order of the text.
#[derive(Debug)]
pub(super) enum Item {
    Node(Box<Node>),
    /// A comment on its own line, or before a node on the node's line (`inline`).
    Comment {
        token: Token,
        inline: bool,
    },
    /// One empty line or more.
    Blank,
}

/// A node, or the part of it that could be parsed.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) slashdash: bool,
    pub(super) ty: Option<Type>,
    pub(super) name: Token,
    /// The name is invalid: the node is kept only for its span and its block.
    pub(super) broken: bool,
    pub(super) parts: Vec<Part>,
    /// A line comment that ends the node's line.
    pub(super) comment: Option<Token>,
    pub(super) start: usize,
    /// Without the terminator.
    pub(super) end: usize,
}

/// A type annotation: `(u8)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) name: Option<Token>,
}

/// A part of a node after its name.
#[derive(Debug)]
pub(super) enum Part {
    Entry(Entry),
    Block(Block),
    Comment(Token),
    /// A backslash that continues the node on the next line.
    Break(Token),
}

/// An argument or a property.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slashdash: bool,
    pub(super) key: Option<Token>,
    pub(super) ty: Option<Type>,
    /// `None` if it is missing.
    pub(super) value: Option<Token>,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Contains comments or line breaks.
    pub(super) has_trivia: bool,
    /// Has a syntax error; the value is a guess.
    pub(super) recovered: bool,
}

/// `{ … }`.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) slashdash: bool,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) items: Vec<Item>,
    /// A line comment after the opening brace.
    pub(super) comment: Option<Token>,
    /// It is on one line.
    pub(super) flat: bool,
}

/// A whole text.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) items: Vec<Item>,
    /// In the order of the text.
    pub(super) faults: Vec<Fault>,
}

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Tree, Limit> {
    if text.len() > MAX_BYTES {
        return Err(Limit::TooLarge);
    }
    let lexed = lexer::lex(text);
    if let Some(at) = too_deep(&lexed.tokens) {
        return Err(Limit::TooDeep(at));
    }
    let (tokens, mut brace_faults) = braces::balance(text, lexed.tokens);
    if lexed.cut_short {
        brace_faults.clear();
    }
    let lexed_faults = lexed.faults.len();
    let mut parser = Parser { text, tokens, at: 0, faults: lexed.faults, lexed: lexed_faults };
    parser.faults.append(&mut brace_faults);
    let items = parser.items();
    let mut faults = parser.faults;
    faults.sort_by_key(|fault| (fault.start, fault.end));
    faults.dedup_by_key(|fault| (fault.start, fault.kind));
    // Errors inside of parentheses that are not a type annotation are one fault.
    let mut past = 0;
    faults.retain(|fault| {
        let inside = fault.start < past && fault.kind != FaultKind::BadType;
        if fault.kind == FaultKind::BadType {
            past = past.max(fault.end);
        }
        !inside
    });
    Ok(Tree { items, faults })
}

fn too_deep(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    for token in tokens {
        if token.kind == Kind::Open {
            depth += 1;
            if depth > MAX_DEPTH {
                return Some(token.start);
            }
        } else if token.kind == Kind::Close {
            depth = depth.saturating_sub(1);
        }
    }
    None
}

/// Words that are the unit of the number before them.
const UNIT_WORDS: [&str; 36] = [
    "step",
    "steps",
    "token",
    "tokens",
    "epoch",
    "epochs",
    "sequence",
    "sequences",
    "s",
    "sec",
    "second",
    "seconds",
    "m",
    "min",
    "minute",
    "minutes",
    "h",
    "hour",
    "hours",
    "d",
    "day",
    "days",
    "w",
    "week",
    "weeks",
    "B",
    "KB",
    "MB",
    "GB",
    "TB",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "usd",
    "USD",
];

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    faults: Vec<Fault>,
    /// The number of faults from the lexer.
    lexed: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    fn peek_kind(&self) -> Option<Kind> {
        self.peek().map(|token| token.kind)
    }

    fn fault(&mut self, kind: FaultKind, token: Token) {
        self.faults.push(Fault::new(kind, token.start, token.end));
    }

    fn slice(&self, token: Token) -> &str {
        self.text.get(token.start..token.end).unwrap_or("")
    }

    /// Skips spaces, comments and, if `lines`, line ends. Returns whether there were comments.
    fn skip_trivia(&mut self, lines: bool, comments: &mut Vec<Token>) -> bool {
        let before = comments.len();
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Space => {}
                Kind::BlockComment | Kind::Escline => comments.push(token),
                Kind::Newline if lines => {}
                Kind::LineComment if lines => comments.push(token),
                _ => break,
            }
            self.at += 1;
        }
        comments.len() > before
    }

    /// Parses the items up to a closing brace or the end of the text.
    fn items(&mut self) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        let mut newlines = 0;
        let mut last_node = None;
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Close => break,
                Kind::Space => self.at += 1,
                Kind::Escline => {
                    self.at += 1;
                    if self.has_comment(token) {
                        items.push(Item::Comment { token, inline: false });
                    }
                }
                Kind::Newline => {
                    self.at += 1;
                    newlines += 1;
                    if newlines == 2 {
                        items.push(Item::Blank);
                    }
                }
                Kind::Semicolon => {
                    self.fault(FaultKind::StraySemicolon, token);
                    self.at += 1;
                }
                Kind::LineComment | Kind::BlockComment => {
                    self.at += 1;
                    let inline = token.kind == Kind::BlockComment && self.node_follows();
                    items.push(Item::Comment { token, inline });
                    newlines = 0;
                }
                Kind::Open => {
                    let block = self.block(false);
                    let last = last_node.and_then(|index: usize| items.get_mut(index));
                    // A brace on the line after its node opens the node's block.
                    match last {
                        Some(Item::Node(node)) if !matches!(node.parts.last(), Some(Part::Block(_))) => {
                            self.fault(FaultKind::BlockOnOwnLine, token);
                            node.end = block.end;
                            node.parts.push(Part::Block(block));
                        }
                        _ => self.fault(FaultKind::BlockWithoutNode, token),
                    }
                    newlines = 0;
                }
                _ => {
                    let mut comments = Vec::new();
                    if let Some(node) = self.node(&mut comments) {
                        comments.retain(|&token| self.has_comment(token));
                        items
                            .extend(comments.into_iter().map(|token| Item::Comment { token, inline: false }));
                        last_node = Some(items.len());
                        items.push(Item::Node(Box::new(node)));
                    }
                    // A line comment ends the node's line; the line end is parsed here.
                    newlines = 0;
                }
            }
        }
        items
    }

    /// Returns whether it contains a comment: a line continuation may have none.
    fn has_comment(&self, token: Token) -> bool {
        token.kind != Kind::Escline || self.slice(token).contains('/')
    }

    /// Returns whether a node starts on this line.
    fn node_follows(&self) -> bool {
        let next = self.tokens.get(self.at..).unwrap_or(&[]).iter().find(|token| token.kind != Kind::Space);
        next.is_some_and(|token| {
            token.kind.is_value()
                || matches!(token.kind, Kind::ParenOpen | Kind::Slashdash | Kind::BlockComment)
        })
    }

    fn node(&mut self, comments: &mut Vec<Token>) -> Option<Node> {
        let first = self.peek()?;
        let slashdash = first.kind == Kind::Slashdash;
        if slashdash {
            self.at += 1;
            self.skip_trivia(true, comments);
        }
        let ty = self.ty();
        if ty.is_some() {
            self.skip_trivia(false, &mut Vec::new());
        }
        let Some(name) = self.peek().filter(|token| token.kind.is_value()) else {
            return self.skip_invalid_start(first, slashdash);
        };
        self.at += 1;
        let broken = !name.kind.is_string();
        match name.kind {
            Kind::BareKeyword => self.fault(FaultKind::KeywordAsName, name),
            Kind::Number | Kind::Keyword => self.fault(FaultKind::NotAName, name),
            // The lexer has reported it.
            _ => {}
        }
        let mut node = Node {
            slashdash,
            ty,
            name,
            broken,
            parts: Vec::new(),
            comment: None,
            start: first.start,
            end: name.end,
        };
        self.parts(&mut node);
        Some(node)
    }

    /// Reports and skips a token that cannot start a node.
    fn skip_invalid_start(&mut self, first: Token, slashdash: bool) -> Option<Node> {
        let token = self.peek();
        match token {
            Some(token) if token.kind == Kind::Equals => self.fault(FaultKind::StrayEquals, token),
            Some(token) if token.kind == Kind::ParenClose => {
                self.fault(FaultKind::StrayParen, token);
            }
            Some(token) if token.kind == Kind::Slashdash => {
                self.fault(FaultKind::SlashdashNothing, first);
            }
            _ if slashdash => {
                self.fault(FaultKind::SlashdashNothing, first);
                return None;
            }
            // Only a type annotation can precede it, and it was parsed.
            _ => {
                self.fault(FaultKind::BadType, first);
                return None;
            }
        }
        self.at += 1;
        None
    }

    fn parts(&mut self, node: &mut Node) {
        let mut spaced = false;
        // Scanning the parts each time would be quadratic.
        let (mut blocks, mut live_block, mut entries) = (false, false, false);
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Space => {
                    self.at += 1;
                    spaced = true;
                    continue;
                }
                Kind::BlockComment => {
                    self.at += 1;
                    node.parts.push(Part::Comment(token));
                    spaced = true;
                    continue;
                }
                Kind::Escline => {
                    self.at += 1;
                    node.parts.push(Part::Break(token));
                    spaced = true;
                    continue;
                }
                Kind::Newline | Kind::Close => return,
                Kind::Semicolon => {
                    self.at += 1;
                    node.comment = self.trailing_comment();
                    return;
                }
                Kind::LineComment => {
                    self.at += 1;
                    node.comment = Some(token);
                    return;
                }
                Kind::Open => {
                    if live_block {
                        self.fault(FaultKind::SecondBlock, token);
                    }
                    (blocks, live_block) = (true, true);
                    let block = self.block(false);
                    node.end = block.end;
                    node.parts.push(Part::Block(block));
                    // An inserted closing brace ends the line too.
                    if self.tokens.get(self.at.saturating_sub(1)).is_none_or(|close| close.start == close.end)
                    {
                        return;
                    }
                }
                Kind::Slashdash => {
                    if !spaced {
                        self.fault(FaultKind::MissingSpace, token);
                    }
                    self.slashdashed(node, blocks);
                    match node.parts.last() {
                        Some(Part::Block(_)) => blocks = true,
                        Some(Part::Entry(_)) => entries = true,
                        Some(Part::Comment(_) | Part::Break(_)) | None => {}
                    }
                }
                Kind::Equals => {
                    let first = !entries && !blocks;
                    let name = (node.name.start, node.name.end);
                    let kind = if first { FaultKind::NodeEquals } else { FaultKind::StrayEquals };
                    self.faults.push(Fault { other: Some(name), ..Fault::new(kind, token.start, token.end) });
                    self.at += 1;
                    spaced = true;
                    continue;
                }
                Kind::ParenClose => {
                    self.fault(FaultKind::StrayParen, token);
                    self.at += 1;
                    spaced = true;
                    continue;
                }
                _ if blocks => {
                    self.fault(FaultKind::MissingTerminator, token);
                    return;
                }
                _ => {
                    // A token with a fault is not reported again for touching the one before it.
                    if !spaced && !matches!(token.kind, Kind::Broken | Kind::Unclosed) {
                        self.fault(FaultKind::MissingSpace, token);
                    }
                    if !spaced && token.kind == Kind::Unclosed && self.closes_unopened_string(node, token) {
                        continue;
                    }
                    if let Some(entry) = self.entry() {
                        node.end = entry.end;
                        node.parts.push(Part::Entry(entry));
                        entries = true;
                    }
                }
            }
            spaced = false;
        }
    }

    /// Handles `region us-west-2"`: the quote belongs to the value before it, whose opening quote is missing.
    /// That is one fault, and the rest of the line, which the quote includes, is not a separate value.
    fn closes_unopened_string(&mut self, node: &mut Node, quote: Token) -> bool {
        let (value, recovered) = match node.parts.last_mut() {
            Some(Part::Entry(Entry { value: Some(value), recovered, .. })) => (&*value, Some(recovered)),
            Some(_) => return false,
            None => (&node.name, None),
        };
        let opened = (value.start, value.end);
        // The faults of the lexer come first, in the order of the text.
        let lexed = self.faults.get_mut(..self.lexed).unwrap_or(&mut []);
        let at = lexed.partition_point(|fault| fault.start < quote.start);
        let is_quote =
            |fault: &&mut Fault| fault.kind == FaultKind::UnclosedString && fault.start == quote.start;
        let Some(fault) = lexed.get_mut(at).filter(is_quote).filter(|_| opened.1 == quote.start) else {
            return false;
        };
        fault.kind = FaultKind::UnopenedString;
        fault.other = Some(opened);
        // A `NeedsQuotes` fault of the value is the same fault.
        let fault = *fault;
        let needs =
            |fault: &&mut Fault| fault.kind == FaultKind::NeedsQuotes && (fault.start, fault.end) == opened;
        let before = at.checked_sub(1).and_then(|before| lexed.get_mut(before));
        if let Some(same) = before.filter(needs) {
            *same = fault;
        } else if let Some(same) = self.faults.last_mut().filter(needs) {
            *same = fault;
        }
        if let Some(recovered) = recovered {
            *recovered = true;
        }
        self.at += 1;
        true
    }

    /// Parses a line comment that is the rest of this line.
    fn trailing_comment(&mut self) -> Option<Token> {
        let ahead = self.tokens.get(self.at..)?.iter().position(|token| token.kind != Kind::Space)?;
        let token =
            self.tokens.get(self.at + ahead).copied().filter(|token| token.kind == Kind::LineComment)?;
        self.at += ahead + 1;
        Some(token)
    }

    fn slashdashed(&mut self, node: &mut Node, blocks: bool) {
        let Some(slashdash) = self.peek() else { return };
        self.at += 1;
        let mut comments = Vec::new();
        self.skip_trivia(true, &mut comments);
        for token in comments {
            node.parts.push(if token.kind == Kind::Escline {
                Part::Break(token)
            } else {
                Part::Comment(token)
            });
        }
        match self.peek_kind() {
            Some(Kind::Open) => {
                let block = Block { start: slashdash.start, ..self.block(true) };
                node.end = block.end;
                node.parts.push(Part::Block(block));
            }
            Some(kind) if kind.is_value() || kind == Kind::ParenOpen => {
                if blocks && let Some(token) = self.peek() {
                    self.fault(FaultKind::MissingTerminator, token);
                }
                if let Some(entry) = self.entry() {
                    let entry = Entry { slashdash: true, start: slashdash.start, ..entry };
                    node.end = entry.end;
                    node.parts.push(Part::Entry(entry));
                }
            }
            _ => self.fault(FaultKind::SlashdashNothing, slashdash),
        }
    }

    fn block(&mut self, slashdash: bool) -> Block {
        let Some(open) = self.peek() else {
            return Block { slashdash, start: 0, end: 0, items: Vec::new(), comment: None, flat: true };
        };
        self.at += 1;
        let comment = self.trailing_comment();
        let items = self.items();
        let end = self.peek().map_or(self.text.len(), |close| close.end);
        self.at += 1;
        let inside = self.text.get(open.start..end).unwrap_or("");
        Block { slashdash, start: open.start, end, items, comment, flat: !inside.contains(is_newline) }
    }

    /// Parses `(name)`; anything else in the parentheses is reported and skipped.
    fn ty(&mut self) -> Option<Type> {
        let open = self.peek().filter(|token| token.kind == Kind::ParenOpen)?;
        self.at += 1;
        let mut comments = Vec::new();
        self.skip_trivia(false, &mut comments);
        let name = self.peek().filter(|token| token.kind.is_string());
        if name.is_some() {
            self.at += 1;
        }
        self.skip_trivia(false, &mut comments);
        if let Some(close) = self.peek().filter(|token| token.kind == Kind::ParenClose && name.is_some()) {
            self.at += 1;
            return Some(Type { start: open.start, end: close.end, name });
        }
        let mut end = name.map_or(open.end, |name| name.end);
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Newline
                | Kind::LineComment
                | Kind::Semicolon
                | Kind::Open
                | Kind::Close
                | Kind::ParenOpen => break,
                Kind::ParenClose => {
                    self.at += 1;
                    end = token.end;
                    break;
                }
                _ if name.is_some() => break,
                _ => {
                    self.at += 1;
                    end = token.end;
                }
            }
        }
        self.faults.push(Fault::new(FaultKind::BadType, open.start, end));
        Some(Type { start: open.start, end, name: None })
    }

    fn entry(&mut self) -> Option<Entry> {
        let first = self.peek()?;
        let mut entry = Entry {
            slashdash: false,
            key: None,
            ty: None,
            value: None,
            start: first.start,
            end: first.end,
            has_trivia: false,
            recovered: false,
        };
        let mut inside = Vec::new();
        if first.kind.is_value() {
            self.at += 1;
            let after = self.at;
            entry.has_trivia = self.skip_trivia(false, &mut inside);
            if let Some(equals) = self.peek().filter(|token| token.kind == Kind::Equals) {
                self.at += 1;
                match first.kind {
                    Kind::BareKeyword => self.fault(FaultKind::KeywordAsName, first),
                    Kind::Number | Kind::Keyword => self.fault(FaultKind::NotAName, first),
                    _ => {}
                }
                entry.key = Some(first);
                entry.recovered = !first.kind.is_string();
                entry.end = equals.end;
                let after_equals = self.at;
                entry.has_trivia |= self.skip_trivia(false, &mut inside);
                if !self.peek_kind().is_some_and(|kind| kind.is_value() || kind == Kind::ParenOpen) {
                    self.at = after_equals;
                    entry.has_trivia = false;
                    entry.recovered = true;
                    self.faults.push(Fault::new(FaultKind::MissingValue, first.start, equals.end));
                    return Some(entry);
                }
            } else {
                self.at = after;
                entry.has_trivia = false;
                self.value(&mut entry, first);
                return Some(entry);
            }
        }
        entry.ty = self.ty();
        if let Some(ty) = entry.ty {
            entry.end = ty.end;
            entry.recovered |= ty.name.is_none();
            let after = self.at;
            let has_trivia = self.skip_trivia(false, &mut inside);
            let is_typed = |next: &Token| next.kind.is_value() && (ty.name.is_some() || next.start == ty.end);
            if self.peek().as_ref().is_some_and(is_typed) {
                entry.has_trivia |= has_trivia;
            } else {
                self.at = after;
                if ty.name.is_some() {
                    self.faults.push(Fault::new(FaultKind::MissingValue, entry.start, ty.end));
                }
                entry.recovered = true;
                return (entry.key.is_some() || ty.name.is_none()).then_some(entry);
            }
            entry.has_trivia |=
                self.text.get(ty.start..ty.end).is_some_and(|text| text.contains(['/', '\\']));
        }
        let value = self.peek().filter(|token| token.kind.is_value())?;
        self.at += 1;
        self.value(&mut entry, value);
        Some(entry)
    }

    fn value(&mut self, entry: &mut Entry, token: Token) {
        let mut token = token;
        match token.kind {
            Kind::BareKeyword => self.fault(FaultKind::NeedsHash, token),
            Kind::Broken | Kind::Unclosed => entry.recovered = true,
            Kind::Number => {
                if let Some(unit) = self.unit() {
                    self.at += 2;
                    token = Token { kind: Kind::Broken, start: token.start, end: unit.end };
                    entry.recovered = true;
                    self.fault(FaultKind::NeedsQuotes, token);
                } else {
                    entry.recovered |=
                        matches!(literal::number(self.slice(token)), literal::Number::TooLarge);
                }
            }
            _ => {}
        }
        entry.value = Some(token);
        entry.end = token.end;
    }

    /// Returns the unit after a number and a space: `200 steps`.
    fn unit(&self) -> Option<Token> {
        let space = self.tokens.get(self.at)?;
        let word = self.tokens.get(self.at + 1).copied()?;
        let next = self.tokens.get(self.at + 2).map(|token| token.kind);
        let fits = space.kind == Kind::Space
            && word.kind == Kind::Word
            && space.end - space.start > 0
            && next != Some(Kind::Equals)
            && UNIT_WORDS.contains(&self.slice(word));
        fits.then_some(word)
    }
}
