//! Usual ranges of optimizer settings.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("usual", include_str!("data/usual.toml"));

/// The usual range of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct UsualRange {
    /// The published range, inclusive.
    pub usual: (f64, f64),
    /// The range outside of which a value is probably a typo.
    pub far: (f64, f64),
    /// The source of the row.
    pub provenance: Provenance,
}

#[derive(Deserialize)]
struct UsualRow {
    optimizers: Vec<String>,
    usual: (f64, f64),
    far: (f64, f64),
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns the range of a setting for an optimizer: `get("lr", "adamw")`.
pub fn get(setting: &str, optimizer: &str) -> Option<UsualRange> {
    TABLE.keys_under(&format!("{setting}/")).find_map(|key| {
        let row: &UsualRow = TABLE.row(key)?;
        row.optimizers.iter().any(|name| name == optimizer).then(|| UsualRange {
            usual: row.usual,
            far: row.far,
            provenance: row.provenance.clone(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_optimizer_and_lie_inside_one_another() {
        assert_eq!(get("lr", "adamw").unwrap().usual, (5e-6, 1e-3));
        assert_eq!(get("lr", "sgd").unwrap().far.1, 100.0);
        assert!(get("lr", "none").is_none() && get("warmup", "adamw").is_none());
        for key in TABLE.keys() {
            let row: &UsualRow = TABLE.row(key).unwrap();
            assert!(
                row.far.0 <= row.usual.0 && row.usual.0 < row.usual.1 && row.usual.1 <= row.far.1,
                "{key}"
            );
        }
    }
}
