//! Parameters of SageMaker model parallelism.

use serde::Deserialize;
use std::sync::LazyLock;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("smp-parameters", include_str!("data/engines/smp.toml"));

/// Version of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmpVersion {
    /// SMP 1.x, with `mpi`.
    V1,
    /// SMP 2.x, with `torch_distributed`.
    V2,
}

impl SmpVersion {
    /// Returns the version whose keys have this prefix.
    pub fn from_prefix(prefix: &str) -> Option<Self> {
        [Self::V1, Self::V2].into_iter().find(|version| version.prefix() == prefix)
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::V1 => "v1/",
            Self::V2 => "v2/",
        }
    }
}

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterKind {
    /// Integer.
    Int,
    /// Number.
    Float,
    /// `true` or `false`.
    Bool,
    /// One of `words`.
    Word,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name in `mp_parameters`.
    pub name: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// Type.
    pub kind: ParameterKind,
    /// Minimum.
    pub min: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Maximum that depends on other values: `dp`, `world_size`, `partitions - 1`, `hybrid_shard_degree`.
    pub max_words: Option<String>,
    /// The value that it must divide.
    pub divides: Option<String>,
    /// Values that the library accepts.
    pub words: Vec<String>,
    /// Values that the SDK accepts, if different.
    pub sdk_words: Vec<String>,
    /// True if the parameter is required.
    pub required: bool,
    /// True if it decides the layout that a plan counts: mesh, batch or states.
    pub layout: bool,
    /// Default, as JSON text.
    pub default: Option<String>,
    /// Default that depends on other parameters.
    pub default_words: Option<String>,
    /// True if no source was read for the default.
    pub default_recalled: bool,
    /// The first SMP version that supports it.
    pub since: Option<String>,
    /// Parameters that it requires.
    pub needs: Vec<String>,
    /// It is ignored unless one of these is in use.
    pub read_under: Vec<String>,
    /// Parameters that it excludes, when both are in use.
    pub excludes: Vec<String>,
    /// Parameters that it excludes in libraries older than a version.
    pub excludes_before: Vec<(String, String)>,
    /// The only framework that supports it.
    pub framework: Option<String>,
    /// Model families that support it, by their names in manifests; all families if empty.
    pub families: Vec<String>,
    /// A note.
    pub note: Option<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

#[derive(Clone, Deserialize)]
struct SmpParameterRow {
    kind: ParameterKind,
    #[serde(default)]
    aliases: Vec<String>,
    min: Option<f64>,
    max: Option<f64>,
    max_words: Option<String>,
    divides: Option<String>,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    sdk_words: Vec<String>,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    layout: bool,
    default: Option<String>,
    default_words: Option<String>,
    #[serde(default)]
    default_recalled: bool,
    since: Option<String>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    read_under: Vec<String>,
    #[serde(default)]
    excludes: Vec<String>,
    #[serde(default)]
    excludes_before: Vec<(String, String)>,
    framework: Option<String>,
    #[serde(default)]
    families: Vec<String>,
    note: Option<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns the parameter with that name or alias.
pub fn parameter(version: SmpVersion, name: &str) -> Option<&'static Parameter> {
    let rows = rows(version);
    rows.iter()
        .find(|row| row.name == name)
        .or_else(|| rows.iter().find(|row| row.aliases.iter().any(|alias| alias == name)))
}

/// Returns all parameters of a version, in the order of the file.
pub fn parameters(version: SmpVersion) -> impl Iterator<Item = &'static Parameter> {
    rows(version).iter()
}

/// Returns the names of all parameters of a version, without aliases.
pub fn names(version: SmpVersion) -> impl Iterator<Item = &'static str> {
    TABLE.keys().filter_map(move |key| key.strip_prefix(version.prefix()))
}

/// Returns the rows of a version, parsed once.
fn rows(version: SmpVersion) -> &'static [Parameter] {
    static V1: LazyLock<Vec<Parameter>> = LazyLock::new(|| parse_all(SmpVersion::V1));
    static V2: LazyLock<Vec<Parameter>> = LazyLock::new(|| parse_all(SmpVersion::V2));
    match version {
        SmpVersion::V1 => &V1,
        SmpVersion::V2 => &V2,
    }
}

fn parse_all(version: SmpVersion) -> Vec<Parameter> {
    names(version).filter_map(|name| parse(version, name)).collect()
}

fn parse(version: SmpVersion, name: &str) -> Option<Parameter> {
    let row: SmpParameterRow = TABLE.row(&format!("{}{name}", version.prefix())).cloned()?;
    Some(Parameter {
        name: name.to_owned(),
        aliases: row.aliases,
        kind: row.kind,
        min: row.min,
        max: row.max,
        max_words: row.max_words,
        divides: row.divides,
        words: row.words,
        sdk_words: row.sdk_words,
        required: row.required,
        layout: row.layout,
        default: row.default,
        default_words: row.default_words,
        default_recalled: row.default_recalled,
        since: row.since,
        needs: row.needs,
        read_under: row.read_under,
        excludes: row.excludes,
        excludes_before: row.excludes_before,
        framework: row.framework,
        families: row.families,
        note: row.note,
        provenance: row.provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::architecture::Family;

    #[test]
    fn rows_are_whole() {
        for version in [SmpVersion::V1, SmpVersion::V2] {
            let known: Vec<&str> = names(version).collect();
            assert_eq!(parameters(version).count(), known.len());
            for row in parameters(version) {
                assert_eq!(row.kind == ParameterKind::Word, !row.words.is_empty(), "{}", row.name);
                for other in row.needs.iter().chain(&row.excludes) {
                    assert!(known.contains(&other.as_str()), "{}: {other}", row.name);
                }
                for family in &row.families {
                    let known = Family::from_name(family).map(Family::name);
                    assert_eq!(known, Some(family.as_str()), "{}", row.name);
                }
                let Some(default) = &row.default else {
                    continue;
                };
                let fits = match row.kind {
                    ParameterKind::Int => {
                        default.parse::<i64>().is_ok_and(|n| row.min.is_none_or(|min| n as f64 >= min))
                    }
                    ParameterKind::Float => default.parse::<f64>().is_ok(),
                    ParameterKind::Bool => default == "true" || default == "false",
                    ParameterKind::Word => row.words.contains(default),
                };
                assert!(fits, "{}: {default}", row.name);
            }
        }
        assert_eq!((names(SmpVersion::V1).count(), names(SmpVersion::V2).count()), (31, 9));
    }

    #[test]
    fn names_and_aliases_are_found() {
        let partitions = parameter(SmpVersion::V1, "pipeline_parallel_degree").unwrap();
        assert_eq!(
            (partitions.name.as_str(), partitions.required, partitions.min),
            ("partitions", true, Some(1.0))
        );
        let sharded = parameter(SmpVersion::V1, "sharded_data_parallel_degree").unwrap();
        assert_eq!((sharded.divides.as_deref(), sharded.since.as_deref()), (Some("dp"), Some("1.11")));
        assert!(sharded.excludes.contains(&"partitions".to_owned()));
        assert_eq!(parameter(SmpVersion::V2, "partitions"), None);
        assert_eq!(parameter(SmpVersion::V1, "_private"), None);
    }
}
