//! `program` and `image`.

use crate::address::Address;
use crate::declared::{arg, beside, optional_arg, prop, props_of, words};
use crate::node::{Pair, node};
use crate::origin::{Field, Val};
use crate::scalar::Scalar;
use crate::spec::{Repeat, Ty};
use trainc_diag::source::Span;

node! {
    /// the training program; not needed for engine `worker`
    pub struct Program("program";
        alternatives: &[&["source"], &["git", "branch", "commit", "dir"], &["s3"]];
        reaches: "the source archive")
    {
        /// entry point, relative to the source
        pub entry: Field<String> = optional_arg("entry", Ty::Plain)
            .otherwise("the container's own program")
            .reaches("request: `HyperParameters.sagemaker_program`");
        /// local directory, relative to this file
        pub source: Field<String> = prop("source", Ty::Plain).otherwise("no directory is packed");
        /// URL of a Git repository
        pub git: Field<String> = prop("git", Ty::Plain).otherwise("no repository");
        /// branch or tag of the repository
        pub branch: Field<String> = prop("branch", Ty::Plain).otherwise("the default branch");
        /// commit of the repository
        pub commit: Field<String> = prop("commit", Ty::Plain).otherwise("the newest one of the branch");
        /// directory inside the repository
        pub dir: Field<String> = prop("dir", Ty::Plain).otherwise("the root of the repository");
        /// S3 URI of an existing archive
        pub s3: Field<Address> = prop("s3", Ty::Text).otherwise("trainc packs and uploads an archive");
        /// S3 prefix for the archive
        pub upload: Field<Address> = prop("upload", Ty::Text)
            .otherwise("the default bucket of the SageMaker SDK, `sagemaker-REGION-ACCOUNT`");
        /// whose modules and kernels run, for predictions, e.g. huggingface or torchtitan
        pub code: Field<String> = prop("code", Ty::Plain)
            .default("huggingface")
            .reaches("the prediction of memory and time"),
            default ("huggingface", "assumed unless `code` is written");
        /// the class whose arguments the program takes
        pub takes: Field<String> = prop("takes", Ty::Word(ARGUMENT_CLASSES))
            .otherwise("only the written hyperparameters are passed")
            .reaches("request: `HyperParameters`, the options of this class");
        /// log level of the training toolkit
        pub log_level: Field<String> = prop("log-level", Ty::Word(LOG_LEVELS))
            .default("info")
            .reaches("request: `HyperParameters.sagemaker_container_log_level`");
        pub hyperparameters: Vec<Hyperparameter>;
        /// environment variables of the container
        pub environment: Vec<Pair> = props_of("environment", Ty::Scalar).repeat(Repeat::Many)
            .otherwise("none")
            .reaches("request: `Environment`");
        pub secrets: Vec<Secret>;
        pub metrics: Vec<Metric>;
        /// an additional directory, packed next to the source; relative to this file
        pub dependencies: Vec<Val<String>> =
            words("dependency", "path", Ty::Plain).repeat(Repeat::ByFirst).listed("dependencies")
            .otherwise("none");
        /// entry point of the container, for images without the training toolkit
        pub entrypoint: Vec<Val<String>> = words("entrypoint", "word", Ty::Text)
            .otherwise("the image's own")
            .reaches("request: `AlgorithmSpecification.ContainerEntrypoint`");
        /// arguments of the container's entry point
        pub arguments: Vec<Val<String>> = words("arguments", "word", Ty::Text)
            .otherwise("none")
            .reaches("request: `AlgorithmSpecification.ContainerArguments`");
    }
}

impl Program {
    /// Returns the words of the container's command: those of `entrypoint`, then those of `arguments`, which
    /// the training toolkit ignores where it starts the program.
    pub fn words(&self) -> impl Iterator<Item = &Val<String>> {
        let is_passed = !self.entrypoint.is_empty() || self.entry.is_absent();
        self.entrypoint.iter().chain(self.arguments.iter().filter(move |_| is_passed))
    }
}

/// Classes of training arguments: those of transformers, then those of TRL.
pub const ARGUMENT_CLASSES: &[&str] = &[
    "TrainingArguments",
    "Seq2SeqTrainingArguments",
    "SFTConfig",
    "DPOConfig",
    "GRPOConfig",
    "KTOConfig",
    "RewardConfig",
    "ORPOConfig",
    "CPOConfig",
    "BCOConfig",
    "GKDConfig",
    "NashMDConfig",
    "OnlineDPOConfig",
    "PPOConfig",
    "PRMConfig",
    "RLOOConfig",
    "XPOConfig",
];

const LOG_LEVELS: &[&str] = &["debug", "info", "warning", "error", "critical"];

node! {
    /// an argument of the script
    pub struct Hyperparameter("hyperparameter"; repeat: Repeat::ByFirst;
        reaches: "request: `HyperParameters`") {
        /// its name
        pub name: String = arg(0, "name", Ty::Plain);
        /// the place of the name
        pub name_span: Span = beside("");
        /// its value; a placeholder inside is replaced by bind
        pub value: Field<Scalar> = arg(1, "value", Ty::Scalar).listed("");
    }
}

node! {
    /// an environment variable whose value is fetched when the container starts
    pub struct Secret("secret"; repeat: Repeat::ByFirst;
        reaches: "an environment variable in the container") {
        /// the variable
        pub name: String = arg(0, "variable", Ty::Plain);
        /// the place of the variable
        pub name_span: Span = beside("");
        /// ARN of the secret in Secrets Manager
        pub from: Field<Address> = prop("from", Ty::Text).required().listed("");
    }
}

node! {
    /// a metric read from the log
    pub struct Metric("metric"; repeat: Repeat::ByFirst;
        reaches: "request: `AlgorithmSpecification.MetricDefinitions`") {
        /// its name
        pub name: String = arg(0, "name", Ty::Plain);
        /// the place of the name
        pub name_span: Span = beside("");
        /// regular expression whose first group is the value
        pub regex: Field<String> = prop("regex", Ty::Text).required().listed("");
    }
}

/// The image families: Deep Learning Containers of PyTorch, then the other frameworks and the built-in
/// algorithms of the catalogue.
pub static IMAGE_FAMILIES: &[&str] = &[
    "pytorch",
    "huggingface",
    "tensorflow",
    "xgboost",
    "sklearn",
    "mxnet",
    "chainer",
    "autogluon",
    "blazingtext",
    "factorization-machines",
    "forecasting-deepar",
    "image-classification",
    "ipinsights",
    "kmeans",
    "knn",
    "lda",
    "linear-learner",
    "ntm",
    "object-detection",
    "object2vec",
    "pca",
    "randomcutforest",
    "semantic-segmentation",
    "seq2seq",
];

node! {
    /// the container: an image of AWS by its versions, or a registry path
    pub struct ImageRequest("image";
        alternatives: &[&["family", "version", "transformers", "pytorch", "python"], &["uri"]];
        of_first: &["version", "transformers", "pytorch", "python"];
        reaches: "request: `AlgorithmSpecification.TrainingImage`")
    {
        /// the framework or the algorithm
        pub family: Field<String> = optional_arg("family", Ty::Word(IMAGE_FAMILIES))
            .required_where("required, unless `uri` is set; engine `worker`: the newest PyTorch container");
        /// version of the framework or the algorithm (all but huggingface)
        pub version: Field<String> = prop("version", Ty::Plain)
            .required_where("required, but for `huggingface` and algorithms with one version");
        /// Transformers version (huggingface)
        pub transformers: Field<String> = prop("transformers", Ty::Plain)
            .required_where("required for `huggingface`");
        /// PyTorch version (huggingface)
        pub pytorch: Field<String> = prop("pytorch", Ty::Plain).required_where("required for `huggingface`");
        /// Python version, such as py310
        pub python: Field<String> = prop("python", Ty::Plain)
            .otherwise("the Python of the container with these versions");
        /// registry path, used as written
        pub uri: Field<String> = prop("uri", Ty::Plain).otherwise("the image of AWS with the versions");
    }
}
