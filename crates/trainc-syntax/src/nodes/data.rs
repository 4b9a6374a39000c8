//! `storage`, `channel`, `checkpoint`, `output`.

use crate::spec::{NodeSpec, Repeat, Ty, arg, prop, required_prop, value_node};

static IMPORT: NodeSpec = NodeSpec {
    name: "import",
    doc: "an S3 prefix that appears in the file system",
    args: &[arg("s3", Ty::Text)],
    props: &[prop("path", Ty::Text, "where; `/` if left out")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static EXPORT: NodeSpec = NodeSpec {
    name: "export",
    doc: "an S3 prefix that changes are written back to",
    args: &[arg("s3", Ty::Text)],
    props: &[prop("path", Ty::Text, "from where; `/` if left out")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static DELETE_AFTER_JOB: NodeSpec = value_node(
    "delete-after-job",
    Ty::Bool,
    "once the job has completed, `apply --wait` deletes the file system, and `destroy` needs no `--delete-data` for it",
);
static EFA: NodeSpec = value_node("efa", Ty::Bool, "EFA for the file system");

pub(crate) static STORAGE: NodeSpec = NodeSpec {
    name: "storage",
    doc: "a file system: one that exists (id, mount), or one to make (capacity, deployment, throughput)",
    args: &[arg("kind", Ty::Word(&["lustre", "efs"]))],
    props: &[
        required_prop("name", Ty::Plain, "its name in this manifest"),
        prop("id", Ty::Plain, "an existing file system"),
        prop("mount", Ty::Plain, "its mount name"),
        prop("capacity", Ty::Bytes, "size"),
        prop(
            "deployment",
            Ty::Word(&["scratch-1", "scratch-2", "persistent-1", "persistent-2"]),
            "deployment type",
        ),
        prop("throughput", Ty::Int(1, 1_000_000), "MB/s per TiB"),
        prop("type", Ty::Word(&["ssd", "hdd"]), "storage type"),
        prop("compression", Ty::Word(&["none", "lz4"]), "data compression"),
        prop("drive-cache", Ty::Word(&["none", "read"]), "drive cache of HDD storage"),
        prop("kms", Ty::Text, "key that encrypts it"),
        prop("metadata-iops", Ty::Int(1, 1_000_000), "provisioned metadata operations per second"),
        prop("maintenance", Ty::Plain, "weekly maintenance, d:HH:MM in UTC, Monday is 1"),
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
        prop("manifest", Ty::Text, "a manifest file in S3"),
        prop("augmented-manifest", Ty::Text, "an augmented manifest file in S3"),
        prop("converse", Ty::Text, "S3 place of conversations in Converse format"),
        prop("dataset", Ty::Text, "ARN of a data set of a SageMaker hub"),
        prop("attributes", Ty::Plain, "attributes of an augmented manifest, separated by commas"),
        prop("from", Ty::Plain, "the name of a `storage`"),
        prop(
            "path",
            Ty::Text,
            "path below the file system's mount; of a local cluster, a directory of this machine",
        ),
        prop("mode", Ty::Word(&["ro", "rw"]), "access to the file system; ro if left out"),
        prop("input", Ty::Word(&["file", "fast-file", "pipe"]), "how S3 data arrive"),
        prop("shard", Ty::Word(&["replicated", "by-key"]), "which hosts get which keys"),
        prop("compression", Ty::Word(&["none", "gzip"]), "compression of pipe data"),
        prop("record-wrapper", Ty::Word(&["none", "recordio"]), "wrapper of pipe data"),
        prop("content-type", Ty::Text, "MIME type"),
        prop("shuffle-seed", Ty::Int(0, u64::MAX), "seed with which keys are shuffled"),
        prop("groups", Ty::Plain, "instance groups that get it, separated by commas"),
        prop("hub", Ty::Text, "ARN of a private hub's reference to a JumpStart model"),
        prop("accept-eula", Ty::Bool, "the licence of the model in the channel is accepted"),
        prop("kms", Ty::Text, "key that its objects are encrypted with, for a role that trainc makes"),
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
    doc: "where checkpoints go and how often",
    props: &[
        prop("s3", Ty::Text, "S3 prefix that the local path is synchronised with"),
        prop("local", Ty::Text, "path in the container; /opt/ml/checkpoints if left out"),
        prop("every", Ty::Every, "interval"),
        prop("keep", Ty::Int(1, 1_000_000), "how many are kept"),
        prop("kms", Ty::Text, "key that the bucket encrypts with, for a role that trainc makes"),
    ],
    ..NodeSpec::LEAF
};

pub(crate) static OUTPUT: NodeSpec = NodeSpec {
    name: "output",
    doc: "where the model goes",
    props: &[
        required_prop("s3", Ty::Text, "S3 prefix"),
        prop("kms", Ty::Text, "key that encrypts it"),
        prop("compress", Ty::Bool, "pack the model into model.tar.gz (the service's default)"),
    ],
    ..NodeSpec::LEAF
};
