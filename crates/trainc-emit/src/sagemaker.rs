//! The CreateTrainingJob request of a plan.

use super::fill::Fill;
use super::names;
use super::request::{
    AlgorithmSpecification, CheckpointConfig, CollectionConfiguration, CreateTrainingJob, DebugHookConfig,
    InstanceGroup, InstancePlacementConfig, OutputDataConfig, PlacementSpecification, ProfilerConfig,
    ResourceConfig, Tag, VpcConfig,
};
use super::{Identity, archive, channels, container, metrics, python, shell, start};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainc_ir::{Channel, Job, Launch, Launcher, Plan, Program, Scalar};
use trainc_language::NodeType;

/// Returns the request of a plan. Without an identity it is the request from which the digest is computed:
/// with marks for the digest, and without what follows from it or is no part of the job.
pub(super) fn request(plan: &Plan, identity: Option<&Identity>) -> Value {
    let fill = identity.map_or(Fill::Mark, |identity| Fill::Digest(&identity.digest));
    let typed = build_request(plan, identity, fill);
    let mut value = serde_json::to_value(&typed).unwrap_or(Value::Null);
    if let Value::Object(members) = &mut value {
        add_written_members(&plan.job, members, fill);
        if plan.job.serverless_member().is_some() {
            remove_serverless_members(plan, members);
        }
        for member in &plan.job.request {
            merge_member(members, member.name.clone(), fill.json(member.value.to_json()));
        }
        // `AlgorithmName` replaces the image.
        if let Some(Value::Object(algorithm)) = members.get_mut("AlgorithmSpecification")
            && plan.image.is_none()
            && algorithm.contains_key("AlgorithmName")
        {
            algorithm.remove("TrainingImage");
        }
    }
    value
}

/// Adds the values that are sent as they are written.
fn add_written_members(job: &Job, members: &mut Map<String, Value>, fill: Fill) {
    job.visit("", &mut |seen| {
        if let Some((member, value)) = seen.sent().filter(|(member, _)| member.is_as_written)
            && !member.path.contains("[]")
        {
            insert(members, member.path, fill.json(value));
        }
    });
    let Some(Value::Array(sent)) = members.get_mut("InputDataConfig") else { return };
    for object in sent.iter_mut().filter_map(Value::as_object_mut) {
        let is_named = |channel: &&Channel| {
            channel
                .name
                .value()
                .is_some_and(|name| object.get("ChannelName") == Some(&Value::from(fill.text(name))))
        };
        let Some(channel) = job.channels.iter().find(is_named) else { continue };
        channel.visit("", &mut |seen| {
            if let Some((member, value)) = seen.sent().filter(|(member, _)| member.is_as_written)
                && let Some(path) = member.path.strip_prefix("InputDataConfig[].")
            {
                insert(object, path, fill.json(value));
            }
        });
    }
}

/// Inserts a value at a path, with the objects that it is in.
fn insert(members: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            members.insert(path.to_owned(), value);
        }
        Some((object, rest)) => {
            let inner = members.entry(object).or_insert_with(|| Value::Object(Map::new()));
            if let Some(inner) = inner.as_object_mut() {
                insert(inner, rest, value);
            }
        }
    }
}

/// Removes members of instances and container, which SageMaker chooses for a serverless job, unless the
/// manifest sets them.
fn remove_serverless_members(plan: &Plan, members: &mut Map<String, Value>) {
    if plan.job.cluster.is_none() {
        members.remove("ResourceConfig");
        members.remove("StoppingCondition");
    }
    if plan.image.is_none() {
        members.remove("AlgorithmSpecification");
    }
    if plan.job.profiler.is_none() {
        members.remove("ProfilerConfig");
    }
}

/// Merges a raw member into those of the nodes. It overrides what a node sets, which checks reject unless the
/// manifest allows it; null leaves the member to the service.
fn merge_member(members: &mut Map<String, Value>, name: String, raw: Value) {
    match (members.get_mut(&name), raw) {
        (_, Value::Null) => {
            members.remove(&name);
        }
        (Some(Value::Object(old)), Value::Object(new)) => {
            for (key, value) in new {
                merge_member(old, key, value);
            }
        }
        (_, Value::Object(new)) => {
            let mut inner = Map::new();
            for (key, value) in new {
                merge_member(&mut inner, key, value);
            }
            members.insert(name, Value::Object(inner));
        }
        (_, value) => {
            members.insert(name, value);
        }
    }
}

fn build_request(plan: &Plan, identity: Option<&Identity>, fill: Fill) -> CreateTrainingJob {
    let job = &plan.job;
    let cluster = job.cluster.as_ref();
    let network = job.network.as_ref();
    CreateTrainingJob {
        training_job_name: identity.map(|identity| identity.training_job.clone()).unwrap_or_default(),
        hyper_parameters: hyperparameters(plan, identity, fill),
        algorithm_specification: algorithm(plan, fill),
        role_arn: names::role_arn(plan),
        input_data_config: channels::all_channels(plan, fill),
        output_data_config: OutputDataConfig { path: fill.text(plan.output_path().unwrap_or_default()) },
        resource_config: resources(plan, fill),
        vpc_config: network
            .filter(|network| !network.subnets.is_empty() || !network.security_groups.is_empty())
            .map(|network| VpcConfig {
                security_group_ids: fill.words(&network.security_groups),
                subnets: fill.words(&network.subnets),
            }),
        tags: identity.map(|identity| tags(plan, &identity.digest)).unwrap_or_default(),
        enable_managed_spot_training: cluster.and_then(|cluster| cluster.spot.as_ref()).map(|_| true),
        checkpoint_config: job.checkpoint.as_ref().and_then(|checkpoint| {
            Some(CheckpointConfig {
                uri: fill.field(&checkpoint.s3)?,
                local_path: fill.field(&checkpoint.local),
            })
        }),
        debug_hook_config: plan.debugger().map(|debugger| DebugHookConfig {
            path: fill.text(plan.debugger_path().unwrap_or_default()),
            local_path: fill.field(&debugger.local),
            hook_parameters: fill.pairs(&debugger.parameters),
            collections: debugger
                .collections
                .iter()
                .map(|collection| CollectionConfiguration {
                    name: collection.name.value.clone(),
                    parameters: fill.pairs(&collection.parameters),
                })
                .collect(),
        }),
        experiment_config: job.experiment.as_ref().map(|_| BTreeMap::new()),
        profiler_config: Some(match &job.profiler {
            None => ProfilerConfig { disable: true, ..ProfilerConfig::default() },
            Some(profiler) => ProfilerConfig {
                disable: false,
                path: Some(fill.text(plan.profiler_path().unwrap_or_default())),
                parameters: fill.pairs(&profiler.parameters),
            },
        }),
        environment: environment(plan, identity.is_some(), fill),
    }
}

/// Returns the arguments of the script, and the keys of the toolkit and the launcher.
fn hyperparameters(plan: &Plan, identity: Option<&Identity>, fill: Fill) -> BTreeMap<String, String> {
    let Some(program) = &plan.job.program else { return BTreeMap::new() };
    let Some(started) = plan.payload.toolkit_program() else {
        // Without the toolkit, the container reads hyperparameters as plain strings.
        return program
            .hyperparameters
            .iter()
            .filter_map(|h| Some((h.name.clone(), fill.scalar(h.value.value()?).python())))
            .collect();
    };
    let mut out: BTreeMap<String, String> = program
        .hyperparameters
        .iter()
        .filter_map(|hyperparameter| {
            let value = match fill.scalar(hyperparameter.value.value()?) {
                Scalar::Text(text) => python::json_text(&shell::quote(&text)),
                other => python::json(&other),
            };
            Some((hyperparameter.name.clone(), value))
        })
        .collect();
    let mut put = |key: &str, value: String| out.insert(key.to_owned(), value);
    put("sagemaker_container_log_level", log_level(program).to_string());
    put("sagemaker_program", python::json_text(started));
    if let Some(region) = plan.job.region.value() {
        put("sagemaker_region", python::json_text(region));
    }
    for (key, value) in launcher_hyperparameters(&plan.launch, fill) {
        put(&key, value);
    }
    // These follow from the digest, and from the digest of the source.
    let job_name = identity.map(|identity| python::json_text(&identity.training_job));
    let directory = identity.map(|_| python::json_text(&archive::submit_directory(plan, fill)));
    for (key, value) in [("sagemaker_job_name", job_name), ("sagemaker_submit_directory", directory)] {
        match value {
            Some(value) => out.insert(key.to_owned(), value),
            None => out.remove(key),
        };
    }
    out
}

/// The log levels of the training toolkit by their words (Python documentation, `logging`, levels).
pub static LOG_LEVELS: &[(&str, u8)] =
    &[("debug", 10), ("info", 20), ("warning", 30), ("error", 40), ("critical", 50)];
/// The log level that the SageMaker SDK sends by default.
const DEFAULT_LOG_LEVEL: u8 = 20;

fn log_level(program: &Program) -> u8 {
    let word = program.log_level.value();
    let level = LOG_LEVELS.iter().find(|(name, _)| word.is_some_and(|word| word == name));
    level.map_or(DEFAULT_LOG_LEVEL, |(_, level)| *level)
}

/// Returns the hyperparameters of the launcher, as the SageMaker SDK v2 sends them.
fn launcher_hyperparameters(launch: &Launch, fill: Fill) -> Vec<(String, String)> {
    let options = || python::json_text(&fill.text(&launch.mpi_options));
    let mut out: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: &str| out.push((key.to_owned(), value.to_owned()));
    match launch.launcher {
        Launcher::Plain | Launcher::LaunchScript | Launcher::Accelerate => {}
        Launcher::ParameterServer => put("sagemaker_parameter_server_enabled", "true"),
        Launcher::MultiWorkerMirrored => put("sagemaker_multi_worker_mirrored_strategy_enabled", "true"),
        Launcher::Torchrun | Launcher::SmpV2 => put("sagemaker_torch_distributed_enabled", "true"),
        Launcher::PytorchDdp if !launch.is_rewritten_to_smddp => put("sagemaker_pytorch_ddp_enabled", "true"),
        Launcher::PytorchDdp | Launcher::Smddp => {
            put("sagemaker_distributed_dataparallel_enabled", "true");
            put("sagemaker_distributed_dataparallel_custom_mpi_options", &options());
        }
        Launcher::Mpi | Launcher::SmpV1 => {
            put("sagemaker_mpi_enabled", "true");
            if let Some(processes) = launch.processes_per_host {
                put("sagemaker_mpi_num_of_processes_per_host", &processes.to_string());
            }
            put("sagemaker_mpi_custom_mpi_options", &options());
        }
    }
    if matches!(launch.launcher, Launcher::SmpV1 | Launcher::SmpV2) {
        put("sagemaker_distributed_dataparallel_enabled", "false");
        let parameters = launch.parameters.iter().map(|(key, value)| (*key, fill.scalar(value)));
        put("mp_parameters", &python::json_object(&parameters.collect::<Vec<_>>()));
    }
    if let Some(instance) = &launch.instance {
        put("sagemaker_instance_type", &python::json_text(instance));
    }
    if let Some(group) = &launch.group {
        put("sagemaker_distribution_instance_groups", &serde_json::json!([group]).to_string());
    }
    out
}

fn algorithm(plan: &Plan, fill: Fill) -> AlgorithmSpecification {
    // PyTorch 1.3 and later and every HuggingFace image (SDK 2.257.7); not sent for a custom image.
    let known = plan.image.as_ref().is_some_and(|image| !image.is_own());
    let (container_entrypoint, container_arguments) = container::command(plan, fill);
    AlgorithmSpecification {
        training_image: plan.image.as_ref().map(|image| image.uri.clone()).unwrap_or_default(),
        training_input_mode: "File".to_owned(),
        metric_definitions: metrics::definitions(plan, fill),
        enable_sage_maker_metrics_time_series: known.then_some(true),
        container_entrypoint,
        container_arguments,
    }
}

fn resources(plan: &Plan, fill: Fill) -> ResourceConfig {
    let Some(cluster) = &plan.job.cluster else { return ResourceConfig::default() };
    let groups: Vec<InstanceGroup> = cluster
        .groups
        .iter()
        .filter_map(|group| {
            Some(InstanceGroup {
                instance_type: fill.field(&group.instance)?,
                instance_count: group.nodes.get()?,
                instance_group_name: fill.field(&group.name)?,
            })
        })
        .collect();
    let single = groups.is_empty();
    // The instance count is set on every preference, or on the job.
    let counted = plan
        .job
        .preferences()
        .is_some_and(|(_, list)| list.iter().any(|preference| preference.count.is_some()));
    ResourceConfig {
        instance_type: fill.field(&cluster.instance).filter(|_| single && !plan.job.is_instance_preferred()),
        instance_count: cluster.nodes.get().filter(|_| single && !counted),
        instance_groups: groups,
        instance_placement_config: cluster.placement.as_ref().map(|placement| InstancePlacementConfig {
            placement_specifications: placement
                .ultra_servers
                .iter()
                .filter_map(|server| {
                    Some(PlacementSpecification {
                        ultra_server_id: server.id.value.clone(),
                        instance_count: server.instances.get()?,
                    })
                })
                .collect(),
        }),
    }
}

fn environment(plan: &Plan, is_sent: bool, fill: Fill) -> BTreeMap<String, String> {
    let mut out =
        plan.job.program.as_ref().map(|program| fill.pairs(&program.environment)).unwrap_or_default();
    if plan.is_worker() {
        for (key, value) in &plan.payload.environment {
            out.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    // Predictions and prices may change without the job.
    for (name, value) in start::variables(plan) {
        if is_sent {
            out.insert(name.to_owned(), value)
        } else {
            out.remove(name)
        };
    }
    out
}

/// Returns the tags of the user, then those by which trainc identifies its jobs.
pub(super) fn tags(plan: &Plan, digest: &str) -> Vec<Tag> {
    let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
    let fill = Fill::Digest(digest);
    let tags = plan.job.tags.iter();
    let mut out: Vec<Tag> = tags
        .filter_map(|pair| Some(Tag { key: pair.key.clone(), value: fill.field(&pair.value)? }))
        .collect();
    let job = plan.job.name.value().map_or("", String::as_str);
    out.push(tag("trainc:job", job));
    out.push(tag("trainc:digest", digest.get(..16).unwrap_or(digest)));
    out.push(tag("trainc:resource", &format!("training-job/{job}")));
    out.push(tag("trainc:version", env!("CARGO_PKG_VERSION")));
    out
}
