//! Files of the engine and the program that must be in the archive, each at a path of its own.

use super::source::T0510;
use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit as emit;
use trainc_ir::{AddedFile, FileReader, Launcher, Plan, Program};

declare_code!(
    T0518,
    "settings-file-not-packed",
    Error,
    "a file of the engine or the program that does not reach the container",
    allowable: AwsMayAccept
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0518];

/// Reports files that are not packed, and those whose path another file of the archive has.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    if plan.payload.is_packed() {
        if let Some(conflict) = conflict(plan) {
            problems.push(conflict);
        }
        return;
    }
    // The archive of a job that `accelerate launch` starts cannot be an existing one; a rule reports it.
    if plan.launch.launcher == Launcher::Accelerate && !program.s3.is_absent() {
        return;
    }
    for (file, span) in files(plan) {
        problems.push(not_packed(program, &file, span));
    }
}

/// Returns the files that the manifest asks for, each with the place where it does.
fn files(plan: &Plan) -> Vec<(String, Span)> {
    let parallel = plan.job.parallel.as_ref();
    let named = |reader: FileReader, span: Option<Span>| Some((plan.file_of(reader)?.path.clone(), span?));
    let engine = named(FileReader::Engine, parallel.and_then(|parallel| parallel.file.span()));
    let written = plan.written_file().and_then(|path| {
        let parallel = parallel?;
        Some((path.to_owned(), parallel.engine.span().unwrap_or(parallel.span)))
    });
    let program = named(FileReader::Program, plan.job.train.file.span());
    [engine, written, program].into_iter().flatten().collect()
}

fn not_packed(program: &Program, file: &str, span: Span) -> Diagnostic {
    let of = |why: &str, at: Span, label: &str, place: &str| {
        Diagnostic::new(&T0518, span, format!("`{file}` is not packed{why}"))
            .label(at, label)
            .help("write `program \"train.py\" source=\"./src\"`: trainc packs the file with the source")
            .note(format!("if {place} has the file already, accept this with `allow`"))
    };
    if let Some(word) = program.entrypoint.first() {
        let at = word.span_or(program.span);
        return of(": the container starts `entrypoint`", at, "replaces the program", "the image");
    }
    match program.s3.span() {
        Some(s3) => of(": trainc adds nothing to an existing archive", s3, "used as it is", "the archive"),
        None => of(": the job has no source", program.span, "names no source", "the image"),
    }
}

/// Reports the first file whose path in the archive is that of another one.
fn conflict(plan: &Plan) -> Option<Diagnostic> {
    let added: Vec<&str> = plan
        .payload
        .added
        .iter()
        .filter(|file| matches!(file, AddedFile::Settings { .. }))
        .map(AddedFile::name)
        .collect();
    let in_source = |path: &str| {
        let trees = plan.source.iter().map(|tree| (None, tree));
        let dependencies = plan.dependencies.iter().map(|tree| (emit::dependency_name(&tree.dir), tree));
        trees.chain(dependencies).any(|(dir, tree)| match dir {
            None => tree.get(path).is_some(),
            Some(dir) => path.strip_prefix(dir).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| {
                tree.get(rest).is_some()
            }),
        })
    };
    let is_twice = |at: usize, path: &str| added.iter().skip(at + 1).any(|other| *other == path);
    let path = added.iter().enumerate().find(|(at, path)| in_source(path) || is_twice(*at, path))?.1;
    let name = |file: &trainc_ir::ForeignFile| (file.packed_as == **path).then(|| file.path.clone());
    let packed = plan.files.iter().filter(|file| !file.is_in_source).find_map(name);
    let parallel = plan.job.parallel.as_ref()?;
    let spans = [parallel.file.span(), plan.job.train.file.span(), parallel.engine.span()];
    let of_path = |(file, span): (String, Span)| (packed.as_ref() == Some(&file)).then_some(span);
    let span = files(plan).into_iter().find_map(of_path);
    let span = span.or(spans.into_iter().flatten().next()).unwrap_or(parallel.span);
    let what = packed.map_or_else(|| "the file that trainc writes".to_owned(), |path| format!("`{path}`"));
    Some(
        Diagnostic::new(
            &T0510,
            span,
            format!("{what} is packed as `{path}`, where the archive has another file"),
        )
            .help("rename one of them"),
    )
}
