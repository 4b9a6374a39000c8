//! The tables of the nodes of the language, one file per group.

mod cluster;
mod data;
mod identity;
mod model;
mod parallel;
mod program;
mod train;

pub use parallel::{ENGINE_NAMES, OPTIONS, OptionRow, engines_of};
pub use program::IMAGE_FAMILIES;

use crate::spec::{NodeSpec, Repeat, Ty, arg, prop, required_prop, value_node};

/// The children of `job`, also valid in a layer file and in `env`.
pub const JOB_CHILDREN: &[&NodeSpec] = &[
    &REGION,
    &ACCOUNT,
    &TAGS,
    &model::MODEL,
    &model::ADAPTER,
    &model::QUANTIZE,
    &cluster::CLUSTER,
    &parallel::PARALLEL,
    &train::TRAIN,
    &program::PROGRAM,
    &program::IMAGE,
    &cluster::NETWORK,
    &data::STORAGE,
    &data::CHANNEL,
    &data::CHECKPOINT,
    &data::OUTPUT,
    &data::BUCKET,
    &identity::ROLE,
    &identity::DEBUGGER,
    &identity::PROFILER,
    &identity::TENSORBOARD,
    &identity::EXPERIMENT,
    &identity::REMOTE_DEBUG,
    &identity::HEALTH_CHECK,
    &identity::SESSION_CHAINING,
    &PROBE,
    &BUDGET,
    &SWEEP,
    &REQUEST,
    &ALLOW,
];

static REGION: NodeSpec = value_node("region", Ty::Plain, "AWS region");
static ACCOUNT: NodeSpec =
    value_node("account", Ty::Plain, "AWS account ID, twelve digits; replaces ${account} in the output");
static TAGS: NodeSpec = NodeSpec {
    name: "tags",
    doc: "tags of all created resources",
    free_props: Some(Ty::Text),
    ..NodeSpec::LEAF
};
static PROBE: NodeSpec = NodeSpec {
    name: "probe",
    doc: "measures the cluster for 60 to 90 seconds before the program starts",
    props: &[prop(
        "minimum",
        Ty::Number(0.01, 1.0),
        "share of the planned rate below which the job ends before training, also for a single slow node",
    )],
    ..NodeSpec::LEAF
};
static BUDGET: NodeSpec = NodeSpec {
    name: "budget",
    doc: "cost limit of the job",
    props: &[
        required_prop("usd", Ty::Number(0.0, f64::MAX), "limit in US dollars"),
        prop(
            "hard",
            Ty::Bool,
            "a cost that may exceed the limit is an error, not a warning; a cost that certainly exceeds it is always an error",
        ),
        prop(
            "enforce",
            Ty::Bool,
            "stop the running job, with a checkpoint, if its cost will exceed a hard limit or if it becomes too slow",
        ),
        prop(
            "slowest",
            Ty::Number(0.01, 1.0),
            "share of the tokens/s of the run's first steps, or of the plan where its setting was measured, below which `enforce` stops the job, such as 0.7",
        ),
        prop(
            "steps",
            Ty::Int(10, 1_000_000),
            "steps for which the job must stay below `slowest`; 50 if not given",
        ),
    ],
    ..NodeSpec::LEAF
};
static REQUEST: NodeSpec = NodeSpec {
    name: "request",
    doc: "members of CreateTrainingJob without a node, by their AWS names; `-` is a list item",
    free_children: true,
    ..NodeSpec::LEAF
};
/// `sweep { … }`.
pub static SWEEP: NodeSpec = NodeSpec {
    name: "sweep",
    doc: "one job per combination of these values, which are part of its name",
    children: &[&VARY],
    ..NodeSpec::LEAF
};
static VARY: NodeSpec = NodeSpec {
    name: "vary",
    doc: "a path as in --set, and its values",
    args: &[arg("path", Ty::Plain), crate::spec::repeated_arg("values", Ty::Scalar)],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};

/// `allow`, valid in every node.
pub static ALLOW: NodeSpec = NodeSpec {
    name: "allow",
    doc: "suppresses a warning in its node",
    args: &[arg("code", Ty::Plain)],
    props: &[
        required_prop("reason", Ty::Plain, "reason, shown in the plan"),
        prop("until", Ty::Plain, "last day, such as 2026-12-31; an error after it"),
    ],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};

/// `job "name" { … }`.
pub static JOB: NodeSpec = NodeSpec {
    name: "job",
    doc: "the job of a manifest; children in any order",
    args: &[arg("name", Ty::Plain)],
    children: JOB_CHILDREN,
    ..NodeSpec::LEAF
};

/// `extends "./base.kdl"`.
pub static EXTENDS: NodeSpec = NodeSpec {
    name: "extends",
    doc: "a layer that this file extends, relative to it",
    args: &[arg("path", Ty::Plain)],
    props: &[prop("sha256", Ty::Plain, "expected digest of the layer")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};

/// `env "prod" { … }`.
pub static ENV: NodeSpec = NodeSpec {
    name: "env",
    doc: "a layer that --env applies over this file",
    args: &[arg("name", Ty::Plain)],
    children: JOB_CHILDREN,
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
