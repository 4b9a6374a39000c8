//! Time, cost and global batch of a job after changes that make it fit.

use crate::Context;
use crate::queries::prices::describe_cost;
use trainc_tune::{Choice, Remedy, Space};

/// Describes the cost of the run of a choice; an estimate is called that. `None` if its length or a price is
/// unknown.
pub(crate) fn describe_run_cost(context: &Context, space: &Space, choice: &Choice) -> Option<String> {
    let run = space.predict_run(choice, context.constants)?;
    Some(describe_cost(&run, run.cost_usd?))
}

/// Returns the global batch of a choice, in sequences, if it differs: that is another training.
pub(crate) fn new_global_batch(space: &Space, choice: &Choice) -> Option<u64> {
    (choice.global_sequences != space.global_batch()).then_some(choice.global_sequences)
}

/// Returns true if a remedy adds nodes or moves to another type.
pub(crate) fn changes_machines(space: &Space, remedy: &Remedy) -> bool {
    let nodes = space.as_written().map_or(0, |written| written.nodes);
    remedy.choice.nodes > nodes || remedy.changes_instance()
}

/// Describes the slowdown: `, +24% time` of the training on the same machines, of the whole run on other
/// machines, whose cost is shown with it.
pub(crate) fn describe_slowdown(context: &Context, space: &Space, remedy: &Remedy) -> String {
    let seconds = |choice: &Choice| Some(space.predict_run(choice, context.constants)?.expected_seconds());
    let of_run = || Some(seconds(&remedy.choice)? / seconds(space.as_written()?)? - 1.0);
    let of_run = changes_machines(space, remedy).then(of_run).flatten();
    let Some(slower) = of_run.or(remedy.slower) else { return String::new() };
    let percent = 100.0 * slower;
    let sign = if percent < 0.0 { "−" } else { "+" };
    let time = if of_run.is_some() { "run time" } else { "step time" };
    format!(", {sign}{:.0}% {time}", percent.abs())
}
