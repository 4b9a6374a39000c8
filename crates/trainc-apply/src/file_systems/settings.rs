//! Settings of a file system: differences from the plan, and which of them can be changed in place.

use crate::account::{FileSystem, FileSystemChange};
use crate::change::Difference;
use crate::desired::WantedFileSystem;

/// A setting that can only increase.
pub(crate) const CAPACITY: &str = "StorageCapacity";
const THROUGHPUT: &str = "PerUnitStorageThroughput";
const IOPS: &str = "MetadataConfiguration.Iops";

/// Differences of a file system that can be changed in place.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct InPlace {
    /// The UpdateFileSystem request.
    pub update: FileSystemChange,
    /// The settings that it changes.
    pub differences: Vec<Difference>,
    /// Settings of a shared file system that are higher than this job requires; they are kept.
    pub kept: Vec<Difference>,
}

impl InPlace {
    /// Returns true if the update increases a setting.
    pub(crate) fn raises(&self) -> bool {
        let update = &self.update;
        update.capacity_gib.is_some() || update.throughput.is_some() || update.metadata_iops.is_some()
    }

    /// Describes the kept settings as `, which may need more: …`; empty if there are none.
    pub(crate) fn describe_kept(&self) -> String {
        let stays = |one: &Difference| {
            format!("{} stays at {} (this job asks for {})", one.what, one.found, one.wanted)
        };
        let all: Vec<String> = self.kept.iter().map(stays).collect();
        if all.is_empty() {
            return String::new();
        }
        format!(", which may need more: {}", trainc_diag::text::list(&all, "and"))
    }
}

/// Returns true if a key ID or ARN refers to the same key as the ARN that the service returns.
fn kms_is(wanted: &str, found: &str) -> bool {
    let id = |text: &str| text.rsplit('/').next().unwrap_or(text).to_owned();
    // The service returns no alias, so its key cannot be compared here.
    wanted.contains("alias/") || id(wanted) == id(found)
}

/// Returns the differences in immutable settings.
pub(crate) fn immutable_differences(wanted: &WantedFileSystem, found: &FileSystem) -> Vec<Difference> {
    let lustre = &wanted.create.lustre_configuration;
    let mut out = Vec::new();
    let mut text = |what: &str, wanted: &str, found: &str| {
        if wanted != found {
            out.push(Difference::new(what, found, wanted));
        }
    };
    if let (Some(wanted), Some(found)) = (&lustre.deployment_type, &found.deployment) {
        text("DeploymentType", wanted, found);
    }
    if !found.storage_type.is_empty() {
        text("StorageType", &wanted.create.storage_type, &found.storage_type);
    }
    text("SubnetIds", &wanted.create.subnet_ids.join(", "), &found.subnets.join(", "));
    if let (Some(wanted), Some(found)) = (&lustre.drive_cache_type, &found.drive_cache) {
        text("DriveCacheType", wanted, found);
    }
    let efa = lustre.efa_enabled.unwrap_or_default();
    if efa != found.efa.unwrap_or_default() {
        text("EfaEnabled", &efa.to_string(), &found.efa.unwrap_or_default().to_string());
    }
    if let Some(wanted) = &wanted.create.kms_key_id {
        let found = found.kms.as_deref().unwrap_or("none");
        if !kms_is(wanted, found) {
            text("KmsKeyId", wanted, found);
        }
    }
    // Storage capacity can only increase.
    if wanted.create.storage_capacity < found.capacity_gib {
        text(
            CAPACITY,
            &format!("{} GiB", wanted.create.storage_capacity),
            &format!("{} GiB", found.capacity_gib),
        );
    }
    out
}

/// Returns the differences that can be changed in place. For a `shared` file system, no setting that another
/// job may need is decreased: the highest value of any job stays. Otherwise jobs that are applied in turn
/// would undo each other's changes, since throughput can increase and decrease (FSx for Lustre user guide,
/// "Managing provisioned throughput capacity").
pub(crate) fn in_place_changes(wanted: &WantedFileSystem, found: &FileSystem, shared: bool) -> InPlace {
    let lustre = &wanted.create.lustre_configuration;
    let mut out = InPlace::default();
    let (asked, there) = (wanted.create.storage_capacity, found.capacity_gib);
    let capacity = Difference::new(CAPACITY, format!("{there} GiB"), format!("{asked} GiB"));
    if asked > there {
        out.update.capacity_gib = Some(asked);
        out.differences.push(capacity);
    } else if asked < there && shared {
        out.kept.push(capacity);
    }
    let throughput = lustre.per_unit_storage_throughput;
    out.update.throughput = out.compare_amount(THROUGHPUT, throughput, found.throughput, shared);
    // The service sets values that the manifest omits, so these are no difference.
    let compression = found.compression.as_deref().unwrap_or("NONE");
    if let Some(wanted) = lustre.data_compression_type.as_deref().filter(|wanted| *wanted != compression) {
        out.update.compression = Some(wanted.to_owned());
        out.differences.push(Difference::new("DataCompressionType", compression, wanted));
    }
    let iops = lustre.metadata_configuration.as_ref().and_then(|metadata| metadata.iops);
    out.update.metadata_iops = out.compare_amount(IOPS, iops, found.metadata_iops, shared);
    let maintenance = lustre.weekly_maintenance_start_time.as_ref();
    if maintenance.is_some() && maintenance != found.maintenance.as_ref() {
        out.update.maintenance = maintenance.cloned();
        out.differences.push(Difference::new(
            "WeeklyMaintenanceStartTime",
            found.maintenance.as_deref().unwrap_or("none"),
            maintenance.map_or("", String::as_str),
        ));
    }
    out
}

impl InPlace {
    /// Compares a setting that can increase and decrease, and records it as changed or kept. Returns the new
    /// value, if it changes.
    fn compare_amount(
        &mut self,
        what: &str,
        wanted: Option<u64>,
        found: Option<u64>,
        shared: bool,
    ) -> Option<u64> {
        let asked = wanted.filter(|_| wanted != found)?;
        let difference = Difference::new(what, number(found), asked);
        if shared && found.is_some_and(|found| found > asked) {
            self.kept.push(difference);
            return None;
        }
        self.differences.push(difference);
        Some(asked)
    }
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}
