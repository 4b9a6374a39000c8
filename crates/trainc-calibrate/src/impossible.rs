//! Rows that cannot be: a time below 0, more work than the GPUs can do, more memory than they have. One of them would move
//! the constants of every later plan, so it is left out, and said at its line.

use super::row::Row;
use super::runs::MemoryKind;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic};
use trainc_predict::{Constants, Layout, Precision, speed};

declare_code!(T0528, "impossible-measurement", Warning, "a measurement that is physically impossible");

/// The codes of this stage.
pub(super) static CODES: &[&Code] = &[&T0528];

/// Columns of what was measured. A zero elsewhere says that there is none of it; here it is no measurement.
const MEASURED: [&str; 6] =
    ["step_s", "tokens_per_s", "samples_per_s", "tflops_per_gpu", "mfu", "peak_mem_gib"];

/// How many times the 16-bit peak a GPU does in 8 bit.
const FP8: f64 = 2.0;

/// The share of its peak below which a GPU trains nothing: the time is in another unit, or none (judgement).
const LEAST_SHARE: f64 = 1e-4;

/// How many times as large as another a batch may be that is given as an average.
const ROUNDED: f64 = 1.02;

/// What is wrong with a row, at the cell that says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Impossible {
    /// The row's name.
    pub id: String,
    /// The column.
    pub column: &'static str,
    /// What is wrong: a lowercase fragment.
    pub message: String,
    help: Option<String>,
    /// Bytes of the cell in the table's text.
    pub(super) place: (usize, usize),
}

impl Impossible {
    fn new(row: &Row, column: &'static str, message: String) -> Self {
        Self { id: row.text("id").to_owned(), column, message, help: None, place: (0, 0) }
    }

    /// The diagnostic in the source that the table was read from.
    pub fn diagnostic(&self, source: SourceId) -> Diagnostic {
        let (start, end) = self.place;
        let found = Diagnostic::new(&T0528, Span::new(source, start, end), self.message.clone())
            .note(format!(
                "row `{}` is left out: it would move the constants of every plan that takes them",
                self.id
            ))
            .fact("id", self.id.clone())
            .fact("column", self.column);
        match &self.help {
            Some(help) => found.help(help.clone()),
            None => found,
        }
    }
}

/// A line of a log that says what cannot be, of which there are so many; `note` says why it may be so.
pub fn impossible_line(span: Span, message: String, note: Option<&str>, lines: usize) -> Diagnostic {
    let left_out = match lines {
        1 => "the line is left out of what the run measured".to_owned(),
        _ => format!(
            "{} are left out of what the run measured, this one the first",
            text::count(lines as u64, "line")
        ),
    };
    let found = Diagnostic::new(&T0528, span, message).note(left_out);
    match note {
        Some(note) => found.note(note.to_owned()),
        None => found,
    }
}

impl Row<'_> {
    /// What of the cells alone cannot be.
    pub(super) fn wrong_cell(&self) -> Option<Impossible> {
        let unsound = self.unreadable().map(|(column, why)| Impossible::new(self, column, why));
        let zero =
            || MEASURED.iter().find_map(|column| Some(Impossible::new(self, column, self.fault(column)?)));
        unsound.or_else(zero).or_else(|| self.above_one())
    }

    /// An MFU that is more than the whole.
    fn above_one(&self) -> Option<Impossible> {
        let mfu = self.number("mfu").filter(|mfu| *mfu > 1.0)?;
        let written = self.text("mfu");
        let message = format!("`mfu` is `{written}`, more than 1, which is the whole peak");
        let help =
            (mfu <= 100.0).then(|| format!("write `{}`, if it is a percentage", text::short(mfu / 100.0)));
        Some(Impossible { help, ..Impossible::new(self, "mfu", message) })
    }

    /// What of the measurements the GPUs of the layout cannot do.
    pub(super) fn beyond(&self, layout: &Layout) -> Option<Impossible> {
        self.uneven(layout).or_else(|| self.above_peak(layout)).or_else(|| self.above_card(layout))
    }

    /// A global batch that is not what its parts make.
    fn uneven(&self, layout: &Layout) -> Option<Impossible> {
        let given = |name| self.number(name).filter(|count| *count > 0.0);
        let global = given("global_batch_sequences")?;
        let (micro, passes) = (given("micro_batch")?, given("grad_accum")?);
        let degrees = &layout.degrees;
        let ranks = degrees.replicas * degrees.shard / degrees.context;
        let made = micro * passes * ranks;
        ((made / global).ln().abs() > ROUNDED.ln()).then(|| {
            let [micro, passes, ranks, made] = [micro, passes, ranks, made].map(text::short);
            let message = format!(
                "`global_batch_sequences` is `{}`, but `micro_batch` {micro} × `grad_accum` {passes} × {ranks} data-parallel ranks are {made}",
                self.text("global_batch_sequences")
            );
            Impossible::new(self, "global_batch_sequences", message)
        })
    }

    fn above_peak(&self, layout: &Layout) -> Option<Impossible> {
        let most = if layout.precision == Precision::Fp8 { FP8 } else { 1.0 };
        let card = self.text("gpu");
        let peak = layout.hardware.peak_flops? / 1e12 * most;
        if self.number("tflops_per_gpu").is_some_and(|tflops| tflops > peak) {
            let message = format!(
                "`tflops_per_gpu` is `{}`, more than the peak of {} of its GPU (`{card}`)",
                self.text("tflops_per_gpu"),
                text::short(peak)
            );
            return Some(Impossible::new(self, "tflops_per_gpu", message));
        }
        // The work of a step over what the GPUs do at their peak in that time: constants play no part in it.
        let predicted = speed::speed(layout, Constants::shipped()).ok()?;
        let seconds = self.step_seconds(layout).ok()?;
        let share = predicted.mfu * predicted.step_seconds / seconds;
        let column = ["step_s", "tokens_per_s", "samples_per_s"]
            .into_iter()
            .find(|column| self.number(column).is_some_and(|value| value > 0.0))?;
        (share > most || share < LEAST_SHARE).then(|| {
            let does = if share < LEAST_SHARE { "under 0.01".to_owned() } else { text::short(100.0 * share) };
            let message = format!(
                "`{column}` is `{}`: each GPU (`{card}`) would do {does} % of its peak",
                self.text(column)
            );
            Impossible::new(self, column, message)
        })
    }

    fn above_card(&self, layout: &Layout) -> Option<Impossible> {
        // What a source computed is no measurement, and says what would be needed.
        MemoryKind::of(self.text("mem_kind")).filter(|kind| *kind != MemoryKind::Computed)?;
        let gib = self.number("peak_mem_gib")?;
        let has = layout.hardware.memory_bytes? / f64::from(1 << 30);
        let has = has.max(self.number("gpu_mem_gib").unwrap_or(0.0));
        (gib > has).then(|| {
            let message = format!(
                "`peak_mem_gib` is `{}`, more than the {} GiB of its GPU (`{}`)",
                self.text("peak_mem_gib"),
                text::short(has),
                self.text("gpu")
            );
            Impossible::new(self, "peak_mem_gib", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use trainc_diag::source::SourceMap;

    const HEAD: &str = "id,family,engine,layers,hidden,heads,ffn,vocab,seq,gpu,gpu_mem_gib,gpus_per_node,nodes,precision,micro_batch,recompute,oom,step_s,tokens_per_s,tflops_per_gpu,tflops_convention,mfu,peak_mem_gib,mem_kind,grad_accum,global_batch_sequences";

    /// The rows of a table that cannot be, with the text that each points at.
    fn found(rows: &[&str]) -> Vec<(String, String)> {
        let layout = "own,FSDP,32,4096,32,11008,32000,4096,A100-80GB,80,8,2,bf16,2,full,0";
        let rows: Vec<String> =
            rows.iter().enumerate().map(|(at, cells)| format!("\"r,{at}\",{layout},{cells}\r\n")).collect();
        let text = format!("\u{feff}{HEAD}\r\n{}", rows.concat());
        let table = read(&text).unwrap();
        assert_eq!(table.runs.len(), rows.len());
        for one in &table.impossible {
            let run = table.runs.iter().find(|run| run.id == one.id).unwrap();
            assert_eq!(run.layout.as_ref().err(), Some(&one.message), "it is left out");
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
    fn a_row_that_cannot_be_is_said_at_its_cell() {
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
            ("`mfu` is `45`, more than 1, which is the whole peak", "45"),
            ("`peak_mem_gib` is `95.5`, more than the 80 GiB of its GPU (`A100-80GB`)", "95.5"),
            ("`step_s` is `0.2`: each GPU (`A100-80GB`) would do ", "0.2"),
            ("`tflops_per_gpu` is `400`, more than the peak of 312 of its GPU (`A100-80GB`)", "400"),
            ("`tokens_per_s` is `9e9`: each GPU (`A100-80GB`) would do ", "9e9"),
            ("`step_s` is `1e30`: each GPU (`A100-80GB`) would do under 0.01 % of its peak", "1e30"),
            (
                "`global_batch_sequences` is `256`, but `micro_batch` 2 × `grad_accum` 4 × 16 data-parallel ranks are 128",
                "256",
            ),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((message, cell), (begins, at)) in found.iter().zip(expected) {
            assert!(message.starts_with(begins) && cell == at, "{message} at {cell}");
        }
    }

    #[test]
    fn no_published_row_is_taken_for_one() {
        let table = read(include_str!("../data/runs.csv")).unwrap();
        assert_eq!(table.impossible, []);
    }
}
