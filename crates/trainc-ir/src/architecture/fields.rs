//! The fields of one model: written values, defaults of its type, and values that follow from others.

use super::config::truncate_value;
use super::dimensions::ArchitectureProblem;
use super::expression::{Fault, Names, Term, count, evaluate, truth};
use super::family::Family;
use super::kinds::Norm;
use super::spec::{Spec, fields};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// Nested lookups before a circle of defaults is assumed, which a test of the tables excludes.
const DEPTH: u32 = 60;

/// The fields of a model, read on demand. Problems are collected, one for each key.
pub(super) struct Fields<'a> {
    pub(super) family: Family,
    spec: &'static Spec,
    /// The text model's part of config.json, or null.
    config: &'a Value,
    /// Values that were determined before, by field.
    given: BTreeMap<&'static str, Term>,
    /// The model that contains this one.
    up: Option<&'a Fields<'a>>,
    /// The layer being built.
    layer: Cell<Option<u64>>,
    in_decoder: Cell<bool>,
    /// Whether the value being computed depends on the layer.
    varies: Cell<bool>,
    /// Fields that were looked up for a layer and depend on it.
    varying: RefCell<BTreeSet<String>>,
    cache: RefCell<BTreeMap<String, Term>>,
    depth: Cell<u32>,
    /// Keys of config.json that were looked at.
    used: RefCell<BTreeSet<String>>,
    problems: RefCell<Vec<ArchitectureProblem>>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(family: Family, config: &'a Value, up: Option<&'a Fields<'a>>) -> Self {
        Self {
            family,
            spec: family.spec(),
            config,
            given: BTreeMap::new(),
            up,
            layer: Cell::new(None),
            in_decoder: Cell::new(false),
            varies: Cell::new(false),
            varying: RefCell::default(),
            cache: RefCell::default(),
            depth: Cell::new(0),
            used: RefCell::default(),
            problems: RefCell::default(),
        }
    }

    /// Sets a field that was determined before.
    pub(super) fn give(&mut self, field: &'static str, value: Term) {
        self.given.insert(field, value);
        self.cache.borrow_mut().clear();
    }

    pub(super) fn set_layer(&self, layer: Option<u64>) {
        self.layer.set(layer);
    }

    pub(super) fn set_decoder(&self, decoder: bool) {
        self.in_decoder.set(decoder);
        self.cache.borrow_mut().clear();
    }

    /// Returns what distinguishes a layer from others: the values of all fields that were found to depend on
    /// the layer.
    pub(super) fn layer_signature(&self) -> Vec<(String, Option<Term>)> {
        let varying = self.varying.borrow().clone();
        varying.into_iter().map(|name| (name.clone(), self.look_up(&name).ok())).collect()
    }

    pub(super) fn into_problems(self) -> Vec<ArchitectureProblem> {
        self.problems.into_inner()
    }

    pub(super) fn take_problems(&self) -> Vec<ArchitectureProblem> {
        self.problems.take()
    }

    pub(super) fn use_key(&self, key: String) {
        self.used.borrow_mut().insert(key);
    }

    pub(super) fn used_keys(&self) -> BTreeSet<String> {
        self.used.borrow().clone()
    }

    /// Reports a problem, unless its key has one.
    pub(super) fn report(&self, problem: ArchitectureProblem) {
        let mut problems = self.problems.borrow_mut();
        if problems.iter().all(|known| known.key() != problem.key()) {
            problems.push(problem);
        }
    }

    /// Returns the keys of a field, preferred one first.
    pub(super) fn keys(&self, field: &str) -> &'static [String] {
        let own = self.spec.keys.get(field);
        own.or_else(|| fields().keys.get(field)).map_or(&[], Vec::as_slice)
    }

    /// Returns the key under which config.json has a field, or the preferred one.
    pub(super) fn key(&self, field: &str) -> String {
        if self.config.is_null() {
            // From a manifest.
            return field.replace('_', "-");
        }
        let keys = self.keys(field);
        let written = keys.iter().find(|key| get(self.config, key).is_some_and(|value| !value.is_null()));
        written.or_else(|| keys.first()).map_or_else(|| field.to_owned(), Clone::clone)
    }

    /// Returns the value of config.json, and whether it is null.
    fn written(&self, field: &str) -> Result<Option<Term>, Fault> {
        if let Some(value) = self.given.get(field) {
            return Ok(Some(value.clone()));
        }
        for key in self.keys(field) {
            let Some(value) = get(self.config, key) else { continue };
            self.used.borrow_mut().insert(key.split('.').next().unwrap_or(key).to_owned());
            if value.is_null() {
                continue;
            }
            let table = fields();
            if table.is_factor(field)
                && let Some(factor) =
                    value.as_f64().and_then(|factor| whole_number((factor * 1_000.0).round()))
            {
                return Ok(Some(Term::Int(factor)));
            }
            let term = term(value);
            let expected = match &term {
                Some(Term::Int(_)) if value.is_boolean() || !table.is_flag(field) => match &term {
                    Some(Term::Int(number)) if *number < 0 && !table.may_be_negative(field) => {
                        "a whole number of at least 1"
                    }
                    _ => return Ok(term),
                },
                Some(Term::Text(_)) if table.may_be_text(field) => return Ok(term),
                Some(Term::List(_)) if table.may_be_list(field) => return Ok(term),
                // Written as 0 or 1.
                Some(Term::Int(0 | 1)) => return Ok(term),
                _ if table.is_flag(field) => "true or false",
                _ if table.may_be_list(field) => "a list with one value for each layer",
                _ => "a whole number of at least 1",
            };
            self.report(ArchitectureProblem::Unusable {
                key: key.clone(),
                found: format!("`{}`", truncate_value(value)),
                expected: expected.to_owned(),
            });
            return Err(Fault::Reported);
        }
        Ok(None)
    }

    /// Returns whether config.json has a field.
    pub(super) fn is_written(&self, field: &str) -> bool {
        matches!(self.written(field), Ok(Some(_)))
    }

    /// Returns the number that config.json has as a field.
    pub(super) fn written_number(&self, field: &str) -> Option<u64> {
        match self.written(field) {
            Ok(Some(Term::Int(value))) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    fn is_null(&self, field: &str) -> bool {
        self.keys(field).iter().any(|key| get(self.config, key).is_some_and(Value::is_null))
    }

    /// Returns the default of a field. Null in config.json stands for the usual value, not for that of the
    /// type.
    pub(super) fn default_expression(&self, field: &str) -> Option<&'static str> {
        let default = |spec: &'static Spec| {
            // Only a text model inside another may lack its size.
            let sized = matches!(field, "hidden" | "layers" | "heads") && self.up.is_none();
            let own = spec.config.get(field).filter(|_| !self.config.is_null() && !sized);
            let default = own.or_else(|| spec.default.get(field));
            default.map(|default| default.expression.as_str()).filter(|text| *text != "-")
        };
        let usual = || Spec::find("base").and_then(default);
        if self.is_null(field) { usual().or_else(|| default(self.spec)) } else { default(self.spec) }
    }

    fn raw(&self, field: &str) -> Result<Term, Fault> {
        if let Some(value) = self.written(field)? {
            return Ok(value);
        }
        match self.default_expression(field) {
            Some(expression) => evaluate(expression, self),
            None => Err(Fault::Missing(field.to_owned())),
        }
    }

    /// Returns the value of a field that is a number, and reports a problem.
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.resolve(count(field, self))
    }

    /// Returns the value of an expression, and reports a problem.
    pub(super) fn count(&self, expression: &str) -> Option<u64> {
        self.resolve(count(expression, self))
    }

    /// Returns whether a condition holds, and reports a problem.
    pub(super) fn holds(&self, condition: &str) -> bool {
        self.resolve(evaluate(condition, self)).is_some_and(|value| truth(&value))
    }

    fn resolve<T>(&self, result: Result<T, Fault>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Fault::Reported) => None,
            Err(Fault::Missing(field)) => {
                let expected = describe(&field).to_owned();
                self.report(ArchitectureProblem::Missing { key: self.key(&field), expected });
                None
            }
            Err(Fault::Kind(expression)) => {
                let field =
                    expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
                let key = self.key(field.strip_prefix("has_").unwrap_or(field));
                let found = get(self.config, &key).map_or_else(|| "another kind".to_owned(), truncate_value);
                let expected = "one value for each layer".to_owned();
                self.report(ArchitectureProblem::Unusable { key, found: format!("`{found}`"), expected });
                None
            }
            Err(Fault::Overflow) => {
                self.report(ArchitectureProblem::Unusable {
                    key: self.key("layers"),
                    found: "part of dimensions that do not fit together".to_owned(),
                    expected: "dimensions that divide each other, with at most 10^18 parameters".to_owned(),
                });
                None
            }
            Err(Fault::Malformed(what)) => {
                self.report(ArchitectureProblem::Unusable {
                    key: "model_type".to_owned(),
                    found: format!("`{}`, whose table is malformed: {what}", self.family),
                    expected: "another model type".to_owned(),
                });
                None
            }
        }
    }
}

/// Returns what a field is, for a message that it is missing.
fn describe(field: &str) -> &'static str {
    match field {
        "hidden" => "the width of the residual stream",
        "layers" => "the number of layers",
        "heads" => "the number of attention heads",
        "ffn" => "the feed-forward width, which has no default for this family",
        "vocab" => "the rows of the token embedding",
        _ => "a value: the model type has no default",
    }
}

impl Names for Fields<'_> {
    fn look_up(&self, name: &str) -> Result<Term, Fault> {
        if name == "i" {
            self.varies.set(true);
            if self.depth.get() == 0 {
                self.varying.borrow_mut().insert(name.to_owned());
            }
            let layer = self.layer.get().unwrap_or(0);
            return Ok(Term::Int(i128::from(layer)));
        }
        if let Some(known) = self.cache.borrow().get(name) {
            return Ok(known.clone());
        }
        if self.depth.get() > DEPTH {
            return Err(Fault::Malformed(format!("`{name}` is defined by itself")));
        }
        // Defaults and rules nest; whether one of them depends on the layer is determined for each.
        let outer = self.varies.replace(false);
        self.depth.set(self.depth.get().saturating_add(1));
        let value = self.value(name);
        self.depth.set(self.depth.get().saturating_sub(1));
        let varies = self.varies.get();
        self.varies.set(outer || varies);
        if let Ok(value) = &value
            && !varies
        {
            self.cache.borrow_mut().insert(name.to_owned(), value.clone());
        }
        if varies && self.depth.get() == 0 {
            self.varying.borrow_mut().insert(name.to_owned());
        }
        value
    }
}

impl Fields<'_> {
    fn value(&self, name: &str) -> Result<Term, Fault> {
        if name == "norm_count" {
            return Ok(Term::Int(i128::try_from(self.spec.norms.len()).unwrap_or(0)));
        }
        if name == "dropout" {
            return Ok(Term::Int(i128::from(self.spec.dropout)));
        }
        if name == "rms" {
            return Ok(Term::Int(i128::from(self.spec.norm == Norm::RmsNorm)));
        }
        if name == "in_decoder" {
            return Ok(Term::Int(i128::from(self.in_decoder.get())));
        }
        if let Some(field) = name.strip_prefix("up_") {
            return self.up.map_or(Ok(Term::Int(0)), |up| up.look_up(field));
        }
        if let Some(field) = name.strip_prefix("has_")
            && !self.spec.set.contains_key(name)
            && !self.spec.default.contains_key(name)
        {
            return Ok(Term::Int(i128::from(self.written(field)?.is_some())));
        }
        if let Some(field) = name.strip_prefix("raw_") {
            return self.raw(field);
        }
        match self.spec.set.get(name) {
            Some(expression) => evaluate(expression, self),
            None => self.raw(name),
        }
    }
}

/// Returns the member of a config at a path with dots.
pub(super) fn get<'v>(config: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(config, |value, key| value.get(key))
}

fn term(value: &Value) -> Option<Term> {
    Some(match value {
        Value::Bool(flag) => Term::Int(i128::from(*flag)),
        Value::Number(number) => {
            let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
            // Numbers are also written as floats, such as 10000.0.
            Term::Int(whole.or_else(|| number.as_f64().and_then(whole_number))?)
        }
        Value::String(text) => Term::Text(text.clone()),
        Value::Array(list) => Term::List(list.iter().map(term).collect::<Option<_>>()?),
        Value::Null | Value::Object(_) => return None,
    })
}

/// Converts a float without a fraction, if it is small enough to be exact.
fn whole_number(value: f64) -> Option<i128> {
    let text = format!("{value:.0}");
    if value.fract() == 0.0 && (-9e15..=9e15).contains(&value) { text.parse().ok() } else { None }
}
