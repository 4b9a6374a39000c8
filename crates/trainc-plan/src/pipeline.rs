//! The pipeline from a merged manifest to a predicted plan.

use crate::resolve::{self, Merged};
use crate::{Options, Repository, World, bind, plan};
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::{self as ir, Plan};
use trainc_predict as predict;

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
    let file_of = |span: Option<Span>| {
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
