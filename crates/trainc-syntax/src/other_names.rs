//! The table of other tools' names, `other_names.tsv`, which describes its columns.

use std::sync::LazyLock;

/// What a name is in the other tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A member of the API, or an argument of the SDK.
    Member,
    /// A node.
    Node,
    /// A node that is a property in trainc.
    PropertyNode,
    /// A property.
    Property,
    /// A word.
    Value,
    /// An engine.
    Engine,
    /// A setting that the language does not support.
    Setting,
}

/// A name of another tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// What it is.
    pub(super) kind: Kind,
    /// The name, as the other tool spells it.
    pub(super) name: &'static str,
    /// The node, property or word that it is, if there is one.
    pub(super) ours: Option<&'static str>,
    /// What to write, or an explanation.
    pub(super) text: &'static str,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let lines = include_str!("other_names.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(row).collect()
});

fn row(line: &'static str) -> Option<Row> {
    let mut columns = line.split('\t');
    let kind = match columns.next()? {
        "member" => Kind::Member,
        "node" => Kind::Node,
        "node=" => Kind::PropertyNode,
        "property" => Kind::Property,
        "value" => Kind::Value,
        "engine" => Kind::Engine,
        "setting" => Kind::Setting,
        _ => return None,
    };
    let (name, ours, text) = (columns.next()?, columns.next()?, columns.next()?);
    Some(Row { kind, name, ours: Some(ours).filter(|ours| *ours != "-"), text })
}

/// Returns the rows of some kinds.
fn rows(kinds: &[Kind]) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| kinds.contains(&row.kind))
}

/// Returns a name without case, hyphens and underscores: `instance_type` and `InstanceType` are one name.
pub fn plain_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Returns the row of a name in any spelling.
pub(super) fn find(kinds: &[Kind], name: &str) -> Option<&'static Row> {
    let plain = plain_name(name);
    rows(kinds).find(|row| plain_name(row.name) == plain)
}

/// Returns the row of a word in this spelling.
pub(super) fn find_exact(kind: Kind, word: &str) -> Option<&'static Row> {
    rows(&[kind]).find(|row| row.name == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read_and_found() {
        let lines = include_str!("other_names.tsv").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.count(), ROWS.len());
        for row in ROWS.iter() {
            let found = match row.kind {
                Kind::Value | Kind::Engine => find_exact(row.kind, row.name),
                _ => find(&[row.kind], row.name),
            };
            assert_eq!(found.map(|found| found.name), Some(row.name), "two rows have one name");
        }
    }
}
