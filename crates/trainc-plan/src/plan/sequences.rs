//! Which models' sequences an engine splits by itself.

use trainc_catalog::smp::{SmpVersion, parameter};
use trainc_ir::{Plan, Smp};

/// Whether SMP v2 splits the sequences of this family of models by itself.
pub fn splits_sequences(plan: &Plan) -> bool {
    let family = plan.model.as_ref().and_then(|model| Some(model.architecture.as_ref()?.family.name()));
    matches!(plan.smp, Some(Smp::V2))
        && parameter(SmpVersion::V2, "context_parallel_degree")
            .is_some_and(|row| row.families.iter().any(|name| Some(name.as_str()) == family))
}
