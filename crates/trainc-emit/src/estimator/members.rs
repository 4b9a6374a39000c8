//! Members of the request that become one or a few arguments each.

use super::class::EstimatorClass;
use super::expression::Expression;
use super::{Script, plain};
use serde_json::Value;
use trainc_language::members::{SentValue, sent_values};

/// Defaults of the SDK, for which the argument is omitted.
const SDK_DEFAULTS: &[(&str, u64)] =
    &[("ResourceConfig.VolumeSizeInGB", 30), ("StoppingCondition.MaxRuntimeInSeconds", 86_400)];

impl Script<'_> {
    /// Adds the arguments for single values of the manifest whose members begin with a path.
    fn add_values(&mut self, path: &str) {
        for SentValue { member, .. } in sent_values() {
            let Some(argument) = member.estimator.filter(|_| member.path.starts_with(path)) else { continue };
            let value = match member.path.split_once('.') {
                Some((outer, member)) => self.unmapped.take_in(outer, member),
                // A switch of the request is off by default.
                None => self.unmapped.take(member.path).filter(|value| *value == Value::Bool(true)),
            };
            let is_default = |value: &Value| {
                SDK_DEFAULTS
                    .iter()
                    .any(|(path, default)| *path == member.path && value.as_u64() == Some(*default))
            };
            self.add_optional_argument(argument, value.filter(|value| !is_default(value)));
        }
    }

    pub(super) fn add_image(&mut self) {
        let uri = self.unmapped.take_in("AlgorithmSpecification", "TrainingImage");
        let ask = self.plan.job.image.as_ref();
        let found = self.plan.image.as_ref();
        let resolved = found
            .filter(|image| image.sdk_v2 && uri.as_ref().and_then(Value::as_str) == Some(image.uri.as_str()));
        let mut by_version = false;
        // The SDK selects the images of SMP v2 and of Trainium by `distribution=` and `instance_type=`, which
        // a job with instance groups does not set.
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
        self.add_values("ResourceConfig.");
        let placement = self.unmapped.take_in("ResourceConfig", "InstancePlacementConfig");
        self.add_optional_argument("instance_placement_config", placement);
    }

    pub(super) fn add_metrics(&mut self) {
        if let Some(metrics) = self.unmapped.take_in("AlgorithmSpecification", "MetricDefinitions") {
            self.add_optional_argument("metric_definitions", Some(metrics));
        }
    }

    pub(super) fn add_output_and_network(&mut self) {
        self.add_values("OutputDataConfig.");
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
        self.add_values("CheckpointConfig.");
    }

    pub(super) fn add_limits(&mut self) {
        self.add_values("StoppingCondition.MaxRun");
        let spot = self.unmapped.take("EnableManagedSpotTraining");
        if spot == Some(Value::Bool(true)) {
            self.add_argument("use_spot_instances", plain("True"));
        }
        self.add_values("StoppingCondition.MaxWait");
        self.add_values("RetryStrategy.");
    }

    pub(super) fn add_switches(&mut self) {
        for path in ["Enable", "RemoteDebugConfig.", "InfraCheckConfig.", "SessionChainingConfig."] {
            self.add_values(path);
        }
    }
}
