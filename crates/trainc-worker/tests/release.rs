//! System requirements of the binary: only the C library, and its minimum version.

use std::process::Command;

use crate::processes::{WORKER, text};

/// Returns the newest C library version in a binary's symbol versions.
fn newest_glibc(binary: &[u8]) -> Option<(u32, u32)> {
    let mark = b"GLIBC_2.";
    let at = binary.windows(mark.len()).enumerate().filter(|(_, found)| found == mark);
    at.filter_map(|(at, _)| {
        let digits = binary[at + mark.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        let minor: String = digits.map(|byte| char::from(*byte)).collect();
        Some((2, minor.parse().ok()?))
    })
    .max()
}

#[test]
fn the_version_of_the_c_library_is_read_from_the_binary() {
    let found = newest_glibc(&std::fs::read(WORKER).unwrap()).unwrap();
    let Ok(dumped) = Command::new("objdump").args(["-T", WORKER]).output() else {
        println!("no objdump here: found {found:?}");
        return;
    };
    let dumped = text(&dumped.stdout);
    let versions = dumped.split("GLIBC_2.").skip(1);
    let versions = versions.filter_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    });
    assert_eq!(Some(found.1), versions.max());
}

/// `just release-worker` sets the path of the binary.
#[test]
fn a_release_runs_in_the_oldest_containers() {
    let Some(path) = std::env::var_os("TRAINC_RELEASED_WORKER") else {
        println!("no release was built: `just release-worker` does, and looks at it");
        return;
    };
    let found = newest_glibc(&std::fs::read(&path).unwrap()).unwrap();
    assert!(found <= (2, 31), "it asks for GLIBC_{}.{}, and ubuntu20.04 has 2.31", found.0, found.1);
    let needs = Command::new("objdump").arg("-p").arg(&path).output().unwrap();
    let needs = text(&needs.stdout);
    let libraries: Vec<&str> =
        needs.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(str::trim).collect();
    let own = [
        "libc.so.6",
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
    ];
    assert!(!libraries.is_empty() && libraries.iter().all(|library| own.contains(library)), "{libraries:?}");
    assert!(Command::new(&path).arg("--version").status().unwrap().success());
}
