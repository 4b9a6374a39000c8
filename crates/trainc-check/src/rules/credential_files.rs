//! Program files that would be packed although their names or contents are those of credentials.

use crate::Context;
use trainc_catalog::credential_files::credential_kind_of_file;
use trainc_diag::credentials;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{SourceFile, SourceTree};

declare_code!(T0515, "credentials-in-source", Warning, "program files that contain credentials");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0515];

/// Number of files listed in a note.
const MAX_LISTED: usize = 4;

/// Checks the program's directory and its dependencies.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    // Nothing is packed for a custom entry point or an archive that is already in S3.
    if !program.entrypoint.is_empty() || !program.s3.is_absent() {
        return;
    }
    if let Some(tree) = &plan.source {
        let place = program.git.val().or(program.source.val());
        check_tree(tree, place.map_or(program.span, |place| place.span_or(program.span)), problems);
    }
    for (dir, tree) in plan.dependency_trees() {
        check_tree(tree, dir.span_or(program.span), problems);
    }
}

/// Returns whether the file is a certificate or public key, which share file extensions with private keys.
fn is_public_key(file: &SourceFile) -> bool {
    let text = file.text();
    let has = |words: &str| text.contains(words);
    (has("-----BEGIN CERTIFICATE-----") || has("PUBLIC KEY-----")) && !has("PRIVATE KEY-----")
}

/// Size up to which the content of a file is searched for tokens, bytes: scripts and settings, not data.
const MAX_SEARCHED_BYTES: usize = 1 << 20;

/// The reason why a file is assumed to contain credentials, with their kind.
enum Evidence {
    Name(String),
    Content(&'static str),
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Name(what) => what,
            Self::Content(what) => what,
        })
    }
}

fn find_evidence(file: &SourceFile) -> Option<Evidence> {
    let by_name = credential_kind_of_file(&file.path).filter(|_| !is_public_key(file));
    by_name.map(Evidence::Name).or_else(|| {
        let text = Some(&file.bytes).filter(|bytes| bytes.len() <= MAX_SEARCHED_BYTES)?;
        credentials::find_token(std::str::from_utf8(text).ok()?).map(Evidence::Content)
    })
}

fn check_tree(tree: &SourceTree, span: Span, problems: &mut Problems) {
    let found: Vec<(&str, Evidence)> =
        tree.files.iter().filter_map(|file| Some((file.path.as_str(), find_evidence(file)?))).collect();
    let [(first, evidence), rest @ ..] = found.as_slice() else { return };
    let message = match (rest, evidence) {
        ([], Evidence::Name(what)) => format!(
            "`{first}` would be packed into the source archive; files with this name usually contain {what}"
        ),
        ([], Evidence::Content(what)) => {
            format!("`{first}` would be packed into the source archive; it contains {what}")
        }
        _ => {
            let all = text::count(found.len() as u64, "file");
            format!("{all} in `{}` that seem to contain credentials would be packed into the source \
                archive", tree.dir)
        }
    };
    let mut diagnostic = Diagnostic::new(&T0515, span, message)
        .help("move credentials out of the directory, and pass them to the container with `secret \
            \"NAME\" from=\"arn:…\"`");
    if !rest.is_empty() {
        let named: Vec<String> =
            found.iter().take(MAX_LISTED).map(|(path, evidence)| format!("`{path}`: {evidence}")).collect();
        let more = found.len() - named.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        diagnostic = diagnostic.note(format!("{}{more}", named.join(", ")));
    }
    problems.push(
        diagnostic
            .note("everyone with read access to the bucket can read the archive; `emit` also writes it \
                to `source/`")
            .fact("files", found.iter().map(|(path, _)| *path).collect::<Vec<_>>()),
    );
}
