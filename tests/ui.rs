//! Fixtures: small manifests, each with the codes it must give, and a picture of what the user sees.
//!
//! `tests/ui/<CODE>/<name>.kdl`. The first line is `// expect:` and the codes of severity warning or error, one for
//! each occurrence, or `none`. A second line `// args:` gives flags. Without a `job` the nodes are laid over
//! `tests/fixtures/base.kdl`; with `// alone` as the next line the text is compiled as it stands.

use crate::support::{Memory, Outcome, compile_in, files, has_job, human, options, over_base, read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use trainc_diag::{Diagnostic, Ends, Problems, Severity};

/// Codes that no text alone can show, and the test that shows them.
const SHOWN_ELSEWHERE: &[(&str, &str)] = &[
    ("T0107", "hostile: a file of 10 MB"),
    ("T0108", "hostile: a hundred thousand braces"),
    ("T0111", "hostile: lists without end"),
    ("T0110", "hostile: bytes that are no UTF-8"),
    ("T0140", "many: a directory with an unreadable file"),
    ("T0141", "many: a path that leads nowhere"),
    ("T0144", "many: two jobs that share a file system and ask different things of it"),
    ("T0142", "many: two jobs of one name"),
    ("T0467", "many: two jobs whose checkpoints lie at one place"),
    ("T0143", "the unit tests of its rule"),
    ("T0520", "packing: lines that are no documents"),
    ("T0521", "packing: lines that are no documents"),
    ("T0522", "packing: conversations that their template refuses"),
    ("T0503", "tests/account/test_git.py: a program in git"),
    ("T0523", "packing: what the tokenizer cannot do"),
    ("T0524", "packing: what the tokenizer cannot do"),
    ("T0525", "packing: too little to pack"),
    ("T0526", "packing: a template that drops what was said"),
    ("T0527", "packing: what the tokenizer cannot do"),
    ("T0680", "the unit tests of the autopsy"),
    ("T0681", "the unit tests of the autopsy"),
    ("T0770", "packing: hostile tokenizers"),
    ("T0690", "packing: a document that is too large"),
    ("T0528", "calibrate/impossible.rs: rows that cannot be"),
    ("T0530", "import/tests.rs: a file that is no JSON"),
    ("T0531", "import/tests.rs: JSON without a job"),
    ("T0691", "tests/python/test_import_scripts.py: a script that fails"),
    ("T0692", "tests/python/test_import_scripts.py: a script that fails"),
    ("T0693", "tests/python/test_import_scripts.py: a script that hangs"),
    ("T0544", "run: a job of another engine"),
    ("T0470", "the unit tests of its rule"),
    ("T0601", "apply/verdicts: an account in memory"),
    ("T0602", "apply/verdicts: an account in memory"),
    ("T0603", "apply/verdicts: an account in memory"),
    ("T0604", "apply/verdicts: an account in memory"),
    ("T0605", "apply/verdicts: an account in memory"),
    ("T0606", "apply/verdicts: an account in memory"),
    ("T0607", "apply/verdicts: an account in memory"),
    ("T0670", "apply/verdicts: an account in memory"),
    ("T0671", "apply/shared: a file system that fifty tags fill"),
    ("T0672", "apply/destroys: a job that is started while the question is answered"),
    ("T0673", "apply/shared: what comes or goes between the look and the answer"),
    ("T0669", "apply/scenarios: the run after the 999th"),
    ("T0608", "apply/verdicts: an account in memory"),
    ("T0609", "apply/verdicts: an account in memory"),
    ("T0610", "apply/verdicts: an account in memory"),
    ("T0611", "apply/verdicts: an account in memory"),
    ("T0612", "apply/verdicts: an account in memory"),
    ("T0613", "apply/verdicts: an account in memory"),
    ("T0614", "apply/verdicts: an account in memory"),
    ("T0615", "apply/verdicts: an account in memory"),
    ("T0616", "apply/verdicts: an account in memory"),
    ("T0617", "apply/workers: an account in memory"),
    ("T0618", "apply/verdicts: an account in memory"),
    ("T0619", "apply/verdicts: an account in memory"),
    ("T0620", "apply/workers: an account in memory"),
    ("T0621", "apply/preflights: an account in memory"),
    ("T0622", "apply/preflights: an account in memory"),
    ("T0623", "apply/preflights: an account in memory"),
    ("T0624", "apply/preflights: an account in memory"),
    ("T0625", "apply/preflights: an account in memory"),
    ("T0626", "apply/preflights: an account in memory"),
    ("T0627", "apply/preflights: an account in memory"),
    ("T0628", "apply/preflights: an account in memory"),
    ("T0629", "apply/preflights: an account in memory"),
    ("T0630", "apply/preflights: an account in memory"),
    ("T0631", "apply/preflights: an account in memory"),
    ("T0632", "apply/preflights: an account in memory"),
    ("T0633", "apply/preflights: an account in memory"),
    ("T0634", "apply/preflights: an account in memory"),
    ("T0635", "apply/preflights: an account in memory"),
    ("T0636", "apply/preflights: an account in memory"),
    ("T0637", "apply/preflights: an account in memory"),
    ("T0638", "apply/preflights: an account in memory"),
    ("T0639", "apply/preflights: an account in memory"),
    ("T0640", "apply/preflights: an account in memory"),
    ("T0641", "apply/preflights: an account in memory"),
    ("T0642", "apply/preflights: an account in memory"),
    ("T0643", "apply/workers: an account in memory"),
    ("T0644", "apply/commands: an account in memory"),
    ("T0645", "apply/scenarios: an account in memory"),
    ("T0646", "apply/commands: an account in memory"),
    ("T0648", "apply/preflights: an account in memory"),
    ("T0649", "apply/commands: an account in memory"),
    ("T0668", "apply/sweeps: an account in memory"),
    ("T0660", "the unit tests of apply/autopsy"),
    ("T0661", "the unit tests of apply/autopsy"),
    ("T0662", "the unit tests of apply/autopsy"),
    ("T0650", "apply/followed: an account in memory"),
    ("T0651", "apply/followed: an account in memory"),
    ("T0652", "apply/followed: an account in memory"),
    ("T0653", "apply/followed: an account in memory"),
    ("T0654", "apply/followed: an account in memory"),
    ("T0655", "apply/followed: an account in memory"),
    ("T0656", "apply/followed: an account in memory"),
    ("T0657", "apply/followed: an account in memory"),
    ("T0658", "apply/followed: an account in memory"),
    ("T0659", "apply/followed: an account in memory"),
    ("T0667", "apply/commands: an account in memory"),
];

impl Fixture {
    /// The problems that the picture shows: errors, warnings, and notes of the fixture's own code.
    fn pictured(&self) -> Problems {
        let mut problems = self.outcome.compiled.problems.clone();
        problems.retain(|problem| problem.severity > Severity::Note || problem.code.id == self.code);
        problems
    }
}

struct Fixture {
    path: String,
    code: String,
    name: String,
    expect: Vec<String>,
    outcome: Outcome,
}

fn load(path: &str) -> Result<Fixture, String> {
    let text = read(path);
    let mut lines = text.lines();
    let expect = lines
        .next()
        .and_then(|line| line.strip_prefix("// expect:"))
        .ok_or_else(|| format!("{path}: the first line is not `// expect: …`"))?;
    let mut expect: Vec<String> =
        expect.split_whitespace().map(str::to_owned).filter(|word| word != "none").collect();
    expect.sort();
    let (mut flags, mut alone) = ("", has_job(&text));
    for line in lines.by_ref().take(2) {
        if let Some(rest) = line.strip_prefix("// args:") {
            flags = rest.trim();
        } else if line.trim() == "// alone" {
            alone = true;
        }
    }
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or("").trim_end_matches(".kdl").to_owned();
    let code = parts.next().unwrap_or("").to_owned();
    let whole = if alone { text.clone() } else { over_base(&text) };
    let outcome = compile_in(Memory::default(), &format!("{name}.kdl"), &whole, &options(flags));
    Ok(Fixture { path: path.to_owned(), code, name, expect, outcome })
}

/// All fixtures, compiled once for all tests.
fn fixtures() -> &'static [Result<Fixture, String>] {
    static ALL: OnceLock<Vec<Result<Fixture, String>>> = OnceLock::new();
    ALL.get_or_init(|| files("tests/ui", &[".kdl"]).iter().map(|path| load(path)).collect())
}

/// One test, since nextest runs each test in a process of its own, which compiles all fixtures.
#[test]
fn fixtures_are_as_expected() {
    let faults: Vec<String> = [
        unexpected_codes(),
        changed_pictures(),
        codes_without_fixtures(),
        pictures_without_fixtures(),
        words_that_are_no_fragments(),
        speeds_of_undecided_layouts(),
    ]
    .concat();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

fn unexpected_codes() -> Vec<String> {
    let mut faults = Vec::new();
    for fixture in fixtures() {
        match fixture {
            Err(fault) => faults.push(fault.clone()),
            Ok(fixture) => {
                let found = fixture.outcome.codes();
                if found != fixture.expect {
                    faults.push(format!(
                        "{}: expected {}, found {}\n{}",
                        fixture.path,
                        fixture.expect.join(" "),
                        found.join(" "),
                        fixture.outcome.lines()
                    ));
                }
            }
        }
    }
    faults
}

fn changed_pictures() -> Vec<String> {
    let mut faults = Vec::new();
    for fixture in fixtures().iter().flatten() {
        let problems = fixture.pictured();
        if problems.is_empty() {
            continue;
        }
        let mut settings = insta::Settings::new();
        settings.set_snapshot_path(root().join("tests/ui").join(&fixture.code));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let picture = human(
            &fixture.outcome.sources,
            &format!("{}.kdl", fixture.name),
            fixture.outcome.compiled.job.as_deref(),
            &problems,
        );
        let name = fixture.name.clone();
        let shown =
            catch_unwind(AssertUnwindSafe(|| settings.bind(|| insta::assert_snapshot!(name, picture))));
        if shown.is_err() {
            faults.push(format!("{}: look at its picture; then INSTA_UPDATE=always", fixture.path));
        }
    }
    faults
}

fn codes_without_fixtures() -> Vec<String> {
    let mut by_code: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for fixture in fixtures().iter().flatten() {
        // Notes are not expected by the header, but show in the problems.
        let gives = fixture.outcome.compiled.problems.iter().any(|d| d.code.id == fixture.code);
        let counts = by_code.entry(fixture.code.clone()).or_default();
        if gives {
            counts.0 += 1;
        } else {
            counts.1 += 1;
        }
    }
    let codes: BTreeSet<&str> = trainc::codes().iter().map(|code| code.id).collect();
    let mut faults: Vec<String> = by_code
        .keys()
        .filter(|code| !codes.contains(code.as_str()))
        .map(|code| format!("tests/ui/{code}: no such code"))
        .collect();
    for code in codes {
        if SHOWN_ELSEWHERE.iter().any(|(id, _)| *id == code) {
            continue;
        }
        match by_code.get(code) {
            None | Some((0, 0)) => faults.push(format!("{code}: no fixture")),
            Some((0, _)) => faults.push(format!("{code}: no fixture gives it")),
            Some((_, 0)) => faults.push(format!("{code}: no near miss")),
            Some(_) => {}
        }
    }
    faults
}

/// A plan whose errors leave open which layout or container runs shows neither speed nor cost.
fn speeds_of_undecided_layouts() -> Vec<String> {
    let mut faults = Vec::new();
    for fixture in fixtures().iter().flatten() {
        let Outcome { compiled, .. } = &fixture.outcome;
        let is_error = |problem: &&Diagnostic| problem.severity == Severity::Error;
        let deciding =
            compiled.problems.iter().filter(is_error).find(|one| one.code.ends == Some(Ends::Speed));
        if let Some(error) = deciding
            && (compiled.prediction.speed.is_some() || compiled.prediction.run.is_some())
        {
            faults.push(format!("{}: a speed beside {}", fixture.path, error.code.id));
        }
    }
    faults
}

fn pictures_without_fixtures() -> Vec<String> {
    let wanted: BTreeSet<String> = fixtures()
        .iter()
        .flatten()
        .filter(|fixture| !fixture.pictured().is_empty())
        .map(|fixture| fixture.path.replace(".kdl", ".snap"))
        .collect();
    let there = files("tests/ui", &[".snap"]);
    let forgotten = there.iter().filter(|path| !wanted.contains(*path));
    forgotten.map(|path| format!("{path}: no fixture has this picture")).collect()
}

fn words_that_are_no_fragments() -> Vec<String> {
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
    for fixture in fixtures().iter().flatten() {
        for problem in fixture.outcome.compiled.problems.iter() {
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
                // The lines of a block to paste are indented.
                let has_gap = words.lines().any(|line| line.trim_start().contains("  "));
                if has_gap || words.trim() != words || words.is_empty() {
                    faults.insert(format!("{}: `{words}` has stray blanks", problem.code.id));
                }
            }
        }
    }
    faults.into_iter().collect()
}
