//! What commands print of the outcome of an operation.

pub(crate) mod account;
pub(crate) mod bill;
pub(crate) mod comparison;
pub(crate) mod data;
pub(crate) mod html_report;
pub(crate) mod import;
pub(crate) mod invalid_rows;
pub(crate) mod removal;
pub(crate) mod tune;
