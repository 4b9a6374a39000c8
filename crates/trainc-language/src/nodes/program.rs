//! `program` and `image`.

use crate::spec::{NodeSpec, Repeat, Ty, arg, optional_arg, prop, repeated_arg, required_prop};

static HYPERPARAMETER: NodeSpec = NodeSpec {
    name: "hyperparameter",
    doc: "an argument of the script",
    args: &[arg("name", Ty::Plain), arg("value", Ty::Scalar)],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static ENVIRONMENT: NodeSpec = NodeSpec {
    name: "environment",
    doc: "environment variables of the container",
    free_props: Some(Ty::Scalar),
    repeat: Repeat::Many,
    ..NodeSpec::LEAF
};
static SECRET: NodeSpec = NodeSpec {
    name: "secret",
    doc: "an environment variable whose value is fetched when the container starts",
    args: &[arg("variable", Ty::Plain)],
    props: &[required_prop("from", Ty::Text, "ARN of the secret in Secrets Manager")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static METRIC: NodeSpec = NodeSpec {
    name: "metric",
    doc: "a metric read from the log",
    args: &[arg("name", Ty::Plain)],
    props: &[required_prop("regex", Ty::Text, "regular expression whose first group is the value")],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static DEPENDENCY: NodeSpec = NodeSpec {
    name: "dependency",
    doc: "an additional directory, packed next to the source; relative to this file",
    args: &[arg("path", Ty::Plain)],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};
static ENTRYPOINT: NodeSpec = NodeSpec {
    name: "entrypoint",
    doc: "entry point of the container, for images without the training toolkit",
    args: &[repeated_arg("word", Ty::Text)],
    ..NodeSpec::LEAF
};
static ARGUMENTS: NodeSpec = NodeSpec {
    name: "arguments",
    doc: "arguments of the container's entry point",
    args: &[repeated_arg("word", Ty::Text)],
    ..NodeSpec::LEAF
};

pub(crate) static PROGRAM: NodeSpec = NodeSpec {
    name: "program",
    doc: "the training program; not needed for engine `worker`",
    args: &[optional_arg("entry", Ty::Plain)],
    props: &[
        prop("source", Ty::Plain, "local directory, relative to this file"),
        prop("git", Ty::Plain, "URL of a Git repository"),
        prop("branch", Ty::Plain, "branch or tag of the repository"),
        prop("commit", Ty::Plain, "commit of the repository"),
        prop("dir", Ty::Plain, "directory inside the repository"),
        prop("s3", Ty::Text, "S3 URI of an existing archive"),
        prop("upload", Ty::Text, "S3 prefix for the archive; default: the SDK's default bucket"),
        prop(
            "code",
            Ty::Plain,
            "whose modules and kernels run, for predictions, e.g. huggingface or torchtitan",
        ),
        prop(
            "log-level",
            Ty::Word(&["debug", "info", "warning", "error", "critical"]),
            "log level of the training toolkit; default info",
        ),
    ],
    alternatives: &[&["source"], &["git", "branch", "commit", "dir"], &["s3"]],
    children: &[&HYPERPARAMETER, &ENVIRONMENT, &SECRET, &METRIC, &DEPENDENCY, &ENTRYPOINT, &ARGUMENTS],
    ..NodeSpec::LEAF
};

/// The image families: Deep Learning Containers of PyTorch, then the other frameworks and the built-in algorithms of the
/// catalogue.
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

pub(crate) static IMAGE: NodeSpec = NodeSpec {
    name: "image",
    doc: "the container: an image of AWS by its versions, or a registry path",
    args: &[optional_arg("family", Ty::Word(IMAGE_FAMILIES))],
    props: &[
        prop("version", Ty::Plain, "version of the framework or the algorithm (all but huggingface)"),
        prop("transformers", Ty::Plain, "Transformers version (huggingface)"),
        prop("pytorch", Ty::Plain, "PyTorch version (huggingface)"),
        prop("python", Ty::Plain, "Python version, such as py310"),
        prop("uri", Ty::Plain, "registry path, used as written"),
    ],
    alternatives: &[&["family", "version", "transformers", "pytorch", "python"], &["uri"]],
    of_first: &["version", "transformers", "pytorch", "python"],
    ..NodeSpec::LEAF
};
