//! The expressions of the tables of model types: whole numbers, texts and lists, with fields by name.
//!
//! Operators as in C: `? :`, `||`, `&&`, comparisons, `+ - * / %`, `!`, parentheses, `x[i]`; functions
//! `in(list, x)`, `len(list)`, `list(x, i)` (an element if `x` is a list, else `x`), `count(list, x, n)` (the
//! `x` among the first `n`) and `ceil_to(x, multiple)`. Division rounds down. `in(text, x)` looks for a part
//! of a text.

use std::fmt;

/// A value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Int(i128),
    Text(String),
    List(Vec<Self>),
}

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The config lacks the field, and the field has no default.
    Missing(String),
    /// The field has a value of another kind than the expression needs.
    Kind(String),
    /// A problem that was reported already.
    Reported,
    /// A number above 10^36, or a division by zero.
    Overflow,
    /// The expression of the table is malformed, which a test excludes.
    Malformed(String),
}

/// The fields that an expression can name.
pub(super) trait Names {
    /// Returns the value of a field.
    fn look_up(&self, name: &str) -> Result<Term, Fault>;
}

const MAX: i128 = 1_000_000_000_000_000_000_000_000_000_000_000_000;

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{text}"),
            Self::List(list) => write!(f, "a list of {}", list.len()),
        }
    }
}

/// Evaluates an expression.
pub(super) fn evaluate(text: &str, names: &dyn Names) -> Result<Term, Fault> {
    let mut parser = Parser { text, rest: text, names };
    let value = parser.choice(true)?;
    parser.skip();
    if parser.rest.is_empty() { Ok(value) } else { Err(parser.malformed()) }
}

/// Evaluates an expression whose value is a whole number of at least 0.
pub(super) fn count(text: &str, names: &dyn Names) -> Result<u64, Fault> {
    match evaluate(text, names)? {
        Term::Int(value) => u64::try_from(value).map_err(|_| Fault::Overflow),
        Term::Text(_) | Term::List(_) => Err(Fault::Kind(text.to_owned())),
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    names: &'a dyn Names,
}

impl Parser<'_> {
    fn malformed(&self) -> Fault {
        Fault::Malformed(format!("`{}` at `{}`", self.text, self.rest))
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), Fault> {
        if self.take(token) { Ok(()) } else { Err(self.malformed()) }
    }

    fn choice(&mut self, live: bool) -> Result<Term, Fault> {
        let condition = self.any(live)?;
        if !self.take("?") {
            return Ok(condition);
        }
        let holds = live && truth(&condition);
        let then = self.choice(holds)?;
        self.expect(":")?;
        let otherwise = self.choice(live && !holds)?;
        Ok(if holds { then } else { otherwise })
    }

    fn any(&mut self, live: bool) -> Result<Term, Fault> {
        let mut left = self.all(live)?;
        while self.take("||") {
            let known = live && truth(&left);
            let right = self.all(live && !known)?;
            left = flag(known || truth(&right));
        }
        Ok(left)
    }

    fn all(&mut self, live: bool) -> Result<Term, Fault> {
        let mut left = self.comparison(live)?;
        while self.take("&&") {
            let possible = live && truth(&left);
            let right = self.comparison(possible)?;
            left = flag(possible && truth(&right));
        }
        Ok(left)
    }

    fn comparison(&mut self, live: bool) -> Result<Term, Fault> {
        let left = self.sum(live)?;
        for operator in ["==", "!=", "<=", ">=", "<", ">"] {
            if !self.take(operator) {
                continue;
            }
            let right = self.sum(live)?;
            return Ok(flag(match operator {
                "==" => left == right,
                "!=" => left != right,
                _ => {
                    let (left, right) = (self.int(left, live)?, self.int(right, live)?);
                    match operator {
                        "<=" => left <= right,
                        ">=" => left >= right,
                        "<" => left < right,
                        _ => left > right,
                    }
                }
            }));
        }
        Ok(left)
    }

    fn sum(&mut self, live: bool) -> Result<Term, Fault> {
        let mut left = self.product(live)?;
        loop {
            let sign = if self.take("+") {
                1
            } else if self.take("-") {
                -1
            } else {
                return Ok(left);
            };
            let right = self.product(live)?;
            let (a, b) = (self.int(left, live)?, self.int(right, live)?);
            left = bounded(a.saturating_add(b.saturating_mul(sign)))?;
        }
    }

    fn product(&mut self, live: bool) -> Result<Term, Fault> {
        let mut left = self.unary(live)?;
        loop {
            let operator = ["*", "/", "%"].into_iter().find(|operator| self.take(operator));
            let Some(operator) = operator else { return Ok(left) };
            let right = self.unary(live)?;
            let (a, b) = (self.int(left, live)?, self.int(right, live)?);
            let value = match operator {
                "*" => a.checked_mul(b),
                // What is not evaluated has no value to divide by.
                _ if !live => Some(0),
                "/" => a.checked_div(b),
                _ => a.checked_rem(b),
            };
            left = bounded(value.ok_or(Fault::Overflow)?)?;
        }
    }

    fn unary(&mut self, live: bool) -> Result<Term, Fault> {
        self.skip();
        if !self.rest.starts_with("!=") && self.take("!") {
            let value = self.unary(live)?;
            return Ok(flag(!truth(&value)));
        }
        let mut value = self.atom(live)?;
        while self.take("[") {
            let at = self.choice(live)?;
            self.expect("]")?;
            value = if live { self.element(&value, at)? } else { Term::Int(0) };
        }
        Ok(value)
    }

    fn element(&self, value: &Term, at: Term) -> Result<Term, Fault> {
        let at = usize::try_from(self.int(at, true)?).map_err(|_| Fault::Overflow)?;
        let found = match value {
            Term::List(list) => list.get(at).cloned(),
            // A pattern such as `M-M*`: one letter a layer.
            Term::Text(text) => text.chars().nth(at).map(|letter| Term::Text(letter.to_string())),
            Term::Int(_) => None,
        };
        found.ok_or_else(|| Fault::Kind(self.text.to_owned()))
    }

    fn atom(&mut self, live: bool) -> Result<Term, Fault> {
        self.skip();
        if self.take("(") {
            let value = self.choice(live)?;
            self.expect(")")?;
            return Ok(value);
        }
        if self.take("'") {
            let Some((text, rest)) = self.rest.split_once('\'') else { return Err(self.malformed()) };
            self.rest = rest;
            return Ok(Term::Text(text.to_owned()));
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let Some((word, rest)) = self.rest.split_at_checked(end).filter(|(word, _)| !word.is_empty()) else {
            return Err(self.malformed());
        };
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map(Term::Int).map_err(|_| self.malformed());
        }
        if matches!(word, "in" | "len" | "list" | "count" | "ceil_to") && self.take("(") {
            let mut arguments = vec![self.choice(live)?];
            while self.take(",") {
                arguments.push(self.choice(live)?);
            }
            self.expect(")")?;
            return if live { self.call(word, &arguments) } else { Ok(Term::Int(0)) };
        }
        if live { self.names.look_up(word) } else { Ok(Term::Int(0)) }
    }

    fn call(&self, function: &str, arguments: &[Term]) -> Result<Term, Fault> {
        match (function, arguments) {
            ("in", [Term::List(list), wanted]) => Ok(flag(list.contains(wanted))),
            // Names in one text: `p2c|c2p`.
            ("in", [Term::Text(text), Term::Text(wanted)]) => Ok(flag(text.contains(wanted))),
            // `mlp_only_layers: null`, or one number instead of a list.
            ("in", [one, wanted]) => Ok(flag(one == wanted)),
            ("len", [Term::List(list)]) => Ok(Term::Int(i128::try_from(list.len()).unwrap_or(MAX))),
            // One number instead of a list.
            ("len", [Term::Int(_)]) => Ok(Term::Int(1)),
            ("len", [Term::Text(text)]) => Ok(Term::Int(i128::try_from(text.chars().count()).unwrap_or(MAX))),
            ("list", [value @ Term::List(_), at]) => self.element(value, at.clone()),
            ("list", [value, _]) => Ok(value.clone()),
            ("count", [Term::List(list), wanted, Term::Int(before)]) => {
                let before = usize::try_from(*before).unwrap_or(0);
                let found = list.iter().take(before).filter(|element| *element == wanted).count();
                Ok(Term::Int(i128::try_from(found).unwrap_or(MAX)))
            }
            ("ceil_to", [Term::Int(value), Term::Int(multiple)]) if *multiple > 0 => {
                let up = value.saturating_add(multiple.saturating_sub(1));
                bounded(up / multiple * multiple)
            }
            _ => Err(Fault::Kind(self.text.to_owned())),
        }
    }

    fn int(&self, term: Term, live: bool) -> Result<i128, Fault> {
        match term {
            Term::Int(value) => Ok(value),
            Term::Text(_) | Term::List(_) if live => Err(Fault::Kind(self.text.to_owned())),
            Term::Text(_) | Term::List(_) => Ok(0),
        }
    }
}

fn bounded(value: i128) -> Result<Term, Fault> {
    if value.abs() > MAX { Err(Fault::Overflow) } else { Ok(Term::Int(value)) }
}

fn flag(value: bool) -> Term {
    Term::Int(i128::from(value))
}

/// Returns whether a condition holds: 0, an empty text and an empty list do not.
pub(super) fn truth(term: &Term) -> bool {
    match term {
        Term::Int(value) => *value != 0,
        Term::Text(text) => !text.is_empty(),
        Term::List(list) => !list.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fields;

    impl Names for Fields {
        fn look_up(&self, name: &str) -> Result<Term, Fault> {
            Ok(match name {
                "hidden" => Term::Int(4_096),
                "i" => Term::Int(3),
                "kinds" => Term::List(["a", "b", "a", "c"].map(|kind| Term::Text(kind.to_owned())).to_vec()),
                "pattern" => Term::Text("M-M*".to_owned()),
                _ => return Err(Fault::Missing(name.to_owned())),
            })
        }
    }

    #[test]
    fn values() {
        for (text, value) in [
            ("2 * hidden + 4 / 3", 8_193),
            ("ceil_to(8 * hidden / 3, 256)", 11_008),
            ("kinds[i] == 'c' && pattern[i] == '*'", 1),
            ("(i + 1) % 4 == 0 ? hidden : absent", 4_096),
            ("i > 5 && absent > 3", 0),
            ("i < 5 || absent[2] / 0 == 1", 1),
            ("!in(kinds, 'c')", 0),
            ("len(kinds) - len(pattern)", 0),
            ("list(hidden, i) / (1 - 0 - 3)", -2_048),
            ("0 ? 1 / 0 : 7", 7),
        ] {
            assert_eq!(evaluate(text, &Fields), Ok(Term::Int(value)), "{text}");
        }
    }

    #[test]
    fn faults() {
        let fault = |text: &str| evaluate(text, &Fields).unwrap_err();
        assert_eq!(fault("2 * absent"), Fault::Missing("absent".to_owned()));
        assert_eq!(fault("hidden / (i - 3)"), Fault::Overflow);
        assert_eq!(fault("kinds[9]"), Fault::Kind("kinds[9]".to_owned()));
        assert_eq!(fault("kinds + 1"), Fault::Kind("kinds + 1".to_owned()));
        assert!(matches!(fault("(hidden"), Fault::Malformed(_)));
        assert!(matches!(fault("hidden hidden"), Fault::Malformed(_)));
        assert_eq!(count("i - 9", &Fields), Err(Fault::Overflow));
    }
}
