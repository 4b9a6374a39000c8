//! Facts of Python programs, read without running them: of modules their imports, calls, classes, assignments
//! and variables of the environment; of a requirements.txt its packages.
//!
//! In: the text of a module. Out: a [`Module`], each of whose facts has the bytes at which it is written.
//! What is not understood is left out or [`Expr::Other`], never guessed. The grammar is tree-sitter's, which
//! is kept by its authors, reads modules with syntax errors as far as they go, and needs no stack for
//! deep nesting; this crate bounds the size of a text, the depth of an expression and the work of the parser.
//! Independent of manifests and files.

mod read;
pub mod requirements;

pub use read::read;

use std::ops::Range;

/// What a module contains, in the order of its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// Its imports.
    pub imports: Vec<Import>,
    /// Its calls, an outer one in front of those in its arguments.
    pub calls: Vec<Call>,
    /// Its classes.
    pub classes: Vec<Class>,
    /// Assignments to a name, at any depth.
    pub assignments: Vec<Assignment>,
    /// Attributes that are read, as `learning_rate` of `args.learning_rate`.
    pub attributes: Vec<Attribute>,
    /// Texts, without those of comments and docstrings.
    pub texts: Vec<Text>,
    /// True if it was read whole: it has no syntax error, and is within all limits.
    pub is_whole: bool,
}

/// An import of a module or of names in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The module, as `torch.distributed`; empty for `from . import x`.
    pub module: String,
    /// The dots in front of it: 0 for an absolute import.
    pub level: usize,
    /// The names that it imports from the module, each with the name that it gets; none for a plain
    /// import, `*` for all.
    pub names: Vec<(String, String)>,
    /// Whether it may fail or not run: in a function, a branch or a `try`.
    pub is_conditional: bool,
    /// Its place.
    pub at: Range<usize>,
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The called name with its dots, as `parser.add_argument`; empty for other expressions.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// True if `*args` or `**options` add others.
    pub is_open: bool,
    /// Its place.
    pub at: Range<usize>,
}

impl Call {
    /// Returns the last part of the called name.
    pub fn function(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// Returns a keyword's argument.
    pub fn keyword(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|one| one.keyword.as_deref() == Some(name))
    }

    /// Returns the arguments without a keyword, in order.
    pub fn positional(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|one| one.keyword.is_none())
    }
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its keyword, if it has one.
    pub keyword: Option<String>,
    /// Its value.
    pub value: Expr,
    /// Its place, with the keyword.
    pub at: Range<usize>,
}

/// An expression, as far as it is understood.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// Another number.
    Float(f64),
    /// A text without placeholders.
    Text(String),
    /// A name with its dots.
    Name(String),
    /// A list, tuple or set.
    List(Vec<Expr>),
    /// A call.
    Call(Box<Call>),
    /// A subscript, as `list[str]`.
    Subscript(Box<Expr>, Vec<Expr>),
    /// Anything else.
    Other,
}

/// A class.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The names of its bases.
    pub bases: Vec<String>,
    /// Its annotated fields.
    pub fields: Vec<Field>,
    /// Its place: that of its name.
    pub at: Range<usize>,
}

/// An annotated field of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its annotation.
    pub annotation: Expr,
    /// The value that it is set to.
    pub default: Option<Expr>,
    /// Its place.
    pub at: Range<usize>,
}

/// An assignment to one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The name, with its dots.
    pub name: String,
    /// The value.
    pub value: Expr,
    /// Its place.
    pub at: Range<usize>,
}

/// An attribute that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its place.
    pub at: Range<usize>,
}

/// A text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Its value; of a text with placeholders, its literal parts.
    pub value: String,
    /// Its place.
    pub at: Range<usize>,
}

impl Module {
    /// Returns the names of the environment's variables that the module reads by a literal name:
    /// `os.environ["X"]`, `os.environ.get("X")`, `os.getenv("X")`.
    pub fn variables(&self) -> Vec<&str> {
        let reads = |call: &&Call| {
            matches!(call.function(), "getenv")
                || (matches!(call.function(), "get" | "setdefault" | "pop")
                    && is_environ(call.name.rsplit_once('.').map_or("", |(of, _)| of)))
        };
        let is_item = |call: &&Call| call.name == ENVIRON_ITEM;
        let values = self.calls.iter().filter(|call| reads(call) || is_item(call));
        let texts = values.filter_map(|call| match &call.positional().next()?.value {
            Expr::Text(name) => Some(name.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Returns what a name that an import brings means, as `trl.SFTConfig` for `SFTConfig` after
    /// `from trl import SFTConfig`; the name itself if no import brings it.
    pub fn full_name(&self, name: &str) -> String {
        let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
        for import in &self.imports {
            let brought = import.names.iter().find(|(_, given)| given == first);
            let full = match brought {
                Some((own, _)) if import.names.len() == 1 && own == &import.module => own.clone(),
                Some((own, _)) => format!("{}{}.{own}", ".".repeat(import.level), import.module),
                None => continue,
            };
            return rest.map_or(full.clone(), |rest| format!("{full}.{rest}"));
        }
        name.to_owned()
    }
}

/// The name by which `os.environ[…]` is among the calls.
pub(crate) const ENVIRON_ITEM: &str = "os.environ.__getitem__";

/// Returns whether a name means the environment.
pub(crate) fn is_environ(name: &str) -> bool {
    name == "environ" || name.ends_with(".environ")
}
