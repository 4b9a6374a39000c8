//! The user's own runs: the table that `report --csv` appends to, as evidence for predictions.
//!
//! A row that cannot be used is reported with its line and left out; the others count.

use super::csv;
use super::run::Run;
use super::run_row::RunRow;
use super::table::{NotATable, header, run_from_row};
use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::text;
use trainc_ir::date::epoch_days;
use trainc_predict::speed::speed;
use trainc_predict::{Constants, FinishedRun, MeasuredRun};

/// Columns of the user's own tables in addition to those of published runs.
pub(super) const OWN_COLUMNS: &str = "date,step_spread,job,instance,billed_seconds";

/// Largest number of lines of a table of own runs. A larger one is another file, and conditioning on it would
/// take minutes.
pub const MOST_LINES: usize = 20_000;

/// Largest number of runs that count: the last ones of the table.
pub const MOST_RUNS: usize = 2_000;

/// Largest number of warnings that are listed.
const MOST_WARNINGS: usize = 20;

/// Largest spread of a run's steps, a fraction of their median.
const LARGEST_SPREAD: f64 = 1.0;

/// The user's own runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnRuns {
    /// Runs with a step time.
    pub runs: Vec<MeasuredRun>,
    /// Runs that finished, with their whole time.
    pub finished: Vec<FinishedRun>,
    /// Rows that are not used, and columns that are not known, each with its line.
    pub warnings: Vec<String>,
}

/// Reads a table of the user's own runs.
///
/// # Errors
///
/// If the text is not a table of runs, or larger than one.
pub fn own_runs(text: &str) -> Result<OwnRuns, NotATable> {
    let lines = text.lines().count();
    if lines > MOST_LINES {
        return Err(NotATable(format!("{lines} lines, more than the {MOST_LINES} that are read")));
    }
    let body = text.trim_start_matches('\u{feff}');
    let mut rows = csv::rows(body).into_iter();
    let head = header(rows.next())?;
    let mut out = OwnRuns::default();
    let mut warnings = Vec::new();
    let unknown: Vec<&str> =
        head.iter().map(String::as_str).filter(|name| !name.is_empty() && !is_known_column(name)).collect();
    if !unknown.is_empty() {
        let columns = if unknown.len() == 1 { "column" } else { "columns" };
        let names = text::backtick_list(&unknown.iter().take(10).copied().collect::<Vec<_>>(), "and");
        warnings.push(format!("line 1: unknown {columns} {names}: ignored"));
    }
    let mut counter = LineCounter::new(body);
    let mut ids = BTreeSet::new();
    for fields in rows {
        let line = counter.line_at(fields.first().map_or(0, |field| field.place.0));
        if fields.len() != head.len() {
            let (has, of) = (fields.len(), head.len());
            warnings.push(format!("line {line}: {has} of {of} cells: the row is not used"));
            continue;
        }
        let cells: BTreeMap<&str, &str> = head
            .iter()
            .map(String::as_str)
            .zip(fields.iter().map(|field| field.text.trim()))
            .filter(|(_, cell)| !cell.is_empty())
            .collect();
        let row = RunRow::new(cells);
        let id = row.text("id");
        if !id.is_empty() && !ids.insert(id.to_owned()) {
            warnings.push(format!("line {line}: another row has the id `{id}`: the row is not used"));
            continue;
        }
        match finished_run(&row).and_then(|finished| Ok((finished, measured_run(&row)?))) {
            Ok((finished, run)) => {
                out.finished.extend(finished);
                out.runs.extend(run);
            }
            Err(why) => warnings.push(format!("line {line}: {why}: the row is not used")),
        }
    }
    let more = out.runs.len().saturating_sub(MOST_RUNS);
    let more_finished = out.finished.len().saturating_sub(MOST_RUNS);
    if more.max(more_finished) > 0 {
        out.runs.drain(..more);
        out.finished.drain(..more_finished);
        warnings.push(format!("only the last {MOST_RUNS} runs are used"));
    }
    let left = warnings.len().saturating_sub(MOST_WARNINGS);
    out.warnings = warnings;
    if left > 0 {
        out.warnings.truncate(MOST_WARNINGS);
        out.warnings.push(format!("{} more", text::count(left as u64, "warning")));
    }
    Ok(out)
}

/// Returns the mean absolute error of the step times of runs, each predicted given the others: predicted over
/// measured, minus one. `None` without a run that can be predicted.
pub fn mean_error_given_others(runs: &[MeasuredRun], constants: &Constants) -> Option<f64> {
    let error = |at: usize, run: &MeasuredRun| {
        let others = runs.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, one)| one.clone());
        let own = constants.with_runs(String::new(), others.collect());
        let predicted = speed(&run.layout, &own).ok()?.step_seconds;
        Some((predicted / run.step_seconds - 1.0).abs())
    };
    let errors: Vec<f64> = runs.iter().enumerate().filter_map(|(at, run)| error(at, run)).collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// Longest plausible run, seconds: the service stops every job within a month.
const LONGEST: f64 = 31.0 * 86_400.0;

/// Returns the whole run of a row; `None` if the row does not say how long it took, or it ran out of memory.
fn finished_run(row: &RunRow) -> Result<Option<FinishedRun>, String> {
    let written = row.text("billed_seconds");
    if written.is_empty() || row.text("oom") == "1" {
        return Ok(None);
    }
    let seconds = row.number("billed_seconds").filter(|seconds| (1.0..=LONGEST).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        format!("`billed_seconds` is `{}`, not between a second and a month", shorten(written))
    })?;
    let nodes = row.text("nodes");
    let nodes = nodes.parse().map_err(|_| format!("`nodes` is `{}`, not a count", shorten(nodes)))?;
    Ok(Some(FinishedRun {
        job: row.text("job").to_owned(),
        instance: row.text("instance").to_owned(),
        nodes,
        seconds,
        release: row.release(),
        date: Some(row.text("date").to_owned()).filter(|date| !date.is_empty()),
    }))
}

/// Returns the run of a row; `None` if it has no step time to predict: it ran out of memory, or has no model.
fn measured_run(row: &RunRow) -> Result<Option<MeasuredRun>, String> {
    let date = row.text("date");
    if !date.is_empty() && epoch_days(date).is_none() {
        return Err(format!("`date` is `{}`, not a date such as 2026-11-28", shorten(date)));
    }
    let spread = row.text("step_spread");
    let has_spread = row.number("step_spread").is_some_and(|value| value <= LARGEST_SPREAD);
    if !spread.is_empty() && !has_spread {
        return Err(format!("`step_spread` is `{}`, not a fraction from 0 to 1", shorten(spread)));
    }
    let (run, impossible): (Run, _) = run_from_row(row);
    if let Some(impossible) = impossible {
        return Err(impossible.message);
    }
    let is_other_program = row.text("layers").is_empty() && row.text("model_id").is_empty();
    if run.oom || is_other_program {
        return Ok(None);
    }
    let layout = run.layout?;
    Ok(Some(MeasuredRun {
        id: run.id,
        layout,
        step_seconds: run.step_seconds?,
        spread: row.number("step_spread"),
        date: Some(date.to_owned()).filter(|date| !date.is_empty()),
    }))
}

/// Returns true if a column belongs to a table of runs.
fn is_known_column(name: &str) -> bool {
    let mut known = super::measure::COLUMNS.split(',').chain(OWN_COLUMNS.split(','));
    known.any(|column| column == name)
}

/// Line numbers of ascending places of a text.
struct LineCounter<'a> {
    text: &'a str,
    place: usize,
    line: usize,
}

impl<'a> LineCounter<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, place: 0, line: 1 }
    }

    /// Returns the line of a place, from 1.
    fn line_at(&mut self, place: usize) -> usize {
        let more = self.text.get(self.place..place).unwrap_or_default();
        self.line += more.bytes().filter(|byte| *byte == b'\n').count();
        self.place = self.place.max(place);
        self.line
    }
}

/// Shortens a cell for a message.
fn shorten(cell: &str) -> String {
    cell.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Table, read};
    use trainc_predict::{Code, GpuKind, Layout, Speed, System};

    /// Returns the runs of a table with a step time that can be predicted.
    fn usable(table: &Table) -> Vec<(&str, MeasuredRun)> {
        let run = |run: &Run| MeasuredRun {
            id: run.id.clone(),
            layout: run.layout.clone().unwrap(),
            step_seconds: *run.step_seconds.as_ref().unwrap(),
            spread: None,
            date: None,
        };
        let predicted = |run: &&Run| {
            let layout = run.layout.as_ref().ok();
            run.step_seconds.is_ok() && layout.is_some_and(|one| speed(one, Constants::shipped()).is_ok())
        };
        let runs = table.runs.iter().filter(|run| !run.oom).filter(predicted);
        runs.map(|one| (one.family.as_str(), run(one))).collect()
    }

    /// Published runs err less given the other runs of their source, and lie inside the interval as often,
    /// though it is narrower where the runs agree.
    #[test]
    fn runs_of_one_source_predict_each_other() {
        let table = read(include_str!("../data/runs.csv")).unwrap();
        let (shipped, runs) = (Constants::shipped(), usable(&table));
        let error = |speed: &Speed, seconds: f64| (speed.step_seconds / seconds).ln().abs();
        let is_inside = |speed: &Speed, seconds: f64| {
            f64::from(speed.interval.low <= seconds && seconds <= speed.interval.high)
        };
        // The clusters of `ultra` disturbed every fourth run, by up to five times.
        for (is_ultra, every, errs_less, inside) in [(false, 3, 0.8, 0.88), (true, 23, 0.97, 0.7)] {
            let judged: Vec<[f64; 3]> = runs
                .iter()
                .filter(|(family, _)| (*family == "ultra") == is_ultra)
                .step_by(every)
                .filter_map(|(family, run)| {
                    let others = runs.iter().filter(|(other, one)| other == family && one.id != run.id);
                    let own = shipped.with_runs(String::new(), others.map(|(_, one)| one.clone()).collect());
                    let own = speed(&run.layout, &own).ok().filter(|own| own.evidence.is_some())?;
                    let plain = speed(&run.layout, shipped).ok()?;
                    let seconds = run.step_seconds;
                    Some([error(&plain, seconds), error(&own, seconds), is_inside(&own, seconds)])
                })
                .collect();
            let [was, is, share] =
                [0, 1, 2].map(|at| judged.iter().map(|one| one[at]).sum::<f64>() / judged.len() as f64);
            let figures = format!("{} runs: {was:.3} to {is:.3}, {share:.2} inside", judged.len());
            assert!(judged.len() > 40 && is < errs_less * was && share > inside, "{figures}");
        }
    }

    const HEAD: &str = "id,family,engine,code,model_id,layers,hidden,heads,seq,gpu,gpus_per_node,nodes,\
        intra_bw_gbps,inter_bw_gbps,fabric,precision,shard_degree,micro_batch,grad_accum,recompute,flash,year,\
        software,date,step_spread,oom,step_s";

    /// Returns a row of Llama-3.1-8B under FSDP on p5 instances.
    fn row(id: &str, nodes: u64, image: &str, seconds: &str) -> String {
        let shard = 8 * nodes;
        format!(
            "{id},own,FSDP,huggingface,meta-llama/Llama-3.1-8B,32,4096,32,8192,H100-80GB,8,{nodes},7200,3200,\
                efa,bf16,{shard},1,1,full,1,2026,{image},2026-11-20,0.005,0,{seconds}"
        )
    }

    fn layout(nodes: u64) -> Layout {
        let text = format!("{HEAD}\n{}\n", row("a", nodes, "pytorch:2.6", "3.1"));
        own_runs(&text).unwrap().runs.remove(0).layout
    }

    /// A run that is 27 % slower than planned (predictions that a run of the same layout corrects).
    #[test]
    fn one_run_of_the_same_layout_moves_the_prediction_to_it() {
        let (shipped, layout) = (Constants::shipped(), layout(4));
        let planned = speed(&layout, shipped).unwrap().step_seconds;
        let measured = 1.27 * planned;
        let with = |seconds: &[f64], image: &str| {
            let rows: Vec<String> = seconds
                .iter()
                .enumerate()
                .map(|(at, seconds)| row(&at.to_string(), 4, image, &seconds.to_string()))
                .collect();
            let own = own_runs(&format!("{HEAD}\n{}\n", rows.join("\n"))).unwrap();
            assert_eq!((own.warnings, own.runs.len()), (vec![], seconds.len()));
            shipped.with_runs("runs.csv".to_owned(), own.runs)
        };
        let one = with(&[measured], "pytorch:2.6");
        assert_eq!(one.evidence().unwrap().newest.as_deref(), Some("2026-11-20"));
        let half_width = |speed: &Speed| speed.interval.high / speed.step_seconds - 1.0;
        let own = speed(&layout, &one).unwrap();
        assert!((own.step_seconds / measured - 1.0).abs() < 0.05, "{own:?}");
        assert!(half_width(&own) <= 0.08, "{}", half_width(&own));
        assert!(own.evidence.unwrap().is_measured() && !own.can_stop_a_job());
        assert!((own.parts.total() / own.step_seconds - 1.0).abs() < 1e-9);
        // Ten that agree, and ten that scatter by 5 %.
        let ten: Vec<f64> = (0..10).map(|at| measured * (1.0 + 0.001 * f64::from(at % 5))).collect();
        let own = speed(&layout, &with(&ten, "pytorch:2.6")).unwrap();
        assert!(half_width(&own) <= 0.03 && (own.step_seconds / measured - 1.0).abs() < 0.02, "{own:?}");
        let ten: Vec<f64> = (0..10).map(|at| measured * (0.95 + 0.1 * f64::from(at % 2))).collect();
        let own = speed(&layout, &with(&ten, "pytorch:2.6")).unwrap();
        assert!(half_width(&own) > 0.07, "{}", half_width(&own));
        // Another image: near, not the same.
        let near = speed(&layout, &with(&[measured], "pytorch:2.5")).unwrap();
        assert!(!near.evidence.unwrap().is_measured());
        assert!((1.1..1.26).contains(&(near.step_seconds / planned)), "{}", near.step_seconds / planned);
        assert!(
            half_width(&near) > 0.12 && half_width(&near) < half_width(&speed(&layout, shipped).unwrap())
        );
    }

    /// The further a layout is from the run, the less it moves and narrows; one that has nothing in common
    /// does neither.
    #[test]
    fn a_run_counts_less_with_distance() {
        let (shipped, base) = (Constants::shipped(), layout(4));
        let planned = speed(&base, shipped).unwrap().step_seconds;
        let run = MeasuredRun {
            id: "a".to_owned(),
            layout: base.clone(),
            step_seconds: 1.27 * planned,
            spread: None,
            date: None,
        };
        let own = shipped.with_runs("runs.csv".to_owned(), vec![run]);
        let effect = |layout: &Layout| {
            let (plain, own) = (speed(layout, shipped).unwrap(), speed(layout, &own).unwrap());
            let width = |speed: &Speed| (speed.interval.high / speed.step_seconds).ln();
            (own.step_seconds / plain.step_seconds, width(&own) / width(&plain))
        };
        let with = |edit: &dyn Fn(&mut Layout)| {
            let mut out = base.clone();
            edit(&mut out);
            effect(&out)
        };
        let length = |times: f64| with(&|new: &mut Layout| new.work.sequence_length *= times);
        let card = |kind: GpuKind| move |new: &mut Layout| new.hardware.gpu = Some(kind);
        for order in [
            vec![effect(&base), effect(&layout(8)), effect(&layout(16)), effect(&layout(64))],
            vec![effect(&base), length(2.0), length(4.0)],
            vec![effect(&base), length(2.0), with(&card(GpuKind::A100))],
        ] {
            for pair in order.windows(2) {
                assert!(pair[0].0 > pair[1].0 && pair[0].1 < pair[1].1 + 1e-9, "{order:?}");
            }
            assert!(order.iter().all(|(time, width)| *time >= 1.0 && *width <= 1.0 + 1e-9), "{order:?}");
        }
        let stranger = with(&|new: &mut Layout| {
            new.hardware.gpu = Some(GpuKind::A100);
            (new.code, new.system) = (Code::MegatronCore, System::Megatron);
            (new.hardware.nodes, new.model.layers) = (1.0, 8.0);
        });
        assert_eq!(stranger, (1.0, 1.0));
    }

    /// Whatever a file says, it is an error, or a warning with its line, and other rows count.
    #[test]
    fn an_invalid_row_is_reported_with_its_line() {
        let good = row("good", 4, "", "3.1");
        let found = |rows: &[String]| own_runs(&format!("{HEAD}\n{}", rows.join("\n"))).unwrap();
        for (wrong, why) in [
            (row("a", 4, "", "NaN"), "`step_s` is `NaN`"),
            (row("a", 4, "", "-3"), "`step_s` is `-3`"),
            (row("a", 4, "", "1e308"), "under 0.01 % of its peak"),
            (row("a", 4, "", "1e-9"), "of its peak"),
            (row("good", 4, "", "3.2"), "another row has the id `good`"),
            (row("a", 4, "", "3.1").replace("2026-11-20", "yesterday"), "`date` is `yesterday`"),
            (row("a", 4, "", "3.1").replace("0.005", "7"), "`step_spread` is `7`"),
            ("a,own,FSDP".to_owned(), "3 of 27 cells"),
        ] {
            let own = found(&[good.clone(), wrong]);
            assert_eq!(own.runs.len(), 1, "{why}");
            let [line] = own.warnings.as_slice() else { panic!("{why}: {:?}", own.warnings) };
            assert!(line.starts_with("line 3: ") && line.contains(why), "{line}");
        }
        let more = format!("{HEAD},mine\r\n{good},x\r\n");
        let own = own_runs(&more).unwrap();
        assert_eq!((own.runs.len(), own.warnings.len()), (1, 1), "{:?}", own.warnings);
        assert!(own.warnings[0].contains("line 1: unknown column `mine`"));
        assert!(own_runs(&"x\n".repeat(MOST_LINES + 1)).unwrap_err().to_string().contains("20001 lines"));
        assert!(own_runs("").is_err() && own_runs("job \"a\" { }").is_err());
    }
}
