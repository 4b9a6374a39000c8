//! The pipeline from a merged manifest to a predicted plan.

use crate::files::paths;
use crate::resolve::{self, Merged, T0207};
use crate::{Options, Repository, World, bind, delivery, plan, script, takes, unmodelled};
use std::sync::Arc;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::{self as ir, Plan};
use trainc_predict as predict;

/// A manifest, compiled as far as possible.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The job's name, if it could be read.
    pub job: Option<String>,
    /// The plan, unless nothing could be read.
    pub plan: Option<Box<Plan>>,
    /// Predicted memory, time and cost.
    pub prediction: Box<predict::Prediction>,
    /// Problems of all stages, sorted.
    pub problems: Problems,
    /// True if the file is a layer: it has no job, and other files extend it.
    pub is_layer: bool,
    /// The job as written, with all layers merged into one node.
    pub merged: Option<Box<Merged>>,
    /// The job on each of its preferred instance types; `None` without preferences.
    pub choices: Option<Box<Choices>>,
}

/// A job on each of its preferred instance types. The plan of the job itself is for the first.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// The problems of the plan for the first type, without those of the others.
    pub problems_of_first: Problems,
    /// The job on each further type, in their order.
    pub further: Vec<Choice>,
}

/// A job on another instance type that it may run on.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The instance type.
    pub instance: String,
    /// The plan.
    pub plan: Box<Plan>,
    /// Predicted memory, time and cost.
    pub prediction: Box<predict::Prediction>,
    /// All problems of this plan, sorted.
    pub problems: Problems,
}

impl Compiled {
    /// Returns the result for a file that could not be read.
    pub fn unreadable_file(problems: Problems) -> Self {
        Self {
            job: None,
            plan: None,
            prediction: Box::default(),
            problems,
            is_layer: false,
            merged: None,
            choices: None,
        }
    }

    /// Returns the problems of a file that was not requested as a job: a layer does not need one.
    pub fn own_problems(&self) -> impl Iterator<Item = &Diagnostic> {
        self.problems.iter().filter(|one| !(self.is_layer && one.code == &T0207))
    }

    /// Drops all problems except [`own_problems`](Self::own_problems).
    pub fn retain_own_problems(&mut self) {
        let is_layer = self.is_layer;
        self.problems.retain(|one| !(is_layer && one.code == &T0207));
    }

    /// Returns the plan for an instance type of its preferences; `None` if that is not a further one.
    pub fn plan_of_type(&self, instance: &str) -> Option<&Plan> {
        let mut further = self.choices.iter().flat_map(|choices| &choices.further);
        further.find(|one| one.instance == instance).map(|one| &*one.plan)
    }

    /// Returns the plan if no stage reported an error. `emit` accepts only such a plan.
    pub fn plan_without_errors(&self) -> Option<&Plan> {
        self.plan.as_deref().filter(|_| self.problems.errors() == 0)
    }

    /// Returns the plan if its cluster is not on SageMaker, also if it has errors.
    pub fn other_cluster_plan(&self) -> Option<&Plan> {
        self.plan.as_deref().filter(|plan| plan.on_sagemaker.is_none())
    }

    /// Returns the plan if it has no errors and its cluster is on SageMaker, so that an account has its
    /// resources.
    pub fn sagemaker_plan(&self) -> Option<&Plan> {
        self.plan_without_errors().filter(|plan| plan.on_sagemaker.is_some())
    }
}

/// Plans a merged job and predicts it, without running any rule.
pub fn plan_and_predict(
    merged: Merged,
    mut problems: Problems,
    options: &Options,
    world: &mut dyn World,
    sources: &mut SourceMap,
) -> Compiled {
    let job = resolve::resolve(&merged, &options.choices, sources, &mut problems);
    let name = job.name.value().cloned();
    let mut inputs = read_inputs(&job, options, world, sources);
    inputs.files.clone_from(&merged.files);
    inputs.programs.clone_from(&merged.programs);
    inputs.requirements.clone_from(&merged.requirements);
    inputs.script = read_script(&job, &inputs, sources);
    let plan = plan::plan(job, inputs, &mut problems);
    let plan = bind::bind(plan, sources, &mut problems).with_manifest_account();
    let plan = takes::add_arguments(plan, &mut problems);
    let mut plan = plan::decide_bound_values(plan);
    plan.named_files = script::named_files(&plan, sources);
    plan.unmodelled = unmodelled::unmodelled(&plan);
    plan.delivery = delivery::delivery(&plan);
    let prediction = predict(&plan, options);
    let plan = with_expectation(plan, &prediction, options);
    Compiled {
        job: name,
        plan: Some(Box::new(plan)),
        prediction: Box::new(prediction),
        problems,
        is_layer: false,
        merged: Some(Box::new(merged)),
        choices: None,
    }
}

/// Predicts memory, time and cost with the chosen constants.
fn predict(plan: &Plan, options: &Options) -> predict::Prediction {
    predict::of_plan(plan, options.constants.as_ref().unwrap_or_else(|| predict::Constants::shipped()))
}

/// Adds the planned figures that the job's start script receives, if the job has one that needs them.
fn with_expectation(mut plan: Plan, prediction: &predict::Prediction, options: &Options) -> Plan {
    if plan.is_probed() || plan.enforced_budget().is_some() {
        let constants = options.constants.as_ref().unwrap_or_else(|| predict::Constants::shipped());
        plan.expectation = Some(Box::new(predict::expectation(&plan, prediction, constants)));
    }
    plan
}

/// Reads the program of a job, if it is a Python file of its source.
fn read_script(job: &ir::Job, inputs: &plan::PlanInputs, sources: &mut SourceMap) -> Option<Arc<ir::Script>> {
    let program = job.program.as_ref().filter(|program| program.entrypoint.is_empty())?;
    let tree = inputs.source.as_ref()?.as_ref().ok()?;
    let from =
        program.source.span().and_then(|span| sources.get(span.source)).map(|source| source.name.to_string());
    let directory = match from {
        Some(from) => paths::join(&from, &tree.dir),
        None => tree.dir.clone(),
    };
    script::read(program.entry.value()?, tree, &directory, &inputs.programs, sources)
}

/// Reads the files that the job names, through the caller.
fn read_inputs(
    job: &ir::Job,
    options: &Options,
    world: &mut dyn World,
    sources: &SourceMap,
) -> plan::PlanInputs {
    let file_of = |span: Option<Span>| {
        span.and_then(|span| sources.get(span.source))
            .map_or_else(String::new, |source| source.name.to_string())
    };
    let mut inputs = plan::PlanInputs {
        prices: options.prices.clone(),
        discount: options.discount,
        ..plan::PlanInputs::default()
    };
    if let Some(program) = &job.program {
        if let Some(dir) = program.source.val() {
            inputs.source = Some(world.read_directory(&file_of(dir.origin.span()), &dir.value));
        }
        if let Some(url) = program.git.value() {
            let [branch, commit, dir] = [&program.branch, &program.commit, &program.dir];
            let word = |field: &'_ ir::Field<String>| field.value().cloned();
            let (branch, commit, dir) = (word(branch), word(commit), word(dir));
            inputs.source = world.read_git_tree(&Repository {
                url,
                branch: branch.as_deref(),
                commit: commit.as_deref(),
                dir: dir.as_deref(),
            });
        }
        for dir in &program.dependencies {
            inputs.dependencies.push(world.read_directory(&file_of(dir.origin.span()), &dir.value));
        }
    }
    if let Some(config) = job.model.as_ref().and_then(|model| model.config.val()) {
        inputs.model_config = Some(world.read_text(&file_of(config.origin.span()), &config.value));
    }
    if trainc_engine::runs_worker(job) {
        inputs.worker = world.worker_binary();
    }
    inputs
}
