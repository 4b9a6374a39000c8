//! `cluster` and `network`.

use crate::spec::{NodeSpec, Repeat, Ty, arg, optional_arg, prop, repeated_arg, required_prop, value_node};

static VOLUME: NodeSpec = NodeSpec {
    name: "volume",
    doc: "EBS volume of each instance",
    args: &[arg("size", Ty::Bytes)],
    props: &[prop("kms", Ty::Text, "KMS key that encrypts it")],
    ..NodeSpec::LEAF
};
static MAX_RUN: NodeSpec =
    value_node("max-run", Ty::Duration, "maximum run time, after which the service stops the job");
static MAX_PENDING: NodeSpec = value_node("max-pending", Ty::Duration, "maximum wait for capacity");
static SPOT: NodeSpec = NodeSpec {
    name: "spot",
    doc: "managed spot training",
    props: &[
        required_prop("max-wait", Ty::Duration, "maximum run time plus waiting time"),
        prop("interruptions-per-hour", Ty::Number(0.0, 3600.0), "expected interruptions of one instance"),
    ],
    ..NodeSpec::LEAF
};
static WARM_POOL: NodeSpec =
    value_node("warm-pool", Ty::Duration, "keep-alive period of the instances after the job");
static RETRY: NodeSpec = value_node("retry", Ty::Count, "retries after internal server errors");
static TRAINING_PLAN: NodeSpec =
    value_node("training-plan", Ty::Text, "ARN of a training plan that reserves the capacity");
static ULTRA_SERVER: NodeSpec = NodeSpec {
    name: "ultra-server",
    doc: "an UltraServer and the number of the job's instances on it",
    args: &[arg("id", Ty::Plain)],
    props: &[required_prop("instances", Ty::Int(0, 1_000_000), "instances of the job on it")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static PLACEMENT: NodeSpec = NodeSpec {
    name: "placement",
    doc: "UltraServers that the instances run on",
    props: &[prop("multiple-jobs", Ty::Bool, "other jobs may run on the same UltraServers")],
    children: &[&ULTRA_SERVER],
    ..NodeSpec::LEAF
};
static GROUP: NodeSpec = NodeSpec {
    name: "group",
    doc: "an instance group of a heterogeneous cluster",
    args: &[arg("name", Ty::Plain)],
    props: &[
        required_prop("instance", Ty::Plain, "instance type"),
        required_prop("nodes", Ty::Int(1, 1_000_000), "instances in the group"),
    ],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static GPU: NodeSpec = NodeSpec {
    name: "gpu",
    doc: "the accelerator of a custom or a local cluster",
    args: &[arg("name", Ty::Plain)],
    props: &[required_prop("per-node", Ty::Int(1, 1024), "accelerators per node")],
    ..NodeSpec::LEAF
};
static INTRA: NodeSpec =
    value_node("intra", Ty::Rate, "custom cluster: bandwidth between the GPUs of a node, per GPU");
static INTER: NodeSpec = value_node("inter", Ty::Rate, "custom cluster: network bandwidth of a node");
static RANKS: NodeSpec = NodeSpec {
    name: "ranks",
    doc: "local cluster, or engine `worker` on an instance type without GPUs: processes per node, one rank each",
    args: &[arg("count", Ty::Int(1, 1024))],
    ..NodeSpec::LEAF
};
static NODE_MTBF: NodeSpec = value_node("node-mtbf", Ty::Duration, "mean time between failures of one node");

pub(crate) static CLUSTER: NodeSpec = NodeSpec {
    name: "cluster",
    doc: "where the job runs: an instance type, `custom` or `local`",
    args: &[optional_arg("instance", Ty::Plain)],
    props: &[prop("nodes", Ty::Int(1, 1_000_000), "number of instances")],
    children: &[
        &VOLUME,
        &MAX_RUN,
        &MAX_PENDING,
        &SPOT,
        &WARM_POOL,
        &RETRY,
        &TRAINING_PLAN,
        &PLACEMENT,
        &GROUP,
        &GPU,
        &INTRA,
        &INTER,
        &RANKS,
        &NODE_MTBF,
    ],
    ..NodeSpec::LEAF
};

static SUBNETS: NodeSpec = NodeSpec {
    name: "subnets",
    doc: "subnets of the job",
    args: &[repeated_arg("subnet", Ty::Plain)],
    ..NodeSpec::LEAF
};
static SECURITY_GROUPS: NodeSpec = NodeSpec {
    name: "security-groups",
    doc: "security groups of the job",
    args: &[repeated_arg("group", Ty::Plain)],
    ..NodeSpec::LEAF
};
static ISOLATION: NodeSpec =
    value_node("isolation", Ty::Bool, "network isolation: no outbound connections from the containers");
static ENCRYPT: NodeSpec = value_node("encrypt-traffic", Ty::Bool, "encrypt traffic between the containers");

pub(crate) static NETWORK: NodeSpec = NodeSpec {
    name: "network",
    doc: "VPC settings",
    children: &[&SUBNETS, &SECURITY_GROUPS, &ISOLATION, &ENCRYPT],
    ..NodeSpec::LEAF
};
