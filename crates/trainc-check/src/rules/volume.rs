//! The volume: ignored where the type has NVMe of its own, counted in whole GiB, bounded by a quota.

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
    "a volume size on an instance type that uses local NVMe storage"
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

/// The catalogue's row of the cluster's type, or of each group's; none for a type without accelerators.
fn kinds(plan: &Plan, cluster: &Cluster) -> Vec<Option<Instance>> {
    if cluster.groups.is_empty() {
        return vec![plan.instance.clone()];
    }
    let types = cluster.groups.iter().map(|group| group.instance.value());
    types.map(|name| instances::get(name?)).collect()
}

/// The volume of `cluster`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(cluster) = &context.plan.job.cluster else { return };
    if !context.plan.deployable {
        return;
    }
    let kinds = kinds(context.plan, cluster);
    let local: Vec<&Instance> = kinds.iter().flatten().filter(|row| row.ebs_volume_ignored).collect();
    // Of several groups one may store on a volume all the same.
    let everywhere = local.len() == kinds.len();
    if let (Some(instance), Some(key)) = (local.first().filter(|_| everywhere), cluster.volume_kms.val()) {
        problems.push(
            Diagnostic::new(&T0428, key.span_or(cluster.span), format!("`{}` has no volume that a key could encrypt", instance.name))
                .help("remove `kms=`; the instance's NVMe is encrypted by its hardware")
                .note("`VolumeKmsKeyId` is refused for types with local instance storage (botocore's model of ResourceConfig)"),
        );
    }
    let Some(volume) = cluster.volume_bytes.val() else { return };
    let Some(span) = volume.origin.span() else { return };
    let mut said: Vec<&str> = Vec::new();
    for instance in local {
        if said.contains(&instance.name.as_str()) {
            continue;
        }
        said.push(&instance.name);
        let nvme = instance.nvme_total_gb.map_or_else(String::new, |gb| format!(", {} GB,", text::group(gb)));
        problems.push(
            Diagnostic::new(
                &T0427,
                span,
                format!(
                    "`{}` stores on its local NVMe{nvme} and ignores the volume of {}",
                    instance.name,
                    text::bytes(volume.value)
                ),
            )
            .note(format!(
                "it is still sent as written; the NVMe's size is of {} (`trainc catalog instances`)",
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
                format!("a volume of {} GiB is more than the API can be told", text::group(whole)),
            )
            .severity(Severity::Error)
            .help("write as much as the job downloads and writes, as `volume \"500GiB\"`")
            .note("`VolumeSizeInGB` is an integer of 32 bits (botocore 1.44.5, ResourceConfig)"),
        );
        return;
    }
    if everywhere {
        return;
    }
    if whole == 0 {
        let diagnostic = Diagnostic::new(&T0271, span, "`volume` is 0 GiB, and the instance stores on nothing else")
            .help("write `volume \"30GiB\"`, or as much as the job downloads and writes")
            .note("a type without instance storage needs a size (botocore 1.44.5, ResourceConfig.VolumeSizeInGB; its shape takes 0 for the types that ignore it)");
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
                    "{} bytes are no whole number of GiB: {whole} GiB are sent",
                    text::group(volume.value)
                ),
            )
            .help(format!("write `{literal}`"))
            .fix(span, literal)
            .note("`VolumeSizeInGB` counts whole GiB"),
        );
    }
    if let Some(quota) = quotas::general("volume-size")
        && let Some(default) = quota.default.filter(|default| whole > *default)
    {
        problems.push(
            Diagnostic::new(
                &T0430,
                span,
                format!("a volume of {whole} GiB; a new account has {default} GiB per instance at most"),
            )
            .note(format!(
                "quota {} `{}` can be raised; only the account knows its value",
                quota.code.as_deref().unwrap_or("without code"),
                quota.name
            ))
            .fact("quota", quota.code.unwrap_or_default()),
        );
    }
}
