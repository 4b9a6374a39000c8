//! Balances braces: finds the unmatched brace and the place of its missing partner.
//!
//! In: tokens. Out: tokens with balanced braces, with empty tokens for the missing ones, and faults. The
//! indentation shows where a block should end; it is used only if the braces are unbalanced.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "token kinds that a match does not list are treated alike"
)]

use super::fault::{Fault, FaultKind};
use super::lexer::{Kind, Token};

struct Pairs {
    faults: Vec<Fault>,
    /// Missing braces to insert before the token of that index.
    inserts: Vec<(usize, Token)>,
    /// Indices of unmatched closing braces.
    dropped: Vec<usize>,
}

/// Balances the braces of a token list.
pub(super) fn balance(text: &str, tokens: Vec<Token>) -> (Vec<Token>, Vec<Fault>) {
    let plain = pair_by_order(&tokens);
    if plain.faults.is_empty() {
        return (tokens, plain.faults);
    }
    let guided = pair_by_indentation(text, &tokens, &plain);
    let best = if guided.faults.len() <= plain.faults.len() { guided } else { plain };
    let mut inserts = best.inserts;
    inserts.sort_by_key(|&(before, _)| before);
    let mut inserts = inserts.into_iter().peekable();
    let mut dropped = best.dropped.into_iter().peekable();
    let mut out = Vec::with_capacity(tokens.len() + 8);
    for (index, token) in tokens.into_iter().enumerate() {
        while let Some((_, partner)) = inserts.next_if(|&(before, _)| before == index) {
            out.push(partner);
        }
        if dropped.next_if_eq(&index).is_some() {
            out.push(Token { kind: Kind::Space, ..token });
        } else {
            out.push(token);
        }
    }
    out.extend(inserts.map(|(_, partner)| partner));
    (out, best.faults)
}

fn pair_by_order(tokens: &[Token]) -> Pairs {
    let mut pairs = Pairs { faults: Vec::new(), inserts: Vec::new(), dropped: Vec::new() };
    let mut open: Vec<Token> = Vec::new();
    for (index, &token) in tokens.iter().enumerate() {
        if token.kind == Kind::Open {
            open.push(token);
        } else if token.kind == Kind::Close && open.pop().is_none() {
            pairs.faults.push(Fault::new(FaultKind::SurplusBrace, token.start, token.end));
            pairs.dropped.push(index);
        }
    }
    pairs.close_all(tokens, open);
    pairs
}

impl Pairs {
    fn close_all(&mut self, tokens: &[Token], open: Vec<Token>) {
        let end = tokens.last().map_or(0, |last| last.end);
        for brace in open.into_iter().rev() {
            self.faults.push(Fault::new(FaultKind::UnclosedBrace, brace.start, brace.end));
            self.inserts.push((tokens.len(), Token { kind: Kind::Close, start: end, end }));
        }
    }

    fn close_before(&mut self, index: usize, token: Token, brace: Token) {
        self.faults.push(Fault {
            other: Some((token.start, token.end)),
            ..Fault::new(FaultKind::UnclosedBrace, brace.start, brace.end)
        });
        self.inserts.push((index, Token { kind: Kind::Close, start: token.start, end: token.start }));
    }
}

/// A line that starts a node: its indentation, its first token, and the token that ends it.
#[derive(Clone, Copy)]
struct Line {
    indent: usize,
    first: Token,
    /// Index of the token that ends the line, once known.
    end: Option<usize>,
    /// Index of its last token other than spaces and comments.
    last: usize,
    /// More deeply indented lines follow it.
    deeper: bool,
}

/// Returns the indentation and the first token of the next line that has one.
fn next_line(text: &str, tokens: &[Token], from: usize) -> Option<(usize, Token)> {
    let mut line_start = None;
    for token in tokens.get(from + 1..)? {
        match token.kind {
            Kind::Newline => line_start = Some(token.end),
            Kind::Space | Kind::LineComment | Kind::BlockComment => {}
            _ => {
                // A token on the line of the brace is another fault.
                let blanks = text.get(line_start?..token.start)?;
                return Some((blanks.chars().count(), *token));
            }
        }
    }
    None
}

fn pair_by_indentation(text: &str, tokens: &[Token], plain: &Pairs) -> Pairs {
    let mut unclosed_left =
        plain.faults.iter().filter(|fault| fault.kind == FaultKind::UnclosedBrace).count();
    let mut surplus_left = plain.faults.len() - unclosed_left;
    let mut pairs = Pairs { faults: Vec::new(), inserts: Vec::new(), dropped: Vec::new() };
    let mut open: Vec<(Token, usize)> = Vec::new();
    // Lines that enclose the current one by their indentation, outermost first.
    let mut lines: Vec<Line> = Vec::new();
    let mut line_start = 0;
    let mut at_start = true;
    let mut indent = 0;
    for (index, &token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Newline => {
                if let Some(line) = lines.last_mut() {
                    line.end.get_or_insert(index);
                }
                line_start = token.end;
                at_start = true;
                continue;
            }
            Kind::Escline => {
                at_start = false;
                continue;
            }
            Kind::Space | Kind::LineComment | Kind::BlockComment => continue,
            _ => {}
        }
        let first = std::mem::replace(&mut at_start, false);
        if first {
            indent = text.get(line_start..token.start).map_or(0, |blanks| blanks.chars().count());
        }
        if first && token.kind != Kind::Close && token.kind != Kind::Open {
            while unclosed_left > 0 && open.last().is_some_and(|&(_, of)| of >= indent) {
                let Some((brace, _)) = open.pop() else { break };
                pairs.close_before(index, token, brace);
                unclosed_left -= 1;
            }
        }
        if token.kind == Kind::Close {
            while first && unclosed_left > 0 && open.last().is_some_and(|&(_, of)| of > indent) {
                let Some((brace, _)) = open.pop() else { break };
                pairs.close_before(index, token, brace);
                unclosed_left -= 1;
            }
            let deeper = first && surplus_left > 0 && open.last().is_some_and(|&(_, of)| of < indent);
            // `}}` in the middle of a block: the lines after it are still inside the block that it would
            // close.
            if let Some(other) =
                open.last().filter(|_| surplus_left > 0 && !deeper).and_then(|&(brace, of)| {
                    let (indent, next) = next_line(text, tokens, index)?;
                    match next.kind {
                        Kind::Close => (!first && indent == of).then_some(None),
                        _ => (indent > of).then_some(Some((brace.start, token.end))),
                    }
                })
            {
                surplus_left -= 1;
                pairs
                    .faults
                    .push(Fault { other, ..Fault::new(FaultKind::SurplusBrace, token.start, token.end) });
                pairs.dropped.push(index);
                continue;
            }
            if deeper || open.is_empty() {
                surplus_left = surplus_left.saturating_sub(1);
                while lines.last().is_some_and(|line| line.indent > indent) {
                    lines.pop();
                }
                pairs.surplus(
                    index,
                    token,
                    tokens,
                    lines.last().copied().filter(|line| first && line.indent == indent),
                );
            } else {
                open.pop();
            }
            continue;
        }
        if first {
            while lines.last().is_some_and(|line| line.indent >= indent) {
                lines.pop();
            }
            if let Some(outer) = lines.last_mut() {
                outer.deeper = true;
            }
            lines.push(Line { indent, first: token, end: None, last: index, deeper: false });
        } else if let Some(line) = lines.last_mut().filter(|line| line.end.is_none()) {
            line.last = index;
        }
        if token.kind == Kind::Open {
            open.push((token, indent));
        }
    }
    pairs.close_all(tokens, open.into_iter().map(|(brace, _)| brace).collect());
    pairs.dropped.sort_unstable();
    pairs
}

impl Pairs {
    /// Handles a surplus closing brace. An earlier line with the same indentation and deeper lines after it
    /// may be missing its `{`: then the block is read as if it had one.
    fn surplus(&mut self, index: usize, token: Token, tokens: &[Token], opener: Option<Line>) {
        let fault = Fault::new(FaultKind::SurplusBrace, token.start, token.end);
        let early = opener.filter(|line| line.deeper).and_then(|line| {
            tokens.get(line.last).filter(|last| last.kind == Kind::Open)?;
            let behind = tokens.get(line.last + 1..)?.iter();
            let at = line.last + 1 + behind.take_while(|token| token.kind == Kind::Space).count();
            Some((at, *tokens.get(at).filter(|brace| brace.kind == Kind::Close)?, line.first))
        });
        let opener = opener.and_then(|line| {
            let end = line.end?;
            let last = tokens.get(line.last)?;
            // Deeper lines follow, and the line opened no block.
            let lacks_brace = line.first.kind.is_string()
                && !matches!(last.kind, Kind::Open | Kind::Close | Kind::Semicolon);
            (line.deeper && lacks_brace).then_some((line, end, last.end))
        });
        if let Some((index, brace, first)) = early {
            // `program "train.py" {}` followed by the lines of the block: both braces close the same block.
            self.faults.push(Fault {
                other: Some((first.start, brace.end)),
                ..Fault::new(FaultKind::SurplusBrace, brace.start, brace.end)
            });
            self.dropped.push(index);
        } else if let Some((line, end, at)) = opener {
            self.faults.push(Fault { other: Some((line.first.start, at)), ..fault });
            self.inserts.push((end, Token { kind: Kind::Open, start: at, end: at }));
        } else {
            self.faults.push(fault);
            self.dropped.push(index);
        }
    }
}
