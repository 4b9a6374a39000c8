//! The rules, one file each: a declaration, a function, and its tests. This file only lists them.

use super::Rule;
use crate::diag::Code;

mod account;
mod arguments;
mod arns;
mod availability;
mod budget;
mod channels;
mod checkpoints;
mod credentials;
mod debugger;
mod degrees;
mod divisibility;
mod durations;
mod efa;
mod environment;
mod experts;
mod groups;
mod hyperparameters;
mod images;
mod instance_groups;
mod instances;
mod isolation;
mod job_name;
mod limits;
mod metrics;
mod optimizer;
mod pipeline;
mod places;
mod precision;
mod processes;
mod program_source;
mod quantize;
mod quotas;
mod request_members;
mod s3_uris;
mod shard_group;
mod smddp;
mod smp_image;
mod smp_parameters;
mod smp_written;
mod source;
mod spot;
mod tags;
mod torchrun;
mod unused;
mod volume;
mod wrap;

/// Every rule, in the order in which they run (the order does not matter).
pub static RULES: &[Rule] = &[
    account::rule,
    arguments::rule,
    arns::rule,
    availability::rule,
    budget::rule,
    channels::rule,
    checkpoints::rule,
    credentials::rule,
    debugger::rule,
    degrees::rule,
    divisibility::rule,
    durations::rule,
    efa::rule,
    environment::rule,
    experts::rule,
    groups::rule,
    hyperparameters::rule,
    images::rule,
    instance_groups::rule,
    instances::rule,
    isolation::rule,
    job_name::rule,
    limits::rule,
    metrics::rule,
    optimizer::rule,
    pipeline::rule,
    precision::rule,
    processes::rule,
    program_source::rule,
    quantize::rule,
    quotas::rule,
    s3_uris::rule,
    shard_group::rule,
    smddp::rule,
    smp_image::rule,
    smp_parameters::rule,
    source::rule,
    spot::rule,
    tags::rule,
    torchrun::rule,
    unused::rule,
    volume::rule,
    wrap::rule,
];

/// The codes of all rules.
pub(super) fn codes() -> Vec<&'static Code> {
    [
        account::CODES,
        arguments::CODES,
        arns::CODES,
        availability::CODES,
        budget::CODES,
        channels::CODES,
        checkpoints::CODES,
        credentials::CODES,
        debugger::CODES,
        degrees::CODES,
        divisibility::CODES,
        durations::CODES,
        efa::CODES,
        environment::CODES,
        experts::CODES,
        groups::CODES,
        hyperparameters::CODES,
        images::CODES,
        instance_groups::CODES,
        instances::CODES,
        isolation::CODES,
        job_name::CODES,
        limits::CODES,
        metrics::CODES,
        optimizer::CODES,
        pipeline::CODES,
        precision::CODES,
        processes::CODES,
        program_source::CODES,
        quantize::CODES,
        quotas::CODES,
        request_members::CODES,
        s3_uris::CODES,
        shard_group::CODES,
        smddp::CODES,
        smp_image::CODES,
        smp_parameters::CODES,
        source::CODES,
        spot::CODES,
        tags::CODES,
        torchrun::CODES,
        unused::CODES,
        volume::CODES,
        wrap::CODES,
    ]
    .concat()
}
