//! Data loading: the bytes that a step reads from a file system, the rate of the file system, and how long
//! the GPUs wait.
//!
//! Data are loaded in advance while the GPUs work, so that a step waits only if reading takes longer than the
//! rest of the step. The rate is known for a Lustre file system that the job creates; the catalogue has no
//! rates for S3 or for a host's own disk.

use super::from_plan::Unknown;
use trainc_catalog::fsx::{self, LegalCombination, Presence};
use trainc_ir::{Plan, Storage};

/// Bytes of a megabyte, the service's unit of throughput.
const MB: f64 = 1e6;

/// GiB of a TiB, per which the service states throughput.
const GIB_OF_TIB: f64 = 1024.0;

/// Amount and rate of data loading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// Bytes of one sequence.
    pub sequence_bytes: f64,
    /// Disk throughput of the file system for all nodes together, bytes per second.
    pub bytes_per_second: f64,
}

impl Input {
    /// Returns the data loading of a plan, or what is missing for it.
    pub fn from_plan(plan: &Plan) -> Result<Self, Unknown> {
        let (size, storage) = (sequence_bytes(plan), created_data_file_system(plan));
        let (Some(sequence_bytes), Some(storage)) = (size, storage) else {
            return Err(Unknown(match (size, storage) {
                (Some(_), _) => {
                    "data loading is modelled only for a Lustre file system that the job \
                        creates; it is assumed to keep up"
                }
                (_, Some(_)) => {
                    "`dataset` does not give the bytes per sequence; data loading is assumed to keep up"
                }
                (None, None) => "the data loader of the program is not modelled; it is assumed to keep up",
            }));
        };
        let bytes_per_second = disk_rate(storage).ok_or(Unknown(
            "the throughput of the file system is unknown; data loading is assumed to keep up",
        ))?;
        Ok(Self { sequence_bytes, bytes_per_second })
    }

    /// Returns the seconds to read `sequences` sequences.
    pub fn read_seconds(&self, sequences: f64) -> f64 {
        sequences * self.sequence_bytes / self.bytes_per_second
    }

    /// Returns the seconds that a step waits for its sequences, if everything else in it takes `rest`.
    pub fn exposed_read_seconds(&self, sequences: f64, rest: f64) -> f64 {
        (self.read_seconds(sequences) - rest).max(0.0)
    }
}

/// Returns the file system that the job creates, if all data come from it.
pub fn created_data_file_system(plan: &Plan) -> Option<&Storage> {
    let mut channels = plan.job.channels.iter();
    let from = channels.next()?.from.value()?;
    let named =
        |storage: &&Storage| storage.name.value().is_some_and(|name| name == from && !name.is_empty());
    let storage = plan.job.storage.iter().find(named).filter(|storage| storage.is_created_lustre())?;
    channels.all(|channel| channel.from.value() == Some(from)).then_some(storage)
}

/// Returns the bytes of a sequence on disk: the data of an epoch divided by its sequences.
pub fn sequence_bytes(plan: &Plan) -> Option<f64> {
    let train = &plan.job.train;
    let dataset = train.dataset.as_ref()?;
    let size = dataset.size_bytes.get()? as f64;
    match (dataset.sequences.get(), dataset.tokens.get(), train.sequence_length.get()) {
        (Some(sequences), ..) if sequences > 0 => Some(size / sequences as f64),
        (None, Some(tokens), Some(length)) if tokens > 0 => Some(size / tokens as f64 * length as f64),
        _ => None,
    }
}

/// Returns the disk throughput, MB/s per TiB.
pub fn disk_mb_s_per_tib(legal: &LegalCombination, tier: Option<u32>) -> Option<f64> {
    match legal.throughput {
        Presence::Required => tier.filter(|tier| legal.throughputs.contains(tier)),
        Presence::Forbidden => legal.fixed_throughput_mb_s_per_tib,
    }
    .map(f64::from)
}

/// Returns the disk throughput of a file system in bytes per second; `None` if the service rejects its
/// capacity or throughput.
pub fn disk_rate(storage: &Storage) -> Option<f64> {
    let (deployment, kind) = (storage.fsx_deployment_type()?, storage.fsx_storage_type()?);
    let legal = fsx::legal_with(&deployment, &kind, storage.efa.get() == Some(true))?;
    let (capacity, tier) = (storage.capacity_gib()?, storage.tier());
    let rate = disk_mb_s_per_tib(&legal, tier).filter(|_| legal.takes_gib(capacity, tier))?;
    Some(rate * MB * capacity as f64 / GIB_OF_TIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 20 TiB over a million sequences are 21,990,232.56 bytes each; 1,200 GiB at 125 MB/s per TiB
    /// give 146,484,375 bytes a second; 64 sequences take 9.6077 s, of which a step that works for 2 s waits
    /// 7.6077.
    #[test]
    fn what_a_step_waits_for() {
        let sequence_bytes = 20.0 * f64::from(1 << 20) * f64::from(1 << 20) / 1e6;
        let input = Input { sequence_bytes, bytes_per_second: 125e6 * 1200.0 / 1024.0 };
        assert!((input.bytes_per_second - 146_484_375.0).abs() < 1e-3);
        assert!((input.read_seconds(64.0) - 9.6077).abs() < 1e-4, "{}", input.read_seconds(64.0));
        assert!((input.exposed_read_seconds(64.0, 2.0) - 7.6077).abs() < 1e-4);
        // Reading in parallel with the GPUs' work costs nothing.
        assert_eq!(input.exposed_read_seconds(64.0, 10.0), 0.0);
    }
}
