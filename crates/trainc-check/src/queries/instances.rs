//! The regions of an instance type.

use trainc_catalog::instances;
use trainc_ir::Plan;
use trainc_ir::hardware::Instance;

/// Returns false if the type is retired, or EC2's listings lack it in the job's region. A region or a type
/// without a listing counts as offered.
pub(crate) fn is_offered(plan: &Plan, instance: &Instance) -> bool {
    let offered_in = &instance.ec2_offering_regions;
    let there = |name: &str| {
        // A region without any listing offers some types all the same: its absence proves nothing.
        offered_in.is_empty()
            || offered_in.iter().any(|listed| listed == name)
            || !instances::is_region_listed(name)
    };
    instance.retired.is_none() && plan.region.as_ref().is_none_or(|region| there(&region.name))
}
