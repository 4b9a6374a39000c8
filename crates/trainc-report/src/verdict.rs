//! The verdict on a plan in one line: whether it fits, time, cost and the number of problems.

use super::json::Document;
use super::terminal_page::{RED, YELLOW};
use super::{Subject, cost, problems, sections};
use trainc_diag::{Diagnostic, text};
use trainc_ir::Plan;
use trainc_predict::Fit;

/// Returns the verdict and its style. What is not predicted is left out.
pub(super) fn verdict(subject: &Subject, document: &Document, plan: &Plan) -> (&'static str, String) {
    let fit = sections::fit(plan, document);
    let run = &document.run;
    let expected = run.cost_usd.map(|usd| format!("{} expected", text::dollars(usd)));
    let most = cost::max_run_usd(plan).map(|usd| format!("at most {}", text::dollars(usd)));
    let costs: Vec<String> = expected.into_iter().chain(most).collect();
    let all: Vec<&Diagnostic> = subject.problems.iter().collect();
    let parts = [
        fit.map(|fit| fit.as_phrase().to_owned()),
        run.seconds.map(text::rounded_duration),
        (!costs.is_empty()).then(|| costs.join(", ")),
        Some(problems::counts(&all).unwrap_or_else(|| "no problems".to_owned())),
    ];
    (style(fit), parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// Returns the style of a line that says whether the job fits.
pub(super) fn style(fit: Option<Fit>) -> &'static str {
    match fit {
        None | Some(Fit::Surely) => "",
        Some(Fit::Maybe) => YELLOW,
        Some(Fit::Hardly | Fit::Never) => RED,
    }
}
