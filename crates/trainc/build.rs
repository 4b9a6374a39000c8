//! Links the binary at a fixed place: a cold start is half the time then.
//!
//! The definitions of the AWS SDK hold 70,000 addresses. In an executable that may lie anywhere each of them is written at
//! every start, which touches 400 pages; in one that lies where its addresses say, none is.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "cargo speaks to a build script so")]

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |key: &str, value: &str| var(key).is_ok_and(|found| found == value);
    // Where the linker is called through a C compiler that knows the word.
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
