//! Expressions of the tables: conditions over the keys of the files, the plan and the versions of programs.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, UndefinedBehavior};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use trainc_catalog::engine_files::{KeyKind, KeyTable};
use trainc_catalog::images;
use trainc_ir::{FileSetting, FileValue, ForeignFile, ProgramVersion, Scalar};

/// The names that expressions use, with their values: `file.…` for the keys of a file, and the groups that
/// the caller adds, such as `plan.…` and `versions.…`.
#[derive(Clone, Debug, Default)]
pub struct Names {
    groups: BTreeMap<String, Value>,
}

impl Names {
    /// Adds a group of values by their names. A value that is missing is unknown: an expression that uses it
    /// has no result.
    #[must_use]
    pub fn with<N: Into<String>>(
        mut self,
        group: &str,
        values: impl IntoIterator<Item = (N, Scalar)>,
    ) -> Self {
        let values: BTreeMap<String, Value> =
            values.into_iter().map(|(name, value)| (name.into(), template_value(&value))).collect();
        self.groups.insert(group.to_owned(), Value::from(values));
        self
    }

    /// Adds the keys of a file as `file.…`, and the list `keys` of those that are written. A key that is
    /// absent has its default, or is none.
    #[must_use]
    pub fn with_file(
        mut self,
        table: &'static KeyTable,
        file: &ForeignFile,
        programs: &[ProgramVersion],
    ) -> Self {
        let mut root = Tree::default();
        for row in table.rows.iter().filter(|row| !row.key.is_empty()) {
            if row.kind == KeyKind::Map {
                root.at(&row.key);
                continue;
            }
            let program = programs.iter().find(|one| one.package == table.package_of(row));
            let default = row.default_value(program.map(|one| one.version.value.as_str()));
            root.insert(&row.key, default.as_ref().map_or(Value::from(()), template_value));
        }
        for setting in &file.settings {
            match &setting.value {
                FileValue::Map => {}
                FileValue::Scalar(value) => root.insert(&setting.key, template_value(value)),
                FileValue::List(items) => {
                    let items: Value = items.iter().map(template_value).collect();
                    root.insert(&setting.key, items);
                }
            }
        }
        self.groups.insert("file".to_owned(), root.into_value());
        let keys = file.settings.iter().filter(|setting| is_said(file, setting));
        let keys: Value = keys.map(|setting| Value::from(setting.key.as_str())).collect();
        self.groups.insert("keys".to_owned(), keys);
        self
    }

    /// Adds a single value.
    #[must_use]
    pub fn with_value(mut self, name: &str, value: &Scalar) -> Self {
        self.groups.insert(name.to_owned(), template_value(value));
        self
    }

    /// Returns true or false, or `None` if a value that it uses is unknown.
    pub fn holds(&self, expression: &str) -> Option<bool> {
        self.evaluate(expression).map(|value| value.is_true())
    }

    /// Returns the single value of an expression, or `None` if a value that it uses is unknown.
    pub fn value(&self, expression: &str) -> Option<Scalar> {
        let value = self.evaluate(expression)?;
        Some(match value.kind() {
            ValueKind::String => Scalar::Text(value.as_str()?.to_owned()),
            ValueKind::Bool => Scalar::Bool(value.is_true()),
            ValueKind::Number if value.is_integer() => Scalar::Int(value.try_into().ok()?),
            ValueKind::Number => Scalar::Float(value.try_into().ok()?),
            ValueKind::None => Scalar::Null,
            _ => return None,
        })
    }

    fn evaluate(&self, expression: &str) -> Option<Value> {
        let compiled = environment().compile_expression(expression).ok()?;
        if !self.have(compiled.undeclared_variables(true)) {
            return None;
        }
        compiled.eval(Value::from(self.groups.clone())).ok()
    }

    /// Returns whether all dotted names are known.
    fn have(&self, names: impl IntoIterator<Item = String>) -> bool {
        names.into_iter().all(|name| {
            let mut steps = name.split('.');
            let Some(group) = steps.next() else { return false };
            // `version_at_least` is a function, not a value.
            let Some(group) = self.groups.get(group) else { return FUNCTIONS.contains(&group) };
            let found = steps.try_fold(group.clone(), |value, step| value.get_attr(step).ok());
            found.is_some_and(|value| !value.is_undefined())
        })
    }

    /// Returns a text with its `{{ expressions }}` replaced, or `None` if a value in it is unknown.
    pub fn text(&self, template: &str) -> Option<String> {
        environment().render_str(template, Value::from(self.groups.clone())).ok()
    }
}

/// Returns whether a setting says anything: null and a block without keys are as good as absent.
fn is_said(file: &ForeignFile, setting: &FileSetting) -> bool {
    match &setting.value {
        FileValue::Scalar(value) => *value != Scalar::Null,
        FileValue::List(_) => true,
        FileValue::Map => file.settings.iter().any(|other| {
            other.key.strip_prefix(setting.key.as_str()).is_some_and(|rest| rest.starts_with('.'))
        }),
    }
}

/// The functions of the tables: `version_at_least(version, least)`.
const FUNCTIONS: [&str; 1] = ["version_at_least"];

fn environment() -> &'static Environment<'static> {
    static ONCE: LazyLock<Environment> = LazyLock::new(|| {
        let mut env = Environment::new();
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        env.add_function("version_at_least", |version: String, least: String| {
            images::version_key(&version) >= images::version_key(&least)
        });
        env
    });
    &ONCE
}

/// A map of maps while it is filled.
#[derive(Default)]
struct Tree {
    value: Option<Value>,
    below: BTreeMap<String, Tree>,
}

impl Tree {
    fn at(&mut self, key: &str) -> &mut Self {
        key.split('.').fold(self, |tree, step| tree.below.entry(step.to_owned()).or_default())
    }

    fn insert(&mut self, key: &str, value: Value) {
        self.at(key).value = Some(value);
    }

    fn into_value(self) -> Value {
        match self.value {
            Some(value) if self.below.is_empty() => value,
            _ => {
                let below: BTreeMap<String, Value> =
                    self.below.into_iter().map(|(key, tree)| (key, tree.into_value())).collect();
                Value::from(below)
            }
        }
    }
}

fn template_value(value: &Scalar) -> Value {
    match value {
        Scalar::Text(text) => Value::from(text.as_str()),
        Scalar::Int(n) => Value::from(*n),
        Scalar::Float(x) => Value::from(*x),
        Scalar::Bool(on) => Value::from(*on),
        Scalar::Null => Value::from(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_catalog::engine_files;

    fn names() -> Names {
        let versions = [("transformers", Scalar::Text("5.13.1".to_owned()))];
        let plan = [("world_size", Scalar::Int(16)), ("precision", Scalar::Null)];
        Names::default().with("versions", versions).with("plan", plan)
    }

    /// Returns the reason why an expression or a text of a table cannot be compiled.
    fn compile_error(expression: Option<&str>, text: Option<&str>) -> Option<String> {
        let of_expression = expression.and_then(|it| environment().compile_expression(it).err());
        let of_text = text.and_then(|it| environment().template_from_str(it).err());
        of_expression.or(of_text).map(|error| format!("{error:#}"))
    }

    #[test]
    fn expressions_and_texts_of_the_tables_compile() {
        for table in engine_files::tables() {
            for row in &table.rows {
                let laws = row.laws.iter().map(|(when, _)| when);
                for expression in row.gives.iter().chain(&row.read_when).chain(&row.write).chain(laws) {
                    assert_eq!(compile_error(Some(expression), None), None, "{} {}", table.name, row.key);
                }
            }
        }
        for rule in engine_files::rules() {
            for expression in rule.when.iter().chain(&rule.must) {
                assert_eq!(compile_error(Some(expression), None), None, "{}", rule.id);
            }
            for text in rule.help.iter().chain([&rule.message]) {
                assert_eq!(compile_error(None, Some(text)), None, "{}", rule.id);
            }
        }
    }

    #[test]
    fn conditions_over_known_values() {
        assert_eq!(names().holds("plan.world_size % 8 == 0"), Some(true));
        assert_eq!(names().holds("plan.world_size % 3 == 0 or plan.precision is none"), Some(true));
        assert_eq!(names().holds("version_at_least(versions.transformers, '5.3')"), Some(true));
        assert_eq!(names().holds("version_at_least(versions.transformers, '5.24')"), Some(false));
        assert_eq!(names().text("world {{ plan.world_size }}").as_deref(), Some("world 16"));
    }

    #[test]
    fn an_unknown_value_has_no_answer() {
        assert_eq!(names().holds("plan.heads % 2 == 0"), None);
        assert_eq!(names().holds("plan.heads == 2 or true"), None);
        assert_eq!(names().holds("model.heads"), None);
        assert_eq!(names().text("{{ plan.heads }} heads"), None);
    }
}
