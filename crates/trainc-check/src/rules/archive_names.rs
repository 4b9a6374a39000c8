//! Path conflicts in the source archive: each dependency is packed under its directory's name, next to the
//! program's files.

use crate::Context;
use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit as emit;
use trainc_ir::SourceTree;

declare_code!(
    T0513,
    "archive-path-conflict",
    Error,
    "two files or directories with the same path in the source archive"
);
declare_code!(
    T0514,
    "archive-directories-merged",
    Warning,
    "two directories that are merged in the source archive"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0513, &T0514];

/// Number of conflicting paths listed in a note.
const MAX_LISTED: usize = 3;

/// Checks each dependency against the files already in the archive.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    // Nothing is packed for a custom entry point or an archive that is already in S3.
    if !program.entrypoint.is_empty() || !program.s3.is_absent() {
        return;
    }
    let mut archive = Archive::default();
    let mut before: Vec<(Span, &SourceTree)> = Vec::new();
    if let Some(tree) = &plan.source {
        let place = program.source.val().or(program.git.val());
        archive.add(place.map_or(program.span, |place| place.span_or(program.span)), tree, None);
    }
    for (dir, tree) in plan.dependency_trees() {
        let span = dir.span_or(program.span);
        let name = emit::dependency_name(&tree.dir);
        if name == Some("..") {
            problems.push(
                Diagnostic::new(
                    &T0513,
                    span,
                    format!(
                        "`{}` ends in `..`: the dependency has no directory name in the archive",
                        tree.dir
                    ),
                )
                .help("write a path that ends in the directory's name")
                .note("a dependency is packed under the last component of its path"),
            );
            continue;
        }
        // The same spelling in layers of different directories means different trees: compare the files too.
        let is_same =
            |other: &SourceTree| normalized(&other.dir) == normalized(&tree.dir) && other.files == tree.files;
        if let Some((first, _)) = before.iter().find(|(_, other)| is_same(other)) {
            problems.push(
                Diagnostic::new(&T0514, span, format!("dependency `{}` is listed twice", tree.dir))
                    .label(*first, "first listed here")
                    .help("remove one of them"),
            );
            continue;
        }
        before.push((span, tree));
        // A conflict with a file that trainc adds is reported by another rule.
        if !plan.payload.added.iter().any(|file| name == Some(file.name())) {
            problems.extend(conflicts(&archive, span, tree, name));
        }
        archive.add(span, tree, name);
    }
}

/// Returns the path without empty and `.` components.
fn normalized(dir: &str) -> String {
    let parts: Vec<&str> = dir.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// The contents of the archive so far.
#[derive(Default)]
struct Archive<'a> {
    /// By path: digest and owner.
    files: BTreeMap<String, (&'a str, Owner<'a>)>,
    /// Every directory with its first owner.
    dirs: BTreeMap<String, Owner<'a>>,
}

/// The tree that a path comes from: the span that names it, and its directory as written.
#[derive(Clone, Copy)]
struct Owner<'a> {
    span: Span,
    dir: &'a str,
}

impl<'a> Archive<'a> {
    fn add(&mut self, span: Span, tree: &'a SourceTree, name: Option<&str>) {
        let owner = Owner { span, dir: &tree.dir };
        for file in &tree.files {
            let path = archive_path(name, &file.path);
            for dir in ancestors(&path) {
                if !self.dirs.contains_key(dir) {
                    self.dirs.insert(dir.to_owned(), owner);
                }
            }
            self.files.entry(path).or_insert((file.sha256(), owner));
        }
    }
}

/// Returns a file's path in the archive.
fn archive_path(name: Option<&str>, path: &str) -> String {
    name.map_or_else(|| path.to_owned(), |name| format!("{name}/{path}"))
}

/// Returns the parent directories of a path, outermost first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at))
}

/// Reports the worst conflict of adding a tree to the archive: a lost file, otherwise a merged directory.
fn conflicts(archive: &Archive, span: Span, tree: &SourceTree, name: Option<&str>) -> Problems {
    let mut problems = Problems::default();
    let mut lost: BTreeMap<String, (Owner, &str)> = BTreeMap::new();
    let mut shared: BTreeMap<String, Owner> = BTreeMap::new();
    let mut new_dirs: BTreeSet<String> = BTreeSet::new();
    for file in &tree.files {
        let path = archive_path(name, &file.path);
        if let Some((digest, owner)) = archive.files.get(&path) {
            if *digest != file.sha256() {
                lost.insert(path.clone(), (*owner, "a file with different content"));
            }
        } else if let Some(owner) = archive.dirs.get(&path) {
            lost.insert(path.clone(), (*owner, "a directory"));
        }
        for dir in ancestors(&path) {
            if !new_dirs.insert(dir.to_owned()) {
                continue;
            }
            if let Some((_, owner)) = archive.files.get(dir) {
                lost.insert(dir.to_owned(), (*owner, "a file"));
            } else if let Some(owner) = archive.dirs.get(dir).filter(|_| !dir.contains('/')) {
                shared.insert(dir.to_owned(), *owner);
            }
        }
    }
    let help = match name {
        Some(name) => format!("rename the directory `{name}`, or list its parent directory instead"),
        None => "list the directory that the program needs, not its parent".to_owned(),
    };
    if let Some((path, (owner, what))) = lost.iter().next() {
        let mut diagnostic = Diagnostic::new(
            &T0513,
            span,
            format!("`{}` adds `{path}` to the archive, where `{}` already has {what}", tree.dir, owner.dir),
        )
        .label(owner.span, "also contains this path")
        .help(help);
        let others: Vec<&str> = lost.keys().skip(1).map(String::as_str).collect();
        let (named, rest) = others.split_at(others.len().min(MAX_LISTED));
        if !named.is_empty() {
            let rest = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            diagnostic = diagnostic.note(format!("also: {}{rest}", named.join(", ")));
        }
        problems.push(diagnostic.note(ARCHIVE_LAYOUT));
    } else if let Some((dir, owner)) = shared.iter().next() {
        problems.push(
            Diagnostic::new(
                &T0514,
                span,
                format!(
                    "`{}` and `{}` are merged into one directory `{dir}` in the archive",
                    owner.dir, tree.dir
                ),
            )
            .label(owner.span, "also contains this path")
            .help(help)
            .note(ARCHIVE_LAYOUT),
        );
    }
    problems
}

const ARCHIVE_LAYOUT: &str = "`source=` is packed at the archive's root and each `dependency` under the \
    last component of its path, as in the SageMaker SDK (PyPI sagemaker 2.257.7, `utils.create_tar_file`)";

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::SourceFile;

    const NOWHERE: Span = Span { source: trainc_diag::source::SourceId(0), start: 0, end: 0 };

    fn tree(dir: &str, files: &[(&str, &str)]) -> SourceTree {
        let files = files.iter().map(|(path, text)| SourceFile::new(*path, text.as_bytes(), false)).collect();
        SourceTree { dir: dir.to_owned(), files }
    }

    #[track_caller]
    fn reported(source: &SourceTree, dependency: &SourceTree) -> Vec<(&'static str, String)> {
        let mut archive = Archive::default();
        archive.add(NOWHERE, source, None);
        let name = emit::dependency_name(&dependency.dir);
        conflicts(&archive, NOWHERE, dependency, name)
            .iter()
            .map(|problem| (problem.code.id, problem.message.clone()))
            .collect()
    }

    #[test]
    fn reports_a_directory_over_a_file() {
        let [(code, message)] =
            &reported(&tree("./code", &[("tool", "x")]), &tree("./tool", &[("a.py", "")]))[..]
        else {
            panic!("one problem")
        };
        assert_eq!(*code, "T0513");
        assert_eq!(message, "`./tool` adds `tool` to the archive, where `./code` already has a file");
    }

    #[test]
    fn reports_a_file_over_a_directory() {
        let [(code, message)] =
            &reported(&tree("./code", &[("lib/a/b.py", "")]), &tree("./lib", &[("a", "")]))[..]
        else {
            panic!("one problem")
        };
        assert_eq!(*code, "T0513");
        assert_eq!(message, "`./lib` adds `lib/a` to the archive, where `./code` already has a directory");
    }

    #[test]
    fn reports_only_files_with_different_content_as_lost() {
        let source = tree("./code", &[("lib/a.py", "1"), ("lib/b.py", "2"), ("lib/c.py", "3")]);
        let [(code, message)] =
            &reported(&source, &tree("lib", &[("a.py", "1"), ("b.py", "other"), ("c.py", "other")]))[..]
        else {
            panic!("one problem")
        };
        assert_eq!(*code, "T0513");
        assert_eq!(
            message,
            "`lib` adds `lib/b.py` to the archive, where `./code` already has a file with different content"
        );
        assert_eq!(reported(&source, &tree("lib", &[("a.py", "1")]))[0].0, "T0514");
    }

    #[test]
    fn ignores_names_with_a_common_prefix() {
        let source = tree("./code", &[("libs/a.py", "1"), ("lib.py", "2"), ("x/lib/a.py", "3")]);
        assert!(reported(&source, &tree("./lib", &[("a.py", "other")])).is_empty());
        // At the root, with different file names.
        assert!(reported(&source, &tree(".", &[("b.py", "")])).is_empty());
    }
}
