//! Environment variables for NCCL over EFA.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::{Instance, Provenance};

pub(crate) static TABLE: Table = Table::new("efa-environment", include_str!("data/efa_environment.toml"));

/// The column of an instance type on which a variable depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Where {
    Efa,
    ToolkitSetsEfaRdmaEnv,
}

/// The program that starts the ranks where the training toolkit does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Starter {
    /// The launcher of engine `worker`.
    Worker,
    /// The launch script that starts torchrun.
    LaunchScript,
}

#[derive(Clone, Deserialize)]
struct EfaVariableRow {
    value: Option<String>,
    r#where: Where,
    only: Option<Starter>,
    /// Set only for several hosts.
    #[serde(default)]
    several_hosts: bool,
    #[serde(flatten)]
    #[cfg_attr(not(test), expect(dead_code, reason = "the source is for readers of the file only"))]
    provenance: Provenance,
}

/// Returns name and value of each variable that the starter sets on `hosts` of an instance type, in the order
/// of the file; empty for types that are not known to support EFA.
pub fn environment(instance: &Instance, starter: Starter, hosts: u64) -> Vec<(String, String)> {
    if instance.efa != Some(true) {
        return Vec::new();
    }
    TABLE
        .keys()
        .filter_map(|name| {
            let row: EfaVariableRow = TABLE.row(name).cloned()?;
            let holds = (row.r#where == Where::Efa || instance.toolkit_sets_efa_rdma_env)
                && row.only.is_none_or(|only| only == starter)
                && (hosts > 1 || !row.several_hosts);
            Some((name.to_owned(), row.value.filter(|_| holds)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instances;

    #[test]
    fn variables_follow_the_columns_of_the_instance_type() {
        for row in TABLE.keys().map(|name| TABLE.row::<EfaVariableRow>(name).unwrap()) {
            let provenance = &row.provenance;
            assert!(!provenance.source.is_empty());
        }
        for instance in instances::all() {
            let set = environment(&instance, Starter::Worker, 2);
            let has = |name: &str| set.iter().any(|(key, _)| key == name);
            assert_eq!(has("FI_PROVIDER"), instance.efa == Some(true), "{}", instance.name);
            let rdma = instance.efa == Some(true) && instance.toolkit_sets_efa_rdma_env;
            assert_eq!(has("FI_EFA_USE_DEVICE_RDMA"), rdma, "{}", instance.name);
            let script: Vec<String> =
                environment(&instance, Starter::LaunchScript, 2).into_iter().map(|(name, _)| name).collect();
            let expected: &[&str] =
                if instance.efa == Some(true) { &["FI_PROVIDER", "FI_EFA_USE_HUGE_PAGE"] } else { &[] };
            assert_eq!(script, expected, "{}", instance.name);
            // NCCL must not fall back to TCP between hosts. Rows without a value set nothing.
            let nccl: Vec<&str> =
                set.iter().map(|(key, _)| key.as_str()).filter(|key| key.starts_with("NCCL_")).collect();
            let expected: &[&str] = if instance.efa == Some(true) { &["NCCL_NET"] } else { &[] };
            assert_eq!(nccl, expected, "{}", instance.name);
            let one = environment(&instance, Starter::Worker, 1);
            assert!(one.iter().all(|(key, _)| !key.starts_with("NCCL_")), "{}", instance.name);
        }
    }
}
