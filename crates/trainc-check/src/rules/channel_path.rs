//! The path of a channel in a file system: its validity, its contents, and write access.

use crate::Context;
use crate::queries::file_system;
use trainc_catalog::shapes;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Channel, Plan, Scalar, Storage, Val};

declare_code!(
    T0481,
    "export-from-read-only",
    Warning,
    "an export of a file system that the job cannot write to"
);
declare_code!(T0486, "invalid-channel-path", Error, "an invalid path of a channel");
declare_code!(
    T0491,
    "channel-would-be-empty",
    Warning,
    "a channel from a directory that no link imports data into"
);
declare_code!(
    T0492,
    "unused-write-access",
    Note,
    "write access to a file system that nothing in the manifest uses"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0481, &T0486, &T0491, &T0492];

/// Checks each channel that reads from a file system.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    for channel in &plan.job.channels {
        let Some(storage) = channel.from.value().and_then(|from| file_system::find_storage(plan, from)) else {
            continue;
        };
        let is_valid = match channel.path.val() {
            Some(path) => check_path(context, storage, channel, path, problems),
            None => channel.path.is_absent(),
        };
        if is_valid {
            check_empty(storage, channel, problems);
        }
        check_write_access(plan, storage, channel, problems);
    }
    for storage in plan.job.storage.iter().filter(|storage| file_system::is_created_lustre(storage)) {
        check_export(plan, storage, problems);
    }
}

fn check_path(
    context: &Context,
    storage: &Storage,
    channel: &Channel,
    path: &Val<String>,
    problems: &mut Problems,
) -> bool {
    let span = path.span_or(channel.span);
    let name = file_system::name(storage);
    let mount = storage.mount.value().map_or("", |mount| mount.trim_matches('/'));
    let with_fix = |diagnostic: Diagnostic, fixed: String| {
        let diagnostic = diagnostic.write(format!("path={fixed}"));
        if context.is_literal(span, &path.value) { diagnostic.fix(span, fixed) } else { diagnostic }
    };
    let mut reject = |diagnostic: Diagnostic| {
        problems.push(diagnostic.note("trainc builds DirectoryPath from `/`, the mount name and this path"));
        false
    };
    if path.value.split('/').any(|part| part == "..") {
        return reject(
            Diagnostic::new(&T0486, span, format!("path `{}` contains `..`", path.value))
                .help("write the path from the root of the file system, without `..`"),
        );
    }
    if !path.value.starts_with('/') {
        let diagnostic =
            Diagnostic::new(&T0486, span, format!("path `{}` does not start with `/`", path.value));
        return reject(with_fix(diagnostic, format!("\"/{}\"", path.value)));
    }
    if let Some(fixed) = file_system::remove_empty_components(&path.value) {
        let diagnostic =
            Diagnostic::new(&T0486, span, format!("path `{}` is not normalized", path.value));
        return reject(with_fix(diagnostic, format!("\"{fixed}\"")));
    }
    let mut parts = path.value.split('/').filter(|part| !part.is_empty());
    if !mount.is_empty() && parts.next() == Some(mount) {
        let rest: Vec<&str> = parts.collect();
        let diagnostic = Diagnostic::new(
            &T0486,
            span,
            format!("path `{}` repeats the mount name of `{name}`", path.value),
        )
        .label(storage.mount.span().unwrap_or(storage.span), "the mount name");
        return reject(with_fix(diagnostic, format!("\"/{}\"", rest.join("/"))));
    }
    let directory = "InputDataConfig[].DataSource.FileSystemDataSource.DirectoryPath";
    if let Some(most) = shapes::member_at_path("CreateTrainingJob", directory).and_then(|shape| shape.max) {
        let length = path.value.chars().count() + mount.chars().count() + 1;
        if length as f64 > most {
            return reject(Diagnostic::new(
                &T0486,
                span,
                format!(
                    "the path with the mount name has {} characters; SageMaker accepts at most {}",
                    text::group_digits(length as u64),
                    text::short_number(most)
                ),
            ));
        }
    }
    true
}

fn check_empty(storage: &Storage, channel: &Channel, problems: &mut Problems) {
    if !file_system::is_created_lustre(storage)
        || channel.mode.value().is_some_and(|mode| mode == "rw")
        || channel.path.is_bad()
    {
        return;
    }
    let name = file_system::name(storage);
    let path = file_system::enclose_in_slashes(channel.path.value().map_or("/", String::as_str));
    let links = file_system::associations(storage);
    let unread = storage.imports.iter().any(|link| link.s3.is_bad() || link.path.is_bad());
    let imported: Vec<&str> =
        links.iter().filter(|link| link.imports).map(|link| link.path.as_str()).collect();
    if unread || imported.iter().any(|import| path.starts_with(import) || import.starts_with(path.as_str())) {
        return;
    }
    let span = channel.path.span().or_else(|| channel.from.span()).unwrap_or(channel.span);
    let diagnostic = Diagnostic::new(
        &T0491,
        span,
        format!(
            "channel `{}` would be empty: nothing is imported into `{}`",
            channel.name.value().map_or("", String::as_str),
            file_system::trim_trailing_slash(&path)
        ),
    )
    .label(storage.span, format!("`{name}` is a new file system"));
    let shown: Vec<&str> = imported.iter().map(|import| file_system::trim_trailing_slash(import)).collect();
    problems.push(
        if imported.is_empty() {
            diagnostic.help("add `import \"s3://bucket/prefix/\"` to the storage")
        } else {
            diagnostic.help(format!(
                "choose a `path` under {}, or change the `path` of the import",
                text::backtick_list(&shown, "or")
            ))
        }
        .note(
            "a job fails at startup if DirectoryPath does not exist: import data, or create the \
                directory beforehand",
        ),
    );
}

fn check_write_access(plan: &Plan, storage: &Storage, channel: &Channel, problems: &mut Problems) {
    let (Some(mode), Some(name)) = (channel.mode.val(), channel.name.value()) else { return };
    if mode.value != "rw" || !storage.exports.is_empty() || mode.origin.span().is_none() {
        return;
    }
    let place = format!("/opt/ml/input/data/{name}");
    let names_it = |text: &str| text.contains(&place);
    let program = plan.job.program.as_ref();
    let in_arguments = program.is_some_and(|program| {
        program
            .hyperparameters
            .iter()
            .any(|h| matches!(h.value.value(), Some(Scalar::Text(text)) if names_it(text)))
            || program.environment.iter().any(|pair| pair.value.value().is_some_and(|text| names_it(text)))
    });
    let in_checkpoint = plan
        .job
        .checkpoint
        .as_ref()
        .and_then(|checkpoint| checkpoint.local.value())
        .is_some_and(|text| names_it(text));
    if !in_arguments && !in_checkpoint {
        problems.push(
            Diagnostic::new(&T0492, mode.span_or(channel.span), format!("channel `{name}` is mounted \
                read-write, but nothing in the manifest writes to it"))
                .help("write `mode=\"ro\"` unless the script writes there")
                .note(format!("no hyperparameter, environment variable or checkpoint refers to `{place}`; an \
                    accidental write would change the data of other jobs")),
        );
    }
}

fn check_export(plan: &Plan, storage: &Storage, problems: &mut Problems) {
    let Some(export) = storage.exports.first() else { return };
    let name = file_system::name(storage);
    let users =
        || plan.job.channels.iter().filter(|channel| channel.from.value().is_some_and(|from| from == name));
    let writes =
        users().any(|channel| channel.mode.is_bad() || channel.mode.value().is_some_and(|mode| mode == "rw"));
    // A storage without a channel is reported by another rule.
    let Some(reader) = users().next() else { return };
    if !writes {
        problems.push(
            Diagnostic::new(
                &T0481,
                export.span,
                format!("nothing is exported: every channel from `{name}` is read-only"),
            )
            .label(reader.mode.span().unwrap_or(reader.span), "read-only")
            .help("write `mode=\"rw\"` on the channel that the script writes to, or remove the export")
            .note("an export copies changed files to S3; a job cannot change files on a read-only mount"),
        );
    }
}
