//! Read-only operations of the simulated account.

use super::defaults::zone_id;
use super::state::Account;
use super::{Fake, UNBOUNDED_QUOTA, logs};
use crate::account::{
    Association, Bucket, Caller, Endpoint, FileSystem, JobSummary, Key, LogFrom, LogPage, LogStream, Object,
    Question, Role, RouteTable, SecurityGroup, Subnet, Tags, TrainingJob, Upload,
};
use crate::calls::Call;
use crate::cloud::{Answer, Observe};
use crate::fault::Fault;

pub(super) fn no_entity(call: Call, what: &str) -> Fault {
    Fault::from_answer(
        call,
        Some(404),
        "NoSuchEntity",
        &format!("The role with name {what} cannot be found."),
    )
}

pub(super) fn no_job(call: Call) -> Fault {
    Fault::from_answer(call, Some(400), "ValidationException", "Requested resource not found.")
}

fn missing(call: Call, code: &str, what: &str) -> Fault {
    Fault::from_answer(call, Some(400), code, &format!("`{what}` does not exist"))
}

impl Observe for Fake {
    async fn caller_identity(&self) -> Answer<Caller> {
        self.call(Call::GetCallerIdentity, "", |account, _| {
            let arn = format!("arn:aws:sts::{}:assumed-role/simulated/trainc", account.account);
            Ok(Caller { account: account.account.clone(), arn })
        })
        .await
    }

    async fn role(&self, name: &str) -> Answer<Role> {
        self.call(Call::GetRole, name, |account, _| {
            if let Some(state) = account.roles.get(name) {
                return Ok(state.role.clone());
            }
            // An existing role to which a manifest refers by its ARN.
            if account.exists_by_default(name) && !name.starts_with("trainc-") {
                return Ok(own_role(account, name));
            }
            Err(no_entity(Call::GetRole, name))
        })
        .await
    }

    async fn role_policy(&self, role: &str, policy: &str) -> Answer<String> {
        let call = Call::GetRolePolicy;
        self.call(call, role, |account, _| {
            let found = account.roles.get(role).and_then(|state| state.policies.get(policy));
            found.cloned().ok_or_else(|| no_entity(call, policy))
        })
        .await
    }

    async fn inline_policies(&self, role: &str) -> Answer<Vec<String>> {
        let call = Call::ListRolePolicies;
        self.call(call, role, |account, _| {
            let found = account.roles.get(role).ok_or_else(|| no_entity(call, role))?;
            Ok(found.policies.keys().cloned().collect())
        })
        .await
    }

    async fn attached_policies(&self, role: &str) -> Answer<Vec<String>> {
        let call = Call::ListAttachedRolePolicies;
        self.call(call, role, |account, _| {
            account.roles.get(role).map(|state| state.attached.clone()).ok_or_else(|| no_entity(call, role))
        })
        .await
    }

    async fn simulate(&self, role_arn: &str, questions: &[Question]) -> Answer<Vec<bool>> {
        self.call(Call::SimulatePrincipalPolicy, role_arn, |account, _| {
            Ok(questions.iter().map(|question| !account.role_lacks.contains(&question.action)).collect())
        })
        .await
    }

    async fn file_systems(&self) -> Answer<Vec<FileSystem>> {
        self.call(Call::DescribeFileSystems, "", |account, _| {
            Ok(account.file_systems.values().map(|state| state.system.clone()).collect())
        })
        .await
    }

    async fn file_system(&self, id: &str) -> Answer<FileSystem> {
        let call = Call::DescribeFileSystems;
        self.call(call, id, |account, _| {
            if let Some(state) = account.file_systems.get(id) {
                return Ok(state.system.clone());
            }
            if account.exists_by_default(id) && !id.starts_with("fs-0000000000") {
                return Ok(existing_file_system(account, id));
            }
            let text = format!("File system '{id}' does not exist.");
            Err(Fault::from_answer(call, Some(400), "FileSystemNotFound", &text))
        })
        .await
    }

    async fn associations(&self, file_system: &str) -> Answer<Vec<Association>> {
        self.call(Call::DescribeDataRepositoryAssociations, file_system, |account, _| {
            let all = account.associations.values().map(|state| state.association.clone());
            Ok(all.filter(|one| one.file_system == file_system).collect())
        })
        .await
    }

    async fn training_job(&self, name: &str) -> Answer<TrainingJob> {
        let call = Call::DescribeTrainingJob;
        self.call(call, name, |account, _| {
            account.jobs.get(name).map(|state| state.job.clone()).ok_or_else(|| no_job(call))
        })
        .await
    }

    async fn training_jobs(&self, name_contains: &str) -> Answer<Vec<JobSummary>> {
        self.call(Call::ListTrainingJobs, name_contains, |account, _| {
            if name_contains.is_empty() {
                let message = "NameContains: '' does not match [a-zA-Z0-9\\-]+";
                return Err(Fault::from_answer(
                    Call::ListTrainingJobs,
                    Some(400),
                    "ValidationException",
                    message,
                ));
            }
            Ok(summaries(account, |job| job.name.contains(name_contains)))
        })
        .await
    }

    fn is_simulated(&self) -> bool {
        true
    }

    async fn running_jobs(&self, stopping: bool) -> Answer<Vec<JobSummary>> {
        self.call(Call::ListTrainingJobs, "", |account, _| {
            Ok(summaries(account, |job| job.status == "InProgress" || (stopping && job.status == "Stopping")))
        })
        .await
    }

    async fn job_tags(&self, arn: &str) -> Answer<Tags> {
        self.call(Call::ListTags, arn, |account, _| {
            let name = arn.rsplit('/').next().unwrap_or_default();
            Ok(account.jobs.get(name).map(|state| state.tags.clone()).unwrap_or_default())
        })
        .await
    }

    async fn bucket(&self, name: &str, owner: Option<&str>) -> Answer<Bucket> {
        let call = Call::HeadBucket;
        self.call(call, name, |account, _| {
            if !account.has_bucket(name) {
                return Err(Fault::from_answer(call, Some(404), "NotFound", ""));
            }
            if owner.is_some_and(|owner| owner != account.bucket_owner(name)) {
                return Err(Fault::from_answer(call, Some(403), "AccessDenied", "Access Denied"));
            }
            let region = account.buckets.get(name).unwrap_or(&account.region).clone();
            let moved = region != account.region;
            Ok(Bucket { name: name.to_owned(), region: Some(region), moved, foreign: false })
        })
        .await
    }

    async fn objects(
        &self,
        bucket: &str,
        prefix: &str,
        most: usize,
        owner: Option<&str>,
    ) -> Answer<Vec<Object>> {
        let (call, path) = (Call::ListObjectsV2, format!("{bucket}/{prefix}"));
        self.call(call, &path, |account, _| {
            if !account.has_readable_bucket(bucket) {
                return Err(Fault::from_answer(
                    call,
                    Some(404),
                    "NoSuchBucket",
                    "The specified bucket does not exist",
                ));
            }
            if owner.is_some_and(|owner| owner != account.bucket_owner(bucket)) {
                return Err(Fault::from_answer(call, Some(403), "AccessDenied", "Access Denied"));
            }
            let region = account.buckets.get(bucket).unwrap_or(&account.region);
            if *region != account.region {
                let text =
                    "The bucket you are attempting to access must be addressed using the specified endpoint.";
                let moved = Fault::from_answer(call, Some(301), "PermanentRedirect", text);
                return Err(moved.of_region(Some(region)));
            }
            let held: Vec<Object> = account
                .objects
                .iter()
                .filter(|(key, _)| key.starts_with(&path))
                .map(|(key, bytes)| Object {
                    key: key.strip_prefix(&format!("{bucket}/")).unwrap_or(key).to_owned(),
                    bytes: *bytes,
                    ..Object::default()
                })
                .take(most)
                .collect();
            let made = prefix.starts_with("trainc/");
            if held.is_empty() && account.furnished && !made && !account.empty.contains(&path) {
                return Ok(vec![Object {
                    key: format!("{prefix}part-00000"),
                    bytes: 1 << 20,
                    ..Object::default()
                }]);
            }
            Ok(held)
        })
        .await
    }

    async fn multipart_uploads(&self, bucket: &str, prefix: &str) -> Answer<Vec<(String, String)>> {
        let about = format!("{bucket}/{prefix}");
        self.call(Call::ListMultipartUploads, &about, |account, _| {
            let keys = account.unfinished.iter().filter(|path| path.starts_with(&about));
            let key =
                |path: &String| path.split_once('/').map(|(_, key)| (key.to_owned(), format!("id-{path}")));
            Ok(keys.filter_map(key).collect())
        })
        .await
    }

    async fn uploaded_object(&self, upload: &Upload) -> Answer<Object> {
        let (call, path) = (Call::HeadObject, format!("{}/{}", upload.bucket, upload.key));
        self.call(call, &path, |account, _| match account.objects.get(&path) {
            Some(bytes) => {
                let sum = account.checksums.get(&path);
                let sha256 = sum.filter(|_| !account.hidden_checksums).cloned();
                Ok(Object { key: upload.key.clone(), bytes: *bytes, sha256, etag: sum.map(|sum| etag(sum)) })
            }
            None => Err(Fault::from_answer(call, Some(404), "NotFound", "")),
        })
        .await
    }

    async fn subnets(&self, ids: &[String]) -> Answer<Vec<Subnet>> {
        let call = Call::DescribeSubnets;
        self.call(call, &ids.join(","), |account, _| {
            let each =
                |id: &String| account.subnet(id).ok_or_else(|| missing(call, "InvalidSubnetID.NotFound", id));
            ids.iter().map(each).collect()
        })
        .await
    }

    async fn security_groups(&self, ids: &[String]) -> Answer<Vec<SecurityGroup>> {
        let call = Call::DescribeSecurityGroups;
        self.call(call, &ids.join(","), |account, _| {
            let each = |id: &String| {
                account.security_group(id).ok_or_else(|| missing(call, "InvalidGroup.NotFound", id))
            };
            ids.iter().map(each).collect()
        })
        .await
    }

    async fn route_tables(&self, vpc: &str) -> Answer<Vec<RouteTable>> {
        self.call(Call::DescribeRouteTables, vpc, |account, _| Ok(account.route_tables_or_default())).await
    }

    async fn vpc_endpoints(&self, vpc: &str, service: &str) -> Answer<Vec<Endpoint>> {
        let about = format!("{vpc} {service}");
        self.call(Call::DescribeVpcEndpoints, &about, |account, _| Ok(account.endpoints.clone())).await
    }

    async fn zones(&self, instance_type: &str) -> Answer<Vec<String>> {
        self.call(Call::DescribeInstanceTypeOfferings, instance_type, |account, _| {
            let region = account.region.clone();
            let all = || (1..=3).map(|number| zone_id(&region, number)).collect();
            Ok(account.zones.get(instance_type).cloned().unwrap_or_else(all))
        })
        .await
    }

    async fn quota(&self, _: &str, code: &str) -> Answer<f64> {
        let call = Call::GetServiceQuota;
        self.call(call, code, |account, _| {
            let unchanged = || {
                let text = "The request failed because the specified quota does not exist.";
                Fault::from_answer(call, Some(400), "NoSuchResourceException", text)
            };
            account.quotas.get(code).copied().ok_or_else(unchanged)
        })
        .await
    }

    async fn default_quota(&self, _: &str, code: &str) -> Answer<f64> {
        self.call(Call::GetAWSDefaultServiceQuota, code, |_, _| Ok(UNBOUNDED_QUOTA)).await
    }

    async fn log_streams(&self, prefix: &str) -> Answer<Vec<LogStream>> {
        self.call(Call::DescribeLogStreams, prefix, |account, now| {
            let name = prefix.split('/').next().unwrap_or(prefix);
            Ok(account.jobs.get(name).map(|state| logs::streams(state, now)).unwrap_or_default())
        })
        .await
    }

    async fn log_events(&self, stream: &str, from: LogFrom<'_>, most: u32) -> Answer<LogPage> {
        let call = Call::GetLogEvents;
        self.call(call, stream, |account, now| {
            let name = stream.split('/').next().unwrap_or(stream);
            let page = account
                .jobs
                .get(name)
                .and_then(|state| logs::events(state, stream, from, most, now - account.log_seconds));
            let gone = || {
                Fault::from_answer(
                    call,
                    Some(400),
                    "ResourceNotFoundException",
                    "The specified log stream does not exist.",
                )
            };
            page.ok_or_else(gone)
        })
        .await
    }

    async fn kms_key(&self, id: &str) -> Answer<Key> {
        let call = Call::DescribeKey;
        self.call(call, id, |account, _| {
            if account.exists_by_default(id) {
                return Ok(Key { arn: id.to_owned(), state: "Enabled".to_owned() });
            }
            Err(Fault::from_answer(
                call,
                Some(400),
                "NotFoundException",
                &format!("Key '{id}' does not exist"),
            ))
        })
        .await
    }

    async fn check_image(&self, uri: &str) -> Answer<()> {
        let call = Call::DescribeImages;
        self.call(call, uri, |account, _| {
            let there = account.exists_by_default(uri).then_some(());
            there.ok_or_else(|| missing(call, "ImageNotFoundException", uri))
        })
        .await
    }

    async fn check_secret(&self, arn: &str) -> Answer<()> {
        let call = Call::DescribeSecret;
        self.call(call, arn, |account, _| {
            let there = account.exists_by_default(arn).then_some(());
            there.ok_or_else(|| missing(call, "ResourceNotFoundException", arn))
        })
        .await
    }
}

/// Returns the entity tag of an object, which differs between different contents, as in S3.
pub(super) fn etag(sha256: &str) -> String {
    format!("\"{}\"", sha256.get(..32).unwrap_or(sha256))
}

fn own_role(account: &Account, name: &str) -> Role {
    Role {
        name: name.to_owned(),
        arn: format!("arn:aws:iam::{}:role/{name}", account.account),
        path: "/".to_owned(),
        trust: r#"{"Statement":[{"Principal":{"Service":"sagemaker.amazonaws.com"}}]}"#.to_owned(),
        ..Role::default()
    }
}

/// Returns a file system that a manifest refers to by its ID.
fn existing_file_system(account: &Account, id: &str) -> FileSystem {
    FileSystem {
        id: id.to_owned(),
        arn: format!("arn:aws:fsx:{}:{}:file-system/{id}", account.region, account.account),
        lifecycle: "AVAILABLE".to_owned(),
        kind: "LUSTRE".to_owned(),
        ..FileSystem::default()
    }
}

fn summaries(account: &Account, keep: impl Fn(&TrainingJob) -> bool) -> Vec<JobSummary> {
    let mut out: Vec<JobSummary> = account
        .jobs
        .values()
        .filter(|state| keep(&state.job))
        .map(|state| JobSummary {
            name: state.job.name.clone(),
            arn: state.job.arn.clone(),
            status: state.job.status.clone(),
            created: state.job.created,
        })
        .collect();
    out.sort_by(|a, b| b.created.total_cmp(&a.created).then_with(|| a.name.cmp(&b.name)));
    out
}
