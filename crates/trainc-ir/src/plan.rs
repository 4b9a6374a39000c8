//! The plan: a job with every choice made.

use super::account::AccountFacts;
use super::hardware::Instance;
use super::image::Image;
use super::job::{Job, Storage};
use super::mesh::Mesh;
use super::model::ModelFacts;
use super::origin::Val;
use super::source_tree::SourceTree;
use super::units::GIB;
use super::worker::Worker;

/// Stands for the job's digest in bound text until the digest is known: as long as the digest itself.
pub const DIGEST_MARK: &str = "d16e57d16e57d16e57d16e57d16e57d16e57d16e57d16e57d16e57d16e57d16e";

/// A job with every choice made: immutable, names everything, leaves nothing to decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The job, with placeholders replaced once bound.
    pub job: Job,
    /// The catalogue's row of the instance type.
    pub instance: Option<Instance>,
    /// What each node is, for catalogue, custom and local clusters alike.
    pub machine: Option<Machine>,
    /// The region's partition and names.
    pub region: Option<Region>,
    /// The model.
    pub model: Option<ModelFacts>,
    /// The mesh.
    pub mesh: Option<Mesh>,
    /// The batch.
    pub batch: Option<Batch>,
    /// How long, in steps and tokens.
    pub run: Run,
    /// The container.
    pub image: Option<Image>,
    /// Which generation of SageMaker model parallel the image has (engine `smp`).
    pub smp: Option<Smp>,
    /// What engine `worker` is told.
    pub worker: Option<Worker>,
    /// Price of one instance of a cluster of one kind.
    pub price: Option<Price>,
    /// Prices of one instance of each group of a heterogeneous cluster, in the groups' order; empty where it has none.
    pub group_prices: Vec<Option<Price>>,
    /// Prices of the file systems, in the order of the job's storages; `None` where none is known.
    pub storage_prices: Vec<Option<StoragePrice>>,
    /// Price of the training volumes, where it is known.
    pub volume_price: Option<StoragePrice>,
    /// The program's files.
    pub source: Option<SourceTree>,
    /// Why the program's directory could not be read.
    pub missing: Option<UnreadDirectory>,
    /// Further directories that could not be read: which of the program's, and why.
    pub missing_dependencies: Vec<(usize, UnreadDirectory)>,
    /// Further directories of the program.
    pub dependencies: Vec<SourceTree>,
    /// Whether the cluster is one that `apply` can use.
    pub deployable: bool,
    /// What an account has said of it.
    pub account_facts: AccountFacts,
}

impl Plan {
    /// What a rank is here: an accelerator, or where the machine has none, a process.
    pub fn rank_noun(&self) -> &'static str {
        if self.machine.as_ref().is_some_and(|machine| machine.gpu.is_none()) {
            return "rank";
        }
        if self.machine.as_ref().is_some_and(|machine| machine.ranks_per_gpu > 1) {
            return "NeuronCore";
        }
        self.chip_noun()
    }

    /// The program's further directories that could be read, each with the word that names it.
    pub fn dependency_trees(&self) -> impl Iterator<Item = (&Val<String>, &SourceTree)> {
        let named = self.job.program.iter().flat_map(|program| &program.dependencies).enumerate();
        let read = named.filter(|(at, _)| self.missing_dependencies.iter().all(|(missing, _)| missing != at));
        read.map(|(_, dir)| dir).zip(&self.dependencies)
    }

    /// Price of one of the instances on which the ranks run.
    pub fn rank_price(&self) -> Option<&Price> {
        if self.price.is_some() {
            return self.price.as_ref();
        }
        let group = self.job.rank_group()?;
        let groups = self.job.cluster.as_ref().map(|cluster| cluster.groups.iter())?;
        let (_, price) = groups.zip(&self.group_prices).find(|(one, _)| one.span == group.span)?;
        price.as_ref()
    }

    /// What all instances of the job cost for an hour, US dollars: of a heterogeneous cluster its groups together.
    /// `None` where the price or the number of some is not known.
    pub fn usd_per_hour(&self) -> Option<f64> {
        let cluster = self.job.cluster.as_ref()?;
        if cluster.groups.is_empty() {
            return Some(self.price.as_ref()?.usd_per_hour * cluster.nodes.get()? as f64);
        }
        let each = cluster.groups.iter().zip(&self.group_prices);
        each.map(|(group, price)| Some(price.as_ref()?.usd_per_hour * group.nodes.get()? as f64)).sum()
    }

    /// Instance types of groups whose price is not known, each once.
    pub fn unpriced_groups(&self) -> Vec<&str> {
        let groups = self.job.cluster.iter().flat_map(|cluster| &cluster.groups);
        let mut names: Vec<&str> = groups
            .zip(&self.group_prices)
            .filter(|(_, price)| price.is_none())
            .filter_map(|(group, _)| group.instance.value().map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The file systems that the job makes, each with its price where that is known. One that exists costs the same
    /// without the job.
    pub fn made_file_systems(&self) -> impl Iterator<Item = (&Storage, Option<&StoragePrice>)> {
        let prices = self.storage_prices.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        self.job.storage.iter().zip(prices).filter(|(storage, _)| storage.id.is_absent())
    }

    /// What people call one accelerator of the job's instances: a GPU, unless the catalogue says otherwise.
    pub fn chip_noun(&self) -> &'static str {
        self.instance.as_ref().map_or("GPU", |instance| instance.accelerator.kind.noun())
    }
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Accelerators of a node.
    pub gpus_per_node: u64,
    /// Name of the accelerator.
    pub gpu: Option<String>,
    /// Ranks that torchrun starts on one accelerator: its NeuronCores on Trainium, else 1.
    pub ranks_per_gpu: u64,
    /// Memory of one accelerator, bytes.
    pub gpu_memory_bytes: Option<u64>,
    /// Whether its tensor cores take bf16.
    pub bf16: Option<bool>,
    /// Whether nodes talk over EFA.
    pub efa: Option<bool>,
}

impl Machine {
    /// Memory of one rank, bytes: the accelerator's, or a NeuronCore's part of its chip's.
    pub fn rank_memory_bytes(&self) -> Option<u64> {
        self.gpu_memory_bytes.map(|bytes| bytes / self.ranks_per_gpu.max(1))
    }
}

/// A region and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// `us-west-2`.
    pub name: String,
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// `amazonaws.com` or `amazonaws.com.cn`.
    pub dns_suffix: String,
}

/// The batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Sequences through one model replica at a time.
    pub micro_batch_size: Val<u64>,
    /// Micro-batches of one pipeline pass.
    pub num_micro_batches: u64,
    /// Sequences of one replica in one pass: micro-batch size × number of micro-batches.
    pub per_replica: u64,
    /// Passes per optimizer step.
    pub accumulation: Val<u64>,
    /// Sequences per optimizer step.
    pub global_sequences: Val<u64>,
    /// Tokens per optimizer step, where the sequence length is known.
    pub global_tokens: Option<u64>,
}

/// How long.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Run {
    /// Optimizer steps.
    pub steps: Option<Val<u64>>,
    /// Tokens trained on.
    pub tokens: Option<Val<u64>>,
}

/// Generations of SageMaker model parallel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Smp {
    /// v1 under MPI; its version, where the catalogue knows it.
    V1(Option<String>),
    /// v2 under torchrun.
    V2,
}

/// Price of one instance for an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// US dollars per hour.
    pub usd_per_hour: f64,
    /// The region that the catalogue's row holds for; none where the user gave the price.
    pub region: Option<String>,
    /// Since when, a day or words as `before 2025-06`; none where the user gave the price.
    pub date: Option<String>,
    /// Who says so; `--price` when the user did.
    pub source: String,
}

impl Price {
    /// Whether the user gave it, or a discount on it: then it holds for spot instances too.
    pub fn is_given(&self) -> bool {
        self.source.starts_with("--price") || self.source.contains("--discount")
    }
}

/// Price of storage for a month of 730 hours.
#[derive(Clone, Debug, PartialEq)]
pub struct StoragePrice {
    /// US dollars per GB and month; of FSx per GiB of capacity.
    pub usd_per_gb_month: f64,
    /// The region that the catalogue's row holds for; none where the user gave the price.
    pub region: Option<String>,
    /// The row's date; none where the user gave the price.
    pub date: Option<String>,
    /// Who says so; `--price` when the user did.
    pub source: String,
}

impl StoragePrice {
    /// Region and date of the catalogue's row, `us-west-2, 2026-06-01`; none where the user gave the price.
    pub fn row(&self) -> Option<String> {
        Some(format!("{}, {}", self.region.as_ref()?, self.date.as_ref()?))
    }

    /// US dollars of so many bytes for a month.
    pub fn usd_per_month(&self, bytes: u64) -> f64 {
        bytes as f64 / GIB as f64 * self.usd_per_gb_month
    }
}

/// A directory of the program that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadDirectory {
    /// The reason, for messages.
    pub why: String,
    /// The kind of the error.
    pub fault: UnreadCause,
}

/// The reason why a directory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadCause {
    /// It does not exist, but may be created later.
    NotFound,
    /// It is outside the root directory.
    OutsideRoot,
    /// It exists, but a file in it cannot be packed.
    Content,
}
