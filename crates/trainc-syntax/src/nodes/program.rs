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
    ],
    alternatives: &[&["source"], &["git", "branch", "commit", "dir"], &["s3"]],
    children: &[&HYPERPARAMETER, &ENVIRONMENT, &SECRET, &METRIC, &DEPENDENCY, &ENTRYPOINT, &ARGUMENTS],
    ..NodeSpec::LEAF
};

pub(crate) static IMAGE: NodeSpec = NodeSpec {
    name: "image",
    doc: "the container: a Deep Learning Container by its versions, or a registry path",
    args: &[optional_arg("family", Ty::Word(&["pytorch", "huggingface"]))],
    props: &[
        prop("version", Ty::Plain, "PyTorch version (pytorch)"),
        prop("transformers", Ty::Plain, "Transformers version (huggingface)"),
        prop("pytorch", Ty::Plain, "PyTorch version (huggingface)"),
        prop("python", Ty::Plain, "Python version, such as py310"),
        prop("uri", Ty::Plain, "registry path, used as written"),
    ],
    alternatives: &[&["family", "version", "transformers", "pytorch", "python"], &["uri"]],
    of_first: &["version", "transformers", "pytorch", "python"],
    ..NodeSpec::LEAF
};
