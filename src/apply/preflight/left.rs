//! What trainc made for the job and the manifest no longer names.

use crate::apply::account::FileSystem;
use crate::catalog::prices;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::Plan;

declare_code!(
    T0644,
    "file-system-unnamed",
    Warning,
    "a file system of the job that its manifest no longer names"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0644];

/// Says of each file system that is left that it is, and what it costs where the price is known.
pub fn left(plan: &Plan, systems: &[FileSystem], problems: &mut Problems) {
    let region = plan.job.region.value().map_or("", String::as_str);
    let span = plan.job.storage.first().map_or(plan.job.span, |storage| storage.span);
    for system in systems {
        let before = system.tags.get("trainc:resource").and_then(|tag| tag.strip_prefix("file-system/"));
        let monthly = monthly_usd(region, system);
        let cost = monthly.map_or_else(String::new, |usd| format!(": {} a month", crate::text::dollars(usd)));
        let what = before.map_or_else(String::new, |name| format!(", storage `{name}`,"));
        let mut diagnostic = Diagnostic::new(
            &T0644,
            span,
            format!("`{}`{what} is this job's, and no longer in the manifest: it stays{cost}", system.id),
        )
        .help(format!("aws fsx delete-file-system --file-system-id {} --region {region}", system.id))
        .note("that deletes it with all that is in it; under its old name in the manifest it is used again")
        .fact("file_system", system.id.as_str())
        .fact("capacity_gib", system.capacity_gib);
        if let Some(usd) = monthly {
            diagnostic = diagnostic.fact("usd_per_month", usd);
        }
        problems.push(diagnostic);
    }
}

/// What a file system costs for a month, US dollars: its GiB at the price of its deployment.
fn monthly_usd(region: &str, system: &FileSystem) -> Option<f64> {
    let tier = system.throughput.and_then(|tier| u32::try_from(tier).ok());
    let price = prices::lustre(region, system.deployment.as_deref()?, &system.storage_type, tier)?;
    Some(system.capacity_gib as f64 * price.usd_per_gb_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_that_is_not_known_is_not_said() {
        let mut system = FileSystem {
            capacity_gib: 1_200,
            storage_type: "SSD".to_owned(),
            deployment: Some("PERSISTENT_2".to_owned()),
            throughput: Some(125),
            ..FileSystem::default()
        };
        let price = prices::lustre("us-east-1", "PERSISTENT_2", "SSD", Some(125)).unwrap();
        assert_eq!(monthly_usd("us-east-1", &system), Some(1_200.0 * price.usd_per_gb_month));
        system.deployment = None;
        assert_eq!(monthly_usd("us-east-1", &system), None);
    }
}
