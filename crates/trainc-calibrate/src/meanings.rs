//! What the words of a table of runs mean where sources differ: one table, `meanings.toml`, with where each was read.

use super::row::Row;
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

/// What a framework does again under the name `selective`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Selective {
    /// A word of its name; every name has the empty one.
    framework: String,
    means: Means,
    /// Of the blocks.
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

/// Stages of a GPU that a framework's interleaved schedule has where nothing is said.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Interleaved {
    framework: String,
    stages: f64,
    #[serde(rename = "source")]
    _source: String,
}

/// A card that its kind's row of the catalogue does not describe.
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

/// A card whose name tells it from the others of its kind.
pub(super) fn card(name: &str) -> Option<&'static Card> {
    meanings().card.iter().find(|row| row.name == name)
}

impl Row<'_> {
    /// Engine and framework, in lower case.
    fn names(&self) -> String {
        format!("{} {}", self.text("framework"), self.text("engine")).to_ascii_lowercase()
    }

    /// The items of the notes, in lower case. Three things are read of them, for which no column has a place: whether a
    /// compiler ran, how a pipeline was interleaved, and whether nodes talk over EFA.
    fn noted(&self) -> Vec<String> {
        let notes = self.text("notes").to_ascii_lowercase();
        notes.split([';', ',', '+']).map(|item| item.trim().to_owned()).collect()
    }

    /// What the row's framework does again under the name `selective`.
    pub(super) fn selective(&self) -> Recompute {
        let names = self.names();
        let row = meanings().selective.iter().find(|row| names.contains(&row.framework));
        match row.map(|row| (row.means, row.share)) {
            Some((Means::Operations, _)) => Recompute::Operations,
            Some((Means::Blocks, Some(share))) => Recompute::Share(share),
            _ => Recompute::Selective,
        }
    }

    /// Whether nodes talk over EFA: the last word of an item of the notes, `EFA` or `4x p5.48xlarge on AWS with EFA`.
    pub(super) fn over_efa(&self) -> bool {
        let is_efa = |item: &String| item == "efa" || item.ends_with(" with efa");
        self.noted().iter().any(is_efa)
    }

    /// Whether a compiler fused the layers' operations, by the names of engine and framework or by an item of the notes.
    pub(super) fn compiled(&self) -> bool {
        let names = self.names();
        ["compile", "fms-fsdp", "transformer kernel"].iter().any(|word| names.contains(word))
            || self.noted().iter().any(|item| matches!(item.as_str(), "compile" | "torch.compile"))
    }

    /// Stages that each GPU of a pipeline has.
    pub(super) fn virtual_stages(&self) -> f64 {
        let names = self.names();
        let known = || meanings().interleaved.iter().find(|row| names.contains(&row.framework));
        let stages = self.noted().iter().find_map(|item| match item.strip_prefix("interleave ") {
            Some(number) => number.parse::<f64>().ok(),
            None if item == "interleaved 1f1b" => known().map(|row| row.stages),
            None => None,
        });
        stages.filter(|stages| stages.is_finite() && *stages >= 1.0).unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(cells: &[(&'a str, &'a str)]) -> Row<'a> {
        Row::new(cells.iter().copied().collect())
    }

    #[test]
    fn the_table_is_read() {
        assert_eq!(meanings().selective.len(), 3);
        assert_eq!(card("H100-96GB-HBM2e").map(|card| card.memory_bytes_per_second), Some(2.4e12));
        assert!(card("H100-80GB").is_none());
    }

    #[test]
    fn selective_is_what_the_framework_means_by_it() {
        let of = |framework, engine| row(&[("framework", framework), ("engine", engine)]).selective();
        assert_eq!(of("torchtitan", "FSDP2"), Recompute::Operations);
        assert_eq!(of("fms-fsdp", "HSDP"), Recompute::Share(0.5));
        assert_eq!(of("Megatron-LM", "Megatron TP+PP+SP"), Recompute::Selective);
        assert_eq!(of("", "FSDP"), Recompute::Selective);
    }

    #[test]
    fn efa_is_an_item_of_the_notes() {
        let of = |notes| row(&[("framework", "torchtitan"), ("notes", notes)]).over_efa();
        assert!(of("EFA") && of("4x p5.48xlarge on AWS with EFA; log line"));
        assert!(!of("") && !of("no EFA") && !of("InfiniBand; EFAX"));
    }

    #[test]
    fn a_compiler_is_an_item_of_the_notes() {
        let of =
            |notes| row(&[("framework", "torchtitan"), ("engine", "FSDP2"), ("notes", notes)]).compiled();
        assert!(of("500 W power limit; compile; per-op"));
        assert!(of("1F1B; compile+float8+asyncTP"));
        assert!(of("vanilla TP bf16; torch.compile; seq 8192"));
        for without in ["", "eager", "without torch.compile", "compile time not counted", "no compile"] {
            assert!(!of(without), "{without}");
        }
        assert!(row(&[("engine", "FSDP2 + compile")]).compiled());
    }

    #[test]
    fn a_pipeline_s_stages_are_an_item_of_the_notes() {
        let of = |framework, notes| row(&[("framework", framework), ("notes", notes)]).virtual_stages();
        for (framework, notes, stages) in [
            ("Megatron-LM", "interleave 3; sequence parallel with selective", 3.0),
            ("Megatron-LM", "interleave 1; V=51200", 1.0),
            ("torchtitan", "500 W; interleaved 1F1B; compile+float8+asyncTP", 2.0),
            ("torchtitan", "1F1B; compile+float8+asyncTP", 1.0),
            // Whose schedule has how many stages is not known.
            ("other", "interleaved 1F1B", 1.0),
            ("other", "interleave NaN", 1.0),
        ] {
            assert!((of(framework, notes) - stages).abs() < 1e-12, "{notes}");
        }
    }
}
