//! Packs the relocations of the binary, so that loading it at a random address stays cheap.
//!
//! The binary's tables contain 110,000 addresses. A position-independent executable relocates each of them at every
//! start; in the packed format (DT_RELR) this takes under a millisecond.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "cargo reads what a build script prints")]

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |key: &str, value: &str| var(key).is_ok_and(|found| found == value);
    // A linker that was chosen may be for an older glibc, as that of cargo-zigbuild.
    let is_native = var("HOST").is_ok_and(|host| var("TARGET").is_ok_and(|target| host == target))
        && var("RUSTC_LINKER").is_err();
    if is("CARGO_CFG_TARGET_OS", "linux") && is_native && glibc_loads_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns whether this machine has glibc 2.36 or newer, the first version that loads DT_RELR. A linker that does not
/// support the format ignores the option with a warning.
fn glibc_loads_packed_relocations() -> bool {
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.'));
    let number = |digits: &str| digits.split('.').next().and_then(|first| first.parse::<u32>().ok());
    version.is_some_and(|(major, minor)| (number(major), number(minor)) >= (Some(2), Some(36)))
}
