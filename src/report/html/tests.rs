//! Pages of whole plans.
