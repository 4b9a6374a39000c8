//! The nodes of the language, one file per group. Only tables: what each node takes.

mod aliases;
mod cluster;
mod data;
mod identity;
mod model;
mod parallel;
mod program;
mod train;

pub(crate) use aliases::{OTHER_NODES, OTHER_PROPERTIES, PROPERTIES_AS_NODES};
pub use parallel::{ENGINE_NAMES, OPTIONS, OptionRow, engines_of};

use super::spec::{NodeSpec, Repeat, Ty, arg, prop, required_prop, value_node};

/// The children of `job`, which a layer file and `env` take as well.
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
    &identity::ROLE,
    &identity::DEBUGGER,
    &identity::PROFILER,
    &identity::TENSORBOARD,
    &identity::EXPERIMENT,
    &identity::REMOTE_DEBUG,
    &identity::HEALTH_CHECK,
    &identity::SESSION_CHAINING,
    &BUDGET,
    &SWEEP,
    &REQUEST,
    &ALLOW,
];

static REGION: NodeSpec = value_node("region", Ty::Plain, "AWS region");
static ACCOUNT: NodeSpec =
    value_node("account", Ty::Plain, "AWS account, twelve digits; removes ${account} from what is emitted");
static TAGS: NodeSpec = NodeSpec {
    name: "tags",
    doc: "labels on everything that is made",
    free_props: Some(Ty::Text),
    ..NodeSpec::LEAF
};
static BUDGET: NodeSpec = NodeSpec {
    name: "budget",
    doc: "what the job may cost",
    props: &[
        required_prop("usd", Ty::Number(0.0, f64::MAX), "US dollars"),
        prop(
            "hard",
            Ty::Bool,
            "what may cost more is an error, not a warning; a run that surely costs more is one even without it",
        ),
    ],
    ..NodeSpec::LEAF
};
static REQUEST: NodeSpec = NodeSpec {
    name: "request",
    doc: "members of CreateTrainingJob for which there is no node, by their AWS names; `-` makes a list item",
    free_children: true,
    ..NodeSpec::LEAF
};
/// `sweep`, of which something must vary.
pub(crate) static SWEEP: NodeSpec = NodeSpec {
    name: "sweep",
    doc: "one job for each combination of these values, which stand in its name",
    children: &[&VARY],
    ..NodeSpec::LEAF
};
static VARY: NodeSpec = NodeSpec {
    name: "vary",
    doc: "a path as in --set, and its values",
    args: &[arg("path", Ty::Plain), super::spec::repeated_arg("values", Ty::Scalar)],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};

/// `allow`, which every node takes.
pub static ALLOW: NodeSpec = NodeSpec {
    name: "allow",
    doc: "silences a warning in the node where it stands",
    args: &[arg("code", Ty::Plain)],
    props: &[
        required_prop("reason", Ty::Plain, "why; shown in the plan"),
        prop("until", Ty::Plain, "last day, as 2026-12-31; after it an error"),
    ],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};

/// `job "name" { … }`.
pub static JOB: NodeSpec = NodeSpec {
    name: "job",
    doc: "the one job of a manifest; children in any order",
    args: &[arg("name", Ty::Plain)],
    children: JOB_CHILDREN,
    ..NodeSpec::LEAF
};

/// `extends "./base.kdl"`.
pub static EXTENDS: NodeSpec = NodeSpec {
    name: "extends",
    doc: "a layer under this file, relative to it",
    args: &[arg("path", Ty::Plain)],
    props: &[prop("sha256", Ty::Plain, "digest that the layer must have")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};

/// `env "prod" { … }`.
pub static ENV: NodeSpec = NodeSpec {
    name: "env",
    doc: "a layer over this file when --env names it",
    args: &[arg("name", Ty::Plain)],
    children: JOB_CHILDREN,
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
