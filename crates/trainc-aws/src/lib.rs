//! The AWS account: `apply`'s traits implemented with the AWS SDK for Rust.
//!
//! In: AWS's settings (environment, `~/.aws/config`, SSO, instance metadata) and a region. Out: typed objects
//! and typed faults. Makes no decisions: `trainc_apply::fault` classifies errors, and the driver decides what
//! happens next. Only this crate talks to AWS.
//!
//! IAM, FSx, SageMaker, S3, STS, CloudWatch Logs and Service Quotas use their SDK crates; the three creation
//! calls send the emitted request byte for byte (`raw_body`). The eight read operations of EC2, KMS, ECR and
//! Secrets Manager are signed with `aws-sigv4` and sent over the SDK's HTTP client (`signed_client`), because
//! aws-sdk-ec2 alone is 1.2 million lines and needs 7.5 GB of memory to compile.
#![expect(
    clippy::disallowed_methods,
    reason = "the account is reached from here: clock, environment and network"
)]

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
mod raw_body;
mod references;
#[cfg(test)]
mod replay;
mod s3;
mod sagemaker;
mod settings;
mod signed_client;
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
    fsx: aws_sdk_fsx::Client,
    iam: aws_sdk_iam::Client,
    logs: aws_sdk_cloudwatchlogs::Client,
    quotas: aws_sdk_servicequotas::Client,
    s3: aws_sdk_s3::Client,
    sagemaker: aws_sdk_sagemaker::Client,
    sts: aws_sdk_sts::Client,
    endpoints: endpoints::Endpoints,
    signed: signed_client::SignedClient,
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
            fsx: aws_sdk_fsx::Client::new(&config),
            iam: aws_sdk_iam::Client::new(&config),
            logs: aws_sdk_cloudwatchlogs::Client::new(&config),
            quotas: aws_sdk_servicequotas::Client::new(&config),
            s3: s3::client(&config),
            sagemaker: aws_sdk_sagemaker::Client::new(&config),
            sts: aws_sdk_sts::Client::new(&config),
            endpoints: endpoints::Endpoints::new(config.clone()),
            signed: signed_client::SignedClient::new(config, settings.first_wait),
        }
    }
}

impl Observe for Account {
    async fn caller_identity(&self) -> Answer<Caller> {
        self.endpoints.explain_fault("sts", sts::caller_identity(&self.sts)).await
    }

    async fn role(&self, name: &str) -> Answer<Role> {
        self.endpoints.explain_fault("iam", iam::role(&self.iam, name)).await
    }
    async fn role_policy(&self, role: &str, policy: &str) -> Answer<String> {
        self.endpoints.explain_fault("iam", iam::role_policy(&self.iam, role, policy)).await
    }
    async fn inline_policies(&self, role: &str) -> Answer<Vec<String>> {
        self.endpoints.explain_fault("iam", iam::inline_policies(&self.iam, role)).await
    }
    async fn attached_policies(&self, role: &str) -> Answer<Vec<String>> {
        self.endpoints.explain_fault("iam", iam::attached_policies(&self.iam, role)).await
    }
    async fn simulate(&self, role_arn: &str, questions: &[Question]) -> Answer<Vec<bool>> {
        self.endpoints.explain_fault("iam", iam::simulate(&self.iam, role_arn, questions)).await
    }

    async fn file_systems(&self) -> Answer<Vec<FileSystem>> {
        self.endpoints.explain_fault("fsx", fsx::file_systems(&self.fsx)).await
    }
    async fn file_system(&self, id: &str) -> Answer<FileSystem> {
        self.endpoints.explain_fault("fsx", fsx::file_system(&self.fsx, id)).await
    }
    async fn associations(&self, file_system: &str) -> Answer<Vec<Association>> {
        self.endpoints.explain_fault("fsx", fsx::associations(&self.fsx, file_system)).await
    }

    async fn training_job(&self, name: &str) -> Answer<TrainingJob> {
        self.endpoints.explain_fault("sagemaker", sagemaker::training_job(&self.sagemaker, name)).await
    }
    async fn training_jobs(&self, name_contains: &str) -> Answer<Vec<JobSummary>> {
        self.endpoints
            .explain_fault("sagemaker", sagemaker::training_jobs(&self.sagemaker, name_contains))
            .await
    }
    async fn running_jobs(&self, stopping: bool) -> Answer<Vec<JobSummary>> {
        self.endpoints.explain_fault("sagemaker", sagemaker::running_jobs(&self.sagemaker, stopping)).await
    }
    async fn job_tags(&self, arn: &str) -> Answer<Tags> {
        self.endpoints.explain_fault("sagemaker", sagemaker::job_tags(&self.sagemaker, arn)).await
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
        self.endpoints.explain_fault("ec2", ec2::subnets(&self.signed, ids)).await
    }
    async fn security_groups(&self, ids: &[String]) -> Answer<Vec<SecurityGroup>> {
        self.endpoints.explain_fault("ec2", ec2::security_groups(&self.signed, ids)).await
    }
    async fn route_tables(&self, vpc: &str) -> Answer<Vec<RouteTable>> {
        self.endpoints.explain_fault("ec2", ec2::route_tables(&self.signed, vpc)).await
    }
    async fn vpc_endpoints(&self, vpc: &str, service: &str) -> Answer<Vec<Endpoint>> {
        self.endpoints.explain_fault("ec2", ec2::vpc_endpoints(&self.signed, vpc, service)).await
    }
    async fn zones(&self, instance_type: &str) -> Answer<Vec<String>> {
        self.endpoints.explain_fault("ec2", ec2::zones(&self.signed, instance_type)).await
    }

    async fn quota(&self, service: &str, code: &str) -> Answer<f64> {
        self.endpoints.explain_fault("quotas", quotas::quota(&self.quotas, service, code)).await
    }
    async fn default_quota(&self, service: &str, code: &str) -> Answer<f64> {
        self.endpoints.explain_fault("quotas", quotas::default_quota(&self.quotas, service, code)).await
    }

    async fn log_streams(&self, prefix: &str) -> Answer<Vec<LogStream>> {
        self.endpoints.explain_fault("logs", logs::streams(&self.logs, prefix)).await
    }
    async fn log_events(&self, stream: &str, from: LogFrom<'_>, most: u32) -> Answer<LogPage> {
        self.endpoints.explain_fault("logs", logs::events(&self.logs, stream, from, most)).await
    }

    async fn kms_key(&self, id: &str) -> Answer<Key> {
        self.endpoints.explain_fault("lookups", references::kms_key(&self.signed, id)).await
    }
    async fn check_image(&self, uri: &str) -> Answer<()> {
        self.endpoints.explain_fault("lookups", references::check_image(&self.signed, uri)).await
    }
    async fn check_secret(&self, arn: &str) -> Answer<()> {
        self.endpoints.explain_fault("lookups", references::check_secret(&self.signed, arn)).await
    }
}

impl Cloud for Account {
    async fn create_role(&self, request: &CreateRole) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::create_role(&self.iam, request)).await
    }
    async fn put_role_policy(&self, role: &str, policy: &str, document: &str) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::put_role_policy(&self.iam, role, policy, document)).await
    }
    async fn update_trust(&self, role: &str, document: &str) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::update_trust(&self.iam, role, document)).await
    }
    async fn tag_role(&self, role: &str, tags: &Tags) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::tag_role(&self.iam, role, tags)).await
    }
    async fn delete_role_policy(&self, role: &str, policy: &str) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::delete_role_policy(&self.iam, role, policy)).await
    }
    async fn delete_role(&self, role: &str) -> Answer<()> {
        self.endpoints.explain_fault("iam", iam::delete_role(&self.iam, role)).await
    }

    async fn create_file_system(&self, request: &CreateFileSystem) -> Answer<String> {
        self.endpoints.explain_fault("fsx", fsx::create_file_system(&self.fsx, request)).await
    }
    async fn update_file_system(&self, id: &str, change: &FileSystemChange) -> Answer<()> {
        self.endpoints.explain_fault("fsx", Box::pin(fsx::update_file_system(&self.fsx, id, change))).await
    }
    async fn tag_file_system(&self, arn: &str, tags: &Tags) -> Answer<()> {
        self.endpoints.explain_fault("fsx", fsx::tag(&self.fsx, arn, tags)).await
    }
    async fn untag_file_system(&self, arn: &str, keys: &[String]) -> Answer<()> {
        self.endpoints.explain_fault("fsx", fsx::untag(&self.fsx, arn, keys)).await
    }
    async fn delete_file_system(&self, id: &str) -> Answer<()> {
        self.endpoints.explain_fault("fsx", fsx::delete_file_system(&self.fsx, id)).await
    }
    async fn create_association(&self, request: &CreateDataRepositoryAssociation) -> Answer<String> {
        self.endpoints.explain_fault("fsx", fsx::create_association(&self.fsx, request)).await
    }
    async fn delete_association(&self, id: &str) -> Answer<()> {
        self.endpoints.explain_fault("fsx", fsx::delete_association(&self.fsx, id)).await
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
        self.endpoints
            .explain_fault("sagemaker", sagemaker::create_training_job(&self.sagemaker, request))
            .await
    }
    async fn tag_job(&self, arn: &str, tags: &Tags) -> Answer<()> {
        self.endpoints.explain_fault("sagemaker", sagemaker::tag_job(&self.sagemaker, arn, tags)).await
    }
    async fn stop_training_job(&self, name: &str) -> Answer<()> {
        self.endpoints.explain_fault("sagemaker", sagemaker::stop_training_job(&self.sagemaker, name)).await
    }
}
