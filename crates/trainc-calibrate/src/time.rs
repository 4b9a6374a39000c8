//! A row's measured time as seconds of a step, and what is wrong with a cell that should hold a number above 0.

use super::row::Row;
use super::runs::MemoryKind;
use trainc_predict::{Layout, Recompute};

/// Columns of which one says how long a step took, in the order in which they are taken.
const MEASURED: [&str; 4] = ["step_s", "tokens_per_s", "samples_per_s", "tflops_per_gpu"];

/// Columns that hold numbers; one that is written must be one, or a measurement would be lost without a word.
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

/// How many times as long one column's step may be as another's of the same row. Sources count tokens and samples in
/// their own ways; beyond this one of the two is mistyped.
const APART: f64 = 2.0;

impl Row<'_> {
    /// What is wrong with a cell that is written and is no number above 0.
    pub(super) fn fault(&self, name: &str) -> Option<String> {
        let written = self.text(name);
        let sound = self.number(name).is_some_and(|value| value > 0.0);
        (!written.is_empty() && !sound).then(|| format!("`{name}` is `{written}`, not a number above 0"))
    }

    /// The first cell that should hold a number and does not, as `11.2GB` or `5.06s/it`.
    pub(super) fn unreadable(&self) -> Option<(&'static str, String)> {
        let kind = self.text("mem_kind");
        let is_unknown = !kind.is_empty() && MemoryKind::of(kind).is_none();
        let mut unsound = NUMBERS.iter().filter(|name| self.number(name).is_none());
        unsound.find_map(|name| Some((*name, self.fault(name)?))).or_else(|| {
            let why = || format!("`mem_kind` is `{kind}`, not `allocated`, `reserved`, `smi` or `computed`");
            is_unknown.then(|| ("mem_kind", why()))
        })
    }

    /// Seconds of a step as measured, converted where the row gives a rate.
    pub(super) fn step_seconds(&self, layout: &Layout) -> Result<f64, String> {
        let samples = layout.work.global_sequences;
        let tokens = samples * layout.work.sequence_length;
        let positive = |name| self.number(name).filter(|value| *value > 0.0);
        if self.text("engine").contains("padded") {
            return Err("its sequences are padded: how far is not given".to_owned());
        }
        let rates = [("tokens_per_s", tokens), ("samples_per_s", samples)]
            .map(|(name, work)| (name, positive(name).map(|rate| work / rate)));
        let mut found = std::iter::once(("step_s", positive("step_s")))
            .chain(rates)
            .filter_map(|(name, seconds)| Some((name, seconds?)));
        if let Some((name, seconds)) = found.next() {
            let apart = |other: f64| (other / seconds).max(seconds / other);
            return match found.find(|(_, other)| apart(*other) > APART) {
                Some((rate, other)) => Err(format!(
                    "`{name}` and `{rate}` contradict each other: {seconds:.4} s and {other:.4} s a step"
                )),
                None => Ok(seconds),
            };
        }
        let Some(tflops) = positive("tflops_per_gpu") else {
            let fault = MEASURED.iter().find_map(|name| self.fault(name));
            return Err(fault.unwrap_or_else(|| "no time is measured".to_owned()));
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
            "" => return Err("TFLOPS without a convention".to_owned()),
            other => return Err(format!("the TFLOPS convention `{other}` is not known")),
        };
        Ok(tokens * per_token / (tflops * 1e12 * layout.hardware.gpus()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs::read;

    /// Why the second row of a table is skipped, its first row with these cells in the place of its own; none where its
    /// time is taken.
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
    fn a_cell_that_is_no_number_is_named() {
        assert_eq!(reason(&[("step_s", "8.1")]), None);
        assert_eq!(reason(&[]).as_deref(), Some("no time is measured"));
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
        // A measurement beside one that is read is not dropped without a word.
        for (name, value) in [("peak_mem_gib", "11.2GB"), ("tokens_per_s", "5.06s/it")] {
            let why = reason(&[("step_s", "8.1"), (name, value)]);
            assert_eq!(why, Some(format!("`{name}` is `{value}`, not a number above 0")));
        }
        assert_eq!(reason(&[("layers", ""), ("step_s", "1")]).as_deref(), Some("`layers` is not given"));
    }

    /// 32 sequences in 3 seconds are 10.7 a second.
    #[test]
    fn two_measurements_of_a_row_that_contradict_each_other_are_said() {
        assert_eq!(reason(&[("step_s", "3"), ("samples_per_s", "10.7")]), None);
        let found = reason(&[("step_s", "3"), ("samples_per_s", "9999")]).unwrap();
        assert_eq!(found, "`step_s` and `samples_per_s` contradict each other: 3.0000 s and 0.0032 s a step");
    }
}
