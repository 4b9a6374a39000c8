//! The nodes that a job requires. They follow from its image and its cluster: a built-in algorithm needs no
//! program, and a plain script needs neither an engine nor training settings.

use crate::resolve::T0220;
use crate::resolve::missing_node::missing_node;
use trainc_catalog::{images, instances};
use trainc_diag::{Diagnostic, Help, Problems};
use trainc_engine::of_job;
use trainc_ir::engine::Needs;
use trainc_ir::{EngineName, Field, Job, Parallel, Val};

/// The origin of the engine of a job without `parallel`.
const PLAIN: &str = "one plain process on each host: the job has no `parallel`";

/// Sets the engine of a plain job, and reports `parallel`, `train` and `program` where the job needs them.
pub(super) fn complete(mut job: Job, problems: &mut Problems) -> Job {
    report_missing_settings(&job, problems);
    let name = job.name.value().cloned().unwrap_or_default();
    let mut missing = |job: &Job, what: &str, example: String, note: Option<&str>| {
        let diagnostic = missing_node(job.span, job.removed(&[what]), &name, what, &example);
        problems.push(match note {
            Some(note) => diagnostic.note(note),
            None => diagnostic,
        });
    };
    if job.serverless_member().is_some() {
        return job;
    }
    let is_local = matches!(instance(&job), Some("custom" | "local"));
    if job.parallel.is_none() {
        // What was written as the instance type is reported already, and the engine depends on it.
        let is_unknown = job.cluster.as_ref().is_some_and(|cluster| cluster.instance.is_bad());
        if is_unknown {
            job.parallel = Some(Parallel { engine: Field::Bad, ..Parallel::at(job.span) });
        } else if is_local || describes_layout(&job) {
            missing(&job, "parallel", parallel_example(&job), None);
        } else {
            job.parallel = Some(Parallel {
                engine: Field::Is(Val::default(EngineName::PLAIN, PLAIN)),
                ..Parallel::at(job.span)
            });
        }
    }
    // Without an engine the training settings are not required either: which are, depends on it.
    // A script that has the whole model on each GPU trains what only it knows.
    let trains = of_job(&job).is_some_and(|engine| !engine.law.whole_model);
    if trains && job.train.span.is_none() {
        let example = "train { precision \"bf16\"; sequence-length 2048; micro-batch 1; steps 100 }";
        missing(&job, "train", example.to_owned(), None);
    }
    if job.needs_program
        && job.program.is_none()
        && !job.image.as_ref().is_some_and(images::requests_algorithm)
    {
        missing(&job, "program", "program \"train.py\" source=\"./scripts\"".to_owned(), None);
    }
    job
}

/// Reports an engine without the strategy or the file that it needs.
fn report_missing_settings(job: &Job, problems: &mut Problems) {
    let (Some(engine), Some(parallel)) = (of_job(job), &job.parallel) else { return };
    let has_strategy = !parallel.strategy.is_absent();
    let name = engine.name();
    let (what, help) = match engine.front.needs {
        _ if !parallel.file.is_absent() => return,
        Needs::StrategyOrFile if !has_strategy => {
            let last = engine.front.strategies().last().unwrap_or_default();
            let help = Help::write(format!("strategy \"{last}\"")).or_write("file=\"ds_config.json\"");
            ("neither a `strategy` nor a `file`", help)
        }
        Needs::File => ("no `file`", Help::write("file=\"train.toml\"").and_text(", the program's own file")),
        Needs::Nothing | Needs::StrategyOrFile => return,
    };
    let at = parallel.engine.span().unwrap_or(parallel.span);
    problems.push(Diagnostic::new(&T0220, at, format!("engine `{name}` has {what}")).help(help));
}

fn instance(job: &Job) -> Option<&str> {
    job.cluster.as_ref()?.instance.value().map(String::as_str)
}

/// Returns whether the image is for a framework that PyTorch's engines do not start.
fn has_other_framework(job: &Job) -> bool {
    let Some(image) = &job.image else { return false };
    image.family.value().is_some_and(|family| images::other_families().contains(&family.as_str()))
        || image
            .uri
            .value()
            .and_then(|uri| images::parse_uri(uri))
            .is_some_and(|uri| images::family_of(&uri).is_some())
}

/// Returns whether a job without `parallel` has to name its engine: the layout of a training that it
/// describes depends on it. An instance type that the catalogue does not have counts as one with several
/// GPUs.
fn describes_layout(job: &Job) -> bool {
    let describes_training = job.train.span.is_some() || job.adapter.is_some();
    describes_training && !matches!(accelerators(job), Some(0 | 1))
}

/// Returns the accelerators of all instances, if known.
fn accelerators(job: &Job) -> Option<u64> {
    let cluster = job.cluster.as_ref()?;
    let of = |instance: &Field<String>, nodes: &Field<u64>| {
        let name = instance.value()?;
        if images::processor_of_instance(name) == Some("cpu") && instances::instance_exists(name) {
            return Some(0);
        }
        u64::from(instances::get(name)?.accelerators).checked_mul(nodes.get()?)
    };
    if cluster.groups.is_empty() {
        return of(&cluster.instance, &cluster.nodes);
    }
    cluster.groups.iter().map(|group| of(&group.instance, &group.nodes)).sum()
}

/// Returns the node to write for a job without engine.
fn parallel_example(job: &Job) -> String {
    let engine =
        if has_other_framework(job) || matches!(accelerators(job), Some(0 | 1)) { "none" } else { "fsdp" };
    format!("parallel engine=\"{engine}\"")
}
