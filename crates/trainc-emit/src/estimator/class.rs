//! The estimator class of the SDK, and the imports of the script.

use std::collections::BTreeMap;
use trainc_ir::Plan;

/// The estimator classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EstimatorClass {
    PyTorch,
    HuggingFace,
    Estimator,
}

impl EstimatorClass {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PyTorch => "PyTorch",
            Self::HuggingFace => "HuggingFace",
            Self::Estimator => "Estimator",
        }
    }

    pub(super) fn module(self) -> &'static str {
        match self {
            Self::PyTorch => "sagemaker.pytorch",
            Self::HuggingFace => "sagemaker.huggingface",
            Self::Estimator => "sagemaker.estimator",
        }
    }

    pub(super) fn for_plan(plan: &Plan) -> Self {
        let script = plan.payload.toolkit_program().is_some();
        match plan.image.as_ref().map(|image| image.family.as_str()) {
            Some("pytorch" | "smp") if script => Self::PyTorch,
            Some("huggingface") if script => Self::HuggingFace,
            _ => Self::Estimator,
        }
    }
}

/// The imports of the script, by module.
#[derive(Default)]
pub(super) struct Modules(BTreeMap<&'static str, Vec<&'static str>>);

impl Modules {
    pub(super) fn add(&mut self, module: &'static str, name: &'static str) {
        let names = self.0.entry(module).or_default();
        if !names.contains(&name) {
            names.push(name);
            names.sort_unstable();
        }
    }

    pub(super) fn import_lines(&self) -> Vec<String> {
        self.0.iter().map(|(module, names)| format!("from {module} import {}", names.join(", "))).collect()
    }
}
