//! The AWS account: `apply`'s traits implemented with the AWS SDK for Rust.
//!
//! In: AWS's settings (environment, `~/.aws/config`, SSO, instance metadata) and a region. Out: typed objects
//! and typed faults. Makes no decisions: `trainc_apply::fault` classifies errors, and the driver decides what
//! happens next. Only this crate talks to AWS.
//!
//! S3 and STS are asked through their SDK crates. All other requests are written here (`client`): the
//! runtime of the SDK finds credentials, signs, sends and retries them. So the requests that create something
//! are the emitted ones, member for member, and a build needs neither the 400 operations of
//! aws-sdk-sagemaker nor the 1.2 million lines of aws-sdk-ec2.
#![expect(
    clippy::disallowed_methods,
    reason = "the account is reached from here: clock, environment and network"
)]

mod client;
mod credentials;
mod ec2;
mod endpoints;
mod errors;
mod fsx;
mod http_client;
mod iam;
mod logs;
mod profiles;
mod quotas;
mod references;
#[cfg(test)]
mod replay;
mod s3;
mod sagemaker;
mod settings;
mod sts;
#[cfg(test)]
mod tests;
mod xml;

pub use credentials::CredentialCache;
pub use http_client::Notice;
pub use settings::Settings;

use trainc_apply::account::{
    Association, Bucket, Caller, Endpoint, FileSystem, FileSystemChange, JobSummary, Key, LogFrom, LogPage,
    LogStream, Object, Question, Role, RouteTable, SecurityGroup, Subnet, Tags, TrainingJob, Upload,
};
use trainc_apply::cloud::{Answer, Cloud, Observe};
use trainc_apply::desired::WantedKey;
use trainc_emit::fsx::{CreateDataRepositoryAssociation, CreateFileSystem};
use trainc_emit::iam::CreateRole;

/// An account in one region, with the caller's credentials.
#[derive(Clone, Debug)]
pub struct Account {
    region: String,
    part_bytes: Option<usize>,
    client: client::Client,
    s3: aws_sdk_s3::Client,
    sts: aws_sdk_sts::Client,
    endpoints: endpoints::Endpoints,
}

impl Account {
    /// Reads AWS's settings without calling AWS. Fails with a line that names an invalid variable.
    pub async fn connect(settings: &Settings) -> Result<Self, String> {
        Ok(Self::from_config(settings.load().await?, settings))
    }

    fn from_config(config: aws_config::SdkConfig, settings: &Settings) -> Self {
        Self {
            region: settings.region.clone(),
            part_bytes: settings.part_bytes,
            s3: s3::client(&config),
            sts: aws_sdk_sts::Client::new(&config),
            endpoints: endpoints::Endpoints::new(config.clone()),
            client: client::Client::new(config),
        }
    }
}

impl Observe for Account {
    async fn caller_identity(&self) -> Answer<Caller> {
        self.endpoints.explain_fault("sts", sts::caller_identity(&self.sts)).await
    }

    async fn role(&self, name: &str) -> Answer<Role> {
        self.endpoints.explain_fault("iam", iam::role(&self.client, name)).await
    }
    async fn role_policy(&self, role: &str, policy: &str) -> Answer<String> {
        self.endpoints.explain_fault("iam", iam::role_policy(&self.client, role, policy)).await
    }
    async fn inline_policies(&self, role: &str) -> Answer<Vec<String>> {
        self.endpoints.explain_fault("iam", iam::inline_policies(&self.client, role)).await
    }
    async fn attached_policies(&self, role: &str) -> Answer<Vec<String>> {
        self.endpoints.explain_fault("iam", iam::attached_policies(&self.client, role)).await
    }
    async fn simulate(&self, role_arn: &str, questions: &[Question]) -> Answer<Vec<bool>> {
        self.endpoints.explain_fault("iam", iam::simulate(&self.client, role_arn, questions)).await
    }

    async fn file_systems(&self) -> Answer<Vec<FileSystem>> {
        self.endpoints.explain_fault("fsx", fsx::file_systems(&self.client)).await
    }
    async fn file_system(&self, id: &str) -> Answer<FileSystem> {
        self.endpoints.explain_fault("fsx", fsx::file_system(&self.client, id)).await
    }
    async fn associations(&self, file_system: &str) -> Answer<Vec<Association>> {
        self.endpoints.explain_fault("fsx", fsx::associations(&self.client, file_system)).await
    }

    async fn training_job(&self, name: &str) -> Answer<TrainingJob> {
        self.endpoints.explain_fault("sagemaker", sagemaker::training_job(&self.client, name)).await
    }
    async fn training_jobs(&self, name_contains: &str) -> Answer<Vec<JobSummary>> {
        self.endpoints.explain_fault("sagemaker", sagemaker::training_jobs(&self.client, name_contains)).await
    }
    async fn running_jobs(&self, stopping: bool) -> Answer<Vec<JobSummary>> {
        self.endpoints.explain_fault("sagemaker", sagemaker::running_jobs(&self.client, stopping)).await
    }
    async fn job_tags(&self, arn: &str) -> Answer<Tags> {
        self.endpoints.explain_fault("sagemaker", sagemaker::job_tags(&self.client, arn)).await
    }

    async fn bucket(&self, name: &str, owner: Option<&str>) -> Answer<Bucket> {
        self.endpoints.explain_fault("s3", s3::bucket(&self.s3, name, owner)).await
    }
    async fn objects(
        &self,
        bucket: &str,
        prefix: &str,
        most: usize,
        owner: Option<&str>,
    ) -> Answer<Vec<Object>> {
        self.endpoints.explain_fault("s3", s3::objects(&self.s3, bucket, prefix, most, owner)).await
    }
    async fn multipart_uploads(&self, bucket: &str, prefix: &str) -> Answer<Vec<(String, String)>> {
        self.endpoints.explain_fault("s3", s3::multipart_uploads(&self.s3, bucket, prefix)).await
    }
    async fn uploaded_object(&self, upload: &Upload) -> Answer<Object> {
        let asked = s3::uploaded_object(&self.s3, upload, self.part_bytes);
        self.endpoints.explain_fault("s3", asked).await
    }

    async fn subnets(&self, ids: &[String]) -> Answer<Vec<Subnet>> {
        self.endpoints.explain_fault("ec2", ec2::subnets(&self.client, ids)).await
    }
    async fn security_groups(&self, ids: &[String]) -> Answer<Vec<SecurityGroup>> {
        self.endpoints.explain_fault("ec2", ec2::security_groups(&self.client, ids)).await
    }
    async fn route_tables(&self, vpc: &str) -> Answer<Vec<RouteTable>> {
        self.endpoints.explain_fault("ec2", ec2::route_tables(&self.client, vpc)).await
    }
    async fn vpc_endpoints(&self, vpc: &str, service: &str) -> Answer<Vec<Endpoint>> {
        self.endpoints.explain_fault("ec2", ec2::vpc_endpoints(&self.client, vpc, service)).await
    }
    async fn zones(&self, instance_type: &str) -> Answer<Vec<String>> {
        self.endpoints.explain_fault("ec2", ec2::zones(&self.client, instance_type)).await
    }

    async fn quota(&self, service: &str, code: &str) -> Answer<f64> {
        self.endpoints.explain_fault("quotas", quotas::quota(&self.client, service, code)).await
    }
    async fn default_quota(&self, service: &str, code: &str) -> Answer<f64> {
        self.endpoints.explain_fault("quotas", quotas::default_quota(&self.client, service, code)).await
    }

    async fn log_streams(&self, prefix: &str) -> Answer<Vec<LogStream>> {
        self.endpoints.explain_fault("logs", logs::streams(&self.client, prefix)).await
    }
    async fn log_events(&self, stream: &str, from: LogFrom<'_>, most: u32) -> Answer<LogPage> {
        self.endpoints.explain_fault("logs", logs::events(&self.client, stream, from, most)).await
    }

    async fn kms_key(&self, id: &str) -> Answer<Key> {
        self.endpoints.explain_fault("lookups", references::kms_key(&self.client, id)).await
    }
    async fn check_image(&self, uri: &str) -> Answer<()> {
        self.endpoints.explain_fault("lookups", references::check_image(&self.client, uri)).await
    }
    async fn check_secret(&self, arn: &str) -> Answer<()> {
        self.endpoints.explain_fault("lookups", references::check_secret(&self.client, arn)).await
    }
}

impl Cloud for Account {
    async fn create_role(&self, request: &CreateRole) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::create_role(&self.client, request)).await
    }
    async fn put_role_policy(&self, role: &str, policy: &str, document: &str) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::put_role_policy(&self.client, role, policy, document)).await
    }
    async fn update_trust(&self, role: &str, document: &str) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::update_trust(&self.client, role, document)).await
    }
    async fn tag_role(&self, role: &str, tags: &Tags) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::tag_role(&self.client, role, tags)).await
    }
    async fn delete_role_policy(&self, role: &str, policy: &str) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::delete_role_policy(&self.client, role, policy)).await
    }
    async fn delete_role(&self, role: &str) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::delete_role(&self.client, role)).await
    }

    async fn create_file_system(&self, request: &CreateFileSystem) -> Answer<String> {
        self.endpoints.explain_fault("fsx", fsx::create_file_system(&self.client, request)).await
    }
    async fn update_file_system(&self, id: &str, change: &FileSystemChange) -> Answer<()> {
        self.endpoints.explain_fault("fsx", Box::pin(fsx::update_file_system(&self.client, id, change))).await
    }
    async fn tag_file_system(&self, arn: &str, tags: &Tags) -> Answer<()> {
        self.endpoints.explain_fault("fsx", fsx::tag(&self.client, arn, tags)).await
    }
    async fn untag_file_system(&self, arn: &str, keys: &[String]) -> Answer<()> {
        self.endpoints.explain_fault("fsx", fsx::untag(&self.client, arn, keys)).await
    }
    async fn delete_file_system(&self, id: &str) -> Answer<()> {
        self.endpoints.explain_fault("fsx", fsx::delete_file_system(&self.client, id)).await
    }
    async fn create_association(&self, request: &CreateDataRepositoryAssociation) -> Answer<String> {
        self.endpoints.explain_fault("fsx", fsx::create_association(&self.client, request)).await
    }
    async fn delete_association(&self, id: &str) -> Answer<()> {
        self.endpoints.explain_fault("fsx", fsx::delete_association(&self.client, id)).await
    }

    async fn create_bucket(&self, name: &str) -> Answer<()> {
        self.endpoints.explain_fault("s3", s3::create_bucket(&self.s3, name, &self.region)).await
    }
    async fn put_object(&self, upload: &Upload, overwrite: bool) -> Answer<Option<String>> {
        let put = s3::put_object(&self.s3, upload, overwrite, self.part_bytes);
        self.endpoints.explain_fault("s3", Box::pin(put)).await
    }
    async fn put_random_key(&self, key: &WantedKey) -> Answer<()> {
        self.endpoints.explain_fault("s3", Box::pin(s3::put_random_key(&self.s3, key))).await
    }
    async fn abort_upload(&self, bucket: &str, key: &str, id: &str) -> Answer<()> {
        self.endpoints.explain_fault("s3", s3::abort(&self.s3, bucket, key, id)).await
    }
    async fn delete_object(&self, bucket: &str, key: &str) -> Answer<()> {
        self.endpoints.explain_fault("s3", s3::delete_object(&self.s3, bucket, key)).await
    }

    async fn create_training_job(&self, request: &serde_json::Value) -> Answer<()> {
        self.endpoints.explain_fault("sagemaker", sagemaker::create_training_job(&self.client, request)).await
    }
    async fn tag_job(&self, arn: &str, tags: &Tags) -> Answer<()> {
        self.endpoints.explain_fault("sagemaker", sagemaker::tag_job(&self.client, arn, tags)).await
    }
    async fn stop_training_job(&self, name: &str) -> Answer<()> {
        self.endpoints.explain_fault("sagemaker", sagemaker::stop_training_job(&self.client, name)).await
    }
}
