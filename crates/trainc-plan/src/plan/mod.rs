//! From a job to a plan: every choice made, each with the reason for it.
//!
//! In: [`ir::Job`](trainc_ir::Job), the catalogue, and the files of the program as the caller read them. Out:
//! [`Plan`], with `None` where something is not known, and problems. Touches no file; guesses nothing.

pub mod again;
mod batch;
mod cluster;
pub mod divisors;
mod image;
pub mod mesh;
pub mod minimum_nodes;
mod model;
mod network;
mod neuron_image;
mod newest;
mod other_version;
mod own_image;
pub mod sequences;
mod shard_of_part;
mod smp;
pub mod worker;

use crate::resolve::LayerFault;
use trainc_catalog::{instances, prices};
use trainc_diag::source::SourceMap;
use trainc_diag::{Code, Problems, Severity};
use trainc_ir::hardware::Instance;
use trainc_ir::job::Storage;
use trainc_ir::{
    Engine, Field, Job, Known, Machine, Origin, Plan, Price, SourceFile, SourceTree, StoragePrice, Unread,
    UnreadFault, Val,
};

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    [mesh::CODES, batch::CODES, cluster::CODES, image::CODES, model::CODES, worker::CODES].concat()
}

/// What the caller read for the plan: this stage touches no file.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The program's directory, where the job names one.
    pub source: Option<Result<SourceTree, LayerFault>>,
    /// Directories beside it.
    pub dependencies: Vec<Result<SourceTree, LayerFault>>,
    /// The text of `model config=`, where the job names one.
    pub model_config: Option<Result<String, LayerFault>>,
    /// Prices from the command line: instance type and US dollars per hour, or a storage's key in the catalogue and US
    /// dollars per GB and month.
    pub prices: Vec<(String, f64)>,
    /// A discount from the command line, a fraction.
    pub discount: Option<f64>,
    /// The worker's binary, where engine `worker` runs and there is one.
    pub worker: Option<SourceFile>,
}

/// Makes the plan.
pub fn plan(job: Job, given: Given, problems: &mut Problems) -> Plan {
    let region = cluster::region(&job, problems);
    let instance = cluster::instance(&job, problems);
    let machine = cluster::machine(&job, instance.as_ref(), problems);
    let model = model::model(&job, given.model_config.as_ref(), problems);
    let image = image::image(&job, region.as_ref(), problems);
    let smp = smp::generation(&job, image.as_ref());
    let mesh = mesh::mesh(&job, machine.as_ref(), model.as_ref(), smp.as_ref(), problems);
    let batch = batch::batch(&job, mesh.as_ref(), machine.as_ref(), problems);
    let run = batch::run(&job, batch.as_ref(), problems);
    let worker = worker::worker(&job, model.as_ref(), &run, given.worker.clone(), problems);
    let price = price(&job, &given);
    let group_prices = group_prices(&job, &given);
    let storage_prices = storage_prices(&job, &given);
    let volume_price =
        job.region.value().and_then(|region| storage_price(&prices::volume_key(region), &given.prices));
    let deployable = !matches!(
        job.cluster.as_ref().and_then(|cluster| cluster.instance.value()).map(String::as_str),
        Some("custom" | "local")
    );
    Plan {
        job,
        instance,
        machine,
        region,
        model,
        mesh,
        batch,
        run,
        image,
        smp,
        worker,
        price,
        group_prices,
        storage_prices,
        volume_price,
        missing: missing(given.source.as_ref()),
        missing_dependencies: given
            .dependencies
            .iter()
            .enumerate()
            .filter_map(|(at, found)| missing(Some(found)).map(|why| (at, why)))
            .collect(),
        source: given.source.and_then(Result::ok),
        dependencies: given.dependencies.into_iter().filter_map(Result::ok).collect(),
        deployable,
        known: Known::default(),
    }
}

/// Why the program's directory could not be read.
fn missing(source: Option<&Result<SourceTree, LayerFault>>) -> Option<Unread> {
    let (why, fault) = match source? {
        Err(LayerFault::NotFound) => ("it is not there", UnreadFault::NotThere),
        Err(LayerFault::OutsideRoot) => ("it lies outside the root directory", UnreadFault::Outside),
        Err(LayerFault::Unreadable(why)) => (why.as_str(), UnreadFault::Content),
        Ok(_) => return None,
    };
    Some(Unread { why: why.to_owned(), fault })
}

fn price(job: &Job, given: &Given) -> Option<Price> {
    let instance = job.cluster.as_ref()?.instance.value()?;
    price_of(instance, job.region.value()?, &given.prices, given.discount)
}

/// The price of each instance group's type.
fn group_prices(job: &Job, given: &Given) -> Vec<Option<Price>> {
    let groups = job.cluster.iter().flat_map(|cluster| &cluster.groups);
    groups
        .map(|group| price_of(group.instance.value()?, job.region.value()?, &given.prices, given.discount))
        .collect()
}

/// The price of each storage that is made.
fn storage_prices(job: &Job, given: &Given) -> Vec<Option<StoragePrice>> {
    let each = job.storage.iter().map(|storage| {
        let key = storage_key(job.region.value()?, storage)?;
        storage_price(&key, &given.prices)
    });
    each.collect()
}

/// The key of a storage's price in the catalogue; none of one that exists, or that does not say what it is.
pub fn storage_key(region: &str, storage: &Storage) -> Option<String> {
    let upper = |word: &str| word.to_uppercase().replace('-', "_");
    if !storage.id.is_absent() || storage.storage_type.is_bad() || storage.throughput_mb_s_tib.is_bad() {
        return None;
    }
    let deployment = storage.deployment.value().map(|word| upper(word))?;
    let kind = storage.storage_type.value().map_or_else(|| "SSD".to_owned(), |word| upper(word));
    let tier = storage.throughput_mb_s_tib.get().and_then(|tier| u32::try_from(tier).ok());
    Some(prices::lustre_key(region, &deployment, &kind, tier))
}

/// The price of storage by its key: the user's own (the last counts), else the catalogue's. A discount is on instances.
fn storage_price(key: &str, written: &[(String, f64)]) -> Option<StoragePrice> {
    if let Some((_, usd)) = written.iter().rev().find(|(name, _)| name == key) {
        return Some(StoragePrice {
            usd_per_gb_month: *usd,
            region: None,
            date: None,
            source: "--price".to_owned(),
        });
    }
    let row = prices::storage(key)?;
    Some(StoragePrice {
        usd_per_gb_month: row.usd_per_gb_month,
        region: Some(row.region),
        date: Some(row.provenance.date),
        source: row.provenance.source,
    })
}

/// The same plan on as many nodes of another instance type with as many accelerators: the mesh and all that follows from
/// it stay. None where the catalogue does not know the type, or its nodes have another number of ranks.
pub fn on_instance(plan: &Plan, name: &str, price: Option<Price>) -> Option<Plan> {
    let row = instances::get(name)?;
    let machine = cluster::of_row(&row);
    let own = plan.machine.as_ref()?;
    if (machine.gpus_per_node, machine.ranks_per_gpu) != (own.gpus_per_node, own.ranks_per_gpu) {
        return None;
    }
    moved(plan, (row, machine), price)
}

/// The plan on so many nodes of a type, its own or another: mesh and batch are worked out again. None where the catalogue
/// does not know the type, or the job cannot be laid over these nodes. `whole_group` is the shard degree that makes all of them
/// one group, where another one is written.
pub fn on_nodes(
    plan: &Plan,
    name: &str,
    price: Option<Price>,
    (nodes, whole_group): (u64, Option<u64>),
) -> Option<Plan> {
    let row = instances::get(name)?;
    let machine = cluster::of_row(&row);
    let mut plan = moved(plan, (row, machine), price)?;
    let mut shard_degree = whole_group;
    let is_fsdp = plan.mesh.as_ref().is_some_and(|mesh| mesh.engine == Engine::Fsdp);
    if let Some(parallel) = plan.job.parallel.as_mut().filter(|_| is_fsdp && shard_degree.is_some()) {
        // The group of `full-shard` is the world: no degree stands beside it.
        parallel.strategy = Field::Is(Val::derived("full-shard".to_owned(), "one shard group"));
        (parallel.shard_degree, shard_degree) = (Field::Absent, None);
    }
    let change = again::Change { nodes, shard_degree, micro_batch_size: None, accumulation: None };
    let mut problems = Problems::default();
    let plan = again::again(&plan, change, &mut problems);
    let refused = problems.iter().any(|one| one.severity == Severity::Error);
    (!refused && plan.mesh.is_some() && plan.batch.is_some()).then_some(plan)
}

fn moved(plan: &Plan, (row, machine): (Instance, Machine), price: Option<Price>) -> Option<Plan> {
    let mut plan = plan.clone();
    let Field::Is(written) = &mut plan.job.cluster.as_mut()?.instance else { return None };
    row.name.clone_into(&mut written.value);
    (plan.instance, plan.machine, plan.price) = (Some(row), Some(machine), price);
    Some(plan)
}

/// The price of an instance type in a region: the user's own (type and US dollars per hour, the last counts), else the
/// catalogue's newest; less a discount, a fraction.
pub fn price_of(
    instance: &str,
    region: &str,
    prices: &[(String, f64)],
    discount: Option<f64>,
) -> Option<Price> {
    let written = prices.iter().rev().find(|(name, _)| name == instance);
    let mut price = if let Some((_, usd)) = written {
        Price { usd_per_hour: *usd, region: None, date: None, source: "--price".to_owned() }
    } else {
        let row = prices::newest(instance, region)?;
        let date = row.date_words.clone().unwrap_or_else(|| row.provenance.date.clone());
        Price {
            usd_per_hour: row.usd_per_hour,
            region: Some(region.to_owned()),
            date: Some(date),
            source: row.provenance.source,
        }
    };
    if let Some(discount) = discount {
        price.usd_per_hour *= 1.0 - discount;
        price.source = format!("{}, less --discount {discount}", price.source);
    }
    Some(price)
}

/// An origin in words, without the place: for messages.
pub fn origin_words(origin: &Origin) -> String {
    match origin {
        Origin::Written(_) => "as written".to_owned(),
        Origin::Default(rule) => format!("the default ({rule})"),
        Origin::Derived(from) => from.clone(),
        Origin::Catalogue { row, source, date } => format!("catalogue row {row} ({source}, {date})"),
    }
}

/// An origin in words with its place: for `plan -v`.
pub fn origin_line(origin: &Origin, sources: &SourceMap) -> String {
    match origin {
        Origin::Written(span) => match sources.get(span.source) {
            Some(source) => {
                let (line, column) = source.line_column(span.start);
                format!("written at {}:{line}:{column}", source.name)
            }
            None => "written".to_owned(),
        },
        other => origin_words(other),
    }
}

/// Whether an engine runs the user's program.
pub fn needs_program(engine: Option<Engine>) -> bool {
    engine != Some(Engine::Worker)
}
