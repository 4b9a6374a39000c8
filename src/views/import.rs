//! What `trainc import` prints: the run of a script, manifests, and their reviews.

use crate::args::{Global, problems};
use crate::exit;
use crate::terminal::io::Io;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use trainc_diag::markdown::{code_block, escape_cell};
use trainc_diag::source::SourceMap;
use trainc_diag::{self as diag, Format, Problems};
use trainc_import::conversion::{Converted, Refusal};
use trainc_import::script::{Script, ScriptRun};
use trainc_import::{Outcome, Recording};
use trainc_plan::Compiled;
use trainc_project::files::display_path;
use trainc_project::manifests::{Manifest, Set};

/// Says what will happen to a script, before it does.
pub(crate) fn announcement(script: &Script) -> String {
    format!(
        "running {} with {}, for at most {} s: it can read and write your files\nno AWS call is \
            sent: trainc answers all of them; Python's sockets are blocked, programs that it starts are \
            skipped, and `time.sleep` returns at once\n",
        script.path.display(),
        script.python.display(),
        script.timeout.as_secs(),
    )
}

/// Prints the traceback of a script, or the end of what it printed.
pub(crate) fn print_script_output(io: &mut Io, run: &ScriptRun, sources: &SourceMap) {
    const LAST_LINES: usize = 20;
    let traceback = run.recording.failure.as_ref().map(|failure| &failure.traceback);
    let printed: Vec<&str> = run.output.lines().collect();
    let last = printed.get(printed.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    if !last.is_empty() {
        io.note("the script printed:\n");
        for line in last {
            io.note(&sources.mask(&format!("  {line}\n")));
        }
    }
    for line in traceback.or(run.hang.as_ref()).into_iter().flat_map(|text| text.lines()) {
        io.note(&sources.mask(&format!("  {line}\n")));
    }
}

/// Prints why nothing is imported; returns the exit code.
pub(crate) fn print_refusal(
    io: &mut Io,
    global: &Global,
    format: Format,
    shown: &str,
    refusal: Refusal,
) -> u8 {
    match refusal {
        Refusal::Problems(sources, found) => {
            print_problems(io, global, format, shown, sources, found);
            exit::MANIFEST
        }
        Refusal::Usage { reason, help } => {
            let help = help.map_or_else(String::new, |help| format!("help: {help}\n"));
            io.note(&format!("error: {reason}\n{help}"));
            exit::USAGE
        }
    }
}

/// Prints the problems of an input.
pub(crate) fn print_problems(
    io: &mut Io,
    global: &Global,
    format: Format,
    shown: &str,
    sources: SourceMap,
    found: Problems,
) {
    let set = set(shown, Compiled::unreadable_file(found), sources);
    match format {
        Format::Json => io.print_verbatim(&problems(&set, format, io, false, global)),
        _ => io.note_colored(&problems(&set, Format::Human, io, io.color, global)),
    }
}

fn set(path: &str, compiled: Compiled, sources: SourceMap) -> Set {
    let manifest = Manifest::new(path, String::new(), compiled);
    Set {
        sources,
        manifests: vec![manifest],
        skipped: Vec::new(),
        many: false,
        root: PathBuf::new(),
        constants: None,
    }
}

/// Prints the manifests of imported jobs, and their reviews; returns the exit code.
pub(crate) fn print_converted(io: &mut Io, global: &Global, format: Format, jobs: Vec<Converted>) -> u8 {
    let many = jobs.len() > 1;
    let mut documents = Vec::new();
    for job in jobs {
        match format {
            Format::Json => documents.push(document(&job)),
            Format::Markdown => io.print_unwrapped(&markdown(&job)),
            _ => {
                match &job.out {
                    Some(out) => {
                        io.note(&format!("wrote {}: {}\n", out.display(), job.imported.verdict()));
                    }
                    None => io.print_verbatim(&job.imported.manifest),
                }
                print_review(io, global, job);
            }
        }
    }
    if format == Format::Json {
        let shown = if many { Value::from(documents) } else { documents.pop().unwrap_or_default() };
        io.print_json(&format!("{shown:#}\n"));
    }
    exit::DONE
}

fn outcome(job: &Converted) -> Vec<String> {
    job.imported.outcome.as_ref().map(Outcome::lines).unwrap_or_default()
}

/// Prints the review for people to standard error.
fn print_review(io: &mut Io, global: &Global, job: Converted) {
    for (title, lines) in job.imported.lists().filter(|_| !global.quiet) {
        io.note(&format!("{}:\n", title.to_lowercase()));
        for line in lines {
            io.note(&format!("  {line}\n"));
        }
    }
    for line in outcome(&job) {
        io.note(&format!("{line}\n"));
    }
    let Converted { imported, out, name, compiled, sources } = job;
    let errors = compiled.problems.errors();
    if imported.outcome.is_some() || !compiled.problems.is_empty() {
        let text = problems(&set(&name, compiled, sources), Format::Human, io, io.color, global);
        io.note_colored(&text);
    }
    if errors > 0 {
        let counted = trainc_diag::text::count(errors as u64, "error");
        let check = match out {
            Some(out) => format!("trainc check {}", trainc_emit::quote(&out.display().to_string())),
            None => "trainc check FILE".to_owned(),
        };
        io.note(&format!("the manifest has {counted}: edit it, then `{check}`\n"));
    }
}

/// Returns the document of `-o json`.
fn document(job: &Converted) -> Value {
    let imported = &job.imported;
    let found = job.compiled.problems.iter();
    let problems: Vec<_> = found.map(|problem| diag::json::problem(&job.sources, problem)).collect();
    json!({
        "format_version": diag::json::FORMAT_VERSION,
        "job": imported.job,
        "manifest": imported.manifest,
        "written": job.out.as_ref().map(|out| out.to_string_lossy()),
        "same_request": imported.lost.is_empty() && imported.unknown.is_empty() && !imported.is_tuned,
        "lost": imported.lost,
        "unknown": imported.unknown,
        "caveats": imported.caveats,
        "cannot_say": imported.unsupported,
        "outcome": outcome(job),
        "problems": problems,
    })
}

/// Formats manifest, unsupported members, outcome and problems for a pull request.
fn markdown(job: &Converted) -> String {
    let imported = &job.imported;
    let name = escape_cell(&imported.job);
    let mut out = format!("# {name}\n\n{}", code_block("kdl", &imported.manifest));
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|line| format!("- {}\n", escape_cell(line))).collect();
            out.push_str(&format!("\n## {title}\n\n{}", lines.concat()));
        }
    };
    for (title, lines) in imported.lists() {
        list(title, lines);
    }
    list("How the job went", outcome(job));
    let problems = job.compiled.problems.iter();
    list(
        "Problems",
        problems
            .map(|one| one.masked(&job.sources))
            .map(|one| format!("{} `{}`: {}", one.severity.word(), one.code.id, one.message))
            .collect(),
    );
    out
}

/// Returns what was answered, blocked and skipped, in lines.
pub(crate) fn summary(recording: &Recording) -> String {
    const MOST_SHOWN: usize = 12;
    let mut out = String::new();
    if let Some((version, path)) = &recording.python {
        out.push_str(&format!("Python {version} ({})\n", display_path(Path::new(path))));
    }
    let calls = recording.describe_calls();
    if !calls.is_empty() {
        out.push_str(&format!("answered: {calls}\n"));
    }
    let at = |line: Option<usize>| line.map_or_else(String::new, |line| format!(" at line {line}"));
    let unknown: Vec<String> = recording.unknown.iter().map(ToString::to_string).collect();
    for (what, lines) in
        [("blocked", &recording.blocked), ("skipped", &recording.skipped), ("not known", &unknown)]
    {
        // The first may be the cause, and the last what it led to.
        let more = lines.len().saturating_sub(MOST_SHOWN);
        for (index, line) in lines.iter().enumerate() {
            match index.checked_sub(MOST_SHOWN / 2) {
                Some(0) if more > 0 => out.push_str(&format!("{what}: {more} more\n")),
                Some(hidden) if hidden < more => {}
                _ => out.push_str(&format!("{what}: {line}\n")),
            }
        }
    }
    let (failed, hidden) = recording.shown_failures(MOST_SHOWN);
    for one in failed {
        out.push_str(&format!("failed, and skipped: {one}\n"));
    }
    if hidden > 0 {
        out.push_str(&format!("failed, and skipped: {hidden} more\n"));
    }
    if let Some((what, line)) = &recording.stopped {
        out.push_str(&format!(
            "stopped{}: {what}; a training job that would follow is not imported: `--keep-going` goes on\n",
            at(*line)
        ));
    }
    out
}
