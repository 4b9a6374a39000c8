//! Measured step time of a row.

use super::run::MemoryKind;
use super::run_row::RunRow;
use trainc_predict::{Layout, Recompute};

/// Columns that give the step time, in order of precedence.
const MEASURED: [&str; 4] = ["step_s", "tokens_per_s", "samples_per_s", "tflops_per_gpu"];

/// Numeric columns. A cell that is not a number is an error, so that no measurement is dropped silently.
const NUMBERS: [&str; 32] = [
    "params",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "ffn",
    "vocab",
    "seq",
    "gpu_mem_gib",
    "gpus_per_node",
    "nodes",
    "intra_bw_gbps",
    "inter_bw_gbps",
    "shard_degree",
    "tp",
    "pp",
    "cp",
    "ep",
    "dp_replicas",
    "zero_stage",
    "micro_batch",
    "global_batch_sequences",
    "grad_accum",
    "tokens_per_s",
    "samples_per_s",
    "step_s",
    "tflops_per_gpu",
    "mfu",
    "peak_mem_gib",
    "startup_s",
    "steps",
    "passes",
];

/// Largest ratio between the step times of two columns of a row. Sources count tokens and samples
/// differently; beyond this, one of the two is a typing error.
const MAX_RATIO: f64 = 2.0;

impl RunRow<'_> {
    /// Returns the first cell that should hold a number and does not, as `11.2GB` or `5.06s/it`.
    pub(super) fn find_unreadable_cell(&self) -> Option<(&'static str, String)> {
        let kind = self.text("mem_kind");
        let is_unknown = !kind.is_empty() && MemoryKind::parse(kind).is_none();
        let mut invalid = NUMBERS.iter().filter(|name| self.number(name).is_none());
        invalid.find_map(|name| Some((*name, self.describe_invalid_number(name)?))).or_else(|| {
            let why = || format!("`mem_kind` is `{kind}`, not `allocated`, `reserved`, `smi` or `computed`");
            is_unknown.then(|| ("mem_kind", why()))
        })
    }

    /// Returns the measured seconds per step, converted if the row gives a rate.
    pub(super) fn step_seconds(&self, layout: &Layout) -> Result<f64, String> {
        let samples = layout.work.global_sequences;
        let tokens = samples * layout.work.sequence_length;
        let positive = |name| self.number(name).filter(|value| *value > 0.0);
        if self.text("engine").contains("padded") {
            return Err("its sequences are padded by an unknown amount".to_owned());
        }
        let rates = [("tokens_per_s", tokens), ("samples_per_s", samples)]
            .map(|(name, work)| (name, positive(name).map(|rate| work / rate)));
        let mut found = std::iter::once(("step_s", positive("step_s")))
            .chain(rates)
            .filter_map(|(name, seconds)| Some((name, seconds?)));
        if let Some((name, seconds)) = found.next() {
            let ratio = |other: f64| (other / seconds).max(seconds / other);
            return match found.find(|(_, other)| ratio(*other) > MAX_RATIO) {
                Some((rate, other)) => {
                    Err(format!("`{name}` and `{rate}` disagree: {seconds:.4} s and {other:.4} s per step"))
                }
                None => Ok(seconds),
            };
        }
        let Some(tflops) = positive("tflops_per_gpu") else {
            let fault = MEASURED.iter().find_map(|name| self.describe_invalid_number(name));
            return Err(fault.unwrap_or_else(|| "no step time is given".to_owned()));
        };
        let model = &layout.model;
        let (n, s, h) = (model.active_parameters, layout.work.sequence_length, model.hidden);
        let megatron = |times: f64| {
            times
                * model.layers
                * h
                * h
                * (1.0 + s / (6.0 * h) + model.vocab / (times / 6.0 * model.layers * h))
        };
        let full = layout.recompute == Recompute::Full;
        let per_token = match self.text("tflops_convention") {
            "6N" => 6.0 * n,
            "8N" => 8.0 * n,
            "palm" => 6.0 * n + 12.0 * model.layers * h * s,
            "causal" => 6.0 * n + 6.0 * model.layers * h * s,
            "megatron" => megatron(if full { 96.0 } else { 72.0 }),
            "megatron-recompute" => megatron(96.0),
            "selective" => megatron(72.0) + 4.0 * model.layers * h * s,
            "" => return Err("`tflops_per_gpu` requires `tflops_convention`".to_owned()),
            other => return Err(format!("unknown TFLOPS convention `{other}`")),
        };
        Ok(tokens * per_token / (tflops * 1e12 * layout.hardware.gpus()))
    }
}

#[cfg(test)]
mod tests {
    use crate::read;

    /// Returns the reason why the step time of a row with these cells is rejected.
    fn reason(cells: &[(&str, &str)]) -> Option<String> {
        let mut row = vec![
            ("id", "a"),
            ("family", "own"),
            ("engine", "FSDP"),
            ("layers", "32"),
            ("hidden", "4096"),
            ("heads", "32"),
            ("ffn", "11008"),
            ("vocab", "32000"),
            ("seq", "4096"),
            ("gpu", "A100-80GB"),
            ("gpus_per_node", "8"),
            ("nodes", "2"),
            ("precision", "bf16"),
            ("micro_batch", "2"),
            ("recompute", "full"),
            ("oom", "0"),
            ("tokens_per_s", ""),
            ("samples_per_s", ""),
            ("step_s", ""),
            ("tflops_per_gpu", ""),
            ("peak_mem_gib", ""),
            ("mem_kind", "allocated"),
        ];
        for (name, value) in cells {
            row.iter_mut().find(|(known, _)| known == name).unwrap().1 = value;
        }
        let [head, cells] = [0, 1].map(|at| {
            let parts: Vec<&str> = row.iter().map(|cell| if at == 0 { cell.0 } else { cell.1 }).collect();
            parts.join(",")
        });
        let table = read(&format!("{head}\n{cells}\n")).unwrap();
        table.runs[0].step_seconds.clone().err()
    }

    #[test]
    fn a_cell_that_is_not_a_number_is_named() {
        assert_eq!(reason(&[("step_s", "8.1")]), None);
        assert_eq!(reason(&[]).as_deref(), Some("no step time is given"));
        for (name, value) in [
            ("step_s", "0"),
            ("samples_per_s", "-5"),
            ("step_s", "NaN"),
            ("tflops_per_gpu", "fast"),
            ("layers", "x"),
        ] {
            let with =
                if name == "layers" { vec![(name, value), ("step_s", "1")] } else { vec![(name, value)] };
            assert_eq!(reason(&with), Some(format!("`{name}` is `{value}`, not a number above 0")));
        }
        let why = reason(&[("step_s", "8.1"), ("peak_mem_gib", "30"), ("mem_kind", "peak")]).unwrap();
        assert!(why.starts_with("`mem_kind` is `peak`, not `allocated`"), "{why}");
        // A second measurement is not dropped silently.
        for (name, value) in [("peak_mem_gib", "11.2GB"), ("tokens_per_s", "5.06s/it")] {
            let why = reason(&[("step_s", "8.1"), (name, value)]);
            assert_eq!(why, Some(format!("`{name}` is `{value}`, not a number above 0")));
        }
        assert_eq!(reason(&[("layers", ""), ("step_s", "1")]).as_deref(), Some("`layers` is missing"));
    }

    /// 32 sequences in 3 seconds are 10.7 a second.
    #[test]
    fn two_measurements_of_a_row_that_disagree_are_rejected() {
        assert_eq!(reason(&[("step_s", "3"), ("samples_per_s", "10.7")]), None);
        let found = reason(&[("step_s", "3"), ("samples_per_s", "9999")]).unwrap();
        assert_eq!(found, "`step_s` and `samples_per_s` disagree: 3.0000 s and 0.0032 s per step");
    }
}
