//! The CreateTrainingJob request of a plan.

use super::names;
use super::request::{
    AlgorithmSpecification, CheckpointConfig, CollectionConfiguration, CreateTrainingJob, DebugHookConfig,
    InstanceGroup, InstancePlacementConfig, OutputDataConfig, PlacementSpecification, ProfilerConfig,
    ResourceConfig, Tag, VpcConfig,
};
use super::{archive, channels, container, metrics, python, shell};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainc_ir::{Channel, Job, Launch, Launcher, Pair, Plan, Program, Scalar, Val};
use trainc_language::NodeType;

/// Returns the request of a plan for a job name and digest.
pub(super) fn request(plan: &Plan, job_name: &str, digest: &str) -> Value {
    let typed = build_request(plan, job_name, digest);
    let mut value = serde_json::to_value(&typed).unwrap_or(Value::Null);
    if let Value::Object(members) = &mut value {
        add_written_members(&plan.job, members);
        if plan.job.serverless_member().is_some() {
            remove_serverless_members(plan, members);
        }
        for member in &plan.job.request {
            merge_member(members, member.name.clone(), member.value.to_json());
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
fn add_written_members(job: &Job, members: &mut Map<String, Value>) {
    job.visit("", &mut |seen| {
        if let Some((member, value)) = seen.sent().filter(|(member, _)| member.is_as_written)
            && !member.path.contains("[]")
        {
            insert(members, member.path, value);
        }
    });
    let Some(Value::Array(sent)) = members.get_mut("InputDataConfig") else { return };
    for object in sent.iter_mut().filter_map(Value::as_object_mut) {
        let is_named = |channel: &&Channel| {
            channel
                .name
                .value()
                .is_some_and(|name| object.get("ChannelName") == Some(&Value::from(name.as_str())))
        };
        let Some(channel) = job.channels.iter().find(is_named) else { continue };
        channel.visit("", &mut |seen| {
            if let Some((member, value)) = seen.sent().filter(|(member, _)| member.is_as_written)
                && let Some(path) = member.path.strip_prefix("InputDataConfig[].")
            {
                insert(object, path, value);
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

/// Removes members of instances and container, which SageMaker chooses for a serverless job, unless the manifest sets them.
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

/// Merges a raw member into those of the nodes. It overrides what a node sets, which checks reject unless the manifest
/// allows it; null leaves the member to the service.
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

fn field_text(field: &trainc_ir::Field<String>) -> Option<String> {
    field.value().cloned()
}

fn values(list: &[Val<String>]) -> Vec<String> {
    list.iter().map(|val| val.value.clone()).collect()
}

fn pairs_to_map(pairs: &[Pair]) -> BTreeMap<String, String> {
    pairs.iter().filter_map(|pair| Some((pair.key.clone(), field_text(&pair.value)?))).collect()
}

fn build_request(plan: &Plan, job_name: &str, digest: &str) -> CreateTrainingJob {
    let job = &plan.job;
    let cluster = job.cluster.as_ref();
    let network = job.network.as_ref();
    CreateTrainingJob {
        training_job_name: job_name.to_owned(),
        hyper_parameters: hyperparameters(plan, job_name),
        algorithm_specification: algorithm(plan),
        role_arn: names::role_arn(plan),
        input_data_config: channels::all_channels(plan),
        output_data_config: OutputDataConfig { path: plan.output_path().cloned().unwrap_or_default() },
        resource_config: resources(plan),
        vpc_config: network
            .filter(|network| !network.subnets.is_empty() || !network.security_groups.is_empty())
            .map(|network| VpcConfig {
                security_group_ids: values(&network.security_groups),
                subnets: values(&network.subnets),
            }),
        tags: tags(plan, digest),
        enable_managed_spot_training: cluster.and_then(|cluster| cluster.spot.as_ref()).map(|_| true),
        checkpoint_config: job.checkpoint.as_ref().and_then(|checkpoint| {
            Some(CheckpointConfig {
                uri: field_text(&checkpoint.s3)?,
                local_path: field_text(&checkpoint.local),
            })
        }),
        debug_hook_config: plan.debugger().map(|debugger| DebugHookConfig {
            path: plan.debugger_path().cloned().unwrap_or_default(),
            local_path: field_text(&debugger.local),
            hook_parameters: pairs_to_map(&debugger.parameters),
            collections: debugger
                .collections
                .iter()
                .map(|collection| CollectionConfiguration {
                    name: collection.name.value.clone(),
                    parameters: pairs_to_map(&collection.parameters),
                })
                .collect(),
        }),
        experiment_config: job.experiment.as_ref().map(|_| BTreeMap::new()),
        profiler_config: Some(match &job.profiler {
            None => ProfilerConfig { disable: true, ..ProfilerConfig::default() },
            Some(profiler) => ProfilerConfig {
                disable: false,
                path: Some(plan.profiler_path().cloned().unwrap_or_default()),
                parameters: pairs_to_map(&profiler.parameters),
            },
        }),
        environment: environment(plan),
    }
}

/// Returns the arguments of the script, and the keys of the toolkit and the launcher.
fn hyperparameters(plan: &Plan, job_name: &str) -> BTreeMap<String, String> {
    let Some(program) = &plan.job.program else { return BTreeMap::new() };
    let Some(started) = plan.payload.toolkit_program() else {
        // Without the toolkit, the container reads hyperparameters as plain strings.
        return program
            .hyperparameters
            .iter()
            .filter_map(|h| Some((h.name.clone(), python::python_str(h.value.value()?))))
            .collect();
    };
    let mut out: BTreeMap<String, String> = program
        .hyperparameters
        .iter()
        .filter_map(|hyperparameter| {
            let value = match hyperparameter.value.value()? {
                Scalar::Text(text) => python::json_text(&shell::quote(text)),
                other => python::json(other),
            };
            Some((hyperparameter.name.clone(), value))
        })
        .collect();
    let mut put = |key: &str, value: String| out.insert(key.to_owned(), value);
    put("sagemaker_container_log_level", log_level(program).to_string());
    put("sagemaker_job_name", python::json_text(job_name));
    put("sagemaker_program", python::json_text(started));
    if let Some(region) = plan.job.region.value() {
        put("sagemaker_region", python::json_text(region));
    }
    put("sagemaker_submit_directory", python::json_text(&archive::submit_directory(plan)));
    for (key, value) in launcher_hyperparameters(&plan.launch) {
        put(&key, value);
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
fn launcher_hyperparameters(launch: &Launch) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: &str| out.push((key.to_owned(), value.to_owned()));
    match launch.launcher {
        Launcher::Plain | Launcher::LaunchScript => {}
        Launcher::ParameterServer => put("sagemaker_parameter_server_enabled", "true"),
        Launcher::MultiWorkerMirrored => put("sagemaker_multi_worker_mirrored_strategy_enabled", "true"),
        Launcher::Torchrun | Launcher::SmpV2 => put("sagemaker_torch_distributed_enabled", "true"),
        Launcher::PytorchDdp if !launch.is_rewritten_to_smddp => put("sagemaker_pytorch_ddp_enabled", "true"),
        Launcher::PytorchDdp | Launcher::Smddp => {
            put("sagemaker_distributed_dataparallel_enabled", "true");
            put(
                "sagemaker_distributed_dataparallel_custom_mpi_options",
                &python::json_text(&launch.mpi_options),
            );
        }
        Launcher::Mpi | Launcher::SmpV1 => {
            put("sagemaker_mpi_enabled", "true");
            if let Some(processes) = launch.processes_per_host {
                put("sagemaker_mpi_num_of_processes_per_host", &processes.to_string());
            }
            put("sagemaker_mpi_custom_mpi_options", &python::json_text(&launch.mpi_options));
        }
    }
    if matches!(launch.launcher, Launcher::SmpV1 | Launcher::SmpV2) {
        put("sagemaker_distributed_dataparallel_enabled", "false");
        put("mp_parameters", &python::json_object(&launch.parameters));
    }
    if let Some(instance) = &launch.instance {
        put("sagemaker_instance_type", &python::json_text(instance));
    }
    if let Some(group) = &launch.group {
        put("sagemaker_distribution_instance_groups", &serde_json::json!([group]).to_string());
    }
    out
}

fn algorithm(plan: &Plan) -> AlgorithmSpecification {
    // PyTorch 1.3 and later and every HuggingFace image (SDK 2.257.7); not sent for a custom image.
    let known = plan.image.as_ref().is_some_and(|image| image.family != "own");
    let (container_entrypoint, container_arguments) = container::command(plan);
    AlgorithmSpecification {
        training_image: plan.image.as_ref().map(|image| image.uri.clone()).unwrap_or_default(),
        training_input_mode: "File".to_owned(),
        metric_definitions: metrics::definitions(plan),
        enable_sage_maker_metrics_time_series: known.then_some(true),
        container_entrypoint,
        container_arguments,
    }
}

fn resources(plan: &Plan) -> ResourceConfig {
    let Some(cluster) = &plan.job.cluster else { return ResourceConfig::default() };
    let groups: Vec<InstanceGroup> = cluster
        .groups
        .iter()
        .filter_map(|group| {
            Some(InstanceGroup {
                instance_type: field_text(&group.instance)?,
                instance_count: group.nodes.get()?,
                instance_group_name: field_text(&group.name)?,
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
        instance_type: field_text(&cluster.instance).filter(|_| single && !plan.job.is_instance_preferred()),
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

fn environment(plan: &Plan) -> BTreeMap<String, String> {
    let mut out =
        plan.job.program.as_ref().map(|program| pairs_to_map(&program.environment)).unwrap_or_default();
    if plan.is_worker() {
        for (key, value) in &plan.payload.environment {
            out.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    out.extend(super::start::variables(plan));
    out
}

/// Returns the tags of the user, then those by which trainc identifies its jobs.
pub(super) fn tags(plan: &Plan, digest: &str) -> Vec<Tag> {
    let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
    let mut out: Vec<Tag> = plan
        .job
        .tags
        .iter()
        .filter_map(|pair| Some(Tag { key: pair.key.clone(), value: field_text(&pair.value)? }))
        .collect();
    let job = plan.job.name.value().map_or("", String::as_str);
    out.push(tag("trainc:job", job));
    out.push(tag("trainc:digest", digest.get(..16).unwrap_or(digest)));
    out.push(tag("trainc:resource", &format!("training-job/{job}")));
    out.push(tag("trainc:version", env!("CARGO_PKG_VERSION")));
    out
}
