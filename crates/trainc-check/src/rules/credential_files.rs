//! Files of the program that hold credentials by their names, and would be packed.

use crate::Context;
use trainc_catalog::credentials;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{SourceFile, SourceTree};

declare_code!(T0515, "credentials-in-source", Warning, "program files with names typical of credentials");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0515];

/// The most files that are named.
const MOST_NAMED: usize = 4;

/// Looks at the program's directory and what goes with it.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    // Nothing is packed where the container starts by itself, or where the archive lies in S3 already.
    if !program.entrypoint.is_empty() || !program.s3.is_absent() {
        return;
    }
    if let Some(tree) = &plan.source {
        let place = program.git.val().or(program.source.val());
        judge(tree, place.map_or(program.span, |place| place.span_or(program.span)), problems);
    }
    for (dir, tree) in plan.dependency_trees() {
        judge(tree, dir.span_or(program.span), problems);
    }
}

/// Certificates and public keys have the endings of private ones, and hide nothing.
fn is_public(file: &SourceFile) -> bool {
    let text = String::from_utf8_lossy(&file.bytes);
    let has = |words: &str| text.contains(words);
    (has("-----BEGIN CERTIFICATE-----") || has("PUBLIC KEY-----")) && !has("PRIVATE KEY-----")
}

fn judge(tree: &SourceTree, span: Span, problems: &mut Problems) {
    let found: Vec<(&str, String)> = tree
        .files
        .iter()
        .filter_map(|file| Some((file, credentials::of_file(&file.path)?)))
        .filter(|(file, _)| !is_public(file))
        .map(|(file, what)| (file.path.as_str(), what))
        .collect();
    let [(first, what), rest @ ..] = found.as_slice() else { return };
    let message = if rest.is_empty() {
        format!("`{first}` would be packed; a file of that name holds {what}")
    } else {
        let all = text::count(found.len() as u64, "file");
        format!("{all} of `{}` would be packed that hold credentials by their names", tree.dir)
    };
    let mut diagnostic = Diagnostic::new(&T0515, span, message)
        .help("move what holds credentials out of the directory; the container gets one with `secret \"NAME\" from=\"arn:…\"`");
    if !rest.is_empty() {
        let named: Vec<String> =
            found.iter().take(MOST_NAMED).map(|(path, what)| format!("`{path}`: {what}")).collect();
        let more = found.len() - named.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        diagnostic = diagnostic.note(format!("{}{more}", named.join(", ")));
    }
    problems.push(
        diagnostic
            .note("the archive lies in S3, for everybody who reads the bucket; `emit` writes it into `source/` too")
            .fact("files", found.iter().map(|(path, _)| *path).collect::<Vec<_>>()),
    );
}
