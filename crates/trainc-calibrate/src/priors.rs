//! Prior knowledge of each constant, from `priors.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Prior of a constant.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub(super) struct Prior {
    /// Likely value.
    pub(super) value: f64,
    /// Physical lower bound.
    pub(super) low: f64,
    /// Physical upper bound.
    pub(super) high: f64,
    /// Spread, a natural logarithm.
    pub(super) spread: f64,
    /// Range given by its source, if the bounds are wider.
    #[serde(default)]
    pub(super) usual: Option<[f64; 2]>,
    /// Reason why the fitted value is outside that range.
    #[serde(default)]
    pub(super) outside: Option<String>,
    /// Source of bounds and value.
    pub(super) source: String,
    /// Families of runs that the value was derived from.
    #[serde(default)]
    pub(super) of: Vec<String>,
    /// Prior without those families.
    #[serde(default)]
    pub(super) withheld: Option<Withheld>,
}

/// Prior of a constant without the runs that its value was derived from.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Withheld {
    /// Likely value.
    pub(super) value: f64,
    /// Source.
    pub(super) source: String,
}

impl Prior {
    /// Returns the likely value without the runs of a family.
    pub(super) fn value_without_family(&self, family: Option<&str>) -> f64 {
        let is_derived = family.is_some_and(|family| self.of.iter().any(|of| of == family));
        self.withheld.as_ref().filter(|_| is_derived).map_or(self.value, |withheld| withheld.value)
    }
}

/// Returns the priors by the names of their constants.
pub(super) fn priors() -> &'static BTreeMap<String, Prior> {
    static ONCE: LazyLock<BTreeMap<String, Prior>> = LazyLock::new(|| {
        toml::from_str::<BTreeMap<String, Prior>>(include_str!("priors.toml")).unwrap_or_default()
    });
    &ONCE
}
