//! trainc: a compiler for training jobs.
//!
//! ```text
//! text --syntax--> ast --resolve--> ir::Job --plan--> ir::Plan --bind--> ir::Plan --check--> Problems
//! ir::Plan --emit--> Bundle        Plan, Problems --report--> plan.json, plan.md, terminal
//! ```

pub mod cli;
pub mod diag;
pub mod source;
pub mod syntax;
pub mod text;
