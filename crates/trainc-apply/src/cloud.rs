//! The account behind two traits: [`Observe`] only reads, [`Cloud`] also writes.
//!
//! Each method is one AWS operation, so that "after every call" means the same in the account and in the
//! simulation. Commands that only read (`plan`, `status`, `watch`, `logs`) get an `Observe`, whose type has
//! no writing operations. Lists are complete: implementations follow pages. The caller retries failed calls,
//! in addition to the retries of an SDK.
#![expect(
    async_fn_in_trait,
    reason = "drivers are generic and run on one thread: no future crosses a thread"
)]

use super::account::{
    Association, Bucket, Caller, Endpoint, FileSystem, FileSystemChange, JobSummary, Key, LogFrom, LogPage,
    LogStream, Object, Question, Role, RouteTable, SecurityGroup, Subnet, Tags, TrainingJob, Upload,
};
use super::calls::Call;
use super::desired::WantedKey;
use super::fault::{Class, Fault};
use std::time::Duration;
use trainc_emit::fsx::{CreateDataRepositoryAssociation, CreateFileSystem};
use trainc_emit::iam::CreateRole;

/// Result of a call.
pub type Answer<T> = Result<T, Fault>;

/// Read-only calls.
pub trait Observe {
    /// sts GetCallerIdentity.
    async fn caller_identity(&self) -> Answer<Caller>;

    /// iam:GetRole; the trust policy is percent-decoded.
    async fn role(&self, name: &str) -> Answer<Role>;
    /// iam GetRolePolicy: the document as JSON text, percent-decoded.
    async fn role_policy(&self, role: &str, policy: &str) -> Answer<String>;
    /// iam ListRolePolicies: the names of all inline policies.
    async fn inline_policies(&self, role: &str) -> Answer<Vec<String>>;
    /// iam ListAttachedRolePolicies: the ARNs of all managed policies.
    async fn attached_policies(&self, role: &str) -> Answer<Vec<String>>;
    /// iam:SimulatePrincipalPolicy: whether each request is allowed, in the given order. All requests of a
    /// call have the same context.
    async fn simulate(&self, role_arn: &str, questions: &[Question]) -> Answer<Vec<bool>>;

    /// fsx DescribeFileSystems: all file systems of the region.
    async fn file_systems(&self) -> Answer<Vec<FileSystem>>;
    /// fsx:DescribeFileSystems of one ID.
    async fn file_system(&self, id: &str) -> Answer<FileSystem>;
    /// fsx DescribeDataRepositoryAssociations of one file system.
    async fn associations(&self, file_system: &str) -> Answer<Vec<Association>>;

    /// sagemaker DescribeTrainingJob.
    async fn training_job(&self, name: &str) -> Answer<TrainingJob>;
    /// sagemaker ListTrainingJobs whose names contain the text, newest first.
    async fn training_jobs(&self, name_contains: &str) -> Answer<Vec<JobSummary>>;
    /// sagemaker:ListTrainingJobs in progress, with any name; with `stopping` also those that are stopping,
    /// which use role and data until they have stopped.
    async fn running_jobs(&self, stopping: bool) -> Answer<Vec<JobSummary>>;
    /// sagemaker ListTags.
    async fn job_tags(&self, arn: &str) -> Answer<Tags>;

    /// s3:HeadBucket; with an expected owner, access to a bucket of another account is denied.
    async fn bucket(&self, name: &str, owner: Option<&str>) -> Answer<Bucket>;
    /// s3:ListObjectsV2: the first keys below a prefix, up to a maximum; with an expected owner, access to a
    /// bucket of another account is denied.
    async fn objects(
        &self,
        bucket: &str,
        prefix: &str,
        most: usize,
        owner: Option<&str>,
    ) -> Answer<Vec<Object>>;
    /// s3:ListMultipartUploads: key and ID of the unfinished uploads below a prefix.
    async fn multipart_uploads(&self, bucket: &str, prefix: &str) -> Answer<Vec<(String, String)>>;
    /// s3:HeadObject at the key of an upload. For a multipart object S3 returns a checksum of the parts'
    /// checksums: the SHA-256 is known if it matches that of the upload's own parts.
    async fn uploaded_object(&self, upload: &Upload) -> Answer<Object>;

    /// ec2:DescribeSubnets; a missing subnet is a fault of class `NotFound`.
    async fn subnets(&self, ids: &[String]) -> Answer<Vec<Subnet>>;
    /// ec2:DescribeSecurityGroups; a missing group is a fault of class `NotFound`.
    async fn security_groups(&self, ids: &[String]) -> Answer<Vec<SecurityGroup>>;
    /// ec2:DescribeRouteTables of a VPC.
    async fn route_tables(&self, vpc: &str) -> Answer<Vec<RouteTable>>;
    /// ec2:DescribeVpcEndpoints of a VPC and a service, such as `com.amazonaws.us-west-2.s3`.
    async fn vpc_endpoints(&self, vpc: &str, service: &str) -> Answer<Vec<Endpoint>>;
    /// ec2:DescribeInstanceTypeOfferings: IDs of the zones that offer a type, such as `p4d.24xlarge` (without
    /// `ml.`).
    async fn zones(&self, instance_type: &str) -> Answer<Vec<String>>;

    /// servicequotas GetServiceQuota; a quota that was never changed in the account is a fault of class
    /// `NotFound`.
    async fn quota(&self, service: &str, code: &str) -> Answer<f64>;
    /// servicequotas:GetAWSDefaultServiceQuota: the default value.
    async fn default_quota(&self, service: &str, code: &str) -> Answer<f64>;

    /// logs:DescribeLogStreams of `/aws/sagemaker/TrainingJobs` with a name prefix; empty if the group does
    /// not exist.
    async fn log_streams(&self, prefix: &str) -> Answer<Vec<LogStream>>;
    /// logs:GetLogEvents from the start or the end of the previous page: up to a maximum of lines, never over
    /// 10,000.
    async fn log_events(&self, stream: &str, from: LogFrom<'_>, most: u32) -> Answer<LogPage>;

    /// Returns true if the account is simulated and nothing is billed.
    fn is_simulated(&self) -> bool {
        false
    }

    /// kms DescribeKey.
    async fn kms_key(&self, id: &str) -> Answer<Key> {
        Err(not_supported(Call::DescribeKey, id))
    }
    /// ecr:DescribeImages: whether the image exists in its registry.
    async fn check_image(&self, uri: &str) -> Answer<()> {
        Err(not_supported(Call::DescribeImages, uri))
    }
    /// secretsmanager:DescribeSecret: whether it exists. Its value is never read.
    async fn check_secret(&self, arn: &str) -> Answer<()> {
        Err(not_supported(Call::DescribeSecret, arn))
    }
}

fn not_supported(call: Call, what: &str) -> Fault {
    Fault::new(call, Class::NotSupported, &format!("`{what}` is not looked up here"))
}

/// Calls that change the account.
pub trait Cloud: Observe {
    /// iam CreateRole, with path and tags.
    async fn create_role(&self, request: &CreateRole) -> Answer<()>;
    /// iam:PutRolePolicy: creates or overwrites it.
    async fn put_role_policy(&self, role: &str, policy: &str, document: &str) -> Answer<()>;
    /// iam UpdateAssumeRolePolicy.
    async fn update_trust(&self, role: &str, document: &str) -> Answer<()>;
    /// iam:TagRole: adds or overwrites these tags.
    async fn tag_role(&self, role: &str, tags: &Tags) -> Answer<()>;
    /// iam DeleteRolePolicy.
    async fn delete_role_policy(&self, role: &str, policy: &str) -> Answer<()>;
    /// iam DeleteRole.
    async fn delete_role(&self, role: &str) -> Answer<()>;

    /// fsx:CreateFileSystem; returns the ID. With the token in the request, a repeated call returns the ID of
    /// the first.
    async fn create_file_system(&self, request: &CreateFileSystem) -> Answer<String>;
    /// fsx UpdateFileSystem.
    async fn update_file_system(&self, id: &str, change: &FileSystemChange) -> Answer<()>;
    /// fsx:TagResource: adds or overwrites these tags on a file system or an association.
    async fn tag_file_system(&self, arn: &str, tags: &Tags) -> Answer<()>;
    /// fsx:UntagResource: removes the tags with these keys from a file system or an association.
    async fn untag_file_system(&self, arn: &str, keys: &[String]) -> Answer<()>;
    /// fsx:DeleteFileSystem, including its data.
    async fn delete_file_system(&self, id: &str) -> Answer<()>;
    /// fsx:CreateDataRepositoryAssociation; returns the ID. The request contains the actual ID of the file
    /// system.
    async fn create_association(&self, request: &CreateDataRepositoryAssociation) -> Answer<String>;
    /// fsx:DeleteDataRepositoryAssociation; keeps the files.
    async fn delete_association(&self, id: &str) -> Answer<()>;

    /// s3 CreateBucket in the region of this cloud.
    async fn create_bucket(&self, name: &str) -> Answer<()>;
    /// s3:PutObject; returns the entity tag of the new object if the response has it. Unless it may
    /// overwrite, an existing object with that key is a fault of class `Exists`. A large object is uploaded
    /// in parts, resuming an unfinished upload of the same key.
    async fn put_object(&self, upload: &Upload, overwrite: bool) -> Answer<Option<String>>;
    /// s3 AbortMultipartUpload.
    async fn abort_upload(&self, bucket: &str, key: &str, id: &str) -> Answer<()>;
    /// s3 DeleteObject.
    async fn delete_object(&self, bucket: &str, key: &str) -> Answer<()>;
    /// s3:PutObject of 64 random hexadecimal digits; an existing object with that key is a fault of class
    /// `Exists`.
    async fn put_random_key(&self, key: &WantedKey) -> Answer<()>;

    /// sagemaker:CreateTrainingJob with the complete request, its members named as in the API.
    async fn create_training_job(&self, request: &serde_json::Value) -> Answer<()>;
    /// sagemaker:AddTags: adds or overwrites these tags.
    async fn tag_job(&self, arn: &str, tags: &Tags) -> Answer<()>;
    /// sagemaker StopTrainingJob.
    async fn stop_training_job(&self, name: &str) -> Answer<()>;
}

/// The clock of the driver: the system clock for an account, a simulated one for a simulation.
pub trait Clock {
    /// Seconds since 1970.
    fn now(&self) -> f64;
    /// Waits.
    async fn sleep(&self, time: Duration);
}
