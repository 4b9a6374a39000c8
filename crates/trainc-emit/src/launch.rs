//! The hyperparameters of the launcher, as the SageMaker SDK v2 sends them.

use super::python::{json_object, json_text};
use trainc_ir::digest::python_float;
use trainc_ir::{Launch, Launcher, Scalar};

/// Returns the hyperparameters of the launcher, in the encoding of the SDK.
pub(super) fn hyperparameters(launch: &Launch) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: &str| out.push((key.to_owned(), value.to_owned()));
    match launch.launcher {
        Launcher::Plain => {}
        Launcher::Torchrun | Launcher::SmpV2 => put("sagemaker_torch_distributed_enabled", "true"),
        Launcher::PytorchDdp if !launch.is_rewritten_to_smddp => put("sagemaker_pytorch_ddp_enabled", "true"),
        Launcher::PytorchDdp | Launcher::Smddp => {
            put("sagemaker_distributed_dataparallel_enabled", "true");
            put("sagemaker_distributed_dataparallel_custom_mpi_options", &json_text(&launch.mpi_options));
        }
        Launcher::Mpi | Launcher::SmpV1 => {
            put("sagemaker_mpi_enabled", "true");
            if let Some(processes) = launch.processes_per_host {
                put("sagemaker_mpi_num_of_processes_per_host", &processes.to_string());
            }
            put("sagemaker_mpi_custom_mpi_options", &json_text(&launch.mpi_options));
        }
    }
    if matches!(launch.launcher, Launcher::SmpV1 | Launcher::SmpV2) {
        put("sagemaker_distributed_dataparallel_enabled", "false");
        put("mp_parameters", &json_object(&launch.smp_parameters));
    }
    if let Some(instance) = &launch.instance {
        put("sagemaker_instance_type", &json_text(instance));
    }
    if let Some(group) = &launch.group {
        put("sagemaker_distribution_instance_groups", &serde_json::json!([group]).to_string());
    }
    out
}

/// Returns the argument that the toolkit passes to the script: `str()` of the decoded value.
pub fn python_str(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => python_float(*x),
        Scalar::Bool(true) => "True".to_owned(),
        Scalar::Bool(false) => "False".to_owned(),
        Scalar::Null => "None".to_owned(),
    }
}
