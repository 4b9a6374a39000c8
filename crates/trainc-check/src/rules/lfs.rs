//! Files that Git LFS keeps elsewhere: what would be packed is the pointer, a text of three lines.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{SourceFile, SourceTree};

declare_code!(T0269, "git-lfs-pointer", Warning, "program files that are Git LFS pointers");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0269];

/// The first line of a pointer (Git LFS specification, "The Pointer").
const FIRST: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";
/// A pointer is shorter than this (the same).
const MOST_BYTES: usize = 1024;
/// The most files that are named.
const MOST_NAMED: usize = 4;

/// Looks at the program's directory, its repository and what goes with it.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    if let Some(tree) = &plan.source {
        let git = program.git.val();
        let span = git.or(program.source.val()).map_or(program.span, |place| place.span_or(program.span));
        judge(tree, span, git.is_some(), problems);
    }
    for (dir, tree) in plan.dependency_trees() {
        judge(tree, dir.span_or(program.span), false, problems);
    }
}

/// Bytes of the file that a pointer stands for; none where the file is no pointer.
fn pointed(file: &SourceFile) -> Option<u64> {
    if file.bytes.len() >= MOST_BYTES || !file.bytes.starts_with(FIRST) {
        return None;
    }
    let text = std::str::from_utf8(&file.bytes).ok()?;
    text.lines().find_map(|line| line.strip_prefix("size ")?.parse().ok())
}

fn judge(tree: &SourceTree, span: Span, in_repository: bool, problems: &mut Problems) {
    let found: Vec<(&str, u64)> =
        tree.files.iter().filter_map(|file| Some((file.path.as_str(), pointed(file)?))).collect();
    let [(first, _), rest @ ..] = found.as_slice() else { return };
    let whole: u64 = found.iter().map(|(_, bytes)| bytes).sum();
    let message = if rest.is_empty() {
        format!("`{first}` is a Git LFS pointer, and would be packed as one")
    } else {
        let all = text::count(found.len() as u64, "file");
        format!("{all} of `{}` are Git LFS pointers, and would be packed as such", tree.dir)
    };
    let mut diagnostic = Diagnostic::new(&T0269, span, message);
    diagnostic = if in_repository {
        diagnostic
            .help("name a checkout of it with `source=`, where `git lfs pull` has fetched them")
            .note("a commit holds pointers alone; their files are in the store of Git LFS")
    } else {
        diagnostic.help("git lfs pull")
    };
    if !rest.is_empty() {
        let named: Vec<&str> = found.iter().take(MOST_NAMED).map(|(path, _)| *path).collect();
        let more = found.len() - named.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        diagnostic = diagnostic.note(format!("{}{more}", named.join(", ")));
    }
    let stand = if rest.is_empty() { "it stands" } else { "they stand" };
    problems.push(
        diagnostic
            .note(format!(
                "{stand} for {}; what the job does not need can stay out of the directory",
                text::bytes(whole)
            ))
            .fact("files", found.len() as u64),
    );
}
