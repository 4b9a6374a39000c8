//! `storage`, `channel`, `checkpoint`, `output`, `bucket`.

use crate::spec::{NodeSpec, Repeat, Ty, arg, prop, required_prop, value_node};

static IMPORT: NodeSpec = NodeSpec {
    name: "import",
    doc: "an S3 prefix that is linked into the file system",
    args: &[arg("s3", Ty::Text)],
    props: &[prop("path", Ty::Text, "path in the file system; default `/`")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static EXPORT: NodeSpec = NodeSpec {
    name: "export",
    doc: "an S3 prefix that changes are exported to",
    args: &[arg("s3", Ty::Text)],
    props: &[prop("path", Ty::Text, "path in the file system; default `/`")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static DELETE_AFTER_JOB: NodeSpec = value_node(
    "delete-after-job",
    Ty::Bool,
    "after the job has completed, `apply --wait` deletes the file system, and `destroy` deletes it without `--delete-data`",
);
static EFA: NodeSpec = value_node("efa", Ty::Bool, "EFA for the file system");

pub(crate) static STORAGE: NodeSpec = NodeSpec {
    name: "storage",
    doc: "a file system: an existing one (id, mount) or a new one (capacity, deployment, throughput)",
    args: &[arg("kind", Ty::Word(&["lustre", "efs"]))],
    props: &[
        required_prop("name", Ty::Plain, "its name in this manifest"),
        prop("id", Ty::Plain, "ID of an existing file system"),
        prop("mount", Ty::Plain, "its mount name"),
        prop("capacity", Ty::Bytes, "storage capacity"),
        prop(
            "deployment",
            Ty::Word(&["scratch-1", "scratch-2", "persistent-1", "persistent-2"]),
            "deployment type",
        ),
        prop("throughput", Ty::Int(1, 1_000_000), "MB/s per TiB"),
        prop("type", Ty::Word(&["ssd", "hdd"]), "storage type"),
        prop("compression", Ty::Word(&["none", "lz4"]), "data compression"),
        prop("drive-cache", Ty::Word(&["none", "read"]), "drive cache of HDD storage"),
        prop("kms", Ty::Text, "KMS key that encrypts it"),
        prop("metadata-iops", Ty::Int(1, 1_000_000), "provisioned metadata operations per second"),
        prop("maintenance", Ty::Plain, "start of the weekly maintenance, d:HH:MM in UTC, Monday is 1"),
        prop("version", Ty::Word(&["2.10", "2.12", "2.15"]), "Lustre version"),
    ],
    children: &[&IMPORT, &EXPORT, &DELETE_AFTER_JOB, &EFA],
    repeat: Repeat::ByName,
    alternatives: &[
        &["id", "mount"],
        &[
            "capacity",
            "deployment",
            "throughput",
            "type",
            "compression",
            "drive-cache",
            "kms",
            "metadata-iops",
            "maintenance",
            "version",
        ],
    ],
    ..NodeSpec::LEAF
};

pub(crate) static CHANNEL: NodeSpec = NodeSpec {
    name: "channel",
    doc: "an input channel: an S3 prefix, a manifest, or a path of a file system",
    args: &[arg("name", Ty::Plain)],
    props: &[
        prop("s3", Ty::Text, "S3 prefix; end a directory with /"),
        prop("manifest", Ty::Text, "S3 URI of a manifest file"),
        prop("augmented-manifest", Ty::Text, "S3 URI of an augmented manifest file"),
        prop("converse", Ty::Text, "S3 URI of conversations in Converse format"),
        prop("dataset", Ty::Text, "ARN of a dataset in a SageMaker hub"),
        prop("attributes", Ty::Plain, "attributes of an augmented manifest, separated by commas"),
        prop("from", Ty::Plain, "name of a `storage`"),
        prop(
            "path",
            Ty::Text,
            "path below the file system's mount point; for a local cluster, a directory on this machine",
        ),
        prop("mode", Ty::Word(&["ro", "rw"]), "access to the file system; default ro"),
        prop("input", Ty::Word(&["file", "fast-file", "pipe"]), "input mode of S3 data"),
        prop("shard", Ty::Word(&["replicated", "by-key"]), "distribution of the objects over the instances"),
        prop("compression", Ty::Word(&["none", "gzip"]), "compression of pipe data"),
        prop("record-wrapper", Ty::Word(&["none", "recordio"]), "wrapper of pipe data"),
        prop("content-type", Ty::Text, "MIME type"),
        prop("shuffle-seed", Ty::Int(0, u64::MAX), "seed that the keys are shuffled with"),
        prop("groups", Ty::Plain, "instance groups that receive the channel, separated by commas"),
        prop("hub", Ty::Text, "ARN of a private hub's reference to a JumpStart model"),
        prop("accept-eula", Ty::Bool, "accept the license of the model in the channel"),
        prop("kms", Ty::Text, "KMS key of its objects, which a created role may use to decrypt"),
    ],
    repeat: Repeat::ByFirst,
    alternatives: &[
        &["s3"],
        &["manifest"],
        &["augmented-manifest", "attributes"],
        &["converse"],
        &["dataset"],
        &["from", "path", "mode"],
    ],
    ..NodeSpec::LEAF
};

pub(crate) static CHECKPOINT: NodeSpec = NodeSpec {
    name: "checkpoint",
    doc: "checkpoint location and interval",
    props: &[
        prop("s3", Ty::Text, "S3 prefix that the local path is synchronised with"),
        prop("local", Ty::Text, "path in the container; default /opt/ml/checkpoints"),
        prop("every", Ty::Every, "interval"),
        prop("keep", Ty::Int(1, 1_000_000), "number of checkpoints to keep"),
        prop("kms", Ty::Text, "KMS key of the bucket, for a role that trainc creates"),
    ],
    ..NodeSpec::LEAF
};

pub(crate) static OUTPUT: NodeSpec = NodeSpec {
    name: "output",
    doc: "location of the model",
    props: &[
        required_prop("s3", Ty::Text, "S3 prefix"),
        prop("kms", Ty::Text, "KMS key that encrypts it"),
        prop("compress", Ty::Bool, "pack the model into model.tar.gz (the service's default)"),
    ],
    ..NodeSpec::LEAF
};

pub(crate) static BUCKET: NodeSpec = NodeSpec {
    name: "bucket",
    doc: "a bucket of another account that the job may write to",
    args: &[arg("name", Ty::Plain)],
    props: &[required_prop("owner", Ty::Plain, "ID of the account that owns it, twelve digits")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
