//! Checks of a row against physical limits: the peak of its GPUs, their memory, and its own batch arithmetic.

use super::impossible::Impossible;
use super::run::MemoryKind;
use super::run_row::RunRow;
use trainc_diag::text;
use trainc_predict::{Constants, Layout, speed};

/// Columns of measurements. Zero is a valid value elsewhere, but not here.
const MEASURED: [&str; 6] =
    ["step_s", "tokens_per_s", "samples_per_s", "tflops_per_gpu", "mfu", "peak_mem_gib"];

/// Smallest plausible share of the peak: below it, the time has another unit (assumed).
const LEAST_SHARE: f64 = 1e-4;

/// Largest ratio between two batch sizes of which one is a rounded average.
const ROUNDING: f64 = 1.02;

impl RunRow<'_> {
    /// Returns the first cell that is invalid on its own.
    pub(super) fn impossible_cell(&self) -> Option<Impossible> {
        let unreadable = self.find_unreadable_cell().map(|(column, why)| Impossible::new(self, column, why));
        let zero = || {
            MEASURED
                .iter()
                .find_map(|column| Some(Impossible::new(self, column, self.describe_invalid_number(column)?)))
        };
        unreadable.or_else(zero).or_else(|| self.mfu_above_one())
    }

    fn mfu_above_one(&self) -> Option<Impossible> {
        let mfu = self.number("mfu").filter(|mfu| *mfu > 1.0)?;
        let written = self.text("mfu");
        let message = format!("`mfu` is `{written}`, more than 1 (100 % of the peak)");
        let help = (mfu <= 100.0)
            .then(|| format!("if it is a percentage, write `{}`", text::short_number(mfu / 100.0)));
        Some(Impossible { help, ..Impossible::new(self, "mfu", message) })
    }

    /// Returns the first measurement that the layout or its GPUs make impossible.
    pub(super) fn impossible_measurement(&self, layout: &Layout) -> Option<Impossible> {
        self.batch_mismatch(layout)
            .or_else(|| self.throughput_above_peak(layout))
            .or_else(|| self.peak_above_gpu_memory(layout))
    }

    /// Returns a global batch that is not the product of its factors.
    fn batch_mismatch(&self, layout: &Layout) -> Option<Impossible> {
        let given = |name| self.number(name).filter(|count| *count > 0.0);
        let global = given("global_batch_sequences")?;
        let (micro, passes) = (given("micro_batch")?, given("grad_accum")?);
        let degrees = &layout.degrees;
        let ranks = degrees.replicas * degrees.shard / degrees.context;
        let made = micro * passes * ranks;
        ((made / global).ln().abs() > ROUNDING.ln()).then(|| {
            let [micro, passes, ranks, made] = [micro, passes, ranks, made].map(text::short_number);
            let message = format!(
                "`global_batch_sequences` is `{}`, but `micro_batch` {micro} × `grad_accum` \
                    {passes} × {ranks} data-parallel ranks = {made}",
                self.text("global_batch_sequences")
            );
            Impossible::new(self, "global_batch_sequences", message)
        })
    }

    fn throughput_above_peak(&self, layout: &Layout) -> Option<Impossible> {
        let most = layout.precision.peak_ratio();
        let card = self.text("gpu");
        let peak = layout.hardware.peak_flops? / 1e12 * most;
        if self.number("tflops_per_gpu").is_some_and(|tflops| tflops > peak) {
            let message = format!(
                "`tflops_per_gpu` is `{}`, more than the peak of {} of its GPU (`{card}`)",
                self.text("tflops_per_gpu"),
                text::short_number(peak)
            );
            return Some(Impossible::new(self, "tflops_per_gpu", message));
        }
        // Work per step over the peak in the measured time; independent of the constants.
        let predicted = speed::speed(layout, Constants::shipped()).ok()?;
        let seconds = self.step_seconds(layout).ok()?;
        let share = predicted.mfu * predicted.step_seconds / seconds;
        let column = ["step_s", "tokens_per_s", "samples_per_s"]
            .into_iter()
            .find(|column| self.number(column).is_some_and(|value| value > 0.0))?;
        (!(LEAST_SHARE..=1.0).contains(&share)).then(|| {
            let percent =
                if share < LEAST_SHARE { "under 0.01".to_owned() } else { text::short_number(100.0 * share) };
            let message = format!(
                "`{column}` is `{}`: each GPU (`{card}`) would reach {percent} % of its peak",
                self.text(column)
            );
            Impossible::new(self, column, message)
        })
    }

    fn peak_above_gpu_memory(&self, layout: &Layout) -> Option<Impossible> {
        // A computed figure is what would be needed, not a measurement.
        MemoryKind::parse(self.text("mem_kind")).filter(|kind| *kind != MemoryKind::Computed)?;
        let gib = self.number("peak_mem_gib")?;
        let has = layout.hardware.memory_bytes? / f64::from(1 << 30);
        let has = has.max(self.number("gpu_mem_gib").unwrap_or(0.0));
        (gib > has).then(|| {
            let message = format!(
                "`peak_mem_gib` is `{}`, more than the {} GiB of its GPU (`{}`)",
                self.text("peak_mem_gib"),
                text::short_number(has),
                self.text("gpu")
            );
            Impossible::new(self, "peak_mem_gib", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::read;
    use trainc_diag::source::SourceMap;

    const HEAD: &str = "id,family,engine,layers,hidden,heads,ffn,vocab,seq,gpu,gpu_mem_gib,gpus_per_node,nodes,precision,micro_batch,recompute,oom,step_s,tokens_per_s,tflops_per_gpu,tflops_convention,mfu,peak_mem_gib,mem_kind,grad_accum,global_batch_sequences";

    /// Returns the messages of the impossible rows, each with the text of its cell.
    fn found(rows: &[&str]) -> Vec<(String, String)> {
        let layout = "own,FSDP,32,4096,32,11008,32000,4096,A100-80GB,80,8,2,bf16,2,full,0";
        let rows: Vec<String> =
            rows.iter().enumerate().map(|(at, cells)| format!("\"r,{at}\",{layout},{cells}\r\n")).collect();
        let text = format!("\u{feff}{HEAD}\r\n{}", rows.concat());
        let table = read(&text).unwrap();
        assert_eq!(table.runs.len(), rows.len());
        for one in &table.impossible {
            let run = table.runs.iter().find(|run| run.id == one.id).unwrap();
            assert_eq!(run.layout.as_ref().err(), Some(&one.message), "it is ignored");
            assert!(run.step_seconds.is_err() && run.memory_layout.is_err());
        }
        let mut sources = SourceMap::default();
        let source = sources.add("runs.csv", text.as_str());
        table
            .impossible
            .iter()
            .map(|one| {
                let span = one.diagnostic(source).span;
                (one.message.clone(), sources.slice(span).to_owned())
            })
            .collect()
    }

    #[test]
    fn an_impossible_row_is_reported_at_its_cell() {
        let found = found(&[
            "8.1,,,,0.45,60,allocated",
            "-3,,,,,,",
            "0,,,,,,",
            "8.1,,,,45,,",
            "8.1,,,,,95.5,smi",
            "8.1,,,,,95.5,computed",
            "0.2,,,,,,",
            ",,400,6N,,,",
            ",9e9,,,,,",
            "1e30,,,,,,",
            "8.1,,,,,,,4,256",
            "81,,,,,,,8,256",
        ]);
        let expected = [
            ("`step_s` is `-3`, not a number above 0", "-3"),
            ("`step_s` is `0`, not a number above 0", "0"),
            ("`mfu` is `45`, more than 1 (100 % of the peak)", "45"),
            ("`peak_mem_gib` is `95.5`, more than the 80 GiB of its GPU (`A100-80GB`)", "95.5"),
            ("`step_s` is `0.2`: each GPU (`A100-80GB`) would reach ", "0.2"),
            ("`tflops_per_gpu` is `400`, more than the peak of 312 of its GPU (`A100-80GB`)", "400"),
            ("`tokens_per_s` is `9e9`: each GPU (`A100-80GB`) would reach ", "9e9"),
            ("`step_s` is `1e30`: each GPU (`A100-80GB`) would reach under 0.01 % of its peak", "1e30"),
            (
                "`global_batch_sequences` is `256`, but `micro_batch` 2 × `grad_accum` 4 × 16 \
                    data-parallel ranks = 128",
                "256",
            ),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((message, cell), (begins, at)) in found.iter().zip(expected) {
            assert!(message.starts_with(begins) && cell == at, "{message} at {cell}");
        }
    }

    #[test]
    fn no_published_row_is_impossible() {
        let table = read(include_str!("../data/runs.csv")).unwrap();
        assert_eq!(table.impossible, []);
    }
}
