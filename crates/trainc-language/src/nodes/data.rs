//! `storage`, `channel`, `checkpoint`, `output`, `bucket`.

use crate::address::Address;
use crate::declared::{arg, child, children, prop};
use crate::node::{NodeType, node};
use crate::origin::Field;
use crate::spec::{NodeSpec, Repeat, Rows, Ty};

const DEPLOYMENTS: &[&str] = &["scratch-1", "scratch-2", "persistent-1", "persistent-2"];

node! {
    /// a file system: an existing one (id, mount) or a new one (capacity, deployment, throughput)
    pub struct Storage("storage";
        repeat: Repeat::ByName;
        only_sagemaker: true;
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
        ];
        reaches: "`CreateFileSystem` of FSx, or the channels of an existing file system")
    {
        /// `lustre` or `efs`
        pub kind: Field<String> = arg(0, "kind", Ty::Word(&["lustre", "efs"]));
        /// its name in this manifest
        pub name: Field<String> = prop("name", Ty::Plain).required();
        /// ID of an existing file system
        pub id: Field<String> = prop("id", Ty::Plain).otherwise("a new file system");
        /// its mount name
        pub mount: Field<String> = prop("mount", Ty::Plain)
            .otherwise("read from the account; `efs` has none");
        /// storage capacity
        pub capacity_bytes: Field<u64> = prop("capacity", Ty::Bytes)
            .required_where("required for a new file system");
        /// deployment type
        pub deployment: Field<String> = prop("deployment", Ty::Word(DEPLOYMENTS))
            .required_where("required for a new file system");
        /// MB/s per TiB
        pub throughput_mb_s_tib: Field<u64> =
            prop("throughput", Ty::Int(1, 1_000_000)).listed("throughput-mb-s-tib")
            .required_where("required where the deployment type offers several");
        /// storage type
        pub storage_type: Field<String> = prop("type", Ty::Word(&["ssd", "hdd"])).listed("storage-type")
            .default("ssd");
        /// data compression
        pub compression: Field<String> = prop("compression", Ty::Word(&["none", "lz4"]))
            .otherwise("not sent");
        /// drive cache of HDD storage
        pub drive_cache: Field<String> = prop("drive-cache", Ty::Word(&["none", "read"]))
            .required_where("required for `hdd`");
        /// KMS key that encrypts it
        pub kms: Field<Address> = prop("kms", Ty::Text).otherwise("the key of the service");
        /// provisioned metadata operations per second
        pub metadata_iops: Field<u64> = prop("metadata-iops", Ty::Int(1, 1_000_000))
            .otherwise("by the capacity with `efa`, otherwise not sent");
        /// start of the weekly maintenance, d:HH:MM in UTC, Monday is 1
        pub maintenance: Field<String> = prop("maintenance", Ty::Plain).otherwise("the service chooses");
        /// Lustre version
        pub version: Field<String> = prop("version", Ty::Word(&["2.10", "2.12", "2.15"]))
            .otherwise(
                "`2.10`; `2.12` for `persistent-2` and for linked prefixes, `2.15` for `efa` or \
                 `metadata-iops`",
            );
        /// S3 prefixes linked for import
        pub imports: Vec<StorageLink> = children(const { &[&IMPORT] });
        /// S3 prefixes linked for export
        pub exports: Vec<StorageLink> = children(const { &[&EXPORT] });
        /// after the job has completed, `apply --wait` deletes the file system, and `destroy` deletes it
        /// without
        /// `--delete-data`
        pub delete_after_job: Field<bool> = child("delete-after-job", Ty::Bool)
            .default("#false")
            .reaches("`apply --wait` and `destroy`");
        /// EFA for the file system
        pub efa: Field<bool> = child("efa", Ty::Bool).default("#false");
    }
}

node! {
    /// an S3 prefix that is linked into the file system
    pub struct StorageLink("import"; repeat: Repeat::ByFirst; rows: Rows::Beside;
        reaches: "`CreateDataRepositoryAssociation` of FSx") {
        /// the S3 prefix
        pub s3: Field<Address> = arg(0, "s3", Ty::Text);
        /// path in the file system
        pub path: Field<String> = prop("path", Ty::Text).default("/");
    }
}

static IMPORT: NodeSpec = NodeSpec { ..*StorageLink::SPEC };
static EXPORT: NodeSpec =
    NodeSpec { name: "export", doc: "an S3 prefix that changes are exported to", ..*StorageLink::SPEC };

node! {
    /// an input channel: an S3 prefix, a manifest, or a path of a file system
    pub struct Channel("channel";
        repeat: Repeat::ByFirst;
        alternatives: &[
            &["s3"],
            &["manifest"],
            &["augmented-manifest", "attributes"],
            &["converse"],
            &["dataset"],
            &["from", "path", "mode"],
        ];
        reaches: "request: `InputDataConfig[]`")
    {
        /// its name
        pub name: Field<String> = arg(0, "name", Ty::Plain);
        /// S3 prefix; end a directory with /
        pub s3: Field<Address> = prop("s3", Ty::Text)
            .required_where(
                "one of `s3`, `manifest`, `augmented-manifest`, `converse`, `dataset` and `from` is \
                 required",
            );
        /// S3 URI of a manifest file
        pub manifest: Field<Address> = prop("manifest", Ty::Text).required_where("see `s3`");
        /// S3 URI of an augmented manifest file
        pub augmented_manifest: Field<Address> = prop("augmented-manifest", Ty::Text)
            .required_where("see `s3`");
        /// S3 URI of conversations in Converse format
        pub converse: Field<Address> = prop("converse", Ty::Text).required_where("see `s3`");
        /// ARN of a dataset in a SageMaker hub
        pub dataset: Field<Address> = prop("dataset", Ty::Text)
            .sent_as("InputDataConfig[].DataSource.DatasetSource.DatasetArn")
            .by_code()
            .required_where("see `s3`");
        /// attributes of an augmented manifest, separated by commas
        pub attributes: Field<Vec<String>> = prop("attributes", Ty::Plain)
            .required_where("required with `augmented-manifest`");
        /// name of a `storage`
        pub from: Field<String> = prop("from", Ty::Plain).required_where("see `s3`");
        /// path below the file system's mount point; for a local cluster, a directory on this machine
        pub path: Field<String> = prop("path", Ty::Text).otherwise("the root of the file system");
        /// access to the file system
        pub mode: Field<String> = prop("mode", Ty::Word(&["ro", "rw"])).default("ro");
        /// input mode of S3 data
        pub input: Field<String> = prop("input", Ty::Word(&["file", "fast-file", "pipe"]))
            .sent_as("InputDataConfig[].InputMode")
            .in_words(&[("file", "File"), ("fast-file", "FastFile"), ("pipe", "Pipe")])
            .otherwise("`file`, unless `request` sets the mode of the job");
        /// distribution of the objects over the instances
        pub shard: Field<String> = prop("shard", Ty::Word(&["replicated", "by-key"])).default("replicated");
        /// compression of pipe data
        pub compression: Field<String> = prop("compression", Ty::Word(&["none", "gzip"]))
            .sent_as("InputDataConfig[].CompressionType")
            .in_words(&[("gzip", "Gzip"), ("none", "None")])
            .default("none");
        /// wrapper of pipe data
        pub record_wrapper: Field<String> = prop("record-wrapper", Ty::Word(&["none", "recordio"]))
            .sent_as("InputDataConfig[].RecordWrapperType")
            .in_words(&[("recordio", "RecordIO"), ("none", "None")])
            .default("none");
        /// MIME type
        pub content_type: Field<String> = prop("content-type", Ty::Text)
            .sent_as("InputDataConfig[].ContentType")
            .otherwise("not sent");
        /// seed that the keys are shuffled with
        pub shuffle_seed: Field<u64> = prop("shuffle-seed", Ty::Int(0, u64::MAX))
            .sent_as("InputDataConfig[].ShuffleConfig.Seed")
            .otherwise("the keys are not shuffled");
        /// instance groups that receive the channel, separated by commas
        pub groups: Field<Vec<String>> = prop("groups", Ty::Plain).otherwise("all groups");
        /// ARN of a private hub's reference to a JumpStart model
        pub hub: Field<Address> = prop("hub", Ty::Text)
            .sent_as("InputDataConfig[].DataSource.S3DataSource.HubAccessConfig.HubContentArn")
            .by_code()
            .otherwise("not sent");
        /// accept the license of the model in the channel
        pub accept_eula: Field<bool> = prop("accept-eula", Ty::Bool)
            .sent_as("InputDataConfig[].DataSource.S3DataSource.ModelAccessConfig.AcceptEula")
            .by_code()
            .otherwise("not sent");
        /// KMS key of its objects, which a created role may use to decrypt
        pub kms: Field<Address> = prop("kms", Ty::Text)
            .otherwise("a created role may decrypt with no key")
            .reaches("the policy of a created role");
    }
}

node! {
    /// checkpoint location and interval
    pub struct Checkpoint("checkpoint") {
        /// S3 prefix that the local path is synchronised with
        pub s3: Field<Address> = prop("s3", Ty::Text)
            .sent_as("CheckpointConfig.S3Uri")
            .by_code()
            .estimator("checkpoint_s3_uri")
            .otherwise("the service uploads no checkpoints");
        /// path in the container
        pub local: Field<String> = prop("local", Ty::Text)
            .sent_as("CheckpointConfig.LocalPath")
            .by_code()
            .estimator("checkpoint_local_path")
            .default("/opt/ml/checkpoints");
        /// interval
        pub every: Field<CheckpointInterval> = prop("every", Ty::Every)
            .otherwise("the program's own, which is not predicted; engine `worker`: 30 minutes")
            .reaches("the prediction and worker.json; the program saves when it decides, or by a placeholder");
        /// how many checkpoints the program keeps
        pub keep: Field<u64> = prop("keep", Ty::Int(1, 1_000_000))
            .otherwise("the program's own, counted as 1; engine `worker`: `2`")
            .reaches("the prediction and worker.json");
        /// KMS key of the bucket, for a role that trainc creates
        pub kms: Field<Address> = prop("kms", Ty::Text)
            .otherwise("a created role may use no key")
            .reaches("the policy of a created role");
    }
}

/// The interval between checkpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckpointInterval {
    /// Optimizer steps.
    Steps(u64),
    /// Seconds.
    Seconds(u64),
    /// The interval with the least expected loss (Young/Daly).
    Optimal,
}

node! {
    /// location of the model
    pub struct Output("output"; only_sagemaker: true) {
        /// S3 prefix
        pub s3: Field<Address> = prop("s3", Ty::Text)
            .required()
            .sent_as("OutputDataConfig.S3OutputPath")
            .by_code()
            .estimator("output_path");
        /// KMS key that encrypts it
        pub kms: Field<Address> = prop("kms", Ty::Text)
            .sent_as("OutputDataConfig.KmsKeyId")
            .called("the output's key")
            .estimator("output_kms_key")
            .otherwise("no key of yours");
        /// pack the model into model.tar.gz
        pub compress: Field<bool> = prop("compress", Ty::Bool)
            .sent_as("OutputDataConfig.CompressionType")
            .in_words(&[("true", "GZIP"), ("false", "NONE")])
            .written_as("output compress=#false")
            .default("#true");
    }
}

node! {
    /// a bucket of another account that the job may write to
    pub struct Bucket("bucket"; repeat: Repeat::ByFirst; reaches: "`check`: buckets of other accounts") {
        /// its name
        pub name: Field<String> = arg(0, "name", Ty::Plain).unlisted();
        /// ID of the account that owns it, twelve digits
        pub owner: Field<String> = prop("owner", Ty::Plain).required();
    }
}
