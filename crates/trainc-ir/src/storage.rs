//! Conversion of `storage` to the words and units of FSx.

use super::Storage;
use super::origin::Field;
use super::units::GIB;

impl Storage {
    /// Returns whether it is a Lustre file system that trainc creates.
    pub fn is_made_lustre(&self) -> bool {
        self.kind.value().is_some_and(|kind| kind == "lustre")
            && self.id.is_absent()
            && !(self.capacity_bytes.is_absent() && self.deployment.is_absent())
    }

    /// Returns the FSx deployment type: `PERSISTENT_2`.
    pub fn deployment_word(&self) -> Option<String> {
        self.deployment.value().map(|word| word.to_uppercase().replace('-', "_"))
    }

    /// Returns the FSx storage type: `SSD` by default.
    pub fn storage_type_word(&self) -> Option<String> {
        match &self.storage_type {
            Field::Absent => Some("SSD".to_owned()),
            Field::Bad => None,
            Field::Is(word) => Some(word.value.to_uppercase()),
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
