//! Which codes are reported at which node. The file is written by the test of docs/language.md from the cases
//! of all codes, each compiled: a problem is about the node or the value that it is reported at.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static CODES: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let rows = include_str!("codes.csv").lines().skip(1).filter_map(|row| row.split_once(','));
    rows.map(|(path, ids)| (path, ids.split(' ').collect())).collect()
});

/// Returns the IDs of the codes that are reported at a node or a value.
pub fn codes_at(path: &str) -> &'static [&'static str] {
    CODES.get(path).map_or(&[], Vec::as_slice)
}

/// Returns all paths with codes.
pub fn nodes_with_codes() -> impl Iterator<Item = &'static str> {
    CODES.keys().copied()
}
