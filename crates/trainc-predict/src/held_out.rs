//! Errors of the cost model on sources that were left out of its fit.

use super::layout::Layout;
use serde::Deserialize;
use std::sync::LazyLock;

/// Errors by kind of model.
#[derive(Deserialize)]
struct HeldOutErrors {
    experts: HeldOutError,
}

/// Error on the sources of one kind of model.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct HeldOutError {
    /// Mean absolute error of the step time, a fraction.
    pub mean_error: f64,
    /// Families of runs that were left out, one at a time.
    pub sources: Vec<String>,
    /// Date of the fit.
    pub date: String,
}

/// Mean error from which on predictions do not order the layouts of a model, a fraction (assumed: the layouts
/// worth comparing differ by less).
const UNRELIABLE: f64 = 0.2;

/// Returns the error on sources left out, if it is so large that the predicted order of a model's layouts is
/// not reliable.
pub fn unreliable_order(layout: &Layout) -> Option<&'static HeldOutError> {
    errors_of_experts().filter(|error| layout.model.experts > 0.0 && error.mean_error > UNRELIABLE)
}

/// Returns the error of models with experts on sources left out.
pub fn errors_of_experts() -> Option<&'static HeldOutError> {
    static ERRORS: LazyLock<Option<HeldOutErrors>> =
        LazyLock::new(|| toml::from_str(include_str!("held_out.toml")).ok());
    ERRORS.as_ref().map(|errors| &errors.experts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::one_gpu;
    use trainc_ir::architecture::{Architecture, Dimensions, Family};

    #[test]
    fn the_order_of_dense_layouts_is_reliable() {
        let dimensions =
            Dimensions { hidden: Some(1_024), layers: Some(4), heads: Some(16), ..Dimensions::default() };
        let architecture = Architecture::from_dimensions(Family::GPT2, &dimensions);
        let model =
            architecture.map(|(a, _)| crate::Model::from_architecture(&a, a.default_class())).unwrap();
        let dense = one_gpu(model);
        assert_eq!(unreliable_order(&dense), None);
        let mut experts = dense;
        experts.model.experts = 8.0;
        let error = unreliable_order(&experts).unwrap();
        assert!((0.2..1.0).contains(&error.mean_error) && !error.sources.is_empty(), "{error:?}");
    }
}
