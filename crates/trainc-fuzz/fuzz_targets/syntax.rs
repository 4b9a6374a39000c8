//! Parses any bytes as a manifest. A valid text must parse alike in the `kdl` crate, and keep its meaning when formatted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainc_diag::Problems;
use trainc_diag::source::SourceId;
use trainc_syntax::{document, edit, format};

/// Returns the document without its layout, or `None` if it has errors.
fn content(text: &str) -> Option<String> {
    let mut problems = Problems::default();
    let document = document::parse(SourceId(0), text, &mut problems);
    for problem in problems.iter() {
        let place = problem.span.start as usize..problem.span.end as usize;
        assert!(text.get(place).is_some(), "a span splits a character: {problem:?}");
    }
    let mut document = document.filter(|_| problems.is_empty())?;
    document.clear_format_recursive();
    Some(document.to_string())
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let before = content(&text);
    assert_eq!(before.is_some(), format::format(&text).is_ok());
    // kdl 6.7 rejects a node after `/-node;`.
    if let Some(before) = before.as_ref().filter(|_| !(text.contains("/-") && text.contains(';'))) {
        let mut theirs = kdl::KdlDocument::parse(&text).expect("kdl rejects it");
        theirs.clear_format_recursive();
        assert_eq!(*before, theirs.to_string(), "kdl parses it differently");
    }
    if let Ok(once) = format::format(&text) {
        assert_eq!(before, content(&once), "formatting changed the content");
        assert_eq!(format::format(&once).as_ref(), Ok(&once), "a second pass changed the format");
    }
    let path = [trainc_diag::NodeStep::by_name("a")];
    let _ = edit::set_property(&text, &path, "k", "1");
    let _ = edit::insert_child(&text, &path, "b 1");
    let _ = edit::remove_node(&text, &path);
});
