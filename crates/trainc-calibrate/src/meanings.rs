//! Terms that sources of runs use with different meanings, from `meanings.toml`.

use super::run_row::RunRow;
use serde::Deserialize;
use std::sync::LazyLock;
use trainc_predict::Recompute;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meanings {
    selective: Vec<Selective>,
    interleaved: Vec<Interleaved>,
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

/// Default number of stages per GPU of a framework's interleaved schedule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Interleaved {
    framework: String,
    stages: f64,
    #[serde(rename = "source")]
    _source: String,
}

/// A card that differs from the row of its kind in the catalogue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Card {
    name: String,
    pub(super) memory_bytes_per_second: f64,
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

    /// Returns the items of the notes, in lower case. Three properties without a column are read from them:
    /// compilation, interleaving of the pipeline, and EFA.
    fn notes(&self) -> Vec<String> {
        let notes = self.text("notes").to_ascii_lowercase();
        notes.split([';', ',', '+']).map(|item| item.trim().to_owned()).collect()
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

    /// Returns true if an item of the notes is `EFA` or ends with it, as `4x p5.48xlarge on AWS with EFA`.
    pub(super) fn has_efa(&self) -> bool {
        let is_efa = |item: &String| item == "efa" || item.ends_with(" with efa");
        self.notes().iter().any(is_efa)
    }

    /// Returns true if a compiler fused the operations, by the names of engine and framework or by an item of the
    /// notes.
    pub(super) fn is_compiled(&self) -> bool {
        let names = self.framework_and_engine();
        ["compile", "fms-fsdp", "transformer kernel"].iter().any(|word| names.contains(word))
            || self.notes().iter().any(|item| matches!(item.as_str(), "compile" | "torch.compile"))
    }

    /// Returns the number of stages per GPU of a pipeline.
    pub(super) fn virtual_stages(&self) -> f64 {
        let names = self.framework_and_engine();
        let default = || meanings().interleaved.iter().find(|row| names.contains(&row.framework));
        let stages = self.notes().iter().find_map(|item| match item.strip_prefix("interleave ") {
            Some(number) => number.parse::<f64>().ok(),
            None if item == "interleaved 1f1b" => default().map(|row| row.stages),
            None => None,
        });
        stages.filter(|stages| stages.is_finite() && *stages >= 1.0).unwrap_or(1.0)
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
        assert_eq!(card("H100-96GB-HBM2e").map(|card| card.memory_bytes_per_second), Some(2.4e12));
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
    fn efa_is_an_item_of_the_notes() {
        let of = |notes| row(&[("framework", "torchtitan"), ("notes", notes)]).has_efa();
        assert!(of("EFA") && of("4x p5.48xlarge on AWS with EFA; log line"));
        assert!(!of("") && !of("no EFA") && !of("InfiniBand; EFAX"));
    }

    #[test]
    fn a_compiler_is_an_item_of_the_notes() {
        let of =
            |notes| row(&[("framework", "torchtitan"), ("engine", "FSDP2"), ("notes", notes)]).is_compiled();
        assert!(of("500 W power limit; compile; per-op"));
        assert!(of("1F1B; compile+float8+asyncTP"));
        assert!(of("vanilla TP bf16; torch.compile; seq 8192"));
        for without in ["", "eager", "without torch.compile", "compile time not counted", "no compile"] {
            assert!(!of(without), "{without}");
        }
        assert!(row(&[("engine", "FSDP2 + compile")]).is_compiled());
    }

    #[test]
    fn a_pipeline_s_stages_are_an_item_of_the_notes() {
        let of = |framework, notes| row(&[("framework", framework), ("notes", notes)]).virtual_stages();
        for (framework, notes, stages) in [
            ("Megatron-LM", "interleave 3; sequence parallel with selective", 3.0),
            ("Megatron-LM", "interleave 1; V=51200", 1.0),
            ("torchtitan", "500 W; interleaved 1F1B; compile+float8+asyncTP", 2.0),
            ("torchtitan", "1F1B; compile+float8+asyncTP", 1.0),
            // Unknown schedules count as one stage.
            ("other", "interleaved 1F1B", 1.0),
            ("other", "interleave NaN", 1.0),
        ] {
            assert!((of(framework, notes) - stages).abs() < 1e-12, "{notes}");
        }
    }
}
