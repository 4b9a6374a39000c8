//! Merges the layers of a manifest (`extends`, `env` and `--set`) in order into one job node.

use super::{Choices, merge, removal, set_flag};
use crate::ReadError;
use std::collections::BTreeMap;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, SourceMap, Span, Spanned};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Override;
use trainc_syntax::ast::{Duplicate, File, Node};

declare_code!(T0201, "layer-cycle", Error, "layers in a cycle, or too many layers", ends: Speed);
declare_code!(T0202, "layer-unreadable", Error, "a layer cannot be read", ends: Speed);
declare_code!(T0203, "layer-outside-root", Error, "a layer is outside the repository", ends: Speed);
declare_code!(T0204, "unknown-env", Error, "no layer defines the requested environment", ends: Speed);
declare_code!(T0205, "layer-has-job", Error, "a layer contains a job");
declare_code!(
    T0206,
    "layer-digest-mismatch",
    Error,
    "the digest of a layer differs from the pinned digest",
    ends: Speed
);
declare_code!(T0207, "not-a-job", Error, "the file contains no job");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0201, &T0202, &T0203, &T0204, &T0205, &T0206, &T0207];

/// Maximum number of layers; bounds the work if each layer extends two others.
const MAX_LAYERS: usize = 256;

/// A layer that was read.
#[derive(Clone, Debug)]
pub struct LoadedLayer {
    /// The name to display, relative to the working directory.
    pub name: String,
    /// A unique identity of the file (its canonical path).
    pub identity: String,
    /// Its text.
    pub text: String,
}

/// Reads layers for this stage, which does not access files itself.
pub trait LayerLoader {
    /// Reads the layer that a file names, relative to that file.
    fn read_layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError>;
    /// Returns a unique identity of the file with that name.
    fn file_identity(&self, name: &str) -> String;
}

/// The job node with all layers merged.
pub(super) struct MergedLayers {
    pub(super) job: Node,
    pub(super) overrides: Vec<Override>,
    /// True if a layer could not be read: a missing node may be in it.
    pub(super) incomplete: bool,
}

struct Layers<'a> {
    loader: &'a mut dyn LayerLoader,
    sources: &'a mut SourceMap,
    problems: &'a mut Problems,
    /// The files being read, outermost first: identity and name.
    open: Vec<(String, String)>,
    /// Nodes under the file, earliest first.
    base: Vec<Vec<Node>>,
    envs: Vec<Node>,
    incomplete: bool,
    /// Layers already read, by identity: a layer that several files extend is read and reported once.
    read: BTreeMap<String, Option<File>>,
    /// Number of merged layers, counting repeated ones.
    merged: usize,
}

/// Merges all layers of a file. Returns `None` if the file has no job.
pub(super) fn merge(
    file: File,
    source: SourceId,
    choices: &Choices,
    loader: &mut dyn LayerLoader,
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> Option<MergedLayers> {
    let File { job, extends, envs, layer } = file;
    let Some(mut job) = job else {
        let message = if layer.is_empty() && extends.is_empty() && envs.is_empty() {
            "no `job` in this file"
        } else {
            "no `job` in this file: it is a layer"
        };
        problems.push(
            Diagnostic::new(&T0207, Span::whole(source), message)
                .help("add `job \"name\" { … }`, or specify a file that has a job"),
        );
        return None;
    };
    let name = sources.get(source).map_or_else(String::new, |source| source.name.to_string());
    let identity = loader.file_identity(&name);
    let mut layers = Layers {
        loader,
        sources,
        problems,
        open: vec![(identity, name.clone())],
        base: Vec::new(),
        envs: Vec::new(),
        incomplete: false,
        read: BTreeMap::new(),
        merged: 0,
    };
    layers.load_extended_layers(&extends, &name);
    layers.envs.extend(envs);
    let Layers { base, envs, mut incomplete, .. } = layers;

    if let Some(wanted) = &choices.env {
        let known: Vec<String> = envs.iter().filter_map(|env| env.first_text().map(str::to_owned)).collect();
        if !known.contains(wanted) {
            incomplete = true;
            problems.push(unknown_env(wanted, &known, &name, sources));
        }
    }
    // A second job in the file has the same layers; their problems are reported for the first job only.
    for twin in &mut job.duplicates {
        if let Duplicate::Node(other) = twin {
            let mut ignored = Problems::default();
            apply_layers(other, base.clone(), envs.clone(), choices, sources, &mut ignored);
        }
    }
    let overrides = apply_layers(&mut job, base, envs, choices, sources, problems);
    Some(MergedLayers { job, overrides, incomplete })
}

/// Merges the extended layers under the nodes of a job, and `env`, `--set` and sweep values over them.
fn apply_layers(
    job: &mut Node,
    base: Vec<Vec<Node>>,
    envs: Vec<Node>,
    choices: &Choices,
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> Vec<Override> {
    let mut overrides = Vec::new();
    let mut children: Vec<Node> = Vec::new();
    for nodes in base.into_iter().chain([std::mem::take(&mut job.children)]) {
        merge::merge_nodes(&mut children, nodes, "", &mut overrides);
    }
    for env in envs {
        if choices.env.is_some() && env.first_text() == choices.env.as_deref() {
            merge::merge_nodes(&mut children, env.children, "", &mut overrides);
        }
    }
    let sets = choices.sets.iter().map(|written| (written, None));
    let swept = choices.swept.iter().map(|(written, at)| (written, Some(*at)));
    for (written, at) in sets.chain(swept) {
        if let Some(nodes) = set_flag::parse_set_flag(written, at, &children, sources, problems) {
            merge::merge_nodes(&mut children, nodes, "", &mut overrides);
        }
    }
    job.children = children;
    removal::take_away(job);
    overrides
}

fn unknown_env(wanted: &str, known: &[String], file: &str, sources: &mut SourceMap) -> Diagnostic {
    let text = format!("--env {wanted}");
    let at = sources.add(format!("<{text}>"), text.clone());
    let diagnostic = Diagnostic::new(
        &T0204,
        Span::new(at, "--env ".len(), text.len()),
        format!("no layer of `{file}` defines `env \"{wanted}\"`"),
    );
    if let Some(near) = text::nearest(wanted, known.iter().map(String::as_str)) {
        diagnostic.help(format!("did you mean `--env {near}`?"))
    } else if known.is_empty() {
        diagnostic.note("neither the file nor its layers define an `env`")
    } else {
        let mut unique: Vec<&str> = Vec::new();
        for name in known {
            if !unique.contains(&name.as_str()) {
                unique.push(name);
            }
        }
        diagnostic.note(format!("defined environments: {}", unique.join(", ")))
    }
}

/// What the root directory is, for notes.
const ROOT_NOTE: &str = "the root is the nearest parent directory with `.git`, otherwise the current \
    directory or, outside of it, the directory of the file";

/// Returns the nearest directory that contains a file and what it names by a path with `..`; `None` for other
/// paths.
fn directory_of_both(from: &str, path: &str) -> Option<String> {
    let ups =
        path.split('/').take_while(|step| matches!(*step, ".." | ".")).filter(|step| *step == "..").count();
    let mut steps: Vec<&str> = from.split('/').collect();
    steps.pop();
    for _ in 0..ups {
        match steps.last() {
            Some(step) if *step != ".." => {
                steps.pop();
            }
            _ => steps.push(".."),
        }
    }
    let directory = if steps.is_empty() { ".".to_owned() } else { steps.join("/") };
    (ups > 0).then_some(directory)
}

impl Layers<'_> {
    fn load_extended_layers(&mut self, extends: &[Node], from: &str) {
        for node in extends {
            if node.args.is_empty() {
                self.incomplete = true;
                trainc_syntax::required_values::check_required(node, &[], self.problems);
            }
            let Some((path, span)) = node.first_text().zip(node.arg(0).map(|arg| arg.span)) else { continue };
            let path = path.to_owned();
            let found = self.loader.read_layer(from, &path);
            self.incomplete |= found.is_err();
            match found {
                Ok(loaded) => self.add_layer(&loaded, node, Spanned::new(path, span)),
                Err(ReadError::OutsideRoot { is_repository }) => self.problems.push(
                    Diagnostic::new(&T0203, span, format!("`{path}` is outside the root directory"))
                        .note(ROOT_NOTE)
                        .help(match directory_of_both(from, &path).filter(|_| !is_repository) {
                            Some(directory) => {
                                format!("write `git init {directory}`, which makes that directory the root")
                            }
                            None => "move the layer into the root directory".to_owned(),
                        }),
                ),
                Err(ReadError::NotFound) => self.problems.push(
                    Diagnostic::new(&T0202, span, format!("layer `{path}` not found"))
                        .note("the path is relative to the file that contains it"),
                ),
                Err(ReadError::Unreadable(why)) => {
                    self.problems.push(Diagnostic::new(
                        &T0202,
                        span,
                        format!("layer `{path}` cannot be read: {why}"),
                    ));
                }
            }
        }
    }

    /// Compares a layer with the digest that `extends` pins.
    fn check_digest(&mut self, loaded: &LoadedLayer, node: &Node, path: &str) {
        if let Some((wanted, span)) = node.prop("sha256").and_then(|pin| match &pin.value {
            trainc_syntax::ast::Value::Text(text) => Some((text.clone(), pin.span)),
            _ => None,
        }) {
            let found = trainc_ir::digest::sha256_hex(loaded.text.as_bytes());
            if !wanted.eq_ignore_ascii_case(&found) {
                self.problems.push(
                    Diagnostic::new(
                        &T0206,
                        span,
                        format!("`{path}` has digest {found}, which differs from the pinned digest"),
                    )
                    .help(format!("review the change, then write `sha256=\"{found}\"`")),
                );
            }
        }
    }

    fn add_layer(&mut self, loaded: &LoadedLayer, node: &Node, path: Spanned<String>) {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == loaded.identity) {
            let ring = self.open.iter().skip(at).map(|(_, name)| name.as_str());
            let ring: Vec<String> =
                ring.chain([loaded.name.as_str()]).map(|name| format!("`{name}`")).collect();
            self.problems.push(if ring.len() > 2 {
                let message = format!("layers extend each other in a cycle: {}", ring.join(" → "));
                Diagnostic::new(&T0201, path.span, message).help("remove one `extends` of the cycle")
            } else {
                let message = format!("`{}` extends itself", path.value);
                Diagnostic::new(&T0201, path.span, message).help("remove this `extends`")
            });
            self.incomplete = true;
            return;
        }
        if self.open.len() > 16 {
            self.problems.push(
                Diagnostic::new(&T0201, path.span, "layers are nested more than 16 levels deep")
                    .help("merge some of the layers into one file"),
            );
            self.incomplete = true;
            return;
        }
        self.merged += 1;
        if self.merged > MAX_LAYERS {
            if self.merged == MAX_LAYERS + 1 {
                self.problems.push(
                    Diagnostic::new(&T0201, path.span, format!("more than {MAX_LAYERS} layers"))
                        .help("merge some of the layers into one file"),
                );
                self.incomplete = true;
            }
            return;
        }
        self.check_digest(loaded, node, &path.value);
        let (file, is_new) = if let Some(file) = self.read.get(&loaded.identity) {
            (file.clone(), false)
        } else {
            let source = self.sources.add(loaded.name.as_str(), loaded.text.as_str());
            let file = trainc_syntax::parse(source, &loaded.text, self.problems);
            self.read.insert(loaded.identity.clone(), file.clone());
            (file, true)
        };
        let Some(file) = file else {
            self.incomplete = true;
            return;
        };
        if let Some(job) = file.job.as_ref().filter(|_| is_new) {
            self.problems.push(
                Diagnostic::new(
                    &T0205,
                    job.name.span,
                    format!("`{}` contains a `job` but is used as a layer", loaded.name),
                )
                .label(path.span, "extended here")
                .help("move the nodes of the job to the top level of the file"),
            );
        }
        self.open.push((loaded.identity.clone(), loaded.name.clone()));
        self.load_extended_layers(&file.extends, &loaded.name);
        self.open.pop();
        // The nodes of the job are merged nonetheless, as the author intended.
        self.base.push(file.job.map_or(file.layer, |job| job.children));
        self.envs.extend(file.envs);
    }
}
