//! Conventions of the repository: which crates touch files and clock, unused files, documents, the style of messages.

use crate::support::{
    Memory, compile_in, files, files_of_crates, has_job, options, over_base, page_files, read, root, sources,
};

/// The rooms that touch files, environment, clock, network and terminal.
const ROOMS: &[&str] = &[
    "src/",
    "crates/trainc-aws/src/",
    "crates/trainc-data/src/document_reader.rs",
    "crates/trainc-data/src/fence.rs",
    "crates/trainc-data/src/packing.rs",
    "crates/trainc-data/src/reading_process.rs",
    "crates/trainc-data/src/shard_writer.rs",
    "crates/trainc-import/src/destination.rs",
    "crates/trainc-import/src/script.rs",
    "crates/trainc-ops/src/accounts.rs",
    "crates/trainc-project/src/",
];

/// Without what only tests have.
fn code_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap();
    if name == "tests.rs"
        || name.ends_with("_tests.rs")
        || matches!(name, "sample.rs" | "samples.rs" | "testing.rs" | "refused.rs")
    {
        return String::new();
    }
    let mut out = String::new();
    let mut lines = read(path).lines().map(str::to_owned).collect::<Vec<_>>().into_iter().peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let next = lines.peek().cloned().unwrap_or_default();
            if next.trim_start().starts_with("mod ") && next.trim_end().ends_with(';') {
                lines.next();
                continue;
            }
            // Tests stand last in their file.
            break;
        }
        let bare = line.trim_start();
        if !bare.starts_with("//") {
            out.push_str(&line);
        }
        out.push('\n');
    }
    out
}

#[test]
fn only_the_rooms_touch_the_world() {
    let mut faults = Vec::new();
    for path in sources() {
        let in_room = ROOMS.iter().any(|room| path.starts_with(room));
        for (at, line) in code_of(&path).lines().enumerate() {
            let touches = [
                "std::fs",
                "std::env::",
                "std::net",
                "std::time::SystemTime",
                "std::time::Instant",
                "std::process",
                "std::thread",
            ];
            if !in_room && touches.iter().any(|name| line.contains(name)) {
                faults.push(format!("{path}:{}: {}", at + 1, line.trim()));
            }
            if !path.starts_with("src/")
                && ["println!", "eprintln!", " print!", " dbg!"].iter().any(|name| line.contains(name))
            {
                faults.push(format!("{path}:{}: {}", at + 1, line.trim()));
            }
            // Their order is not the same from run to run.
            if ["HashMap", "HashSet"].iter().any(|name| line.contains(name)) {
                faults.push(format!("{path}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_source_file_says_what_it_is() {
    let silent: Vec<String> = sources()
        .into_iter()
        .filter(|path| {
            let text = read(path);
            !(path.ends_with("/tests.rs") || text.is_empty() || text.starts_with("//!"))
        })
        .collect();
    assert!(silent.is_empty(), "no `//!` line in {}", silent.join(", "));
}

#[test]
fn no_file_knows_the_machine_that_it_was_written_on() {
    let signs =
        [concat!("/wo", "rk/"), concat!("..", "/shared"), concat!("/ho", "me/"), concat!("/ro", "ot/")];
    let endings = [
        ".rs", ".md", ".toml", ".kdl", ".py", ".json", ".j2", ".yml", ".yaml", ".sh", ".txt", ".snap",
        ".jsonl", "justfile",
    ];
    let mut faults = Vec::new();
    for path in files(".", &endings) {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (at, line) in text.lines().enumerate() {
            if let Some(sign) = signs.iter().find(|sign| line.contains(*sign)) {
                faults.push(format!("{path}:{}: `{sign}`", at + 1));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// ARCHITECTURE.md, CONTRIBUTING.md and the other documents of the root name no file that moved away. `x` is a
/// placeholder.
#[test]
fn paths_in_documents_exist() {
    let path =
        regex::Regex::new(r"`((?:src|crates|templates|tests|benches|documents|examples|docs|schemas|packaging|\.github|\.ci|\.config)/[^`\s]*)`")
            .unwrap();
    let mut missing = Vec::new();
    for document in files(".", &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]) {
        if document.contains('/') {
            continue;
        }
        for captures in path.captures_iter(&read(&document)) {
            let is_placeholder = captures[1].contains("/x.") || captures[1].contains("xxx");
            if !is_placeholder && !root().join(&captures[1]).exists() {
                missing.push(format!("{document}: {}", &captures[1]));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// A tag can be moved to other code, a commit cannot.
#[test]
fn workflows_name_actions_and_trainc_by_commit() {
    let action = regex::Regex::new(r"uses: \S+@[0-9a-f]{40} # v\d").unwrap();
    let mut uses = 0;
    for path in [".github", "examples/gitops"].iter().flat_map(|dir| files(dir, &[".yml"])) {
        for line in read(&path).lines() {
            if line.contains("uses:") {
                assert!(action.is_match(line), "{path}: {line}");
                uses += 1;
            }
            let installs = line.contains("cargo install") && line.trim_end().ends_with(" trainc");
            assert!(!installs || line.contains("--locked --git") && line.contains("--rev"), "{path}: {line}");
        }
    }
    assert!(uses > 5, "{uses}");
}

#[test]
fn every_template_is_used() {
    let code: String = sources().iter().map(|path| read(path)).collect();
    let templates = files("templates", &[""]);
    for path in &templates {
        assert!(code.contains(&format!("../{path}")), "no code uses {path}");
    }
    assert!(templates.len() > 5, "{templates:?}");
}

#[test]
fn no_forgotten_pictures_of_unit_tests() {
    let code: String = sources().iter().map(|path| read(path)).collect();
    for path in files("crates", &[".snap"]) {
        let name = path.rsplit("__").next().unwrap().trim_end_matches(".snap");
        // `name-2` is the second picture of one test.
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        assert!(code.contains(name), "no test makes {path}");
    }
    assert!(
        files("crates", &[".pending-snap", ".snap.new"]).is_empty(),
        "pictures that nobody has looked at"
    );
}

#[test]
fn fixtures_are_used() {
    let users: String = files("tests", &[".kdl", ".py", ".sh"])
        .into_iter()
        .chain(page_files())
        .chain(files_of_crates(&[".rs"]))
        .map(|path| read(&path))
        .collect();
    for path in files("tests/fixtures", &[".kdl", ".json"]) {
        let name = path.rsplit('/').next().unwrap();
        assert!(users.contains(name), "nothing uses {path}");
    }
}

/// The blocks of KDL in a document, each with its line and its tags.
fn kdl_blocks(text: &str) -> Vec<(usize, Vec<String>, String)> {
    let mut out: Vec<(usize, Vec<String>, String)> = Vec::new();
    let mut open = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(tags) = line.trim_start().strip_prefix("```") {
            open = if open.is_none() { Some(tags.starts_with("kdl")) } else { None };
            if open == Some(true) {
                out.push((
                    at + 1,
                    tags.split_whitespace().skip(1).map(str::to_owned).collect(),
                    String::new(),
                ));
            }
        } else if open == Some(true) {
            let block = out.last_mut().unwrap();
            block.2.push_str(line);
            block.2.push('\n');
        }
    }
    out
}

#[test]
fn manifests_in_documents_compile() {
    let mut documents: Vec<String> = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"]
        .iter()
        .filter(|path| root().join(path).exists())
        .map(|path| (*path).to_owned())
        .collect();
    // tests/language.rs compiles the examples of that page, each over the job that it is for.
    documents.extend(files("docs", &[".md"]).into_iter().filter(|path| path != "docs/language.md"));
    documents.extend(files("examples", &[".md"]));
    documents.extend(files("skills", &[".md"]));
    let mut faults = Vec::new();
    for path in documents {
        for (line, tags, text) in kdl_blocks(&read(&path)) {
            let has = |tag: &str| tags.iter().any(|other| other == tag);
            let mut world = Memory::default();
            let whole = if has("layer") {
                world = world.with("layer.kdl", &text);
                "extends \"base.kdl\"\nextends \"layer.kdl\"\njob \"example\" {\n}\n".to_owned()
            } else if has_job(&text) {
                text
            } else {
                over_base(&text)
            };
            let outcome = compile_in(world, "block.kdl", &whole, &options(""));
            let failed = outcome.compiled.problems.errors() > 0;
            if failed != has("must-fail") {
                faults.push(format!(
                    "{path}:{line}: {}\n{}",
                    if failed { "has errors" } else { "has no error" },
                    outcome.lines()
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// How often one idea is said in several rooms: the counts of `tests/house_counts.py` may only fall.
#[test]
fn counts_are_within_their_limits() {
    let script = root().join("tests/house_counts.py");
    let out = std::process::Command::new("python3").arg(&script).arg("--check").output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
