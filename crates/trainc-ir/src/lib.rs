//! The types of a plan: the mesh, the engine, the payload, the instances it may run on, and the architecture
//! of its model with the formulas of its parts. Those of its job are in `trainc-language`. Reads no file and
//! decides nothing.

pub mod account;
pub mod architecture;
pub mod checkpoint_parts;
pub mod cost;
pub mod date;
pub mod delivery;
pub mod digest;
pub mod engine;
pub mod expectation;
pub mod fleet;
pub mod foreign_file;
pub mod hardware;
pub mod image;
pub mod launch;
pub mod mesh;
pub mod mfu;
pub mod model;
pub mod payload;
pub mod placeholders;
pub mod plan;
pub mod price;
pub mod quota_room;
pub mod script;
pub mod source_tree;
pub mod training_job;
pub mod worker;

pub use account::AccountFacts;
pub use cost::Cost;
pub use delivery::{Assumed, Carrier, Delivery, Passed, WhyAssumed};
pub use engine::Engine;
pub use expectation::{Collective, Expectation, ExpectedSpeed, ExpectedType, Operation, ProbeWork};
pub use fleet::{Alternative, Alternatives, Fleet, Part};
pub use foreign_file::{FileReader, FileSetting, FileValue, ForeignFile, ProgramVersion, version_of};
pub use image::Image;
pub use launch::{Launch, Launcher};
pub use mesh::{Axis, Mesh};
pub use model::ModelFacts;
pub use payload::{AddedFile, Archive, ArchiveOrigin, KeyPlace, Payload, Starts};
pub use placeholders::Placeholders;
pub use plan::*;
pub use price::{Price, PriceBasis, PriceEstimate, StoragePrice};
pub use quota_room::QuotaRoom;
pub use script::{
    ArgumentPlace, CommandLine, CommandOption, OptionDefault, ParserKind, RequirementsFile, Script,
    ScriptModule, Takes, Unmodelled,
};
pub use source_tree::{SourceFile, SourceTree};
pub use trainc_language::{
    ACCOUNT_MARK, Access, Address, Field, Location, LocationField, Origin, Preference, Raw, RequestMember,
    Scalar, Val, nodes::*,
};
pub use trainc_language::{
    address, locations, nodes as job, origin, preferences, s3, scalar, storage, units,
};
pub use training_job::{TrainingJob, Transition};
