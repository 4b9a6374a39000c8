//! `distribution=`: the words by which the SDK's classes make the launcher's keys.
//!
//! Each form is held against the keys that the request has; where the SDK would send others, or none, the keys go
//! by hand into the hyperparameters, which the SDK lets through (2.257.7, captured).

use super::class::Class;
use super::code::Code;
use crate::launch::{self, Launcher};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainc_ir::Plan;

/// The keys that a launcher reads.
const KEYS: &[&str] = &[
    "mp_parameters",
    "sagemaker_distributed_dataparallel_custom_mpi_options",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_distribution_instance_groups",
    "sagemaker_instance_type",
    "sagemaker_mpi_custom_mpi_options",
    "sagemaker_mpi_enabled",
    "sagemaker_mpi_num_of_processes_per_host",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_torch_distributed_enabled",
];

/// Whether a hyperparameter belongs to a launcher.
pub(super) fn is_launcher_key(key: &str) -> bool {
    KEYS.contains(&key)
}

/// The argument, or `None` where the keys must go by hand.
pub(super) fn distribution(plan: &Plan, class: Class, sent: &Map<String, Value>) -> Option<Code> {
    if class == Class::Estimator
        || plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.groups.is_empty())
    {
        return None;
    }
    let wanted: BTreeMap<&str, Value> = sent
        .iter()
        .filter(|(key, _)| is_launcher_key(key))
        .filter_map(|(key, value)| Some((key.as_str(), serde_json::from_str(value.as_str()?).ok()?)))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let said = Said::from(plan, &wanted)?;
    (said.keys(class) == wanted && said.is_taken(plan)).then(|| said.code())
}

/// What the argument says.
struct Said {
    launcher: Launcher,
    instance: Value,
    processes: Option<Value>,
    options: Value,
    parameters: Value,
    /// The parameters in the order of the request's text.
    order: Vec<&'static str>,
}

impl Said {
    fn from(plan: &Plan, wanted: &BTreeMap<&str, Value>) -> Option<Self> {
        let launcher = launch::launcher(plan);
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
            order: launch::smp_parameters(plan).into_iter().map(|(name, _)| name).collect(),
        })
    }

    /// The keys that the SDK makes of it.
    fn keys(&self, class: Class) -> BTreeMap<&'static str, Value> {
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
            Launcher::PytorchDdp if class == Class::HuggingFace => {
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
                // An empty object of parameters is left out.
                if self.parameters.as_object().is_some_and(|parameters| !parameters.is_empty()) {
                    put("mp_parameters", self.parameters.clone());
                }
            }
            Launcher::Plain => {}
        }
        out
    }

    /// What the SDK would refuse though the service and the container take it.
    fn is_taken(&self, plan: &Plan) -> bool {
        let instance = self.instance.as_str().unwrap_or("");
        match self.launcher {
            // Anything but a Python program is refused under torchrun.
            Launcher::Torchrun | Launcher::SmpV2 => std::path::Path::new(&crate::names::program(plan))
                .extension()
                .is_some_and(|extension| extension == "py"),
            // The eight permutations are newer than the SDK's check of `parameters`.
            Launcher::SmpV1 => {
                let placement = self.parameters.get("placement_strategy").and_then(Value::as_str);
                placement.is_none_or(|word| matches!(word, "cluster" | "spread"))
                    && !instance.contains("p5.48xlarge")
            }
            Launcher::Smddp => !instance.contains("p5.48xlarge"),
            Launcher::PytorchDdp => self.options.as_str() == Some("") && !instance.contains("p5.48xlarge"),
            Launcher::Mpi | Launcher::Plain => true,
        }
    }

    fn code(&self) -> Code {
        let one = |key: &str, value: Code| (key.to_owned(), value);
        let on = || one("enabled", Code::Plain("True".to_owned()));
        let options = || {
            (self.options.as_str() != Some("")).then(|| one("custom_mpi_options", Code::json(&self.options)))
        };
        let mpi = || {
            let processes = self.processes.as_ref().map(|n| one("processes_per_host", Code::json(n)));
            one("mpi", Code::Dict([Some(on()), processes, options()].into_iter().flatten().collect()))
        };
        let torchrun = || one("torch_distributed", Code::Dict(vec![on()]));
        let smp = || {
            let parameters =
                self.order.iter().filter_map(|name| Some(one(name, Code::json(self.parameters.get(*name)?))));
            let parameters = one("parameters", Code::Dict(parameters.collect()));
            one("smdistributed", Code::Dict(vec![one("modelparallel", Code::Dict(vec![on(), parameters]))]))
        };
        Code::Dict(match self.launcher {
            Launcher::Torchrun => vec![torchrun()],
            Launcher::PytorchDdp => vec![one("pytorchddp", Code::Dict(vec![on()]))],
            Launcher::Mpi => vec![mpi()],
            Launcher::Smddp => {
                let inner = Code::Dict([Some(on()), options()].into_iter().flatten().collect());
                vec![one("smdistributed", Code::Dict(vec![one("dataparallel", inner)]))]
            }
            Launcher::SmpV1 => vec![smp(), mpi()],
            Launcher::SmpV2 => vec![torchrun(), smp()],
            Launcher::Plain => Vec::new(),
        })
    }
}
