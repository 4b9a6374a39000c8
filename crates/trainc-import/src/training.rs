//! What a job trains, as far as its hyperparameters and the file of arguments that they name say so.
//!
//! The names are those of the catalogue's tables: keys of transformers' arguments with their words of the
//! manifest (`training-arguments.toml`), and options of scripts with the placeholders that have the same
//! value (`vocabulary.toml`).

use super::kdl::{Node, literal, string};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainc_catalog::engine_files::{self, KeyRow, KeyTable};
use trainc_catalog::models;
use trainc_catalog::vocabulary::{self, OptionMeaning};
use trainc_diag::source::{SourceId, Span};
use trainc_engine::files::{self, Names};
use trainc_ir::{FileReader, ForeignFile, Scalar};

/// The path of placeholders for the name of the model.
const MODEL: &str = "model.name";

/// The path of the strategy of FSDP.
const STRATEGY: &str = "parallel.strategy";

/// What is known of the training.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Training {
    /// The model of the catalogue, as its name is written.
    pub(super) model: Option<String>,
    /// Values by their place in the language, such as `train/optimizer.lr`.
    values: BTreeMap<String, Scalar>,
    /// Those of the file of arguments.
    of_file: BTreeMap<String, Scalar>,
    /// Names of hyperparameters with the paths of placeholders that may have their values.
    pub(super) placeholders: Vec<(String, Vec<String>)>,
    /// The file of arguments, relative to the manifest, with the hyperparameter that names it.
    pub(super) file: Option<(String, String)>,
}

impl Training {
    /// Reads hyperparameters, given as the toolkit decodes them.
    pub(super) fn of_hyperparameters(hyperparameters: &[(String, String)]) -> Self {
        let Some(table) = engine_files::keys(engine_files::ARGUMENTS) else { return Self::default() };
        let mut out = Self::default();
        let mut document = Map::new();
        // The program takes transformers' arguments, so that names of TRL have TRL's meaning.
        let has_trainer = hyperparameters.iter().any(|(name, _)| {
            let row = table.find(&name.replace('-', "_"));
            row.and_then(|row| row.word.as_deref()) == Some("train/micro-batch")
        });
        for (name, text) in hyperparameters {
            let option = vocabulary::get(name);
            let is_model = option.is_some_and(is_model);
            let Some(key) = key_of(table, name, option, has_trainer).or(is_model.then(|| name.clone()))
            else {
                continue;
            };
            let same = option.or_else(|| option_of(table, &key));
            document.insert(key, decoded(text));
            let paths = same.filter(|one| is_model || is_plain(one)).map(|option| option.paths.clone());
            out.placeholders.extend(paths.map(|paths| (name.clone(), paths)));
        }
        out.read(table, "hyperparameters.json", &Value::Object(document).to_string());
        if !out.is_surely_meant() {
            return Self::default();
        }
        out
    }

    /// Reads a file of arguments; `None` if it is another one.
    pub(super) fn of_file(name: &str, text: &str) -> Option<Self> {
        let mut out = Self::default();
        out.read(engine_files::keys(engine_files::ARGUMENTS)?, name, text);
        out.is_surely_meant().then_some(out)
    }

    /// Returns whether the values are those of training a model: other programs have names such as `seed` and
    /// `learning_rate`, too.
    fn is_surely_meant(&self) -> bool {
        self.model.is_some() || self.values.contains_key("train/micro-batch")
    }

    fn read(&mut self, table: &'static KeyTable, name: &str, text: &str) {
        let Ok(document) = files::read(table, name, text) else { return };
        let source = SourceId(0);
        let Some(part) = files::parts(table, &document, source).into_iter().next() else { return };
        let file = ForeignFile {
            reader: FileReader::Program,
            table: table.name,
            path: name.to_owned(),
            packed_as: name.to_owned(),
            is_in_source: true,
            text: Arc::from(text),
            span: Span::whole(source),
            settings: part.settings,
            is_replaced: false,
        };
        let plan = [("takes", Scalar::Null), ("has_trainer", Scalar::Bool(true)), ("engine", Scalar::Null)];
        let names = Names::default().with_file(table, &file, &[]).with("plan", plan);
        let mut named: Vec<String> = Vec::new();
        for setting in &file.settings {
            let Some(written) = files::as_written(&setting.value) else { continue };
            if vocabulary::get(&setting.key).is_some_and(is_model) {
                named.extend(Some(written.as_variable()).filter(|name| models::find(name).is_some()));
            }
            self.read_strategy(&setting.key, &written);
            let Some(row) = table.find(&setting.key) else { continue };
            let Some((word, meant)) = row.word.as_ref().zip(files::meant(row, &written, &names)) else {
                continue;
            };
            self.values.entry(word.clone()).or_insert(meant);
            for (word, implied) in &row.also {
                self.values.entry(word.clone()).or_insert_with(|| engine_files::scalar(implied));
            }
        }
        if self.values.keys().any(|word| word.starts_with("train/optimizer.")) {
            // That of transformers in every version.
            self.values
                .entry("train/optimizer".to_owned())
                .or_insert_with(|| Scalar::Text("adamw".to_owned()));
        }
        named.dedup();
        // Two names are those of two models.
        if let [name] = named.as_slice() {
            self.model = Some(name.clone());
        }
    }

    /// Reads the strategy of FSDP, whose word depends on no version.
    fn read_strategy(&mut self, key: &str, written: &Scalar) {
        let option =
            vocabulary::get(key).filter(|option| option.paths.first().is_some_and(|path| path == STRATEGY));
        let Some(words) = option.and_then(|option| option.words.as_ref()) else { return };
        let text = written.as_variable().to_lowercase();
        if let Some(strategy) = text.split([' ', ',']).find_map(|word| words.get(word)) {
            self.values.insert("parallel/strategy".to_owned(), Scalar::Text(strategy.clone()));
        }
    }

    /// Adds what a file of arguments says, to which hyperparameters are preferred.
    pub(super) fn with_file(mut self, file: Self) -> Self {
        self.model = self.model.or(file.model);
        self.of_file = file.values;
        // Steps end the run before epochs do.
        if self.has("train/steps") {
            self.values.remove("train/epochs");
            self.of_file.remove("train/epochs");
        }
        self
    }

    /// Returns the values that a manifest writes: without those that it reads from the file.
    fn written(&self) -> BTreeMap<&str, Scalar> {
        let of_file = self.of_file.iter().filter(|_| self.file.is_none());
        let all = of_file.chain(&self.values);
        all.map(|(word, value)| (word.as_str(), value.clone())).collect()
    }

    /// Returns whether the Trainer shards the model by FSDP.
    pub(super) fn is_fsdp(&self) -> bool {
        self.has("parallel/strategy")
    }

    /// Returns whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.model.is_none() && self.values.is_empty() && self.of_file.is_empty()
    }

    /// Returns the children of `train`, with values that are known from elsewhere.
    pub(super) fn train(&self, also: &[(&'static str, Scalar)]) -> Vec<Node> {
        let mut values = self.written();
        values.extend(also.iter().cloned());
        nodes("train", &values)
    }

    /// Returns the other nodes of the job: `adapter` and `quantize`.
    pub(super) fn others(&self) -> Vec<Node> {
        let values = self.written();
        ["adapter", "quantize"].into_iter().filter_map(|name| node(name, name, &values)).collect()
    }

    /// Returns whether a value is known.
    pub(super) fn has(&self, word: &str) -> bool {
        self.values.contains_key(word) || self.of_file.contains_key(word)
    }

    /// Returns the children of `parallel` under FSDP.
    pub(super) fn fsdp(&self) -> Vec<Node> {
        nodes("parallel", &self.written())
    }
}

/// Returns the children of a node, in the order of their names; the length comes last.
fn nodes(parent: &str, values: &BTreeMap<&str, Scalar>) -> Vec<Node> {
    let mut names: Vec<&str> = values
        .keys()
        .filter_map(|word| word.strip_prefix(parent)?.strip_prefix('/'))
        .map(|rest| rest.split('.').next().unwrap_or(rest))
        .collect();
    names.dedup();
    names.sort_by_key(|name| ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len() / 2));
    names.into_iter().filter_map(|name| node(name, &format!("{parent}/{name}"), values)).collect()
}

/// The order of the nodes of `train`: what decides memory first, the length last.
const ORDER: [&str; 12] = [
    "precision",
    "sequence-length",
    "micro-batch",
    "accumulation",
    "activation-checkpointing",
    "attention",
    "optimizer",
    "loss",
    "seed",
    "epochs",
    "dataset",
    "steps",
];

/// Returns a node with its argument and properties; `None` without any.
fn node(name: &str, path: &str, values: &BTreeMap<&str, Scalar>) -> Option<Node> {
    let mut out = Node::new(name);
    if let Some(value) = values.get(path) {
        out = out.arg(&scalar_literal(value)?);
    }
    for (word, value) in values {
        let Some(property) = word.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')) else {
            continue;
        };
        let value = match value {
            // A number of steps, not a fraction of them.
            Scalar::Int(steps) if property == "warmup" => string(&format!("{steps} steps")),
            value => scalar_literal(value)?,
        };
        out = out.prop(property, &value);
    }
    (!out.is_bare()).then_some(out)
}

fn scalar_literal(value: &Scalar) -> Option<String> {
    match value {
        Scalar::Text(text) => Some(string(text)),
        Scalar::Int(n) => Some(n.to_string()),
        Scalar::Float(x) => literal(&serde_json::json!(x)),
        Scalar::Bool(on) => Some(format!("#{on}")),
        Scalar::Null => None,
    }
}

/// Returns whether an option names the model.
fn is_model(option: &OptionMeaning) -> bool {
    option.paths.first().is_some_and(|path| path == MODEL)
}

/// Returns whether an option has the same value as its placeholder: it is no switch and no word.
fn is_plain(option: &OptionMeaning) -> bool {
    option.equals.is_none() && option.words.is_none() && !option.is_names
}

/// Returns the key of the table that an option means: that of its name, or that of an option with the same
/// meaning in every script.
fn key_of(table: &KeyTable, name: &str, option: Option<&OptionMeaning>, has_trainer: bool) -> Option<String> {
    let name = name.replace('-', "_");
    // Without an option, a name of TRL is that of other programs, too.
    let is_sure = |row: &&KeyRow| has_trainer || option.is_some() || row.package.is_none();
    if let Some(row) = table.find(&name).filter(is_sure) {
        return Some(row.key.clone());
    }
    let option = option.filter(|option| option.in_scripts && is_plain(option) && !is_model(option))?;
    let first = option.paths.first()?;
    let is_same = |row: &&KeyRow| {
        vocabulary::get(&row.key).is_some_and(|other| is_plain(other) && other.paths.first() == Some(first))
    };
    table.rows.iter().find(is_same).map(|row| row.key.clone())
}

/// Returns the option of another key with the same word of the manifest.
fn option_of(table: &KeyTable, key: &str) -> Option<&'static OptionMeaning> {
    let word = table.find(key)?.word.as_ref()?;
    let others = table.rows.iter().filter(|row| row.word.as_ref() == Some(word));
    others.filter_map(|row| vocabulary::get(&row.key)).find(|option| is_plain(option))
}

/// Returns a hyperparameter as the program reads it.
fn decoded(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::String(inner)) => of_python(&inner),
        Ok(value) => value,
        Err(_) => of_python(text),
    }
}

fn of_python(text: &str) -> Value {
    match text {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(hyperparameters: &[(&str, &str)]) -> Training {
        let all: Vec<_> =
            hyperparameters.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Training::of_hyperparameters(&all)
    }

    fn text(nodes: Vec<Node>) -> String {
        let mut out = String::new();
        for node in &nodes {
            node.write(0, &mut out);
        }
        out
    }

    #[test]
    fn hyperparameters_are_words_of_the_manifest() {
        let found = of(&[
            ("model_id", "\"Qwen/Qwen3-4B\""),
            ("per_device_train_batch_size", "4"),
            ("gradient_accumulation_steps", "2"),
            ("learning_rate", "0.0002"),
            ("max_length", "2048"),
            ("bf16", "true"),
            ("lora_rank", "16"),
            ("num_train_epochs", "3"),
            ("warmup_steps", "50"),
            ("dataset", "\"x\""),
        ]);
        assert_eq!(found.model.as_deref(), Some("Qwen/Qwen3-4B"));
        assert_eq!(
            text(found.train(&[])),
            "precision \"bf16\"\nsequence-length 2048\nmicro-batch 4\naccumulation 2\noptimizer \"adamw\" \
                lr=0.0002 warmup=\"50 steps\"\nepochs 3\n"
        );
        assert_eq!(text(found.others()), "adapter \"lora\" rank=16\n");
        let paths = |name: &str| {
            found.placeholders.iter().find(|(known, _)| known == name).map(|(_, paths)| paths.join(","))
        };
        assert_eq!(paths("per_device_train_batch_size").as_deref(), Some("batch.micro"));
        assert_eq!(paths("model_id").as_deref(), Some("model.name"));
        assert_eq!(paths("max_length").as_deref(), Some("train.sequence_length"));
        assert_eq!(paths("bf16"), None);
    }

    #[test]
    fn names_of_other_programs_say_nothing() {
        assert!(of(&[("learning_rate", "0.1"), ("seed", "1"), ("max_depth", "5")]).is_empty());
        assert!(of(&[("model_id", "my-own/model"), ("epochs", "3")]).is_empty());
        assert!(!of(&[("model_id", "Qwen/Qwen3-4B"), ("max_length", "3")]).has("train/sequence-length"));
        assert!(
            Training::of_file("a.yaml", "compute_environment: LOCAL_MACHINE\nnum_machines: 1\n").is_none()
        );
        // Two models: which one is trained is not known.
        let two = of(&[("model_id", "Qwen/Qwen3-4B"), ("base_model", "Qwen/Qwen3-8B"), ("max_steps", "3")]);
        assert!(two.is_empty());
    }
}
