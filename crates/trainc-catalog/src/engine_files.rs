//! Keys of the files that launchers and programs read, and rules between them.
//!
//! A table of keys serves both directions: it says which key of a file is which node of a manifest, and how
//! trainc writes the file. Values of the form "expression" are minijinja expressions over `value` (of the
//! key itself), `file` (values of the file by key path, with defaults), `keys` (the paths that the file
//! itself has, blocks included), `plan`, `model` and `versions`; in a rule, `message` and `help` are
//! templates over the same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;
use trainc_diag::Severity;

use super::images::version_key;
use super::table::Table;
use trainc_ir::Scalar;

pub(crate) static ACCELERATE: Table =
    Table::new("accelerate-keys", include_str!("data/engines/accelerate.toml"));
pub(crate) static DEEPSPEED: Table =
    Table::new("deepspeed-keys", include_str!("data/engines/deepspeed.toml"));
pub(crate) static DISTRIBUTED: Table =
    Table::new("distributed-config-keys", include_str!("data/engines/distributed-config.toml"));
pub(crate) static TORCHTITAN: Table =
    Table::new("torchtitan-keys", include_str!("data/engines/torchtitan.toml"));
pub(crate) static TRAINER: Table =
    Table::new("training-arguments-keys", include_str!("data/engines/training-arguments.toml"));
pub(crate) static RULES: Table = Table::new("engine-rules", include_str!("data/engines/rules.toml"));

/// The table of the arguments of a Trainer.
pub const ARGUMENTS: &str = "training-arguments";

/// The syntax of a file, as its program reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// YAML 1.1.
    Yaml,
    /// JSON.
    Json,
    /// TOML.
    Toml,
}

impl fmt::Display for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yaml => "YAML",
            Self::Json => "JSON",
            Self::Toml => "TOML",
        })
    }
}

/// Type of a value in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// `true` or `false`.
    Bool,
    /// Whole number; also a float without a fraction.
    Int,
    /// Number.
    Number,
    /// One of `words`.
    Word,
    /// Text.
    Text,
    /// List of any values.
    List,
    /// Block of keys.
    Map,
    /// Anything.
    Any,
}

/// Whose business a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyOwner {
    /// The file decides.
    #[default]
    File,
    /// The launch script overrides it, so its value is never a problem.
    Launcher,
}

/// What an engine does with keys in a block that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownKeys {
    /// It stops.
    Refused,
    /// It goes on without them.
    Ignored,
    /// It passes them on: the block is free.
    Passed,
}

/// A key of a file. A null value counts as an absent key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRow {
    /// Path in the file, with dots; empty for the file as a whole.
    #[serde(skip)]
    pub key: String,
    /// Other paths that the engine reads.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Type.
    pub kind: KeyKind,
    /// The words that the engine accepts; it refuses others.
    #[serde(default)]
    pub words: Vec<String>,
    /// True if upper and lower case of a word are the same.
    #[serde(default)]
    pub ignore_case: bool,
    /// True if the engine converts what spells a value of the type: `"true"`, `yes`, `"8"`, `1e8`.
    #[serde(default)]
    pub loose: bool,
    /// Minimum of a number.
    pub min: Option<f64>,
    /// Maximum of a number.
    pub max: Option<f64>,
    /// Value that the engine takes if the key is absent.
    pub default: Option<String>,
    /// Later defaults, by the first version that has them.
    #[serde(default)]
    pub default_from: BTreeMap<String, String>,
    /// True if the default of an absent key counts as said: it decides `word`.
    #[serde(default)]
    pub implied: bool,
    /// True if the engine stops without the key.
    #[serde(default)]
    pub required: bool,
    /// True if the word `auto` is accepted.
    #[serde(default)]
    pub auto: bool,
    /// Node of the manifest that says the same: `parallel/strategy`, `train/optimizer` (its argument),
    /// `train/optimizer.lr` (a property).
    pub word: Option<String>,
    /// Values of the manifest, by values of the file that differ from them.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Expression for the manifest's value, instead of the value itself; none if the key says nothing there.
    pub gives: Option<String>,
    /// Further nodes of the manifest that it implies, with their values, where nothing sets them.
    #[serde(default)]
    pub also: BTreeMap<String, String>,
    /// Expression: the engine reads the key only where it is true. On a block it is about all of it.
    pub read_when: Option<String>,
    /// Why the engine does not read the key.
    pub because: Option<String>,
    /// Whose business the key is.
    #[serde(default)]
    pub owner: KeyOwner,
    /// For a block: what happens to keys without a row.
    pub unknown: Option<UnknownKeys>,
    /// Table of the file that the value names, or of the keys in the block.
    pub opens: Option<String>,
    /// On the row of the whole file: conditions with the name of the law of the engine that they select, in
    /// order.
    #[serde(default)]
    pub laws: Vec<(String, String)>,
    /// The engine's text from the version on that no longer accepts the key.
    pub removed: Option<String>,
    /// The engine's text for a value that it refuses.
    pub says: Option<String>,
    /// First version with the key.
    pub since: Option<String>,
    /// First version without the key.
    pub until: Option<String>,
    /// Package of these versions, if it is not the table's.
    pub package: Option<String>,
    /// Expression for the value that trainc writes; nothing is written for none.
    pub write: Option<String>,
    /// File and line that were read.
    pub source: String,
    /// Date of the row.
    pub date: String,
    /// Configurations that the engine itself has judged.
    #[serde(default)]
    pub oracle: Vec<String>,
}

impl KeyRow {
    /// Returns the default in a version of the engine; in the newest one if the version is unknown.
    pub fn default_in(&self, version: Option<&str>) -> Option<&str> {
        let reached = |since: &str| version.is_none_or(|version| version_key(version) >= version_key(since));
        let later = self.default_from.iter().filter(|(since, _)| reached(since));
        let newest = later.max_by_key(|(since, _)| version_key(since)).map(|(_, value)| value);
        newest.or(self.default.as_ref()).map(String::as_str)
    }

    /// Returns the same as a value: `none` is text where the key is a word, and null where it is not.
    pub fn default_value(&self, version: Option<&str>) -> Option<Scalar> {
        let default = self.default_in(version)?;
        Some(match self.kind {
            KeyKind::Word | KeyKind::Text => Scalar::Text(default.to_owned()),
            _ => scalar(default),
        })
    }

    /// Returns whether a version of the engine has the key; the newest one if the version is unknown.
    pub fn is_in(&self, version: Option<&str>) -> bool {
        is_between(version, self.since.as_deref(), self.until.as_deref())
    }
}

/// All keys of the files of one engine.
#[derive(Debug)]
pub struct KeyTable {
    /// The name of the engine or the form of the file.
    pub name: &'static str,
    /// Package whose versions the rows mean.
    pub package: &'static str,
    /// The syntax of the file.
    pub syntax: Syntax,
    /// The rows, in the order in which a file is written.
    pub rows: Vec<KeyRow>,
}

impl KeyTable {
    /// Returns the row of a path, by its own name or an alias.
    pub fn find(&self, path: &str) -> Option<&KeyRow> {
        let named = self.rows.iter().find(|row| row.key == path);
        named.or_else(|| self.rows.iter().find(|row| row.aliases.iter().any(|alias| alias == path)))
    }

    /// Returns the package whose versions a row means.
    pub fn package_of<'a>(&'a self, row: &'a KeyRow) -> &'a str {
        row.package.as_deref().unwrap_or(self.package)
    }

    /// Returns what the engine does with a key that has no row, in a block or, for an empty path, at the top.
    pub fn unknown_in(&self, block: &str) -> UnknownKeys {
        self.find(block).and_then(|row| row.unknown).unwrap_or(UnknownKeys::Passed)
    }

    /// Returns the conditions that select a law of the engine, with its name.
    pub fn laws(&self) -> &[(String, String)] {
        self.find("").map_or(&[], |row| &row.laws)
    }
}

/// A rule between keys of a file, the plan, the model and versions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRule {
    /// Its name.
    #[serde(skip)]
    pub id: String,
    /// Table of the file that it is about.
    pub file: Option<String>,
    /// Path of the key to blame.
    pub at: Option<String>,
    /// Engine that it is about, whether its file is read or written.
    pub engine: Option<String>,
    /// Package without which the job does not start or does not do what is written.
    pub missing: Option<String>,
    /// Expression: the rule applies where it is true; always if absent.
    pub when: Option<String>,
    /// Expression that holds in a good file; if absent, `when` alone says what is wrong.
    pub must: Option<String>,
    /// Error if the engine stops, warning if it goes on with something else, else note.
    #[serde(deserialize_with = "severity")]
    pub severity: Severity,
    /// Template of the message.
    pub message: String,
    /// Template of what to write.
    pub help: Option<String>,
    /// The engine's own text.
    pub says: Option<String>,
    /// Package of `since` and `until`.
    pub package: Option<String>,
    /// First version for which the rule holds.
    pub since: Option<String>,
    /// First version for which it no longer holds.
    pub until: Option<String>,
    /// File and line that were read.
    pub source: String,
    /// Date of the row.
    pub date: String,
    /// Configurations that the engine itself has judged.
    #[serde(default)]
    pub oracle: Vec<String>,
}

impl FileRule {
    /// Returns whether the rule holds in a version of its package; in the newest one if it is unknown.
    pub fn is_in(&self, version: Option<&str>) -> bool {
        is_between(version, self.since.as_deref(), self.until.as_deref())
    }
}

/// Returns whether a version is at least `since` and before `until`; an unknown one counts as the newest.
fn is_between(version: Option<&str>, since: Option<&str>, until: Option<&str>) -> bool {
    let before = |bound: &str| version.is_some_and(|version| version_key(version) < version_key(bound));
    !since.is_some_and(before) && until.is_none_or(before)
}

fn severity<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Severity, D::Error> {
    let word = String::deserialize(deserializer)?;
    let all = [Severity::Note, Severity::Warning, Severity::Error];
    let found = all.into_iter().find(|severity| severity.word() == word);
    found.ok_or_else(|| serde::de::Error::custom(format!("no severity: {word}")))
}

/// Name, package and data of each table of keys.
static TABLES: [(&str, &str, Syntax, &Table); 5] = [
    ("accelerate", "accelerate", Syntax::Yaml, &ACCELERATE),
    ("deepspeed", "deepspeed", Syntax::Json, &DEEPSPEED),
    ("distributed-config", "transformers", Syntax::Json, &DISTRIBUTED),
    ("torchtitan", "torchtitan", Syntax::Toml, &TORCHTITAN),
    (ARGUMENTS, "transformers", Syntax::Yaml, &TRAINER),
];

/// Returns the keys of a kind of file; `None` for an unknown one.
pub fn keys(name: &str) -> Option<&'static KeyTable> {
    static PARSED: [OnceLock<KeyTable>; TABLES.len()] = [const { OnceLock::new() }; TABLES.len()];
    let mut known = TABLES.iter().zip(&PARSED);
    let ((name, package, syntax, table), parsed) = known.find(|((known, ..), _)| *known == name)?;
    Some(parsed.get_or_init(|| {
        let row = |key: &str| {
            let row: KeyRow = toml::from_str(table.row_text(key)?).ok()?;
            Some(KeyRow { key: key.to_owned(), ..row })
        };
        KeyTable { name, package, syntax: *syntax, rows: table.keys().filter_map(row).collect() }
    }))
}

/// Returns the keys of all kinds of files.
pub fn tables() -> impl Iterator<Item = &'static KeyTable> {
    TABLES.iter().filter_map(|(name, ..)| keys(name))
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSubject<'a> {
    /// A kind of file, by the name of its table.
    File(&'a str),
    /// An engine, whether its file is read or written.
    Engine(&'a str),
}

impl RuleSubject<'_> {
    /// Returns the line with which the rows of its rules begin.
    fn first_line(self) -> String {
        match self {
            Self::File(name) => format!("file = \"{name}\""),
            Self::Engine(name) => format!("engine = \"{name}\""),
        }
    }
}

/// A rule, parsed when it is first asked for.
struct LazyRule {
    id: &'static str,
    first_line: &'static str,
    parsed: OnceLock<Option<FileRule>>,
}

impl LazyRule {
    fn get(&self) -> Option<&FileRule> {
        let parse = || {
            let rule: FileRule = toml::from_str(RULES.row_text(self.id)?).ok()?;
            Some(FileRule { id: self.id.to_owned(), ..rule })
        };
        self.parsed.get_or_init(parse).as_ref()
    }
}

/// Returns the rules about any of these subjects, in the order of the file. Only they are parsed: most jobs
/// have no file, and all rules take longer than the rest of a check.
pub fn rules_about(subjects: &[RuleSubject]) -> Vec<&'static FileRule> {
    static ALL: LazyLock<Vec<LazyRule>> = LazyLock::new(|| {
        let first = |id| RULES.row_text(id).and_then(|row| row.lines().next()).unwrap_or_default();
        RULES.keys().map(|id| LazyRule { id, first_line: first(id), parsed: OnceLock::new() }).collect()
    });
    if subjects.is_empty() {
        return Vec::new();
    }
    let lines: Vec<String> = subjects.iter().map(|subject| subject.first_line()).collect();
    let is_about = |rule: &&LazyRule| lines.iter().any(|line| line == rule.first_line);
    ALL.iter().filter(is_about).filter_map(LazyRule::get).collect()
}

/// Returns all rules, in the order of the file.
pub fn rules() -> Vec<&'static FileRule> {
    let subjects = TABLES.iter().flat_map(|(name, ..)| [RuleSubject::File(name), RuleSubject::Engine(name)]);
    rules_about(&subjects.collect::<Vec<_>>())
}

/// Returns the value that a table writes as text: `true`, `none`, a number, or the text itself.
pub fn scalar(text: &str) -> Scalar {
    match text {
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        "none" => Scalar::Null,
        _ => match (text.parse(), text.parse()) {
            (Ok(n), _) => Scalar::Int(n),
            (_, Ok(x)) => Scalar::Float(x),
            _ => Scalar::Text(text.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key paths that an expression or template names: `file.a.b` and quoted paths before `in keys`.
    fn paths(text: &str) -> Vec<String> {
        let named = regex::Regex::new(r"\bfile\.([A-Za-z0-9_.]+)").unwrap();
        let asked = regex::Regex::new(r"'([a-z0-9_.]+)' (?:not )?in keys").unwrap();
        let found = named.captures_iter(text).chain(asked.captures_iter(text));
        found.map(|one| one[1].trim_end_matches('.').to_owned()).collect()
    }

    fn tables() -> impl Iterator<Item = (&'static KeyTable, &'static Table)> {
        TABLES.iter().map(|(name, _, _, table)| (keys(name).unwrap(), *table))
    }

    #[test]
    fn every_row_is_read() {
        for (table, data) in tables() {
            for key in data.keys() {
                let row: Result<KeyRow, _> = toml::from_str(data.row_text(key).unwrap());
                assert!(row.is_ok(), "{} {key}: {row:?}", table.name);
            }
            assert_eq!(table.rows.len(), data.keys().count());
        }
        for id in RULES.keys() {
            let rule: Result<FileRule, _> = toml::from_str(RULES.row_text(id).unwrap());
            assert!(rule.is_ok(), "{id}: {rule:?}");
        }
        assert_eq!(rules().len(), RULES.keys().count());
    }

    #[test]
    fn rows_are_whole() {
        for (table, _) in tables() {
            assert_eq!(table.rows[0].key, "", "{}: the first row is the file", table.name);
            for row in &table.rows {
                let place = format!("{} {}", table.name, row.key);
                assert_eq!(row.kind == KeyKind::Word, !row.words.is_empty(), "{place}");
                assert_eq!(row.kind == KeyKind::Map, row.unknown.is_some(), "{place}");
                assert!(row.gives.is_none() || row.word.is_some() && row.values.is_empty(), "{place}");
                assert!(!row.implied || row.word.is_some() || row.default.is_some(), "{place}");
                assert!(row.removed.is_none() || row.until.is_some(), "{place}");
                assert!(row.values.keys().all(|value| row.words.contains(value)), "{place}");
                if let Some((block, _)) = row.key.rsplit_once('.') {
                    let kind = table.find(block).map(|row| row.kind);
                    assert_eq!(kind, Some(KeyKind::Map), "{place}: no row for its block");
                }
                for alias in &row.aliases {
                    let count = table.rows.iter().filter(|row| row.key == *alias).count();
                    assert_eq!(count, 0, "{place}: {alias}");
                }
                for default in row.default.iter().chain(row.default_from.values()) {
                    let number: Option<f64> = default.parse().ok();
                    let fits = match row.kind {
                        KeyKind::Bool => default == "true" || default == "false",
                        KeyKind::Int | KeyKind::Number => number.is_some_and(|number| {
                            row.min.is_none_or(|min| number >= min) && row.max.is_none_or(|max| number <= max)
                        }),
                        KeyKind::Word => row.words.contains(default),
                        KeyKind::Text | KeyKind::Any => true,
                        KeyKind::List | KeyKind::Map => false,
                    };
                    assert!(fits, "{place}: {default}");
                }
                if let Some(opens) = &row.opens {
                    assert!(keys(opens).is_some(), "{place}: {opens}");
                }
                for text in row.gives.iter().chain(&row.read_when).chain(&row.write) {
                    for path in paths(text) {
                        let own = table.rows.iter().any(|row| row.key == path);
                        assert!(own, "{place}: {path}");
                    }
                }
            }
        }
    }

    #[test]
    fn rules_name_keys_of_their_table() {
        for rule in rules() {
            assert!(rule.file.is_some() != rule.engine.is_some(), "{}", rule.id);
            let Some(file) = &rule.file else { continue };
            let table = keys(file).unwrap_or_else(|| panic!("{}", rule.id));
            let at = rule.at.as_ref();
            assert!(table.rows.iter().any(|row| Some(&row.key) == at), "{}: {at:?}", rule.id);
            assert!(rule.when.is_some() || rule.must.is_some(), "{}", rule.id);
            assert_eq!(rule.package.is_some(), rule.since.is_some() || rule.until.is_some(), "{}", rule.id);
            let texts = rule.when.iter().chain(&rule.must).chain(&rule.help).chain([&rule.message]);
            for path in texts.flat_map(|text| paths(text)) {
                assert!(table.rows.iter().any(|row| row.key == path), "{}: {path}", rule.id);
            }
        }
    }

    #[test]
    fn a_key_is_found_by_its_name_and_by_an_alias() {
        let accelerate = keys("accelerate").unwrap();
        let version = accelerate.find("fsdp_config.version").unwrap();
        assert_eq!(
            (version.key.as_str(), version.default.as_deref()),
            ("fsdp_config.fsdp_version", Some("1"))
        );
        assert_eq!(accelerate.find("num_processes").map(|row| row.owner), Some(KeyOwner::Launcher));
        assert!(accelerate.find("no_such_top").is_none() && keys("megatron").is_none());
    }

    #[test]
    fn versions_decide_defaults_and_keys() {
        let deepspeed = keys("deepspeed").unwrap();
        let clip = deepspeed.find("gradient_clipping").unwrap();
        let defaults = [Some("0.19.2"), Some("0.19.3"), Some("0.19.8"), None].map(|at| clip.default_in(at));
        assert_eq!(defaults, [Some("0.0"), Some("1.0"), Some("1.0"), Some("1.0")]);
        assert_eq!(clip.default_value(None), Some(Scalar::Float(1.0)));
        let device = deepspeed.find("zero_optimization.offload_param.device").unwrap();
        assert_eq!(device.default_value(None), Some(Scalar::Text("none".to_owned())));
        let micro = deepspeed.find("zero_optimization.mics_shard_size").unwrap();
        assert_eq!([Some("0.19.2"), Some("0.19.8"), None].map(|at| micro.is_in(at)), [true, false, false]);
        let aligned = deepspeed.find("zero_optimization.parameter_alignment").unwrap();
        assert_eq!([Some("0.19.2"), Some("0.19.8"), None].map(|at| aligned.is_in(at)), [false, true, true]);
    }
}
