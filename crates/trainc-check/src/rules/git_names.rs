//! What is named of the program's repository: forms that git cannot have.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Program;

declare_code!(
    T0516,
    "invalid-git-reference",
    Error,
    "an invalid branch, commit or directory of a git repository"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0516];

/// The digits of a commit's id, shortened as far as people do, and whole by SHA-256.
const COMMIT_DIGITS: std::ops::RangeInclusive<usize> = 7..=64;

/// Branch, commit and directory of `git=`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(program) = &context.plan.job.program else { return };
    if let Some(branch) = program.branch.val()
        && let Some(why) = no_branch(&branch.value)
    {
        problems.push(
            Diagnostic::new(
                &T0516,
                branch.span_or(program.span),
                format!("`{}` is no name of a branch or a tag: {why}", branch.value),
            )
            .note("such names follow git-check-ref-format (Git documentation)"),
        );
    }
    if let Some(commit) = program.commit.val().filter(|commit| !is_commit(&commit.value)) {
        problems.push(
            Diagnostic::new(
                &T0516,
                commit.span_or(program.span),
                format!("`{}` is no commit: one has 7 to 64 hexadecimal digits", commit.value),
            )
            .help("write what `git rev-parse HEAD` prints; a branch or a tag stands in `branch=`"),
        );
    }
    if let Some(dir) = program.dir.val().filter(|dir| leads_upward(&dir.value)) {
        problems.push(
            Diagnostic::new(
                &T0516,
                dir.span_or(program.span),
                format!("`{}` leads upward; `dir=` is a path below the repository's root", dir.value),
            )
            .help("write it without `..`"),
        );
    }
}

/// Whether one of the three is refused: then git has nothing to give.
pub(super) fn is_refused(program: &Program) -> bool {
    program.branch.value().is_some_and(|branch| no_branch(branch).is_some())
        || program.commit.value().is_some_and(|commit| !is_commit(commit))
        || program.dir.value().is_some_and(|dir| leads_upward(dir))
}

fn is_commit(text: &str) -> bool {
    COMMIT_DIGITS.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn leads_upward(dir: &str) -> bool {
    dir.split('/').any(|part| part == "..")
}

/// Why a text is no name of a branch; none where it may be one.
fn no_branch(name: &str) -> Option<String> {
    let bad = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    Some(if name.is_empty() {
        "it is empty".to_owned()
    } else if name.starts_with('-') {
        "it begins with `-`".to_owned()
    } else if name == "@" {
        "git reads it as `HEAD`".to_owned()
    } else if let Some(c) = name.chars().find(|c| bad(*c)) {
        match c {
            ' ' => "it has a space".to_owned(),
            c if c.is_ascii_control() => "it has a control character".to_owned(),
            c => format!("it has `{c}`"),
        }
    } else if let Some(found) = ["..", "//", "@{"].iter().find(|pair| name.contains(**pair)) {
        format!("it has `{found}`")
    } else if name.starts_with('/') || name.ends_with('/') {
        "it begins or ends with `/`".to_owned()
    } else if name.ends_with('.') {
        "it ends with `.`".to_owned()
    } else if name.split('/').any(|part| part.starts_with('.')) {
        "a part of it begins with `.`".to_owned()
    } else if name.split('/').any(|part| part.strip_suffix(".lock").is_some()) {
        "a part of it ends with `.lock`".to_owned()
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of git-check-ref-format, one by one.
    #[test]
    fn names_of_branches() {
        for name in ["main", "feature/x", "v1.2.0", "a-b_c", "refs/heads/main", "a@b", "{x}", "umläut"] {
            assert_eq!(no_branch(name), None, "{name}");
        }
        for name in [
            "",
            "--upload-pack=x",
            "@",
            "a b",
            "a\tb",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "a..b",
            "a//b",
            "a@{1}",
            "/a",
            "a/",
            "a.",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
        ] {
            assert!(no_branch(name).is_some(), "{name}");
        }
    }
}
