//! The model of a plan: which one, how large, and what of it is trained.

use super::architecture::{Architecture, Class, Details};
use super::origin::Val;

/// What is known of the model. What only the architecture tells is `None` when the size alone was given.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// As written, or the catalogue's full name.
    pub name: String,
    /// The architecture with its dimensions.
    pub architecture: Option<Architecture>,
    /// Which head is counted.
    pub class: Option<Class>,
    /// All parameters.
    pub parameters: Val<u64>,
    /// Those that are trained: all, or the adapter's.
    pub trainable: Option<Val<u64>>,
    /// What its arithmetic needs beside the dimensions.
    pub details: Details,
    /// Defaults that the dimensions took: name, value, rule.
    pub defaulted: Vec<(String, String, String)>,
}
