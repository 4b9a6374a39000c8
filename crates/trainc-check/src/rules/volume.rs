//! The volume: ignored on types with local NVMe storage, in whole GiB, limited by a quota.

use crate::Context;
use trainc_catalog::{instances, quotas};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::hardware::Instance;
use trainc_ir::units::GIB;
use trainc_ir::{Cluster, Plan};

declare_code!(
    T0427,
    "volume-on-nvme",
    Note,
    "a volume size on an instance type that uses local NVMe storage",
    explains: [Disk]
);
declare_code!(
    T0428,
    "volume-key-on-nvme",
    Error,
    "a volume key on an instance type that uses local NVMe storage"
);
declare_code!(T0429, "volume-rounded", Warning, "a volume size that is not a whole number of GiB");
declare_code!(
    T0271,
    "zero-volume-size",
    Error,
    "a zero-size volume on an instance type without instance storage"
);
declare_code!(T0430, "volume-quota", Note, "a volume size above the default quota");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0271, &T0427, &T0428, &T0429, &T0430];

/// Returns the catalogue's row of the cluster's type, or of each group's; none for a type without
/// accelerators.
fn instances_of(plan: &Plan, cluster: &Cluster) -> Vec<Option<Instance>> {
    if cluster.groups.is_empty() {
        return vec![plan.instance.clone()];
    }
    let types = cluster.groups.iter().map(|group| group.instance.value());
    types.map(|name| instances::get(name?)).collect()
}

/// Checks the volume of `cluster`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(cluster) = &context.plan.job.cluster else { return };
    let instances = instances_of(context.plan, cluster);
    let local: Vec<&Instance> = instances.iter().flatten().filter(|row| row.ebs_volume_ignored).collect();
    // Some of several groups may still use the volume.
    let everywhere = local.len() == instances.len();
    if let (Some(instance), Some(key)) = (local.first().filter(|_| everywhere), cluster.volume_kms.val()) {
        problems.push(
            Diagnostic::new(&T0428, key.span_or(cluster.span), format!("`{}` has no EBS volume to encrypt", instance.name))
                .remove("kms=").and_text("; the instance encrypts its NVMe storage in hardware")
                .note("`VolumeKmsKeyId` is rejected for types with local instance storage (botocore's \
                    model of ResourceConfig)"),
        );
    }
    let Some(volume) = cluster.volume_bytes.val() else { return };
    let Some(span) = volume.origin.span() else { return };
    let mut reported: Vec<&str> = Vec::new();
    for instance in local {
        if reported.contains(&instance.name.as_str()) {
            continue;
        }
        reported.push(&instance.name);
        let nvme = instance.nvme_total_gb.map_or_else(String::new, |gb| format!(", {} GB,", text::group_digits(gb)));
        problems.push(
            Diagnostic::new(
                &T0427,
                span,
                format!(
                    "`{}` uses its local NVMe storage{nvme} and ignores the volume of {}",
                    instance.name,
                    text::bytes(volume.value)
                ),
            )
            .note(format!(
                "the request still contains the volume size; NVMe size as of {} (`trainc catalog instances`)",
                instance.provenance.date
            ))
            .fact("nvme_gb", instance.nvme_total_gb),
        );
    }
    let whole = volume.value.div_ceil(GIB);
    if i32::try_from(whole).is_err() {
        problems.push(
            Diagnostic::new(
                &T0430,
                span,
                format!("a volume of {} GiB exceeds the range of the API", text::group_digits(whole)),
            )
            .severity(Severity::Error)
            .help("write the size that the job's downloads and outputs need, e.g. `volume \"500GiB\"`")
            .note("`VolumeSizeInGB` is a 32-bit integer (botocore 1.44.5, ResourceConfig)"),
        );
        return;
    }
    if everywhere {
        return;
    }
    if whole == 0 {
        let diagnostic = Diagnostic::new(&T0271, span, "`volume` is 0 GiB, but the instance type has no \
            other storage")
            .write("volume \"30GiB\"").or_else("the space that the job's downloads and outputs require")
            .note("a type without instance storage requires a size (botocore 1.44.5, \
                ResourceConfig.VolumeSizeInGB; its shape allows 0 for types that ignore it)");
        problems.push(diagnostic);
        return;
    }
    if !volume.value.is_multiple_of(GIB) {
        let literal = format!("\"{whole}GiB\"");
        problems.push(
            Diagnostic::new(
                &T0429,
                span,
                format!(
                    "{} bytes are not a whole number of GiB: rounded up to {whole} GiB",
                    text::group_digits(volume.value)
                ),
            )
            .help(format!("write `{literal}`"))
            .fix(span, literal)
            .note("`VolumeSizeInGB` is a whole number of GiB"),
        );
    }
    if let Some(quota) = quotas::general("volume-size")
        && let Some(default) = quota.default.filter(|default| whole > *default)
    {
        problems.push(
            Diagnostic::new(
                &T0430,
                span,
                format!("a volume of {whole} GiB exceeds the default quota of a new account: {default} \
                    GiB per instance"),
            )
            .note(format!(
                "quota {} `{}` can be increased; the account may already have a higher value",
                quota.code.as_deref().unwrap_or("without code"),
                quota.name
            ))
            .fact("quota", quota.code.unwrap_or_default()),
        );
    }
}
