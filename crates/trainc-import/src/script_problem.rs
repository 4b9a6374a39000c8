//! Why the run of a script gave no job to import.

use crate::script::{Script, ScriptRun, line_in_traceback};
use trainc_diag::Diagnostic;
use trainc_diag::source::{SourceId, Span};

/// Returns why a run has no jobs to import.
pub fn script_problem(script: &Script, run: &ScriptRun, source: SourceId, text: &str) -> Option<Diagnostic> {
    let recording = &run.recording;
    let at = |line: Option<usize>| line.map_or(Span::whole(source), |line| line_span(source, text, line));
    if let Some(failure) = &recording.failure {
        let message = format!("the script failed: {}", failure.message);
        let found = Diagnostic::new(&crate::T0691, at(failure.line), message);
        let found = crate::describe_script(&format!("{text}\n{}", failure.message), found);
        let is = |kind: &str| failure.message.starts_with(kind);
        let environment =
            "run it in the environment that has its packages: `trainc import --python .venv/bin/python …`";
        const SKIP: &str = "`--keep-going` skips the statements that fail";
        return Some(match () {
            () if found.help.is_some() || script.keep_going => found,
            () if is("ModuleNotFoundError") => found.help(format!("{environment}; {SKIP}")),
            // It can skip the cell of a notebook, but not the whole script.
            () if is("SyntaxError") && !text.contains("\n# In[") => found,
            () => found.help(SKIP),
        });
    }
    if !recording.ended {
        let hang = run.hang.as_deref().filter(|hang| !hang.is_empty());
        let Some(hang) = hang else {
            let message = "the script ended without a result";
            return Some(Diagnostic::new(&crate::T0691, at(None), message));
        };
        let line = line_in_traceback(hang, script.path);
        let message = format!("the script did not end within {} s", script.timeout.as_secs());
        return Some(
            Diagnostic::new(&crate::T0693, at(line), message)
                .help(format!("give it more time: `--timeout {}`", script.timeout.as_secs() * 5)),
        );
    }
    (recording.jobs() == 0).then(|| {
        let found = Diagnostic::new(&crate::T0692, at(None), "the script created no training job");
        let messages = recording.ignored.iter().map(|one| one.message.as_str());
        let texts: Vec<&str> = std::iter::once(text).chain(messages).collect();
        let found = crate::describe_script(&texts.join("\n"), found);
        let calls = recording.describe_calls();
        let found = match calls.as_str() {
            "" => found.note("it called no AWS service"),
            calls => found.note(format!("it called {calls}")),
        };
        match recording.ignored.len() as u64 {
            0 => found,
            count => {
                let count = trainc_diag::text::count(count, "statement");
                let was = if recording.ignored.len() == 1 { "was" } else { "were" };
                let has_help = found.help.is_some();
                let found = found.note(format!("{count} failed and {was} skipped"));
                let builders = recording.ignored.iter().filter(|one| one.builds);
                let found = builders.fold(found, |found, one| found.note(one.to_string()));
                if has_help {
                    found
                } else {
                    found.help("correct those that the training job needs, the first one first")
                }
            }
        }
    })
}

/// Returns the span of a line, from 1, without its indentation.
fn line_span(source: SourceId, text: &str, line: usize) -> Span {
    let mut start = 0;
    for (index, content) in text.split_inclusive('\n').enumerate() {
        if index + 1 == line {
            let indent = content.len() - content.trim_start().len();
            let end = start + content.trim_end().len();
            return Span::new(source, (start + indent).min(end), end);
        }
        start += content.len();
    }
    Span::whole(source)
}
