//! Reads the Python program of a job: the entry point, and the modules of its source that it imports.
//!
//! Only what an import names is read, never a walk of the source.

mod command_line;

use crate::files::paths;
use std::collections::BTreeSet;
use std::sync::Arc;
use trainc_catalog::memo::Memo;
use trainc_catalog::{engine_files, script_calls};
use trainc_diag::source::{SourceMap, Span};
use trainc_ir::payload::CODE_DIRECTORY;
use trainc_ir::{
    ArgumentPlace, FileReader, ForeignFile, ParserKind, Plan, ProgramVersion, Scalar, Script, ScriptModule,
    SourceFile, SourceTree,
};
use trainc_python::{Argument, Call, Import, Module};

/// The most modules of a program that are read.
pub(crate) const MAX_MODULES: usize = 64;

/// Modules by the digest of their text: the jobs of a repository share scripts.
static MODULES: Memo<String, (Arc<Module>, Arc<[ArgumentPlace]>)> = Memo::new();

/// Reads a program. `directory` is the displayed path of its source. Returns `None` if the entry point is not
/// a Python file of the source.
pub(crate) fn read(
    entry: &str,
    tree: &SourceTree,
    directory: &str,
    programs: &[ProgramVersion],
    sources: &mut SourceMap,
) -> Option<Arc<Script>> {
    let file = tree.get(entry).filter(|file| is_python(&file.path))?;
    let mut out = Script { modules: Vec::new(), is_whole: true, command_line: None };
    let mut waiting = vec![file];
    let mut seen = BTreeSet::from([file.path.as_str()]);
    // The directory of the entry point is the first in which Python looks for a module.
    let first = file.path.rsplit_once('/').map_or("", |(directory, _)| directory);
    while let Some(file) = waiting.pop() {
        let (module, known_arguments) = module(file);
        out.is_whole &= module.is_whole;
        for import in &module.imports {
            for path in paths_of(import, &file.path, first) {
                let Some(found) = tree.get(&path).filter(|found| !seen.contains(found.path.as_str())) else {
                    continue;
                };
                if seen.len() >= MAX_MODULES {
                    out.is_whole = false;
                    break;
                }
                seen.insert(&found.path);
                waiting.push(found);
            }
        }
        let name = paths::join_directory(directory, &file.path);
        let text = file.text();
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        let source = sources.add_once(&name, &text);
        out.modules.push(ScriptModule { path: file.path.clone(), source, lines, module, known_arguments });
    }
    out.command_line = command_line::read(&out, programs);
    Some(Arc::new(out))
}

/// Options that name a DeepSpeed config.
const DEEPSPEED_OPTIONS: [&str; 3] = ["deepspeed", "deepspeed_config", "ds_config"];

/// Reads the files of the source that an argument names: the YAML that the program's parser opens, and a
/// DeepSpeed config. A file that cannot be read is left to the program.
pub(crate) fn named_files(plan: &Plan, sources: &mut SourceMap) -> Vec<ForeignFile> {
    let Some(script) = &plan.script else { return Vec::new() };
    let mut out = Vec::new();
    let parser = script.command_line.as_ref().map(|line| line.parser);
    let takes_file = parser == Some(ParserKind::DataclassesAndFile);
    if takes_file && plan.file_of(FileReader::Program).is_none() {
        let named = argument(plan, &["config"]);
        out.extend(
            named.and_then(|path| {
                named_file(plan, &path, engine_files::ARGUMENTS, FileReader::Program, sources)
            }),
        );
    }
    if plan.file_of(FileReader::Engine).is_none() && plan.written_file().is_none() {
        let in_call = || {
            let known = known_arguments(script).find(|known| known.option == "deepspeed")?;
            match &known.argument.value {
                trainc_python::Expr::Text(path) => Some(path.clone()),
                _ => None,
            }
        };
        let named =
            argument(plan, &DEEPSPEED_OPTIONS).or_else(in_call).filter(|path| path.ends_with(".json"));
        out.extend(
            named.and_then(|path| named_file(plan, &path, "deepspeed", FileReader::OtherFile, sources)),
        );
    }
    out
}

/// Returns the text that one of these options gets.
fn argument(plan: &Plan, names: &[&str]) -> Option<String> {
    let program = plan.job.program.as_ref()?;
    let named =
        program.hyperparameters.iter().find(|h| names.contains(&h.name.replace('-', "_").as_str()))?;
    match named.value.value()? {
        Scalar::Text(path) => Some(path.clone()),
        _ => None,
    }
}

/// Reads a file of the source by its path in the container.
fn named_file(
    plan: &Plan,
    path: &str,
    table: &str,
    reader: FileReader,
    sources: &mut SourceMap,
) -> Option<ForeignFile> {
    let path = path.strip_prefix(CODE_DIRECTORY).map_or(path, |path| path.trim_start_matches('/'));
    let path = path.strip_prefix("./").unwrap_or(path);
    let file = plan.source.as_ref()?.get(path)?;
    let table = engine_files::keys(table)?;
    let text = std::str::from_utf8(&file.bytes).ok()?;
    let document = trainc_engine::files::read(table, path, text).ok()?;
    // The displayed path of the source is that of the program's modules.
    let module = plan.script.as_ref()?.modules.first()?;
    let shown = sources.get(module.source).map(|source| source.name.to_string())?;
    let directory = shown.strip_suffix(&module.path).unwrap_or_default().trim_end_matches('/').to_owned();
    let source = sources.add_once(&paths::join_directory(&directory, path), text);
    let part = trainc_engine::files::parts(table, &document, source).into_iter().next()?;
    Some(ForeignFile {
        reader,
        table: part.table.name,
        path: path.to_owned(),
        packed_as: path.to_owned(),
        is_in_source: true,
        text: text.into(),
        span: Span::whole(source),
        settings: part.settings,
        is_replaced: false,
    })
}

/// An argument of a call whose keyword is an option of the vocabulary.
pub struct KnownArgument<'a> {
    /// The module with the call.
    pub module: &'a ScriptModule,
    /// The call.
    pub call: &'a Call,
    /// The name of the option in the vocabulary.
    pub option: &'static str,
    /// The argument.
    pub argument: &'a Argument,
}

/// Returns the arguments of known calls in a program, as `TrainingArguments(learning_rate=…)`.
pub fn known_arguments(script: &Script) -> impl Iterator<Item = KnownArgument<'_>> {
    script.modules.iter().flat_map(|module| {
        module.known_arguments.iter().filter_map(move |known| {
            let call = module.module.calls.get(known.call)?;
            let argument = call.arguments.get(known.argument)?;
            Some(KnownArgument { module, call, option: known.option, argument })
        })
    })
}

/// Returns whether a path is that of a Python module.
fn is_python(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|extension| extension == "py")
}

/// Reads a module once for each content.
fn module(file: &SourceFile) -> (Arc<Module>, Arc<[ArgumentPlace]>) {
    MODULES.get(file.sha256().to_owned(), |_| {
        let module = trainc_python::read(&file.text());
        let known = known(&module);
        (module.into(), known)
    })
}

/// Returns the arguments of known calls in a module.
fn known(module: &Module) -> Arc<[ArgumentPlace]> {
    let calls = module.calls.iter().enumerate().filter(|(_, call)| script_calls::is_known(call.function()));
    let arguments = calls.flat_map(|(at, call)| {
        call.arguments.iter().enumerate().filter_map(move |(argument, one)| {
            let option = script_calls::option_of(call.function(), one.keyword.as_ref()?)?;
            Some(ArgumentPlace { call: at, argument, option })
        })
    });
    arguments.collect()
}

/// Returns the paths that the modules of an import may have in the source.
pub(crate) fn paths_of(import: &Import, from: &str, first: &str) -> Vec<String> {
    let mut directories: Vec<String> = Vec::new();
    if import.level > 0 {
        let mut parts: Vec<&str> = from.split('/').collect();
        parts.truncate(parts.len().saturating_sub(import.level));
        directories.push(parts.join("/"));
    } else {
        directories.extend([first.to_owned(), String::new(), "src".to_owned()]);
    }
    let module = import.module.replace('.', "/");
    // `from a import b`: `b` may be a module.
    let mut names = vec![module.clone()];
    names.extend(import.names.iter().map(|(name, _)| {
        let name = name.replace('.', "/");
        if module.is_empty() { name } else { format!("{module}/{name}") }
    }));
    let join = |directory: &str, name: &str| match (directory, name) {
        ("", name) => name.to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, name) => format!("{directory}/{name}"),
    };
    let mut out = Vec::new();
    for directory in &directories {
        for name in names.iter().filter(|name| !name.is_empty() || import.level > 0) {
            let base = join(directory, name);
            out.extend([format!("{base}.py"), format!("{base}/__init__.py")]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> SourceTree {
        let file = |(path, text): &(&str, &str)| SourceFile::new(*path, text.as_bytes().to_vec(), false);
        SourceTree { dir: "src".to_owned(), files: files.iter().map(file).collect() }
    }

    fn modules(entry: &str, files: &[(&str, &str)]) -> Vec<String> {
        let script = read(entry, &tree(files), "src", &[], &mut SourceMap::default()).unwrap();
        let mut paths: Vec<String> = script.modules.iter().map(|one| one.path.clone()).collect();
        paths.sort();
        paths
    }

    #[test]
    fn modules_are_those_that_imports_reach() {
        let files = [
            ("train.py", "from lib.args import parse\nimport helpers as h\nimport torch\n"),
            ("lib/__init__.py", ""),
            ("lib/args.py", "from . import common\nfrom ..helpers import x\n"),
            ("lib/common.py", "import train\n"),
            ("helpers.py", ""),
            ("tests.py", ""),
        ];
        let reached = ["helpers.py", "lib/__init__.py", "lib/args.py", "lib/common.py", "train.py"];
        assert_eq!(modules("train.py", &files), reached);
        let inside = [("scripts/run.py", "import tools\n"), ("scripts/tools.py", ""), ("tools.py", "")];
        assert_eq!(modules("scripts/run.py", &inside), ["scripts/run.py", "scripts/tools.py", "tools.py"]);
    }

    #[test]
    fn a_shell_script_is_no_program() {
        let files = tree(&[("run.sh", "python train.py")]);
        assert!(read("run.sh", &files, "src", &[], &mut SourceMap::default()).is_none());
    }
}
