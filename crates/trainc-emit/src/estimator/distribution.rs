//! The argument `distribution=`, from which the SDK derives the hyperparameters of the launcher.
//!
//! The derived keys are compared with those of the request; if they differ, the script sets the
//! hyperparameters directly, which the SDK passes through (2.257.7, captured).

use super::class::EstimatorClass;
use super::expression::Expression;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainc_ir::{Launcher, Plan};

/// The hyperparameters of launchers.
const KEYS: &[&str] = &[
    "mp_parameters",
    "sagemaker_distributed_dataparallel_custom_mpi_options",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_distribution_instance_groups",
    "sagemaker_instance_type",
    "sagemaker_mpi_custom_mpi_options",
    "sagemaker_mpi_enabled",
    "sagemaker_mpi_num_of_processes_per_host",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_torch_distributed_enabled",
];

/// Returns whether a hyperparameter belongs to a launcher.
pub(super) fn is_launcher_hyperparameter(key: &str) -> bool {
    KEYS.contains(&key)
}

/// Returns the argument; `None` if the script must set the hyperparameters directly.
pub(super) fn distribution(
    plan: &Plan,
    class: EstimatorClass,
    sent: &Map<String, Value>,
) -> Option<Expression> {
    if class == EstimatorClass::Estimator
        || plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.groups.is_empty())
    {
        return None;
    }
    let wanted: BTreeMap<&str, Value> = sent
        .iter()
        .filter(|(key, _)| is_launcher_hyperparameter(key))
        .filter_map(|(key, value)| Some((key.as_str(), serde_json::from_str(value.as_str()?).ok()?)))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let argument = DistributionArgument::new(plan, &wanted)?;
    (argument.launcher_hyperparameters(class) == wanted && argument.is_accepted(plan))
        .then(|| argument.expression())
}

/// The content of the argument.
struct DistributionArgument {
    launcher: Launcher,
    instance: Value,
    processes: Option<Value>,
    options: Value,
    parameters: Value,
    /// The parameters in the order of the request's text.
    order: Vec<&'static str>,
}

impl DistributionArgument {
    fn new(plan: &Plan, wanted: &BTreeMap<&str, Value>) -> Option<Self> {
        let launcher = plan.launch.launcher;
        if launcher == Launcher::Plain {
            return None;
        }
        let of = |key: &str| wanted.get(key).cloned();
        let options = of("sagemaker_mpi_custom_mpi_options")
            .or_else(|| of("sagemaker_distributed_dataparallel_custom_mpi_options"))
            .unwrap_or_else(|| Value::from(""));
        Some(Self {
            launcher,
            instance: of("sagemaker_instance_type").unwrap_or(Value::Null),
            processes: of("sagemaker_mpi_num_of_processes_per_host"),
            options,
            parameters: of("mp_parameters").unwrap_or(Value::Null),
            order: plan.launch.parameters.iter().map(|(name, _)| *name).collect(),
        })
    }

    /// Returns the hyperparameters that the SDK derives from it.
    fn launcher_hyperparameters(&self, class: EstimatorClass) -> BTreeMap<&'static str, Value> {
        let mut out = BTreeMap::new();
        let mut put = |key: &'static str, value: Value| out.insert(key, value);
        let mpi = |put: &mut dyn FnMut(&'static str, Value) -> Option<Value>| {
            put("sagemaker_mpi_enabled", Value::from(true));
            put("sagemaker_mpi_custom_mpi_options", self.options.clone());
            if let Some(processes) = &self.processes {
                put("sagemaker_mpi_num_of_processes_per_host", processes.clone());
            }
        };
        match self.launcher {
            Launcher::Torchrun => {
                put("sagemaker_torch_distributed_enabled", Value::from(true));
                put("sagemaker_instance_type", self.instance.clone());
            }
            Launcher::PytorchDdp if class == EstimatorClass::HuggingFace => {
                put("sagemaker_pytorch_ddp_enabled", Value::from(true));
                put("sagemaker_instance_type", self.instance.clone());
            }
            Launcher::PytorchDdp | Launcher::Smddp => {
                put("sagemaker_distributed_dataparallel_enabled", Value::from(true));
                put("sagemaker_distributed_dataparallel_custom_mpi_options", self.options.clone());
                put("sagemaker_instance_type", self.instance.clone());
            }
            Launcher::Mpi => mpi(&mut put),
            Launcher::SmpV1 | Launcher::SmpV2 => {
                if self.launcher == Launcher::SmpV1 {
                    mpi(&mut put);
                } else {
                    put("sagemaker_torch_distributed_enabled", Value::from(true));
                }
                put("sagemaker_distributed_dataparallel_enabled", Value::from(false));
                put("sagemaker_instance_type", self.instance.clone());
                // Empty parameters are omitted.
                if self.parameters.as_object().is_some_and(|parameters| !parameters.is_empty()) {
                    put("mp_parameters", self.parameters.clone());
                }
            }
            Launcher::ParameterServer => {
                put("sagemaker_parameter_server_enabled", Value::from(true));
            }
            Launcher::MultiWorkerMirrored => {
                put("sagemaker_multi_worker_mirrored_strategy_enabled", Value::from(true));
            }
            Launcher::Plain | Launcher::LaunchScript | Launcher::Accelerate => {}
        }
        out
    }

    /// Returns whether the SDK accepts it; it rejects some values that the service and the container accept.
    fn is_accepted(&self, plan: &Plan) -> bool {
        let instance = self.instance.as_str().unwrap_or("");
        match self.launcher {
            // Under torchrun only Python programs are accepted.
            Launcher::Torchrun | Launcher::SmpV2 => {
                std::path::Path::new(plan.payload.program.as_deref().unwrap_or_default())
                    .extension()
                    .is_some_and(|extension| extension == "py")
            }
            // The SDK's check of `parameters` does not know the eight permutations.
            Launcher::SmpV1 => {
                let placement = self.parameters.get("placement_strategy").and_then(Value::as_str);
                placement.is_none_or(|word| matches!(word, "cluster" | "spread"))
                    && !instance.contains("p5.48xlarge")
            }
            Launcher::Smddp => !instance.contains("p5.48xlarge"),
            Launcher::PytorchDdp => self.options.as_str() == Some("") && !instance.contains("p5.48xlarge"),
            Launcher::Mpi
            | Launcher::ParameterServer
            | Launcher::MultiWorkerMirrored
            | Launcher::Plain
            | Launcher::LaunchScript
            | Launcher::Accelerate => true,
        }
    }

    fn expression(&self) -> Expression {
        let one = |key: &str, value: Expression| (key.to_owned(), value);
        let on = || one("enabled", Expression::Plain("True".to_owned()));
        let options = || {
            (self.options.as_str() != Some(""))
                .then(|| one("custom_mpi_options", Expression::json(&self.options)))
        };
        let mpi = || {
            let processes = self.processes.as_ref().map(|n| one("processes_per_host", Expression::json(n)));
            one("mpi", Expression::Dict([Some(on()), processes, options()].into_iter().flatten().collect()))
        };
        let torchrun = || one("torch_distributed", Expression::Dict(vec![on()]));
        let smp = || {
            let parameters = self
                .order
                .iter()
                .filter_map(|name| Some(one(name, Expression::json(self.parameters.get(*name)?))));
            let parameters = one("parameters", Expression::Dict(parameters.collect()));
            one(
                "smdistributed",
                Expression::Dict(vec![one("modelparallel", Expression::Dict(vec![on(), parameters]))]),
            )
        };
        Expression::Dict(match self.launcher {
            Launcher::Torchrun => vec![torchrun()],
            Launcher::PytorchDdp => vec![one("pytorchddp", Expression::Dict(vec![on()]))],
            Launcher::Mpi => vec![mpi()],
            Launcher::Smddp => {
                let inner = Expression::Dict([Some(on()), options()].into_iter().flatten().collect());
                vec![one("smdistributed", Expression::Dict(vec![one("dataparallel", inner)]))]
            }
            Launcher::SmpV1 => vec![smp(), mpi()],
            Launcher::SmpV2 => vec![torchrun(), smp()],
            Launcher::ParameterServer => vec![one("parameter_server", Expression::Dict(vec![on()]))],
            Launcher::MultiWorkerMirrored => {
                vec![one("multi_worker_mirrored_strategy", Expression::Dict(vec![on()]))]
            }
            Launcher::Plain | Launcher::LaunchScript | Launcher::Accelerate => Vec::new(),
        })
    }
}
