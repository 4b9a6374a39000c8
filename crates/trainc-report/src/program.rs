//! The program of a plan as text: the script and its source, or the command of the container.

use super::json::Document;
use trainc_diag::text;
use trainc_ir::{Plan, Program};

pub(super) fn program(document: &Document, plan: &Plan) -> Option<Vec<String>> {
    let program = plan.job.program.as_ref()?;
    let entry = program.entry.value().map_or("", String::as_str);
    if !program.entrypoint.is_empty() {
        // The container runs this command; `source` is not sent.
        let words: Vec<&str> =
            program.entrypoint.iter().chain(&program.arguments).map(|w| w.value.as_str()).collect();
        return Some(vec![format!("`{}` in the container", words.join(" "))]);
    }
    let from = if let Some(git) = program.git.value() {
        let at = program
            .commit
            .value()
            .or(program.branch.value())
            .map(|at| format!(" at {at}"))
            .unwrap_or_default();
        let dir = program.dir.value().map(|dir| format!(", {dir}")).unwrap_or_default();
        let fetched = match (&document.source, &plan.source, &plan.missing) {
            (Some(source), Some(tree), _) => {
                let commit = tree.dir.rsplit('@').next().unwrap_or_default();
                let commit = commit.get(..12).unwrap_or(commit);
                format!("{} from commit {commit}", text::count(source.files as u64, "file"))
            }
            (_, _, Some(unread)) => unread.why.clone(),
            _ => "not fetched: the digest covers URL and ref instead of the content".to_owned(),
        };
        vec![format!("{entry} from {git}{at}{dir}"), fetched]
    } else if let Some(s3) = program.s3.text() {
        vec![format!("{entry} from {s3}")]
    } else if let Some(dir) = program.source.value() {
        match (&document.source, &plan.missing) {
            (Some(source), _) => {
                vec![format!("{entry} from {dir}, {}", text::count(source.files as u64, "file"))]
            }
            (None, Some(unread)) => vec![format!("{entry} from {dir}: {}", unread.why)],
            (None, None) => vec![format!("{entry} from {dir}")],
        }
    } else if entry.is_empty() {
        return hyperparameters(program);
    } else {
        vec![entry.to_owned()]
    };
    Some(from)
}

/// Returns what an algorithm or an image of its own gets: `num_round=400, eta=0.1`; `None` for nothing.
fn hyperparameters(program: &Program) -> Option<Vec<String>> {
    let pairs = program.hyperparameters.iter();
    let pairs = pairs.filter_map(|one| Some(format!("{}={}", one.name, one.value.value()?.python())));
    let pairs: Vec<String> = pairs.collect();
    (!pairs.is_empty()).then(|| vec![pairs.join(", ")])
}
