//! The plan: a job with all choices made.

use super::account::AccountFacts;
use super::cost::Cost;
use super::delivery::Delivery;
use super::engine::Engine;
use super::expectation::Expectation;
use super::fleet::{Alternative, Fleet, Part};
use super::foreign_file::{FileReader, ForeignFile, ProgramVersion};
use super::hardware::Instance;
use super::image::Image;
use super::job::{Budget, Debugger, Job, Storage};
use super::launch::Launch;
use super::mesh::Mesh;
use super::model::ModelFacts;
use super::origin::Val;
use super::payload::Payload;
use super::placeholders::Placeholders;
use super::price::{Price, StoragePrice};
use super::script::{RequirementsFile, Script, Unmodelled};
use super::source_tree::SourceTree;
use super::worker::Worker;
use std::sync::Arc;
use trainc_diag::source::Span;

/// Represents the job's digest in bound texts until it is computed. It has the length of the digest.
pub const DIGEST_MARK: &str = "d16e57d16e57d16e57d16e57d16e57d16e57d16e57d16e57d16e57d16e57d16e";

/// A job with all choices made.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The job, with placeholders replaced once bound.
    pub job: Job,
    /// The catalogue's row of the instance type.
    pub instance: Option<Instance>,
    /// The machine of each node, for catalogue, custom and local clusters.
    pub machine: Option<Machine>,
    /// The region's partition and names.
    pub region: Option<Region>,
    /// The model.
    pub model: Option<ModelFacts>,
    /// The mesh.
    pub mesh: Option<Mesh>,
    /// The batch.
    pub batch: Option<Batch>,
    /// The length of the run, in steps and tokens.
    pub run: Run,
    /// The container.
    pub image: Option<Image>,
    /// The engine, with the generation that the image contains.
    pub engine: Option<Engine>,
    /// The version of the engine's library in the image, if known.
    pub library: Option<String>,
    /// The launcher of the ranks and its parameters; the default until bound.
    pub launch: Launch,
    /// What the containers start, from which code, and what trainc adds to it; the default until bound.
    pub payload: Payload,
    /// The settings of engine `worker`.
    pub worker: Option<Worker>,
    /// The instances that the job may run on, with their prices.
    pub fleet: Fleet,
    /// The files of other programs that the manifest names: that of the engine, those named in it, and the
    /// program's arguments.
    pub files: Vec<ForeignFile>,
    /// The packages of the training stack in the container, as far as known.
    pub programs: Vec<ProgramVersion>,
    /// The placeholders that its texts had.
    pub placeholders: Placeholders,
    /// How the settings of the job reach the program.
    pub delivery: Delivery,
    /// The program's files.
    pub source: Option<SourceTree>,
    /// The program, as far as it could be read; `None` if it is not a Python file of the source.
    pub script: Option<Arc<Script>>,
    /// The files of the source that the program reads because an argument names them, and no node of the
    /// manifest does: the YAML of its arguments, a DeepSpeed config.
    pub named_files: Vec<ForeignFile>,
    /// The requirements that are installed before the program starts: `requirements.txt`, and the files that
    /// it names.
    pub requirements: Vec<RequirementsFile>,
    /// The work of the program that the prediction does not have.
    pub unmodelled: Vec<Unmodelled>,
    /// The error, if the program's directory could not be read.
    pub missing: Option<UnreadDirectory>,
    /// Further directories that could not be read: index and error.
    pub missing_dependencies: Vec<(usize, UnreadDirectory)>,
    /// Further directories of the program.
    pub dependencies: Vec<SourceTree>,
    /// What exists on SageMaker alone; `None` for a custom or local cluster, which `apply` does not support.
    pub on_sagemaker: Option<OnSagemaker>,
    /// Facts of the account, once known.
    pub account_facts: AccountFacts,
    /// The planned figures that the job's start script receives; `None` unless `probe` or an enforced budget
    /// needs them.
    pub expectation: Option<Box<Expectation>>,
}

/// What a job uses besides its instances that exists on SageMaker alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OnSagemaker {
    /// Prices of the file systems, in the order of the job's storages; `None` where the price is unknown.
    pub storage_prices: Vec<Option<StoragePrice>>,
    /// Price of the training volumes, if known.
    pub volume_price: Option<StoragePrice>,
    /// Price of S3 Standard in the job's region, if known.
    pub s3_price: Option<StoragePrice>,
}

impl Plan {
    /// Returns true if the cluster is measured before the program starts.
    pub fn is_probed(&self) -> bool {
        self.job.probe.is_some()
    }

    /// Returns the budget, if a running job may be stopped for it.
    pub fn enforced_budget(&self) -> Option<&Budget> {
        self.job.budget.as_ref().filter(|budget| budget.is_enforced())
    }

    /// Returns true if the program is in a git repository from which nothing was fetched: its digest is not
    /// that of a run that was started from its content.
    pub fn has_unread_source(&self) -> bool {
        self.source.is_none()
            && self.job.program.as_ref().is_some_and(|program| program.git.value().is_some())
    }

    /// Returns the debugger of the request: none with an engine that it does not support. A rule reports it.
    pub fn debugger(&self) -> Option<&Debugger> {
        self.job.debugger.as_ref().filter(|_| self.engine.is_none_or(|engine| engine.front.takes_debugger))
    }

    /// Returns where the debugger saves tensors: the job's output location unless the manifest sets another
    /// one.
    pub fn debugger_path(&self) -> Option<&str> {
        self.debugger()?.s3.text().or(self.output_path())
    }

    /// Returns where the profiler saves its data: the job's output location unless the manifest sets another
    /// one.
    pub fn profiler_path(&self) -> Option<&str> {
        self.job.profiler.as_ref()?.s3.text().or(self.output_path())
    }

    /// Returns the S3 location of the job's output.
    pub fn output_path(&self) -> Option<&str> {
        self.job.output.as_ref().and_then(|output| output.s3.text())
    }

    /// Returns whether the job names a model, from which memory and time are predicted. A built-in algorithm and
    /// a program on tables have none.
    pub const fn names_model(&self) -> bool {
        self.job.model.is_some()
    }

    /// Returns whether the ranks run engine `worker`.
    pub fn is_worker(&self) -> bool {
        self.engine.is_some_and(|engine| !engine.front.runs_program)
    }

    /// Returns the generation of the engine's program, once the image decides it.
    pub fn library_generation(&self) -> Option<&'static str> {
        self.engine?.front.generation
    }

    /// Returns true if a plain script distributes the work.
    pub fn is_script(&self) -> bool {
        self.engine.is_some_and(|engine| engine.law.is_script())
    }

    /// Returns the path in the archive of the file that the engine reads: one that the manifest names,
    /// otherwise the one that trainc writes.
    pub fn engine_file(&self) -> Option<&str> {
        self.file_of(FileReader::Engine).map(|file| file.packed_as.as_str()).or(self.written_file())
    }

    /// Returns the path in the archive of the file that trainc writes for the engine; `None` if the manifest
    /// names one, or the engine reads none that trainc writes.
    pub fn written_file(&self) -> Option<&'static str> {
        let names_file = self.job.parallel.as_ref().is_some_and(|parallel| !parallel.file.is_absent());
        self.engine?.front.writes.filter(|_| !names_file)
    }

    /// Returns the file that the manifest names for a program.
    pub fn file_of(&self, reader: FileReader) -> Option<&ForeignFile> {
        self.files.iter().find(|file| file.reader == reader)
    }

    /// Returns the noun for a rank: the accelerator, or `rank` where the machine has none.
    pub fn rank_noun(&self) -> &'static str {
        if self.machine.as_ref().is_some_and(|machine| machine.gpu.is_none()) {
            return "rank";
        }
        if self.machine.as_ref().is_some_and(|machine| machine.ranks_per_gpu > 1) {
            return "NeuronCore";
        }
        self.chip_noun()
    }

    /// Returns the program's further directories that could be read, each with its path as written.
    pub fn dependency_trees(&self) -> impl Iterator<Item = (&Val<String>, &SourceTree)> {
        let named = self.job.program.iter().flat_map(|program| &program.dependencies).enumerate();
        let read = named.filter(|(at, _)| self.missing_dependencies.iter().all(|(missing, _)| missing != at));
        read.map(|(_, dir)| dir).zip(&self.dependencies)
    }

    /// Returns the price of one instance of a cluster without groups.
    pub fn price(&self) -> Option<&Price> {
        let part = self.fleet.first()?.parts.first()?;
        part.price.as_ref().filter(|_| part.group.is_none())
    }

    /// Returns the prices of one instance of each group, in order; none for a cluster without groups.
    pub fn group_prices(&self) -> Vec<Option<&Price>> {
        let parts = self.fleet.first().map_or(&[][..], |first| &first.parts);
        let groups = self.job.cluster.iter().flat_map(|cluster| &cluster.groups);
        let part = |span: Span| parts.iter().find(|part| part.group == Some(span));
        groups.map(|group| part(group.span)?.price.as_ref()).collect()
    }

    /// Returns the price of one of the instances that run the ranks.
    pub fn rank_price(&self) -> Option<&Price> {
        let group = self.job.rank_group().map(|group| group.span);
        let mut parts = self.fleet.first()?.parts.iter();
        parts.find(|part| part.group == group)?.price.as_ref()
    }

    /// Returns whether the job uses spot instances.
    pub fn is_spot(&self) -> bool {
        self.job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_some())
    }

    /// Returns the price of all instances for an hour.
    pub fn cost_per_hour(&self) -> Cost {
        self.fleet.first().map_or(Cost::UNKNOWN, Alternative::cost_per_hour)
    }

    /// Returns the price of the billed hours of a run with that many instances, of the type that the service
    /// chose: those of spot instances are reduced already, and are charged at the on-demand price. Of an
    /// unknown type it is that of the dearest that the job may run on.
    pub fn billed_per_hour(&self, instance: Option<&str>, instances: u64, is_spot: bool) -> Cost {
        let Some(alternatives) = self.fleet.alternatives() else { return Cost::UNKNOWN };
        let hourly = |one: &Alternative| match one.parts.as_slice() {
            [Part { group: None, price, .. }] => {
                let of = if is_spot { Price::list_per_hour } else { Price::per_hour };
                price.as_ref().map_or(Cost::UNKNOWN, of) * instances as f64
            }
            _ => one.most_per_hour(is_spot),
        };
        if let Some(one) = instance.and_then(|name| alternatives.of_type(name)) {
            return hourly(one);
        }
        let each = || alternatives.iter().map(hourly);
        let most = |of: fn(Cost) -> f64| each().map(of).fold(0.0, f64::max);
        Cost {
            known_usd: most(|cost| cost.known_usd),
            is_complete: each().all(|cost| cost.is_complete),
            low_usd: most(|cost| cost.low_usd),
            high_usd: most(|cost| cost.high_usd),
        }
    }

    /// Returns the prices of the instances that it is for, as far as they are known.
    pub fn instance_prices(&self) -> impl Iterator<Item = &Price> {
        self.fleet.first().into_iter().flat_map(|first| &first.parts).filter_map(|part| part.price.as_ref())
    }

    /// Returns true if a price of the instances that it is for is an estimate.
    pub fn has_estimated_price(&self) -> bool {
        self.instance_prices().any(|price| price.estimate().is_some())
    }

    /// Returns the instance types that it is for and whose price is unknown, each once.
    pub fn unpriced_instance_types(&self) -> Vec<&str> {
        self.fleet.first().map(Alternative::unpriced_types).unwrap_or_default()
    }

    /// Returns the file systems that the job creates, each with its price if known. Existing ones are no cost
    /// of the job, and a cluster that is not on SageMaker gets none.
    pub fn created_file_systems(&self) -> impl Iterator<Item = (&Storage, Option<&StoragePrice>)> {
        let each = self.on_sagemaker.iter().flat_map(|known| {
            let prices = known.storage_prices.iter().map(Option::as_ref).chain(std::iter::repeat(None));
            self.job.storage.iter().zip(prices)
        });
        each.filter(|(storage, _)| storage.id.is_absent())
    }

    /// Returns the price of the training volumes, if known.
    pub fn volume_price(&self) -> Option<&StoragePrice> {
        self.on_sagemaker.as_ref()?.volume_price.as_ref()
    }

    /// Returns the noun for one accelerator: `GPU` unless the catalogue has another one.
    pub fn chip_noun(&self) -> &'static str {
        self.instance.as_ref().map_or("GPU", |instance| instance.accelerator.kind.noun())
    }
}

/// The machine of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Accelerators of a node.
    pub gpus_per_node: u64,
    /// Name of the accelerator.
    pub gpu: Option<String>,
    /// Ranks that torchrun starts on one accelerator: its NeuronCores on Trainium, otherwise 1.
    pub ranks_per_gpu: u64,
    /// Memory of one accelerator, bytes.
    pub gpu_memory_bytes: Option<u64>,
    /// Whether its tensor cores support bf16.
    pub bf16: Option<bool>,
    /// Whether nodes communicate over EFA.
    pub efa: Option<bool>,
}

impl Machine {
    /// Returns the memory of one rank, bytes: that of the accelerator, or a NeuronCore's share of its chip's.
    pub fn rank_memory_bytes(&self) -> Option<u64> {
        self.gpu_memory_bytes.map(|bytes| bytes / self.ranks_per_gpu.max(1))
    }
}

/// A region with its partition and DNS suffix.
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

/// The length of the run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Run {
    /// Optimizer steps.
    pub steps: Option<Val<u64>>,
    /// Tokens trained on.
    pub tokens: Option<Val<u64>>,
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
    OutsideRoot {
        /// Whether the root is that of a git repository.
        is_repository: bool,
    },
    /// It exists, but a file in it cannot be packed.
    Content,
}
