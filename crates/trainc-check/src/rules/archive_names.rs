//! Names in the source archive: each dependency stands there under its directory's own name, beside the program's
//! files, and two things of one name cannot both be there.

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

/// The most paths that are named.
const MOST_NAMED: usize = 3;

/// Looks at each dependency beside what stands in the archive before it.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    // Nothing is packed where the container starts by itself, or where the archive lies in S3 already.
    if !program.entrypoint.is_empty() || !program.s3.is_absent() {
        return;
    }
    let mut archive = Archive::default();
    let mut before: Vec<(Span, &SourceTree)> = Vec::new();
    if let Some(tree) = &plan.source {
        let place = program.source.val().or(program.git.val());
        archive.put(place.map_or(program.span, |place| place.span_or(program.span)), tree, None);
    }
    for (dir, tree) in plan.dependency_trees() {
        let span = dir.span_or(program.span);
        let name = emit::dependency_name(&tree.dir);
        if name == Some("..") {
            problems.push(
                Diagnostic::new(
                    &T0513,
                    span,
                    format!("`{}` ends in `..`, so that it has no name in the archive", tree.dir),
                )
                .help("write the directory's path by its name")
                .note("a dependency stands in the archive under the last part of its path"),
            );
            continue;
        }
        // Of one spelling they are still two directories where layers of two places say it.
        let is_same = |other: &SourceTree| plain(&other.dir) == plain(&tree.dir) && other.files == tree.files;
        if let Some((first, _)) = before.iter().find(|(_, other)| is_same(other)) {
            problems.push(
                Diagnostic::new(&T0514, span, format!("`{}` is a dependency twice", tree.dir))
                    .label(*first, "the first time")
                    .help("remove one of the two"),
            );
            continue;
        }
        before.push((span, tree));
        // What trainc puts there itself is another rule's, which names it.
        if name != Some(emit::SECRETS_SHIM) || program.secrets.is_empty() {
            problems.extend(judge(&archive, span, tree, name));
        }
        archive.put(span, tree, name);
    }
}

/// A directory as it is whatever its spelling.
fn plain(dir: &str) -> String {
    let parts: Vec<&str> = dir.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// What stands in the archive so far.
#[derive(Default)]
struct Archive<'a> {
    /// By its path there: its digest, and whose it is.
    files: BTreeMap<String, (&'a str, Owner<'a>)>,
    /// Every directory, and whose it was first.
    dirs: BTreeMap<String, Owner<'a>>,
}

/// The tree that put something there: where it is named, and its directory as written.
#[derive(Clone, Copy)]
struct Owner<'a> {
    span: Span,
    dir: &'a str,
}

impl<'a> Archive<'a> {
    fn put(&mut self, span: Span, tree: &'a SourceTree, name: Option<&str>) {
        let owner = Owner { span, dir: &tree.dir };
        for file in &tree.files {
            let path = placed(name, &file.path);
            for dir in ancestors(&path) {
                if !self.dirs.contains_key(dir) {
                    self.dirs.insert(dir.to_owned(), owner);
                }
            }
            self.files.entry(path).or_insert((file.sha256(), owner));
        }
    }
}

/// A file's path in the archive.
fn placed(name: Option<&str>, path: &str) -> String {
    name.map_or_else(|| path.to_owned(), |name| format!("{name}/{path}"))
}

/// The directories above a path, the outermost first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at))
}

/// The worst that happens when a tree is put into the archive: a file that is lost, else a directory that is shared.
fn judge(archive: &Archive, span: Span, tree: &SourceTree, name: Option<&str>) -> Problems {
    let mut problems = Problems::default();
    let mut lost: BTreeMap<String, (Owner, &str)> = BTreeMap::new();
    let mut shared: BTreeMap<String, Owner> = BTreeMap::new();
    let mut new_dirs: BTreeSet<String> = BTreeSet::new();
    for file in &tree.files {
        let path = placed(name, &file.path);
        if let Some((digest, owner)) = archive.files.get(&path) {
            if *digest != file.sha256() {
                lost.insert(path.clone(), (*owner, "a file with another content"));
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
        Some(name) => format!("give the directory another name than `{name}`, or name the one around it"),
        None => "name the directory that is needed, not the one around it".to_owned(),
    };
    if let Some((path, (owner, what))) = lost.iter().next() {
        let mut diagnostic = Diagnostic::new(
            &T0513,
            span,
            format!("`{}` comes to `{path}` in the archive, where `{}` has {what}", tree.dir, owner.dir),
        )
        .label(owner.span, "this has it too")
        .help(help);
        let others: Vec<&str> = lost.keys().skip(1).map(String::as_str).collect();
        let (named, rest) = others.split_at(others.len().min(MOST_NAMED));
        if !named.is_empty() {
            let rest = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            diagnostic = diagnostic.note(format!("also: {}{rest}", named.join(", ")));
        }
        problems.push(diagnostic.note(PLACED));
    } else if let Some((dir, owner)) = shared.iter().next() {
        problems.push(
            Diagnostic::new(
                &T0514,
                span,
                format!("`{}` and `{}` become one directory `{dir}` in the archive", owner.dir, tree.dir),
            )
            .label(owner.span, "this has it too")
            .help(help)
            .note(PLACED),
        );
    }
    problems
}

/// Where things stand in the archive.
const PLACED: &str = "`source=` stands at the archive's root, each `dependency` below the last part of its path, \
                      as the SageMaker SDK packs them (PyPI sagemaker 2.257.7, `utils.create_tar_file`)";

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
    fn said(source: &SourceTree, dependency: &SourceTree) -> Vec<(&'static str, String)> {
        let mut archive = Archive::default();
        archive.put(NOWHERE, source, None);
        let name = emit::dependency_name(&dependency.dir);
        judge(&archive, NOWHERE, dependency, name)
            .iter()
            .map(|problem| (problem.code.id, problem.message.clone()))
            .collect()
    }

    #[test]
    fn a_file_and_a_directory_of_one_name() {
        let [(code, message)] =
            &said(&tree("./code", &[("tool", "x")]), &tree("./tool", &[("a.py", "")]))[..]
        else {
            panic!("one problem")
        };
        assert_eq!(*code, "T0513");
        assert_eq!(message, "`./tool` comes to `tool` in the archive, where `./code` has a file");
    }

    #[test]
    fn a_directory_where_a_file_would_stand() {
        let [(code, message)] =
            &said(&tree("./code", &[("lib/a/b.py", "")]), &tree("./lib", &[("a", "")]))[..]
        else {
            panic!("one problem")
        };
        assert_eq!(*code, "T0513");
        assert_eq!(message, "`./lib` comes to `lib/a` in the archive, where `./code` has a directory");
    }

    #[test]
    fn files_that_differ_are_lost_and_equal_ones_are_not() {
        let source = tree("./code", &[("lib/a.py", "1"), ("lib/b.py", "2"), ("lib/c.py", "3")]);
        let [(code, message)] =
            &said(&source, &tree("lib", &[("a.py", "1"), ("b.py", "other"), ("c.py", "other")]))[..]
        else {
            panic!("one problem")
        };
        assert_eq!(*code, "T0513");
        assert_eq!(
            message,
            "`lib` comes to `lib/b.py` in the archive, where `./code` has a file with another content"
        );
        assert_eq!(said(&source, &tree("lib", &[("a.py", "1")]))[0].0, "T0514");
    }

    #[test]
    fn names_that_only_begin_alike_stand_apart() {
        let source = tree("./code", &[("libs/a.py", "1"), ("lib.py", "2"), ("x/lib/a.py", "3")]);
        assert!(said(&source, &tree("./lib", &[("a.py", "other")])).is_empty());
        // At the root: files beside files.
        assert!(said(&source, &tree(".", &[("b.py", "")])).is_empty());
    }
}
