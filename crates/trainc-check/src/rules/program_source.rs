//! The program's entry point and archive: forms that the container cannot start.

use crate::Context;
use crate::queries::program::{is_outside_source, is_python};
use crate::queries::torchrun::uses_torchrun;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Launcher, Program};

declare_code!(
    T0263,
    "unsupported-program-format",
    Error,
    "an entry point or archive that the container cannot start"
);

declare_code!(
    T0580, "source-not-unpacked", Error,
    "a source that a container with its own entry point never gets"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0263, &T0580];

/// Reports files of a program whose container has its own entry point: only the training toolkit, which
/// `entrypoint` replaces, downloads and unpacks them.
fn report_source_of_entrypoint(program: &Program, problems: &mut Problems) {
    let files = [("source", program.source.span()), ("git", program.git.span()), ("s3", program.s3.span())];
    let files = files.into_iter().filter_map(|(name, span)| Some((name, span?)));
    let dependencies = program.dependencies.iter().map(|dir| ("dependency", dir.span_or(program.span)));
    let named = program.entrypoint.iter().find(|word| word.value.ends_with(".py"));
    let script = program.entry.value().or(named.map(|word| &word.value));
    let script = script.map_or("train.py", |path| path.rsplit('/').next().unwrap_or(path));
    let help = format!(
        "write `program \"{script}\"` without `entrypoint`, and the toolkit starts it; or add the files to the \
            image; or upload them, write `channel \"code\" s3=\"s3://…/\"`, and start them from \
            `/opt/ml/input/data/code/`"
    );
    for (name, span) in files.chain(dependencies) {
        let mut diagnostic = Diagnostic::new(
            &T0580,
            span,
            format!("`{name}` never reaches the container, which starts `entrypoint`"),
        )
        .help(help.clone())
        .note("only the training toolkit downloads and unpacks a source, and `entrypoint` replaces the \
            toolkit");
        if let Some(word) = program.entrypoint.first() {
            diagnostic = diagnostic.label(word.span_or(program.span), "replaces the toolkit");
        }
        problems.push(diagnostic);
    }
}

/// Reports a command in one word: no shell splits the words of `entrypoint`.
fn report_command_in_one_word(program: &Program, problems: &mut Problems) {
    let Some(first) = program.entrypoint.first().filter(|word| word.value.trim().contains(' ')) else { return };
    let rest = program.entrypoint.iter().skip(1).map(|word| word.value.as_str());
    let words = first.value.split_whitespace().chain(rest);
    let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    let message = format!("the container has no program of the name `{}`", first.value);
    let diagnostic = Diagnostic::new(&T0263, first.span_or(program.span), message)
        .note("`ContainerEntrypoint` is a list of words, which no shell splits");
    // The quotes of a shell are not those of a manifest.
    problems.push(if first.value.contains(['"', '\'', '\\']) {
        diagnostic.help("write each word of the command in quotes of its own")
    } else {
        diagnostic.write(format!("entrypoint {}", words.join(" ")))
    });
}

/// Checks the entry point, the archive and the git URL.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    if plan.is_worker() {
        return;
    }
    if !program.entrypoint.is_empty() {
        report_command_in_one_word(program, problems);
        report_source_of_entrypoint(program, problems);
        return;
    }
    let mut reject = |span, message: String, help: &str, note: &str| {
        problems.push(Diagnostic::new(&T0263, span, message).help(help.to_owned()).note(note.to_owned()));
    };
    if let Some(entry) = program.entry.val() {
        let span = entry.span_or(program.span);
        let path = entry.value.as_str();
        if path.starts_with("s3://") {
            reject(
                span,
                format!("the entry point `{path}` is in S3; expected a path inside the program's directory"),
                "write the script's name, and `s3=` with a `.tar.gz` that contains it",
                "aws/sagemaker-python-sdk#471",
            );
        } else if is_outside_source(path) {
            reject(
                span,
                format!("the entry point `{path}` is outside the program's directory"),
                "write a path relative to `source=`",
                "the archive contains only the directory's content",
            );
        } else if let Some(tree) =
            plan.source.as_ref().filter(|tree| tree.get("setup.py").is_some() && is_python(path))
        {
            let dir = tree.dir.trim_end_matches('/');
            // Under torchrun a package does not start at all, which another rule reports.
            let shards = plan.engine.is_some_and(|engine| engine.law.can_shard());
            let torchrun = shards && uses_torchrun(plan);
            if !torchrun && path.contains('/') {
                reject(
                    span,
                    format!(
                        "`{dir}/setup.py` makes the program a package, but `{path}` is not a module of it"
                    ),
                    "move the entry point to the directory of `setup.py`",
                    "aws/sagemaker-python-sdk#966, #1325: `No module named src/train`",
                );
            }
        }
    }
    if let Some(s3) =
        program.s3.val().filter(|s3| s3.value.starts_with("s3://") && !s3.value.ends_with(".tar.gz"))
    {
        reject(
            s3.span_or(program.span),
            format!("`{}` is not a `.tar.gz` archive", s3.value),
            "pack the directory's content with `tar -czf sourcedir.tar.gz -C DIR .`, or use `source=`",
            "the toolkit unpacks one gzipped tar (aws/sagemaker-python-sdk#1494, #835)",
        );
    }
    if let Some(s3) = program.s3.val().filter(|_| plan.launch.launcher == Launcher::Accelerate) {
        reject(
            s3.span_or(program.span),
            format!("`accelerate launch` cannot be started from the archive `{}`", s3.value),
            "write `source=` with the directory of the program",
            "trainc adds its launch script only to archives that it packs",
        );
    }
    if let Some(git) = program.git.val() {
        let is_url =
            ["https://", "http://", "git@", "ssh://"].iter().any(|scheme| git.value.starts_with(scheme));
        if !is_url {
            reject(
                git.span_or(program.span),
                format!("`{}` is not a supported git URL", git.value),
                "write a URL that starts with `https://`, `ssh://` or `git@`",
                "the SageMaker SDK accepts the same URLs (PyPI sagemaker 2.257.7, `git_utils.py`)",
            );
        }
    }
}
