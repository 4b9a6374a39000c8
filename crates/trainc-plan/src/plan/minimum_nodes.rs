//! One node for each 3 billion parameters of the shard group.

use trainc_diag::text;
use trainc_ir::{Engine, ModelFacts, Parallel, Plan, Val};

/// Parameters for which one node joins the shard group (AWS blog on sharded data parallelism, 2022-10).
pub const PARAMETERS_PER_NODE: u64 = 3_000_000_000;

/// Whether the 3-billion rule speaks of this engine and strategy: something is sharded.
fn is_sharded(parallel: &Parallel, engine: Engine) -> bool {
    match engine {
        Engine::Fsdp => parallel.strategy.value().map(String::as_str) != Some("no-shard"),
        Engine::Worker => true,
        Engine::Smp => parallel.shard_degree.get().is_some_and(|degree| degree > 1),
        Engine::Smddp | Engine::Ddp | Engine::DeviceMap | Engine::None => false,
    }
}

/// Why the rule says nothing of a plan.
pub fn why_none(plan: &Plan) -> String {
    let Some(parallel) = &plan.job.parallel else { return "`parallel` is not written".to_owned() };
    match parallel.engine.get() {
        Some(engine) if is_sharded(parallel, engine) => {
            "one node per 3 billion parameters: the model's size is not known".to_owned()
        }
        Some(engine @ (Engine::Fsdp | Engine::Smp)) => {
            format!(
                "one node per 3 billion parameters is a rule for shards, and here `{}` makes none",
                engine.name()
            )
        }
        Some(engine) => {
            format!(
                "one node per 3 billion parameters is a rule for shards, which engine `{}` does not make",
                engine.name()
            )
        }
        None => "the engine is not known".to_owned(),
    }
}

/// Nodes that the shard group should have at least, and the next power of two; `None` where nothing is sharded or the
/// model is not known.
pub(super) fn minimum_nodes(
    parallel: &Parallel,
    engine: Engine,
    model: Option<&ModelFacts>,
) -> Option<(Val<u64>, Val<u64>)> {
    if !is_sharded(parallel, engine) {
        return None;
    }
    let parameters = model?.parameters.value;
    let minimum = parameters.div_ceil(PARAMETERS_PER_NODE).max(1);
    let shown = text::group(parameters);
    Some((
        Val::derived(minimum, format!("ceil({shown} parameters / 3 billion per node)")),
        Val::derived(minimum.next_power_of_two(), format!("the next power of two from {minimum}")),
    ))
}
