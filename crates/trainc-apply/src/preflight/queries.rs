//! Queries for the resources to which a manifest refers.

use super::delete_permission;
use super::facts::{Data, Facts, Lookup};
use super::network::Way;
use super::requirements::subnets_of;
use crate::account::{
    Bucket, Caller, Endpoint, FileSystem, Key, Object, Question, Role, RouteTable, Subnet, TrainingJob,
};
use crate::cloud::{Answer, Clock, Observe};
use crate::desired::{Desired, split_uri};
use crate::fault::{Class, Fault};
use crate::look::Look;
use futures_util::future::join_all;
use futures_util::join;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::source::Span;
use trainc_ir::{Address, Plan, Val};

/// Maximum number of simulations of the role's policies.
const MOST_SIMULATIONS: usize = 4;

/// Number of objects listed per channel: consoles mark folders by empty objects, which precede the data.
const FIRST_OBJECTS: usize = 20;

/// Removes objects that only mark a folder: empty ones whose key ends with `/`. If the page contains only
/// such markers and more objects may follow, they are kept.
fn skip_folder_markers(objects: Vec<Object>) -> Vec<Object> {
    let all = objects.len();
    let held: Vec<Object> =
        objects.iter().filter(|one| one.bytes > 0 || !one.key.ends_with('/')).cloned().collect();
    if held.is_empty() && all >= FIRST_OBJECTS { objects } else { held }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Reads the subnets; if requested, also the route tables of their VPC; and if a subnet has no route to
    /// the outside, the S3 endpoints. Facts in `begun` are not read again.
    pub(super) async fn network(
        &self,
        plan: &Plan,
        begun: &Facts,
        wanted: bool,
        starting: bool,
    ) -> (Lookup<Vec<Subnet>>, Lookup<Vec<RouteTable>>, Lookup<Vec<Endpoint>>) {
        let ids = subnets_of(plan);
        if !wanted || ids.is_empty() {
            return (begun.subnets.clone(), begun.routes.clone(), begun.endpoints.clone());
        }
        let subnets = match begun.subnets.clone() {
            Some(subnets) => subnets,
            None => self.ask(async |cloud| cloud.subnets(&ids).await).await,
        };
        let first = subnets.as_ref().ok().and_then(|found| found.first()).map(|one| one.vpc.clone());
        let Some(vpc) = first.filter(|_| starting) else { return (Some(subnets), None, None) };
        let routes = self.ask(async |cloud| cloud.route_tables(&vpc).await).await;
        let shut = |found: &Vec<Subnet>, tables: &Vec<RouteTable>| {
            found.iter().any(|subnet| super::network::way_out(subnet, tables) != Way::Out)
        };
        let region = plan.job.region.value().map_or("", String::as_str);
        let service = format!("com.amazonaws.{region}.s3");
        let wanted = matches!((&subnets, &routes), (Ok(found), Ok(tables)) if shut(found, tables));
        let endpoints =
            ask_if(wanted, self.ask(async |cloud| cloud.vpc_endpoints(&vpc, &service).await)).await;
        (Some(subnets), Some(routes), endpoints)
    }

    /// Reads the buckets that the job does not read from; those of inputs are checked by listing their
    /// objects.
    pub(super) async fn buckets(
        &self,
        places: &[(String, Span)],
        inputs: &[Data],
        desired: &Desired,
        known: &BTreeMap<String, (Span, Lookup<Bucket>)>,
    ) -> BTreeMap<String, (Span, Lookup<Bucket>)> {
        let read: BTreeSet<&str> = inputs.iter().filter_map(|data| Some(split_uri(&data.uri)?.0)).collect();
        let mut buckets: BTreeMap<String, Span> = BTreeMap::new();
        for (uri, span) in places {
            if let Some((bucket, _)) = split_uri(uri) {
                buckets.entry(bucket.to_owned()).or_insert(*span);
            }
        }
        // The bucket that trainc creates is read with the plan's resources.
        buckets
            .retain(|bucket, _| Some(bucket) != desired.bucket.as_ref() && !read.contains(bucket.as_str()));
        let asked = buckets.into_iter().map(async |(bucket, span)| {
            let seen = match known.get(&bucket) {
                Some((_, Some(seen))) => seen.clone(),
                _ => self.bucket_with_owner(&bucket, desired.bucket_owner(&bucket)).await,
            };
            (bucket, (span, Some(seen)))
        });
        join_all(asked).await.into_iter().collect()
    }

    /// Lists the first objects of each input, and derives the state of its bucket from the result.
    pub(super) async fn data(
        &self,
        inputs: &[Data],
        desired: &Desired,
    ) -> (Vec<Data>, BTreeMap<String, Answer<Bucket>>) {
        let asked = inputs.iter().map(async |data| {
            let mut data = data.clone();
            let place = split_uri(&data.uri).map(|(bucket, prefix)| (bucket.to_owned(), prefix.to_owned()));
            let (bucket, prefix) = place?;
            let owner = desired.bucket_owner(&bucket);
            let (found, foreign) = self.first_objects(&bucket, &prefix, owner).await;
            let told = match &found {
                Ok(_) => Ok(Bucket { name: bucket.clone(), foreign, ..Bucket::default() }),
                Err(Fault { class: Class::OtherRegion, region, .. }) => Ok(Bucket {
                    name: bucket.clone(),
                    region: region.as_deref().map(str::to_owned),
                    moved: true,
                    foreign,
                }),
                Err(fault) => Err(fault.clone()),
            };
            data.seen = Some(found.map(skip_folder_markers));
            Some((data, bucket, told))
        });
        let (mut out, mut buckets) = (Vec::new(), BTreeMap::new());
        for (data, bucket, told) in join_all(asked).await.into_iter().flatten() {
            out.push(data);
            buckets.entry(bucket).or_insert(told);
        }
        (out, buckets)
    }

    /// Lists the first objects of a location; returns them and whether the bucket belongs to another account
    /// than the expected one. S3 returns the same error for a missing permission and for a wrong expected
    /// owner, so a denied request is repeated without the owner.
    async fn first_objects(&self, bucket: &str, prefix: &str, owner: &str) -> (Answer<Vec<Object>>, bool) {
        let ask = async |owner: Option<&str>| {
            self.ask(async |cloud| cloud.objects(bucket, prefix, FIRST_OBJECTS, owner).await).await
        };
        match ask(Some(owner)).await {
            Err(Fault { class: Class::Denied, .. }) => {
                let found = ask(None).await;
                let is_seen = !matches!(&found, Err(Fault { class: Class::Denied, .. }));
                (found, is_seen)
            }
            found => (found, false),
        }
    }

    pub(super) async fn keys(&self, plan: &Plan) -> Vec<(Val<Address>, Lookup<Key>)> {
        let job = &plan.job;
        let mut keys: Vec<Val<Address>> = Vec::new();
        keys.extend(job.output.as_ref().and_then(|output| output.kms.val().cloned()));
        keys.extend(job.cluster.as_ref().and_then(|cluster| cluster.volume_kms.val().cloned()));
        keys.extend(job.storage.iter().filter_map(|storage| storage.kms.val().cloned()));
        let mut known = BTreeSet::new();
        keys.retain(|key| known.insert(key.value.to_string()));
        let asked = keys.into_iter().map(async |key| {
            let seen = self.ask(async |cloud| cloud.kms_key(&key.value).await).await;
            (key, Some(seen))
        });
        join_all(asked).await
    }

    pub(super) async fn own_role(&self, plan: &Plan) -> (Lookup<Role>, Lookup<Vec<(Question, bool)>>) {
        let Some(arn) = plan.job.role.as_ref().and_then(|role| role.arn.text()) else { return (None, None) };
        let name = arn.rsplit('/').next().unwrap_or(arn);
        let (role, permissions) =
            join!(self.ask(async |cloud| cloud.role(name).await), self.simulations(plan, arn),);
        (Some(role), Some(permissions))
    }

    /// Checks the caller's permissions to delete file systems with `delete-after-job`.
    pub(super) async fn delete_permissions(
        &self,
        desired: &Desired,
        caller: &Caller,
    ) -> Lookup<Vec<(Question, bool)>> {
        let questions = delete_permission::questions(desired, caller);
        let principal = delete_permission::principal(caller).filter(|_| !questions.is_empty())?;
        let simulate = async |arn: &str| self.ask(async |cloud| cloud.simulate(arn, &questions).await).await;
        let answers = match simulate(&principal).await {
            // The ARN of a role with a path requires reading the role.
            Err(fault) if fault.class == Class::NotFound => {
                let name = principal.rsplit('/').next().unwrap_or_default();
                match self.ask(async |cloud| cloud.role(name).await).await {
                    Ok(role) => simulate(&role.arn).await,
                    Err(fault) => Err(fault),
                }
            }
            other => other,
        };
        Some(answers.map(|answers| questions.into_iter().zip(answers).collect()))
    }

    async fn simulations(&self, plan: &Plan, arn: &str) -> Answer<Vec<(Question, bool)>> {
        let groups = super::role_permissions::questions(plan).into_iter().take(MOST_SIMULATIONS);
        let asked = groups.map(async |group| {
            let answers = self.ask(async |cloud| cloud.simulate(arn, &group).await).await?;
            Ok(group.into_iter().zip(answers).collect::<Vec<_>>())
        });
        Ok(join_all(asked).await.into_iter().collect::<Answer<Vec<_>>>()?.concat())
    }

    pub(super) async fn image(&self, plan: &Plan) -> Answer<()> {
        let uri = plan.image.as_ref().map(|image| image.uri.clone()).unwrap_or_default();
        self.ask(async |cloud| cloud.check_image(&uri).await).await
    }

    pub(super) async fn secrets(&self, plan: &Plan) -> Vec<(Val<Address>, Lookup<()>)> {
        let secrets = plan.job.program.as_ref().map(|program| program.secrets.as_slice()).unwrap_or_default();
        let asked = secrets.iter().filter_map(|secret| secret.from.val().cloned()).map(async |from| {
            let seen = self.ask(async |cloud| cloud.check_secret(&from.value).await).await;
            (from, Some(seen))
        });
        join_all(asked).await
    }

    pub(super) async fn given_file_systems(&self, plan: &Plan) -> Vec<(Val<String>, Lookup<FileSystem>)> {
        let lustre =
            |storage: &&trainc_ir::Storage| storage.kind.value().is_some_and(|kind| kind == "lustre");
        let given = plan.job.storage.iter().filter(lustre).filter_map(|storage| storage.id.val().cloned());
        let asked = given.map(async |id| {
            let seen = self.ask(async |cloud| cloud.file_system(&id.value).await).await;
            (id, Some(seen))
        });
        join_all(asked).await
    }
}

pub(super) async fn ask_if<T>(wanted: bool, asked: impl Future<Output = Answer<T>>) -> Lookup<T> {
    if wanted { Some(asked.await) } else { None }
}

/// Returns true if a job has run on instances of a type in these subnets.
pub(super) fn ran_in(job: &TrainingJob, kind: &str, subnets: &[String]) -> bool {
    let there = job.request.pointer("/VpcConfig/Subnets").and_then(Value::as_array);
    let there = there.is_some_and(|there| subnets.iter().all(|one| there.iter().any(|other| other == one)));
    there && job.started.is_some() && job.instance_type() == Some(kind)
}

/// Returns true if the image is in a registry of the account; AWS's registries cannot be queried.
pub(super) fn is_own_image(plan: &Plan, desired: &Desired) -> bool {
    plan.image.as_ref().is_some_and(|image| image.uri.starts_with(&desired.account))
}
