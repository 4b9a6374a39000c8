//! `job`, and its children that belong to no group.

use crate::ast::Node;
use crate::declared::{Declared, arg, beside, child, children, prop, props_of};
use crate::node::{Leaf, NodeType, NodeVisitor, Pair, Part, TextVisitor, Visitor, node};
use crate::nodes::{
    Adapter, Bucket, Channel, Checkpoint, Cluster, Debugger, Experiment, ImageRequest, Model, Network,
    Output, Parallel, Profiler, Program, Quantize, Role, Storage, Tensorboard, Train,
};
use crate::origin::{Field, Val};
use crate::scalar::{RequestMember, Scalar};
use crate::spec::{NodeSpec, Repeat, Rows, Ty, repeated_arg};
use trainc_diag::source::{Span, Spanned};

/// The member of CreateTrainingJob that makes a job serverless.
pub const SERVERLESS: &str = "ServerlessJobConfig";

node! {
    /// the job of a manifest; children in any order
    pub struct Job("job"; is_layered: false) derive Default {
        /// its name
        pub name: Field<String> = arg(0, "name", Ty::Plain).listed("job")
            .reaches("request: `TrainingJobName`; tags and the names of resources");
        /// AWS region
        pub region: Field<String> = child("region", Ty::Plain)
            .required_where("required, but for a `custom` or `local` cluster")
            .reaches("every request, the image and the prices");
        /// AWS account ID, twelve digits; replaces ${account} in the output
        pub account: Field<String> = child("account", Ty::Plain)
            .otherwise("the account of the credentials; `${account}` in output without them")
            .reaches("the ARNs and bucket names of the output");
        /// tags of all created resources
        pub tags: Vec<Pair> = props_of("tags", Ty::Text)
            .otherwise("only the tags by which trainc knows its jobs")
            .reaches("request: `Tags`");
        pub model: Option<Model>;
        pub adapter: Option<Adapter>;
        pub quantize: Option<Quantize>;
        pub cluster: Option<Cluster>;
        pub parallel: Option<Parallel>;
        pub train: Train;
        pub program: Option<Program>;
        pub image: Option<ImageRequest>;
        pub network: Option<Network>;
        pub storage: Vec<Storage>;
        pub channels: Vec<Channel>;
        pub checkpoint: Option<Checkpoint>;
        pub output: Option<Output>;
        pub buckets: Vec<Bucket>;
        pub role: Option<Role>;
        pub debugger: Option<Debugger>;
        pub profiler: Option<Profiler>;
        pub tensorboard: Option<Tensorboard>;
        pub experiment: Option<Experiment>;
        /// shell access to the containers
        pub remote_debug: Field<bool> = child("remote-debug", Ty::Bool)
            .only_sagemaker()
            .sent_as("RemoteDebugConfig.EnableRemoteDebug").whole()
            .estimator("enable_remote_debug")
            .default("#false");
        /// infrastructure check before the job starts
        pub health_check: Field<bool> = child("health-check", Ty::Bool)
            .only_sagemaker()
            .sent_as("InfraCheckConfig.EnableInfraCheck").whole()
            .estimator("enable_infra_check")
            .default("#false");
        /// pass the job's tags as session tags of its role
        pub session_chaining: Field<bool> = child("session-chaining", Ty::Bool)
            .only_sagemaker()
            .sent_as("SessionChainingConfig.EnableSessionTagChaining").whole()
            .estimator("enable_session_tag_chaining")
            .default("#false");
        pub probe: Option<Probe>;
        pub budget: Option<Budget>;
        /// raw members of the request
        pub request: Vec<RequestMember> = children(const { &[&REQUEST] }).after_others();
        /// values of a sweep, which expand to several jobs
        pub sweep: Vec<Vary> = children(const { &[&SWEEP] });
        /// suppressed warnings, of all nodes
        pub allows: Vec<Allow> = children(const { &[Allow::SPEC] }).after_others();
        /// whether the engine, as written or as most likely intended, runs the user's program in an image
        pub needs_program: bool = beside("");
        /// the name in the manifest, if this is a job of a sweep, whose name has the values as suffix
        pub swept_from: Option<String> = beside("");
        /// whether all layers and blocks could be read; otherwise a node that seems missing may be in an
        /// unreadable one
        pub is_whole: bool = beside("");
        /// values that a later layer changed, which the plan shows
        pub overrides: Vec<Override> = beside("");
        /// the places of the values and nodes that `#null` took away, by their paths
        pub removed: Vec<Spanned<String>> = beside("");
    }
}

/// `train` is read and shown also where it is not written.
impl Part for Train {
    const NODES: &'static [&'static NodeSpec] = &[Self::SPEC];

    fn read(_: &'static Declared, node: &Node) -> Option<Self> {
        Some(node.child(Self::SPEC.name).and_then(<Self as NodeType>::read).unwrap_or_default())
    }

    fn visit(&self, _: &'static Declared, _: &str, with: Visitor) {
        NodeType::visit(self, Self::SPEC.name, with);
    }

    fn visit_nodes(&self, with: NodeVisitor) {
        NodeType::visit_nodes(self, with);
    }

    fn visit_texts(&mut self, _: &'static Declared, with: TextVisitor) {
        NodeType::visit_texts(self, with);
    }
}

/// Parts that are not in the manifest: whoever knows them sets them.
macro_rules! beside {
    ($($ty:ty)*) => {
        $(impl Part for $ty {
            fn read(_: &'static Declared, _: &Node) -> Option<Self> {
                Some(Self::default())
            }
        })*
    };
}

beside! { bool Option<String> Vec<Override> Vec<Span> Vec<Spanned<String>> }

/// `job "name" { … }`.
pub static JOB: NodeSpec = NodeSpec { ..*Job::SPEC };

/// The children of `job`, also valid in a layer file and in `env`.
pub static JOB_CHILDREN: &[&NodeSpec] = Job::SPEC.children;

impl Job {
    /// Returns the place of the `#null` that took away one of the values or nodes with these paths.
    pub fn removed(&self, paths: &[&str]) -> Option<Span> {
        self.removed.iter().find(|one| paths.contains(&one.value.as_str())).map(|one| one.span)
    }

    /// Returns the input mode of a channel: its own, that of the job (`request { AlgorithmSpecification {
    /// TrainingInputMode … } }`, for S3), or `file`.
    pub fn input_mode<'a>(&'a self, channel: &'a Channel) -> &'a str {
        if let Some(own) = channel.input.value() {
            return own;
        }
        let of_job = self.input_mode_member().filter(|_| channel.from.is_absent());
        match of_job.and_then(|member| member.value.text()) {
            Some("FastFile") => "fast-file",
            Some("Pipe") => "pipe",
            _ => "file",
        }
    }

    /// Returns the request member with the input mode of channels that have none of their own.
    pub fn input_mode_member(&self) -> Option<&RequestMember> {
        self.request
            .iter()
            .find(|member| member.name == "AlgorithmSpecification")
            .and_then(|member| member.value.member("TrainingInputMode"))
    }
}

node! {
    /// measures the cluster for 60 to 90 seconds before the program starts
    pub struct Probe("probe"; only_sagemaker: true; reaches: "the start script in the container") {
        /// share of the planned rate below which the job ends before training, also for a single slow node
        pub minimum: Field<f64> = prop("minimum", Ty::Number(0.01, 1.0))
            .otherwise("the probe reports, and ends nothing");
    }
}

node! {
    /// cost limit of the job
    pub struct Budget("budget";
        reaches: "`check` and `plan`; with `enforce` the start script in the container") {
        /// limit in US dollars
        pub usd: Field<f64> = prop("usd", Ty::Number(0.0, f64::MAX)).required();
        /// a cost that may exceed the limit is an error, not a warning; a cost that certainly exceeds it is
        /// always an
        /// error
        pub hard: Field<bool> = prop("hard", Ty::Bool).default("#false");
        /// stop the running job, with a checkpoint, if its cost will exceed a hard limit or if it becomes too
        /// slow
        pub enforce: Field<bool> = prop("enforce", Ty::Bool).default("#false");
        /// share of the tokens/s of the run's first steps, or of the plan where its setting was measured,
        /// below which
        /// `enforce` stops the job, such as 0.7
        pub slowest: Field<f64> = prop("slowest", Ty::Number(0.01, 1.0))
            .otherwise("no job is stopped for its speed");
        /// steps for which the job must stay below `slowest`
        pub steps: Field<u64> = prop("steps", Ty::Int(10, 1_000_000)).default("50");
    }
}

impl Budget {
    /// Steps of the window if `steps` is not given.
    pub const DEFAULT_STEPS: u64 = 50;

    /// Returns true if a running job may be stopped.
    pub fn is_enforced(&self) -> bool {
        self.enforce.get() == Some(true)
    }
}

/// `request { … }`.
static REQUEST: NodeSpec = NodeSpec {
    name: "request",
    doc: "members of CreateTrainingJob without a node, by their AWS names; `-` is a list item",
    free_children: true,
    reaches: "request: the member of this name",
    ..NodeSpec::LEAF
};

/// `sweep { … }`.
pub static SWEEP: NodeSpec = NodeSpec {
    name: "sweep",
    doc: "one job per combination of these values, which are part of its name",
    children: &[&VARY],
    reaches: "one job for each combination",
    ..NodeSpec::LEAF
};

static VARY: NodeSpec = NodeSpec {
    name: "vary",
    doc: "a path as in --set, and its values",
    args: &[crate::spec::arg("path", Ty::Plain), repeated_arg("values", Ty::Scalar)],
    declared: &[
        arg(0, "path", Ty::Plain).doc("a path as in --set"),
        arg(1, "values", Ty::Scalar).doc("its values, one job each"),
    ],
    repeat: Repeat::ByFirst,
    ..NodeSpec::LEAF
};

/// `vary` of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    /// A path in `--set` syntax.
    pub path: Val<String>,
    /// Its values, one job each.
    pub values: Vec<Val<Scalar>>,
}

impl Part for Vec<Vary> {
    fn read(_: &'static Declared, node: &Node) -> Option<Self> {
        let vary = |node: &Node| {
            let path = Val::written(node.first_text()?.to_owned(), node.arg(0)?.span);
            let values = node.args.get(1..)?.iter();
            let values =
                values.filter_map(|arg| Some(Val::written(Scalar::from_value(&arg.value)?, arg.span)));
            Some(Vary { path, values: values.collect() })
        };
        Some(
            node.child(SWEEP.name)
                .map_or_else(Vec::new, |sweep| sweep.children_named(VARY.name).filter_map(vary).collect()),
        )
    }

    fn visit(&self, declared: &'static Declared, _: &str, with: Visitor) {
        for Vary { path, values } in self {
            let values: Vec<String> = values.iter().map(|val| val.value.written()).collect();
            let (name, origin) = (&path.value, Some(&path.origin));
            with(&Leaf { path: SWEEP.name, name, declared, origin, value: &values.join(", ") });
        }
    }
}

node! {
    /// accepts a warning, a note or a predicted error in its node and in the nodes of it
    pub struct Allow("allow"; repeat: Repeat::ByFirst; rows: Rows::Together;
        reaches: "the problems that are reported") {
        /// code or name as written
        pub code: Field<String> = arg(0, "code", Ty::Plain);
        /// reason, shown in the plan
        pub reason: Field<String> = prop("reason", Ty::Plain).required();
        /// last day, such as 2026-12-31; an error after it
        pub until: Field<String> = prop("until", Ty::Plain).otherwise("no last day");
        /// the spans of the enclosing node, in every layer
        pub scopes: Vec<Span> = beside("");
    }
}

/// `allow`, valid in every node.
pub static ALLOW: NodeSpec = NodeSpec { ..*Allow::SPEC };

/// A value that a later layer changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The path of the value, such as `cluster.nodes`.
    pub path: String,
    /// The span of the earlier value.
    pub from: Span,
    /// The span of the later value.
    pub by: Span,
    /// The path of the value that replaced it, such as `role.create`, if different.
    pub replaced_by: Option<String>,
    /// Whether no value took its place: `by` is `#null`, or an engine that does not support it.
    pub is_removed: bool,
}

node! {
    /// the versions of trainc for which this file is written; checked before the rest of the file
    pub struct Requires("requires"; is_layered: false; reaches: "the version that may read the file") {
        /// versions as in a Cargo.toml, such as ">=0.1, <0.3"
        pub trainc: Field<String> = prop("trainc", Ty::Plain).required();
    }
}

/// `requires trainc=">=0.1, <0.3"`.
pub static REQUIRES: NodeSpec = NodeSpec { ..*Requires::SPEC };

/// `extends "./base.kdl"`.
pub static EXTENDS: NodeSpec = NodeSpec {
    name: "extends",
    doc: "a layer that this file extends, relative to it",
    args: &[crate::spec::arg("path", Ty::Plain)],
    props: &[crate::spec::prop("sha256", Ty::Plain, "expected digest of the layer")],
    declared: &[
        arg(0, "path", Ty::Plain).doc("the file, relative to this one"),
        prop("sha256", Ty::Plain).otherwise("not compared").doc("expected digest of the layer"),
    ],
    reaches: "the layers of the file",
    repeat: Repeat::ByFirst,
    is_layered: false,
    ..NodeSpec::LEAF
};

/// `env "prod" { … }`.
pub static ENV: NodeSpec = NodeSpec {
    name: "env",
    doc: "a layer that --env applies over this file",
    args: &[crate::spec::arg("name", Ty::Plain)],
    declared: &[arg(0, "name", Ty::Plain).doc("the name that --env chooses")],
    children: JOB_CHILDREN,
    reaches: "the layers of the file",
    repeat: Repeat::ByFirst,
    is_layered: false,
    ..NodeSpec::LEAF
};
