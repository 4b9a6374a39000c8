//! The least-privilege policy of the operator, who runs trainc: generated from the table of calls.
//!
//! Without a permissions boundary its holder can create a role with any trust and any policy, and becomes an
//! administrator of the account that way. With one, roles are only created and changed under the boundary.

use super::calls::{Call, Command, Scope, TagCondition};
use super::{desired, preflight};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use trainc_catalog::arn::{Arn, ROLE_PATH};
use trainc_catalog::iam_actions;
use trainc_emit::{self as emit, iam};
use trainc_ir::Plan;

/// The partition, region, account and job that a policy covers; unknown values are `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyScope {
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// The region, or `*`.
    pub region: String,
    /// The account, or `*`.
    pub account: String,
    /// The resources of one job; without it, all resources with the default names of trainc.
    pub job: Option<JobResources>,
    /// The permissions boundary that roles must have: the ARN of a managed policy.
    pub boundary: Option<String>,
}

/// What a job names and makes, as ARNs or parts of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobResources {
    /// The name of the job, the value of its tag.
    name: String,
    /// The role that is made.
    role: Option<String>,
    /// The role that the job runs as.
    passed: String,
    /// The training jobs of all its runs.
    runs: String,
    /// True if file systems are made.
    makes_file_systems: bool,
    /// True if one of them has `delete-after-job`: then `apply --wait` deletes it.
    releases: bool,
    /// Roles whose permissions are asked for.
    judged: BTreeSet<String>,
    /// Buckets that are looked at.
    buckets: BTreeSet<String>,
    /// The bucket that is made: none where all that is uploaded goes elsewhere.
    made: Option<String>,
    /// `bucket/prefix` of what is uploaded.
    uploads: BTreeSet<String>,
    /// The accounts that own the buckets of uploads.
    owners: BTreeSet<String>,
    /// Keys that are looked at.
    keys: BTreeSet<String>,
    /// Keys that encrypt what is uploaded.
    upload_keys: BTreeSet<String>,
    /// The repository of the account's own image.
    image: Option<String>,
    /// Secrets.
    secrets: BTreeSet<String>,
}

impl Default for PolicyScope {
    fn default() -> Self {
        let any = || "*".to_owned();
        Self { partition: "aws".to_owned(), region: any(), account: any(), job: None, boundary: None }
    }
}

impl PolicyScope {
    /// Returns the scope of all jobs in the boundary's account whose roles have that boundary.
    pub fn for_boundary(boundary: &str) -> Self {
        let any = Self { boundary: Some(boundary.to_owned()), ..Self::default() };
        match Arn::parse(boundary) {
            Ok(arn) => Self { partition: arn.partition.to_owned(), account: arn.account.to_owned(), ..any },
            Err(_) => any,
        }
    }

    /// Returns the ARN pattern of the roles that trainc creates, where the manifest sets no path.
    fn created_roles(&self) -> String {
        let Self { partition: p, account: a, boundary, .. } = self;
        let path = boundary.as_deref().and_then(|arn| Arn::parse(arn).ok()?.role_path());
        format!("arn:{p}:iam::{a}:role{}*", path.as_deref().unwrap_or(ROLE_PATH))
    }

    /// Returns the scope of one job, and nothing more.
    pub fn for_job(plan: &Plan) -> Self {
        let account = plan.job.account.value().cloned().unwrap_or_else(|| "*".to_owned());
        let partition = plan.region.as_ref().map_or("aws", |region| region.partition.as_str()).to_owned();
        let region = plan.job.region.value().cloned().unwrap_or_else(|| "*".to_owned());
        let identity = emit::identity(plan);
        let plan = &plan.clone().with_account(&account);
        let role = iam::create_role(plan, &identity.digest).map(|create| {
            let path = create.path.as_deref().unwrap_or("/");
            format!("arn:{partition}:iam::{account}:role{path}{}", create.role_name)
        });
        let given = plan.job.role.as_ref().and_then(|role| role.arn.text()).map(str::to_owned);
        // Both: what an older version of the job has uploaded is looked for, too.
        let uploads = [emit::archive_base_prefix(plan), emit::worker_home(plan)];
        let uploads: BTreeSet<String> = uploads
            .iter()
            .filter_map(|uri| Some(uri.strip_prefix("s3://")?.trim_end_matches('/').to_owned()))
            .collect();
        let bucket = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
        let bucket_of = |uri: &str| Some(desired::split_uri(uri)?.0.to_owned());
        let worker = emit::worker_uploads(plan, &identity.digest).into_iter().map(|(uri, _)| uri);
        let default = emit::default_bucket(plan);
        let is_used = emit::archive_uri(plan, &identity.digest)
            .into_iter()
            .chain(worker)
            .any(|uri| bucket_of(&uri).is_some_and(|bucket| bucket == default));
        let releases = plan.job.storage.iter().any(|one| one.delete_after_job.get() == Some(true));
        // Whether the caller may delete is asked of the caller, whose name no manifest knows.
        let callers = releases.then(|| callers(&partition, &account)).into_iter().flatten();
        let named = preflight::s3_locations(plan);
        let mut buckets: BTreeSet<String> = named.iter().filter_map(|(uri, _)| bucket_of(uri)).collect();
        buckets.extend(uploads.iter().map(|upload| bucket(upload)));
        let key = |id: &str| {
            // A permission knows a key by its own ARN alone, never by an alias.
            let whole = id.starts_with("arn:") && id.contains(":key/");
            let bare = !id.starts_with("arn:") && !id.starts_with("alias/");
            match (whole, bare) {
                (true, _) => id.to_owned(),
                (_, true) => format!("arn:{partition}:kms:{region}:{account}:key/{id}"),
                _ => format!("arn:{partition}:kms:{region}:{account}:key/*"),
            }
        };
        let output = plan.job.output.as_ref().and_then(|output| output.kms.text());
        let others = plan.job.cluster.as_ref().and_then(|cluster| cluster.volume_kms.text());
        let storages = plan.job.storage.iter().filter_map(|storage| storage.kms.text());
        let secrets = plan.job.program.iter().flat_map(|program| &program.secrets);
        let named = JobResources {
            name: plan.job.name.value().cloned().unwrap_or_default(),
            judged: given.clone().into_iter().chain(callers).collect(),
            passed: given.or_else(|| role.clone()).unwrap_or_default(),
            role,
            runs: emit::job_pattern(plan),
            releases,
            makes_file_systems: !emit::fsx::file_systems(plan, &identity.digest).is_empty(),
            buckets,
            made: is_used.then_some(default),
            owners: uploads
                .iter()
                .map(|upload| plan.job.bucket_owner(&bucket(upload)).unwrap_or(&account).to_owned())
                .map(|owner| if owner == "*" { CALLERS_ACCOUNT.to_owned() } else { owner })
                .collect(),
            uploads,
            keys: output.into_iter().chain(others).chain(storages).map(key).collect(),
            upload_keys: output.into_iter().map(key).collect(),
            image: repository(plan, &partition, &account),
            secrets: secrets.filter_map(|secret| secret.from.text().map(str::to_owned)).collect(),
        };
        let boundary = plan.job.role.as_ref().and_then(|role| role.boundary.text().map(str::to_owned));
        Self { partition, region, account, job: Some(named), boundary }
    }

    fn makes_file_systems(&self) -> bool {
        self.job.as_ref().is_none_or(|job| job.makes_file_systems)
    }

    fn deletes_file_systems(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.releases)
    }

    fn resources(&self, scope: Scope, write: bool) -> Vec<String> {
        let Self { partition: p, region: r, account: a, job, .. } = self;
        let all = |items: &BTreeSet<String>, before: &str, after: &str| -> Vec<String> {
            items.iter().map(|item| format!("{before}{item}{after}")).collect()
        };
        match (scope, job) {
            (Scope::All, _) => vec!["*".to_owned()],
            (Scope::Role, Some(job)) => job.role.iter().cloned().collect(),
            (Scope::Role, None) => vec![self.created_roles()],
            (Scope::AnyRole, Some(job)) => vec![job.passed.clone()],
            (Scope::AnyRole, None) => vec![format!("arn:{p}:iam::{a}:role/*")],
            (Scope::Judged, Some(job)) => job.judged.iter().cloned().collect(),
            (Scope::Judged, None) => callers(p, a).to_vec(),
            (Scope::FileSystem, Some(job)) if !job.makes_file_systems => Vec::new(),
            // Their ids are given when they are made.
            (Scope::FileSystem, _) => vec![
                format!("arn:{p}:fsx:{r}:{a}:file-system/*"),
                format!("arn:{p}:fsx:{r}:{a}:association/*"),
            ],
            (Scope::TrainingJob, Some(job)) if write => {
                vec![format!("arn:{p}:sagemaker:{r}:{a}:training-job/{}", job.runs)]
            }
            // Jobs of others are looked at too: they use up the same quota.
            (Scope::TrainingJob, _) => vec![format!("arn:{p}:sagemaker:{r}:{a}:training-job/*")],
            (Scope::Bucket, Some(job)) => all(&job.buckets, &format!("arn:{p}:s3:::"), ""),
            // The caller looks into the user's buckets, and writes below `trainc/` only.
            (Scope::Bucket, None) => vec![format!("arn:{p}:s3:::*")],
            (Scope::DefaultBucket, Some(job)) => {
                job.made.iter().map(|bucket| format!("arn:{p}:s3:::{bucket}")).collect()
            }
            (Scope::DefaultBucket, None) => vec![format!("arn:{p}:s3:::sagemaker-{r}-{a}")],
            (Scope::Object, Some(job)) => all(&job.uploads, &format!("arn:{p}:s3:::"), "/*"),
            (Scope::Object, None) => vec![format!("arn:{p}:s3:::sagemaker-{r}-{a}/trainc/*")],
            (Scope::LogGroup, _) => vec![
                format!("arn:{p}:logs:{r}:{a}:log-group:/aws/sagemaker/TrainingJobs"),
                format!("arn:{p}:logs:{r}:{a}:log-group:/aws/sagemaker/TrainingJobs:*"),
            ],
            (Scope::Key, Some(job)) => job.keys.iter().cloned().collect(),
            (Scope::Key, None) => vec![format!("arn:{p}:kms:{r}:{a}:key/*")],
            (Scope::Image, Some(job)) => job.image.iter().cloned().collect(),
            (Scope::Image, None) => vec![format!("arn:{p}:ecr:{r}:{a}:repository/*")],
            (Scope::Secret, Some(job)) => job.secrets.iter().cloned().collect(),
            (Scope::Secret, None) => vec![format!("arn:{p}:secretsmanager:{r}:{a}:secret:*")],
        }
    }

    /// The roles that may be passed.
    fn passed_roles(&self) -> String {
        self.job.as_ref().map_or_else(|| self.created_roles(), |job| job.passed.clone())
    }

    /// Returns whether a role is created without a permissions boundary.
    fn creates_any_role(&self) -> bool {
        self.boundary.is_none() && self.job.as_ref().is_none_or(|job| job.role.is_some())
    }

    /// Returns the accounts that must own the buckets of uploads.
    fn bucket_owners(&self) -> Vec<&str> {
        match &self.job {
            Some(job) => job.owners.iter().map(String::as_str).collect(),
            None if self.account == "*" => vec![CALLERS_ACCOUNT],
            None => vec![&self.account],
        }
    }

    /// Keys that encrypt what is uploaded, and through which endpoint of S3.
    fn upload_keys(&self) -> (Vec<String>, String) {
        let Self { partition: p, region: r, account: a, job, .. } = self;
        let keys = match job {
            Some(job) => job.upload_keys.iter().cloned().collect(),
            None => vec![format!("arn:{p}:kms:{r}:{a}:key/*")],
        };
        let end = if p == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
        (keys, format!("s3.{r}.{end}"))
    }
}

/// Everybody who could call, or run a job: roles and users.
fn callers(partition: &str, account: &str) -> [String; 2] {
    ["role", "user"].map(|kind| format!("arn:{partition}:iam::{account}:{kind}/*"))
}

/// The repository of an image of the account's own; where the account is not known, of any that the manifest
/// names.
fn repository(plan: &Plan, partition: &str, account: &str) -> Option<String> {
    let uri = plan.image.as_ref()?.uri.as_str();
    let (host, name) = uri.split_once('/')?;
    let (owner, rest) = host.split_once(".dkr.ecr.")?;
    let named = || plan.job.image.as_ref().is_some_and(|image| !image.uri.is_absent());
    if owner != account && !(account == "*" && named()) {
        return None;
    }
    let name = name.split(['@', ':']).next().unwrap_or(name);
    let region = rest.split('.').next().unwrap_or("*");
    Some(format!("arn:{partition}:ecr:{region}:{owner}:repository/{name}"))
}

/// Returns the statement's Sid. Reads and writes are separate statements, so that read-only users get fewer
/// permissions.
fn sid(Subject { write, scope, guard, bounded }: Subject) -> String {
    let what = match scope {
        Scope::All => "Everywhere",
        Scope::Role if bounded => "BoundedRoles",
        Scope::Role => "Roles",
        Scope::AnyRole => "AnyRole",
        Scope::Judged => "Judged",
        Scope::FileSystem => "FileSystems",
        Scope::TrainingJob => "TrainingJobs",
        Scope::Bucket => "Buckets",
        Scope::DefaultBucket => "DefaultBucket",
        Scope::Object => "Objects",
        Scope::LogGroup => "Logs",
        Scope::Key => "Keys",
        Scope::Image => "Images",
        Scope::Secret => "Secrets",
    };
    let guard = match guard {
        None => "",
        Some(TagCondition::Own) => "Own",
        Some(TagCondition::New) => "New",
        Some(TagCondition::Made) => "Made",
        Some(TagCondition::Left) => "Left",
    };
    format!("{}{guard}{what}", if write { "Change" } else { "See" })
}

/// The tag that everything of a job carries.
const TAG: &str = "trainc:job";

/// The policy variable for the account of the caller.
const CALLERS_ACCOUNT: &str = "${aws:PrincipalAccount}";

/// The condition key of the permissions boundary that a role has, or gets.
const BOUNDARY: &str = "iam:PermissionsBoundary";

/// What a statement is about. Actions with the same subject share a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    write: bool,
    scope: Scope,
    guard: Option<TagCondition>,
    /// Whether the role must have the permissions boundary.
    bounded: bool,
}

impl Subject {
    /// Returns the conditions of the statement, by operator and key.
    fn conditions(self, places: &[PolicyScope]) -> BTreeMap<&'static str, BTreeMap<String, Value>> {
        let mut out: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
        let mut add = |operator, key: String, value| {
            out.entry(operator).or_default().insert(key, value);
        };
        match self.guard {
            Some(TagCondition::Own | TagCondition::Left) => {
                add("Null", format!("aws:ResourceTag/{TAG}"), json!("false"));
            }
            // The tag of a job that is known is no other job's.
            Some(TagCondition::New | TagCondition::Made) => match jobs(places) {
                Some(jobs) => add("StringEquals", format!("aws:RequestTag/{TAG}"), json!(jobs)),
                None => add("Null", format!("aws:RequestTag/{TAG}"), json!("false")),
            },
            None => {}
        }
        match self.guard {
            Some(TagCondition::Made) => {
                add("StringEquals", "sagemaker:TaggingAction".to_owned(), json!("CreateTrainingJob"));
            }
            Some(TagCondition::Left) => {
                add("ForAllValues:StringLike", "aws:TagKeys".to_owned(), json!([format!("{TAG}:*")]));
                // An empty set of keys fulfils the condition above.
                add("Null", "aws:TagKeys".to_owned(), json!("false"));
            }
            Some(TagCondition::Own | TagCondition::New) | None => {}
        }
        if self.bounded {
            let all: BTreeSet<&String> = places.iter().filter_map(|place| place.boundary.as_ref()).collect();
            add("StringEquals", BOUNDARY.to_owned(), json!(all));
        }
        if self.write && self.scope == Scope::Object {
            // The bucket of another account with the same name would receive the program. Reads need no such
            // condition.
            let all: BTreeSet<&str> = places.iter().flat_map(PolicyScope::bucket_owners).collect();
            add("StringEquals", "aws:ResourceAccount".to_owned(), json!(all));
        }
        out
    }
}

/// Returns the names of the jobs, if all are known.
fn jobs(places: &[PolicyScope]) -> Option<BTreeSet<&str>> {
    places.iter().map(|place| place.job.as_ref().map(|job| job.name.as_str())).collect()
}

/// Actions by subject.
type Statements = BTreeMap<Subject, BTreeSet<String>>;

/// Returns true if the holder of the policy can become an administrator: it allows to create roles without a
/// permissions boundary.
pub fn allows_any_role(commands: &[Command], places: &[PolicyScope]) -> bool {
    commands.contains(&Command::Apply) && places.iter().any(PolicyScope::creates_any_role)
}

/// Returns the policy that allows these commands in these places, and nothing else. Roles must have a
/// permissions boundary if all places have one that create roles.
pub fn policy(commands: &[Command], places: &[PolicyScope]) -> Value {
    let is_bounded = !places.iter().any(PolicyScope::creates_any_role)
        && places.iter().any(|place| place.boundary.is_some());
    let mut statements = Statements::new();
    let mut applies = false;
    for call in Call::ALL {
        let row = call.row();
        let releases = || {
            let all = matches!(
                call,
                Call::DeleteFileSystem | Call::DeleteDataRepositoryAssociation | Call::UntagResource
            );
            all && places.iter().any(PolicyScope::deletes_file_systems) && commands.contains(&Command::Apply)
        };
        if !row.commands.iter().any(|command| commands.contains(command)) && !releases() {
            continue;
        }
        let write = row.effect == super::calls::Effect::Write;
        let mut allow = |write, scope, action: &str| {
            let bounded = is_bounded
                && iam_actions::get(action)
                    .is_some_and(|row| row.condition_keys.iter().any(|key| key == BOUNDARY));
            let subject = Subject { write, scope, guard: None, bounded };
            allow(&mut statements, commands, subject, action);
        };
        allow(write, row.scope, &call.action());
        for also in row.also {
            match *also {
                // A role is passed under a condition of its own.
                "iam:PassRole" => applies = true,
                // It knows no resource that could be named.
                "ec2:GetSecurityGroupsForVpc" => {
                    if places.iter().any(PolicyScope::makes_file_systems) {
                        allow(false, Scope::All, also);
                    }
                }
                other => allow(write, row.scope, other),
            }
        }
    }
    let mut out: Vec<Value> = Vec::new();
    for (subject, actions) in statements {
        let resources: BTreeSet<String> =
            places.iter().flat_map(|place| place.resources(subject.scope, subject.write)).collect();
        if !resources.is_empty() {
            let mut one =
                json!({"Sid": sid(subject), "Effect": "Allow", "Action": actions, "Resource": resources});
            let conditions = subject.conditions(places);
            if let (false, Some(members)) = (conditions.is_empty(), one.as_object_mut()) {
                members.insert("Condition".to_owned(), json!(conditions));
            }
            out.push(one);
        }
    }
    if applies {
        out.extend(apply_statements(places));
    }
    json!({"Version": "2012-10-17", "Statement": out})
}

/// Returns the further statements that `apply` needs for SageMaker, S3 and FSx, each with its condition.
fn apply_statements(places: &[PolicyScope]) -> Vec<Value> {
    let passed: BTreeSet<String> = places.iter().map(PolicyScope::passed_roles).collect();
    let mut out = vec![json!({
        "Sid": "PassRoles",
        "Effect": "Allow",
        "Action": ["iam:PassRole"],
        "Resource": passed,
        "Condition": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    })];
    // Whoever uploads under a key of the customer's needs it for that: in parts it is read as well (Amazon S3
    // user guide, "Uploading and copying objects using multipart upload").
    let (keys, through): (Vec<_>, BTreeSet<_>) = places.iter().map(PolicyScope::upload_keys).unzip();
    let keys: BTreeSet<String> = keys.into_iter().flatten().collect();
    if !keys.is_empty() {
        out.push(json!({
            "Sid": "EncryptUploads",
            "Effect": "Allow",
            "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
            "Resource": keys,
            "Condition": {"StringLike": {"kms:ViaService": through}},
        }));
    }
    let makers: BTreeSet<String> = places
        .iter()
        .filter(|place| place.makes_file_systems())
        .map(|PolicyScope { partition: p, account: a, .. }| format!("arn:{p}:iam::{a}:role/aws-service-role"))
        .collect();
    if makers.is_empty() {
        return out;
    }
    // The first file system of an account, and the first link to S3 (FSx for Lustre user guide, "Setting
    // up").
    let of = |services: &[&str]| -> BTreeSet<String> {
        makers
            .iter()
            .flat_map(|role| services.iter().map(move |service| format!("{role}/{service}/*")))
            .collect()
    };
    let link = "s3.data-source.lustre.fsx.amazonaws.com";
    out.push(json!({
        "Sid": "FirstFileSystem",
        "Effect": "Allow",
        "Action": ["iam:CreateServiceLinkedRole"],
        "Resource": of(&["fsx.amazonaws.com", link]),
        "Condition": {"StringLike": {"iam:AWSServiceName": ["fsx.amazonaws.com", link]}},
    }));
    out.push(json!({
        "Sid": "FirstLink",
        "Effect": "Allow",
        "Action": ["iam:AttachRolePolicy", "iam:PutRolePolicy"],
        "Resource": of(&[link]),
    }));
    out
}

fn allow(statements: &mut Statements, commands: &[Command], subject: Subject, action: &str) {
    let mut add = |guard: Option<TagCondition>| {
        statements.entry(Subject { guard, ..subject }).or_default().insert(action.to_owned());
    };
    match Call::guards_of(action) {
        [] => add(None),
        guards => {
            guards.iter().filter(|guard| guard.is_for(commands)).for_each(|guard| add(Some(*guard)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(commands: &[Command]) -> BTreeSet<String> {
        let policy = policy(commands, &[PolicyScope::default()]);
        let statements = policy["Statement"].as_array().unwrap().clone();
        let sids: BTreeSet<String> = statements.iter().map(|one| one["Sid"].to_string()).collect();
        assert_eq!(sids.len(), statements.len(), "every Sid once");
        let lists = statements.iter().flat_map(|one| one["Action"].as_array().unwrap().clone());
        lists.map(|action| action.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn who_plans_may_change_nothing() {
        let plan = actions(&[Command::Plan]);
        let writes = ["Create", "Put", "Delete", "Update", "Tag", "Pass", "Add", "Stop", "Attach"];
        for action in &plan {
            let verb = action.split(':').nth(1).unwrap();
            assert!(!writes.iter().any(|write| verb.starts_with(write)), "{action}");
        }
        assert!(plan.contains("iam:GetRole"));
    }

    #[test]
    fn who_applies_may_pass_roles_to_sagemaker_only() {
        let apply = actions(&[Command::Apply]);
        for action in ["iam:PassRole", "iam:TagRole", "fsx:TagResource", "sagemaker:AddTags", "s3:PutObject"]
        {
            assert!(apply.contains(action), "{action}");
        }
        assert!(!apply.contains("iam:DeleteRole") && !apply.contains("fsx:DeleteFileSystem"));
    }

    #[test]
    fn what_is_not_tagged_as_a_job_s_is_neither_changed_nor_deleted() {
        let policy = policy(&[Command::Apply, Command::Destroy, Command::Stop], &[PolicyScope::default()]);
        let conditions = |action: &str| -> Vec<String> {
            // The first link of an account writes into FSx's own role, which it names.
            let statements = policy["Statement"].as_array().unwrap().iter();
            let statements = statements.filter(|one| one["Sid"] != "FirstLink");
            let allowing =
                statements.filter(|one| one["Action"].as_array().unwrap().iter().any(|one| one == action));
            allowing.map(|one| one["Condition"].to_string()).collect()
        };
        let own = r#"{"Null":{"aws:ResourceTag/trainc:job":"false"}}"#;
        let new = r#"{"Null":{"aws:RequestTag/trainc:job":"false"}}"#;
        for action in [
            "fsx:UpdateFileSystem",
            "fsx:DeleteFileSystem",
            "fsx:DeleteDataRepositoryAssociation",
            "sagemaker:StopTrainingJob",
            "iam:DeleteRole",
            "iam:PutRolePolicy",
            "iam:UpdateAssumeRolePolicy",
        ] {
            assert_eq!(conditions(action), [own], "{action}");
        }
        for action in ["fsx:CreateFileSystem", "sagemaker:CreateTrainingJob", "iam:CreateRole"] {
            assert_eq!(conditions(action), [new], "{action}");
        }
        for action in ["fsx:TagResource", "iam:TagRole"] {
            assert_eq!(conditions(action), [own, new], "{action}");
        }
        // Only where the service tells that a request creates the job.
        let made = r#"{"Null":{"aws:RequestTag/trainc:job":"false"},"StringEquals":{"sagemaker:TaggingAction":"CreateTrainingJob"}}"#;
        assert_eq!(conditions("sagemaker:AddTags"), [own, made]);
        // No tag is removed but that of a job that leaves what it shared.
        let left = r#"{"ForAllValues:StringLike":{"aws:TagKeys":["trainc:job:*"]},"Null":{"aws:ResourceTag/trainc:job":"false","aws:TagKeys":"false"}}"#;
        assert_eq!(conditions("fsx:UntagResource"), [left]);
        let pass = policy["Statement"].as_array().unwrap().iter().find(|one| one["Sid"] == "PassRoles");
        assert_eq!(pass.unwrap()["Resource"], json!(["arn:aws:iam::*:role/trainc/*"]));
    }

    #[test]
    fn nothing_is_tagged_as_another_job_s_where_the_jobs_are_known() {
        let named = |name: &str| PolicyScope {
            job: Some(JobResources {
                name: name.to_owned(),
                makes_file_systems: true,
                ..JobResources::default()
            }),
            ..PolicyScope::default()
        };
        let policy = policy(&[Command::Apply], &[named("one"), named("two")]);
        let statements = policy["Statement"].as_array().unwrap();
        let new = statements.iter().filter(|one| one["Condition"].to_string().contains("aws:RequestTag"));
        let conditions: Vec<&Value> =
            new.map(|one| &one["Condition"]["StringEquals"]["aws:RequestTag/trainc:job"]).collect();
        assert!(!conditions.is_empty() && conditions.iter().all(|one| **one == json!(["one", "two"])));
    }

    /// Action and resource of every statement, and under which tag.
    fn allowed(commands: &[Command], place: PolicyScope) -> Vec<(String, Vec<String>, String)> {
        let policy = policy(commands, &[place]);
        let list = |value: &Value| -> Vec<String> {
            value.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
        };
        let statements = policy["Statement"].as_array().unwrap().iter();
        statements
            .flat_map(|one| {
                list(&one["Action"])
                    .into_iter()
                    .map(|action| (action, list(&one["Resource"]), one["Condition"].to_string()))
            })
            .collect()
    }

    #[test]
    fn the_only_bucket_that_may_be_made_is_the_default_one() {
        let of = |place: PolicyScope| -> Vec<Vec<String>> {
            let all = allowed(&[Command::Apply], place).into_iter();
            all.filter(|one| one.0 == "s3:CreateBucket").map(|one| one.1).collect()
        };
        assert_eq!(of(PolicyScope::default()), [["arn:aws:s3:::sagemaker-*-*"]]);
        let here = PolicyScope {
            region: "us-west-2".to_owned(),
            account: "111122223333".to_owned(),
            ..PolicyScope::default()
        };
        assert_eq!(of(here.clone()), [["arn:aws:s3:::sagemaker-us-west-2-111122223333"]]);
        let buckets = ["corpus", "runs", "sagemaker-us-west-2-111122223333"].map(str::to_owned).into();
        let named = JobResources { buckets, ..JobResources::default() };
        let job = |made: Option<&str>| PolicyScope {
            job: Some(JobResources { made: made.map(str::to_owned), ..named.clone() }),
            ..here.clone()
        };
        let default = "sagemaker-us-west-2-111122223333";
        assert_eq!(of(job(Some(default))), [[format!("arn:aws:s3:::{default}")]]);
        assert!(of(job(None)).is_empty(), "all of it is uploaded elsewhere");
    }

    #[test]
    fn who_takes_away_gives_no_tag_to_what_has_none() {
        let tags = |commands: &[Command]| -> Vec<String> {
            let all = allowed(commands, PolicyScope::default()).into_iter();
            all.filter(|one| one.0 == "fsx:TagResource").map(|one| one.2).collect()
        };
        let own = r#"{"Null":{"aws:ResourceTag/trainc:job":"false"}}"#;
        let new = r#"{"Null":{"aws:RequestTag/trainc:job":"false"}}"#;
        assert_eq!(tags(&[Command::Destroy]), [own]);
        assert_eq!(tags(&[Command::Apply]), [own, new]);
        for (_, _, condition) in
            allowed(&[Command::Stop, Command::Destroy, Command::Watch], PolicyScope::default())
        {
            assert_ne!(condition, new);
        }
    }

    const EDGE: &str = "arn:aws:iam::111122223333:policy/team/edge";

    #[test]
    fn a_boundary_restricts_who_may_be_created_and_passed() {
        let policy = policy(&[Command::Apply], &[PolicyScope::for_boundary(EDGE)]);
        let role = "arn:aws:iam::111122223333:role/trainc/team~edge/*";
        let statements = policy["Statement"].as_array().unwrap();
        for (action, is_bounded) in [
            ("iam:CreateRole", true),
            ("iam:PutRolePolicy", true),
            ("iam:UpdateAssumeRolePolicy", false),
            ("iam:PassRole", false),
            ("iam:TagRole", false),
        ] {
            let all = statements.iter().filter(|one| one["Sid"] != "FirstLink");
            let all: Vec<_> =
                all.filter(|one| one["Action"].as_array().unwrap().contains(&json!(action))).collect();
            assert!(!all.is_empty(), "{action}");
            for one in all {
                assert_eq!(one["Resource"], json!([role]), "{action}");
                let condition = &one["Condition"]["StringEquals"]["iam:PermissionsBoundary"];
                assert_eq!(*condition, if is_bounded { json!([EDGE]) } else { Value::Null }, "{action}");
            }
        }
        let text = policy.to_string();
        assert!(!text.contains("RolePermissionsBoundary") && !text.contains("PolicyVersion"));
    }

    #[test]
    fn only_a_policy_without_a_boundary_makes_an_administrator() {
        let free = PolicyScope::default();
        let bounded = PolicyScope::for_boundary(EDGE);
        assert!(allows_any_role(&[Command::Apply], std::slice::from_ref(&free)));
        assert!(!allows_any_role(&[Command::Plan, Command::Destroy], &[free]));
        assert!(!allows_any_role(&[Command::Apply], &[bounded]));
        let named = PolicyScope { job: Some(JobResources::default()), ..PolicyScope::default() };
        assert!(!allows_any_role(&[Command::Apply], &[named]), "it creates no role");
    }

    #[test]
    fn writes_go_to_buckets_of_the_account() {
        let of = |place: PolicyScope, action: &str| -> Vec<String> {
            let all = allowed(&[Command::Apply, Command::Destroy], place).into_iter();
            all.filter(|one| one.0 == action).map(|one| one.2).collect()
        };
        let account = |value: &str| format!(r#"{{"StringEquals":{{"aws:ResourceAccount":["{value}"]}}}}"#);
        for action in ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"] {
            assert_eq!(of(PolicyScope::default(), action), [account("${aws:PrincipalAccount}")]);
            assert_eq!(of(PolicyScope::for_boundary(EDGE), action), [account("111122223333")]);
        }
        assert_eq!(of(PolicyScope::default(), "s3:GetObject"), ["null"], "public data is read");
    }

    #[test]
    fn policies_are_simulated_only_for_whom_a_job_asks() {
        let of = |judged: &[&str]| -> usize {
            let judged = judged.iter().map(|one| (*one).to_owned()).collect();
            let place = PolicyScope {
                job: Some(JobResources { judged, ..JobResources::default() }),
                ..PolicyScope::default()
            };
            let all = allowed(&[Command::Plan], place).into_iter();
            all.filter(|one| one.0 == "iam:SimulatePrincipalPolicy").map(|one| one.1.len()).sum()
        };
        assert_eq!((of(&[]), of(&["arn:aws:iam::111122223333:role/mine"])), (0, 1));
    }
}
