//! Types of the CreateTrainingJob request, named as in the API (botocore 1.44.5, `sagemaker` 2017-07-24).

use serde::Serialize;
use std::collections::BTreeMap;

/// The CreateTrainingJob request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CreateTrainingJob {
    pub training_job_name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hyper_parameters: BTreeMap<String, String>,
    pub algorithm_specification: AlgorithmSpecification,
    pub role_arn: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_data_config: Vec<Channel>,
    pub output_data_config: OutputDataConfig,
    pub resource_config: ResourceConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc_config: Option<VpcConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_managed_spot_training: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_config: Option<CheckpointConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_hook_config: Option<DebugHookConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment_config: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiler_config: Option<ProfilerConfig>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct AlgorithmSpecification {
    pub training_image: String,
    pub training_input_mode: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metric_definitions: Vec<MetricDefinition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_sage_maker_metrics_time_series: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_entrypoint: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_arguments: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MetricDefinition {
    pub name: String,
    pub regex: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Channel {
    pub channel_name: String,
    pub data_source: DataSource,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(clippy::enum_variant_names, reason = "the API's own names")]
pub(super) enum DataSource {
    S3DataSource(S3DataSource),
    FileSystemDataSource(FileSystemDataSource),
    DatasetSource(DatasetSource),
}

impl Default for DataSource {
    fn default() -> Self {
        Self::S3DataSource(S3DataSource::default())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct S3DataSource {
    #[serde(rename = "S3DataType")]
    pub data_type: String,
    #[serde(rename = "S3Uri")]
    pub uri: String,
    #[serde(rename = "S3DataDistributionType", skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    #[serde(rename = "AttributeNames", skip_serializing_if = "Vec::is_empty")]
    pub attribute_names: Vec<String>,
    #[serde(rename = "InstanceGroupNames", skip_serializing_if = "Vec::is_empty")]
    pub instance_group_names: Vec<String>,
    #[serde(rename = "ModelAccessConfig", skip_serializing_if = "Option::is_none")]
    pub model_access_config: Option<ModelAccessConfig>,
    #[serde(rename = "HubAccessConfig", skip_serializing_if = "Option::is_none")]
    pub hub_access_config: Option<HubAccessConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ModelAccessConfig {
    pub accept_eula: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HubAccessConfig {
    pub hub_content_arn: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DatasetSource {
    pub dataset_arn: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct FileSystemDataSource {
    pub file_system_id: String,
    pub file_system_access_mode: String,
    pub file_system_type: String,
    pub directory_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct OutputDataConfig {
    #[serde(rename = "S3OutputPath")]
    pub path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ResourceConfig {
    #[serde(rename = "InstanceType", skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    #[serde(rename = "InstanceCount", skip_serializing_if = "Option::is_none")]
    pub instance_count: Option<u64>,
    #[serde(rename = "InstanceGroups", skip_serializing_if = "Vec::is_empty")]
    pub instance_groups: Vec<InstanceGroup>,
    #[serde(rename = "InstancePlacementConfig", skip_serializing_if = "Option::is_none")]
    pub instance_placement_config: Option<InstancePlacementConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct InstanceGroup {
    pub instance_type: String,
    pub instance_count: u64,
    pub instance_group_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct VpcConfig {
    pub security_group_ids: Vec<String>,
    pub subnets: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
/// A tag of an AWS resource.
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct Tag {
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct CheckpointConfig {
    #[serde(rename = "S3Uri")]
    pub uri: String,
    #[serde(rename = "LocalPath", skip_serializing_if = "Option::is_none")]
    pub local_path: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct DebugHookConfig {
    #[serde(rename = "S3OutputPath")]
    pub path: String,
    #[serde(rename = "LocalPath", skip_serializing_if = "Option::is_none")]
    pub local_path: Option<String>,
    #[serde(rename = "HookParameters", skip_serializing_if = "BTreeMap::is_empty")]
    pub hook_parameters: BTreeMap<String, String>,
    #[serde(rename = "CollectionConfigurations")]
    pub collections: Vec<CollectionConfiguration>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct CollectionConfiguration {
    #[serde(rename = "CollectionName")]
    pub name: String,
    #[serde(rename = "CollectionParameters", skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ProfilerConfig {
    #[serde(rename = "DisableProfiler")]
    pub disable: bool,
    #[serde(rename = "S3OutputPath", skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(rename = "ProfilingParameters", skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct InstancePlacementConfig {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement_specifications: Vec<PlacementSpecification>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PlacementSpecification {
    pub ultra_server_id: String,
    pub instance_count: u64,
}
