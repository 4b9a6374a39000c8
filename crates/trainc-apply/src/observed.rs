//! What an account holds of a plan: data only.

use crate::account::{Association, FileSystem, Object, Role, Tags, TrainingJob, Upload};
use std::collections::{BTreeMap, BTreeSet};

/// What there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The role that trainc makes.
    pub role: Option<ObservedRole>,
    /// For each file system that trainc makes, those that carry its tags.
    pub file_systems: Vec<ObservedFileSystem>,
    /// File systems with the job's tags that the manifest no longer names.
    pub orphaned: Vec<FileSystem>,
    /// IDs of all file systems of the region that are not being deleted; `None` without permission to list them.
    pub systems: Option<BTreeSet<String>>,
    /// True if the bucket that trainc would make is there.
    pub bucket: bool,
    /// True if it is another account's.
    pub foreign_bucket: bool,
    /// For each upload, whether it is there.
    pub uploads: Vec<bool>,
    /// URIs of uploads whose key holds other content, or content that is not known, and how that shows.
    pub corrupted_uploads: BTreeMap<String, Corruption>,
    /// Runs of the job.
    pub runs: Runs,
}

/// A role with its policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedRole {
    /// The role.
    pub role: Role,
    /// trainc's inline policy, JSON text.
    pub policy: Option<String>,
    /// Names of all inline policies.
    pub inline: Vec<String>,
    /// ARNs of all managed policies.
    pub attached: Vec<String>,
}

/// File systems that carry the tags of one storage, with the links of the one that counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedFileSystem {
    /// All of them, also those that failed or are going.
    pub systems: Vec<FileSystem>,
    /// Associations of the one that counts.
    pub associations: Vec<Association>,
}

/// How it shows that what lies at the address of an upload is not what was uploaded, or may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// It has another size: bytes.
    Size(u64),
    /// It has another checksum, and the size of ours.
    Content,
    /// It has the size of ours, and S3 shows no checksum of it: it may be anything.
    Unverified,
}

impl Corruption {
    /// Compares the object at the address of an upload with the upload. S3 verifies a checksum when it stores an object,
    /// so only an equal one proves the content.
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

    /// What is wrong, a fragment, where ours has so many bytes.
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

/// The runs of a job that an account knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// The latest run that carries this digest's name, with its tags.
    pub latest: Option<(TrainingJob, Tags)>,
    /// Which run of the digest that is, from 1.
    pub number: usize,
    /// The latest run of another digest of the job, with its tags; beside a run of this digest that is not over only one
    /// that runs as well, though nobody asked for both.
    pub other: Option<(TrainingJob, Tags)>,
    /// Runs of other digests that are not over and run as the role of this one: names.
    pub concurrent: Vec<String>,
    /// Runs of other digests that were looked at, in the order of their names.
    pub described: Vec<TrainingJob>,
}
