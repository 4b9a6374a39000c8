//! Mistakes of syntax, found by the lexer and the tree; `fault_messages` words them.

/// The kind of a syntax error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// A number followed by other characters, or a path: needs quotes.
    NeedsQuotes,
    /// `true` for `#true`, as a value.
    NeedsHash,
    /// `true` as the name of a node or property.
    KeywordAsName,
    /// `'text'`.
    SingleQuotes,
    /// Typographic quotes.
    CurlyQuotes,
    UnclosedString,
    /// A closing quote without an opening one; `other` is the value before it.
    UnopenedString,
    UnclosedMulti,
    UnclosedComment,
    UnclosedBrace,
    SurplusBrace,
    NumberTooLarge,
    BadEscape,
    /// `"""` with text on its line.
    MultiStart,
    /// Text before the closing `"""`.
    MultiEnd,
    /// A line that does not start with the indentation of the last.
    MultiIndent,
    /// `#"""#`.
    RawQuote,
    /// `r"…"` of KDL 1.
    OldRaw,
    /// `# text`.
    HashComment,
    /// `#yes`.
    UnknownKeyword,
    BadCharacter,
    StrayBackslash,
    Comma,
    /// Between two nodes of one line.
    CommaForSemicolon,
    /// `betas=[0.9, 0.95]`.
    BracketValue,
    Bracket,
    StrayEquals,
    DoubleEquals,
    /// `region = "…"`.
    NodeEquals,
    StrayParen,
    BadType,
    MissingValue,
    MissingSpace,
    MissingTerminator,
    /// `{` with no node before it.
    BlockWithoutNode,
    /// `{` on the line after its node.
    BlockOnOwnLine,
    SecondBlock,
    NotAName,
    SlashdashNothing,
    StraySemicolon,
}

/// A syntax error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// A second span, for some kinds.
    pub(super) other: Option<(usize, usize)>,
}

impl Fault {
    pub(super) fn new(kind: FaultKind, start: usize, end: usize) -> Self {
        Self { kind, start, end, other: None }
    }
}
