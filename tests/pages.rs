//! Every code has its page, in one shape. The manifests on the pages are cases of the suite.

use crate::cases::{Block, blocks};
use crate::support::{Memory, compile_in, options, over_base, page_files, read, sources};
use std::collections::BTreeSet;

/// What is wrong with a page, one line each.
fn faults(code: &trainc_diag::Code) -> Vec<String> {
    let page = code.page;
    let mut faults = Vec::new();
    let first = format!("# {} {}", code.id, code.name);
    if page.lines().next() != Some(first.as_str()) {
        faults.push(format!("the first line is not `{first}`"));
    }
    let headings: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
    if headings != ["## Why", "## Wrong", "## Right"] {
        faults.push(format!("headings are {headings:?}, not Why, Wrong, Right"));
        return faults;
    }
    let lead = page.lines().skip(1).find(|line| !line.is_empty()).unwrap_or("");
    if lead.starts_with('#') || !lead.ends_with(['.', ':']) {
        faults.push("no sentence says what it is".to_owned());
    }
    for (section, text) in sections(page) {
        if text.trim().is_empty() {
            faults.push(format!("`{section}` is empty"));
        }
    }
    let blocks = blocks(page);
    for (section, wanted) in [("Wrong", true), ("Right", false)] {
        let here: Vec<&Block> = blocks.iter().filter(|block| block.section == section).collect();
        if here.is_empty() {
            faults.push(format!("no block under `{section}`"));
        }
        for block in here {
            match block.tags.as_slice() {
                ["kdl", rest @ ..] if rest.contains(&"must-fail") != wanted => {
                    let verb = if wanted { "lacks" } else { "has" };
                    faults.push(format!("a block under `{section}` {verb} `must-fail`"));
                }
                ["kdl", ..] | ["console"] => {}
                other => faults.push(format!("a block of {other:?} under `{section}`")),
            }
        }
    }
    faults
}

fn sections(page: &str) -> Vec<(&str, &str)> {
    page.split("\n## ").skip(1).filter_map(|part| part.split_once('\n')).collect()
}

#[test]
fn every_page_has_the_shape() {
    let mut all = Vec::new();
    for code in trainc::codes() {
        for fault in faults(code) {
            all.push(format!("{} {}: {fault}", code.id, code.name));
        }
    }
    assert!(all.is_empty(), "{} faults\n{}", all.len(), all.join("\n"));
}

#[test]
fn codes_are_unique_and_well_formed() {
    let codes = trainc::codes();
    let mut seen = BTreeSet::new();
    for code in codes {
        assert!(seen.insert(code.id), "{} is declared twice", code.id);
        assert!(seen.insert(code.name), "the name {} is declared twice", code.name);
        assert!(
            code.id.len() == 5
                && code.id.starts_with('T')
                && code.id.get(1..).unwrap().bytes().all(|b| b.is_ascii_digit()),
            "{}",
            code.id
        );
        assert!(
            code.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "{}",
            code.name
        );
        assert!(
            !code.summary.ends_with('.') && !code.summary.is_empty(),
            "{}: the summary is a fragment",
            code.id
        );
    }
}

#[test]
fn every_page_belongs_to_a_code_and_every_declared_code_is_listed() {
    let codes: BTreeSet<String> = trainc::codes().iter().map(|code| code.id.to_owned()).collect();
    let pages: BTreeSet<String> = page_files()
        .iter()
        .map(|path| path.rsplit('/').next().unwrap().trim_end_matches(".md").to_owned())
        .collect();
    assert_eq!(pages.difference(&codes).collect::<Vec<_>>(), Vec::<&String>::new(), "pages without a code");
    assert_eq!(codes.difference(&pages).collect::<Vec<_>>(), Vec::<&String>::new(), "codes without a page");
    for code in trainc::codes() {
        assert_eq!(read(&code.page_path()), code.page, "{}", code.id);
    }
    for path in sources() {
        if path == "crates/trainc-diag/src/code.rs" || path == "crates/trainc-diag/src/samples.rs" {
            continue;
        }
        for (_, rest) in read(&path)
            .match_indices("declare_code!(")
            .map(|(at, found)| (at, read(&path)[at + found.len()..].to_owned()))
        {
            let id = rest.split(',').next().unwrap().trim();
            // Not the macro itself, nor words about it.
            if id.len() == 5 && id.starts_with('T') {
                assert!(codes.contains(id), "{path} declares {id}, which `codes()` does not list");
            }
        }
    }
}

/// The page of T0230 is the list of values that users read.
#[test]
fn the_page_of_placeholders_names_every_value() {
    let page = read("crates/trainc-plan/src/codes/T0230.md");
    let mut groups = 0;
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let group = row.split('`').nth(1).unwrap();
        let text = over_base(&format!("output s3=\"s3://example-runs/{{{{ {group}.zzzzzzzz }}}}/\""));
        let outcome = compile_in(Memory::default(), "x.kdl", &text, &options(""));
        let problem = outcome.sharp().find(|d| d.code.id == "T0230").unwrap();
        // One value alone is a help, several are a note.
        let said = problem
            .notes
            .iter()
            .map(trainc_diag::Note::as_str)
            .chain(problem.help.as_deref())
            .collect::<Vec<_>>()
            .join(", ");
        for path in said.split([' ', ',', ':']).filter_map(|word| word.strip_prefix(&format!("{group}."))) {
            assert!(row.contains(&format!("`{path}`")), "{group}.{path} is not on the page");
        }
        assert!(said.contains(&format!("{group}.")), "{group}: {said}");
        groups += 1;
    }
    assert_eq!(groups, 11);
}

#[test]
fn every_rule_has_its_source_and_its_day() {
    let active: BTreeSet<&str> = trainc::codes()
        .iter()
        .filter(|code| code.status == trainc_diag::Status::Active)
        .map(|code| code.id)
        .collect();
    let rows: Vec<&str> = trainc_catalog::rules::codes().collect();
    let known: BTreeSet<&str> = rows.iter().copied().collect();
    assert_eq!(rows.len(), known.len(), "a row is there twice");
    assert!(known.is_subset(&active), "a row without a rule");
    for code in trainc::codes().iter().filter(|code| active.contains(code.id)) {
        let row = trainc_catalog::rules::get(code.id);
        let page = trainc_diag::page::rule_source(code.page);
        let in_row = row.as_ref().is_some_and(|row| row.source.is_some());
        assert!(page.is_some() != in_row, "{}: one source, in the page or in the row", code.id);
        let dated = page.and_then(|page| page.1);
        assert!(
            dated.is_some() != row.is_some(),
            "{}: one date: `(read YYYY-MM-DD)`, or in the row",
            code.id
        );
        let date = dated.or(row.map(|row| row.date.clone())).unwrap();
        let digits: Vec<usize> = date.split('-').map(str::len).collect();
        assert_eq!(digits, [4, 2, 2], "{}: {date}", code.id);
    }
}
