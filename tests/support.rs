//! What the tests share: the repository's files, a world in memory, and the compiler over both.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use trainc_diag::source::{SourceId, SourceMap};
use trainc_diag::{self as diag, Diagnostic, Problems, Severity};
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::Compiled;
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};

/// The day on which fixtures and pages are compiled.
pub const TODAY: &str = "2026-06-01";

/// A program that sets its options in its source.
const TRAINER_SCRIPT: &str = include_str!("fixtures/trainer/train.py");
const LAUNCHER_SCRIPT: &str = include_str!("fixtures/launcher/train.py");
const NCCL_SCRIPT: &str = include_str!("fixtures/nccl/train.py");

/// The program of every job here: what it declares, and where it keeps its checkpoints.
const SCRIPT: &str = "\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument('--lr', type=float)
parser.add_argument('--warmup-steps', type=int)
parser.add_argument('--seed', type=int)
parser.add_argument('--resume', action='store_true')
args, _ = parser.parse_known_args()
checkpoints = '/opt/ml/checkpoints'
";

/// What a checkout without Git LFS has in place of a file.
const POINTER: &str = "\
version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 1842767
";

/// Returns wrapped text on one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a manifest without its `allow`s, so that its warnings are reported.
pub fn without_allows(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("allow "))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The repository.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> =
        LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap());
    &ROOT
}

/// The pages of the diagnostics, in the crates that declare their codes.
pub fn page_files() -> Vec<String> {
    files_of_crates(&[".md"]).into_iter().filter(|path| path.contains("src/codes/")).collect()
}

/// The Rust sources of the crates that `trainc` is built from.
pub fn sources() -> Vec<String> {
    let is_ours = |path: &String| {
        (path.starts_with("src/") || path.contains("/src/"))
            && !["worker", "research", "testing"]
                .iter()
                .any(|name| path.starts_with(&format!("crates/trainc-{name}/")))
    };
    files_of_crates(&[".rs"]).into_iter().filter(is_ours).collect()
}

/// The files of the root package and of the crates with one of these endings: sources, templates, tests,
/// benchmarks.
pub fn files_of_crates(endings: &[&str]) -> Vec<String> {
    let directories = ["benches", "crates", "documents", "src", "templates", "tests"];
    directories.iter().flat_map(|directory| files(directory, endings)).collect()
}

/// A file of the repository.
#[track_caller]
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below a directory of the repository with one of these endings, relative to the repository,
/// sorted. Links to directories are not followed: `crates/*/schemas` and `crates/*/templates` are those of
/// the top level.
pub fn files(dir: &str, endings: &[&str]) -> Vec<String> {
    fn walk(dir: &Path, endings: &[&str], out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                if !name.starts_with('.')
                    && !matches!(name.as_str(), "target" | "node_modules" | "__pycache__")
                {
                    walk(&path, endings, out);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(&root().join(dir), endings, &mut out);
    let mut out: Vec<String> =
        out.iter().map(|path| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()).collect();
    out.sort();
    out
}

/// Files by name, with `tests/fixtures` under them. Every directory of a program has one `train.py`, or the
/// files below it, but for one whose name has `missing` in it; every path that leads above the top is
/// outside.
#[derive(Default)]
pub struct Memory {
    files: BTreeMap<String, String>,
}

impl Memory {
    /// A world with one more file.
    pub fn with(mut self, name: &str, text: &str) -> Self {
        self.files.insert(name.to_owned(), text.to_owned());
        self
    }

    fn find(from: &str, path: &str) -> Result<String, ReadError> {
        let mut steps: Vec<&str> = from.split('/').collect();
        steps.pop();
        for step in path.split('/') {
            match step {
                "" | "." => {}
                ".." => {
                    if steps.pop().is_none() {
                        return Err(ReadError::OutsideRoot { is_repository: true });
                    }
                }
                step => steps.push(step),
            }
        }
        Ok(steps.join("/"))
    }

    fn get(&self, name: &str) -> Result<String, ReadError> {
        if let Some(text) = self.files.get(name) {
            return Ok(text.clone());
        }
        fs::read_to_string(root().join("tests/fixtures").join(name)).map_err(|_| ReadError::NotFound)
    }
}

impl LayerLoader for Memory {
    fn read_layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let name = Self::find(from, path)?;
        Ok(LoadedLayer { text: self.get(&name)?, identity: name.clone(), name })
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Memory {
    fn read_directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        let name = Self::find(from, path)?;
        if name.contains("missing") {
            return Err(ReadError::NotFound);
        }
        let file = |path: &str, text: &str| SourceFile::new(path, text.as_bytes(), false);
        // Programs as they are on disk.
        let on_disk = match name.as_str() {
            name if name.starts_with("programs/") => Some(format!("tests/fixtures/{name}")),
            name if name.starts_with("examples/") => Some(name.to_owned()),
            _ => None,
        };
        if let Some(directory) = on_disk {
            let texts = files(&directory, &[".py", ".txt", ".sh", ".json", ".yaml"]);
            let base = |one: &str| one.strip_prefix(&format!("{directory}/")).unwrap().to_owned();
            let files =
                texts.iter().map(|one| SourceFile::new(base(one), read(one).into_bytes(), false)).collect();
            return Ok(SourceTree { dir: path.to_owned(), files });
        }
        let mut files = vec![file("train.py", SCRIPT)];
        if name.contains("trainer") {
            files = vec![file("train.py", TRAINER_SCRIPT)];
        }
        if name.contains("nccl") {
            files = vec![file("train.py", NCCL_SCRIPT)];
        }
        if name.contains("launcher") {
            files = vec![file("train.py", LAUNCHER_SCRIPT)];
        }
        // Files of a case, in place of the usual one.
        let beside =
            |(path, text): (&String, &String)| Some(file(path.strip_prefix(&name)?.strip_prefix('/')?, text));
        let own: Vec<SourceFile> = self.files.iter().filter_map(beside).collect();
        if own.iter().any(|file| file.path == "train.py") || own.len() > 1 {
            files = own;
        }
        if name.contains("lfs-pointers") {
            files.insert(0, file("tokenizer.json", POINTER));
        }
        if name.contains("credentials") {
            files.insert(0, file(".env", "TOKEN=x\n"));
            files.insert(1, file("keys/ca.pem", "-----BEGIN CERTIFICATE-----\n"));
        }
        if name.contains("with-more-credentials") {
            files.insert(0, file(".aws/credentials", ""));
        }
        if name.contains("with-a-token") {
            files.push(file("upload.sh", "hf upload --token hf_abcdefghijklmnopqrstuvwx0\n"));
        }
        Ok(SourceTree { dir: path.to_owned(), files })
    }

    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        let name = Self::find(from, path)?;
        self.get(&name)
    }
}

/// One text and what became of it.
pub struct Outcome {
    pub compiled: Compiled,
    pub sources: SourceMap,
}

impl Outcome {
    /// The problems of severity warning or error, as codes, sorted.
    pub fn codes(&self) -> Vec<&'static str> {
        let mut codes: Vec<&str> = self.sharp().map(|d| d.code.id).collect();
        codes.sort_unstable();
        codes
    }

    /// Warnings and errors.
    pub fn sharp(&self) -> impl Iterator<Item = &Diagnostic> {
        self.compiled.problems.iter().filter(|d| d.severity > Severity::Note)
    }

    /// Each problem as its code and the text under it.
    pub fn places(&self) -> Vec<(&'static str, &str)> {
        self.sharp().map(|d| (d.code.id, self.sources.slice(d.span))).collect()
    }

    /// All problems as a terminal shows them, 100 columns, no colour.
    pub fn human(&self, path: &str) -> String {
        human(&self.sources, path, self.compiled.job.as_deref(), &self.compiled.problems)
    }

    /// One line for each problem, for messages of tests.
    pub fn lines(&self) -> String {
        self.compiled
            .problems
            .iter()
            .map(|d| {
                format!(
                    "  {} {} `{}`: {}\n",
                    d.severity.word(),
                    d.code.id,
                    self.sources.slice(d.span),
                    d.text()
                )
            })
            .collect()
    }
}

/// Problems as a terminal shows them, 100 columns, no colour.
pub fn human(sources: &SourceMap, path: &str, job: Option<&str>, problems: &Problems) -> String {
    let manifests = [diag::ManifestReport { path, job, problems }];
    let options = diag::Options {
        human: diag::human::Options { color: false, unicode: true, width: 100, notes: true },
        ..diag::Options::default()
    };
    diag::render(diag::Format::Human, &diag::Run { sources, manifests: &manifests }, &options)
}

/// Compiles a text in a world.
pub fn compile_in(mut world: Memory, name: &str, text: &str, options: &Options) -> Outcome {
    let mut sources = SourceMap::default();
    let source: SourceId = sources.add(name, text);
    world.files.insert(name.to_owned(), text.to_owned());
    let compiled = trainc_check::compile(source, text, options, &mut world, &mut sources);
    Outcome { compiled, sources }
}

/// Compiles a text as it stands.
pub fn compile(name: &str, text: &str) -> Outcome {
    compile_in(Memory::default(), name, text, &options(""))
}

/// The line before nodes that are laid over `tests/fixtures/base.kdl`.
pub const HEAD: &str = "extends \"base.kdl\"; job \"example\" {\n";

/// Lays nodes over the base of `tests/fixtures/base.kdl`.
pub fn over_base(nodes: &str) -> String {
    format!("{HEAD}{}\n}}\n", nodes.trim_end_matches('\n'))
}

/// Whether a `job` stands at the top of a text.
pub fn has_job(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("job ") || line == "job")
}

/// Options from the flags of the command line.
#[track_caller]
pub fn options(flags: &str) -> Options {
    let mut options =
        Options { today: TODAY.to_owned(), later_codes: trainc::later_codes(), ..Options::default() };
    let mut words = flags.split_whitespace();
    while let Some(flag) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("`{flag}` lacks its value")).to_owned();
        match flag {
            "--env" => options.choices.env = Some(value()),
            "--set" => options.choices.sets.push(value()),
            "--account" => options.choices.account = Some(value()),
            "--today" => options.today = value(),
            "--discount" => options.discount = Some(value().parse().unwrap()),
            "--price" => {
                let written = value();
                let (name, usd) = written.split_once('=').unwrap();
                options.prices.push((name.to_owned(), usd.parse().unwrap()));
            }
            // As `emit` compiles: everything that an artefact needs must be there.
            "--complete" => options.complete = true,
            other => panic!("no flag `{other}` for fixtures"),
        }
    }
    options
}

/// A directory of a test's own, empty, gone when the test ends.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trainc-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file below it and gives its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run of the binary gave.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    pub took: std::time::Duration,
}

impl Ran {
    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.out, self.err))
    }
}

/// Runs the built binary in a directory, at most for this long; a run that takes longer is killed and has no
/// code.
#[track_caller]
pub fn trainc_in(dir: &Path, args: &[&str], input: &[u8], limit: std::time::Duration) -> Ran {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let start = std::time::Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_trainc"))
        .args(args)
        .current_dir(dir)
        .env("NO_COLOR", "1")
        // Lines as a pipe gets them.
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feed = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let drain = |mut from: Box<dyn std::io::Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = drain(Box::new(child.stdout.take().unwrap()));
    let err = drain(Box::new(child.stderr.take().unwrap()));
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if start.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let took = start.elapsed();
    let _ = feed.join();
    Ran { code, out: out.join().unwrap(), err: err.join().unwrap(), took }
}

/// Waits until something is true; fails after far more time than a busy machine needs.
#[track_caller]
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_true() {
        assert!(began.elapsed() < std::time::Duration::from_mins(2), "{what}: not within two minutes");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Runs the built binary in the repository.
#[track_caller]
pub fn trainc(args: &[&str]) -> Ran {
    trainc_in(root(), args, b"", std::time::Duration::from_mins(1))
}
