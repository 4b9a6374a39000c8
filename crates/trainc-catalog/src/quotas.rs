//! Service Quotas: codes and, if a source gives it, the value of a new account.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("quotas", include_str!("data/quotas.toml"));
pub(crate) static GENERAL: Table = Table::new("quotas-general", include_str!("data/quotas_general.toml"));

/// A quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Service code of Service Quotas: `sagemaker`, `fsx`.
    pub service: String,
    /// Name in Service Quotas.
    pub name: String,
    /// `L-09B4A649`; a few limits have none.
    pub code: Option<String>,
    /// Value of a new account, in `unit`.
    pub default: Option<u64>,
    /// `instances`, `seconds`, `GiB`, …
    pub unit: String,
    /// The source of the row.
    pub provenance: Provenance,
}

/// The usage that an instance quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Training on demand.
    OnDemand,
    /// Training on spot capacity.
    Spot,
    /// Instances kept in warm pools.
    WarmPool,
    /// Reserved capacity of training plans.
    TrainingPlan,
}

#[derive(Clone, Deserialize)]
struct QuotaRow {
    on_demand: Option<String>,
    spot: Option<String>,
    warm_pool: Option<String>,
    training_plan: Option<String>,
    on_demand_default: Option<u64>,
    spot_default: Option<u64>,
    warm_pool_default: Option<u64>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns the quota of an instance type; `None` if the source has no such quota, which does not mean zero.
pub fn instance(name: &str, usage: Usage) -> Option<Quota> {
    let row: QuotaRow = TABLE.row(name).cloned()?;
    let (code, default, words) = match usage {
        Usage::OnDemand => (row.on_demand, row.on_demand_default, "for training job usage"),
        Usage::Spot => (row.spot, row.spot_default, "for spot training job usage"),
        Usage::WarmPool => (row.warm_pool, row.warm_pool_default, "for training warm pool usage"),
        Usage::TrainingPlan => {
            (row.training_plan, None, "in reserved capacity across training plans per Region")
        }
    };
    let code = code?;
    let name = match usage {
        Usage::TrainingPlan => format!("Number of {name} {words}"),
        Usage::OnDemand | Usage::Spot | Usage::WarmPool => format!("{name} {words}"),
    };
    Some(Quota {
        service: "sagemaker".to_owned(),
        name,
        code: Some(code),
        default,
        unit: "instances".to_owned(),
        provenance: row.provenance,
    })
}

impl Usage {
    const ALL: [Self; 4] = [Self::OnDemand, Self::Spot, Self::WarmPool, Self::TrainingPlan];

    fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::WarmPool => "warm-pool",
            Self::TrainingPlan => "training-plan",
        }
    }
}

/// Returns every quota of every instance type with its key, as `ml.p4d.24xlarge/spot`, in the order of the
/// file.
pub fn of_instances() -> impl Iterator<Item = (String, Quota)> {
    TABLE.keys().flat_map(|name| {
        Usage::ALL
            .into_iter()
            .filter_map(move |usage| Some((format!("{name}/{}", usage.as_str()), instance(name, usage)?)))
    })
}

#[derive(Clone, Deserialize)]
struct GeneralQuotaRow {
    service: String,
    name: String,
    code: Option<String>,
    default: Option<u64>,
    unit: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns an account-wide quota by key: `instances-per-job`, `instances-across-jobs`, `longest-run-time`,
/// `volume-size`, `lustre-persistent-2-capacity`, …
pub fn general(key: &str) -> Option<Quota> {
    let row: GeneralQuotaRow = GENERAL.row(key).cloned()?;
    Some(Quota {
        service: row.service,
        name: row.name,
        code: row.code,
        default: row.default,
        unit: row.unit,
        provenance: row.provenance,
    })
}

/// Returns the keys of [`general`], in the order of the file.
pub fn general_keys() -> impl Iterator<Item = &'static str> {
    GENERAL.keys()
}

/// Returns the account-wide quotas for the capacity of an FSx deployment type and for its number of file
/// systems.
pub fn lustre(deployment: &str) -> Option<(Quota, Quota)> {
    let stem = match deployment {
        "PERSISTENT_2" => "lustre-persistent-2",
        "PERSISTENT_1" => "lustre-persistent-1",
        "SCRATCH_1" | "SCRATCH_2" => "lustre-scratch",
        _ => return None,
    };
    Some((general(&format!("{stem}-capacity"))?, general(&format!("{stem}-file-systems"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4d_has_three_codes_and_no_instances() {
        for (usage, code, name) in [
            (Usage::OnDemand, "L-09B4A649", "ml.p4d.24xlarge for training job usage"),
            (Usage::Spot, "L-09D56C4F", "ml.p4d.24xlarge for spot training job usage"),
            (Usage::WarmPool, "L-A8827666", "ml.p4d.24xlarge for training warm pool usage"),
        ] {
            let quota = instance("ml.p4d.24xlarge", usage).unwrap();
            assert_eq!((quota.code.as_deref(), quota.name.as_str()), (Some(code), name));
            assert_eq!(quota.default, Some(0));
        }
        assert_eq!(instance("ml.nothing", Usage::Spot), None);
        assert_eq!(instance("ml.g5.xlarge", Usage::OnDemand).map(|quota| quota.default), Some(None));
    }

    #[test]
    fn defaults_of_a_new_account() {
        for (key, value) in [
            ("instances-per-job", 20),
            ("instances-across-jobs", 4),
            ("longest-run-time", 432_000),
            ("volume-size", 1024),
        ] {
            assert_eq!(general(key).unwrap().default, Some(value), "{key}");
        }
        let (capacity, count) = lustre("PERSISTENT_2").unwrap();
        assert_eq!((capacity.default, count.default), (Some(100_800), Some(100)));
        assert_eq!(lustre("PERSISTENT_3"), None);
        assert_eq!(general_keys().filter_map(general).count(), general_keys().count());
    }

    #[test]
    fn codes_are_codes_and_differ() {
        let mut codes: Vec<String> = general_keys().filter_map(|key| general(key)?.code).collect();
        for name in TABLE.keys() {
            for usage in [Usage::OnDemand, Usage::Spot, Usage::WarmPool, Usage::TrainingPlan] {
                codes.extend(instance(name, usage).and_then(|quota| quota.code));
            }
        }
        let hex = |code: &String| {
            code.strip_prefix("L-").is_some_and(|hex| {
                hex.len() == 8 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
            })
        };
        assert!(codes.iter().all(hex));
        let count = codes.len();
        codes.sort();
        codes.dedup();
        assert_eq!(codes.len(), count);
    }
}
