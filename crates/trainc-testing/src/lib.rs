//! What the unit tests of several crates share. It depends on no crate of the workspace, so that each of them can use it.

pub mod json_schema;
