//! `cluster` and `network`.

use crate::address::Address;
use crate::declared::{arg, beside, child, optional_arg, prop, prop_of, words};
use crate::node::node;
use crate::origin::{Field, Val};
use crate::spec::{Repeat, Ty};
use crate::units::GIB;
use trainc_diag::source::Span;

node! {
    /// where the job runs: an instance type, `custom` or `local`
    pub struct Cluster("cluster"; reaches: "the plan") {
        /// the instance type, `custom` or `local`
        pub instance: Field<String> = optional_arg("instance", Ty::Plain)
            .sent_as("ResourceConfig.InstanceType")
            .by_code()
            .written_as("cluster \"ml.…\"")
            .estimator("instance_type")
            .required_where("required, unless `group`s or `request` name the instances");
        /// number of instances
        pub nodes: Field<u64> = prop("nodes", Ty::Int(1, 1_000_000))
            .sent_as("ResourceConfig.InstanceCount")
            .by_code()
            .estimator("instance_count")
            .default("1");
        /// EBS volume of each instance
        pub volume_bytes: Field<u64> = child("volume", Ty::Bytes)
            .only_sagemaker()
            .sent_as("ResourceConfig.VolumeSizeInGB")
            .called("`volume` in GiB")
            .written_as("cluster { volume \"500GiB\" }")
            .estimator("volume_size")
            .default("30GiB"),
            default (30 * GIB, "SageMaker Python SDK default, 30 GiB");
        /// KMS key that encrypts it
        pub volume_kms: Field<Address> = prop_of("volume", "kms", Ty::Text)
            .listed("volume-kms")
            .sent_as("ResourceConfig.VolumeKmsKeyId")
            .called("the volume's key")
            .written_as("cluster { volume \"…\" kms=\"…\" }")
            .estimator("volume_kms_key")
            .otherwise("no key of yours");
        /// maximum run time, after which the service stops the job
        // The default is the service's (botocore, StoppingCondition).
        pub max_run_seconds: Field<u64> = child("max-run", Ty::Duration)
            .only_sagemaker()
            .sent_as("StoppingCondition.MaxRuntimeInSeconds")
            .estimator("max_run")
            .default("1d"),
            default (86_400_u64, "SageMaker default, 1d");
        /// maximum wait for capacity
        pub max_pending_seconds: Field<u64> = child("max-pending", Ty::Duration)
            .only_sagemaker()
            .sent_as("StoppingCondition.MaxPendingTimeInSeconds")
            .otherwise("not sent");
        pub spot: Option<Spot>;
        /// keep-alive period of the instances after the job
        pub warm_pool_seconds: Field<u64> = child("warm-pool", Ty::Duration)
            .only_sagemaker()
            .sent_as("ResourceConfig.KeepAlivePeriodInSeconds")
            .written_as("cluster { warm-pool \"30m\" }")
            .estimator("keep_alive_period_in_seconds")
            .otherwise("the instances are released with the job");
        /// retries after internal server errors
        pub retry: Field<u64> = child("retry", Ty::Count)
            .only_sagemaker()
            .sent_as("RetryStrategy.MaximumRetryAttempts")
            .whole()
            .estimator("max_retry_attempts")
            .otherwise("no retries");
        /// ARN of a training plan that reserves the capacity
        pub training_plan: Field<Address> = child("training-plan", Ty::Text)
            .only_sagemaker()
            .sent_as("ResourceConfig.TrainingPlanArn")
            .written_as("cluster { training-plan \"arn:…\" }")
            .estimator("training_plan")
            .otherwise("on-demand or spot capacity");
        pub placement: Option<Placement>;
        pub groups: Vec<InstanceGroup>;
        pub gpu: Option<CustomGpu>;
        /// custom cluster: bandwidth between the GPUs of a node, per GPU
        pub intra_bytes_per_second: Field<u64> = child("intra", Ty::Rate)
            .required_where("required for `custom`");
        /// custom cluster: network bandwidth of a node
        pub inter_bytes_per_second: Field<u64> = child("inter", Ty::Rate)
            .required_where("required for `custom`");
        /// local cluster, or engine `worker` on an instance type without GPUs: processes per node, one rank
        /// each
        pub ranks: Field<u64> = child("ranks", Ty::Int(1, 1024)).argument("count")
            .otherwise("the shard degree on a local cluster, otherwise `1`");
        /// mean time between failures of one node
        pub node_mtbf_seconds: Field<u64> = child("node-mtbf", Ty::Duration)
            .otherwise("no failures are assumed; figures of interruptions are null")
            .reaches("the prediction of time and cost");
    }
}

impl Cluster {
    /// Returns the losses of one node per hour that the manifest expects: spot interruptions (`spot
    /// interruptions-per-hour=`) and failures (`node-mtbf`). Returns `None` where neither is set.
    pub fn node_losses_per_hour(&self) -> Option<f64> {
        let interruptions = self.spot.as_ref().and_then(|spot| spot.interruptions_per_hour.get());
        let failures = self.node_mtbf_seconds.get().map(|seconds| 3_600.0 / (seconds as f64).max(1.0));
        match (interruptions, failures) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
        }
    }
}

node! {
    /// managed spot training
    pub struct Spot("spot"; only_sagemaker: true) {
        /// maximum run time plus waiting time
        pub max_wait_seconds: Field<u64> = prop("max-wait", Ty::Duration)
            .required()
            .sent_as("StoppingCondition.MaxWaitTimeInSeconds")
            .estimator("max_wait");
        /// expected interruptions of one instance
        pub interruptions_per_hour: Field<f64> = prop("interruptions-per-hour", Ty::Number(0.0, 3600.0))
            .otherwise("the plan assumes no interruptions, and has no figures of them")
            .reaches("the prediction of time and cost");
    }
}

node! {
    /// UltraServers that the instances run on
    pub struct Placement("placement"; only_sagemaker: true) {
        /// other jobs may run on the same UltraServers
        pub multiple_jobs: Field<bool> = prop("multiple-jobs", Ty::Bool)
            .sent_as("ResourceConfig.InstancePlacementConfig.EnableMultipleJobs")
            .otherwise("not sent");
        pub ultra_servers: Vec<UltraServer>;
    }
}

node! {
    /// an UltraServer and the number of the job's instances on it
    pub struct UltraServer("ultra-server"; repeat: Repeat::ByFirst;
        reaches: "request: `ResourceConfig.InstancePlacementConfig.PlacementSpecifications`") {
        /// its ID
        pub id: Val<String> = arg(0, "id", Ty::Plain).unlisted();
        /// instances of the job on it
        pub instances: Field<u64> = prop("instances", Ty::Int(0, 1_000_000)).required().listed("");
    }
}

node! {
    /// an instance group of a heterogeneous cluster
    pub struct InstanceGroup("group"; repeat: Repeat::ByFirst;
        reaches: "request: `ResourceConfig.InstanceGroups`") {
        /// its name
        pub name: Field<String> = arg(0, "name", Ty::Plain);
        /// instance type
        pub instance: Field<String> = prop("instance", Ty::Plain).required();
        /// instances in the group
        pub nodes: Field<u64> = prop("nodes", Ty::Int(1, 1_000_000)).required();
    }
}

node! {
    /// the accelerator of a custom or a local cluster
    pub struct CustomGpu("gpu") {
        /// the catalogue's name of it
        pub name: Field<String> = arg(0, "name", Ty::Plain);
        /// accelerators per node
        pub per_node: Field<u64> = prop("per-node", Ty::Int(1, 1024)).required();
    }
}

node! {
    /// VPC settings
    pub struct Network("network"; only_sagemaker: true) {
        /// subnets of the job
        pub subnets: Vec<Val<String>> = words("subnets", "subnet", Ty::Plain)
            .otherwise("no VPC of yours")
            .reaches("request: `VpcConfig`, and the file system that is created");
        /// security groups of the job
        pub security_groups: Vec<Val<String>> = words("security-groups", "group", Ty::Plain)
            .otherwise("no VPC of yours")
            .reaches("request: `VpcConfig`, and the file system that is created");
        /// the word `subnets`, where it was written
        pub subnets_span: Option<Span> = beside("subnets");
        /// the word `security-groups`, where it was written
        pub security_groups_span: Option<Span> = beside("security-groups");
        /// network isolation: no outbound connections from the containers
        pub isolation: Field<bool> = child("isolation", Ty::Bool)
            .sent_as("EnableNetworkIsolation")
            .estimator("enable_network_isolation")
            .default("#false");
        /// encrypt traffic between the containers
        pub encrypt_traffic: Field<bool> = child("encrypt-traffic", Ty::Bool)
            .sent_as("EnableInterContainerTrafficEncryption")
            .estimator("encrypt_inter_container_traffic")
            .default("#false");
    }
}
