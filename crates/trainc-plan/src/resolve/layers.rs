//! `extends`, `env` and `--set`: the layers of a manifest, in order, made into one job node.

use super::{Choices, merge, set};
use std::collections::BTreeMap;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, SourceMap, Span, Spanned};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Override;
use trainc_syntax::ast::{File, Node, Twin};

declare_code!(T0201, "layer-cycle", Error, "layers extend each other in a cycle");
declare_code!(T0202, "layer-unreadable", Error, "a layer cannot be read");
declare_code!(T0203, "layer-outside-root", Error, "a layer is outside the repository");
declare_code!(T0204, "unknown-env", Error, "no layer defines the requested environment");
declare_code!(T0205, "layer-has-job", Error, "a layer contains a job");
declare_code!(T0206, "layer-digest-mismatch", Error, "the digest of a layer differs from the pinned digest");
declare_code!(T0207, "not-a-job", Error, "the file contains no job");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0201, &T0202, &T0203, &T0204, &T0205, &T0206, &T0207];

/// More layers than anybody lays over each other; keeps the work in bounds where each extends two others.
const MOST_LAYERS: usize = 256;

/// A layer that was found.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The name to show, relative to where the run started.
    pub name: String,
    /// What tells this file apart from all others (its canonical path).
    pub identity: String,
    /// Its text.
    pub text: String,
}

/// Why a layer could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerFault {
    /// It lies outside the repository's root.
    OutsideRoot,
    /// It is not there.
    NotFound,
    /// It is there but cannot be read; the text says why.
    Unreadable(String),
}

/// Supplies layers: the caller knows about files, this stage does not.
pub trait Loader {
    /// Reads the layer that a file names, relative to that file.
    fn layer(&mut self, from: &str, path: &str) -> Result<Loaded, LayerFault>;
    /// What tells the file of that name apart from all others.
    fn identity(&self, name: &str) -> String;
}

/// The job node with all layers in it.
pub(super) struct Merged {
    pub(super) job: Node,
    pub(super) overrides: Vec<Override>,
    /// A layer could not be had: what is not there may have stood in it.
    pub(super) incomplete: bool,
}

struct Layers<'a> {
    loader: &'a mut dyn Loader,
    sources: &'a mut SourceMap,
    problems: &'a mut Problems,
    /// The files being read, outermost first: identity and name.
    open: Vec<(String, String)>,
    /// Nodes under the file, earliest first.
    base: Vec<Vec<Node>>,
    envs: Vec<Node>,
    incomplete: bool,
    /// Layers already read, by identity: one that several files extend is read, and its problems said, once.
    read: BTreeMap<String, Option<File>>,
    /// How many were laid, those that stand there again included.
    laid: usize,
}

/// Merges all layers of a file. `None` where the file has no job.
pub(super) fn merge(
    file: File,
    source: SourceId,
    choices: &Choices,
    loader: &mut dyn Loader,
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> Option<Merged> {
    let File { job, extends, envs, layer } = file;
    let Some(mut job) = job else {
        let what = if layer.is_empty() && extends.is_empty() && envs.is_empty() {
            "holds nothing that describes one"
        } else {
            "is a layer"
        };
        problems.push(
            Diagnostic::new(&T0207, Span::whole(source), format!("no `job` in this file; it {what}"))
                .help("give it a `job \"name\" { … }`, or name a file that has one"),
        );
        return None;
    };
    let name = sources.get(source).map_or_else(String::new, |source| source.name.to_string());
    let identity = loader.identity(&name);
    let mut layers = Layers {
        loader,
        sources,
        problems,
        open: vec![(identity, name.clone())],
        base: Vec::new(),
        envs: Vec::new(),
        incomplete: false,
        read: BTreeMap::new(),
        laid: 0,
    };
    layers.extend(&extends, &name);
    layers.envs.extend(envs);
    let Layers { base, envs, mut incomplete, .. } = layers;

    if let Some(wanted) = &choices.env {
        let known: Vec<String> = envs.iter().filter_map(|env| env.first_text().map(str::to_owned)).collect();
        if !known.contains(wanted) {
            incomplete = true;
            problems.push(unknown_env(wanted, &known, &name, sources));
        }
    }
    // A second job of the file has the same layers; what they lack is said of the first.
    for twin in &mut job.twins {
        if let Twin::Node(other) = twin {
            let mut unsaid = Problems::default();
            lay(other, base.clone(), envs.clone(), choices, sources, &mut unsaid);
        }
    }
    let overrides = lay(&mut job, base, envs, choices, sources, problems);
    Some(Merged { job, overrides, incomplete })
}

/// Lays what stands under a job under its own nodes, and what stands over them over them.
fn lay(
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
        merge::over(&mut children, nodes, "", &mut overrides);
    }
    for env in envs {
        if choices.env.is_some() && env.first_text() == choices.env.as_deref() {
            merge::over(&mut children, env.children, "", &mut overrides);
        }
    }
    let sets = choices.sets.iter().map(|written| (written, None));
    let swept = choices.swept.iter().map(|(written, at)| (written, Some(*at)));
    for (written, at) in sets.chain(swept) {
        if let Some(nodes) = set::nodes(written, at, &children, sources, problems) {
            merge::over(&mut children, nodes, "", &mut overrides);
        }
    }
    job.children = children;
    overrides
}

/// `--env` names what no layer defines.
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
        diagnostic.note("the file and its layers have no `env`")
    } else {
        let mut once: Vec<&str> = Vec::new();
        for name in known {
            if !once.contains(&name.as_str()) {
                once.push(name);
            }
        }
        diagnostic.note(format!("defined here: {}", once.join(", ")))
    }
}

impl Layers<'_> {
    fn extend(&mut self, extends: &[Node], from: &str) {
        for node in extends {
            if node.args.is_empty() {
                self.incomplete = true;
                trainc_syntax::require::require(node, self.problems);
            }
            let Some((path, span)) = node.first_text().zip(node.arg(0).map(|arg| arg.span)) else { continue };
            let path = path.to_owned();
            let found = self.loader.layer(from, &path);
            self.incomplete |= found.is_err();
            match found {
                Ok(loaded) => self.layer(&loaded, node, Spanned::new(path, span)),
                Err(LayerFault::OutsideRoot) => self.problems.push(
                    Diagnostic::new(&T0203, span, format!("`{path}` leaves the root directory"))
                        .note("the root is the nearest directory upward with `.git`, else the file's own")
                        .help("move the layer below the root"),
                ),
                Err(LayerFault::NotFound) => self.problems.push(
                    Diagnostic::new(&T0202, span, format!("layer `{path}` is not there"))
                        .note("the path is relative to the file that says it"),
                ),
                Err(LayerFault::Unreadable(why)) => {
                    self.problems.push(Diagnostic::new(
                        &T0202,
                        span,
                        format!("layer `{path}` cannot be read: {why}"),
                    ));
                }
            }
        }
    }

    /// Holds a layer against the digest that `extends` pins.
    fn pinned(&mut self, loaded: &Loaded, node: &Node, path: &str) {
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
                        format!("`{path}` has digest {found}, not the one pinned here"),
                    )
                    .help(format!("read what changed, then pin `sha256=\"{found}\"`")),
                );
            }
        }
    }

    fn layer(&mut self, loaded: &Loaded, node: &Node, path: Spanned<String>) {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == loaded.identity) {
            let ring = self.open.iter().skip(at).map(|(_, name)| name.as_str());
            let ring: Vec<String> =
                ring.chain([loaded.name.as_str()]).map(|name| format!("`{name}`")).collect();
            self.problems.push(if ring.len() > 2 {
                let message = format!("layers extend each other in a circle: {}", ring.join(" → "));
                Diagnostic::new(&T0201, path.span, message).help("remove one `extends` of the circle")
            } else {
                let message = format!("`{}` extends itself", path.value);
                Diagnostic::new(&T0201, path.span, message).help("remove this `extends`")
            });
            self.incomplete = true;
            return;
        }
        if self.open.len() > 16 {
            self.problems.push(
                Diagnostic::new(&T0201, path.span, "layers are more than 16 deep").help("flatten them"),
            );
            self.incomplete = true;
            return;
        }
        self.laid += 1;
        if self.laid > MOST_LAYERS {
            if self.laid == MOST_LAYERS + 1 {
                self.problems.push(
                    Diagnostic::new(
                        &T0201,
                        path.span,
                        format!("over {MOST_LAYERS} layers lie over each other"),
                    )
                    .help("flatten them"),
                );
                self.incomplete = true;
            }
            return;
        }
        self.pinned(loaded, node, &path.value);
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
                    format!("`{}` is extended, so it is a layer and has no `job`", loaded.name),
                )
                .label(path.span, "extended here")
                .help("write its nodes at the top of the file, without `job`"),
            );
        }
        self.open.push((loaded.identity.clone(), loaded.name.clone()));
        self.extend(&file.extends, &loaded.name);
        self.open.pop();
        // What a file with a job says is laid under nonetheless: that is what the author wanted.
        self.base.push(file.job.map_or(file.layer, |job| job.children));
        self.envs.extend(file.envs);
    }
}
