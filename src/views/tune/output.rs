//! Output of the front and the runners-up as text, JSON and Markdown.

use super::costs::{describe_costs, write_costs, write_costs_as_markdown};
use super::document::{Document, FORMAT_VERSION, LeftOut};
use super::figures::{Figures, varied_and_held, with_interval};
use super::rows::{Lost, Row};
use std::fmt::Write as _;
use trainc_diag::markdown::escape_cell;
use trainc_diag::{Edit, text};
use trainc_ops::checked_layouts::CheckedLayouts;
use trainc_plan::Compiled;
use trainc_predict::Constants;
use trainc_tune::front::TRUSTED_NODES;
use trainc_tune::left_out::unranked_instances;
use trainc_tune::reasons::why_not_on_front;
use trainc_tune::runners_up::runners_up;
use trainc_tune::search::predict_choice;
use trainc_tune::{Limits, Point, Reason, Space};
use unicode_width::UnicodeWidthStr as _;

/// Maximum number of rejected layouts shown.
const REFUSED: usize = 4;

/// The result to show.
pub(crate) struct Page<'a> {
    job: &'a str,
    space: &'a Space<'a>,
    judged: &'a CheckedLayouts,
    front: Vec<Row<'a>>,
    lost: Vec<Lost>,
    /// Instance types without a ranked or fitting layout, each with the reason.
    left_out: Vec<(&'a str, String)>,
    /// True if the cost is bounded.
    is_bounded: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(
        job: &'a str,
        space: &'a Space<'a>,
        limits: &Limits,
        constants: &Constants,
        judged: &'a CheckedLayouts,
        next: usize,
    ) -> Self {
        let point = |at: usize| judged.points.get(at).copied();
        let front = judged
            .front
            .iter()
            .filter_map(|sound| {
                let point = point(sound.at)?;
                let (sets, words) =
                    (space.values_to_set(&point.choice), space.describe_layout(&point.choice));
                Some(Row { sound, point, sets, words })
            })
            .collect();
        let places: Vec<usize> = judged.front.iter().map(|sound| sound.at).collect();
        let refused = judged.refused.iter().take(REFUSED.min(next));
        let mut lost: Vec<(usize, Reason)> =
            refused.map(|(at, refusal)| (*at, Reason::Refused(refusal.clone()))).collect();
        let written = space
            .as_written()
            .and_then(|written| judged.points.iter().position(|point| point.choice == *written))
            .filter(|at| !places.contains(at) && lost.iter().all(|(other, _)| other != at));
        let others =
            runners_up(&judged.points_with_refused_types(), &places, next.saturating_sub(lost.len()));
        // The layout in the manifest comes first, as the reference of a change.
        let others = written.into_iter().chain(others.into_iter().filter(|at| Some(*at) != written));
        for at in others.take(next.saturating_sub(lost.len())) {
            let reason = point(at).and_then(|point| {
                why_not_on_front(space, limits, constants, &judged.points, &places, &point)
            });
            lost.extend(reason.map(|reason| (at, reason)));
        }
        let lost = lost
            .into_iter()
            .filter_map(|(at, reason)| {
                let point = point(at)?;
                let (sets, words) =
                    (space.values_to_set(&point.choice), space.describe_layout(&point.choice));
                let predicted = predict_choice(space, &point.choice, constants);
                Some(Lost { point, sets, words, reason, predicted })
            })
            .collect();
        let left_out = unranked_instances(space, constants, &judged.points);
        Self { job, space, judged, front, lost, left_out, is_bounded: limits.max_usd.is_some() }
    }

    /// Returns the runners-up as text, each with the reason why it was rejected.
    pub(crate) fn lost(&self) -> Vec<(String, String)> {
        self.lost.iter().map(|lost| (lost.words.clone(), lost.reason.to_string())).collect()
    }

    /// Describes the costs of the rows. Today is in days since 1970.
    fn describe_costs(&self, today: Option<i64>) -> Vec<String> {
        let rows: Vec<&Compiled> = self.front.iter().map(|row| &row.sound.compiled).collect();
        describe_costs(&rows, today)
    }

    pub(crate) fn human(&self, width: usize, today: Option<i64>) -> String {
        let mut out = format!("{}: {}\n", self.job, self.describe_counts());
        if !self.front.is_empty() {
            let _ = writeln!(out, "\n{}\n", text::wrap(&self.describe_front(), width.max(20), 0).join("\n"));
            self.write_table(&mut out, width);
        }
        write_costs(&mut out, &self.describe_costs(today), width);
        if self.front.iter().any(|row| row.sound.high_memory_if_tight().is_some()) {
            out.push_str("\nmay not fit: leaves less room than the error of a predicted memory\n");
        }
        if self.judged.is_priced_in_part() {
            out.push_str(
                "\nwhat has no known price cannot be weighed against what has one: `--price \
                    TYPE=USD` gives one\n",
            );
        }
        let is_unpriced = |row: &Row| row.point.usd.is_none() && row.point.most_usd.is_none();
        if let Some(row) = self.front.first().filter(|_| self.front.iter().all(is_unpriced)) {
            let _ = writeln!(out, "\n{}", self.space.describe_missing_price(row.point.choice.site));
        }
        for (name, why) in &self.left_out {
            let _ = writeln!(out, "\n`{name}` is not among them: {why}");
        }
        if let Some(rest) = self.describe_unbounded_cost() {
            let _ = writeln!(out, "\n{rest}");
        }
        if !self.lost.is_empty() {
            out.push_str("\nrunners-up, and why each was rejected\n\n");
        }
        for lost in &self.lost {
            let written = if lost.sets.is_empty() { ", as written" } else { "" };
            let _ = writeln!(out, "  -  {}", wrap_row_text(&format!("{}{written}", lost.words), width));
            paragraph(&mut out, &lost.reason.to_string(), width);
        }
        out.push('\n');
        for (what, items) in
            [("varied", self.space.describe_varied_axes()), ("held", self.space.describe_fixed_settings())]
        {
            let _ = writeln!(out, "{what:<6} {}", wrap_with_indent(&items.join(", "), width, 7));
        }
        if self.judged.cut {
            out.push_str("too many layouts are refused by checks: the rest was not searched\n");
        }
        out
    }

    /// Writes the front as a table: a row of figures, one of their intervals, then the layout and what it
    /// changes.
    fn write_table(&self, out: &mut String, width: usize) {
        let figures: Vec<Figures> = self.front.iter().map(Row::figures).collect();
        let head = ["time", "cost", "per step", "memory per GPU"];
        let rows = || std::iter::once(head).chain(figures.iter().flat_map(Figures::rows));
        let widths: Vec<usize> = (0..head.len())
            .map(|at| rows().filter_map(|row| Some(row.get(at)?.width())).max().unwrap_or(0))
            .collect();
        let line = |row: [&str; 4]| {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, &wide)| format!("  {cell:<wide$}")).collect();
            cells.concat()
        };
        let _ = writeln!(out, "   {}", line(head).trim_end());
        let first_choice = self.judged.first_choice();
        for ((number, row), figures) in (1..).zip(&self.front).zip(&figures) {
            let [values, intervals] = figures.rows();
            let mark = if number == first_choice { "*" } else { "" };
            let _ = writeln!(out, "{:>3}{}", format!("{mark}{number}"), line(values).trim_end());
            if intervals.iter().any(|interval| !interval.is_empty()) {
                let _ = writeln!(out, "   {}", line(intervals).trim_end());
            }
            paragraph(out, &format!("{}{}", row.fit_mark(), row.words), width);
            paragraph(out, &join_sets(&row.sets), width);
            if !row.sound.warnings.is_empty() {
                paragraph(out, &format!("new warnings: {}", row.sound.warnings.join(", ")), width);
            }
        }
        if figures.iter().any(|figures| figures.time_between.is_some()) {
            out.push_str("\nnine runs in ten lie within the interval below each figure\n");
        }
        let _ = writeln!(out, "* `--write` takes number {first_choice}");
        if let Some(caution) = self.caution() {
            let _ = writeln!(out, "\n{}", text::wrap(&caution, width.max(20), 0).join("\n"));
        }
    }

    /// Returns a caution about the order of the rows, if the cost model errs too much on models of this kind.
    fn caution(&self) -> Option<String> {
        let error = self.space.unreliable_order()?;
        Some(format!(
            "the order of layouts of models with experts is not reliable: predicted step times of runs that \
                were not fitted are off by {:.0} % on average",
            100.0 * error.mean_error
        ))
    }

    /// Describes the cost that `--max-usd` does not cover because its price is unknown.
    fn describe_unbounded_cost(&self) -> Option<String> {
        let in_part = |row: &Row| {
            let run = row.sound.compiled.prediction.run.as_ref();
            run.is_some_and(|run| run.cost_usd.is_none() && run.least_usd.is_some())
        };
        (self.is_bounded && self.front.iter().any(in_part)).then(|| {
            format!(
                "`--max-usd` bounds the rest: the price of {} is not known",
                self.space.unpriced_file_systems()
            )
        })
    }

    /// Describes the front and the size of the search.
    fn describe_front(&self) -> String {
        format!(
            "the best trade-offs of time and cost {}; {}",
            self.space.describe_search_size(self.judged.points.len()),
            if self.front.iter().any(|row| row.sound.high_memory_if_tight().is_some()) {
                "layouts that may not fit are listed last and ranked separately"
            } else {
                "fastest first"
            }
        ) + &if self.judged.points.iter().any(Point::is_compared_by_upper_end) {
            format!(
                "; on more than {TRUSTED_NODES} nodes the upper ends of time and cost are compared, since \
                    predictions err more there"
            )
        } else {
            String::new()
        }
    }

    fn describe_counts(&self) -> String {
        let dropped = self.judged.dropped;
        let refused = if dropped > 0 { format!(", {dropped} refused by checks") } else { String::new() };
        let tight = self.judged.count_tight() as u64;
        let tight =
            if tight > 0 { format!(", {} may fit", text::group_digits(tight)) } else { String::new() };
        let (fit, within) = (self.judged.count_fitting(), self.judged.count_within_bounds());
        let missed = if within == fit {
            String::new()
        } else {
            format!(", {} of them within the bounds", text::group_digits(within as u64))
        };
        format!(
            "{} searched, {} fit{missed}{tight}{refused}",
            text::count(self.judged.points.len() as u64, "layout"),
            text::group_digits(fit as u64),
        )
    }

    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("### Layouts of `{}`\n\n{}.\n\n", self.job, self.describe_counts());
        if !self.front.is_empty() {
            let _ = writeln!(out, "{}:\n", text::capitalized(&self.describe_front()));
            out.push_str(
                "| | time | cost | a step | memory | layout | changes |\n| --- | --- | --- | --- | \
                --- | --- | --- |\n",
            );
        }
        for (number, row) in (1..).zip(&self.front) {
            let f = row.figures();
            let _ = writeln!(
                out,
                "| {number} | {} | {} | {} | {} | {} | {} |",
                with_interval(f.time, f.time_between.as_deref()),
                escape_cell(&with_interval(f.money, f.money_between.as_deref())),
                with_interval(f.step, f.step_between.as_deref()),
                with_interval(f.memory, f.memory_between.as_deref()),
                escape_cell(&format!("{}{}", row.fit_mark(), row.words)),
                quote_sets(&row.sets)
            );
        }
        if !self.front.is_empty() {
            let _ = writeln!(out, "\n`--write` takes number {}.", self.judged.first_choice());
            if let Some(caution) = self.caution() {
                let _ = writeln!(out, "\n{}.", text::capitalized(&caution));
            }
        }
        write_costs_as_markdown(&mut out, &self.describe_costs(None));
        if !self.lost.is_empty() {
            out.push_str(
                "\nRunners-up, and why each was rejected:\n\n| layout | why | changes |\n| --- | \
                    --- | --- |\n",
            );
        }
        for lost in &self.lost {
            let (words, reason) = (escape_cell(&lost.words), escape_cell(&lost.reason.to_string()));
            let _ = writeln!(out, "| {words} | {reason} | {} |", quote_sets(&lost.sets));
        }
        for (name, why) in &self.left_out {
            let _ = write!(out, "\n`{name}` is not among them: {}.\n", escape_cell(why));
        }
        out.push_str(&varied_and_held(self.space));
        out
    }

    pub(crate) fn json(&self) -> String {
        let points = &self.judged.points;
        let left_out = self.left_out.iter();
        let document = Document {
            format_version: FORMAT_VERSION,
            job: self.job.to_owned(),
            searched: points.len(),
            fit: self.judged.count_fitting(),
            within_bounds: self.judged.count_within_bounds(),
            refused: self.judged.dropped,
            cut: self.judged.cut,
            order_is_reliable: Some(self.space.unreliable_order().is_none()),
            first_choice: (!self.front.is_empty()).then(|| self.judged.first_choice()),
            varied: self.space.describe_varied_axes(),
            held: self.space.describe_fixed_settings(),
            front: (1..)
                .zip(&self.front)
                .map(|(number, row)| row.document(number, self.space, points))
                .collect(),
            lost: self.lost.iter().map(|lost| lost.document(self.space)).collect(),
            unranked: None,
            left_out: left_out
                .map(|(instance, why)| LeftOut { instance: (*instance).to_owned(), why: why.clone() })
                .collect(),
        };
        document.render()
    }
}

/// Returns the values of the manifest in the syntax of `--set`.
pub(crate) fn set_texts(sets: &[Edit]) -> Vec<String> {
    sets.iter().filter(|set| set.file.is_none()).map(ToString::to_string).collect()
}

/// Returns the lines to edit in files that are not manifests.
pub(super) fn file_texts(sets: &[Edit]) -> Vec<String> {
    sets.iter().filter_map(|set| Some(set.file.as_ref()?.to_string())).collect()
}

pub(crate) fn join_sets(sets: &[Edit]) -> String {
    match (sets.is_empty(), file_texts(sets).as_slice()) {
        (true, _) => "as written".to_owned(),
        (false, []) => set_texts(sets).join(" "),
        (false, lines) => {
            let sets = set_texts(sets).join(" ");
            format!("{sets}{}edit {}", if sets.is_empty() { "" } else { "; " }, text::list(lines, "and"))
        }
    }
}

pub(crate) fn quote_sets(sets: &[Edit]) -> String {
    match (sets.is_empty(), file_texts(sets).as_slice()) {
        (true, _) => "as written".to_owned(),
        (false, []) => text::backtick_list(&set_texts(sets), "and"),
        (false, lines) => {
            let sets = text::backtick_list(&set_texts(sets), "and");
            format!("{sets}{}edit {}", if sets.is_empty() { "" } else { "; " }, text::list(lines, "and"))
        }
    }
}

/// Indentation of a row's text.
const INDENT: usize = 5;

fn wrap_row_text(words: &str, width: usize) -> String {
    wrap_with_indent(words, width, INDENT)
}

pub(crate) fn wrap_with_indent(words: &str, width: usize, indent: usize) -> String {
    let gap = format!("\n{}", " ".repeat(indent));
    text::wrap(words, width.saturating_sub(indent).max(20), 0).join(&gap)
}

pub(crate) fn paragraph(out: &mut String, words: &str, width: usize) {
    let _ = writeln!(out, "{}{}", " ".repeat(INDENT), wrap_row_text(words, width));
}
