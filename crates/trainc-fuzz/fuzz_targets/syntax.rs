//! Reads any bytes as a manifest; what reads without a mistake must read alike in the `kdl` crate, and say the
//! same after it was laid out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainc_diag::Problems;
use trainc_diag::source::SourceId;
use trainc_syntax::{document, edit, format};

/// The document without its layout, or nothing if there are mistakes.
fn said(text: &str) -> Option<String> {
    let mut problems = Problems::default();
    let document = document::parse(SourceId(0), text, &mut problems);
    for problem in problems.iter() {
        let place = problem.span.start as usize..problem.span.end as usize;
        assert!(text.get(place).is_some(), "a span cuts a character: {problem:?}");
    }
    let mut document = document.filter(|_| problems.is_empty())?;
    document.clear_format_recursive();
    Some(document.to_string())
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let before = said(&text);
    assert_eq!(before.is_some(), format::format(&text).is_ok());
    // kdl 6.7 refuses a node behind `/-node;`.
    if let Some(before) = before.as_ref().filter(|_| !(text.contains("/-") && text.contains(';'))) {
        let mut theirs = kdl::KdlDocument::parse(&text).expect("only we accept it");
        theirs.clear_format_recursive();
        assert_eq!(*before, theirs.to_string(), "kdl reads it otherwise");
    }
    if let Ok(once) = format::format(&text) {
        assert_eq!(before, said(&once), "the layout changed what the text says");
        assert_eq!(format::format(&once).as_ref(), Ok(&once), "a second pass changed the layout");
    }
    let path = [edit::PathStep::named("a")];
    let _ = edit::set_property(&text, &path, "k", "1");
    let _ = edit::insert_child(&text, &path, "b 1");
    let _ = edit::remove_node(&text, &path);
});
