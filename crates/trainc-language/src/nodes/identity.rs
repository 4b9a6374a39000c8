//! `role` and the nodes that monitor the job.

use crate::spec::{NodeSpec, Repeat, Ty, arg, prop, required_prop, value_node};

static READ: NodeSpec = NodeSpec {
    name: "read",
    doc: "an additional S3 prefix that a created role may read: objects listed in a manifest, downloads of the program",
    args: &[arg("s3", Ty::Text)],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
pub(crate) static ROLE: NodeSpec = NodeSpec {
    name: "role",
    doc: "the job's IAM role: `create=#true`, or `arn=` of an existing role",
    props: &[
        prop("create", Ty::Bool, "create a role with least privilege"),
        prop("arn", Ty::Text, "ARN of an existing role"),
        prop("boundary", Ty::Text, "permissions boundary of a created role; default: TRAINC_ROLE_BOUNDARY"),
        prop(
            "path",
            Ty::Plain,
            "path of a created role; default /trainc/, with a boundary /trainc/NAME-OF-BOUNDARY/",
        ),
    ],
    children: &[&READ],
    alternatives: &[&["create", "boundary", "path", "read"], &["arn"]],
    ..NodeSpec::LEAF
};

static PARAMETERS: NodeSpec = NodeSpec {
    name: "parameters",
    doc: "parameters by name",
    free_props: Some(Ty::Scalar),
    ..NodeSpec::LEAF
};
static COLLECTION: NodeSpec = NodeSpec {
    name: "collection",
    doc: "a collection of tensors and its parameters",
    args: &[arg("name", Ty::Plain)],
    free_props: Some(Ty::Scalar),
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static RULE: NodeSpec = NodeSpec {
    name: "rule",
    doc: "a built-in rule and its parameters, evaluated while the job runs",
    args: &[arg("name", Ty::Plain)],
    free_props: Some(Ty::Scalar),
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
pub(crate) static DEBUGGER: NodeSpec = NodeSpec {
    name: "debugger",
    doc: "SageMaker Debugger; off by default",
    props: &[
        prop("s3", Ty::Text, "S3 prefix of the tensors; default: the output prefix"),
        prop("local", Ty::Text, "path in the container"),
    ],
    children: &[&PARAMETERS, &COLLECTION, &RULE],
    ..NodeSpec::LEAF
};
pub(crate) static PROFILER: NodeSpec = NodeSpec {
    name: "profiler",
    doc: "SageMaker Profiler; off by default",
    props: &[
        prop("s3", Ty::Text, "S3 prefix of its data; default: the output prefix"),
        prop("interval", Ty::Duration, "interval of system metrics, such as \"500ms\""),
    ],
    children: &[&PARAMETERS, &RULE],
    ..NodeSpec::LEAF
};
pub(crate) static TENSORBOARD: NodeSpec = NodeSpec {
    name: "tensorboard",
    doc: "TensorBoard output",
    props: &[
        required_prop("s3", Ty::Text, "S3 prefix of the event files"),
        prop("local", Ty::Text, "path in the container"),
    ],
    ..NodeSpec::LEAF
};
pub(crate) static EXPERIMENT: NodeSpec = NodeSpec {
    name: "experiment",
    doc: "association with an experiment",
    props: &[
        prop("name", Ty::Text, "experiment"),
        prop("trial", Ty::Text, "trial"),
        prop("component", Ty::Text, "display name of the trial component"),
        prop("run", Ty::Text, "run"),
    ],
    ..NodeSpec::LEAF
};
pub(crate) static REMOTE_DEBUG: NodeSpec =
    value_node("remote-debug", Ty::Bool, "shell access to the containers");
pub(crate) static HEALTH_CHECK: NodeSpec =
    value_node("health-check", Ty::Bool, "infrastructure check before the job starts");
pub(crate) static SESSION_CHAINING: NodeSpec =
    value_node("session-chaining", Ty::Bool, "pass the job's tags as session tags of its role");
