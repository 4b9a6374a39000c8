//! Output of `tune` for a job whose step time cannot be predicted.

use super::costs::{describe_costs, write_costs, write_costs_as_markdown};
use super::document::{self, Document, Edits, FORMAT_VERSION, Machine, RunnerUp};
use super::figures::varied_and_held;
use super::output::{join_sets, paragraph, quote_sets, set_texts, wrap_with_indent};
use super::rows;
use std::fmt::Write as _;
use trainc_diag::markdown::escape_cell;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_plan::Compiled;
use trainc_predict::round_to_u64;
use trainc_tune::fitting::Fitting;
use trainc_tune::unranked::{Unranked, UnrankedLayout};
use trainc_tune::{Choice, Reason, Refusal};

/// Maximum number of layouts in the text.
const SHOWN: usize = 8;

/// Maximum number of rejections in the text.
const REFUSED: usize = 4;

/// Unranked layouts of a job, and the reason why its time is unknown.
pub(crate) struct UnrankedOutput<'a> {
    job: &'a str,
    why: String,
    found: Unranked<'a>,
}

impl<'a> UnrankedOutput<'a> {
    pub(crate) fn new(job: Option<&'a str>, why: String, found: Unranked<'a>) -> Self {
        Self { job: job.unwrap_or("job"), why, found }
    }

    /// Describes the costs of the first rows. Today is in days since 1970.
    fn describe_costs(&self, rows: usize, today: Option<i64>) -> Vec<String> {
        let rows: Vec<&Compiled> = self.found.layouts.iter().take(rows).map(|row| &row.compiled).collect();
        describe_costs(&rows, today)
    }

    pub(crate) fn human(&self, width: usize, today: Option<i64>) -> String {
        let mut out = format!("{}: {}\n", self.job, self.found.describe_counts());
        if !self.found.layouts.is_empty() {
            out.push_str(
                "\nlayouts that fit, by memory alone: for each machine the one closest to the manifest\n\n",
            );
        }
        for (number, row) in (1..).zip(&self.found.layouts).take(SHOWN) {
            let _ = writeln!(out, "{number:>3}  {}, {}", price(&row.fitting), memory(row));
            paragraph(&mut out, &self.found.space.describe_layout(&row.fitting.choice), width);
            paragraph(&mut out, &join_sets(&self.found.space.values_to_set(&row.fitting.choice)), width);
            if !row.warnings.is_empty() {
                paragraph(&mut out, &format!("new warnings: {}", row.warnings.join(", ")), width);
            }
        }
        let more = self.found.layouts.len().saturating_sub(SHOWN) as u64;
        if more > 0 {
            let more = text::count(more, "more machine");
            paragraph(
                &mut out,
                &format!(
                    "and {more}: `-o json` lists all; narrow the search with `--max-nodes` and `--instances`"
                ),
                width,
            );
        }
        write_costs(&mut out, &self.describe_costs(SHOWN, today), width);
        if let Some(row) = self.found.layouts.first().filter(|row| row.fitting.usd_per_hour.is_none()) {
            // If any layout has a price, the first has one.
            let _ = writeln!(out, "\n{}", self.found.space.describe_missing_price(row.fitting.choice.site));
        }
        if !self.found.refused.is_empty() {
            out.push_str("\nrefused by checks\n\n");
        }
        for (choice, refusal) in self.found.refused.iter().take(REFUSED) {
            let _ = writeln!(
                out,
                "  -  {}",
                wrap_with_indent(&self.found.space.describe_layout(choice), width, 5)
            );
            paragraph(&mut out, &Reason::Refused(refusal.clone()).to_string(), width);
        }
        out.push('\n');
        for (what, items) in [
            ("varied", self.found.space.describe_varied_axes()),
            ("held", self.found.space.describe_fixed_settings()),
        ] {
            let _ = writeln!(out, "{what:<6} {}", wrap_with_indent(&items.join(", "), width, 7));
        }
        if self.found.is_cut {
            out.push_str("too many layouts are refused by checks: the rest was not searched\n");
        }
        out
    }

    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("### Layouts of `{}`\n\n{}.\n\n", self.job, self.found.describe_counts());
        let _ =
            writeln!(out, "{}: the layouts are not ranked by time and cost.\n", text::capitalized(&self.why));
        if !self.found.layouts.is_empty() {
            out.push_str("| | price | memory | layout | changes |\n| --- | --- | --- | --- | --- |\n");
        }
        for (number, row) in (1..).zip(&self.found.layouts) {
            let _ = writeln!(
                out,
                "| {number} | {} | {} | {} | {} |",
                escape_cell(&price(&row.fitting)),
                memory(row),
                escape_cell(&self.found.space.describe_layout(&row.fitting.choice)),
                quote_sets(&self.found.space.values_to_set(&row.fitting.choice))
            );
        }
        write_costs_as_markdown(&mut out, &self.describe_costs(usize::MAX, None));
        for (choice, refusal) in self.found.refused.iter().take(REFUSED) {
            let reason = Reason::Refused(refusal.clone()).to_string();
            let _ = write!(
                out,
                "\n- {}: {}",
                escape_cell(&self.found.space.describe_layout(choice)),
                escape_cell(&reason)
            );
        }
        out.push_str(&varied_and_held(self.found.space));
        out
    }

    pub(crate) fn json(&self) -> String {
        let found = &self.found;
        let document = Document {
            format_version: FORMAT_VERSION,
            job: self.job.to_owned(),
            searched: found.searched,
            fit: found.fit,
            // Neither time nor cost is known.
            within_bounds: if found.is_bounded { 0 } else { found.fit },
            refused: found.dropped,
            cut: found.is_cut,
            order_is_reliable: None,
            first_choice: None,
            varied: found.space.describe_varied_axes(),
            held: found.space.describe_fixed_settings(),
            front: Vec::new(),
            lost: found.refused.iter().map(|(choice, one)| self.runner_up(choice, one)).collect(),
            left_out: Vec::new(),
            unranked: Some(document::Unranked {
                why: self.why.clone(),
                layouts: (1..).zip(&found.layouts).map(|(number, row)| self.layout(number, row)).collect(),
            }),
        };
        document.render()
    }

    fn layout(&self, number: usize, row: &UnrankedLayout) -> document::UnrankedLayout {
        let fitting = &row.fitting;
        document::UnrankedLayout {
            number,
            sets: self.sets(&fitting.choice),
            machine: self.machine(&fitting.choice),
            usd_per_hour: fitting.usd_per_hour,
            price: rows::price(&row.compiled),
            memory_bytes: fitting.memory_bytes,
            memory_low_bytes: fitting.memory_low_bytes,
            memory_high_bytes: fitting.memory_high_bytes,
            capacity_bytes: fitting.capacity_bytes,
            tight: row.exceeding_high_bytes().is_some(),
            warnings: row.warnings.clone(),
        }
    }

    fn runner_up(&self, choice: &Choice, refusal: &Refusal) -> RunnerUp {
        let reason = Reason::Refused(refusal.clone());
        RunnerUp {
            edits: Edits { sets: self.sets(choice), file_edits: None },
            machine: self.machine(choice),
            figures: document::Figures::default(),
            capacity_bytes: None,
            text: reason.to_string(),
            reason,
        }
    }

    fn sets(&self, choice: &Choice) -> Vec<String> {
        set_texts(&self.found.space.values_to_set(choice))
    }

    fn machine(&self, choice: &Choice) -> Machine {
        Machine::new(&self.found.space.describe_layout(choice), self.found.space, choice)
    }

    /// Returns the note below the list: why it is not ranked, and a command that ranks it.
    pub(crate) fn note(&self, plan: &Plan, manifest: &str) -> String {
        let nothing = if self.found.layouts.is_empty() && !self.found.is_memory_unknown() {
            "note: no layout fits and passes every check\n"
        } else {
            ""
        };
        let bounds = if self.found.is_bounded {
            "note: `--max-usd` and `--deadline` have no effect: time and cost are unknown\n"
        } else {
            ""
        };
        format!(
            "{nothing}{bounds}error: layouts cannot be ranked by time and cost: {}\n{}",
            self.why,
            suggest_ranked_command(plan, manifest)
        )
    }

    /// Returns the layout of a number, from 1; fails with the error to print.
    pub(crate) fn chosen(&self, number: Option<usize>) -> Result<(usize, &UnrankedLayout), String> {
        let layouts = &self.found.layouts;
        let number = number.ok_or("error: these layouts are not ranked: choose one with `--write=N`\n")?;
        let row = number.checked_sub(1).and_then(|at| layouts.get(at));
        let row =
            row.ok_or_else(|| format!("error: no layout {number}: the list has {}\n", layouts.len()))?;
        Ok((number, row))
    }
}

fn price(one: &Fitting) -> String {
    one.usd_per_hour
        .map_or_else(|| "price unknown".to_owned(), |usd| format!("{} per hour", text::dollars(usd)))
}

/// Formats memory: `9.1 GiB (between 8.3 and 10.7 GiB) of 16 GiB on each GPU`.
fn memory(row: &UnrankedLayout) -> String {
    let bytes = |n: f64| text::bytes(round_to_u64(n));
    let one = &row.fitting;
    let tight = if row.exceeding_high_bytes().is_some() { ": may not fit" } else { "" };
    format!(
        "{} (between {} and {}) of {} on each GPU{tight}",
        bytes(one.memory_bytes),
        bytes(one.memory_low_bytes),
        bytes(one.memory_high_bytes),
        bytes(one.capacity_bytes)
    )
}

/// Suggests a command that gives a ranked list.
fn suggest_ranked_command(plan: &Plan, manifest: &str) -> String {
    let is_fp32 = plan.job.train.precision.value().is_none_or(|precision| precision == "fp32");
    match (plan.is_worker(), is_fp32) {
        (true, _) => format!(
            "help: `trainc init --example llama-7b-fsdp DIR` writes a job with engine `fsdp`, \
                which can be ranked; `trainc report {manifest}` compares a finished run\n"
        ),
        (false, true) => format!(
            "help: `trainc tune {manifest} --set train.precision=fp16` ranks it in 16-bit \
                precision, which has measured runs; use `bf16` if the GPU supports it\n"
        ),
        (false, false) => String::new(),
    }
}
