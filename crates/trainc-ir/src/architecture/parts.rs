//! The parts of a model by name, with their parameters.

use super::kinds::Class;
use super::modules::{Module, ModulePlace, ModuleRole};
use super::{Architecture, UncountedPart};

/// A part of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPart {
    /// `experts`, `vision tower`, `multi-token prediction`.
    pub name: &'static str,
    /// Its parameters, or numbers of a buffer.
    pub parameters: u64,
    /// Whether the class of transformers has it as parameters: the counted parts sum to all parameters.
    pub counted: bool,
    /// Why it is not counted; for a counted part empty.
    pub reason: &'static str,
}

/// Names of the parts outside of towers, in the order of a forward pass.
const NAMES: [&str; 8] =
    ["embedding", "attention and mixers", "feed-forward", "routers", "experts", "norms", "other", "head"];

fn name_of(module: &Module) -> &'static str {
    match (module.place, module.role) {
        (ModulePlace::Embedding, ModuleRole::Lookup) => "embedding",
        (ModulePlace::Head, _) => "head",
        (_, ModuleRole::Attention | ModuleRole::CrossMemory) => "attention and mixers",
        (_, ModuleRole::Mlp) => "feed-forward",
        (_, ModuleRole::Expert) => "experts",
        (_, ModuleRole::Router) => "routers",
        (_, ModuleRole::Norm) => "norms",
        (_, ModuleRole::Lookup | ModuleRole::Vector | ModuleRole::Output | ModuleRole::Pooled) => "other",
    }
}

impl Architecture {
    /// Returns the parts of the model with this head, and what files of the model hold in addition.
    pub fn parts(&self, class: Class) -> Vec<ModelPart> {
        let modules = self.modules(class).unwrap_or_default();
        let counted = |name: &'static str, sum: u128| {
            let parameters = u64::try_from(sum).unwrap_or(u64::MAX);
            (parameters > 0).then_some(ModelPart { name, parameters, counted: true, reason: "" })
        };
        let sum = |modules: &mut dyn Iterator<Item = &Module>| {
            modules.map(Module::all_parameters).fold(0_u128, u128::saturating_add)
        };
        let has_towers = modules.iter().any(|module| module.place == ModulePlace::Tower);
        let mut parts: Vec<ModelPart> = self
            .towers
            .iter()
            .filter(|_| has_towers)
            .filter_map(|tower| counted(tower.name, sum(&mut tower.modules.iter())))
            .collect();
        parts.extend(NAMES.into_iter().filter_map(|name| {
            let own = |module: &&Module| module.place != ModulePlace::Tower && name_of(module) == name;
            counted(name, sum(&mut modules.iter().filter(own)))
        }));
        parts.extend(self.uncounted.iter().map(|UncountedPart { name, parameters, reason }| ModelPart {
            name,
            parameters: *parameters,
            counted: false,
            reason,
        }));
        parts
    }
}
