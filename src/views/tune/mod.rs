//! What `tune` prints, and the chart of its page.

pub(crate) mod chart;
mod costs;
pub(crate) mod document;
mod figures;
pub(crate) mod output;
mod rows;
pub(crate) mod untimed;
pub(crate) mod written;
