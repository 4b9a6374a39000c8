//! The rules, one file each: a declaration, a function, and its tests. This file only lists them.

use super::Rule;
use crate::diag::Code;

mod source;

/// Every rule, in the order in which they run (the order does not matter).
pub static RULES: &[Rule] = &[source::rule];

/// The codes of all rules.
pub(super) fn codes() -> Vec<&'static Code> {
    [source::CODES].concat()
}
