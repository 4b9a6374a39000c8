//! Units of size, bytes.

/// One GiB: the unit of volumes and file systems in AWS requests, which their documentation calls GB.
pub const GIB: u64 = 1 << 30;
