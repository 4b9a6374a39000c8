//! Branch, commit and directory of the program's git repository.

use crate::codes;
use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

// Git cannot fetch an invalid reference.
declare_code!(
    T0516,
    "invalid-git-reference",
    Error,
    "an invalid branch, commit or directory of a git repository",
    supersedes: { Job: [codes::T0503] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0516];

/// Number of digits of a commit ID, from the usual abbreviation to a full SHA-256.
const COMMIT_DIGITS: std::ops::RangeInclusive<usize> = 7..=64;

/// Checks branch, commit and directory of `git=`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(program) = &context.plan.job.program else { return };
    if let Some(branch) = program.branch.val()
        && let Some(why) = branch_error(&branch.value)
    {
        problems.push(
            Diagnostic::new(
                &T0516,
                branch.span_or(program.span),
                format!("`{}` is not a valid branch or tag name: {why}", branch.value),
            )
            .note("the rules are those of git-check-ref-format (Git documentation)"),
        );
    }
    if let Some(commit) = program.commit.val().filter(|commit| !is_commit(&commit.value)) {
        problems.push(
            Diagnostic::new(
                &T0516,
                commit.span_or(program.span),
                format!("`{}` is not a commit ID: expected 7 to 64 hexadecimal digits", commit.value),
            )
            .help("write the output of `git rev-parse HEAD`, or use `branch=` for a branch or tag"),
        );
    }
    if let Some(dir) = program.dir.val().filter(|dir| has_parent_component(&dir.value)) {
        problems.push(
            Diagnostic::new(
                &T0516,
                dir.span_or(program.span),
                format!("`{}` contains `..`; `dir=` must be a path inside the repository", dir.value),
            )
            .help("write the path without `..`"),
        );
    }
}

fn is_commit(text: &str) -> bool {
    COMMIT_DIGITS.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn has_parent_component(dir: &str) -> bool {
    dir.split('/').any(|part| part == "..")
}

/// Returns why a text is not a valid branch name.
fn branch_error(name: &str) -> Option<String> {
    let bad = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    Some(if name.is_empty() {
        "it is empty".to_owned()
    } else if name.starts_with('-') {
        "it starts with `-`".to_owned()
    } else if name == "@" {
        "git reads it as `HEAD`".to_owned()
    } else if let Some(c) = name.chars().find(|c| bad(*c)) {
        match c {
            ' ' => "it contains a space".to_owned(),
            c if c.is_ascii_control() => "it contains a control character".to_owned(),
            c => format!("it contains `{c}`"),
        }
    } else if let Some(found) = ["..", "//", "@{"].iter().find(|pair| name.contains(**pair)) {
        format!("it contains `{found}`")
    } else if name.starts_with('/') || name.ends_with('/') {
        "it starts or ends with `/`".to_owned()
    } else if name.ends_with('.') {
        "it ends with `.`".to_owned()
    } else if name.split('/').any(|part| part.starts_with('.')) {
        "a component starts with `.`".to_owned()
    } else if name.split('/').any(|part| part.strip_suffix(".lock").is_some()) {
        "a component ends with `.lock`".to_owned()
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One case per rule of git-check-ref-format.
    #[test]
    fn validates_branch_names() {
        for name in ["main", "feature/x", "v1.2.0", "a-b_c", "refs/heads/main", "a@b", "{x}", "umläut"] {
            assert_eq!(branch_error(name), None, "{name}");
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
            assert!(branch_error(name).is_some(), "{name}");
        }
    }
}
