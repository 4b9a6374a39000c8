//! What is known of a value: its declaration, and the rows of the catalogue about it.

use super::Place;
use crate::bind::placeholder_paths;
use crate::takes::MODEL_CLASS;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use trainc_catalog::argument_classes;
use trainc_catalog::engine_files::{ARGUMENTS, tables};
use trainc_catalog::smp::{SmpVersion, parameter};
use trainc_catalog::vocabulary;
use trainc_diag::text;
use trainc_language::{Declared, DefaultValue, Place as Position};
use trainc_syntax::nodes::ARGUMENT_CLASSES;
use trainc_syntax::spec::{NodeSpec, Ty};

/// How much is said of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// What fits into a list of many values.
    Short,
    /// Everything.
    Full,
}

/// A value of a node.
pub(super) struct Value {
    /// Its path: `cluster.nodes`.
    pub(super) path: String,
    /// Its name in its node.
    pub(super) name: &'static str,
    /// How it is written: `nodes=`, `<name>` for an argument, `volume` for a child.
    pub(super) label: String,
    pub(super) ty: Ty,
    pub(super) doc: &'static str,
    pub(super) declared: Option<&'static Declared>,
    pub(super) engines: Option<&'static [&'static str]>,
    /// What its node reaches.
    of_node: &'static str,
}

/// Returns whether a node is a child of one argument or of free properties that its parent declares.
pub(super) fn declares_child(parent: &NodeSpec, spec: &NodeSpec) -> bool {
    declaration(parent, |it| is_child(it) && it.name == spec.name).is_some()
}

fn is_child(declared: &Declared) -> bool {
    matches!(declared.place, Position::Child | Position::Words | Position::ChildProps)
}

fn declaration(spec: &NodeSpec, is: impl Fn(&Declared) -> bool) -> Option<&'static Declared> {
    spec.declared.iter().find(|declared| is(declared))
}

/// Returns the values of a node: its arguments, then its properties.
pub(super) fn values(place: &Place) -> Vec<Value> {
    let (spec, parent) = (place.spec, place.parent);
    let of_parent = parent.and_then(|parent| declaration(parent, |it| is_child(it) && it.name == spec.name));
    let of_node = reaches(place);
    let value = |name: &'static str, label: String, ty, doc, declared: Option<&'static Declared>| Value {
        path: format!("{}.{name}", place.path),
        name,
        label,
        ty,
        doc,
        declared,
        engines: spec.engines,
        of_node,
    };
    let arguments = spec.args.iter().enumerate().map(|(at, arg)| {
        let declared = declaration(spec, |it| it.place == Position::Arg(at)).or(of_parent);
        let doc = declared.map_or(spec.doc, |declared| declared.doc);
        let many = if arg.many { "…" } else { "" };
        value(arg.name, format!("<{}>{many}", arg.name), arg.ty, doc, declared)
    });
    let properties = spec.props.iter().map(|prop| {
        let is_own = |it: &Declared| it.place == Position::Prop && it.name == prop.name;
        let is_of_child = |it: &Declared| it.place == Position::ChildProp(spec.name) && it.name == prop.name;
        let of_parent = || declaration(parent?, is_of_child);
        let declared = declaration(spec, is_own).or_else(of_parent);
        value(prop.name, format!("{}=", prop.name), prop.ty, prop.doc, declared)
    });
    let mut out: Vec<Value> = arguments.chain(properties).collect();
    if spec.free_props.is_some() {
        out.push(Value::free(place));
    }
    // A child with a value is the value: it has the child's path.
    if let Some(own) = out.first_mut().filter(|own| own.is_argument() && place.is_value()) {
        own.path.clone_from(&place.path);
    }
    out
}

/// Returns what the values of a node reach, by the node or those around it.
fn reaches(place: &Place) -> &'static str {
    let own = place.spec.reaches;
    if own.is_empty() { place.parent.map_or("", |parent| parent.reaches) } else { own }
}

impl Value {
    /// Returns the properties of any name that a node takes.
    fn free(place: &Place) -> Self {
        let spec = place.spec;
        let own = declaration(spec, |it| it.place == Position::AnyProps);
        let of_parent = || declaration(place.parent?, |it| is_child(it) && it.name == spec.name);
        let declared = own.or_else(of_parent);
        Self {
            path: place.path.clone(),
            name: "NAME",
            label: "NAME=".to_owned(),
            ty: spec.free_props.unwrap_or(Ty::Scalar),
            doc: declared.map_or(spec.doc, |declared| declared.doc),
            declared,
            engines: spec.engines,
            of_node: reaches(place),
        }
    }

    pub(super) fn is_argument(&self) -> bool {
        self.label.starts_with('<')
    }

    /// Returns it under the name of the child that it is the value of.
    pub(super) fn of_child(self, child: &Place) -> Self {
        let name = child.spec.name;
        Self {
            label: if self.is_argument() { name.to_owned() } else { format!("{name} {}", self.label) },
            ..self
        }
    }

    /// Returns whether some layer must write it.
    pub(super) fn is_required(&self) -> bool {
        self.declared.is_some_and(|declared| declared.required)
    }

    pub(super) fn default(&self) -> DefaultValue {
        self.declared.map_or(DefaultValue::None, |declared| declared.default)
    }

    /// Says what holds where no layer writes it.
    pub(super) fn default_in_words(&self) -> Option<String> {
        match self.default() {
            DefaultValue::None => self.is_required().then(|| "required".to_owned()),
            DefaultValue::Value(value) => Some(format!("default: `{}`", literal(self.ty, value))),
            DefaultValue::Condition(words) => Some(words.to_owned()),
            DefaultValue::Words(words) => Some(format!("default: {words}")),
            DefaultValue::OfSmp(name) => Some(format!("default: {}", smp_default(name, self.ty))),
        }
    }

    /// Returns what it reaches, each in Markdown: members of the request, placeholders, options of programs,
    /// keys of files.
    pub(super) fn reached(&self, detail: Detail) -> Vec<String> {
        let mut out = Vec::new();
        let declared = self.declared;
        out.extend(declared.and_then(|it| it.member).map(|member| format!("`{}`", member.path)));
        if let Some(name) = self.smp_parameter() {
            out.push(format!("`mp_parameters`: `{name}`"));
        }
        let placeholders = self.placeholders();
        out.extend(placeholders.first().map(|path| format!("`{{{{ {path} }}}}`")));
        for (options, by) in [(&OPTIONS, "`takes=`"), (&MODEL_OPTIONS, "`takes=` with a `ModelConfig`")] {
            let options = meant_by(options, &placeholders);
            if !options.is_empty() {
                out.push(format!("{} by {by}", text::backtick_list(&options, "and")));
            }
        }
        if let Some(keys) = FILE_KEYS.get(self.path.as_str()) {
            match detail {
                Detail::Short => {
                    let engines: Vec<String> = keys.iter().map(|(engine, _)| (*engine).to_owned()).collect();
                    out.push(format!(
                        "the {} of {}",
                        if keys.len() > 1 { "files" } else { "file" },
                        text::list(&engines, "and")
                    ));
                }
                Detail::Full => out.extend(keys.iter().map(|(engine, keys)| {
                    format!("the file of {engine}: {}", text::backtick_list(keys, "and"))
                })),
            }
        }
        if self.engines.is_some_and(|engines| engines.contains(&"worker")) {
            out.push("worker.json".to_owned());
        }
        let words = declared.map_or("", |declared| declared.reaches);
        if !words.is_empty() {
            out.push(words.to_owned());
        } else if out.is_empty() && !self.of_node.is_empty() {
            out.push(self.of_node.to_owned());
        }
        out
    }

    /// Returns the parameter of SageMaker model parallel that it is.
    fn smp_parameter(&self) -> Option<&'static str> {
        match self.default() {
            DefaultValue::OfSmp(name) => Some(name),
            _ => trainc_engine::smp::parameter_name(self.name_of_child())
                .filter(|_| self.engines == Some(&["smp"])),
        }
    }

    fn name_of_child(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(self.name)
    }

    /// Returns the placeholders that have its value, the usual one first.
    fn placeholders(&self) -> Vec<&'static str> {
        let decides = self.declared.map_or(&[][..], |declared| declared.decides);
        let plain = self.path.replace('-', "_");
        // The degrees of `parallel` are those of the mesh.
        let of_mesh = plain.strip_prefix("parallel.").map(|name| format!("mesh.{name}"));
        let is_same = |path: &&str| *path == plain || Some(*path) == of_mesh.as_deref();
        let same = placeholder_paths().filter(is_same).filter(|path| !decides.contains(path));
        decides.iter().copied().chain(same).collect()
    }
}

/// The options that `takes=` writes, each with the placeholders that have its value: those of the vocabulary
/// that the newest version of a class has.
static OPTIONS: LazyLock<BTreeMap<&'static str, Vec<String>>> = LazyLock::new(|| written(ARGUMENT_CLASSES));

/// The same of the class of the model's options, which a program may parse beside one of the others.
static MODEL_OPTIONS: LazyLock<BTreeMap<&'static str, Vec<String>>> = LazyLock::new(|| {
    let mut out = written(&[MODEL_CLASS]);
    out.retain(|name, _| !OPTIONS.contains_key(name));
    out
});

fn written(classes: &[&'static str]) -> BTreeMap<&'static str, Vec<String>> {
    let newest = |_: &str| Some("9999");
    let mut out = BTreeMap::new();
    for class in classes {
        for field in argument_classes::fields(class, &newest).into_iter().flatten() {
            if let Some(row) = vocabulary::of_class(class, field.name).filter(|row| row.is_written) {
                out.insert(field.name, row.paths.clone());
            }
        }
    }
    out
}

/// Returns the options that have the value of one of these placeholders.
fn meant_by(options: &BTreeMap<&'static str, Vec<String>>, placeholders: &[&str]) -> Vec<String> {
    let is_meant = |paths: &[String]| paths.iter().any(|path| placeholders.contains(&path.as_str()));
    options.iter().filter(|(_, paths)| is_meant(paths)).map(|(name, _)| (*name).to_owned()).collect()
}

/// Engines with keys of their files.
type KeysByEngine = Vec<(&'static str, Vec<String>)>;

/// The keys of the files of engines, by the path of the value that says the same: the engine, and its keys.
static FILE_KEYS: LazyLock<BTreeMap<String, KeysByEngine>> = LazyLock::new(|| {
    let mut out: BTreeMap<String, KeysByEngine> = BTreeMap::new();
    // The arguments of a Trainer are those of `takes=`.
    for table in tables().filter(|table| table.name != ARGUMENTS) {
        for row in &table.rows {
            let Some(word) = &row.word else { continue };
            let engines = out.entry(path_of_word(word)).or_default();
            match engines.last_mut().filter(|(name, _)| *name == table.name) {
                Some((_, keys)) => keys.push(row.key.clone()),
                None => engines.push((table.name, vec![row.key.clone()])),
            }
        }
    }
    out
});

/// Converts the word of a key's row to a path: `train/optimizer.lr` to `train.optimizer.lr`, and
/// `train/optimizer`, whose argument it is, to `train.optimizer.name`.
fn path_of_word(word: &str) -> String {
    match word {
        "train/optimizer" => "train.optimizer.name".to_owned(),
        "adapter" | "quantize" => format!("{word}.kind"),
        _ => word.replace('/', "."),
    }
}

/// Returns the default that SageMaker model parallel has for a parameter, by its generations.
fn smp_default(name: &str, ty: Ty) -> String {
    let of = |version| {
        let row = parameter(version, name)?;
        let value = row.default.as_ref().map(|value| match ty {
            Ty::Bool => format!("`#{value}`"),
            _ => format!("`{}`", literal(ty, value)),
        });
        value.or_else(|| row.default_words.clone())
    };
    match (of(SmpVersion::V1), of(SmpVersion::V2)) {
        (None, None) => "the library's own".to_owned(),
        (Some(one), None) | (None, Some(one)) => one,
        (Some(first), Some(second)) => format!("{first} (v1), {second} (v2)"),
    }
}

/// Returns a value as KDL.
pub(super) fn literal(ty: Ty, value: &str) -> String {
    let is_bare = match ty {
        Ty::Int(..) | Ty::Count | Ty::Number(..) | Ty::Bool => true,
        Ty::Scalar | Ty::BoolOr(_) | Ty::Warmup => value.starts_with('#') || value.parse::<f64>().is_ok(),
        _ => false,
    };
    if is_bare { value.to_owned() } else { format!("\"{value}\"") }
}

/// Describes a type in a few words; docs/language.md explains the units.
pub(super) fn short_type(ty: Ty) -> String {
    match ty {
        Ty::Text | Ty::Plain => "text".to_owned(),
        Ty::Int(0, u64::MAX) => "whole number from 0".to_owned(),
        Ty::Int(1, u64::MAX) | Ty::Count => "whole number".to_owned(),
        Ty::Int(low, u64::MAX) => format!("whole number from {low}"),
        Ty::Int(low, high) => {
            format!("whole number from {} to {}", text::group_digits(low), text::group_digits(high))
        }
        Ty::Number(low, high) if high < 1e9 && (low, high) != (0.0, 1e6) => {
            format!("number from {} to {}", text::short_number(low), text::short_number(high))
        }
        Ty::Number(..) => "number".to_owned(),
        Ty::Bytes => "size".to_owned(),
        Ty::Duration => "duration".to_owned(),
        Ty::Rate => "data rate".to_owned(),
        Ty::Every => "steps, a duration or `\"optimal\"`".to_owned(),
        Ty::Warmup => "steps or a fraction of them".to_owned(),
        Ty::StepsOrEpoch => "steps or `\"epoch\"`".to_owned(),
        Ty::Scalar => "any value".to_owned(),
        Ty::Bool => "switch".to_owned(),
        Ty::BoolOr(words) => format!("switch, or {}", text::backtick_list(words, "or")),
        Ty::Word(_) => ty.describe_expected(),
    }
}
