//! The style of names and texts: words that are not the whole name of a file, module or type, and phrases that no text
//! for users contains.

use crate::support::{files, files_of_crates, page_files, read};
use regex::{Captures, Regex};

/// Adverbs, participles, prepositions and pronouns: each says nothing to somebody who looks for a file.
const NOT_A_NAME: &[&str] = &[
    "again",
    "beside",
    "beyond",
    "between",
    "carried",
    "elsewhere",
    "furnished",
    "held",
    "heads",
    "instead",
    "keeps",
    "known",
    "meant",
    "next",
    "once",
    "one",
    "open",
    "outside",
    "rest",
    "rests",
    "said",
    "seen",
    "standing",
    "told",
    "turns",
    "typed",
    "unsaid",
    "unsound",
    "wider",
];

/// Phrases that an engineer would not say, each as a regular expression.
const NOT_SAID: &[&str] = &[
    "that is none",
    "of one's own",
    r"\bstands\b",
    r"\bwhoever\b",
    r"\bbeside\b",
    r"\bgoes with\b",
    "judgement of the trade",
    r"\bcomes to\b",
    r"\bnobody\b",
    r"\btold\b",
    r"\bunsaid\b",
    "not to be had",
];

/// Rust sources of all crates, tests included.
fn rust_files() -> Vec<String> {
    files_of_crates(&[".rs"])
}

#[test]
fn names_are_nouns_that_one_would_search_for() {
    let declared =
        Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(?:mod|struct|enum|trait|type|union) ([A-Za-z_0-9]+)")
            .unwrap();
    let mut found = Vec::new();
    for path in rust_files() {
        let stem = path.rsplit('/').next().unwrap().trim_end_matches(".rs");
        let folder = path.rsplit('/').nth(1).unwrap();
        for name in [stem, folder] {
            if NOT_A_NAME.contains(&name) {
                found.push(format!("{path}: `{name}`"));
            }
        }
        for captures in declared.captures_iter(&read(&path)) {
            if NOT_A_NAME.contains(&captures[1].to_lowercase().as_str()) {
                found.push(format!("{path}: `{}`", &captures[1]));
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{} names\n{}", found.len(), found.join("\n"));
}

/// The string literals of a source file outside its unit tests, each with its line.
fn literals(text: &str) -> Vec<(usize, String)> {
    let tests = Regex::new(r"(?s)#\[cfg\(test\)\]\nmod \w+ \{.*?\n\}").unwrap();
    // The lines stay, so that the numbers of those after them do.
    let code = tests.replace_all(text, |tests: &Captures| "\n".repeat(tests[0].matches('\n').count()));
    let code = code.as_ref();
    let literal = Regex::new(r##"(?s)//[^\n]*|'(?:\\.|[^'\\])'|r#"(.*?)"#|"((?:\\.|[^"\\])*)""##).unwrap();
    literal
        .captures_iter(code)
        .filter_map(|captures| {
            let found = captures.get(1).or(captures.get(2))?;
            Some((code[..found.start()].matches('\n').count() + 1, found.as_str().to_owned()))
        })
        .collect()
}

#[test]
fn no_text_for_users_has_a_phrase_of_the_stop_list() {
    let stop = Regex::new(&format!("(?i){}", NOT_SAID.join("|"))).unwrap();
    let mut found = Vec::new();
    let is_test = |path: &str| {
        let is_in = |directory: &str| path.starts_with(directory) || path.contains(&format!("/{directory}"));
        is_in("tests/") || is_in("benches/") || path.ends_with("tests.rs") || path.contains("sample")
    };
    for path in rust_files().into_iter().filter(|path| !is_test(path)) {
        for (line, literal) in literals(&read(&path)) {
            // A word that is looked for or matched, in no sentence, is not shown.
            if literal.contains(' ') && stop.is_match(&literal) {
                found.push(format!("{path}:{line}: {literal}"));
            }
        }
    }
    let documents = page_files()
        .into_iter()
        .chain(files(".", &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]))
        .chain(files("docs", &[".md"]))
        .chain(files("skills", &[".md"]))
        .chain(files("examples", &[".md", ".kdl"]))
        .chain(files("tests/help", &[".snap"]))
        .chain(files("schemas", &[".json", ".kdl"]))
        .chain(files("templates", &[".j2"]))
        .chain(files("crates", &[".toml"]).into_iter().filter(|path| !path.ends_with("Cargo.toml")));
    for path in documents {
        for (at, line) in read(&path).lines().enumerate() {
            if stop.is_match(line) {
                found.push(format!("{path}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{} texts\n{}", found.len(), found.join("\n"));
}
