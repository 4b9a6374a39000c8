//! What the catalogue knows of SageMaker model parallel (SMP).

use trainc_catalog::smp::{SmpVersion, parameter};
use trainc_ir::Plan;

/// Returns true if SMP v2 splits the sequences of the plan's model family without changes to the script.
pub fn splits_sequences(plan: &Plan) -> bool {
    let family = plan.model.as_ref().and_then(|model| Some(model.architecture.as_ref()?.family.name()));
    version(plan) == Some(SmpVersion::V2)
        && parameter(SmpVersion::V2, "context_parallel_degree")
            .is_some_and(|row| row.families.iter().any(|name| Some(name.as_str()) == family))
}

/// Returns the generation of a plan's SMP; `None` for another engine, or if the image does not decide it.
pub fn version(plan: &Plan) -> Option<SmpVersion> {
    SmpVersion::from_prefix(plan.engine?.front.table?)
}

/// Returns SMP's name of a parameter of `parallel` that is passed through.
pub fn parameter_name(name: &str) -> Option<&'static str> {
    let name = name.replace('-', "_");
    let row = |version| parameter(version, &name).map(|row| row.name.as_str());
    row(SmpVersion::V1).or_else(|| row(SmpVersion::V2))
}
