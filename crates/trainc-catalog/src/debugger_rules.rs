//! Built-in rules of SageMaker Debugger and Profiler.

use serde::Deserialize;

use super::images;
use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("debugger-rules", include_str!("data/debugger_rules.toml"));

/// The node that a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    /// Tensors of the model.
    Debugger,
    /// Use of the hardware.
    Profiler,
}

#[derive(Clone, Deserialize)]
struct RuleRow {
    kind: RuleKind,
    parameters: Vec<String>,
    required: Vec<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// A built-in rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltInRule {
    /// Its name in the request.
    pub name: &'static str,
    /// The node that it belongs to.
    pub kind: RuleKind,
    /// Parameters that it accepts. `ProfilerReport` accepts those of the other rules, with their name in
    /// front.
    pub parameters: Vec<String>,
    /// Parameters that it requires.
    pub required: Vec<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

/// Returns a rule by its name in the request, or by the SDK's: `LossNotDecreasing`, `loss_not_decreasing`.
pub fn get(name: &str) -> Option<BuiltInRule> {
    let plain =
        |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let key = TABLE.keys().find(|key| plain(key) == plain(name))?;
    let row: RuleRow = TABLE.row(key).cloned()?;
    Some(BuiltInRule {
        name: key,
        kind: row.kind,
        parameters: row.parameters,
        required: row.required,
        provenance: row.provenance,
    })
}

/// Returns the names of the rules of a kind.
pub fn names(kind: RuleKind) -> Vec<&'static str> {
    TABLE.keys().filter(|key| get(key).is_some_and(|rule| rule.kind == kind)).collect()
}

/// Returns the image that evaluates built-in rules in a region (SDK 2.257.7,
/// `image_uri_config/debugger.json`).
pub fn image(region: &str) -> Option<String> {
    images::debugger_image(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_two_spellings() {
        assert_eq!(get("loss_not_decreasing"), get("LossNotDecreasing"));
        assert_eq!(get("LowGPUUtilization").map(|rule| rule.kind), Some(RuleKind::Profiler));
        assert_eq!(get("LossDecreasing"), None);
        for name in TABLE.keys() {
            let rule = get(name).unwrap();
            assert!(rule.required.iter().all(|name| rule.parameters.contains(name)), "{name}");
        }
        let image = image("us-west-2");
        assert_eq!(
            image.as_deref(),
            Some("895741380848.dkr.ecr.us-west-2.amazonaws.com/sagemaker-debugger-rules:latest")
        );
    }
}
