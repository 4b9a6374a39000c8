//! The rules, one file each: a declaration, a function, and its tests. This file only lists them.

use super::Rule;
use trainc_diag::Code;

mod account;
mod adapter;
mod archive_names;
mod arguments;
mod arns;
mod assumed;
mod batch_size;
mod budget;
mod channel_overlap;
mod channel_path;
mod channels;
mod checkpoint_interval;
mod checkpoint_room;
mod checkpoints;
mod container_network;
mod credential_files;
mod credentials;
mod debugger;
mod degrees;
mod divisibility;
mod durations;
mod efa;
mod elsewhere;
mod environment;
mod experts;
mod git_names;
mod groups;
mod host_memory;
mod hyperparameters;
mod images;
mod instance_groups;
mod instances;
mod instead;
mod isolation;
mod job_name;
mod kms_alias;
mod lfs;
mod limits;
mod local_paths;
mod lustre_links;
mod lustre_rate;
mod lustre_settings;
mod lustre_upkeep;
mod memory;
mod metrics;
mod mpi_words;
mod optimizer;
mod pipeline;
mod placement;
mod places;
mod precision;
mod predicted_cost;
mod predicted_time;
mod preferences;
mod processes;
mod program_source;
mod quantize;
#[cfg(test)]
mod refused;
mod repeats;
mod repriced;
mod request_members;
mod role;
mod s3_uris;
mod schedule;
mod serverless;
mod shard_group;
mod shared_checkpoints;
mod smddp;
mod smp_image;
mod smp_parameters;
mod smp_unread;
mod smp_written;
mod source;
mod spot;
mod standing;
mod storage_kind;
mod storage_name;
mod storage_network;
mod storage_use;
mod tags;
mod too_large;
mod torchrun;
mod unused;
mod volume;
mod vpc;
mod wrap;

/// Every rule, in the order in which they run (the order does not matter).
pub static RULES: &[Rule] = &[
    account::rule,
    adapter::rule,
    archive_names::rule,
    arns::rule,
    assumed::rule,
    batch_size::rule,
    budget::rule,
    channel_overlap::rule,
    channel_path::rule,
    channels::rule,
    checkpoint_interval::rule,
    checkpoint_room::rule,
    checkpoints::rule,
    container_network::rule,
    credential_files::rule,
    credentials::rule,
    // After `credentials`: what must leave the manifest need not be declared.
    arguments::rule,
    debugger::rule,
    degrees::rule,
    divisibility::rule,
    durations::rule,
    efa::rule,
    environment::rule,
    experts::rule,
    git_names::rule,
    groups::rule,
    hyperparameters::rule,
    images::rule,
    instance_groups::rule,
    instances::rule,
    isolation::rule,
    job_name::rule,
    kms_alias::rule,
    lfs::rule,
    limits::rule,
    local_paths::rule,
    lustre_links::rule,
    lustre_rate::rule,
    lustre_settings::rule,
    lustre_upkeep::rule,
    memory::rule,
    metrics::rule,
    mpi_words::rule,
    optimizer::rule,
    pipeline::rule,
    placement::rule,
    precision::rule,
    predicted_cost::rule,
    predicted_time::rule,
    preferences::rule,
    processes::rule,
    program_source::rule,
    quantize::rule,
    repeats::rule,
    role::rule,
    s3_uris::rule,
    schedule::rule,
    serverless::rule,
    shard_group::rule,
    shared_checkpoints::rule,
    smddp::rule,
    smp_image::rule,
    smp_parameters::rule,
    smp_unread::rule,
    source::rule,
    spot::rule,
    storage_kind::rule,
    storage_name::rule,
    storage_network::rule,
    storage_use::rule,
    tags::rule,
    torchrun::rule,
    unused::rule,
    volume::rule,
    vpc::rule,
    wrap::rule,
];

/// Codes whose problems depend on today's date.
pub(super) static DATED: &[&Code] = &[&images::T0442];

/// The codes of each rule's file.
static FILES: &[&[&Code]] = &[
    account::CODES,
    adapter::CODES,
    archive_names::CODES,
    arguments::CODES,
    arns::CODES,
    assumed::CODES,
    batch_size::CODES,
    budget::CODES,
    channel_overlap::CODES,
    channel_path::CODES,
    channels::CODES,
    checkpoint_interval::CODES,
    checkpoint_room::CODES,
    checkpoints::CODES,
    container_network::CODES,
    credential_files::CODES,
    credentials::CODES,
    debugger::CODES,
    degrees::CODES,
    divisibility::CODES,
    durations::CODES,
    efa::CODES,
    environment::CODES,
    experts::CODES,
    git_names::CODES,
    groups::CODES,
    host_memory::CODES,
    hyperparameters::CODES,
    images::CODES,
    instance_groups::CODES,
    instances::CODES,
    isolation::CODES,
    job_name::CODES,
    kms_alias::CODES,
    lfs::CODES,
    limits::CODES,
    local_paths::CODES,
    lustre_links::CODES,
    lustre_rate::CODES,
    lustre_settings::CODES,
    lustre_upkeep::CODES,
    memory::CODES,
    metrics::CODES,
    mpi_words::CODES,
    optimizer::CODES,
    pipeline::CODES,
    placement::CODES,
    precision::CODES,
    predicted_cost::CODES,
    predicted_time::CODES,
    preferences::CODES,
    processes::CODES,
    program_source::CODES,
    quantize::CODES,
    repeats::CODES,
    request_members::CODES,
    role::CODES,
    s3_uris::CODES,
    schedule::CODES,
    serverless::CODES,
    shard_group::CODES,
    shared_checkpoints::CODES,
    smddp::CODES,
    smp_image::CODES,
    smp_parameters::CODES,
    smp_unread::CODES,
    source::CODES,
    spot::CODES,
    storage_kind::CODES,
    storage_name::CODES,
    storage_network::CODES,
    storage_use::CODES,
    tags::CODES,
    torchrun::CODES,
    unused::CODES,
    volume::CODES,
    vpc::CODES,
    wrap::CODES,
];

/// The codes of all rules.
pub(super) fn codes() -> Vec<&'static Code> {
    FILES.concat()
}

/// Whether an error leaves a warning as it would be without it. The rules look at one plan, each for itself, so an error
/// of one keeps no other from what it says; within a file one may go before the other, and an error from before
/// the rules may have taken their figures.
pub(super) fn lets_stand(error: &Code, warning: &Code) -> bool {
    let file = |code: &Code| FILES.iter().position(|file| file.contains(&code));
    let Some(of_error) = file(error) else { return false };
    // The arguments of a program are not read where one may be a secret.
    let unread = error == &credentials::T0252 && arguments::CODES.contains(&warning);
    // Of what its nodes cannot hold, or a step cannot read, no time and no cost is told.
    let has_no_run = [&memory::T0326, &host_memory::T0327, &divisibility::T0394].contains(&error);
    file(warning) != Some(of_error) && !unread && !has_no_run
}
