//! The same training on other numbers of nodes, each with the valid layout that is closest to the plan's.

use super::Unsearchable;
use trainc_diag::text;
use trainc_diag::{Problems, Severity};
use trainc_ir::Plan;
use trainc_plan::plan::divisors::divisors;
use trainc_plan::plan::replan::{LayoutChange, replan};
use trainc_predict::{self as predict, Constants, Prediction};

/// A job on a number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// Nodes.
    pub nodes: u64,
    /// Result.
    pub outcome: Outcome,
}

/// Result for a number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It runs: its plan and prediction.
    Runs(Box<(Plan, Prediction)>),
    /// A GPU needs this many bytes, more than it has, even with the smallest micro-batch.
    TooBig(f64),
    /// No layout is valid; the reason, a lowercase fragment.
    Illegal(String),
}

/// Plans the job on powers of two of nodes up to twice its own, and on its own number. The global batch
/// stays, and so does the training; shard degree and micro-batch are the plan's if they divide and fit, else
/// the largest below.
///
/// `judge` returns the problems that the checks find in a plan; a plan with errors is invalid.
pub fn scaling(
    plan: &Plan,
    prediction: &Prediction,
    constants: &Constants,
    judge: &dyn Fn(&Plan) -> Problems,
) -> Result<Vec<Scaled>, Unsearchable> {
    if let Some(why) = prediction.no_speed.or(prediction.no_memory) {
        return Err(Unsearchable(why.0));
    }
    let mesh = plan.mesh.as_ref().ok_or(Unsearchable("the mesh is unknown"))?;
    if let Some(why) = mesh.law.unscalable {
        return Err(Unsearchable(why));
    }
    if plan.job.cluster.as_ref().is_none_or(|cluster| cluster.nodes.get().is_none()) {
        return Err(Unsearchable("the cluster has several instance groups"));
    }
    let most = mesh.nodes.saturating_mul(2);
    let mut counts: Vec<u64> =
        (0..63).map(|power| 1_u64 << power).take_while(|nodes| *nodes <= most).collect();
    counts.push(mesh.nodes);
    counts.sort_unstable();
    counts.dedup();
    let at = |nodes| {
        let outcome = if nodes == mesh.nodes {
            outcome_of_own_nodes(plan, prediction)
        } else {
            outcome_on_nodes(plan, nodes, constants, judge)
        };
        Scaled { nodes, outcome }
    };
    Ok(counts.into_iter().map(at).collect())
}

fn outcome_of_own_nodes(plan: &Plan, prediction: &Prediction) -> Outcome {
    match &prediction.memory {
        Some(memory) if memory.fits == Some(false) => Outcome::TooBig(memory.per_gpu_bytes),
        _ => Outcome::Runs(Box::new((plan.clone(), prediction.clone()))),
    }
}

/// Returns the valid layout on `nodes` nodes that changes least.
fn outcome_on_nodes(
    plan: &Plan,
    nodes: u64,
    constants: &Constants,
    judge: &dyn Fn(&Plan) -> Problems,
) -> Outcome {
    let (change, mesh_plan) = match replan_shard_degree(plan, nodes) {
        Ok(found) => found,
        Err(why) => return Outcome::Illegal(why),
    };
    let (Some(batch), Some(mesh)) = (&plan.batch, &mesh_plan.mesh) else {
        return Outcome::Illegal("the batch is unknown".to_owned());
    };
    let (global, ranks) = (batch.global_sequences.value, mesh.data_ranks.value);
    let mut least: Option<f64> = None;
    let mut why = None;
    for micro in divisors(batch.micro_batch_size.value).into_iter().rev() {
        let unit = micro.saturating_mul(batch.num_micro_batches).saturating_mul(ranks);
        if unit == 0 || !global.is_multiple_of(unit) || global < unit {
            continue;
        }
        let change =
            LayoutChange { micro_batch_size: Some(micro), accumulation: Some(global / unit), ..change };
        let mut problems = Problems::default();
        let new = replan(plan, change, &mut problems);
        problems.extend(judge(&new));
        let prediction = predict::of_plan(&new, constants);
        if let Some(memory) = &prediction.memory
            && memory.fits == Some(false)
        {
            least = Some(least.map_or(memory.per_gpu_bytes, |least| least.min(memory.per_gpu_bytes)));
            continue;
        }
        match first_error(&problems) {
            None => return Outcome::Runs(Box::new((new, prediction))),
            Some(error) => why = Some(error),
        }
    }
    match (least, why) {
        (Some(bytes), None) => Outcome::TooBig(bytes),
        (_, Some(why)) => Outcome::Illegal(why),
        (None, None) => Outcome::Illegal(format!(
            "{} cannot be divided over {}",
            text::count(global, "sequence"),
            text::count(ranks, "data-parallel rank")
        )),
    }
}

/// Returns the plan's shard degree on `nodes` nodes, or the largest of its divisors whose mesh is valid.
fn replan_shard_degree(plan: &Plan, nodes: u64) -> Result<(LayoutChange, Plan), String> {
    let written = plan.job.parallel.as_ref().and_then(|parallel| parallel.shard_degree.get());
    let degrees: Vec<Option<u64>> = match written {
        Some(degree) => divisors(degree).into_iter().rev().map(Some).collect(),
        None => vec![None],
    };
    let mut why = None;
    for shard_degree in degrees {
        let change = LayoutChange { nodes, shard_degree, micro_batch_size: None, accumulation: None };
        let mut problems = Problems::default();
        let new = replan(plan, change, &mut problems);
        if new.mesh.is_some() {
            return Ok((change, new));
        }
        why = why.or_else(|| first_error(&problems));
    }
    Err(why.unwrap_or_else(|| "no mesh is valid".to_owned()))
}

fn first_error(problems: &Problems) -> Option<String> {
    problems.iter().find(|one| one.severity == Severity::Error).map(|one| one.text().into_owned())
}
