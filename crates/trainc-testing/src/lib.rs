//! Helpers of the unit tests of several crates. Does not depend on other crates of the workspace, so that all can use it.

pub mod json_schema;
