//! The Python program of a job, as far as it can be read without running it.

use super::Scalar;
use std::ops::Range;
use std::sync::Arc;
use trainc_diag::source::{SourceId, Span};
use trainc_python::requirements::Requirements;
use trainc_python::{Expr, Module};

/// The entry point of a program and the modules of its source that it imports.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The modules, the entry point first.
    pub modules: Vec<ScriptModule>,
    /// Whether all of them, and all local imports, could be read.
    pub is_whole: bool,
    /// The command line that they parse; `None` if no known parser is seen.
    pub command_line: Option<CommandLine>,
}

/// Packages that parse a command line in ways that are not read here, or have a `main` that does.
const COMMAND_LINE_PACKAGES: [&str; 25] = [
    "absl",
    "argh",
    "axolotl",
    "click",
    "configargparse",
    "docopt",
    "fire",
    "getopt",
    "hydra",
    "jsonargparse",
    "lightning",
    "litgpt",
    "llamafactory",
    "nemo_run",
    "omegaconf",
    "optparse",
    "plac",
    "pydantic_settings",
    "pytorch_lightning",
    "sagemaker_training",
    "simple_parsing",
    "torchtitan",
    "torchtune",
    "typer",
    "tyro",
];

/// A module of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptModule {
    /// Its path in the source.
    pub path: String,
    /// Its text, for places.
    pub source: SourceId,
    /// The first byte of each of its lines.
    pub lines: Arc<[usize]>,
    /// What it contains.
    pub module: Arc<Module>,
    /// Arguments of its calls that are options of the vocabulary.
    pub known_arguments: Arc<[ArgumentPlace]>,
}

/// An argument of a call whose keyword is an option of the vocabulary, as
/// `TrainingArguments(learning_rate=…)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentPlace {
    /// The call, by its number in the module.
    pub call: usize,
    /// The argument, by its number in the call.
    pub argument: usize,
    /// The name of the option in the vocabulary.
    pub option: &'static str,
}

impl ScriptModule {
    /// Returns the line of a place in the module, from 1.
    pub fn line(&self, at: &Range<usize>) -> usize {
        self.lines.partition_point(|start| *start <= at.start)
    }

    /// Returns the span of a place in the module.
    pub fn span(&self, at: &Range<usize>) -> Span {
        Span::new(self.source, at.start, at.end)
    }
}

impl Script {
    /// Returns the calls of a function of this name in all modules, each with its module.
    pub fn calls<'a>(
        &'a self,
        function: &'a str,
    ) -> impl Iterator<Item = (&'a ScriptModule, &'a trainc_python::Call)> {
        let of = move |module: &'a ScriptModule| {
            let named = module.module.calls.iter().filter(move |call| call.function() == function);
            named.map(move |call| (module, call))
        };
        self.modules.iter().flat_map(of)
    }

    /// Returns whether a module imports a package or a module in it.
    pub fn imports(&self, package: &str) -> bool {
        let is_it = |name: &str| name.split('.').next() == Some(package);
        self.modules
            .iter()
            .flat_map(|one| &one.module.imports)
            .any(|import| import.level == 0 && is_it(&import.module))
    }

    /// Returns whether the program reads its arguments at all, as far as it shows: with a parser, from
    /// `sys.argv`, or from the variables of the training toolkit.
    pub fn reads_arguments(&self) -> bool {
        let reads_itself = || {
            let modules = || self.modules.iter().map(|one| &one.module);
            modules().flat_map(|one| &one.attributes).any(|read| read.name == "argv")
                || modules()
                    .flat_map(|one| &one.imports)
                    .flat_map(|one| &one.names)
                    .any(|(name, _)| name == "argv")
                || modules().flat_map(|one| &one.texts).any(|text| {
                    text.value.starts_with("SM_HP") || text.value.contains("hyperparameters.json")
                })
        };
        !self.is_whole
            || self.command_line.is_some()
            || COMMAND_LINE_PACKAGES.iter().any(|package| self.imports(package))
            || self.starts_programs()
            || reads_itself()
    }

    /// Returns whether a function with a beginning of these is called, as `os.exec`.
    pub fn calls_any(&self, beginnings: &[&str]) -> bool {
        self.modules.iter().any(|one| {
            let mut names = one.module.calls.iter().map(|call| one.module.full_name(&call.name));
            names.any(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)))
        })
    }

    /// Returns whether it starts other programs, which are not read.
    pub fn starts_programs(&self) -> bool {
        self.calls_any(&["subprocess.", "os.system", "os.popen", "os.exec", "os.spawn", "runpy.", "pty."])
    }

    /// Returns whether a text of a module is this one.
    pub fn has_text(&self, text: &str) -> bool {
        self.modules.iter().flat_map(|one| &one.module.texts).any(|one| one.value == text)
    }
}

/// Returns whether a module makes a Trainer of transformers or TRL, or its arguments.
pub fn makes_trainer(module: &Module) -> bool {
    module.calls.iter().any(|call| {
        let full = module.full_name(&call.name);
        let is_theirs = full.starts_with("transformers.") || full.starts_with("trl.");
        let name = call.function();
        is_theirs
            && (name.ends_with("Trainer")
                || super::ARGUMENT_CLASSES.contains(&name)
                || name == "HfArgumentParser"
                || name == "TrlParser")
    })
}

/// A file of requirements in the source of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct RequirementsFile {
    /// Its path in the source.
    pub path: String,
    /// Its text, for places.
    pub source: SourceId,
    /// What it says.
    pub content: Requirements,
}

impl RequirementsFile {
    /// Returns the span of a place in the file.
    pub fn span(&self, at: &Range<usize>) -> Span {
        Span::new(self.source, at.start, at.end)
    }
}

/// Work of a program in addition to training that the prediction does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmodelled {
    /// What it is, as a phrase.
    pub what: String,
    /// Whether it takes memory of the GPUs, so that nobody knows whether the job fits.
    pub takes_memory: bool,
    /// Whether it takes time of each step.
    pub takes_time: bool,
    /// Where it shows: in the manifest, a file of arguments, or the program.
    pub span: Span,
}

/// The command line of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandLine {
    /// The options, in the order of their declarations.
    pub options: Vec<CommandOption>,
    /// Whether all options are known.
    pub is_complete: bool,
    /// Whether the program stops at an option that it does not declare.
    pub rejects_unknown: bool,
    /// Whether options are abbreviated: argparse takes the beginning of a name for it.
    pub abbreviates: bool,
    /// The parser.
    pub parser: ParserKind,
    /// The classes whose fields are options, with the names by which libraries publish them.
    pub classes: Vec<String>,
}

/// What parses a command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParserKind {
    /// argparse.
    #[default]
    Argparse,
    /// transformers' `HfArgumentParser`.
    Dataclasses,
    /// TRL's `TrlParser`, which also reads a YAML file that `--config` names.
    DataclassesAndFile,
}

/// An option of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandOption {
    /// Its spellings, without the dashes in front.
    pub names: Vec<String>,
    /// The attribute that has its value.
    pub attribute: String,
    /// What it takes.
    pub takes: Takes,
    /// Its value when nothing is passed.
    pub default: OptionDefault,
    /// Whether the program stops without it.
    pub is_required: bool,
    /// Its only values, if they are declared.
    pub choices: Vec<Scalar>,
    /// Where the program declares it; `None` for a field of a library's class.
    pub span: Option<Span>,
    /// The library's class that declares it.
    pub class: Option<String>,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// An integer.
    Int,
    /// A number.
    Float,
    /// Any text.
    Text,
    /// A word for true or false.
    Truth,
    /// Any text, which is true unless it is empty: `type=bool`.
    TrueIfAny,
    /// Several values.
    Several,
    /// Nothing: a switch.
    Nothing,
    /// Something that a function of the program reads.
    Unknown,
}

/// The value of an option that is not passed.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionDefault {
    /// This one.
    Value(Scalar),
    /// `None`, which the program may replace.
    None,
    /// Computed.
    Unknown,
}

impl CommandLine {
    /// Returns the option of a name as it is passed: `-` and `_` differ, as in argparse.
    pub fn option(&self, name: &str) -> Option<&CommandOption> {
        let find = |name: &str| self.options.iter().find(|option| option.names.iter().any(|one| one == name));
        find(name).or_else(|| {
            let mut begins =
                self.options.iter().filter(|option| option.names.iter().any(|one| one.starts_with(name)));
            let only = begins.next().filter(|_| self.abbreviates);
            only.filter(|_| begins.next().is_none())
        })
    }
}

/// Returns the value of an expression that is a literal.
pub fn literal(expression: &Expr) -> Option<Scalar> {
    Some(match expression {
        Expr::None => Scalar::Null,
        Expr::Bool(value) => Scalar::Bool(*value),
        Expr::Int(value) => Scalar::Int(*value),
        Expr::Float(value) => Scalar::Float(*value),
        Expr::Text(value) => Scalar::Text(value.clone()),
        _ => return None,
    })
}
