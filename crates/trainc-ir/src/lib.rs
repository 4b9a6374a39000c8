//! The data types of a resolved job and its plan. Plain data without behaviour, except for invariants.

pub mod account;
pub mod architecture;
pub mod checkpoint_parts;
pub mod digest;
pub mod expectation;
pub mod hardware;
pub mod image;
pub mod job;
pub mod launch;
pub mod mesh;
pub mod model;
pub mod origin;
pub mod plan;
pub mod preferences;
pub mod s3;
pub mod scalar;
pub mod source_tree;
pub mod storage;
pub mod training_job;
pub mod units;
pub mod worker;

pub use account::{ACCOUNT_MARK, AccountFacts};
pub use expectation::{Collective, Expectation, ExpectedSpeed, ProbeWork};
pub use image::Image;
pub use job::*;
pub use launch::{Launch, Launcher};
pub use mesh::{Axis, Mesh};
pub use model::ModelFacts;
pub use origin::{Field, Origin, Val};
pub use plan::*;
pub use preferences::Preference;
pub use scalar::{Raw, RequestMember, Scalar};
pub use source_tree::{SourceFile, SourceTree};
pub use training_job::{TrainingJob, Transition};
