//! The lines below a list of layouts: the dates of their prices, the most that they can cost, what is billed
//! afterwards.

use std::fmt::Write as _;
use trainc_diag::markdown::escape_cell;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_ir::price::describe_origins;
use trainc_plan::Compiled;
use trainc_predict::bills::max_cost;
use trainc_report::after_end;

/// Describes the costs of the rows of a list: the dates of the prices, the most that each can cost until
/// max-run, and what is billed after the end of the first. Today is in days since 1970.
pub(super) fn describe_costs(rows: &[&Compiled], today: Option<i64>) -> Vec<String> {
    let plans = rows.iter().filter_map(|row| row.plan.as_deref());
    let dates = describe_origins(plans.flat_map(Plan::instance_prices), today);
    let mut out: Vec<String> = dates.into_iter().map(|dates| format!("costs by the {dates}")).collect();
    let bound = |row: &&Compiled| {
        let plan = row.plan.as_deref()?;
        let seconds = plan.job.cluster.as_ref()?.max_run_seconds.get()?;
        Some((max_cost(plan, seconds as f64).most_usd()?, seconds))
    };
    let bounds: Vec<(f64, u64)> = rows.iter().map_while(bound).collect();
    // All rows have the max-run of the manifest.
    if let Some((_, seconds)) = bounds.first().filter(|_| bounds.len() == rows.len()) {
        let each: Vec<String> = (1..)
            .zip(&bounds)
            .map(|(number, (usd, _))| format!("{} ({number})", text::dollars(*usd)))
            .collect();
        out.push(format!("at most {} for {}", text::list(&each, "and"), text::duration(*seconds)));
    }
    if let Some((row, plan)) = rows.first().and_then(|row| Some((row, row.plan.as_deref()?))) {
        let billed = after_end::describe(&after_end::after_end(plan, &row.prediction), today);
        out.extend(billed.iter().map(|line| format!("after the end: {line}")));
    }
    out
}

/// Writes the costs below a list.
pub(super) fn write_costs(out: &mut String, costs: &[String], width: usize) {
    if !costs.is_empty() {
        out.push('\n');
    }
    for line in costs {
        let _ = writeln!(out, "{}", text::wrap(line, width.max(20), 0).join("\n"));
    }
}

/// Writes the costs below a table of a comment.
pub(super) fn write_costs_as_markdown(out: &mut String, costs: &[String]) {
    for line in costs {
        let _ = write!(out, "\n{}.\n", escape_cell(&text::capitalized(line)));
    }
}
