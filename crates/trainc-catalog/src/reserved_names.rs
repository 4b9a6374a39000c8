//! Names that are set by other software: environment variables, hyperparameters, tags, channels, directories.

use serde::Deserialize;

use super::memo::Memo;
use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("reserved", include_str!("data/reserved.toml"));

/// The kind of a reserved name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A variable of the container.
    Environment,
    /// A variable of the container that the toolkit's torchrun launcher overwrites.
    TorchrunEnvironment,
    /// A variable that torchrun's launcher sets on the types for which it enables EFA.
    EfaProvider,
    /// A variable that torchrun's launcher sets on the types for which it enables remote DMA.
    EfaRdma,
    /// A variable that the toolkit passes to `mpirun`.
    Mpi,
    /// The same, on the types for which it enables EFA.
    MpiEfa,
    /// The same, on the types for which it enables remote DMA.
    MpiRdma,
    /// A variable that the toolkit passes to `mpirun` if the job runs under SMP.
    SmpMpi,
    /// A variable that the toolkit passes to `mpirun` of SMDDP.
    Smddp,
    /// The same, on the types for which it configures NCCL for EFA.
    SmddpEfa,
    /// The same, on the types for which it enables remote DMA.
    SmddpRdma,
    /// A variable that the toolkit of PyTorch's containers sets before any launcher.
    PytorchContainer,
    /// A hyperparameter.
    Hyperparameter,
    /// A tag's key.
    Tag,
    /// An input channel.
    Channel,
    /// A directory in the container; ends with `/`.
    Path,
}

impl Kind {
    /// Returns the prefix of the keys of its rows.
    fn key_prefix(self) -> &'static str {
        match self {
            Self::Environment => "environment ",
            Self::TorchrunEnvironment => "torchrun ",
            Self::EfaProvider => "efa-provider ",
            Self::EfaRdma => "efa-rdma ",
            Self::Mpi => "mpi ",
            Self::MpiEfa => "mpi-efa ",
            Self::MpiRdma => "mpi-rdma ",
            Self::SmpMpi => "smp-mpi ",
            Self::Smddp => "smddp ",
            Self::SmddpEfa => "smddp-efa ",
            Self::SmddpRdma => "smddp-rdma ",
            Self::PytorchContainer => "pytorch ",
            Self::Hyperparameter => "hyperparameter ",
            Self::Tag => "tag ",
            Self::Channel => "channel ",
            Self::Path => "path ",
        }
    }
}

/// The condition under which a value of the job is certainly overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lost {
    /// With every launcher.
    Always,
    /// With torchrun.
    Torchrun,
}

/// What a lost value of the job changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The meaning of the job: its processes, their ranks, its directories and arguments.
    #[default]
    Meaning,
    /// How NCCL and EFA send data.
    Transport,
    /// What is logged.
    Logs,
}

/// A reserved name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The name, or a prefix that ends with `*`.
    pub name: String,
    /// The software that sets it.
    pub set_by: String,
    /// A description, as a phrase.
    pub statement: String,
    /// The condition under which a value of the job is certainly overwritten; `None` if it may be
    /// overwritten.
    pub lost: Option<Lost>,
    /// The value that is set, if it is the same for all jobs.
    pub value: Option<String>,
    /// What a lost value changes.
    pub effect: Effect,
    /// The source of the row.
    pub provenance: Provenance,
}

#[derive(Clone, Deserialize)]
struct ReservedRow {
    set_by: String,
    statement: String,
    lost: Option<Lost>,
    value: Option<String>,
    #[serde(default)]
    effect: Effect,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns the row that reserves the name, if any; tag prefixes are compared without case.
pub fn get(kind: Kind, name: &str) -> Option<Reserved> {
    static MEMO: Memo<(&str, String), Option<Reserved>> = Memo::new();
    MEMO.get((kind.key_prefix(), name.to_owned()), |(_, name)| find(kind, name))
}

fn find(kind: Kind, name: &str) -> Option<Reserved> {
    let known = |key: &str| key.strip_prefix(kind.key_prefix()).unwrap_or(key).to_owned();
    let begins = |key: &&str| match known(key).strip_suffix('*') {
        Some(prefix) if kind == Kind::Tag => name.to_lowercase().starts_with(prefix),
        Some(prefix) => name.starts_with(prefix),
        None => false,
    };
    // An exact row takes precedence over the longest matching prefix.
    let mut keys = TABLE.keys_under(kind.key_prefix());
    let key = keys
        .find(|key| known(key) == name)
        .or_else(|| TABLE.keys_under(kind.key_prefix()).filter(begins).max_by_key(|key| key.len()))?;
    let row: ReservedRow = TABLE.row(key).cloned()?;
    Some(Reserved {
        name: key.strip_prefix(kind.key_prefix()).unwrap_or(key).to_owned(),
        set_by: row.set_by,
        statement: row.statement,
        lost: row.lost,
        value: row.value,
        effect: row.effect,
        provenance: row.provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes() {
        // The longest known prefix matches, and an exact name before any prefix.
        assert_eq!(get(Kind::Environment, "SM_MODEL_FLAVOUR").unwrap().name, "SM_*");
        assert_eq!(get(Kind::Environment, "SM_HP_LR").unwrap().name, "SM_HP_*");
        assert_eq!(get(Kind::Environment, "SM_HOSTS").unwrap().lost, Some(Lost::Always));
        assert_eq!(get(Kind::Environment, "MASTER_PORT").unwrap().lost, Some(Lost::Always));
        assert_eq!(get(Kind::Environment, "NODE_RANK").unwrap().lost, None);
        assert_eq!(get(Kind::EfaRdma, "RDMAV_FORK_SAFE").unwrap().value.as_deref(), Some("1"));
        assert!(get(Kind::Environment, "NCCL_DEBUG").is_none());
        assert!(get(Kind::Hyperparameter, "sagemaker_program").is_some());
        assert!(get(Kind::Hyperparameter, "mp_parameters2").is_none());
        assert!(get(Kind::Tag, "AWS:x").is_some() && get(Kind::Tag, "awsx").is_none());
        assert_eq!(
            TABLE.keys().filter_map(|key| TABLE.row::<ReservedRow>(key)).count(),
            TABLE.keys().count()
        );
    }
}
