//! Units of size, in bytes.

/// One GiB: the unit of volumes and file systems in AWS requests, called GB in the AWS documentation.
pub const GIB: u64 = 1 << 30;
