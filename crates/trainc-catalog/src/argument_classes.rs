//! Argument classes of Hugging Face programs: dataclasses whose fields are the options of a command line,
//! with types and defaults by version of the package that defines them.
//!
//! The table is written by `argument_classes.py` from the wheels of the packages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, OnceLock};

use serde_json::Value as Json;

use super::images::version_key;
use super::memo::Memo;
use trainc_ir::Scalar;
use trainc_ir::hardware::Provenance;

const TABLE: &str = include_str!("data/argument_classes.tsv");

/// A class that a program passes to `HfArgumentParser` or `TrlParser`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentClass {
    /// Its name, as in `from trl import SFTConfig`.
    pub name: &'static str,
    /// The package that defines it: `transformers` or `trl`.
    pub package: &'static str,
}

/// The type to which the parser converts the value of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A boolean. The option alone means true, unless its default is `None`. `--no_NAME` exists if its
    /// default is true.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Text; also a field that is a text or a dictionary, for which the text is JSON or the name of a file.
    Text,
    /// A dictionary, which only a file of arguments can set.
    Map,
    /// One or more values after the option.
    List(Box<Self>),
    /// A type that no text converts to, or a union that the parser refuses.
    Other,
}

impl ArgumentKind {
    fn parse(word: &str) -> Self {
        match word {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "float" => Self::Float,
            "str" => Self::Text,
            "dict" => Self::Map,
            _ => match word.strip_prefix("list[").and_then(|word| word.strip_suffix(']')) {
                Some(element) => Self::List(Box::new(Self::parse(element))),
                None => Self::Other,
            },
        }
    }
}

/// The value of an option that is not given.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgumentDefault {
    /// The parser stops without the option.
    Required,
    /// The value; `Scalar::Null` for `None`.
    Value(Scalar),
    /// A list.
    List(Vec<Scalar>),
    /// A dictionary without keys.
    EmptyMap,
    /// The package computes it, for example from the version of PyTorch.
    Computed,
}

impl ArgumentDefault {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "!" => Some(Self::Required),
            "*" => Some(Self::Computed),
            _ => Self::from_json(&serde_json::from_str(text).ok()?),
        }
    }

    fn from_json(value: &Json) -> Option<Self> {
        match value {
            Json::Array(items) => items.iter().map(scalar).collect::<Option<_>>().map(Self::List),
            Json::Object(keys) => keys.is_empty().then_some(Self::EmptyMap),
            _ => scalar(value).map(Self::Value),
        }
    }

    /// Returns the value, if it is known and a scalar.
    pub fn scalar(&self) -> Option<&Scalar> {
        match self {
            Self::Value(value) => Some(value),
            Self::Required | Self::List(_) | Self::EmptyMap | Self::Computed => None,
        }
    }
}

/// The value by which `__post_init__` of the class replaces `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// The value. `Computed` also if it is only replaced under some condition.
    pub value: ArgumentDefault,
    /// Another option that decides instead if it is given and not false, as `fp16` for `bf16`.
    pub unless: Option<String>,
}

impl Replacement {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self { value: ArgumentDefault::Computed, unless: None });
        }
        let json: Json = serde_json::from_str(text).ok()?;
        match json.get("unless").and_then(Json::as_str) {
            Some(other) => Some(Self {
                value: ArgumentDefault::from_json(json.get("value")?)?,
                unless: Some(other.to_owned()),
            }),
            None => Some(Self { value: ArgumentDefault::from_json(&json)?, unless: None }),
        }
    }
}

/// A field of an argument class, which is an option of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentField {
    /// Its name; the option may also have `-` for each `_`.
    pub name: &'static str,
    /// The type that the parser reads.
    pub kind: ArgumentKind,
    /// Whether its annotation allows `None`.
    pub is_optional: bool,
    /// The accepted values; empty if any value of the type is accepted or the package computes them.
    pub choices: Vec<Scalar>,
    /// The value of an option that is not given.
    pub default: ArgumentDefault,
    /// The value by which the class replaces a default of `None`.
    pub replacement: Option<Replacement>,
    /// The class that declares it, which is the class that was asked for or one of its bases.
    pub class: ArgumentClass,
    /// The path of the file with this class, in the package's wheel.
    pub file: &'static str,
}

impl ArgumentField {
    /// Returns whether the parser stops without the option.
    pub fn is_required(&self) -> bool {
        self.default == ArgumentDefault::Required
    }

    /// Returns the value that the trainer sees if the option is not given, `None` if it is computed or no
    /// scalar. `is_on` tells which other options are given and not false.
    pub fn value_if_absent(&self, is_on: impl Fn(&str) -> bool) -> Option<&Scalar> {
        match (&self.default, &self.replacement) {
            (ArgumentDefault::Value(Scalar::Null), Some(replacement)) => {
                let decided = replacement.unless.as_deref().is_none_or(|other| !is_on(other));
                replacement.value.scalar().filter(|_| decided)
            }
            (default, _) => default.scalar(),
        }
    }

    /// Returns where it was read, in the version of the package that was asked for.
    pub fn provenance(&self, version: &str) -> Provenance {
        let source = format!("{} {version} {} {}", self.class.package, self.file, self.class.name);
        let date = TABLE.lines().find_map(|line| line.strip_prefix("date\t"));
        Provenance { source, date: date.unwrap_or_default().to_owned() }
    }
}

/// Returns a class by its name.
pub fn class(name: &str) -> Option<ArgumentClass> {
    CLASSES.get(name).map(|known| known.class)
}

/// Returns the fields of a class and its bases by name, where a field of the class hides the one of a base.
/// They are collected once per process for each set of versions.
///
/// `versions` returns the version of a package. A version newer than the newest that was read has the fields
/// of that one. `None`: the class is unknown, a version is unknown or too old, or that version has no such
/// class.
pub fn fields<'v>(
    class: &str,
    versions: &dyn Fn(&str) -> Option<&'v str>,
) -> Option<&'static [ArgumentField]> {
    type Fields = Option<&'static [ArgumentField]>;
    static PACKAGES: LazyLock<BTreeSet<&str>> =
        LazyLock::new(|| CLASSES.values().map(|known| known.class.package).collect());
    static MEMO: Memo<(&str, Vec<Option<String>>), Fields> = Memo::new();
    let class = CLASSES.get(class)?.class.name;
    let of_packages = PACKAGES.iter().map(|package| versions(package).map(str::to_owned)).collect();
    MEMO.get((class, of_packages), |_| {
        let mut found = BTreeMap::new();
        collect(class, versions, &mut found)?;
        Some(&*Vec::leak(found.into_values().collect()))
    })
}

fn collect<'v>(
    class: &str,
    versions: &dyn Fn(&str) -> Option<&'v str>,
    found: &mut BTreeMap<&'static str, ArgumentField>,
) -> Option<()> {
    let known = CLASSES.get(class)?;
    let version = release_key(versions(known.class.package)?);
    let rows = known.rows();
    let definition = rows.definitions.iter().find(|row| row.range.contains(&version))?;
    // The first base hides the later ones.
    for base in definition.bases.split_whitespace().rev() {
        collect(base, versions, found)?;
    }
    for row in rows.options.iter().filter(|row| row.range.contains(&version)) {
        found.insert(row.name, row.field(known.class, definition.file)?);
    }
    Some(())
}

/// Converts a value of the table.
fn scalar(value: &Json) -> Option<Scalar> {
    Some(match value {
        Json::Null => Scalar::Null,
        Json::Bool(on) => Scalar::Bool(*on),
        Json::String(text) => Scalar::Text(text.clone()),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Scalar::Int(whole.into()),
            None => Scalar::Float(number.as_f64()?),
        },
        Json::Array(_) | Json::Object(_) => return None,
    })
}

/// Returns the numbers of a version without zeros at the end: `1.0` and `1.0.0` are the same release.
fn release_key(version: &str) -> Vec<u32> {
    let mut key = version_key(version);
    while key.last() == Some(&0) {
        key.pop();
    }
    key
}

/// The versions for which a row holds.
#[derive(Debug)]
struct VersionRange {
    since: Vec<u32>,
    /// The first version after it; none if it holds in the newest release.
    until: Option<Vec<u32>>,
}

impl VersionRange {
    fn new(since: &str, until: &str) -> Self {
        Self { since: release_key(since), until: (!until.is_empty()).then(|| release_key(until)) }
    }

    fn contains(&self, version: &Vec<u32>) -> bool {
        *version >= self.since && self.until.as_ref().is_none_or(|until| version < until)
    }
}

/// Where a range of versions defines a class.
#[derive(Debug)]
struct DefinitionRow {
    file: &'static str,
    /// Names of its bases, separated by spaces.
    bases: &'static str,
    range: VersionRange,
}

/// An option in a range of versions.
#[derive(Debug)]
struct OptionRow {
    name: &'static str,
    kind: &'static str,
    is_optional: bool,
    choices: &'static str,
    default: &'static str,
    replacement: &'static str,
    range: VersionRange,
}

impl OptionRow {
    /// Returns the field; `None` for a row that is malformed, which a test rules out.
    fn field(&self, class: ArgumentClass, file: &'static str) -> Option<ArgumentField> {
        let choices = match self.choices {
            "" => Vec::new(),
            choices => match ArgumentDefault::parse(choices)? {
                ArgumentDefault::List(choices) => choices,
                _ => return None,
            },
        };
        let replacement = match self.replacement {
            "" => None,
            text => Some(Replacement::parse(text)?),
        };
        Some(ArgumentField {
            name: self.name,
            kind: ArgumentKind::parse(self.kind),
            is_optional: self.is_optional,
            choices,
            default: ArgumentDefault::parse(self.default)?,
            replacement,
            class,
            file,
        })
    }
}

/// A class and its lines.
#[derive(Debug)]
struct ClassText {
    class: ArgumentClass,
    lines: &'static str,
    rows: OnceLock<ClassRows>,
}

/// The rows of a class.
#[derive(Debug, Default)]
struct ClassRows {
    definitions: Vec<DefinitionRow>,
    options: Vec<OptionRow>,
}

impl ClassText {
    /// Returns the rows, parsed when they are first asked for: most jobs have no class of the table.
    fn rows(&self) -> &ClassRows {
        self.rows.get_or_init(|| {
            let mut rows = ClassRows::default();
            for line in self.lines.lines() {
                match *line.split('\t').collect::<Vec<&'static str>>() {
                    ["definition", file, bases, since, until] => {
                        let range = VersionRange::new(since, until);
                        rows.definitions.push(DefinitionRow { file, bases, range });
                    }
                    [name, kind, optional, choices, default, replacement, since, until] => {
                        rows.options.push(OptionRow {
                            name,
                            kind,
                            is_optional: !optional.is_empty(),
                            choices,
                            default,
                            replacement,
                            range: VersionRange::new(since, until),
                        });
                    }
                    _ => {}
                }
            }
            rows
        })
    }
}

/// All classes by name.
static CLASSES: LazyLock<BTreeMap<&str, ClassText>> = LazyLock::new(|| {
    // In front of the first class is the head of the file.
    let classes = TABLE.split("\nclass\t").skip(1).filter_map(|text| {
        let (head, lines) = text.split_once('\n')?;
        let (name, package) = head.split_once('\t')?;
        Some((name, ClassText { class: ArgumentClass { name, package }, lines, rows: OnceLock::new() }))
    });
    classes.collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    fn fields_in(
        class: &str,
        transformers: &str,
        trl: &str,
    ) -> Option<BTreeMap<&'static str, ArgumentField>> {
        let versions = |package: &str| match package {
            "transformers" => Some(transformers),
            "trl" => Some(trl),
            _ => None,
        };
        Some(fields(class, &versions)?.iter().map(|field| (field.name, field.clone())).collect())
    }

    /// Returns the default, in TRL releases with a transformers that they ran with.
    fn default_in(class: &str, transformers: &str, trl: &str, name: &str) -> Option<ArgumentDefault> {
        Some(fields_in(class, transformers, trl)?.get(name)?.default.clone())
    }

    fn int(value: i128) -> ArgumentDefault {
        ArgumentDefault::Value(Scalar::Int(value))
    }

    fn float(value: f64) -> ArgumentDefault {
        ArgumentDefault::Value(Scalar::Float(value))
    }

    fn bool(value: bool) -> ArgumentDefault {
        ArgumentDefault::Value(Scalar::Bool(value))
    }

    const NONE: Option<ArgumentDefault> = Some(ArgumentDefault::Value(Scalar::Null));

    #[test]
    fn every_row_is_read() {
        let lines = |columns: usize| TABLE.lines().filter(|line| line.split('\t').count() == columns).count();
        let rows = || CLASSES.values();
        // Classes and packages have three columns.
        assert_eq!(rows().count() + 2, lines(3));
        assert_eq!(rows().map(|known| known.rows().definitions.len()).sum::<usize>(), lines(5));
        assert_eq!(rows().map(|known| known.rows().options.len()).sum::<usize>(), lines(8));
        for known in rows() {
            for row in &known.rows().options {
                assert!(row.field(known.class, "").is_some(), "{} {}", known.class.name, row.name);
                let is_other = match ArgumentKind::parse(row.kind) {
                    ArgumentKind::List(element) => *element == ArgumentKind::Other,
                    kind => kind == ArgumentKind::Other,
                };
                assert_eq!(is_other, row.kind.contains("other"), "{}", row.kind);
            }
        }
    }

    /// Also shows that bases end: a circle would not.
    #[test]
    fn every_class_has_its_bases() {
        let mut lines = TABLE.lines().filter_map(|line| line.strip_prefix("package\t")?.split_once('\t'));
        let (Some(("transformers", _)), Some(("trl", releases))) = (lines.next(), lines.next()) else {
            panic!()
        };
        for release in releases.split(' ') {
            for known in CLASSES.values() {
                let defined =
                    known.rows().definitions.iter().any(|row| row.range.contains(&release_key(release)));
                if known.class.package == "trl" {
                    let found = fields_in(known.class.name, "4.57.0", release);
                    assert_eq!(found.is_some(), defined, "{} {release}", known.class.name);
                }
            }
        }
    }

    #[test]
    fn the_date_is_not_newer_than_the_catalogue() {
        let found = fields_in("SFTConfig", "4.56.2", "0.23.1").unwrap();
        let Provenance { source, date } = found["packing"].provenance("0.23.1");
        assert_eq!(source, "trl 0.23.1 trl/trainer/sft_config.py SFTConfig");
        assert_eq!(date.len(), 10);
        assert!(date.as_str() <= crate::VERSION);
    }

    // The expected values of the tests below were read in the sources of the releases.

    #[test]
    fn training_arguments_have_their_defaults() {
        let default = |version, name| default_in("TrainingArguments", version, "", name);
        for version in ["4.26.0", "4.56.2", "5.24.0"] {
            assert_eq!(default(version, "per_device_train_batch_size"), Some(int(8)));
            assert_eq!(default(version, "gradient_accumulation_steps"), Some(int(1)));
            assert_eq!(default(version, "num_train_epochs"), Some(float(3.0)));
            assert_eq!(default(version, "max_steps"), Some(int(-1)));
            assert_eq!(default(version, "learning_rate"), Some(float(5e-5)));
            assert_eq!(default(version, "max_grad_norm"), Some(float(1.0)));
            assert_eq!(default(version, "bf16"), Some(bool(false)));
        }
        assert_eq!(default("4.48.3", "output_dir"), Some(ArgumentDefault::Required));
        assert_eq!(default("4.49.0", "output_dir"), NONE);
        assert_eq!(default("4.56.2", "optim"), Some(ArgumentDefault::Computed));
        assert_eq!(default("4.56.2", "gradient_checkpointing"), Some(bool(false)));
        assert_eq!(default("5.22.2", "gradient_checkpointing"), Some(bool(false)));
        assert_eq!(default("5.24.0", "gradient_checkpointing"), NONE);
        assert_eq!(default("4.46.3", "include_for_metrics"), Some(ArgumentDefault::List(Vec::new())));
        assert_eq!(default("4.39.3", "lr_scheduler_kwargs"), Some(ArgumentDefault::EmptyMap));
    }

    #[test]
    fn options_come_and_go_with_versions() {
        let default = |version, name| default_in("TrainingArguments", version, "", name);
        assert_eq!(default("4.57.6", "warmup_ratio"), Some(float(0.0)));
        assert_eq!(default("5.14.1", "warmup_ratio"), NONE);
        assert_eq!(default("5.15.0", "warmup_ratio"), None);
        assert_eq!(default("4.40.2", "eval_strategy"), None);
        assert!(default("4.41.0", "eval_strategy").is_some());
        assert!(default("4.45.0", "evaluation_strategy").is_some());
        assert_eq!(default("4.51.0", "evaluation_strategy"), None);
        // Between minor releases, newer than the newest, older than the oldest, unknown.
        assert_eq!(default("4.52.1", "tp_size"), None);
        assert_eq!(default("4.51.9", "tp_size"), Some(int(0)));
        assert_eq!(default("99.0", "learning_rate"), Some(float(5e-5)));
        assert_eq!(default("4.25.1", "learning_rate"), None);
        assert_eq!(fields("TrainingArguments", &|_| None), None);
        assert_eq!(fields("MyArguments", &|_| Some("1.0")), None);
    }

    #[test]
    fn types_are_those_of_the_parser() {
        let found = fields_in("TrainingArguments", "4.56.2", "").unwrap();
        let kind = |name: &str| (found[name].kind.clone(), found[name].is_optional);
        assert_eq!(kind("bf16"), (ArgumentKind::Bool, false));
        assert_eq!(kind("tf32"), (ArgumentKind::Bool, true));
        assert_eq!(kind("save_steps"), (ArgumentKind::Float, false));
        assert_eq!(kind("max_steps"), (ArgumentKind::Int, false));
        assert_eq!(kind("deepspeed"), (ArgumentKind::Text, true));
        assert_eq!(kind("label_names"), (ArgumentKind::List(Box::new(ArgumentKind::Text)), true));
        let words = ["no", "steps", "epoch", "best"].map(|word| Scalar::Text(word.to_owned()));
        assert_eq!(found["save_strategy"].choices, words);
        assert_eq!(found["save_strategy"].default.scalar(), Some(&Scalar::Text("steps".to_owned())));
    }

    #[test]
    fn classes_of_trl_change_what_they_inherit() {
        let sft = |trl, name| default_in("SFTConfig", "4.57.6", trl, name);
        assert_eq!(sft("0.11.4", "learning_rate"), Some(float(5e-5)));
        assert_eq!(sft("0.12.0", "learning_rate"), Some(float(2e-5)));
        assert_eq!(sft("0.21.0", "gradient_checkpointing"), Some(bool(false)));
        assert_eq!(sft("0.22.0", "gradient_checkpointing"), Some(bool(true)));
        assert_eq!(sft("1.16.0", "gradient_checkpointing"), Some(bool(true)));
        assert_eq!(sft("0.23.1", "num_train_epochs"), Some(float(3.0)));
        // max_seq_length became max_length.
        assert_eq!(sft("0.15.2", "max_length"), None);
        assert_eq!(sft("0.15.2", "max_seq_length"), Some(int(1024)));
        assert_eq!(sft("0.16.0", "max_length"), Some(int(1024)));
        assert_eq!(sft("0.19.1", "max_seq_length"), NONE);
        assert_eq!(sft("0.20.0", "max_seq_length"), None);
        let grpo = |trl, name| default_in("GRPOConfig", "4.57.6", trl, name);
        assert_eq!(grpo("0.23.1", "learning_rate"), Some(float(1e-6)));
        assert_eq!(grpo("0.23.1", "max_completion_length"), Some(int(256)));
        assert_eq!(grpo("1.16.0", "max_completion_length"), Some(int(512)));
        assert_eq!(grpo("0.15.2", "vllm_gpu_memory_utilization"), Some(float(0.9)));
        assert_eq!(grpo("0.23.1", "vllm_gpu_memory_utilization"), Some(float(0.3)));
        assert_eq!(fields_in("SFTConfig", "4.57.6", "0.8.6"), None);
        assert_eq!(class("SFTConfig").unwrap().package, "trl");
    }

    #[test]
    fn a_field_names_the_class_that_declares_it() {
        let found = fields_in("SFTConfig", "5.24.0", "1.16.0").unwrap();
        let declared = |name: &str| (found[name].class.package, found[name].class.name);
        assert_eq!(declared("max_length"), ("trl", "SFTConfig"));
        assert_eq!(declared("bf16"), ("trl", "_BaseConfig"));
        assert_eq!(declared("weight_decay"), ("transformers", "TrainingArguments"));
    }

    #[test]
    fn none_is_replaced_where_the_class_does_it() {
        let found = fields_in("SFTConfig", "5.24.0", "1.16.0").unwrap();
        let bf16 = &found["bf16"];
        assert_eq!(bf16.default.scalar(), Some(&Scalar::Null));
        assert_eq!(bf16.value_if_absent(|_| false), Some(&Scalar::Bool(true)));
        assert_eq!(bf16.value_if_absent(|name| name == "fp16"), None);
        assert_eq!(
            found["output_dir"].value_if_absent(|_| false),
            Some(&Scalar::Text("trainer_output".to_owned()))
        );
        assert_eq!(found["max_length"].value_if_absent(|_| false), Some(&Scalar::Int(1024)));
        assert_eq!(found["disable_tqdm"].value_if_absent(|_| false), None);
        // TRL's default hides the alias of transformers 5.23.
        assert_eq!(found["gradient_checkpointing"].value_if_absent(|_| false), Some(&Scalar::Bool(true)));
        let plain = fields_in("Seq2SeqTrainingArguments", "5.24.0", "").unwrap();
        let checkpointing = &plain["gradient_checkpointing"];
        assert_eq!(checkpointing.value_if_absent(|_| false), Some(&Scalar::Bool(false)));
        assert_eq!(checkpointing.value_if_absent(|name| name == "activation_checkpointing"), None);
    }

    #[test]
    fn script_arguments_are_required_by_version() {
        let required =
            |trl| fields_in("ScriptArguments", "4.57.6", trl).unwrap()["dataset_name"].is_required();
        assert!(required("0.17.0"));
        assert!(!required("0.18.0"));
        // No base needs transformers.
        assert!(fields("ScriptArguments", &|package| (package == "trl").then_some("0.23.1")).is_some());
        assert!(fields("SFTConfig", &|package| (package == "trl").then_some("0.23.1")).is_none());
    }
}
