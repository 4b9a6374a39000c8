//! The rules, one file each: a declaration, a function, and its tests. This file only lists them.

use super::Rule;
use crate::diag::Code;

mod availability;
mod degrees;
mod divisibility;
mod efa;
mod experts;
mod groups;
mod optimizer;
mod pipeline;
mod precision;
mod processes;
mod quantize;
mod quotas;
#[cfg(test)]
mod refused;
mod shard_group;
mod smddp;
mod smp_image;
mod smp_parameters;
mod smp_written;
mod source;
mod torchrun;
mod wrap;

/// Every rule, in the order in which they run (the order does not matter).
pub static RULES: &[Rule] = &[
    availability::rule,
    degrees::rule,
    divisibility::rule,
    efa::rule,
    experts::rule,
    groups::rule,
    optimizer::rule,
    pipeline::rule,
    precision::rule,
    processes::rule,
    quantize::rule,
    quotas::rule,
    shard_group::rule,
    smddp::rule,
    smp_image::rule,
    smp_parameters::rule,
    source::rule,
    torchrun::rule,
    wrap::rule,
];

/// The codes of all rules.
pub(super) fn codes() -> Vec<&'static Code> {
    [
        availability::CODES,
        degrees::CODES,
        divisibility::CODES,
        efa::CODES,
        experts::CODES,
        groups::CODES,
        optimizer::CODES,
        pipeline::CODES,
        precision::CODES,
        processes::CODES,
        quantize::CODES,
        quotas::CODES,
        shard_group::CODES,
        smddp::CODES,
        smp_image::CODES,
        smp_parameters::CODES,
        source::CODES,
        torchrun::CODES,
        wrap::CODES,
    ]
    .concat()
}
