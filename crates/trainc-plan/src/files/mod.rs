//! Files of other programs that the manifest names: reads them, and merges what they set into the job.
//!
//! Input: the merged nodes of a job, and the files through the caller. Output: the nodes with what the files
//! set, each value at its place in the file; the files; and problems. What a key means is in the tables of
//! the catalogue. What an engine refuses or ignores is checked once the plan is known.

mod layer;
pub(crate) mod paths;
pub(crate) mod programs;

use crate::{ReadError, World, script};
use layer::Place;
use std::collections::BTreeSet;
use trainc_catalog::engine_files::{self, KeyRow, KeyTable};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceMap, Span, Spanned};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_engine::files::{self, Names};
use trainc_ir::payload::CODE_DIRECTORY;
use trainc_ir::{FileReader, FileSetting, FileValue, ForeignFile, ProgramVersion, Scalar, version_of};
use trainc_syntax::ast::{Node, Value};

declare_code!(
    T0801,
    "unreadable-engine-file",
    Error,
    "a file of the engine or the program that cannot be read",
    ends: Speed
);
declare_code!(
    T0802,
    "conflicting-file-value",
    Error,
    "a value of a file that differs from the manifest or another file",
    ends: Speed
);
declare_code!(
    T0803,
    "invalid-file-value",
    Error,
    "a value of a file that its program refuses",
    ends: Speed
);
declare_code!(
    T0804,
    "unresolvable-file",
    Error,
    "a file named in a file that the container will not find",
    ends: Speed
);

/// The codes of this stage.
pub(super) static CODES: &[&Code] = &[&T0801, &T0802, &T0803, &T0804];

/// The directory of the channels in the container.
const CHANNELS: &str = "/opt/ml/input/";

/// The most files that a job reads: bounds the work if each names others.
const MAX_FILES: usize = 16;

/// Reads the files that a job names, and merges what they set into it. If it is said so, a value that the job
/// has already replaces that of a file. Also returns whether all of them could be read.
pub(super) fn read(
    job: &mut Node,
    (programs, replaces): (&[ProgramVersion], bool),
    world: &mut dyn World,
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> (Vec<ForeignFile>, bool) {
    let files = Vec::new();
    let has_trainer = makes_trainer(job, world, sources);
    let mut reader =
        Reader { job, programs, replaces, has_trainer, world, sources, problems, files, is_whole: true };
    reader.read_engine_file();
    reader.read_program_file();
    (reader.files, reader.is_whole)
}

/// Returns whether a program makes a Trainer of transformers or TRL: in its entry point, or in a module that
/// this imports.
fn makes_trainer(job: &Node, world: &mut dyn World, sources: &SourceMap) -> bool {
    let program = || {
        // Only what an engine's file means depends on it.
        job.child("parallel")?.prop("file")?;
        let program = job.child("program")?;
        let directory = text_of(program.prop("source"))?;
        let entry = program.first_text().filter(|entry| entry.ends_with(".py"))?;
        let from = sources.get(directory.span.source)?.name.to_string();
        Some((directory.value, entry.to_owned(), from))
    };
    let Some((directory, entry, from)) = program() else { return false };
    let first = entry.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut waiting = vec![entry.clone()];
    let mut seen = BTreeSet::from([entry.clone()]);
    let mut modules = 0;
    while let Some(path) = waiting.pop() {
        let Ok(text) = world.read_text(&from, &paths::join_directory(&directory, &path)) else { continue };
        let module = trainc_python::read(&text);
        if trainc_ir::script::makes_trainer(&module) {
            return true;
        }
        modules += 1;
        if modules >= script::MAX_MODULES {
            break;
        }
        let imported = module.imports.iter().flat_map(|import| script::paths_of(import, &path, first));
        waiting.extend(imported.filter(|path| seen.insert(path.clone())));
    }
    false
}

struct Reader<'a> {
    job: &'a mut Node,
    programs: &'a [ProgramVersion],
    /// True if values of the job replace those of files.
    replaces: bool,
    /// Whether the program makes a Trainer, as far as its entry point shows it.
    has_trainer: bool,
    world: &'a mut dyn World,
    sources: &'a mut SourceMap,
    problems: &'a mut Problems,
    files: Vec<ForeignFile>,
    /// False if a file could not be read.
    is_whole: bool,
}

/// A file to be read.
struct Wanted {
    reader: FileReader,
    table: &'static KeyTable,
    /// Its path, relative to the file that names it.
    path: Spanned<String>,
    /// The file to which the path is relative.
    from: String,
    /// Its path in the source archive, and whether the program's directory has it there.
    packed: (String, bool),
}

impl Reader<'_> {
    fn read_engine_file(&mut self) {
        let Some(node) = self.job.child("parallel") else { return };
        let Some(path) = text_of(node.prop("file")) else { return };
        let Some(Value::Text(engine)) = node.prop("engine").map(|value| &value.value) else { return };
        let table = trainc_engine::find(engine).and_then(|engine| engine.front.file);
        let Some(table) = table.and_then(engine_files::keys) else { return };
        self.read_named(FileReader::Engine, table, path, "engine");
    }

    fn read_program_file(&mut self) {
        let Some(path) = self.job.child("train").and_then(|node| text_of(node.prop("file"))) else { return };
        let Some(table) = engine_files::keys(engine_files::ARGUMENTS) else { return };
        self.read_named(FileReader::Program, table, path, "args");
    }

    /// Reads a file that the manifest names.
    fn read_named(
        &mut self,
        reader: FileReader,
        table: &'static KeyTable,
        path: Spanned<String>,
        directory: &str,
    ) {
        let from = self.name_of(path.span);
        let here = paths::join(&from, &path.value);
        let inside =
            self.program_directory().and_then(|(from, dir)| paths::inside(&paths::join(&from, &dir), &here));
        let packed = match inside {
            Some(inside) => (inside, true),
            None => (format!("{directory}/{}", paths::file_name(&here)), false),
        };
        self.read(Wanted { reader, table, path, from, packed });
    }

    fn version(&self, package: &str) -> Option<&str> {
        version_of(self.programs, package)
    }

    /// Returns whether the program hands its arguments to a Trainer, as the manifest says it.
    fn has_trainer(&self) -> bool {
        let has = |node, name| self.job.child(node).is_some_and(|node| node.prop(name).is_some());
        self.has_trainer || has("train", "file") || has("program", "takes")
    }

    /// Returns the displayed name of the source with a span.
    fn name_of(&self, span: Span) -> String {
        self.sources.get(span.source).map_or_else(String::new, |source| source.name.to_string())
    }

    /// Returns the program's directory, and the file that names it.
    fn program_directory(&self) -> Option<(String, String)> {
        let path = text_of(self.job.child("program")?.prop("source"))?;
        Some((self.name_of(path.span), path.value))
    }

    fn read(&mut self, wanted: Wanted) {
        let Wanted { reader, table, path, from, packed: (packed_as, is_in_source) } = wanted;
        if self.files.len() >= MAX_FILES {
            return;
        }
        let text = match self.world.read_text(&from, &path.value) {
            Ok(text) => text,
            Err(fault) => return self.give_up(unreadable(&path, &fault)),
        };
        let name = paths::join(&from, &path.value);
        let source = self.sources.add(name, text.clone());
        let whole = Span::whole(source);
        let document = match files::read(table, &path.value, &text) {
            Ok(document) => document,
            Err(error) => {
                let at = Span::new(source, error.span.start, error.span.end);
                let message = format!("`{}` is not valid {}: {}", path.value, table.syntax, error.message);
                return self.give_up(Diagnostic::new(&T0801, at, message).label(path.span, "named here"));
            }
        };
        if !matches!(document.value, trainc_document::Value::Mapping(_)) {
            let message = format!("`{}` has no keys: expected a map", path.value);
            return self.give_up(Diagnostic::new(&T0801, whole, message).label(path.span, "named here"));
        }
        let text: std::sync::Arc<str> = text.into();
        for (at, part) in files::parts(table, &document, source).into_iter().enumerate() {
            let mut file = ForeignFile {
                reader: if at == 0 { reader } else { FileReader::OtherFile },
                table: part.table.name,
                path: path.value.clone(),
                packed_as: packed_as.clone(),
                is_in_source: is_in_source || at > 0,
                text: text.clone(),
                span: whole,
                settings: part.settings,
                is_replaced: false,
            };
            file.is_replaced = self.merge(part.table, &file);
            self.files.push(file.clone());
            self.read_files_in(part.table, &file);
        }
    }

    /// Reports a file that exists only in the container, unless the manifest says what trainc needs of it.
    fn report_unread(&mut self, written: &str, span: Span) {
        let has_strategy = self.job.child("parallel").is_some_and(|node| node.child("strategy").is_some());
        if !has_strategy {
            self.give_up(
                Diagnostic::new(&T0804, span, format!("trainc cannot read `{written}`, which decides the layout"))
                    .help("add its stage to `parallel`, such as `strategy \"zero-3\"`, or keep the file in `source`"),
            );
        }
    }

    /// Reports a file that cannot be read: what it sets is unknown.
    fn give_up(&mut self, problem: Diagnostic) {
        self.is_whole = false;
        self.problems.push(problem);
    }

    /// Reads the files that a file names.
    fn read_files_in(&mut self, table: &'static KeyTable, file: &ForeignFile) {
        for setting in &file.settings {
            let named = table.find(&setting.key).and_then(|row| row.opens.as_deref());
            let Some(other) = named.and_then(engine_files::keys) else { continue };
            let FileValue::Scalar(Scalar::Text(written)) = &setting.value else { continue };
            let path =
                written.strip_prefix(CODE_DIRECTORY).map_or(&**written, |path| path.trim_start_matches('/'));
            if matches!(path, "" | "none") {
                continue;
            }
            let program = self.program_directory().filter(|_| !path.starts_with(CHANNELS));
            let Some((from, dir)) = program else {
                self.report_unread(written, setting.value_span);
                continue;
            };
            // Relative to the program's directory, as in the container, and not above it.
            let inside = paths::inside(".", path).map(|path| paths::join_directory(&dir, &path));
            let is_found = inside.is_some_and(|path| {
                let read = self.world.read_text(&from, &path);
                !matches!(read, Err(ReadError::NotFound | ReadError::OutsideRoot { .. }))
            });
            if !is_found {
                let message = format!("`{written}` is not in the program's directory `{dir}`");
                self.give_up(
                    Diagnostic::new(&T0804, setting.value_span, message)
                        .help(format!("move the file into `{dir}`, and write its path from there"))
                        .note("the job reads the path in its working directory, which has what `source` has"),
                );
                continue;
            }
            let path = paths::join_directory(&dir, path);
            let packed = (paths::inside(&dir, &path).unwrap_or_default(), true);
            self.read(Wanted {
                reader: FileReader::OtherFile,
                table: other,
                path: Spanned::new(path, setting.value_span),
                from,
                packed,
            });
        }
    }

    /// Merges what a file sets into the job. Returns true if the job's own values replaced some of it.
    fn merge(&mut self, table: &'static KeyTable, file: &ForeignFile) -> bool {
        let mut is_replaced = false;
        let engine = self.job.child("parallel").and_then(|node| text_of(node.prop("engine")));
        let takes = self.job.child("program").and_then(|node| text_of(node.prop("takes")));
        let known = [
            ("takes", takes.map_or(Scalar::Null, |class| Scalar::Text(class.value))),
            ("has_trainer", Scalar::Bool(self.has_trainer())),
            ("engine", engine.map_or(Scalar::Null, |engine| Scalar::Text(engine.value))),
        ];
        let names = Names::default()
            .with_file(table, file, self.programs)
            .with("versions", files::versions(self.programs))
            .with("plan", known);
        for setting in &file.settings {
            let Some(row) = table.find(&setting.key) else { continue };
            is_replaced |= self.merge_setting(row, setting, &names);
        }
        for row in table.rows.iter().filter(|row| row.implied && file.setting(&row.key).is_none()) {
            let Some(default) = row.default_value(self.version(table.package_of(row))) else { continue };
            let around = row.key.rsplit_once('.').and_then(|(around, _)| file.setting(around));
            let span = around.map_or(file.span, |map| map.key_span);
            let setting = FileSetting {
                key: row.key.clone(),
                value: FileValue::Scalar(default),
                key_span: span,
                value_span: span,
                replaced: Vec::new(),
            };
            is_replaced |= self.merge_setting(row, &setting, &names);
        }
        is_replaced
    }

    /// Merges a value into the job. Returns true if a value of the job replaced it.
    fn merge_setting(&mut self, row: &KeyRow, setting: &FileSetting, names: &Names) -> bool {
        let Some(place) = row.word.as_deref().and_then(Place::parse) else { return false };
        let Some(written) = files::as_written(&setting.value) else { return false };
        let Some(meant) = files::meant(row, &written, names) else { return false };
        let value = match place.value(&meant) {
            Ok(value) => value,
            // The manifest has no word for it; a rule reports values that the program refuses.
            Err(_) if matches!(meant, Scalar::Text(_)) => return false,
            Err(fault) => {
                let problem = place.describe_fault(&fault, &written, setting.value_span);
                self.problems.push(Diagnostic { code: &T0803, ..problem });
                return false;
            }
        };
        // A default yields to the manifest, whose value the program may get as an argument; of the layout an
        // engine reads its file alone.
        let is_default = setting.key_span == setting.value_span;
        let yields = is_default && row.word.as_deref().is_some_and(|word| word.starts_with("train/"));
        if yields && (place.find_alternative(self.job).is_some() || place.find(self.job).is_some()) {
            return false;
        }
        if let Some((other, other_place)) = place.find_alternative(self.job) {
            self.problems.push(conflict(&place, setting, &meant, (other, &other_place), self.sources));
            return false;
        }
        match place.find(self.job) {
            Some(written) if layer::is_same(&written.value, &value) || written.value == Value::Bad => {}
            Some(_) if self.replaces => return true,
            Some(other) => {
                let shown = place.shown();
                self.problems.push(conflict(&place, setting, &meant, (other.span, &shown), self.sources));
            }
            None => {
                self.write(&place, value, setting);
                for (word, implied) in &row.also {
                    let Some(place) = Place::parse(word) else { continue };
                    if let (None, Ok(value)) =
                        (place.find(self.job), place.value(&engine_files::scalar(implied)))
                    {
                        self.write(&place, value, setting);
                    }
                }
            }
        }
        false
    }

    /// Writes a value into the job, with its place in the file.
    fn write(&mut self, place: &Place, value: Value, setting: &FileSetting) {
        if let Some(node) = place.node(Spanned::new(value, setting.value_span), setting.key_span) {
            crate::resolve::merge_nodes(&mut self.job.children, vec![node], "", &mut Vec::new());
        }
    }
}

/// Reports a fact that is written twice with two values.
fn conflict(
    place: &Place,
    setting: &FileSetting,
    meant: &Scalar,
    (other, other_place): (Span, &str),
    sources: &SourceMap,
) -> Diagnostic {
    // A key that is absent has the place of the block around it.
    let is_default = setting.key_span == setting.value_span;
    let default = setting.value.scalar().filter(|_| is_default);
    let written = default.map_or_else(
        || sources.slice(setting.value_span).to_owned(),
        |value| format!("{} by default", value.as_variable()),
    );
    let shown = sources.slice(other);
    let key = setting.key.rsplit('.').next().unwrap_or(&setting.key);
    let sets = place.shown();
    let message = if sets == other_place {
        format!("`{key}` is {written} in this file, but `{sets}` is {shown} in the job")
    } else {
        format!("`{key}` {written} in this file sets `{sets}`, but the job has `{other_place}` {shown}")
    };
    let mut problem = Diagnostic::new(&T0802, setting.key_span.to(setting.value_span), message)
        .subject(setting.value_span)
        .label(other, "the other value")
        .help("remove one of the two, or give both the same value");
    if setting.value.scalar() != Some(meant) {
        problem = problem.note(format!("in words of the manifest the file says `{}`", meant.written()));
    }
    problem.note("the program reads its file as it is; trainc changes no file that is not a manifest")
}

fn unreadable(path: &Spanned<String>, fault: &ReadError) -> Diagnostic {
    let why = match fault {
        ReadError::NotFound => "not found".to_owned(),
        ReadError::OutsideRoot { .. } => "is outside the root directory".to_owned(),
        ReadError::Unreadable(why) => format!("cannot be read: {why}"),
    };
    Diagnostic::new(&T0801, path.span, format!("`{}` {why}", path.value))
        .help("write a path of a file, relative to the file that names it")
}

fn text_of(value: Option<&Spanned<Value>>) -> Option<Spanned<String>> {
    let value = value?;
    match &value.value {
        Value::Text(text) => Some(Spanned::new(text.clone(), value.span)),
        _ => None,
    }
}
