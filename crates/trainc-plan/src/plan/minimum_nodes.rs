//! The minimum nodes of a shard group: one for each 3 billion parameters.

use trainc_diag::text;
use trainc_ir::{Engine, ModelFacts, Parallel, Plan, Val};

/// Parameters for each node of the shard group (AWS blog on sharded data parallelism, 2022-10).
pub const PARAMETERS_PER_NODE: u64 = 3_000_000_000;

/// Returns the reason why the rule does not apply to a plan.
pub fn why_not_applicable(plan: &Plan) -> String {
    let Some(parallel) = &plan.job.parallel else { return "`parallel` is not set".to_owned() };
    match plan.engine {
        Some(engine) if engine.law.is_sharded(parallel) => {
            "one node per 3 billion parameters: the size of the model is unknown".to_owned()
        }
        Some(engine) if engine.law.can_shard() => {
            format!(
                "one node per 3 billion parameters applies to sharding, and `{}` does not shard here",
                engine.name()
            )
        }
        Some(engine) => {
            format!(
                "one node per 3 billion parameters applies to sharding, which engine `{}` does not do",
                engine.name()
            )
        }
        None => "the engine is unknown".to_owned(),
    }
}

/// Returns the minimum nodes of the shard group and the next power of two; `None` if nothing is sharded or
/// the model is unknown.
pub(super) fn minimum_nodes(
    parallel: &Parallel,
    engine: Engine,
    model: Option<&ModelFacts>,
) -> Option<(Val<u64>, Val<u64>)> {
    if !engine.law.is_sharded(parallel) {
        return None;
    }
    let parameters = model?.parameters.value;
    let minimum = parameters.div_ceil(PARAMETERS_PER_NODE).max(1);
    let shown = text::group_digits(parameters);
    Some((
        Val::derived(minimum, format!("ceil({shown} parameters / 3 billion per node)")),
        Val::derived(minimum.next_power_of_two(), format!("next power of two of {minimum}")),
    ))
}
