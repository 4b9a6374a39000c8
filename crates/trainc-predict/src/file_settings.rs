//! Settings of the files of other programs that the manifest has no word for, by the rows of
//! `file_settings.toml`.

use serde::Deserialize;
use std::sync::LazyLock;
use trainc_ir::{Plan, Scalar};

/// What a key of a file decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileSize {
    /// Elements of a reduce bucket.
    Bucket,
    /// Whether buckets are reduced during the backward pass.
    Overlapped,
    /// Parameters that are gathered at a time.
    LiveParameters,
    /// Parameters within which a gathered one is kept for its next use.
    ReuseDistance,
    /// Parameters that are gathered ahead.
    PrefetchedParameters,
    /// Ranks over which a second copy of the weights is divided.
    SecondaryShard,
    /// Where offloaded states of the optimizer are.
    OptimizerDevice,
    /// Where offloaded parameters are.
    ParameterDevice,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    table: String,
    keys: Vec<String>,
    sets: FileSize,
    auto: Option<f64>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    setting: Vec<Row>,
}

fn rows() -> &'static [Row] {
    static ONCE: LazyLock<Rows> =
        LazyLock::new(|| toml::from_str(include_str!("file_settings.toml")).unwrap_or_default());
    &ONCE.setting
}

fn find(plan: &Plan, what: FileSize) -> Option<(&'static Row, &Scalar)> {
    rows().iter().filter(|row| row.sets == what).find_map(|row| {
        let files = plan.files.iter().filter(|file| file.table == row.table);
        let setting = files.flat_map(|file| &file.settings).find(|one| row.keys.contains(&one.key))?;
        Some((row, setting.value.scalar()?))
    })
}

/// Returns a number that a file of the plan sets; `auto` stands for squares of the model's width.
pub(crate) fn number(plan: &Plan, what: FileSize) -> Option<f64> {
    let (row, value) = find(plan, what)?;
    match value {
        Scalar::Int(number) => Some(*number as f64),
        Scalar::Float(number) => Some(*number),
        Scalar::Text(text) if text == "auto" => {
            let hidden = plan.model.as_ref()?.architecture.as_ref()?.hidden as f64;
            row.auto.map(|squares| (squares * hidden * hidden).floor())
        }
        Scalar::Text(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
    .filter(|number| *number >= 0.0)
}

/// Returns a switch that a file of the plan sets.
pub(crate) fn is_on(plan: &Plan, what: FileSize) -> Option<bool> {
    match find(plan, what)?.1 {
        Scalar::Bool(on) => Some(*on),
        _ => None,
    }
}

/// Returns true if a file of the plan puts these states on disks.
pub(crate) fn is_on_disk(plan: &Plan, what: FileSize) -> bool {
    matches!(find(plan, what), Some((_, Scalar::Text(device))) if device.eq_ignore_ascii_case("nvme"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_row_and_every_key_is_in_its_table() {
        use FileSize::*;
        let all = [
            Bucket,
            Overlapped,
            LiveParameters,
            ReuseDistance,
            PrefetchedParameters,
            SecondaryShard,
            OptimizerDevice,
            ParameterDevice,
        ];
        for what in all {
            assert!(rows().iter().any(|row| row.sets == what), "{what:?}");
        }
        for row in rows() {
            let table = trainc_catalog::engine_files::keys(&row.table).unwrap();
            for key in &row.keys {
                assert!(table.find(key).is_some(), "{key}");
            }
        }
    }
}
