//! One binary for all tests.

mod docs;
