//! Problems about values that a file of another program sets: they are changed there, and by the user.

use trainc_catalog::engine_files;
use trainc_diag::source::Span;
use trainc_diag::{Diagnostic, Help, Problems, Suggestion};
use trainc_ir::{FileSetting, ForeignFile, Plan};

/// Makes the help of each problem about a value of a file say where to change it. No edit of such a problem
/// is applied: trainc changes no file that is not a manifest.
pub(crate) fn point_to_files(plan: &Plan, problems: &mut Problems) {
    if plan.files.is_empty() {
        return;
    }
    let of_files = crate::rules::codes_of_files();
    problems.update(|problem| {
        if of_files.contains(&problem.code) {
            return;
        }
        let at = problem.subject.unwrap_or(problem.span);
        // A default of the program has the place of the file as a whole.
        if let Some(file) = plan.files.iter().find(|file| file.span == at) {
            replace_help(
                problem,
                format!("set it in `{}`, which leaves it to the program's default", file.path),
            );
        } else if let Some((file, setting)) = set_at(plan, at) {
            let key = setting.key.rsplit('.').next().unwrap_or(&setting.key);
            replace_help(problem, format!("change `{key}` in `{}`", file.path));
        } else {
            note_on_other_values(plan, problem);
        }
    });
}

/// Returns the setting whose key or value has a span, with its file.
fn set_at(plan: &Plan, span: Span) -> Option<(&ForeignFile, &FileSetting)> {
    let of_source = plan.files.iter().filter(|file| file.span.source == span.source);
    let settings = of_source.flat_map(|file| file.settings.iter().map(move |setting| (file, setting)));
    // The innermost: the value of a block covers those of its keys.
    settings
        .filter(|(_, setting)| setting.value_span.covers(span) || setting.key_span.covers(span))
        .min_by_key(|(_, setting)| setting.value_span.len())
}

/// Replaces an edit of the manifest by one of the file; what the manifest would say becomes a note.
fn replace_help(problem: &mut Diagnostic, help: String) {
    problem.fix = None;
    if let Some(before) = problem.help.replace(help.into()) {
        problem.notes.push(format!("in words of the manifest: {before}").into());
    }
}

/// Adds to a help that writes a node which a file sets that the file must be changed.
fn note_on_other_values(plan: &Plan, problem: &mut Diagnostic) {
    let writes = |suggestion: &Suggestion, name: &str| match suggestion {
        Suggestion::Write { code, .. } => code.split([' ', '=']).next() == Some(name),
        Suggestion::Remove(Some(removed)) => removed == name,
        Suggestion::Move(_) | Suggestion::Remove(None) | Suggestion::Other => false,
    };
    let suggestions = problem.help.as_ref().map(Help::suggestions).unwrap_or_default();
    let mut notes = Vec::new();
    for file in &plan.files {
        let Some(table) = engine_files::keys(file.table) else { continue };
        for setting in &file.settings {
            let word = table.find(&setting.key).and_then(|row| row.word.as_deref());
            let Some(name) = word.and_then(|word| word.rsplit(['/', '.']).next()) else { continue };
            if suggestions.iter().any(|suggestion| writes(suggestion, name)) {
                notes.push(format!("`{name}` is `{}` of `{}`: change it there", setting.key, file.path));
            }
        }
    }
    if !notes.is_empty() {
        problem.fix = None;
        problem.help = problem.help.take().map(Help::without_suggestions);
        problem.notes.extend(notes.into_iter().map(Into::into));
    }
}
