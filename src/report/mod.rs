//! Reports: plan.json, plan.md and the terminal's plan, all from one plan and its problems.
//!
//! In: a plan, its identity, its problems. Out: text. Decides nothing, computes nothing that the plan has not.

pub mod json;
