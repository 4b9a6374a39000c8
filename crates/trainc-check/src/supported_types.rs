//! Instance types that a job can run on, by the facts that the rules compare.

use crate::queries::instances::is_offered;
use crate::rules;
use trainc_ir::Plan;
use trainc_ir::hardware::Instance;

/// Returns false if a known fact about an instance type keeps the job from running on it: its region, its
/// accelerators, its processors, the CUDA version of the image, the precision, or the library of the engine.
/// A type that passes may still have problems, which its own compilation reports.
pub fn can_run_on(plan: &Plan, instance: &Instance) -> bool {
    let is_alike = plan
        .instance
        .as_ref()
        .is_none_or(|own| own.accelerator.kind == instance.accelerator.kind && own.cpu == instance.cpu);
    is_alike
        && instance.in_sagemaker_enum
        && is_offered(plan, instance)
        && rules::supports_instance(plan, instance)
}
