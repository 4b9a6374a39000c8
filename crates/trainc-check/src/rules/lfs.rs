//! Git LFS pointers in the program, which would be packed instead of the files.

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
const FIRST_LINE: &[u8] = b"version https://git-lfs.github.com/spec/v1\n";
/// A pointer is shorter than this (same source).
const MAX_BYTES: usize = 1024;
/// Number of files listed in a note.
const MAX_LISTED: usize = 4;

/// Checks the program's directory or repository, and its dependencies.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    if let Some(tree) = &plan.source {
        let git = program.git.val();
        let span = git.or(program.source.val()).map_or(program.span, |place| place.span_or(program.span));
        check_tree(tree, span, git.is_some(), problems);
    }
    for (dir, tree) in plan.dependency_trees() {
        check_tree(tree, dir.span_or(program.span), false, problems);
    }
}

/// Returns the size in bytes of the file that a pointer refers to, if the file is a pointer.
fn lfs_pointer_size(file: &SourceFile) -> Option<u64> {
    if file.bytes.len() >= MAX_BYTES || !file.bytes.starts_with(FIRST_LINE) {
        return None;
    }
    let text = std::str::from_utf8(&file.bytes).ok()?;
    text.lines().find_map(|line| line.strip_prefix("size ")?.parse().ok())
}

fn check_tree(tree: &SourceTree, span: Span, in_repository: bool, problems: &mut Problems) {
    let found: Vec<(&str, u64)> =
        tree.files.iter().filter_map(|file| Some((file.path.as_str(), lfs_pointer_size(file)?))).collect();
    let [(first, _), rest @ ..] = found.as_slice() else { return };
    let whole: u64 = found.iter().map(|(_, bytes)| bytes).sum();
    let message = if rest.is_empty() {
        format!("`{first}` is a Git LFS pointer and would be packed instead of the file")
    } else {
        let all = text::count(found.len() as u64, "file");
        format!("{all} in `{}` are Git LFS pointers and would be packed instead of the files", tree.dir)
    };
    let mut diagnostic = Diagnostic::new(&T0269, span, message);
    diagnostic = if in_repository {
        diagnostic
            .help("use `source=` with a checkout in which you ran `git lfs pull`")
            .note("a commit contains only the pointers; the files are in Git LFS storage")
    } else {
        diagnostic.help("run `git lfs pull`")
    };
    if !rest.is_empty() {
        let named: Vec<&str> = found.iter().take(MAX_LISTED).map(|(path, _)| *path).collect();
        let more = found.len() - named.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        diagnostic = diagnostic.note(format!("{}{more}", named.join(", ")));
    }
    let refer = if rest.is_empty() { "the pointer refers to" } else { "the pointers refer to" };
    problems.push(
        diagnostic
            .note(format!(
                "{refer} {}; keep files that the job does not need out of the directory",
                text::bytes(whole)
            ))
            .fact("files", found.len() as u64),
    );
}
