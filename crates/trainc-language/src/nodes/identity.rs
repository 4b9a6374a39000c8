//! `role` and the nodes that monitor the job.

use crate::address::Address;
use crate::declared::{Unit, any_props, arg, prop, props_of};
use crate::node::{Pair, node};
use crate::origin::{Field, Val};
use crate::spec::{Repeat, Rows, Ty};
use trainc_diag::source::Span;

node! {
    /// the job's IAM role: `create=#true`, or `arn=` of an existing role
    pub struct Role("role";
        alternatives: &[&["create", "boundary", "path", "read"], &["arn"]];
        only_sagemaker: true;
        reaches: "`CreateRole` and `PutRolePolicy` of IAM") {
        /// create a role with least privilege
        pub create: Field<bool> = prop("create", Ty::Bool)
            .required_where("one of `create` and `arn` is required");
        /// ARN of an existing role
        pub arn: Field<Address> = prop("arn", Ty::Text)
            .sent_as("RoleArn")
            .by_code()
            .called("`role arn`")
            .required_where("see `create`");
        /// permissions boundary of a created role
        pub boundary: Field<Address> = prop("boundary", Ty::Text)
            .otherwise("the environment variable `TRAINC_ROLE_BOUNDARY`, if it is set");
        /// path of a created role
        pub path: Field<String> = prop("path", Ty::Plain)
            .otherwise("`/trainc/`; with a boundary `/trainc/NAME-OF-BOUNDARY/`");
        pub reads: Vec<RoleRead>;
    }
}

node! {
    /// an additional S3 prefix that a created role may read: objects listed in a manifest, downloads of the
    /// program
    pub struct RoleRead("read"; repeat: Repeat::ByFirst; rows: Rows::Together;
        reaches: "the policy of a created role") {
        /// the S3 prefix
        pub s3: Field<Address> = arg(0, "s3", Ty::Text).listed("");
    }
}

node! {
    /// SageMaker Debugger; off by default
    pub struct Debugger("debugger"; only_sagemaker: true; reaches: "request: `DebugHookConfig`") {
        /// S3 prefix of the tensors
        pub s3: Field<Address> = prop("s3", Ty::Text).otherwise("the `s3` of `output`");
        /// path in the container
        pub local: Field<String> = prop("local", Ty::Text).sent_as("DebugHookConfig.LocalPath").by_code()
            .otherwise("not sent");
        /// parameters by name
        pub parameters: Vec<Pair> = props_of("parameters", Ty::Scalar).otherwise("none");
        pub collections: Vec<Collection>;
        pub rules: Vec<MonitoringRule>;
    }
}

node! {
    /// a collection of tensors and its parameters
    pub struct Collection("collection"; repeat: Repeat::ByFirst; rows: Rows::OfParent;
        reaches: "request: `DebugHookConfig.CollectionConfigurations`") {
        /// its name
        pub name: Val<String> = arg(0, "name", Ty::Plain).listed("collection");
        /// its parameters
        pub parameters: Vec<Pair> = any_props(Ty::Scalar).otherwise("none");
    }
}

node! {
    /// a built-in rule and its parameters, evaluated while the job runs
    pub struct MonitoringRule("rule"; repeat: Repeat::ByFirst; rows: Rows::OfParent;
        reaches: "request: `DebugRuleConfigurations` or `ProfilerRuleConfigurations`") {
        /// the name as written
        pub name: Val<String> = arg(0, "name", Ty::Plain).listed("rule");
        /// its parameters
        pub parameters: Vec<Pair> = any_props(Ty::Scalar).copied().otherwise("none");
    }
}

impl MonitoringRule {
    /// Returns the place of the name.
    pub fn name_span(&self) -> Span {
        self.name.span_or(self.span)
    }
}

node! {
    /// SageMaker Profiler; off by default
    pub struct Profiler("profiler"; only_sagemaker: true; reaches: "request: `ProfilerConfig`") {
        /// S3 prefix of its data
        pub s3: Field<Address> = prop("s3", Ty::Text).otherwise("the `s3` of `output`");
        /// interval of system metrics, such as "500ms"
        pub interval_milliseconds: Field<u64> = prop("interval", Ty::Duration)
            .unit(Unit::Milliseconds)
            .sent_as("ProfilerConfig.ProfilingIntervalInMilliseconds")
            .otherwise("not sent");
        /// parameters by name
        pub parameters: Vec<Pair> = props_of("parameters", Ty::Scalar).otherwise("none");
        pub rules: Vec<MonitoringRule>;
    }
}

node! {
    /// TensorBoard output
    pub struct Tensorboard("tensorboard"; only_sagemaker: true) {
        /// S3 prefix of the event files
        pub s3: Field<Address> = prop("s3", Ty::Text)
            .required()
            .sent_as("TensorBoardOutputConfig.S3OutputPath").whole();
        /// path in the container
        pub local: Field<String> = prop("local", Ty::Text)
            .sent_as("TensorBoardOutputConfig.LocalPath")
            .whole()
            .otherwise("not sent");
    }
}

node! {
    /// association with an experiment
    pub struct Experiment("experiment"; only_sagemaker: true) {
        /// experiment
        pub name: Field<String> = prop("name", Ty::Text)
            .sent_as("ExperimentConfig.ExperimentName").whole()
            .called("the experiment's name")
            .otherwise("not sent");
        /// trial
        pub trial: Field<String> = prop("trial", Ty::Text)
            .sent_as("ExperimentConfig.TrialName").whole()
            .called("the trial's name")
            .otherwise("not sent");
        /// display name of the trial component
        pub component: Field<String> = prop("component", Ty::Text)
            .sent_as("ExperimentConfig.TrialComponentDisplayName").whole()
            .called("the component's name")
            .otherwise("not sent");
        /// run
        pub run: Field<String> = prop("run", Ty::Text)
            .sent_as("ExperimentConfig.RunName").whole()
            .called("the run's name")
            .otherwise("not sent");
    }
}
