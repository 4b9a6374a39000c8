//! The rules, one file each: a declaration, a function, and its tests. This file only lists them.

use super::Rule;
use crate::diag::Code;

mod channel_path;
mod channel_prefix;
mod channel_source;
mod checkpoint_interval;
mod container_network;
mod lustre_links;
mod lustre_settings;
mod lustre_upkeep;
mod partitions;
mod role;
mod source;
mod storage_kind;
mod storage_network;
mod vpc;

/// Every rule, in the order in which they run (the order does not matter).
pub static RULES: &[Rule] = &[
    channel_path::rule,
    channel_prefix::rule,
    channel_source::rule,
    checkpoint_interval::rule,
    container_network::rule,
    lustre_links::rule,
    lustre_settings::rule,
    lustre_upkeep::rule,
    partitions::rule,
    role::rule,
    source::rule,
    storage_kind::rule,
    storage_network::rule,
    vpc::rule,
];

/// The codes of all rules.
pub(super) fn codes() -> Vec<&'static Code> {
    [
        channel_path::CODES,
        channel_prefix::CODES,
        channel_source::CODES,
        checkpoint_interval::CODES,
        container_network::CODES,
        lustre_links::CODES,
        lustre_settings::CODES,
        lustre_upkeep::CODES,
        partitions::CODES,
        role::CODES,
        source::CODES,
        storage_kind::CODES,
        storage_network::CODES,
        vpc::CODES,
    ]
    .concat()
}
