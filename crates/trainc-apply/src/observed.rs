//! The resources of a plan that exist in an account: data only.

use crate::account::{Association, FileSystem, Object, Role, Tags, TrainingJob, Upload};
use std::collections::{BTreeMap, BTreeSet};

/// The existing resources of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The role that trainc creates.
    pub role: Option<ObservedRole>,
    /// For each file system that trainc creates, the existing ones with its tags.
    pub file_systems: Vec<ObservedFileSystem>,
    /// File systems with the job's tags that the manifest no longer names.
    pub orphaned: Vec<FileSystem>,
    /// IDs of all file systems of the region that are not being deleted; `None` without permission to list
    /// them.
    pub systems: Option<BTreeSet<String>>,
    /// True if the bucket that trainc would create exists.
    pub bucket: bool,
    /// True if another account owns it.
    pub foreign_bucket: bool,
    /// Whether each upload exists.
    pub uploads: Vec<bool>,
    /// URIs of uploads whose key has other or unverifiable content, each with the kind of mismatch.
    pub corrupted_uploads: BTreeMap<String, Corruption>,
    /// Runs of the job.
    pub runs: Runs,
}

/// A role with its policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedRole {
    /// The role.
    pub role: Role,
    /// trainc's inline policy, as JSON text.
    pub policy: Option<String>,
    /// Names of all inline policies.
    pub inline: Vec<String>,
    /// ARNs of all managed policies.
    pub attached: Vec<String>,
}

/// File systems with the tags of one storage, with the links of the one that is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedFileSystem {
    /// All of them, including failed ones and those being deleted.
    pub systems: Vec<FileSystem>,
    /// Associations of the one that is used.
    pub associations: Vec<Association>,
}

/// Reason why the object at the key of an upload is not, or may not be, the uploaded content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// It has another size, in bytes.
    Size(u64),
    /// It has the same size but another checksum.
    Content,
    /// It has the same size, but S3 shows no checksum: its content is unknown.
    Unverified,
}

impl Corruption {
    /// Compares the object at the key of an upload with the upload. S3 verifies a checksum when it stores an
    /// object, so an equal checksum proves the content.
    pub(crate) fn find(upload: &Upload, found: &Object) -> Option<Self> {
        if found.bytes != upload.bytes.len() as u64 {
            return Some(Self::Size(found.bytes));
        }
        match &found.sha256 {
            Some(sum) if *sum == upload.sha256 => None,
            Some(_) => Some(Self::Content),
            None => Some(Self::Unverified),
        }
    }

    /// Describes the mismatch as a sentence fragment, given the upload's size in bytes.
    pub(crate) fn describe(self, wanted: u64) -> String {
        let wanted = trainc_diag::text::group_digits(wanted);
        match self {
            Self::Size(bytes) => format!(
                "the key holds another object, of {} bytes instead of {wanted}",
                trainc_diag::text::group_digits(bytes)
            ),
            Self::Content => {
                format!("the key holds another object, of the same {wanted} bytes but with another SHA-256")
            }
            Self::Unverified => {
                format!("the key holds an object of the same {wanted} bytes, of which S3 shows no SHA-256")
            }
        }
    }
}

/// The runs of a job in an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// The latest run with a name of this digest, with its tags.
    pub latest: Option<(TrainingJob, Tags)>,
    /// Its run number, from 1.
    pub number: usize,
    /// The latest run of another digest of the job, with its tags. If a run of this digest is in progress,
    /// only one that is also in progress without `--new-run`.
    pub other: Option<(TrainingJob, Tags)>,
    /// Names of unfinished runs of other digests that use the role of this one.
    pub concurrent: Vec<String>,
    /// Runs of other digests that were described, ordered by name.
    pub described: Vec<TrainingJob>,
}
