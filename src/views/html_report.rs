//! report.html: the plan, and a comparison with other numbers of nodes.

use trainc_check as check;
use trainc_diag::Problems;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_plan::Options;
use trainc_predict::bills::on_demand_cost;
use trainc_predict::{Constants, Fit, Prediction};
use trainc_project::manifests::{Manifest, Set};
use trainc_report::Subject;
use trainc_report::html::{self, Outcome, Point, Runs, Scaling};
use trainc_report::json::Document;
use trainc_tune::scaling::{self, Scaled};

/// Returns the page of one manifest.
pub(crate) fn report(
    subject: &Subject,
    document: &Document,
    manifest: &Manifest,
    set: &Set,
    options: &Options,
) -> String {
    html::report(subject, document, &compare_node_counts(manifest, set, options))
}

/// Compares the job with other numbers of nodes; every layout passes the checks.
fn compare_node_counts(manifest: &Manifest, set: &Set, options: &Options) -> Scaling {
    let Some(plan) = manifest.compiled.plan_without_errors() else {
        return Scaling::Unknown("the plan has errors".to_owned());
    };
    let constants = options.constants.as_ref().unwrap_or_else(|| Constants::shipped());
    let judge = |plan: &Plan| {
        let mut problems = Problems::default();
        check::check(plan, options, &set.sources, &mut problems);
        // The date must not change the output.
        problems.remove_dated();
        problems
    };
    match scaling::scaling(plan, &manifest.compiled.prediction, constants, &judge) {
        Ok(found) => Scaling::Points(found.into_iter().map(|one| point(one, plan)).collect()),
        Err(why) => Scaling::Unknown(why.0.to_owned()),
    }
}

fn point(one: Scaled, plan: &Plan) -> Point {
    let mesh = plan.mesh.as_ref();
    Point {
        nodes: one.nodes,
        gpus: one.nodes * mesh.map_or(1, |mesh| mesh.gpus_per_node),
        is_plan: mesh.is_some_and(|mesh| mesh.nodes == one.nodes),
        outcome: match one.outcome {
            scaling::Outcome::Runs(found) => {
                let (plan, prediction) = *found;
                scaling_figures(&plan, &prediction).map_or_else(
                    || Outcome::Illegal("unknown step time".to_owned()),
                    |runs| Outcome::Runs(Box::new(runs)),
                )
            }
            scaling::Outcome::TooBig(bytes) => Outcome::TooBig(bytes),
            scaling::Outcome::Illegal(why) => Outcome::Illegal(why),
        },
    }
}

fn scaling_figures(plan: &Plan, prediction: &Prediction) -> Option<Runs> {
    let speed = prediction.speed.as_ref()?;
    let memory = prediction.memory.as_ref()?;
    let tokens = speed.tokens_per_second * speed.step_seconds;
    let run = prediction.run.as_ref();
    let cost_usd = run.and_then(|run| run.cost_usd);
    let is_spot = plan.is_spot();
    let on_demand = || on_demand_cost(plan, run?.expected_seconds()).total_usd();
    Some(Runs {
        layout: layout(plan),
        tokens_per_second: speed.tokens_per_second,
        interval: trainc_predict::Interval {
            low: tokens / speed.interval.high,
            high: tokens / speed.interval.low,
        },
        memory_bytes: memory.per_gpu_bytes,
        may_need_bytes: memory.fit().filter(|fit| *fit != Fit::Surely).map(|_| memory.interval.high),
        run_seconds: run.map(trainc_predict::Run::expected_seconds),
        cost_usd: cost_usd.or_else(|| is_spot.then(on_demand)?),
        is_on_demand: is_spot && cost_usd.is_none(),
    })
}

/// Describes the values that may differ between numbers of nodes.
fn layout(plan: &Plan) -> String {
    let mut parts = Vec::new();
    if let Some(mesh) = plan.mesh.as_ref().filter(|mesh| mesh.shard_degree.value > 1) {
        parts.push(format!("shard {}", text::group_digits(mesh.shard_degree.value)));
    }
    if let Some(batch) = &plan.batch {
        parts.push(format!("micro-batch {}", text::group_digits(batch.micro_batch_size.value)));
        if batch.accumulation.value > 1 {
            parts.push(format!("accumulation {}", text::group_digits(batch.accumulation.value)));
        }
    }
    parts.join(", ")
}
