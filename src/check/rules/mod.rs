//! The rules, one file each: a declaration, a function, and its tests. This file only lists them.

use super::Rule;
use crate::diag::Code;

mod account;
mod arguments;
mod arns;
mod budget;
mod channels;
mod checkpoints;
mod credentials;
mod debugger;
mod durations;
mod environment;
mod hyperparameters;
mod images;
mod instance_groups;
mod instances;
mod isolation;
mod job_name;
mod limits;
mod metrics;
mod places;
mod program_source;
mod request_members;
mod s3_uris;
mod source;
mod spot;
mod tags;
mod unused;
mod volume;

/// Every rule, in the order in which they run (the order does not matter).
pub static RULES: &[Rule] = &[
    account::rule,
    arguments::rule,
    arns::rule,
    budget::rule,
    channels::rule,
    checkpoints::rule,
    credentials::rule,
    debugger::rule,
    durations::rule,
    environment::rule,
    hyperparameters::rule,
    images::rule,
    instance_groups::rule,
    instances::rule,
    isolation::rule,
    job_name::rule,
    limits::rule,
    metrics::rule,
    program_source::rule,
    s3_uris::rule,
    source::rule,
    spot::rule,
    tags::rule,
    unused::rule,
    volume::rule,
];

/// The codes of all rules.
pub(super) fn codes() -> Vec<&'static Code> {
    [
        account::CODES,
        arguments::CODES,
        arns::CODES,
        budget::CODES,
        channels::CODES,
        checkpoints::CODES,
        credentials::CODES,
        debugger::CODES,
        durations::CODES,
        environment::CODES,
        hyperparameters::CODES,
        images::CODES,
        instances::CODES,
        isolation::CODES,
        job_name::CODES,
        limits::CODES,
        metrics::CODES,
        instance_groups::CODES,
        program_source::CODES,
        request_members::CODES,
        s3_uris::CODES,
        source::CODES,
        spot::CODES,
        tags::CODES,
        unused::CODES,
        volume::CODES,
    ]
    .concat()
}
