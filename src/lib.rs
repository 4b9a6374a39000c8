//! trainc: a compiler for training jobs.
//!
//! ```text
//! text --syntax--> ast --resolve--> ir::Job --plan--> ir::Plan --bind--> ir::Plan --check--> Problems
//! ir::Plan --emit--> Bundle        Plan, Problems --report--> plan.json, plan.md, report.html, terminal
//! ```
//!
//! [`compile`] is the whole way from text to a checked plan; the stages stand below in reading order. Every
//! stage reports all its problems and still returns what it could make.

pub mod source;
pub mod syntax;
pub mod text;

pub mod diag;

pub mod ir;

pub mod catalog;

pub mod resolve;

pub mod predict;

pub mod plan;

pub mod bind;

pub mod check;

pub mod emit;

pub mod apply;

#[cfg(feature = "aws")]
pub mod aws;

pub mod calibrate;

pub mod tune;

pub mod compare;

pub mod measure;

pub mod report;

pub mod import;

pub mod data;
pub mod lsp;

pub mod cli;

use diag::{Code, Diagnostic, Problems};
use ir::{Plan, SourceFile, SourceTree};
use resolve::{Choices, LayerFault, Loader, Merged};
use source::{SourceId, SourceMap};
use std::sync::LazyLock;

/// Supplies what a manifest names: layers, the program's files, a model's config. The caller knows about files.
pub trait World: Loader {
    /// A directory of the program, relative to the file that names it.
    fn directory(&mut self, from: &str, path: &str) -> Result<SourceTree, LayerFault>;
    /// A text file, relative to the file that names it.
    fn text(&mut self, from: &str, path: &str) -> Result<String, LayerFault>;
    /// The tree of a git repository at its commit; nothing where nobody is asked.
    fn git(&mut self, _: &Repository) -> Option<Result<SourceTree, LayerFault>> {
        None
    }
    /// The worker's binary; none where there is none.
    fn worker(&mut self) -> Option<SourceFile> {
        None
    }
}

/// A program's git repository.
#[derive(Clone, Copy, Debug)]
pub struct Repository<'a> {
    /// Its address.
    pub url: &'a str,
    /// Branch or tag.
    pub branch: Option<&'a str>,
    /// Commit, which says more than a branch.
    pub commit: Option<&'a str>,
    /// Directory inside it.
    pub dir: Option<&'a str>,
}

/// What a run chooses from outside the manifest.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Layers and the account.
    pub choices: Choices,
    /// Today, as an ISO date; it may only change problems, never what is emitted.
    pub today: String,
    /// Prices from the command line: instance type and US dollars per hour, or a storage's key in the catalogue and US
    /// dollars per GB and month.
    pub prices: Vec<(String, f64)>,
    /// A discount from the command line, a fraction.
    pub discount: Option<f64>,
    /// Constants of the cost model, instead of those that ship.
    pub constants: Option<predict::Constants>,
    /// Whether everything that an artefact needs must be there (`emit`, `apply`).
    pub complete: bool,
    /// Whether git repositories are fetched: by what is compared with an account, where the content counts.
    pub fetch: bool,
    /// The worker's binary, where it was named.
    pub worker: Option<std::path::PathBuf>,
}

/// One manifest, compiled as far as it goes.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The job's name, if it could be read.
    pub job: Option<String>,
    /// The plan, unless nothing could be read.
    pub plan: Option<Box<Plan>>,
    /// What the plan needs and how fast it is.
    pub prediction: Box<predict::Prediction>,
    /// All problems of all stages, sorted.
    pub problems: Problems,
    /// The file is a layer: it has no job, and other files extend it.
    pub is_layer: bool,
    /// The job as it was written, all layers in one node.
    pub merged: Option<Box<Merged>>,
}

/// The code of a file that describes no job.
const NOT_A_JOB: &str = "T0207";

impl Compiled {
    /// Nothing could be read.
    pub fn nothing(problems: Problems) -> Self {
        Self { job: None, plan: None, prediction: Box::default(), problems, is_layer: false, merged: None }
    }

    /// The problems of the file where nobody named it as a job: that a layer has none is no problem of it.
    pub fn own_problems(&self) -> impl Iterator<Item = &Diagnostic> {
        self.problems.iter().filter(|one| !(self.is_layer && one.code.id == NOT_A_JOB))
    }

    /// Keeps [`own_problems`](Self::own_problems) alone.
    pub fn keep_own(&mut self) {
        let is_layer = self.is_layer;
        self.problems.retain(|one| !(is_layer && one.code.id == NOT_A_JOB));
    }

    /// The plan if it has no error: what emit takes.
    pub fn checked(&self) -> Option<&Plan> {
        self.plan.as_deref().filter(|_| self.problems.errors() == 0)
    }
}

/// Every code of every stage, sorted.
pub fn codes() -> &'static [&'static Code] {
    static ALL: LazyLock<Vec<&'static Code>> = LazyLock::new(|| {
        let mut codes = [
            syntax::codes(),
            resolve::codes(),
            plan::codes(),
            bind::codes(),
            check::codes(),
            emit::codes(),
            apply::codes(),
            import::codes(),
            data::codes(),
            calibrate::codes(),
            cli::codes(),
        ]
        .concat();
        codes.sort_by_key(|code| code.id);
        codes
    });
    &ALL
}

/// Compiles one manifest, given its text.
pub fn compile(
    source: SourceId,
    text: &str,
    options: &Options,
    world: &mut dyn World,
    sources: &mut SourceMap,
) -> Compiled {
    let mut problems = Problems::default();
    let Some(file) = syntax::parse(source, text, &mut problems) else {
        problems.sort();
        return Compiled::nothing(problems);
    };
    let is_layer =
        file.job.is_none() && !(file.layer.is_empty() && file.envs.is_empty() && file.extends.is_empty());
    let Some(merged) = resolve::lay(file, source, &options.choices, world, sources, &mut problems) else {
        problems.sort();
        return Compiled { is_layer, ..Compiled::nothing(problems) };
    };
    let mut compiled = forecast(merged, problems, options, world, sources);
    if let Some(plan) = &compiled.plan {
        check::check(plan, options, sources, codes(), &mut compiled.problems);
    }
    check_twins(&mut compiled, options, world, sources);
    // Only now: the rules read it, and whoever shows a line from here on must not.
    compiled.problems.iter().filter(|one| one.secret).for_each(|one| sources.hide(one.span));
    compiled.problems.sort();
    compiled
}

/// Holds to the rules what stands a second time where one may, each as if it were the one that counts.
fn check_twins(compiled: &mut Compiled, options: &Options, world: &mut dyn World, sources: &mut SourceMap) {
    let Some(merged) = &compiled.merged else { return };
    for (other, seconds) in resolve::rounds(merged) {
        let mut second = forecast(other, Problems::default(), options, &mut NotFetched(world), sources);
        if let Some(plan) = &second.plan {
            check::check(plan, options, sources, codes(), &mut second.problems);
        }
        for one in second.problems.iter() {
            // A layer that is laid twice says the same twice.
            let is_said = compiled.problems.iter().any(|said| said == one);
            if is_said || !seconds.iter().any(|second| second.is_to_blame(one)) {
                continue;
            }
            // A secret was found in the text already; as somebody's value it has better help.
            compiled.problems.retain(|said| {
                !(one.secret && said.secret && said.code == one.code && one.span.covers(said.span))
            });
            compiled.problems.push(one.clone());
        }
    }
}

/// A world in which no repository is asked: nobody fetches what may not count.
struct NotFetched<'a>(&'a mut dyn World);

impl Loader for NotFetched<'_> {
    fn layer(&mut self, from: &str, path: &str) -> Result<resolve::Loaded, LayerFault> {
        self.0.layer(from, path)
    }

    fn identity(&self, name: &str) -> String {
        self.0.identity(name)
    }
}

impl World for NotFetched<'_> {
    fn directory(&mut self, from: &str, path: &str) -> Result<SourceTree, LayerFault> {
        self.0.directory(from, path)
    }

    fn text(&mut self, from: &str, path: &str) -> Result<String, LayerFault> {
        self.0.text(from, path)
    }

    fn worker(&mut self) -> Option<SourceFile> {
        self.0.worker()
    }
}

/// Plans a job as written and predicts it; no rule is run over it.
pub fn forecast(
    merged: Merged,
    mut problems: Problems,
    options: &Options,
    world: &mut dyn World,
    sources: &mut SourceMap,
) -> Compiled {
    let job = resolve::resolve(&merged, &options.choices, sources, &mut problems);
    let name = job.name.value().cloned();
    let given = given(&job, options, world, sources);
    let plan = plan::plan(job, given, &mut problems);
    let plan = bind::bind(plan, sources, &mut problems).in_own_account();
    let prediction = predict(&plan, options);
    Compiled {
        job: name,
        plan: Some(Box::new(plan)),
        prediction: Box::new(prediction),
        problems,
        is_layer: false,
        merged: Some(Box::new(merged)),
    }
}

/// What a plan needs and how fast it is, by the constants chosen.
fn predict(plan: &Plan, options: &Options) -> predict::Prediction {
    predict::of_plan(plan, options.constants.as_ref().unwrap_or_else(|| predict::Constants::shipped()))
}

/// Reads what the job names, through the caller.
fn given(job: &ir::Job, options: &Options, world: &mut dyn World, sources: &SourceMap) -> plan::Given {
    let file_of = |span: Option<source::Span>| {
        span.and_then(|span| sources.get(span.source))
            .map_or_else(String::new, |source| source.name.to_string())
    };
    let mut given =
        plan::Given { prices: options.prices.clone(), discount: options.discount, ..plan::Given::default() };
    if let Some(program) = &job.program {
        if let Some(dir) = program.source.val() {
            given.source = Some(world.directory(&file_of(dir.origin.span()), &dir.value));
        }
        if let Some(url) = program.git.value() {
            let [branch, commit, dir] = [&program.branch, &program.commit, &program.dir];
            let word = |field: &'_ ir::Field<String>| field.value().cloned();
            let (branch, commit, dir) = (word(branch), word(commit), word(dir));
            given.source = world.git(&Repository {
                url,
                branch: branch.as_deref(),
                commit: commit.as_deref(),
                dir: dir.as_deref(),
            });
        }
        for dir in &program.dependencies {
            given.dependencies.push(world.directory(&file_of(dir.origin.span()), &dir.value));
        }
    }
    if let Some(config) = job.model.as_ref().and_then(|model| model.config.val()) {
        given.model_config = Some(world.text(&file_of(config.origin.span()), &config.value));
    }
    if job.parallel.as_ref().and_then(|parallel| parallel.engine.get()) == Some(ir::Engine::Worker) {
        given.worker = world.worker();
    }
    given
}
