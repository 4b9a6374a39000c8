//! The rules over a plan: what AWS, the SDK, the container or PyTorch would reject later, and what costs
//! money.
//!
//! [`compile`] is the whole pipeline from the text of a manifest to a checked plan.
//!
//! In: a bound plan and today's date. Out: problems. A rule checks the values that are known; the others are
//! reported already. [`superseded`] removes problems that others cover, and `allow` silences warnings at the
//! end.

mod across_jobs;
mod allow;
mod compile;
mod file_values;
mod preferred_types;
mod queries;
pub mod rules;
mod shared_codes;
mod superseded;
mod supported_types;
mod what_if;

pub use across_jobs::{JobSummary, check_across_jobs};
/// The codes of the rules and of the other checks by their ID, for `supersedes` and for later stages.
pub mod codes {
    pub use crate::across_jobs::T0142;
    pub use crate::allow::*;
    pub use crate::rules::codes::*;
    pub use crate::shared_codes::*;
}

pub use allow::is_date;
pub use compile::compile;
pub use supported_types::can_run_on;

use queries::prices::describe_price_sources;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Code, Problems};
use trainc_ir::Plan;
use trainc_ir::date::epoch_days;
use trainc_plan::Options;
use trainc_predict::Constants;

/// The input of a rule.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The plan, with all placeholders replaced.
    pub plan: &'a Plan,
    /// Today, as an ISO date.
    pub today: &'a str,
    /// The texts, to point into a string.
    pub sources: &'a SourceMap,
    /// Whether the plan must have everything that an artefact needs (`emit`, `apply`).
    pub complete: bool,
    /// Whether an account of AWS is asked.
    pub asks_account: bool,
    /// Constants of the cost model.
    pub constants: &'a Constants,
    /// Prices from the command line: instance type and US dollars per hour.
    pub prices: &'a [(String, f64)],
    /// A discount from the command line, a fraction.
    pub discount: Option<f64>,
    /// The rules that an edited plan has to pass.
    pub what_if_rules: &'a [rules::Group],
}

impl Context<'_> {
    /// Returns today in days since 1970; `None` without a valid date.
    pub(crate) fn today_in_days(&self) -> Option<i64> {
        epoch_days(self.today)
    }

    /// Returns whether the source has exactly this text at a place. If not, a placeholder was replaced, and a
    /// fix made from the text would lose it.
    pub(crate) fn is_literal(&self, span: Span, text: &str) -> bool {
        self.sources.slice(span) == format!("\"{text}\"")
    }
}

/// A rule: one situation, or a few that share their facts.
pub type Rule = fn(&Context, &mut Problems);

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    [across_jobs::CODES.to_vec(), allow::CODES.to_vec(), preferred_types::CODES.to_vec(), rules::codes()]
        .concat()
}

/// Returns the codes of every stage from the text to the checks.
pub fn codes_of_compile() -> Vec<&'static Code> {
    [trainc_syntax::codes(), trainc_plan::codes(), codes(), trainc_emit::codes()].concat()
}

/// Runs every rule, then removes superseded and allowed problems.
pub fn check(plan: &Plan, options: &Options, sources: &SourceMap, problems: &mut Problems) {
    let constants = options.constants.as_ref().unwrap_or_else(|| Constants::shipped());
    let context = Context {
        plan,
        today: &options.today,
        sources,
        complete: options.complete,
        asks_account: options.asks_account,
        constants,
        prices: &options.prices,
        discount: options.discount,
        what_if_rules: rules::WHAT_IF_RULES,
    };
    for groups in [rules::WHAT_IF_RULES, rules::TRYING_RULES] {
        rules::run(groups, &context, problems);
    }
    superseded::remove(problems);
    file_values::point_to_files(plan, problems);
    // Users know the date of their own price.
    if plan.instance_prices().any(|price| price.date.is_some()) {
        let today = context.today_in_days();
        problems.add_price_sources(&describe_price_sources(plan.instance_prices(), today));
    }
    allow::apply_allows(&context, options.later_codes, problems);
}
