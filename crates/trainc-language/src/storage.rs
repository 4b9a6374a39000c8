//! `storage` in the words and units of FSx, with the values that FSx requires where the manifest sets none.

use super::nodes::Storage;
use super::origin::Field;
use super::units::GIB;

/// The metadata performance of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataMode {
    /// FSx chooses the IOPS from the capacity.
    Automatic,
    /// The IOPS of the manifest.
    Provisioned(u64),
}

impl Storage {
    /// Returns whether it is a Lustre file system that trainc creates.
    pub fn is_created_lustre(&self) -> bool {
        self.kind.value().is_some_and(|kind| kind == "lustre")
            && self.id.is_absent()
            && !(self.capacity_bytes.is_absent() && self.deployment.is_absent())
    }

    /// Returns the FSx deployment type: `PERSISTENT_2`.
    pub fn fsx_deployment_type(&self) -> Option<String> {
        self.deployment.value().map(|word| word.to_uppercase().replace('-', "_"))
    }

    /// Returns the FSx storage type: `SSD` by default.
    pub fn fsx_storage_type(&self) -> Option<String> {
        match &self.storage_type {
            Field::Absent => Some("SSD".to_owned()),
            Field::Bad => None,
            Field::Is(word) => Some(word.value.to_uppercase()),
        }
    }

    /// Returns the metadata mode to request: an EFA file system requires one (FSx API reference,
    /// `EfaEnabled`), so it gets the automatic mode by default.
    pub fn metadata_mode(&self) -> Option<MetadataMode> {
        let is_efa = self.efa.get() == Some(true);
        self.metadata_iops.get().map(MetadataMode::Provisioned).or(is_efa.then_some(MetadataMode::Automatic))
    }

    /// Returns the Lustre version: as written, else the default of the service, or a later one that the job
    /// requires. It is always sent, so that a changed default does not change a file system.
    ///
    /// The service defaults to 2.10, for PERSISTENT_2 to 2.12, and with a metadata configuration to 2.15
    /// (botocore 1.44.5, `FileSystemTypeVersion`); data repository associations need 2.12 (user guide for
    /// Lustre, "Linking your file system to an S3 bucket").
    pub fn lustre_version(&self) -> &str {
        if let Some(written) = self.version.value() {
            return written;
        }
        let is_persistent_2 = self.deployment.value().is_some_and(|deployment| deployment == "persistent-2");
        let is_linked = !self.imports.is_empty() || !self.exports.is_empty();
        if self.metadata_mode().is_some() {
            "2.15"
        } else if is_persistent_2 || is_linked {
            "2.12"
        } else {
            "2.10"
        }
    }

    /// Returns the throughput tier, MB/s per TiB.
    pub fn tier(&self) -> Option<u32> {
        self.throughput_mb_s_tib.get().and_then(|tier| u32::try_from(tier).ok())
    }

    /// Returns the capacity in GiB, if it is a whole number.
    pub fn capacity_gib(&self) -> Option<u64> {
        let bytes = self.capacity_bytes.get()?;
        bytes.is_multiple_of(GIB).then_some(bytes / GIB)
    }
}
