//! One binary for all tests: what a user sees, from the page of a code to what a whole directory becomes.

mod docs;
mod golden;
mod hostile;
mod house;
mod many;
mod pages;
mod parity;
mod props;
mod refused;
mod schema;
mod support;
mod ui;
