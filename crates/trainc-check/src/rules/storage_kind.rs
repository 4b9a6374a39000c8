//! Storage settings: either an existing file system (`id`, and `mount` for Lustre) or a new Lustre file
//! system.

use crate::Context;
use crate::queries::file_system;
use trainc_catalog::{limits, shapes};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Field, Storage};

declare_code!(
    T0450,
    "conflicting-storage-settings",
    Error,
    "a storage that combines an existing file system with settings of a new one"
);
declare_code!(
    T0451,
    "storage-incomplete",
    Error,
    "a storage that neither names a file system nor fully describes a new one"
);
declare_code!(
    T0452,
    "mount-name",
    Error,
    "an existing Lustre file system with a missing or invalid mount name"
);
declare_code!(T0453, "invalid-file-system-id", Error, "an invalid file system ID");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0450, &T0451, &T0452, &T0453];

/// Checks each storage.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    for storage in &context.plan.job.storage {
        if storage.kind.value().is_none() {
            continue;
        }
        check_conflicts(storage, problems);
        if storage.id.is_absent() {
            check_complete(storage, problems);
        } else {
            check_id(storage, problems);
            let region = context.plan.region.as_ref().map_or("REGION", |region| region.name.as_str());
            check_mount(storage, region, problems);
        }
    }
}

/// Returns the settings that are only valid for a new file system, with their spans.
fn creation_settings(storage: &Storage) -> Vec<(&'static str, Span)> {
    fn field_span<T>(field: &Field<T>, fallback: Span) -> Option<Span> {
        (!field.is_absent()).then(|| field.span().unwrap_or(fallback))
    }
    let here = storage.span;
    let mut out: Vec<(&'static str, Span)> = [
        ("capacity", field_span(&storage.capacity_bytes, here)),
        ("deployment", field_span(&storage.deployment, here)),
        ("throughput", field_span(&storage.throughput_mb_s_tib, here)),
        ("type", field_span(&storage.storage_type, here)),
        ("compression", field_span(&storage.compression, here)),
        ("drive-cache", field_span(&storage.drive_cache, here)),
        ("kms", field_span(&storage.kms, here)),
        ("metadata-iops", field_span(&storage.metadata_iops, here)),
        ("maintenance", field_span(&storage.maintenance, here)),
        ("version", field_span(&storage.version, here)),
        ("delete-after-job", field_span(&storage.delete_after_job, here)),
        ("efa", field_span(&storage.efa, here)),
    ]
    .into_iter()
    .filter_map(|(name, span)| Some((name, span?)))
    .collect();
    out.extend(storage.imports.iter().map(|link| ("import", link.span)));
    out.extend(storage.exports.iter().map(|link| ("export", link.span)));
    out
}

fn check_conflicts(storage: &Storage, problems: &mut Problems) {
    let name = file_system::name(storage);
    let settings = creation_settings(storage);
    let mut names: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
    names.dedup();
    let Some((_, first)) = settings.first() else {
        if storage.id.is_absent() || !file_system::is_efs(storage) || storage.mount.is_absent() {
            return;
        }
        problems.push(
            Diagnostic::new(
                &T0450,
                storage.mount.span().unwrap_or(storage.span),
                format!("`{name}` is an EFS file system, which has no mount name"),
            )
            .remove("mount").and_text("; a channel's `path` starts at the root of the file system"),
        );
        return;
    };
    if file_system::is_efs(storage) {
        problems.push(
            Diagnostic::new(&T0450, *first, format!("`{name}` is an EFS file system, which trainc cannot \
                create: {} is not supported", text::backtick_list(&names, "and")))
                .help("use an existing file system, e.g. `storage \"efs\" name=\"…\" id=\"fs-…\"`, or \
                    create a `\"lustre\"` one")
                .note("the settings of a new file system are those of FSx for Lustre"),
        );
        return;
    }
    let names = text::backtick_list(&names, "and");
    let (written, span, why, help) = match (storage.id.is_absent(), storage.mount.is_absent()) {
        (true, true) => return,
        (false, _) => (
            "id",
            storage.id.span(),
            "refers to an existing file system",
            format!("remove {names}, or remove `id` and `mount` to create a new file system"),
        ),
        (true, false) => (
            "mount",
            storage.mount.span(),
            "FSx chooses the mount name of a new file system",
            format!("remove `mount` to create a new file system, or add `id=\"fs-…\"` and remove {names}"),
        ),
    };
    problems.push(
        Diagnostic::new(
            &T0450,
            *first,
            format!("`{name}` has `{written}`, which cannot be combined with {names}"),
        )
        .label(span.unwrap_or(storage.span), why)
        .help(help)
        .note("trainc does not modify an existing file system"),
    );
}

fn check_complete(storage: &Storage, problems: &mut Problems) {
    let name = file_system::name(storage);
    if file_system::is_efs(storage) {
        problems.push(
            Diagnostic::new(&T0451, storage.span, format!("`{name}` has no EFS file system ID"))
                .help("add `id=\"fs-…\"`")
                .note("trainc creates only FSx for Lustre file systems"),
        );
        return;
    }
    if !file_system::is_created_lustre(storage) {
        let diagnostic = Diagnostic::new(
            &T0451,
            storage.span,
            format!("`{name}` neither refers to an existing file system nor describes a new one"),
        );
        problems.push(
            diagnostic
                .help("add `id=\"fs-…\" mount=\"…\"` for an existing one, or `capacity=\"4800GiB\" \
                    deployment=\"persistent-2\" throughput=250` for a new one"),
        );
        return;
    }
    if storage.capacity_bytes.is_absent() && !storage.storage_type.is_bad() {
        problems.push(
            Diagnostic::new(&T0451, storage.span, format!("`{name}` has no capacity"))
                .add("capacity=\"4800GiB\"")
                .note("CreateFileSystem requires StorageCapacity for this type of file system"),
        );
    }
    if storage.deployment.is_absent() {
        problems.push(
            Diagnostic::new(&T0451, storage.span, format!("`{name}` has no deployment type"))
                .add("deployment=\"persistent-2\"").or("deployment=\"scratch-2\"").and_text(" for data that is also in S3")
                .note("the API defaults to SCRATCH_1, which supports neither S3 links nor replication; \
                    the type cannot be changed later"),
        );
    }
    if let Some(legal) = file_system::valid_combination(storage)
        && legal.drive_cache == trainc_catalog::fsx::Presence::Required
        && storage.drive_cache.is_absent()
    {
        let words: Vec<String> = legal
            .drive_caches
            .iter()
            .map(|word| format!("drive-cache=\"{}\"", word.to_lowercase()))
            .collect();
        problems.push(
            Diagnostic::new(
                &T0451,
                storage.storage_type.span().unwrap_or(storage.span),
                format!("`{name}` uses HDD storage without `drive-cache`"),
            )
            .choose(format!("add {}", text::backtick_list(&words, "or")), &words)
            .note("CreateFileSystem requires DriveCacheType with HDD storage"),
        );
    }
}

fn check_id(storage: &Storage, problems: &mut Problems) {
    let Some(id) = storage.id.val() else { return };
    let path = "InputDataConfig[].DataSource.FileSystemDataSource.FileSystemId";
    let Some(shape) = shapes::member_at_path("CreateTrainingJob", path) else { return };
    if shape.takes_text(&id.value) {
        return;
    }
    let mut diagnostic = Diagnostic::new(&T0453, id.span_or(storage.span), format!("invalid file system ID `{}`", id.value))
        .note("FileSystemId is `fs-` followed by at least 8 digits of 0-9 and a-f, with at most 21 \
            characters (botocore, CreateTrainingJob)");
    if id.value.contains(".fsx.") || id.value.contains(".efs.") {
        diagnostic = diagnostic.help("write only the ID, `fs-…`, without the DNS name");
    }
    problems.push(diagnostic);
}

fn check_mount(storage: &Storage, region: &str, problems: &mut Problems) {
    if file_system::is_efs(storage) {
        return;
    }
    let name = file_system::name(storage);
    let Some(mount) = storage.mount.val() else {
        if storage.mount.is_absent() && creation_settings(storage).is_empty() {
            let id = storage.id.value().map_or("", String::as_str);
            problems.push(
                Diagnostic::new(&T0452, storage.id.span().unwrap_or(storage.span), format!("`{name}` has no mount name"))
                    .help(format!("add `mount=\"…\"`; `aws fsx describe-file-systems --region {region} \
                        --file-system-ids {id} --query 'FileSystems[].LustreConfiguration.MountName'` \
                        prints it"))
                    .note("DirectoryPath of a channel starts with `/` and the mount name, which FSx \
                        assigned"),
            );
        }
        return;
    };
    let Some(limit) = limits::get("fsx.mount-name") else { return };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if (1..=limit.value).contains(&(mount.value.chars().count() as u64)) && mount.value.chars().all(plain) {
        return;
    }
    let span = mount.span_or(storage.span);
    let diagnostic =
        Diagnostic::new(&T0452, span, format!("invalid mount name `{}`", mount.value)).note(format!(
            "a mount name consists of 1 to {} letters, digits, hyphens and underscores ({})",
            limit.value, limit.provenance.source
        ));
    let bare = mount.value.trim_matches('/');
    problems.push(if bare != mount.value && !bare.is_empty() && bare.chars().all(plain) {
        diagnostic.help(format!("write `mount=\"{bare}\"`")).fix(span, format!("\"{bare}\""))
    } else {
        diagnostic
    });
}
