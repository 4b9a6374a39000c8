//! The model of a plan.

use super::architecture::{Architecture, Class, Details};
use super::origin::Val;

/// Facts of the model. Those that require the architecture are `None` when only the size is known.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// As written, or the catalogue's full name.
    pub name: String,
    /// The architecture with its dimensions.
    pub architecture: Option<Architecture>,
    /// The class, which determines the head that is counted.
    pub class: Option<Class>,
    /// All parameters.
    pub parameters: Val<u64>,
    /// Trained parameters: all, or those of the adapter.
    pub trainable: Option<Val<u64>>,
    /// Facts that the arithmetic requires in addition to the dimensions.
    pub details: Details,
    /// Dimensions set by default: name, value, rule.
    pub defaulted: Vec<(String, String, String)>,
}
