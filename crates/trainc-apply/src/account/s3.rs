//! Buckets, what lies in them, and what is put there.

use serde::{Deserialize, Serialize};

/// A bucket (HeadBucket).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// Its region, where the answer says it.
    pub region: Option<String>,
    /// True if S3 redirects requests to another region.
    #[serde(default)]
    pub moved: bool,
    /// True if another account owns it: S3 lets the caller see it, and refuses who expects that the caller owns it.
    #[serde(default)]
    pub foreign: bool,
}

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of the whole content, hexadecimal, where S3 shows a checksum that proves it.
    pub sha256: Option<String>,
    /// Its entity tag, which another object of other content does not have.
    pub etag: Option<String>,
}

/// What is uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The bucket.
    pub bucket: String,
    /// The key; it holds the digest of the content.
    pub key: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// SHA-256 of the content, 64 hex digits.
    pub sha256: String,
    /// The key that encrypts it; the service's own AES-256 without one.
    pub kms: Option<String>,
    /// The account that must own the bucket, where it must be one of ours.
    pub owner: Option<String>,
}
