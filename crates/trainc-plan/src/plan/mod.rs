//! Plans a job: makes every choice and records its origin.
//!
//! Input: [`ir::Job`](trainc_ir::Job), the catalogue, and the program's files as read by the caller. Output:
//! [`Plan`], with `None` for unknown values, and problems. This stage accesses no file and guesses nothing.

mod batch;
mod cluster;
mod custom_image;
pub mod divisors;
mod image;
mod launch;
pub mod mesh;
pub mod minimum_nodes;
mod model;
mod monitoring;
mod neuron_image;
mod newest_image;
mod other_image;
mod payload;
pub mod replan;
mod required_nodes;
mod version_suggestion;
pub mod worker;
mod worker_network;
mod worker_run;

use crate::ReadError;
pub use batch::{T0310, T0311};
pub use cluster::T0320;
use trainc_catalog::{instances, prices};

use trainc_diag::{Code, Problems, Severity};
use trainc_ir::hardware::Instance;
use trainc_ir::job::Storage;
use trainc_ir::{
    AccountFacts, Delivery, Field, Fleet, ForeignFile, Job, Launch, Machine, OnSagemaker, Origin, Payload,
    Placeholders, Plan, Price, PriceBasis, PriceEstimate, ProgramVersion, Script, SourceFile, SourceTree,
    StoragePrice, UnreadCause, UnreadDirectory, Val,
};

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    [mesh::CODES, batch::CODES, cluster::CODES, image::CODES, model::CODES, worker::CODES].concat()
}

/// Files and options that the caller supplies.
#[derive(Clone, Debug, Default)]
pub struct PlanInputs {
    /// The program's directory, if the job names one.
    pub source: Option<Result<SourceTree, ReadError>>,
    /// The program's further directories.
    pub dependencies: Vec<Result<SourceTree, ReadError>>,
    /// The text of `model config=`, if the job names one.
    pub model_config: Option<Result<String, ReadError>>,
    /// Prices from the command line: instance type and US dollars per hour, or the catalogue key of a storage
    /// and US dollars per GB and month.
    pub prices: Vec<(String, f64)>,
    /// A discount from the command line, a fraction.
    pub discount: Option<f64>,
    /// The worker's binary, if engine `worker` runs and the binary exists.
    pub worker: Option<SourceFile>,
    /// The program, as far as it could be read.
    pub script: Option<std::sync::Arc<Script>>,
    /// The requirements of the program.
    pub requirements: Vec<trainc_ir::RequirementsFile>,
    /// The files of other programs that the manifest names.
    pub files: Vec<ForeignFile>,
    /// The packages of the training stack in the container.
    pub programs: Vec<ProgramVersion>,
}

/// Plans a job.
pub fn plan(job: Job, inputs: PlanInputs, problems: &mut Problems) -> Plan {
    let job = required_nodes::complete(job, problems);
    let region = cluster::region(&job, problems);
    let job = monitoring::add_rules(job, region.as_ref());
    let instance = cluster::instance(&job, problems);
    let machine = cluster::machine(&job, instance.as_ref(), problems);
    let model = model::model(&job, inputs.model_config.as_ref(), problems);
    let image = image::image(&job, region.as_ref(), problems);
    let engine = trainc_engine::bind(&job, &inputs.files, &inputs.programs).map(|engine| match &image {
        Some(image) => trainc_engine::in_image(engine, &image.family, image.pytorch.as_deref()),
        None => engine,
    });
    let library = image.as_ref().and_then(|image| trainc_engine::library_version(engine?, image));
    let mesh = mesh::mesh((&job, engine), machine.as_ref(), model.as_ref(), problems);
    let batch = batch::batch(&job, mesh.as_ref(), machine.as_ref(), problems);
    let run = batch::run(&job, batch.as_ref(), problems);
    let gpu = worker::Gpu::from_machine(machine.as_ref(), instance.as_ref());
    let worker = worker::worker(&job, model.as_ref(), gpu, &run, inputs.worker.clone(), problems);
    let fleet = fleet(&job, &inputs);
    let on_sagemaker = on_sagemaker(&job, &inputs);
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
        engine,
        library,
        launch: Launch::default(),
        payload: Payload::default(),
        worker,
        fleet,
        on_sagemaker,
        missing: unread_directory(inputs.source.as_ref()),
        missing_dependencies: inputs
            .dependencies
            .iter()
            .enumerate()
            .filter_map(|(at, found)| unread_directory(Some(found)).map(|why| (at, why)))
            .collect(),
        files: inputs.files,
        programs: inputs.programs,
        placeholders: Placeholders::default(),
        delivery: Delivery::default(),
        script: inputs.script,
        named_files: Vec::new(),
        requirements: inputs.requirements,
        unmodelled: Vec::new(),
        source: inputs.source.and_then(Result::ok),
        dependencies: inputs.dependencies.into_iter().filter_map(Result::ok).collect(),
        account_facts: AccountFacts::default(),
        expectation: None,
    }
}

/// Decides the values of a bound plan that its texts determine.
pub fn decide_bound_values(mut plan: Plan) -> Plan {
    let in_container = plan.on_sagemaker.is_some();
    plan.launch = launch::launch(&plan, in_container);
    plan.payload = payload::payload(&plan, in_container);
    let run = worker_run::worker_run_settings(&plan, in_container);
    if let Some(worker) = &mut plan.worker {
        worker.run = run;
    }
    plan
}

/// Returns the reason why a directory of the program could not be read.
fn unread_directory(source: Option<&Result<SourceTree, ReadError>>) -> Option<UnreadDirectory> {
    let (why, fault) = match source? {
        Err(ReadError::NotFound) => ("not found", UnreadCause::NotFound),
        Err(ReadError::OutsideRoot { is_repository }) => {
            ("it is outside the root directory", UnreadCause::OutsideRoot { is_repository: *is_repository })
        }
        Err(ReadError::Unreadable(why)) => (why.as_str(), UnreadCause::Content),
        Ok(_) => return None,
    };
    Some(UnreadDirectory { why: why.to_owned(), fault })
}

/// Returns the instances that the job may run on, with their prices in its region.
fn fleet(job: &Job, inputs: &PlanInputs) -> Fleet {
    let region = job.region.value();
    Fleet::from_job(job, |name| hourly_price(name, region?, &inputs.prices, inputs.discount))
}

/// Returns what the job uses on SageMaker alone; `None` for a custom or local cluster.
fn on_sagemaker(job: &Job, inputs: &PlanInputs) -> Option<OnSagemaker> {
    let instance = job.cluster.as_ref().and_then(|cluster| cluster.instance.value());
    if matches!(instance.map(String::as_str), Some("custom" | "local")) {
        return None;
    }
    let region = job.region.value();
    let price = |key: fn(&str) -> String| storage_price(&key(region?), &inputs.prices);
    Some(OnSagemaker {
        storage_prices: storage_prices(job, inputs),
        volume_price: price(prices::volume_key),
        s3_price: price(prices::s3_key),
    })
}

/// Returns the price of each storage that the job creates.
fn storage_prices(job: &Job, inputs: &PlanInputs) -> Vec<Option<StoragePrice>> {
    let each = job.storage.iter().map(|storage| {
        let key = storage_price_key(job.region.value()?, storage)?;
        storage_price(&key, &inputs.prices)
    });
    each.collect()
}

/// Returns the catalogue key of a storage's price; `None` for an existing or incompletely specified storage.
pub fn storage_price_key(region: &str, storage: &Storage) -> Option<String> {
    if !storage.id.is_absent() || storage.throughput_mb_s_tib.is_bad() {
        return None;
    }
    let (deployment, kind) = (storage.fsx_deployment_type()?, storage.fsx_storage_type()?);
    Some(prices::lustre_key(region, &deployment, &kind, storage.tier()))
}

/// Returns the price of storage by key: the user's price (the last one wins), otherwise the catalogue's. The
/// discount applies to instances only.
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

/// Moves a plan to the same number of nodes of another instance type with the same number of accelerators;
/// the mesh does not change. Returns `None` if the type is not in the catalogue or its nodes have another
/// number of ranks.
pub fn plan_on_instance(plan: &Plan, name: &str, price: Option<Price>) -> Option<Plan> {
    let row = instances::get(name)?;
    let machine = cluster::catalogue_machine(&row);
    let own = plan.machine.as_ref()?;
    if (machine.gpus_per_node, machine.ranks_per_gpu) != (own.gpus_per_node, own.ranks_per_gpu) {
        return None;
    }
    replace_instance(plan, (row, machine), price)
}

/// Replans on a number of nodes of an instance type: recomputes mesh and batch. Returns `None` if the type is
/// not in the catalogue or the nodes do not fit the job. `whole_group` is the shard degree that makes all
/// nodes one shard group, if the manifest sets another one.
pub fn plan_on_nodes(
    plan: &Plan,
    name: &str,
    price: Option<Price>,
    (nodes, whole_group): (u64, Option<u64>),
) -> Option<Plan> {
    let row = instances::get(name)?;
    let machine = cluster::catalogue_machine(&row);
    let mut plan = replace_instance(plan, (row, machine), price)?;
    let mut shard_degree = whole_group;
    let strategy = plan.mesh.as_ref().and_then(|mesh| mesh.law.whole_world_strategy());
    if let (Some(parallel), Some(strategy), Some(_)) = (&mut plan.job.parallel, strategy, shard_degree) {
        // The strategy shards over the whole world and takes no degree.
        parallel.strategy = Field::Is(Val::derived(strategy.to_owned(), "one shard group"));
        (parallel.shard_degree, shard_degree) = (Field::Absent, None);
    }
    let change = replan::LayoutChange { nodes, shard_degree, micro_batch_size: None, accumulation: None };
    let mut problems = Problems::default();
    let plan = replan::replan(&plan, change, &mut problems);
    let has_error = problems.iter().any(|one| one.severity == Severity::Error);
    (!has_error && plan.mesh.is_some() && plan.batch.is_some()).then_some(plan)
}

fn replace_instance(plan: &Plan, (row, machine): (Instance, Machine), price: Option<Price>) -> Option<Plan> {
    let mut plan = plan.clone();
    let Field::Is(written) = &mut plan.job.cluster.as_mut()?.instance else { return None };
    row.name.clone_into(&mut written.value);
    plan.fleet.replace_type(&row.name, price);
    (plan.instance, plan.machine) = (Some(row), Some(machine));
    Some(decide_bound_values(plan))
}

/// Returns the price of an instance type in a region: the user's price (type and US dollars per hour, the
/// last one wins), otherwise the newest of the catalogue, otherwise an estimate from an EC2 price; reduced
/// by the discount, a fraction.
pub fn hourly_price(
    instance: &str,
    region: &str,
    prices: &[(String, f64)],
    discount: Option<f64>,
) -> Option<Price> {
    let written = prices.iter().rev().find(|(name, _)| name == instance);
    let mut price = if let Some((_, usd)) = written {
        Price {
            usd_per_hour: *usd,
            list_usd_per_hour: *usd,
            region: None,
            date: None,
            source: "--price".to_owned(),
            basis: PriceBasis::User,
        }
    } else if let Some(row) = prices::newest(instance, region) {
        catalogue_price(row.usd_per_hour, row, PriceBasis::List)
    } else {
        let estimate = prices::estimate(instance, region)?;
        let basis = PriceBasis::Estimate(PriceEstimate {
            low_usd_per_hour: estimate.low_usd_per_hour,
            high_usd_per_hour: estimate.high_usd_per_hour,
            ec2_usd_per_hour: estimate.ec2.usd_per_hour,
        });
        catalogue_price(estimate.usd_per_hour, estimate.ec2, basis)
    };
    if let Some(discount) = discount {
        price.usd_per_hour *= 1.0 - discount;
        if let PriceBasis::Estimate(estimate) = &mut price.basis {
            estimate.low_usd_per_hour *= 1.0 - discount;
            estimate.high_usd_per_hour *= 1.0 - discount;
        }
        price.source = format!("{}{}{discount}", price.source, trainc_ir::price::DISCOUNT);
    }
    Some(price)
}

/// Returns a price of the catalogue, with region, date and source of the row from which it is read or
/// estimated.
fn catalogue_price(usd_per_hour: f64, row: prices::Price, basis: PriceBasis) -> Price {
    Price {
        usd_per_hour,
        list_usd_per_hour: usd_per_hour,
        region: row.region,
        date: Some(row.date_words.unwrap_or(row.provenance.date)),
        source: row.provenance.source,
        basis,
    }
}

/// Describes an origin without its location, for messages.
pub fn describe_origin(origin: &Origin) -> String {
    match origin {
        Origin::Written(_) => "as written".to_owned(),
        Origin::Default(rule) => format!("the default ({rule})"),
        Origin::Derived(from) => from.clone(),
        Origin::Catalogue { row, source, date } => format!("catalogue row {row} ({source}, {date})"),
    }
}
