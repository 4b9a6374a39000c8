//! Terms that sources of runs use with different meanings, from `meanings.toml`.

use super::run_row::RunRow;
use serde::Deserialize;
use std::sync::LazyLock;
use trainc_predict::Recompute;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meanings {
    selective: Vec<Selective>,
    card: Vec<Card>,
}

/// Recomputation that a framework calls `selective`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Selective {
    /// A substring of its name; empty matches every name.
    framework: String,
    means: Means,
    /// Share of the blocks.
    share: Option<f64>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Means {
    AttentionCore,
    Operations,
    Blocks,
}

/// A card that differs from the row of its kind in the catalogue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Card {
    name: String,
    #[serde(default)]
    pub(super) memory_bytes_per_second: Option<f64>,
    /// GPUs that NVLink connects, if they are those of several nodes.
    #[serde(default)]
    pub(super) nvlink_gpus: Option<f64>,
    /// Dense 16-bit FLOP/s.
    pub(super) peak_flops: Option<f64>,
    #[serde(rename = "source")]
    _source: String,
}

fn meanings() -> &'static Meanings {
    static ONCE: LazyLock<Meanings> =
        LazyLock::new(|| toml::from_str(include_str!("meanings.toml")).unwrap_or_default());
    &ONCE
}

/// Returns the card of that name, if it differs from the others of its kind.
pub(super) fn card(name: &str) -> Option<&'static Card> {
    meanings().card.iter().find(|row| row.name == name)
}

impl RunRow<'_> {
    /// Returns framework and engine, in lower case.
    fn framework_and_engine(&self) -> String {
        format!("{} {}", self.text("framework"), self.text("engine")).to_ascii_lowercase()
    }

    /// Returns the recomputation that the row's framework calls `selective`.
    pub(super) fn selective_recompute(&self) -> Recompute {
        let names = self.framework_and_engine();
        let row = meanings().selective.iter().find(|row| names.contains(&row.framework));
        match row.map(|row| (row.means, row.share)) {
            Some((Means::Operations, _)) => Recompute::Operations,
            Some((Means::Blocks, Some(share))) => Recompute::Share(share),
            _ => Recompute::Selective,
        }
    }

    /// Returns true if the nodes communicate over EFA.
    pub(super) fn has_efa(&self) -> bool {
        self.text("fabric") == "efa"
    }

    /// Returns true if a compiler fused the operations, by the column `compiled`, or else by the names of
    /// engine and framework.
    pub(super) fn is_compiled(&self) -> bool {
        let names = self.framework_and_engine();
        match self.text("compiled") {
            "" => ["compile", "fms-fsdp", "transformer kernel"].iter().any(|word| names.contains(word)),
            cell => cell == "1",
        }
    }

    /// Returns the number of stages per GPU of a pipeline.
    pub(super) fn virtual_stages(&self) -> f64 {
        self.number("virtual_stages").filter(|stages| *stages >= 1.0).unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(cells: &[(&'a str, &'a str)]) -> RunRow<'a> {
        RunRow::new(cells.iter().copied().collect())
    }

    #[test]
    fn the_table_is_read() {
        assert_eq!(meanings().selective.len(), 3);
        assert_eq!(card("H100-96GB-HBM2e").map(|card| card.memory_bytes_per_second), Some(Some(2.4e12)));
        assert!(card("H100-80GB").is_none());
    }

    #[test]
    fn selective_depends_on_the_framework() {
        let of =
            |framework, engine| row(&[("framework", framework), ("engine", engine)]).selective_recompute();
        assert_eq!(of("torchtitan", "FSDP2"), Recompute::Operations);
        assert_eq!(of("fms-fsdp", "HSDP"), Recompute::Share(0.5));
        assert_eq!(of("Megatron-LM", "Megatron TP+PP+SP"), Recompute::Selective);
        assert_eq!(of("", "FSDP"), Recompute::Selective);
    }

    #[test]
    fn efa_compilation_and_stages_are_columns() {
        assert!(row(&[("fabric", "efa")]).has_efa());
        assert!(!row(&[("fabric", "infiniband"), ("notes", "EFA")]).has_efa());
        let compiled = |cells: &[(&'static str, &'static str)]| row(cells).is_compiled();
        assert!(compiled(&[("compiled", "1")]) && compiled(&[("engine", "FSDP2 + compile")]));
        assert!(compiled(&[("framework", "fms-fsdp")]));
        assert!(!compiled(&[("framework", "fms-fsdp"), ("compiled", "0")]));
        assert!(!compiled(&[("notes", "compile")]), "notes are not read");
        for (cell, stages) in [("3", 3.0), ("1", 1.0), ("", 1.0), ("0", 1.0), ("x", 1.0)] {
            let row = row(&[("virtual_stages", cell), ("notes", "interleave 7")]);
            assert!((row.virtual_stages() - stages).abs() < 1e-12, "{cell}");
        }
    }
}
