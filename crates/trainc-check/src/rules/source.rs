//! The program's files: source directory, dependencies and entry point.

use crate::Context;
use crate::queries::program::{
    command_help, is_outside_source, module_help, module_of_entry, script_of_command,
};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_emit as emit;
use trainc_ir::{AddedFile, Program, SourceTree, UnreadCause, UnreadDirectory};

declare_code!(T0501, "source-missing", Warning, "a program directory that cannot be read");
declare_code!(
    T0503,
    "source-fetch-failed",
    Error,
    "a program in a git repository that cannot be fetched",
    found_in: Repository
);
declare_code!(T0510, "reserved-file-name", Error, "a program file with a name that trainc uses itself");
declare_code!(
    T0502,
    "entry-point-missing",
    Error,
    "an entry point that is not in the program's directory",
    explains: [Program]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0501, &T0502, &T0503, &T0510];

/// Checks that the program's files can be read and contain the entry point, without which the container fails
/// after startup.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(program) = &context.plan.job.program else { return };
    check_added_files(context, program, problems);
    if let Some(entry) = program.entry.val().filter(|entry| entry.value.is_empty()) {
        problems.push(
            Diagnostic::new(&T0502, entry.span_or(program.span), "`program` has an empty entry point")
                .help("write a path relative to the source, e.g. `\"train.py\"`"),
        );
    }
    for (at, why) in &context.plan.missing_dependencies {
        let Some(dir) = program.dependencies.get(*at) else { continue };
        problems.push(
            Diagnostic::new(
                &T0501,
                dir.span_or(program.span),
                format!("the directory `{}` cannot be read: {}", dir.value, why.why),
            )
            .severity(severity(context, why))
            .note(unread_path_note(why)),
        );
    }
    if let (Some(why), Some(dir)) = (&context.plan.missing, program.source.val()) {
        let diagnostic = Diagnostic::new(
            &T0501,
            dir.span_or(program.span),
            format!("the source directory `{}` cannot be read: {}", dir.value, why.why),
        )
        .severity(severity(context, why))
        .note(unread_path_note(why));
        problems.push(if dir.value.ends_with(".py") {
            diagnostic.write("program \"train.py\" source=\"./scripts\"").and_text(": the script, and its directory")
        } else {
            diagnostic
        });
        return;
    }
    if let (Some(why), Some(git)) = (&context.plan.missing, program.git.val()) {
        problems.push(
            Diagnostic::new(
                &T0503,
                git.span_or(program.span),
                format!("`{}` could not be fetched: {}", git.value, why.why),
            )
                .note("`plan` with an account and `apply` fetch the program from its repository with \
                    git's credentials")
                .note("`plan --offline` and `emit` do not fetch it: they use URL and ref instead of \
                    the content"),
        );
        return;
    }
    let (Some(tree), Some(entry)) = (&context.plan.source, program.entry.val()) else { return };
    // A path outside the directory is reported as T0263.
    if entry.value.is_empty()
        || tree.get(&entry.value).is_some()
        || is_outside_source(&entry.value)
    {
        return;
    }
    let names: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
    let span = entry.span_or(program.span);
    let diagnostic = Diagnostic::new(&T0502, span, format!("`{}` is not in `{}`", entry.value, tree.dir));
    // The path of the source in front of the name.
    let inner = names.iter().copied().find(|name| entry.value.ends_with(&format!("/{name}")));
    problems.push(if let Some(module) = module_of_entry(&entry.value) {
        diagnostic.help(module_help(module, &names))
    } else if let Some(script) = script_of_command(&entry.value) {
        diagnostic.help(command_help(script))
    } else if let Some(inner) = inner {
        diagnostic.help(format!("write `\"{inner}\"`, relative to the source")).fix(span, format!("\"{inner}\""))
    } else if let Some(near) = text::nearest(&entry.value, names.iter().copied()) {
        diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\""))
    } else {
        let shown: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| name.ends_with(".py") || name.ends_with(".sh"))
            .take(6)
            .collect();
        if shown.is_empty() {
            diagnostic
        } else {
            diagnostic.note(format!("its scripts: {}", shown.join(", ")))
        }
    });
}

/// Reports a file with the name of one that trainc adds to the archive: the script that fetches secrets or
/// watches the run, what it reads, and the script that starts the ranks.
fn check_added_files(context: &Context, program: &Program, problems: &mut Problems) {
    let plan = context.plan;
    let image = plan.job.image.as_ref();
    for file in &plan.payload.added {
        let added = file.name();
        // They have paths of their own, and a rule of their own.
        if matches!(file, AddedFile::Settings { .. }) {
            continue;
        }
        let (user, label, does) = match (program.secrets.first(), &plan.job.probe, plan.enforced_budget(), image) {
            (.., Some(image)) if *file == AddedFile::LaunchScript => {
                (image.span, "trainc's file starts the ranks in this container", "")
            }
            _ if !program.entrypoint.is_empty() => continue,
            (Some(secret), ..) => {
                (secret.name_span, "trainc's file fetches this secret", "fetches the secrets and then ")
            }
            (None, Some(probe), ..) => {
                (probe.span, "trainc's file measures the cluster", "measures the cluster and then ")
            }
            (None, None, Some(budget), _) => (budget.span, "trainc's file enforces the budget", ""),
            (None, None, None, _) => continue,
        };
        let named = |tree: &SourceTree| tree.get(added).is_some();
        // A dependency directory that has this name in the archive.
        let dependency = plan.dependency_trees().find(|(_, tree)| match emit::dependency_name(&tree.dir) {
            Some(name) => name == added,
            None => named(tree),
        });
        let entry = program.entry.val().filter(|entry| entry.value == added);
        let source = program.source.val().or(program.git.val());
        let source = source.filter(|_| plan.source.as_ref().is_some_and(named));
        let Some(place) = entry.or(source).or(dependency.map(|(dir, _)| dir)) else { continue };
        let (what, help) = match dependency.filter(|(dir, tree)| *dir == place && !named(tree)) {
            Some((dir, _)) => (format!("`{}` is packed as", dir.value), "rename the directory"),
            None => ("the program has a file".to_owned(), "rename the file"),
        };
        problems.push(
            Diagnostic::new(
                &T0510,
                place.span_or(program.span),
                format!("{what} `{added}`, which trainc adds to the archive itself"),
            )
            .label(user, label)
            .help(help)
            .note(format!("the container starts trainc's file, which {does}starts the entry point")),
        );
        return;
    }
}

/// Returns a note on the path, depending on why it could not be read.
fn unread_path_note(why: &UnreadDirectory) -> &'static str {
    match why.fault {
        UnreadCause::OutsideRoot { is_repository: true } => {
            "the root is the nearest parent directory with `.git`; files outside it are not sent"
        }
        UnreadCause::OutsideRoot { is_repository: false } => {
            "the root is the current directory, or the manifest's outside of it, and files \
                outside the root are not sent; `git init` in a parent directory makes that one the root"
        }
        UnreadCause::NotFound => "the path is relative to the file that contains it; `emit` and `apply` \
            require the directory",
        UnreadCause::Content => {
            "all files of the directory are sent, including link targets, which must exist \
                inside the directory; files of another directory are sent with `dependency \"../common\"` \
                in `program`"
        }
    }
}

/// Returns a warning for a missing directory while it may still be created before `emit`, otherwise an error.
fn severity(context: &Context, why: &UnreadDirectory) -> Severity {
    if context.complete || why.fault != UnreadCause::NotFound { Severity::Error } else { Severity::Warning }
}
