//! Well-known models by their Hugging Face id: dimensions, exact parameters, licence.
//!
//! Input: a name. Output: its row of `data/models.toml`, as an architecture. The embedded text is scanned for
//! the row's header or alias line, and only that row is parsed.

use super::memo::Memo;
use serde::Deserialize as _;
use trainc_ir::architecture::{Architecture, Class, Defaulted, Details, Dimensions, Family, parse_hf_config};

const TEXT: &str = include_str!("data/models.toml");

/// A model of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRow {
    /// The Hugging Face id, as the table spells it.
    pub name: &'static str,
    /// Other names that find this row.
    pub aliases: Vec<String>,
    /// Its architecture.
    pub architecture: Architecture,
    /// Details that differ from those of its family.
    pub details: Details,
    /// Dimensions set by the family's defaults.
    pub defaulted: Vec<Defaulted>,
    /// The published class of the model, which `parameters` counts.
    pub class: Class,
    /// Exact parameters of that class, counted with transformers.
    pub parameters: u64,
    /// The licence as named on the Hub, if known.
    pub license: Option<String>,
    /// True if access on the Hub requires accepting its terms.
    pub gated: bool,
    /// The source of the dimensions.
    pub source: String,
    /// The date of the row, `YYYY-MM-DD`.
    pub date: String,
}

/// A row of the table; all other keys are dimensions.
#[derive(serde::Deserialize)]
struct ModelTableRow {
    #[serde(default)]
    aliases: Vec<String>,
    family: Option<String>,
    /// The fields of config.json, in place of a family and dimensions.
    config: Option<String>,
    class: String,
    parameters: u64,
    license: Option<String>,
    access: Option<String>,
    source: String,
    date: toml::value::Datetime,
    #[serde(default)]
    details: Details,
    #[serde(flatten)]
    dimensions: toml::Table,
}

/// Returns the row with this name or alias, ignoring case as on the Hub.
pub fn find(name: &str) -> Option<ModelRow> {
    static MEMO: Memo<String, Option<ModelRow>> = Memo::new();
    MEMO.get(name.to_owned(), |name| look_up(name))
}

fn look_up(name: &str) -> Option<ModelRow> {
    let (id, table) = slice(name)?;
    parse_row(id, table)
}

/// Returns all names, including aliases, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    TEXT.lines().flat_map(|line| {
        let aliases = line.strip_prefix(ALIASES).map(quoted);
        header(line).into_iter().chain(aliases.into_iter().flatten())
    })
}

/// Returns the Hugging Face IDs, in the order of the table.
pub fn ids() -> impl Iterator<Item = &'static str> {
    TEXT.lines().filter_map(header)
}

const ALIASES: &str = "aliases = ";

/// Returns the name in a header: `["EleutherAI/gpt-j-6B"]` -> `EleutherAI/gpt-j-6B`.
fn header(line: &'static str) -> Option<&'static str> {
    line.strip_prefix("[\"")?.strip_suffix("\"]")
}

/// Returns the strings of a TOML array on one line.
fn quoted(array: &'static str) -> impl Iterator<Item = &'static str> {
    array.split('"').skip(1).step_by(2)
}

/// Returns the ID and the text of the row with this name.
fn slice(name: &str) -> Option<(&'static str, &'static str)> {
    let mut current: Option<(&'static str, usize)> = None;
    let mut at = 0;
    for line in TEXT.split_inclusive('\n') {
        at += line.len();
        let line = line.trim_end();
        if let Some(id) = header(line) {
            current = Some((id, at));
        }
        let found = header(line).is_some_and(|id| id.eq_ignore_ascii_case(name))
            || line
                .strip_prefix(ALIASES)
                .is_some_and(|list| quoted(list).any(|alias| alias.eq_ignore_ascii_case(name)));
        if let (true, Some((id, start))) = (found, current) {
            let rest = TEXT.get(start..)?;
            let end = rest.find("\n[\"").map_or(rest.len(), |end| end + 1);
            return Some((id, rest.get(..end)?));
        }
    }
    None
}

/// Parses a row; returns `None` for a malformed row, which a test excludes.
fn parse_row(id: &'static str, table: &str) -> Option<ModelRow> {
    let written: ModelTableRow = toml::from_str(table).ok()?;
    let (architecture, defaulted, details) = if let Some(config) = &written.config {
        let config = parse_hf_config(config).ok()?;
        let architecture = Architecture::from_hf_config(&config).ok()?;
        let details = Details::from_hf_config(&config, architecture.family);
        (architecture, Vec::new(), details)
    } else {
        let dimensions = Dimensions::deserialize(written.dimensions).ok()?;
        let family = Family::from_name(written.family.as_deref()?)?;
        let (architecture, defaulted) = Architecture::from_dimensions(family, &dimensions).ok()?;
        (architecture, defaulted, written.details)
    };
    Some(ModelRow {
        name: id,
        aliases: written.aliases,
        architecture,
        details,
        defaulted,
        class: Class::from_name(&written.class)?,
        parameters: written.parameters,
        license: written.license,
        gated: written.access.as_deref() == Some("gated"),
        source: written.source,
        date: written.date.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn formulas_give_the_counts_of_transformers() {
        let mut rows = 0;
        for id in ids() {
            let row = find(id).unwrap_or_else(|| panic!("`{id}` is malformed"));
            let count = row.architecture.parameters_for_class(row.class).unwrap();
            assert_eq!(count.total, row.parameters, "{id}");
            assert_eq!(
                count.total,
                count.embedding + count.layers_total + count.final_norm + count.head + count.towers,
                "{id}"
            );
            let (l, d) = (row.architecture.layers, row.architecture.decoder_layers);
            let equal = count.per_layer * l + count.per_decoder_layer * d;
            // The largest layer of each stack stands for all, where they differ.
            let kinds = row.architecture.layer_kinds.len();
            assert!(count.layers_total == equal || kinds > 1 && count.layers_total < equal, "{id}");
            assert!(!row.source.is_empty() && row.date.len() == 10, "{id}");
            assert!(row.license.as_deref() != Some("") && row.name == id);
            rows += 1;
        }
        assert!(rows >= 130, "{rows} rows");
    }

    /// Totals that were counted with transformers independently of this table, and agree with the Hub's
    /// metadata.
    #[test]
    fn totals_counted_apart() {
        let totals: [(&str, u64); 35] = [
            ("gpt2", 124_439_808),
            ("gpt2-medium", 354_823_168),
            ("gpt2-large", 774_030_080),
            ("gpt2-xl", 1_557_611_200),
            ("distilgpt2", 81_912_576),
            ("gpt-j-6b", 6_050_882_784),
            ("gpt-neo-2.7b", 2_651_307_520),
            ("gpt-neox-20b", 20_554_567_680),
            ("pythia-6.9b", 6_857_302_016),
            ("pythia-12b", 11_846_072_320),
            ("llama-2-13b", 13_015_864_320),
            ("llama-65b", 65_285_660_672),
            ("llama-2-70b", 68_976_648_192),
            ("llama-3-70b", 70_553_706_496),
            ("llama-3.1-405b", 405_853_388_800),
            ("llama-3.2-1b", 1_235_814_400),
            ("tinyllama-1.1b", 1_100_048_384),
            ("mistral-7b-v0.1", 7_241_732_096),
            ("mixtral-8x7b", 46_702_792_704),
            ("falcon-7b", 6_921_720_704),
            ("bert-base-uncased", 109_482_240),
            ("roberta-base", 124_645_632),
            ("distilbert-base-uncased", 66_362_880),
            ("t5-base", 222_903_552),
            ("t5-large", 737_668_096),
            ("flan-t5-xl", 2_849_757_184),
            ("flan-t5-xxl", 11_135_332_352),
            ("bloom-7b1", 7_069_016_064),
            ("bloom-176b", 176_247_271_424),
            ("opt-350m", 331_196_416),
            ("opt-30b", 29_974_540_288),
            ("opt-66b", 65_719_701_504),
            ("opt-175b", 174_604_468_224),
            ("phi-2", 2_779_683_840),
            ("qwen2-7b", 7_615_616_512),
        ];
        for (name, total) in totals {
            let row = find(name).unwrap_or_else(|| panic!("no `{name}`"));
            assert_eq!(row.architecture.parameters_for_class(row.class).unwrap().total, total, "{name}");
        }
    }

    #[test]
    fn slices_equal_a_full_parse() {
        let all: toml::Table = toml::from_str(TEXT).unwrap();
        let by_scan: BTreeSet<&str> = ids().collect();
        let by_parse: BTreeSet<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(by_scan, by_parse);
        for (id, full) in &all {
            let (name, text) = slice(id).unwrap();
            assert_eq!(name, id);
            assert_eq!(&toml::Value::Table(toml::from_str(text).unwrap()), full, "{id}");
            for alias in full.get("aliases").and_then(|list| list.as_array()).into_iter().flatten() {
                assert_eq!(find(alias.as_str().unwrap()).unwrap().name, id, "{alias}");
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut seen = BTreeSet::new();
        for name in names() {
            assert!(seen.insert(name.to_lowercase()), "`{name}` twice");
        }
    }

    #[test]
    fn manifests_models_are_here() {
        for name in [
            "bert-large-uncased-whole-word-masking",
            "distilbert-base-uncased",
            "tiiuae/falcon-40b",
            "EleutherAI/gpt-j-6B",
            "huggyllama/llama-7b",
            "togethercomputer/GPT-NeoXT-Chat-Base-20B",
            "roberta-large",
        ] {
            assert!(find(name).is_some(), "{name}");
        }
        assert!(find("tiiuae/falcon").is_none());
        assert_eq!(find("eleutherai/GPT-J-6b").unwrap().name, "EleutherAI/gpt-j-6B");
        assert_eq!(trainc_diag::text::nearest("gptj6b", names()), Some("gptj-6b"));
    }
}
