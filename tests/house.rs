//! The house: who may import whom, what only the command line touches, and nothing that nobody uses.

use crate::support::{Memory, compile_in, files, has_job, options, over_base, read, root};
use std::collections::{BTreeMap, BTreeSet};

/// Which modules a module may import. A test holds the table of ARCHITECTURE.md equal.
const IMPORTS: &[(&str, &[&str])] = &[
    ("source", &[]),
    ("text", &[]),
    ("diag", &["source", "text"]),
    ("ir", &["source", "text"]),
    ("catalog", &["ir"]),
    ("syntax", &["source", "diag", "text"]),
    ("resolve", &["source", "syntax", "ir", "diag", "text"]),
    ("predict", &["source", "ir", "catalog", "text"]),
    // Of `resolve` only the faults that the caller's world gives.
    ("plan", &["source", "resolve", "ir", "catalog", "diag", "text", "predict"]),
    ("bind", &["source", "ir", "catalog", "diag", "text", "predict"]),
    // Of `emit` the final text: what the request will hold is what the limits are about. Of `syntax` the edits that
    // mend what prediction finds.
    ("check", &["source", "ir", "catalog", "predict", "diag", "text", "plan", "emit", "syntax", "Options"]),
    ("emit", &["source", "ir", "catalog", "diag", "text"]),
    ("tune", &["source", "ir", "catalog", "diag", "text", "plan", "predict", "check", "syntax"]),
    ("compare", &["source", "syntax", "ir", "predict"]),
    // Of `apply` the job as the service describes it.
    ("measure", &["ir", "predict", "apply", "text"]),
    ("calibrate", &["source", "ir", "catalog", "diag", "text", "plan", "predict"]),
    ("apply", &["source", "ir", "emit", "catalog", "diag", "text"]),
    (
        "report",
        &[
            "source", "ir", "catalog", "predict", "compare", "measure", "diag", "text", "plan", "emit",
            "apply",
        ],
    ),
    // Of `syntax` the names of an engine's nodes, of `emit` the encodings that it takes back.
    ("import", &["source", "ir", "catalog", "emit", "syntax", "diag", "text"]),
    ("data", &["source", "diag", "text"]),
    ("aws", &["apply", "ir", "emit"]),
    // Of `report` where values come from.
    ("lsp", &["source", "syntax", "catalog", "diag", "report", "Compiled"]),
];

/// Of everybody: the macro that declares a code.
const FREE: &[&str] = &["declare_code"];

/// The rooms that touch files, environment, clock, network and terminal.
const ROOMS: &[&str] = &["src/cli/", "src/aws/", "src/main.rs"];

/// Files of more than 400 lines without tests, the most they may have, and why they are one thing.
const LONG: &[(&str, usize, &str)] = &[
    ("src/ir/job.rs", 820, "plain data: the whole language, resolved"),
    ("src/plan/mesh.rs", 510, "one layout with its problems"),
    ("src/resolve/nodes.rs", 440, "one function for each noun"),
    ("src/syntax/lex.rs", 700, "one automaton"),
    ("src/syntax/read.rs", 520, "one walk over a document"),
    ("src/syntax/tree.rs", 760, "one reader of tokens"),
];

fn sources() -> Vec<String> {
    files("src", &[".rs"])
}

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

fn module_of(path: &str) -> &str {
    path.trim_start_matches("src/").split('/').next().unwrap().trim_end_matches(".rs")
}

/// The names behind `crate::` in a text: `crate::diag::Code`, `use crate::{Options, compile}`.
fn imported(code: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with('$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let list = match rest.strip_prefix('{') {
            Some(inside) => inside.split(['}', ';']).next().unwrap_or(""),
            None => rest,
        };
        let count = if rest.starts_with('{') { usize::MAX } else { 1 };
        for item in list.split(',').take(count) {
            let name: String =
                item.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !name.is_empty() {
                out.insert(name);
            }
        }
    }
    out
}

#[test]
fn modules_import_what_the_table_says() {
    let table: BTreeMap<&str, &[&str]> = IMPORTS.iter().copied().collect();
    let mut faults = Vec::new();
    for path in sources() {
        let module = module_of(&path);
        // The command line and the pipeline itself see everything.
        if matches!(module, "cli" | "lib" | "main" | "testing") {
            continue;
        }
        let Some(allowed) = table.get(module) else {
            faults.push(format!("{path}: module `{module}` is not in the table"));
            continue;
        };
        for name in imported(&code_of(&path)) {
            if name != module && !FREE.contains(&name.as_str()) && !allowed.contains(&name.as_str()) {
                faults.push(format!("{path}: `{module}` imports `{name}`"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The table of ARCHITECTURE.md: each module with what it may import. Words in parentheses say why.
fn table_of_architecture() -> BTreeMap<String, BTreeSet<String>> {
    let text = read("ARCHITECTURE.md");
    let rows = text.split("| module | may import |").nth(1).expect("ARCHITECTURE.md has no import table");
    let mut out = BTreeMap::new();
    for row in rows.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [modules, imports] = cells[..] else { panic!("not two cells: {row}") };
        // `why (a, b)` holds commas of its own.
        let mut bare = String::new();
        let mut depth = 0_i32;
        for c in imports.chars() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if depth == 0 && c != ')' {
                bare.push(c);
            }
        }
        let names: BTreeSet<String> = bare
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !matches!(name.as_str(), "" | "–"))
            .collect();
        for module in modules.split(',') {
            out.insert(module.trim().to_owned(), names.clone());
        }
    }
    out
}

#[test]
fn architecture_shows_the_same_table() {
    let is_module = |name: &str| {
        root().join(format!("src/{name}.rs")).exists() || root().join(format!("src/{name}")).exists()
    };
    let mut written = table_of_architecture();
    let everything = written.remove("cli").map(|words| words.into_iter().collect::<Vec<_>>().join(", "));
    assert!(everything.is_some_and(|words| words.starts_with("everything")), "cli imports everything");
    // Modules that are not there yet, and items of the crate's root, stand only in the table above.
    let held: BTreeMap<String, BTreeSet<String>> = IMPORTS
        .iter()
        .filter(|(module, _)| is_module(module))
        .map(|(module, names)| {
            let names = names.iter().filter(|name| is_module(name)).map(|name| (*name).to_owned());
            ((*module).to_owned(), names.collect())
        })
        .collect();
    assert_eq!(written, held, "ARCHITECTURE.md (left) and IMPORTS (right)");
}

#[test]
fn the_flow_has_no_circle() {
    let order: Vec<&str> = IMPORTS.iter().map(|(module, _)| *module).collect();
    for (module, allowed) in IMPORTS {
        for name in allowed.iter().filter(|name| order.contains(name)) {
            let mut open = vec![*name];
            let mut seen = BTreeSet::new();
            while let Some(next) = open.pop() {
                assert_ne!(next, *module, "{module} imports itself through {name}");
                if seen.insert(next) {
                    let further =
                        IMPORTS.iter().find(|(other, _)| other == &next).map_or(&[][..], |(_, list)| list);
                    open.extend(further.iter().filter(|name| order.contains(name)));
                }
            }
        }
    }
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
            if !path.starts_with("src/cli/")
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
fn files_hold_one_thing_and_say_which() {
    let mut faults = Vec::new();
    for path in sources() {
        let text = read(&path);
        let is_tests = path.ends_with("/tests.rs") || text.is_empty();
        if !is_tests && !text.starts_with("//!") {
            faults.push(format!("{path}: does not say what it is (`//!`)"));
        }
        let lines = code_of(&path).lines().count();
        let most = LONG.iter().find(|(long, _, _)| *long == path).map_or(400, |(_, most, _)| *most);
        if lines > most {
            faults.push(format!("{path}: {lines} lines without tests, at most {most}"));
        }
    }
    for (path, _, reason) in LONG {
        assert!(root().join(path).exists() && !reason.is_empty(), "{path}");
        if code_of(path).lines().count() <= 400 {
            faults.push(format!("{path} is no longer long: take it off the list"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
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

#[test]
fn every_template_is_used() {
    let code: String = sources().iter().map(|path| read(path)).collect();
    for path in files("templates", &[".j2", ""]) {
        let name = path.trim_start_matches("templates/");
        assert!(code.contains(name), "no code uses the template {name}");
    }
}

#[test]
fn no_forgotten_pictures_of_unit_tests() {
    let code: String = sources().iter().map(|path| read(path)).collect();
    for path in files("src", &[".snap"]) {
        let name = path.rsplit("__").next().unwrap().trim_end_matches(".snap");
        // `name-2` is the second picture of one test.
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        assert!(code.contains(name), "no test makes {path}");
    }
    assert!(files("src", &[".pending-snap", ".snap.new"]).is_empty(), "pictures that nobody has looked at");
}

#[test]
fn fixtures_are_used() {
    let users: String = ["tests/ui", "src/diag/codes", "tests/fixtures"]
        .iter()
        .flat_map(|dir| files(dir, &[".kdl", ".md"]))
        .chain(files("tests", &[".rs"]))
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
    documents.extend(files("docs", &[".md"]));
    documents.extend(files("examples", &[".md"]));
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

/// A changelog that shows a message shows the one that there is: each message and help of its blocks that must fail.
#[test]
fn the_changelog_quotes_what_is_said() {
    let text = read("CHANGELOG.md");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = 0;
    for (line, tags, block) in kdl_blocks(&text) {
        if !tags.iter().any(|tag| tag == "must-fail") {
            continue;
        }
        let outcome = compile_in(Memory::default(), "block.kdl", &over_base(&block), &options(""));
        for problem in outcome.sharp() {
            let message = format!("{}[{}]: {}", problem.severity.word(), problem.code.id, problem.message);
            for words in std::iter::once(message).chain(problem.help.clone()) {
                assert!(flat.contains(&words), "CHANGELOG.md:{line} does not say: {words}");
                shown += 1;
            }
        }
    }
    assert!(shown > 0);
}

#[test]
fn words_of_problems_are_fragments() {
    // Names that are written with a capital letter wherever they stand.
    let names = [
        "PyTorch",
        "SageMaker",
        "SMP",
        "SMDDP",
        "AWS",
        "FSx",
        "EFA",
        "S3",
        "GPU",
        "Lustre",
        "IAM",
        "EBS",
        "Hugging",
        "Python",
        "NCCL",
        "MPI",
        "KMS",
        "VPC",
        "Trainium",
        "Neuron",
        "Adam",
        "LoRA",
        "QLoRA",
        "CUDA",
        "Debugger",
        "KDL",
        "UTF-8",
        "DLC",
        "Spot",
        "Amazon",
        "Weights",
    ];
    let mut faults = BTreeSet::new();
    for path in files("tests/ui", &[".kdl"]) {
        let text = read(&path);
        let whole = if has_job(&text) { text.clone() } else { over_base(&text) };
        let flags = text.lines().nth(1).and_then(|line| line.strip_prefix("// args:")).unwrap_or("");
        let outcome = compile_in(Memory::default(), "fixture.kdl", &whole, &options(flags));
        for problem in outcome.compiled.problems.iter() {
            let label = (!problem.label.is_empty()).then_some(problem.label.as_str());
            let labels = problem.labels.iter().map(|label| label.text.as_str());
            for words in std::iter::once(problem.message.as_str())
                .chain(label)
                .chain(labels)
                .chain(problem.help.as_deref())
                .chain(problem.notes.iter().map(String::as_str))
            {
                let first = words.split_whitespace().next().unwrap_or("");
                let capital = first.chars().next().is_some_and(char::is_uppercase);
                let is_code = first.starts_with("T0");
                let known = is_code
                    || names.iter().any(|name| first.starts_with(name))
                    || first.chars().filter(|c| c.is_uppercase()).count() > 1;
                if capital && !known {
                    faults.insert(format!("{}: `{words}` begins with a capital letter", problem.code.id));
                }
                if words.ends_with('.') && !words.ends_with("etc.") {
                    faults.insert(format!("{}: `{words}` ends with a full stop", problem.code.id));
                }
                if words.contains("  ") || words.trim() != words || words.is_empty() {
                    faults.insert(format!("{}: `{words}` has stray blanks", problem.code.id));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.into_iter().collect::<Vec<_>>().join("\n"));
}
