//! What `tune` says of a job whose time cannot be predicted: what fits and passes every check, and how to come to a time.

use super::figures::{capital, varied_and_held};
use super::show::{changed, changes, paragraph, texts, wrapped_at};
use super::sound::{ENOUGH, MOST_COMPILED, compile, new_warnings};
use super::write;
use crate::cli::exit;
use crate::cli::held::Held;
use crate::cli::io::Io;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainc_diag::markdown::cell;
use trainc_diag::text;
use trainc_ir::{Engine, Plan};
use trainc_plan::Compiled;
use trainc_plan::Options;
use trainc_predict::{Constants, Fit, Interval};
use trainc_tune::fitting::{Fits, Fitting, fitting};
use trainc_tune::{Choice, Limits, Reason, Refusal, Space};

/// The most machines that people are shown.
const SHOWN: usize = 8;

/// Refusals that are shown at most.
const REFUSED: usize = 4;

/// A layout that fits, borne out by its own compilation.
struct Row {
    one: Fitting,
    compiled: Compiled,
    warnings: Vec<String>,
}

impl Row {
    /// The high end of its memory, bytes, where the card has less.
    fn tight(&self) -> Option<f64> {
        let one = &self.one;
        let interval = Interval { low: one.memory_low_bytes, high: one.memory_high_bytes };
        let is_sure = Fit::of(one.memory_bytes, interval, one.capacity_bytes) == Fit::Surely;
        (!is_sure).then_some(one.memory_high_bytes)
    }
}

/// What fits of a space that nothing ranks.
pub(super) struct Unranked<'a> {
    job: &'a str,
    space: &'a Space<'a>,
    why: String,
    searched: usize,
    unknown: usize,
    fit: usize,
    /// Of each machine the mildest layout that no check refuses.
    rows: Vec<Row>,
    /// The first layout of each refusal.
    refused: Vec<(Choice, Refusal)>,
    /// Layouts that were refused, or share a shape with one that was.
    dropped: usize,
    cut: bool,
    is_bounded: bool,
}

impl<'a> Unranked<'a> {
    /// Compiles the mildest layout of each machine, and where a check refuses it the next of another shape.
    pub(super) fn of(
        held: &mut Held,
        options: &Options,
        base: &'a Compiled,
        space: &'a Space<'a>,
        (limits, constants): (&Limits, &Constants),
        why: String,
    ) -> Self {
        let Fits { machines, searched, unknown, fit } = fitting(space, constants);
        let mut out = Self {
            job: base.job.as_deref().unwrap_or("job"),
            space,
            why,
            searched,
            unknown,
            fit,
            rows: Vec::new(),
            refused: Vec::new(),
            dropped: 0,
            cut: false,
            is_bounded: limits.max_usd.is_some() || limits.deadline_seconds.is_some(),
        };
        let mut blamed: BTreeMap<(usize, &'static str), usize> = BTreeMap::new();
        let mut compiled = 0;
        for machine in machines {
            for one in machine {
                let site = one.choice.site;
                if blamed.iter().any(|((at, _), count)| *at == site && *count >= ENOUGH) {
                    break;
                }
                if compiled >= MOST_COMPILED {
                    out.cut = true;
                    return out;
                }
                compiled += 1;
                match compile(held, options, space, &one.choice) {
                    Ok(compiled) => {
                        let warnings = new_warnings(base, &compiled, space, &one.choice);
                        out.rows.push(Row { one, compiled, warnings });
                        break;
                    }
                    Err(blame) => {
                        let (error, at_instance) = *blame;
                        *blamed.entry((site, error.code.id)).or_default() += usize::from(at_instance);
                        out.refuse(&one, error.code.id, error.message);
                    }
                }
            }
        }
        out
    }

    fn refuse(&mut self, one: &Fitting, code: &str, message: String) {
        self.dropped += one.alike;
        let same = |(_, known): &&mut (Choice, Refusal)| known.code == code && known.message == message;
        match self.refused.iter_mut().find(same) {
            Some((_, refusal)) => refusal.layouts += 1,
            None => {
                self.refused.push((one.choice, Refusal { code: code.to_owned(), message, layouts: 1 }));
            }
        }
    }

    /// Whether nothing says how much memory any of its machines has.
    fn nothing_known(&self) -> bool {
        self.unknown > 0 && self.unknown == self.searched
    }

    fn counts(&self) -> String {
        let refused = match self.dropped {
            0 => String::new(),
            dropped => format!(", {} refused by checks", text::group(dropped as u64)),
        };
        let looked_at = text::count(self.searched as u64, "layout");
        if self.nothing_known() {
            return format!(
                "{looked_at} looked at: how much memory these machines have is not known, and so not what fits"
            );
        }
        format!("{looked_at} looked at, {} fit{refused}", text::group(self.fit as u64))
    }

    pub(super) fn human(&self, width: usize) -> String {
        let mut out = format!("{}: {}\n", self.job, self.counts());
        if !self.rows.is_empty() {
            out.push_str("\nwhat fits, by memory alone: of each machine the layout that changes least\n\n");
        }
        for (number, row) in (1..).zip(&self.rows).take(SHOWN) {
            let _ = writeln!(out, "{number:>3}  {}, {}", price(&row.one), memory(row));
            paragraph(&mut out, &self.space.words(&row.one.choice), width);
            paragraph(&mut out, &changes(&self.space.sets(&row.one.choice)), width);
            if !row.warnings.is_empty() {
                paragraph(&mut out, &format!("newly warns {}", row.warnings.join(", ")), width);
            }
        }
        let more = self.rows.len().saturating_sub(SHOWN) as u64;
        if more > 0 {
            let more = text::count(more, "more machine");
            paragraph(
                &mut out,
                &format!("and {more}: `-o json` has all, `--max-nodes` and `--instances` choose"),
                width,
            );
        }
        if let Some(row) = self.rows.first().filter(|row| row.one.usd_per_hour.is_none()) {
            // The first has a price where any has one.
            let _ = writeln!(out, "\n{}", self.space.unpriced(row.one.choice.site));
        }
        if !self.refused.is_empty() {
            out.push_str("\nwhat the checks refuse\n\n");
        }
        for (choice, refusal) in self.refused.iter().take(REFUSED) {
            let _ = writeln!(out, "  -  {}", wrapped_at(&self.space.words(choice), width, 5));
            paragraph(&mut out, &Reason::Refused(refusal.clone()).to_string(), width);
        }
        out.push('\n');
        for (what, items) in [("varied", self.space.varied()), ("held", self.space.held())] {
            let _ = writeln!(out, "{what:<6} {}", wrapped_at(&items.join(", "), width, 7));
        }
        if self.cut {
            out.push_str("too many layouts are refused by checks: the rest was not looked at\n");
        }
        out
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = format!("### Layouts of `{}`\n\n{}.\n\n", self.job, self.counts());
        let _ = writeln!(out, "{}: nothing is ranked by time and cost.\n", capital(&self.why));
        if !self.rows.is_empty() {
            out.push_str("| | price | memory | layout | changes |\n| --- | --- | --- | --- | --- |\n");
        }
        for (number, row) in (1..).zip(&self.rows) {
            let _ = writeln!(
                out,
                "| {number} | {} | {} | {} | {} |",
                cell(&price(&row.one)),
                memory(row),
                cell(&self.space.words(&row.one.choice)),
                changed(&self.space.sets(&row.one.choice))
            );
        }
        for (choice, refusal) in self.refused.iter().take(REFUSED) {
            let reason = Reason::Refused(refusal.clone()).to_string();
            let _ = write!(out, "\n- {}: {}", cell(&self.space.words(choice)), cell(&reason));
        }
        out.push_str(&varied_and_held(self.space));
        out
    }

    pub(super) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(&json!({
            "format_version": "1.0",
            "job": self.job,
            "searched": self.searched,
            "fit": self.fit,
            // What takes how long is not known, and so not what it costs.
            "within_bounds": if self.is_bounded { 0 } else { self.fit },
            "refused": self.dropped,
            "cut": self.cut,
            "first_choice": null,
            "varied": self.space.varied(),
            "held": self.space.held(),
            "front": [],
            "lost": self.refused.iter().map(|(choice, one)| self.lost(choice, one)).collect::<Vec<_>>(),
            "left_out": [],
            "unranked": {
                "why": self.why,
                "layouts": (1..).zip(&self.rows).map(|(number, row)| self.row(number, row)).collect::<Vec<_>>(),
            },
        }));
        text.unwrap_or_default() + "\n"
    }

    fn row(&self, number: usize, row: &Row) -> Value {
        let choice = &row.one.choice;
        json!({
            "number": number,
            "sets": texts(&self.space.sets(choice)),
            "layout": self.space.words(choice),
            "instance": self.space.name(choice.site),
            "nodes": choice.nodes,
            "usd_per_hour": row.one.usd_per_hour,
            "memory_bytes": row.one.memory_bytes,
            "memory_low_bytes": row.one.memory_low_bytes,
            "memory_high_bytes": row.one.memory_high_bytes,
            "capacity_bytes": row.one.capacity_bytes,
            "tight": row.tight().is_some(),
            "warnings": row.warnings,
        })
    }

    fn lost(&self, choice: &Choice, refusal: &Refusal) -> Value {
        let reason = Reason::Refused(refusal.clone());
        json!({
            "sets": texts(&self.space.sets(choice)),
            "layout": self.space.words(choice),
            "instance": self.space.name(choice.site),
            "nodes": choice.nodes,
            "step_seconds": null,
            "step_seconds_low": null,
            "step_seconds_high": null,
            "seconds": null,
            "seconds_low": null,
            "seconds_high": null,
            "cost_usd": null,
            "cost_usd_low": null,
            "cost_usd_high": null,
            "on_demand_usd": null,
            "on_demand_usd_low": null,
            "on_demand_usd_high": null,
            "memory_bytes": null,
            "memory_low_bytes": null,
            "memory_high_bytes": null,
            "capacity_bytes": null,
            "reason": {
                "kind": "refused", "code": refusal.code, "message": refusal.message, "layouts": refusal.layouts,
            },
            "text": reason.to_string(),
        })
    }

    /// What is said beside the list: why it is no ranking, and what can be typed to come to one.
    pub(super) fn note(&self, plan: &Plan, manifest: &str) -> String {
        let nothing = if self.rows.is_empty() && !self.nothing_known() {
            "note: no layout of the space fits and passes every check\n"
        } else {
            ""
        };
        let bounds = if self.is_bounded {
            "note: `--max-usd` and `--deadline` hold nothing back: without a time neither can be told\n"
        } else {
            ""
        };
        format!(
            "{nothing}{bounds}error: no layout can be ranked by time and cost: {}\n{}",
            self.why,
            help(plan, manifest)
        )
    }

    /// Writes the layout of that number; which to take where none is named, nothing says.
    pub(super) fn write(&self, io: &mut Io, held: &mut Held, options: &Options, number: Option<usize>) -> u8 {
        let Some(number) = number else {
            io.note("error: nothing says which of these to take: `--write=N` writes number N\n");
            return exit::USAGE;
        };
        let Some(row) = number.checked_sub(1).and_then(|at| self.rows.get(at)) else {
            io.note(&format!("error: there is no layout {number}: there are {}\n", self.rows.len()));
            return exit::USAGE;
        };
        match write::put(io, held, options, self.space, &row.one.choice, &row.compiled) {
            Ok(put) => io.note(&put.words(&held.path, number, "")),
            Err(code) => return code,
        }
        if let Some(high) = row.tight() {
            io.note(&write::tight(high, row.one.capacity_bytes));
        }
        exit::DONE
    }
}

fn price(one: &Fitting) -> String {
    one.usd_per_hour
        .map_or_else(|| "price not known".to_owned(), |usd| format!("{} an hour", text::dollars(usd)))
}

/// `9.1 GiB (between 8.3 and 10.7 GiB) of 16 GiB on each GPU`.
fn memory(row: &Row) -> String {
    let bytes = |n: f64| text::bytes(whole(n));
    let one = &row.one;
    let tight = if row.tight().is_some() { ": may not fit" } else { "" };
    format!(
        "{} (between {} and {}) of {} on each GPU{tight}",
        bytes(one.memory_bytes),
        bytes(one.memory_low_bytes),
        bytes(one.memory_high_bytes),
        bytes(one.capacity_bytes)
    )
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, held above zero")]
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0).round() as u64
}

/// What can be typed to come to a time.
fn help(plan: &Plan, manifest: &str) -> String {
    let is_fp32 = plan.job.train.precision.value().is_none_or(|precision| precision == "fp32");
    let worker = plan.mesh.as_ref().is_some_and(|mesh| mesh.engine == Engine::Worker);
    match (worker, is_fp32) {
        (true, _) => format!(
            "help: `trainc init --example llama-7b-fsdp DIR` writes a job of engine `fsdp`, which is ranked; what a run of this one took, `trainc report {manifest}` tells\n"
        ),
        (false, true) => format!(
            "help: `trainc tune {manifest} --set train.precision=fp16` ranks it in 16-bit arithmetic, of which runs were measured; so does `bf16` where the GPU has it\n"
        ),
        (false, false) => String::new(),
    }
}
