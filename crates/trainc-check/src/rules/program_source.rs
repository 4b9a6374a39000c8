//! Where the program comes from: forms that the container could not start.

use crate::Context;
use std::path::Path;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Engine;

declare_code!(
    T0263,
    "unsupported-program-format",
    Error,
    "an entry point or archive that the container cannot start"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0263];

/// Whether an entry point lies outside the program's directory by its own words.
pub(super) fn is_elsewhere(path: &str) -> bool {
    path.starts_with("s3://") || path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// The entry point's path and the archive's form.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    let engine = plan.job.parallel.as_ref().and_then(|parallel| parallel.engine.get());
    if !program.entrypoint.is_empty() || engine == Some(Engine::Worker) {
        return;
    }
    let mut refuse = |span, message: String, help: &str, note: &str| {
        problems.push(Diagnostic::new(&T0263, span, message).help(help.to_owned()).note(note.to_owned()));
    };
    if let Some(entry) = program.entry.val() {
        let span = entry.span_or(program.span);
        let path = entry.value.as_str();
        if path.starts_with("s3://") {
            refuse(
                span,
                format!("the entry point `{path}` is in S3; it is a path inside the program's directory"),
                "write the script's name, and `s3=` with a `.tar.gz` that holds it",
                "aws/sagemaker-python-sdk#471",
            );
        } else if is_elsewhere(path) {
            refuse(
                span,
                format!("the entry point `{path}` lies outside the program's directory"),
                "write it relative to `source=`",
                "the archive holds the directory's content and nothing else",
            );
        } else if let Some(tree) =
            plan.source.as_ref().filter(|tree| tree.get("setup.py").is_some() && is_python(path))
        {
            let dir = tree.dir.trim_end_matches('/');
            // Under torchrun a package does not start at all, which has a rule of its own.
            let torchrun = matches!(engine, Some(Engine::Fsdp)) || plan.smp == Some(trainc_ir::Smp::V2);
            if !torchrun && path.contains('/') {
                refuse(
                    span,
                    format!("`{dir}/setup.py` makes the program a package, and `{path}` is no module of it"),
                    "move the entry point beside `setup.py`",
                    "aws/sagemaker-python-sdk#966, #1325: `No module named src/train`",
                );
            }
        }
    }
    if let Some(s3) =
        program.s3.val().filter(|s3| s3.value.starts_with("s3://") && !s3.value.ends_with(".tar.gz"))
    {
        refuse(
            s3.span_or(program.span),
            format!("`{}` is no `.tar.gz`", s3.value),
            "pack the directory's content with `tar -czf sourcedir.tar.gz -C DIR .`, or use `source=`",
            "the toolkit unpacks one gzipped tar (aws/sagemaker-python-sdk#1494, #835)",
        );
    }
    if let Some(git) = program.git.val() {
        let known =
            ["https://", "http://", "git@", "ssh://"].iter().any(|scheme| git.value.starts_with(scheme));
        if !known {
            refuse(
                git.span_or(program.span),
                format!("`{}` is no address that git is asked for", git.value),
                "begin it with `https://`, `ssh://` or `git@`",
                "the SageMaker SDK takes the same (PyPI sagemaker 2.257.7, `git_utils.py`)",
            );
        }
    }
}

/// What the toolkit starts with Python: it looks at the ending, case and all.
pub(super) fn is_python(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "py")
}
