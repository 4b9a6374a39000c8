//! Facts as data: instance types, images, prices, regions, limits, quotas, and the shapes of service
//! requests.
//!
//! Input: a name. Output: a row with its source and date, or `None`. The data are embedded; no file, clock or
//! environment is read. A lookup scans the text for its row and parses only that row, so a command does not
//! pay for data it does not use. Reads no manifest and no plan.

pub mod accelerators;
pub mod algorithms;
pub mod allocator_options;
pub mod argument_classes;
pub mod arn;
pub mod checkpoint_calls;
pub mod ci_identities;
pub mod container_paths;
pub mod credential_files;
pub mod cuda;
pub mod debugger_rules;
pub mod efa;
pub mod engine_files;
pub mod environment_effects;
pub mod fsx;
pub mod generic_listing;
pub mod iam_actions;
pub mod images;
pub mod instances;
pub mod integrations;
pub mod limits;
pub mod listing;
pub mod model_libraries;
pub mod models;
pub mod network_calls;
pub mod other_documents;
pub mod packages;
pub mod path_uses;
pub mod prices;
pub mod quotas;
pub mod regions;
pub mod requirement_facts;
pub mod reserved_names;
pub mod rules;
pub mod script_calls;
pub mod services;
pub mod shapes;
pub mod smp;
pub mod support;
pub mod unmodelled;
pub mod usual_ranges;
pub mod vocabulary;
pub mod worker_gpu;

pub mod memo;
mod table;

/// Date of the data: no row is newer. Rules have separate dates.
pub const VERSION: &str = "2026-11-29";

/// All tables.
const TABLES: &[&table::Table] = &[
    &engine_files::ACCELERATE,
    &accelerators::TABLE,
    &algorithms::TABLE,
    &allocator_options::TABLE,
    &checkpoint_calls::TABLE,
    &ci_identities::TABLE,
    &container_paths::TABLE,
    &credential_files::FILES,
    &credential_files::NAMES,
    &credential_files::PATTERNS,
    &cuda::TABLE,
    &debugger_rules::TABLE,
    &engine_files::DEEPSPEED,
    &engine_files::DISTRIBUTED,
    &efa::TABLE,
    &engine_files::RULES,
    &environment_effects::TABLE,
    &shapes::ENUMS,
    &fsx::TABLE,
    &iam_actions::TABLE,
    &images::ALIASES,
    &images::TABLE,
    &images::NAMES,
    &images::OTHER,
    &instances::TABLE,
    &integrations::TABLE,
    &model_libraries::TABLE,
    &limits::TABLE,
    &network_calls::TABLE,
    &other_documents::TABLE,
    &packages::TABLE,
    &prices::INSTANCES,
    &prices::RATIOS,
    &quotas::TABLE,
    &quotas::GENERAL,
    &regions::TABLE,
    &services::TABLE,
    &images::REGISTRIES,
    &reserved_names::TABLE,
    &script_calls::TABLE,
    &path_uses::TABLE,
    &requirement_facts::BUILDS,
    &requirement_facts::DEPENDENCIES,
    &requirement_facts::IMPORTS,
    &requirement_facts::LIBRARY,
    &requirement_facts::TORCH,
    &unmodelled::TABLE,
    &vocabulary::TABLE,
    &smp::TABLE,
    &prices::STORAGE,
    &support::TABLE,
    &engine_files::TORCHTITAN,
    &engine_files::TRAINER,
    &usual_ranges::TABLE,
    &worker_gpu::TABLE,
];

/// Returns the name and number of rows of every table, sorted by name.
pub fn tables() -> impl Iterator<Item = (&'static str, usize)> {
    TABLES.iter().map(|table| (table.name, table.keys().count()))
}
