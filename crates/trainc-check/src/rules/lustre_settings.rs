//! Settings of a new Lustre file system: deployment type, storage type, capacity, throughput, version and
//! metadata.

use crate::Context;
use crate::queries::file_system;
use trainc_catalog::fsx::{self, LegalCombination, Presence};
use trainc_catalog::limits;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Storage;

declare_code!(
    T0454,
    "lustre-incompatible-options",
    Error,
    "a Lustre deployment type that does not support the storage type or EFA"
);
declare_code!(
    T0455,
    "lustre-throughput",
    Error,
    "a throughput that the Lustre deployment type does not support"
);
declare_code!(T0456, "lustre-capacity", Error, "a capacity that the Lustre deployment type does not support");
declare_code!(
    T0457,
    "lustre-unsupported-setting",
    Error,
    "a setting that the Lustre deployment type does not support"
);
declare_code!(
    T0458,
    "lustre-version",
    Error,
    "a Lustre version that does not support the deployment type or its settings"
);
declare_code!(T0459, "metadata-iops", Error, "a number of metadata IOPS that cannot be provisioned");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0454, &T0455, &T0456, &T0457, &T0458, &T0459];

/// Checks each file system that trainc creates.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    for storage in context.plan.job.storage.iter().filter(|storage| file_system::is_created_lustre(storage)) {
        let (Some(deployment), Some(storage_type)) =
            (storage.deployment.value(), storage.fsx_storage_type())
        else {
            continue;
        };
        let Some(legal) = file_system::valid_combination(storage) else {
            check_combination(storage, deployment, &storage_type, problems);
            continue;
        };
        let throughput_fits = check_throughput(storage, deployment, &legal, problems);
        if throughput_fits || legal.step_gib(None).is_some() {
            check_capacity(storage, deployment, &legal, problems);
        }
        check_settings(storage, deployment, &legal, problems);
        check_version(storage, deployment, &legal, problems);
        check_metadata_iops(storage, &legal, problems);
    }
}

fn check_combination(storage: &Storage, deployment: &str, storage_type: &str, problems: &mut Problems) {
    let written = |word: &str| word.to_lowercase().replace('_', "-");
    let with_efa = fsx::legal(&storage.fsx_deployment_type().unwrap_or_default(), storage_type).is_some();
    let (span, what, legal) = if with_efa {
        let legal: Vec<String> = fsx::pairs()
            .filter(|(deployment, storage)| fsx::legal_with_efa(deployment, storage).is_some())
            .map(|(deployment, storage)| format!("{} {}", written(deployment), written(storage)))
            .collect();
        (storage.efa.span(), format!("`{deployment}` file systems do not support EFA"), legal)
    } else {
        let legal: Vec<String> = fsx::pairs()
            .filter(|(_, storage)| *storage == storage_type)
            .map(|(deployment, _)| written(deployment))
            .collect();
        (
            storage.storage_type.span(),
            format!("`{deployment}` file systems do not support {storage_type} storage"),
            legal,
        )
    };
    let diagnostic = Diagnostic::new(&T0454, span.unwrap_or(storage.span), what);
    let at = storage.deployment.span();
    let diagnostic = match at {
        Some(at) => diagnostic.label(at, "the deployment type"),
        None => diagnostic,
    };
    problems.push(if with_efa {
        diagnostic.note(format!(
            "supported by {} (docs.aws.amazon.com, FSx for Lustre)",
            text::backtick_list(&legal, "and")
        ))
    } else {
        diagnostic.note(format!("supported by {} (botocore, CreateFileSystem)", text::backtick_list(&legal, "and")))
    });
}

/// Checks the throughput; returns whether the deployment type supports it, so that the capacity can be
/// checked too.
fn check_throughput(storage: &Storage, deployment: &str, legal: &LegalCombination, problems: &mut Problems) -> bool {
    let tiers: Vec<String> = legal.throughputs.iter().map(u32::to_string).collect();
    let Some(written) = storage.throughput_mb_s_tib.val() else {
        if legal.throughput == Presence::Required && storage.throughput_mb_s_tib.is_absent() {
            problems.push(
                Diagnostic::new(
                    &T0455,
                    storage.deployment.span().unwrap_or(storage.span),
                    format!("`{deployment}` file systems require a throughput"),
                )
                .add(format!("throughput={}", tiers.first().map_or("", String::as_str))).and_text(&format!("; valid values are {} MB/s per TiB", text::list(&tiers, "and")))
                .note("PerUnitStorageThroughput is required (botocore, CreateFileSystem)"),
            );
        }
        return legal.throughput == Presence::Forbidden;
    };
    let span = written.span_or(storage.span);
    if legal.throughput == Presence::Forbidden {
        let mut diagnostic =
            Diagnostic::new(&T0455, span, format!("the throughput of `{deployment}` file systems is fixed"))
                .remove("throughput").or_else("choose `deployment=\"persistent-2\"`");
        if let Some(fixed) = legal.fixed_throughput_mb_s_per_tib {
            diagnostic = diagnostic.note(format!("it is {fixed} MB/s per TiB ({})", legal.provenance.source));
        }
        problems.push(diagnostic);
        return true;
    }
    if legal.throughputs.iter().any(|tier| u64::from(*tier) == written.value) {
        return true;
    }
    let nearest =
        legal.throughputs.iter().min_by_key(|tier| (u64::from(**tier).abs_diff(written.value), **tier));
    let diagnostic = Diagnostic::new(
        &T0455,
        span,
        format!(
            "`{deployment}` file systems do not support a throughput of {} MB/s per TiB",
            text::group_digits(written.value)
        ),
    )
    .note(format!(
        "valid values are {} MB/s per TiB ({})",
        text::list(&tiers, "and"),
        legal.provenance.source
    ))
    .fact("legal_mb_s_per_tib", legal.throughputs.clone());
    problems.push(match nearest {
        Some(tier) => {
            let other = settings_for_throughput(storage, written.value)
                .map(|change| format!(", or `{change}`, which supports {}", text::group_digits(written.value)));
            diagnostic
                .help(format!("write `throughput={tier}`{}", other.unwrap_or_default()))
                .fix(span, tier.to_string())
        }
        None => diagnostic,
    });
    false
}

/// Returns the settings that support the throughput: a storage type of the same deployment type is preferred
/// to another deployment type. None with EFA, which a single combination supports.
fn settings_for_throughput(storage: &Storage, throughput: u64) -> Option<String> {
    if storage.efa.get() == Some(true) {
        return None;
    }
    let (deployment, kind) = (storage.fsx_deployment_type()?, storage.fsx_storage_type()?);
    let has = |pair: &(&str, &str)| {
        fsx::legal(pair.0, pair.1)
            .is_some_and(|legal| legal.throughputs.iter().any(|tier| u64::from(*tier) == throughput))
    };
    let (other, other_kind) =
        fsx::pairs().filter(has).min_by_key(|pair| (pair.0 != deployment, pair.1 != kind))?;
    let written = |word: &str| word.to_lowercase().replace('_', "-");
    let change = [("deployment", other, deployment.as_str()), ("type", other_kind, kind.as_str())];
    let change = change.iter().filter(|(_, new, old)| new != old);
    Some(change.map(|(name, new, _)| format!("{name}=\"{}\"", written(new))).collect::<Vec<_>>().join(" "))
}

fn check_capacity(storage: &Storage, deployment: &str, legal: &LegalCombination, problems: &mut Problems) {
    let Some(written) = storage.capacity_bytes.val() else { return };
    // An invalid throughput was reported; here the step does not depend on it.
    let tier = storage.tier().filter(|tier| legal.throughputs.contains(tier));
    let whole = storage.capacity_gib();
    if whole.is_some_and(|gib| legal.takes_gib(gib, tier)) {
        return;
    }
    let floor = written.value >> 30;
    let below = legal.round_down_gib(floor, tier);
    let above = legal.round_up_gib(floor + u64::from(whole.is_none()), tier);
    let near: Vec<u64> = below.into_iter().chain(above).collect();
    let words: Vec<String> = near.iter().map(|gib| format!("capacity=\"{gib}GiB\"")).collect();
    let span = written.span_or(storage.span);
    let mut diagnostic = Diagnostic::new(
        &T0456,
        span,
        format!(
            "`{deployment}` file systems do not support a capacity of {}",
            file_system::gib(written.value)
        ),
    )
    .choose(format!("write {}", text::backtick_list(&words, "or")), &words)
    .fact("nearest_gib", near.clone());
    if let Some(step) = legal.step_gib(tier) {
        let first: Vec<String> = legal.first_gib.iter().map(|gib| format!("{gib}GiB")).collect();
        let efa = if storage.efa.get() == Some(true) { " with EFA" } else { "" };
        let at = match tier {
            Some(tier) if legal.steps_gib.iter().any(|(of, _)| *of == tier) => {
                format!(" at {tier} MB/s per TiB")
            }
            _ => String::new(),
        };
        let multiples = format!("multiples of {step}GiB");
        let legal_sizes =
            if first.is_empty() { multiples } else { format!("{} and {multiples}", first.join(", ")) };
        diagnostic = diagnostic
            .note(format!("valid capacities{efa}{at} are {legal_sizes} ({})", legal.provenance.source));
    }
    if whole.is_none() {
        diagnostic = diagnostic.note(format!(
            "StorageCapacity is in GiB; {} bytes are not a whole number of GiB",
            text::group_digits(written.value)
        ));
    }
    // The larger capacity has room for everything the written one was meant for.
    problems.push(match above {
        Some(above) => diagnostic.fix(span, format!("\"{above}GiB\"")),
        None => diagnostic,
    });
}

fn check_settings(storage: &Storage, deployment: &str, legal: &LegalCombination, problems: &mut Problems) {
    let mut reject = |span: Option<trainc_diag::source::Span>, what: &str, help: &str, why: &str| {
        problems.push(
            Diagnostic::new(
                &T0457,
                span.unwrap_or(storage.span),
                format!("`{deployment}` file systems do not support {what}"),
            )
            .help(help)
            .note(why),
        );
    };
    if !legal.kms_key && !storage.kms.is_absent() {
        reject(
            storage.kms.span(),
            "a customer-managed KMS key",
            "remove `kms`, or choose a persistent deployment",
            "KmsKeyId is only valid for persistent deployments; scratch file systems are \
                encrypted with an AWS-managed key (botocore, CreateFileSystem)",
        );
    }
    if legal.drive_cache == Presence::Forbidden && !storage.drive_cache.is_absent() {
        reject(
            storage.drive_cache.span(),
            "a drive cache on SSD storage",
            "remove `drive-cache`",
            "DriveCacheType is only valid for HDD storage (botocore, CreateFileSystem)",
        );
    }
    if !legal.metadata && !storage.metadata_iops.is_absent() {
        reject(
            storage.metadata_iops.span(),
            "a metadata configuration",
            "remove `metadata-iops`, or choose `deployment=\"persistent-2\"`",
            "MetadataConfiguration is only valid for PERSISTENT_2 (botocore, CreateFileSystem)",
        );
    }
    if !legal.associations {
        for link in storage.imports.iter().chain(&storage.exports) {
            reject(
                Some(link.span),
                "S3 links",
                "choose `deployment=\"scratch-2\"`, or copy the data yourself",
                "data repository associations are supported by all deployment types except \
                    SCRATCH_1 and Intelligent-Tiering (botocore, CreateDataRepositoryAssociation)",
            );
        }
    }
}

fn check_version(storage: &Storage, deployment: &str, legal: &LegalCombination, problems: &mut Problems) {
    let Some(version) = storage.version.val() else { return };
    let span = version.span_or(storage.span);
    let linked = legal.associations && !(storage.imports.is_empty() && storage.exports.is_empty());
    let configured = legal.metadata && (legal.metadata_required || !storage.metadata_iops.is_absent());
    let efa = storage.efa.get() == Some(true);
    let (allowed, what, why) = if !legal.versions.contains(&version.value) {
        let what = if efa {
            format!("`{deployment}` file systems with EFA")
        } else {
            format!("`{deployment}` file systems")
        };
        (
            &legal.versions,
            what,
            "FSx rejects this version for the deployment type (botocore, FileSystemTypeVersion)",
        )
    } else if linked && !legal.association_versions.contains(&version.value) {
        (
            &legal.association_versions,
            "file systems with S3 links".to_owned(),
            "data repository associations require version 2.12 or newer (botocore, \
                CreateDataRepositoryAssociation)",
        )
    } else if configured && !legal.metadata_versions.contains(&version.value) {
        (
            &legal.metadata_versions,
            "file systems with a metadata configuration".to_owned(),
            "version 2.12 is not supported by PERSISTENT_2 file systems with a metadata \
                configuration (botocore, FileSystemTypeVersion)",
        )
    } else {
        return;
    };
    let diagnostic = Diagnostic::new(
        &T0458,
        span,
        format!("{what} do not support version {}; expected {}", version.value, text::list(allowed, "or")),
    )
    .note(why);
    problems.push(match allowed.last() {
        Some(newest) => diagnostic
            .help(format!("write `version=\"{newest}\"`, or remove it"))
            .fix(span, format!("\"{newest}\"")),
        None => diagnostic,
    });
}

fn check_metadata_iops(storage: &Storage, legal: &LegalCombination, problems: &mut Problems) {
    let (Some(written), Some(limit)) = (storage.metadata_iops.val(), limits::get("fsx.metadata-iops")) else {
        return;
    };
    let Some(step) = legal.metadata_step_iops.filter(|_| legal.metadata) else { return };
    if legal.takes_metadata_iops(written.value, limit.value) {
        return;
    }
    let near = legal
        .metadata_iops
        .iter()
        .copied()
        .chain((1..=limit.value / step).map(|n| n * step))
        .min_by_key(|iops| (iops.abs_diff(written.value), *iops));
    let span = written.span_or(storage.span);
    let first: Vec<String> = legal.metadata_iops.iter().map(|iops| text::group_digits(*iops)).collect();
    let diagnostic = Diagnostic::new(
        &T0459,
        span,
        format!("invalid number of metadata IOPS: {}", text::group_digits(written.value)),
    )
    .note(format!(
        "valid values are {} and multiples of {} up to {} ({})",
        first.join(", "),
        text::group_digits(step),
        text::group_digits(limit.value),
        limit.provenance.source
    ));
    problems.push(match near {
        Some(near) => diagnostic.help(format!("write `metadata-iops={near}`")).fix(span, near.to_string()),
        None => diagnostic,
    });
}
