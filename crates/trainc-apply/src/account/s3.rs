//! S3 buckets, objects and uploads.

use serde::{Deserialize, Serialize};

/// A bucket (HeadBucket).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// Its region, if the response contains it.
    pub region: Option<String>,
    /// True if S3 redirects requests to another region.
    #[serde(default)]
    pub moved: bool,
    /// True if another account owns it: the caller may access it, but requests with the caller's account as
    /// expected bucket owner are denied.
    #[serde(default)]
    pub foreign: bool,
}

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the whole content in hexadecimal, if S3 returns a checksum that proves it.
    pub sha256: Option<String>,
    /// Entity tag, which differs between objects with different content.
    pub etag: Option<String>,
}

/// An object to upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The bucket.
    pub bucket: String,
    /// The key, which contains the digest of the content.
    pub key: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// SHA-256 of the content, 64 hexadecimal digits.
    pub sha256: String,
    /// KMS key that encrypts it; without one, S3 encrypts with AES-256.
    pub kms: Option<String>,
    /// The account that must own the bucket: S3 denies the request otherwise.
    pub owner: String,
}
