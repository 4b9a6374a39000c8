//! Members of the request that become one or a few arguments each.

use super::class::EstimatorClass;
use super::expression::Expression;
use super::{Script, plain};
use serde_json::Value;

/// Defaults of the SDK, for which the argument is omitted.
const SDK_VOLUME_GB: u64 = 30;
const SDK_MAX_RUN_SECONDS: u64 = 86_400;

impl Script<'_> {
    pub(super) fn add_image(&mut self) {
        let uri = self.unmapped.take_in("AlgorithmSpecification", "TrainingImage");
        let ask = self.plan.job.image.as_ref();
        let found = self.plan.image.as_ref();
        let resolved = found
            .filter(|image| image.sdk_v2 && uri.as_ref().and_then(Value::as_str) == Some(image.uri.as_str()));
        let mut by_version = false;
        // The SDK selects the images of SMP v2 and of Trainium by `distribution=` and `instance_type=`, which a job with
        // instance groups does not set.
        let grouped = self.plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.groups.is_empty());
        let has_own_images = self.plan.engine.is_some_and(|engine| engine.front.image_family.is_some());
        let apart = has_own_images || self.plan.chip_noun() != "GPU";
        let resolved = resolved.filter(|_| !(grouped && apart));
        if let (Some(image), Some(ask), true) = (resolved, ask, self.class != EstimatorClass::Estimator) {
            let versions = match self.class {
                EstimatorClass::HuggingFace => {
                    vec![("transformers_version", &ask.transformers), ("pytorch_version", &ask.pytorch)]
                }
                EstimatorClass::PyTorch | EstimatorClass::Estimator => {
                    vec![("framework_version", &ask.version)]
                }
            };
            for (argument, field) in versions {
                if let Some(version) = field.value() {
                    self.add_argument(argument, Expression::text(version));
                }
            }
            if let Some(python) = &image.python {
                self.add_argument("py_version", Expression::text(python));
                by_version = true;
            }
        }
        if !by_version {
            self.arguments.retain(|(name, _)| !name.ends_with("_version"));
            self.add_optional_argument("image_uri", uri);
        }
        // The default is on for class HuggingFace, and for PyTorch if the version is known (1.3 and later).
        let default = match self.class {
            EstimatorClass::HuggingFace => true,
            EstimatorClass::PyTorch => by_version,
            EstimatorClass::Estimator => false,
        };
        let metrics = self.unmapped.take_in("AlgorithmSpecification", "EnableSageMakerMetricsTimeSeries");
        self.add_optional_argument(
            "enable_sagemaker_metrics",
            metrics.filter(|on| on.as_bool() != Some(default)),
        );
        for (argument, member) in
            [("container_entry_point", "ContainerEntrypoint"), ("container_arguments", "ContainerArguments")]
        {
            let value = self.unmapped.take_in("AlgorithmSpecification", member);
            self.add_optional_argument(argument, value);
        }
        if let Some(config) = self.unmapped.take_in("AlgorithmSpecification", "TrainingImageConfig") {
            self.add_optional_argument(
                "training_repository_access_mode",
                config.get("TrainingRepositoryAccessMode").cloned(),
            );
            let provider = config
                .pointer("/TrainingRepositoryAuthConfig/TrainingRepositoryCredentialsProviderArn")
                .cloned();
            self.add_optional_argument("training_repository_credentials_provider_arn", provider);
        }
        let mode = self.unmapped.take_in("AlgorithmSpecification", "TrainingInputMode");
        self.add_optional_argument("input_mode", mode.filter(|mode| mode.as_str() != Some("File")));
    }

    pub(super) fn add_resources(&mut self) {
        if let Some(Value::Array(groups)) = self.unmapped.take_in("ResourceConfig", "InstanceGroups") {
            self.modules.add("sagemaker.instance_group", "InstanceGroup");
            let groups = groups
                .iter()
                .map(|group| {
                    let part = |name: &str| {
                        (String::new(), group.get(name).map_or_else(|| plain("None"), Expression::json))
                    };
                    let parts = ["InstanceGroupName", "InstanceType", "InstanceCount"].map(part);
                    Expression::Call("InstanceGroup".to_owned(), parts.to_vec())
                })
                .collect();
            self.add_argument("instance_groups", Expression::List(groups));
        }
        for (argument, member) in [("instance_type", "InstanceType"), ("instance_count", "InstanceCount")] {
            let value = self.unmapped.take_in("ResourceConfig", member);
            self.add_optional_argument(argument, value);
        }
        if let Some(size) = self
            .unmapped
            .take_number_in("ResourceConfig", "VolumeSizeInGB")
            .filter(|size| *size != SDK_VOLUME_GB)
        {
            self.add_argument("volume_size", plain(&size.to_string()));
        }
        for (argument, member) in [
            ("volume_kms_key", "VolumeKmsKeyId"),
            ("keep_alive_period_in_seconds", "KeepAlivePeriodInSeconds"),
            ("training_plan", "TrainingPlanArn"),
            ("instance_placement_config", "InstancePlacementConfig"),
        ] {
            let value = self.unmapped.take_in("ResourceConfig", member);
            self.add_optional_argument(argument, value);
        }
    }

    pub(super) fn add_metrics(&mut self) {
        if let Some(metrics) = self.unmapped.take_in("AlgorithmSpecification", "MetricDefinitions") {
            self.add_optional_argument("metric_definitions", Some(metrics));
        }
    }

    pub(super) fn add_output_and_network(&mut self) {
        for (argument, member) in [("output_path", "S3OutputPath"), ("output_kms_key", "KmsKeyId")] {
            let value = self.unmapped.take_in("OutputDataConfig", member);
            self.add_optional_argument(argument, value);
        }
        let compression = self.unmapped.take_in("OutputDataConfig", "CompressionType");
        if compression.as_ref().and_then(Value::as_str) == Some("NONE") {
            self.add_argument("disable_output_compression", plain("True"));
        }
        for (argument, member) in [("subnets", "Subnets"), ("security_group_ids", "SecurityGroupIds")] {
            let value = self.unmapped.take_in("VpcConfig", member);
            self.add_optional_argument(argument, value);
        }
    }

    pub(super) fn add_checkpoint(&mut self) {
        if let Some(config) = self.unmapped.take("CheckpointConfig") {
            self.add_optional_argument("checkpoint_s3_uri", config.get("S3Uri").cloned());
            self.add_optional_argument("checkpoint_local_path", config.get("LocalPath").cloned());
        }
    }

    pub(super) fn add_limits(&mut self) {
        if let Some(seconds) = self
            .unmapped
            .take_number_in("StoppingCondition", "MaxRuntimeInSeconds")
            .filter(|n| *n != SDK_MAX_RUN_SECONDS)
        {
            self.add_argument("max_run", plain(&seconds.to_string()));
        }
        let spot = self.unmapped.take("EnableManagedSpotTraining");
        if spot == Some(Value::Bool(true)) {
            self.add_argument("use_spot_instances", plain("True"));
        }
        let wait = self.unmapped.take_in("StoppingCondition", "MaxWaitTimeInSeconds");
        self.add_optional_argument("max_wait", wait);
        let retries = self.unmapped.take_in("RetryStrategy", "MaximumRetryAttempts");
        self.add_optional_argument("max_retry_attempts", retries);
    }

    pub(super) fn add_switches(&mut self) {
        for (argument, member) in [
            ("enable_network_isolation", "EnableNetworkIsolation"),
            ("encrypt_inter_container_traffic", "EnableInterContainerTrafficEncryption"),
        ] {
            let value = self.unmapped.take(member).filter(|value| *value == Value::Bool(true));
            self.add_optional_argument(argument, value);
        }
        for (argument, outer, member) in [
            ("enable_remote_debug", "RemoteDebugConfig", "EnableRemoteDebug"),
            ("enable_infra_check", "InfraCheckConfig", "EnableInfraCheck"),
            ("enable_session_tag_chaining", "SessionChainingConfig", "EnableSessionTagChaining"),
        ] {
            let value = self.unmapped.take_in(outer, member);
            self.add_optional_argument(argument, value);
        }
    }
}
