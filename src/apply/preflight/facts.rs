//! Looking at what a manifest names: everything at once, since nothing depends on anything else.

use super::needs::{inputs, linked, places};
use super::network::Way;
use super::quota::Together;
use super::release;
use super::room::{Limit, Running};
use crate::apply::account::{
    Bucket, Caller, Endpoint, FileSystem, Key, Object, Question, Role, RouteTable, SecurityGroup, Subnet,
    TrainingJob,
};
use crate::apply::cloud::{Answer, Clock, Observe};
use crate::apply::desired::{Desired, split_uri};
use crate::apply::fault::{Class, Fault};
use crate::apply::observed::Look;
use crate::apply::prospect::Prospect;
use crate::ir::{Plan, Val};
use crate::source::Span;
use futures_util::future::{OptionFuture, join_all, join3};
use futures_util::join;
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// What was asked for and answered; `None` where there was nothing to ask.
pub type Seen<T> = Option<Answer<T>>;

/// An address of S3 that the job reads, and whether anything lies there.
#[derive(Clone, Debug)]
pub struct Data {
    /// The channel, or the path of a link.
    pub name: String,
    /// `s3://bucket/prefix`.
    pub uri: String,
    /// The first objects.
    pub seen: Seen<Vec<Object>>,
    /// The place of blame.
    pub span: Span,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The account that was looked at.
    pub account: String,
    /// The job's subnets.
    pub subnets: Seen<Vec<Subnet>>,
    /// Route tables of the network.
    pub routes: Seen<Vec<RouteTable>>,
    /// Endpoints of S3 in the network, asked for where no route leads out.
    pub endpoints: Seen<Vec<Endpoint>>,
    /// The job's security groups.
    pub groups: Seen<Vec<SecurityGroup>>,
    /// Ids of the zones that offer the instance type.
    pub zones: Seen<Vec<String>>,
    /// Limits.
    pub limits: Vec<Limit>,
    /// Whether the figures of a new account, where limits have them, hold in this one; none where nobody had to ask.
    pub holds: Option<bool>,
    /// Whether the user waits where there is no room at the moment.
    pub waits: bool,
    /// What runs now on instances of this type, by other jobs; not asked where the job does not fit even alone.
    pub running: Seen<Running>,
    /// Buckets by name, with their first place.
    pub buckets: BTreeMap<String, (Span, Seen<Bucket>)>,
    /// Inputs.
    pub data: Vec<Data>,
    /// Keys, with their places.
    pub keys: Vec<(Val<String>, Seen<Key>)>,
    /// A role of one's own.
    pub role: Seen<Role>,
    /// What the role may do.
    pub permissions: Seen<Vec<(Question, bool)>>,
    /// What the caller may delete once the job is over.
    pub release: Seen<Vec<(Question, bool)>>,
    /// The image.
    pub image: Seen<()>,
    /// Secrets.
    pub secrets: Vec<(Val<String>, Seen<()>)>,
    /// File systems that exist already, by the place of their id.
    pub file_systems: Vec<(Val<String>, Seen<FileSystem>)>,
}

impl Facts {
    /// Instances of the job's type that other jobs run on now, as far as they were seen.
    pub(super) fn running_instances(&self) -> f64 {
        let seen = self.running.as_ref().and_then(|seen| seen.as_ref().ok());
        seen.map_or(0.0, |running| running.instances as f64)
    }
}

/// The most simulations of the role's policies.
const MOST_SIMULATIONS: usize = 4;

/// Objects of a channel that are looked at: consoles mark folders by empty objects, and data come behind those.
const FIRST_OBJECTS: usize = 20;

/// Objects that hold something: an empty one whose key ends with `/` only marks a folder. Where nothing but such markers
/// was listed and more may follow, what there is counts.
fn with_content(objects: Vec<Object>) -> Vec<Object> {
    let all = objects.len();
    let held: Vec<Object> =
        objects.iter().filter(|one| one.bytes > 0 || !one.key.ends_with('/')).cloned().collect();
    if held.is_empty() && all >= FIRST_OBJECTS { objects } else { held }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Looks at everything that the plan names and the prospect has not seen yet. `starting` is false where the job is there
    /// already: then nothing is asked about room.
    pub async fn facts(&self, plan: &Plan, prospect: &Prospect, starting: bool) -> Facts {
        let asked = Cell::new(prospect.calls);
        let look = Look { asked: Some(&asked), ..*self };
        let mut facts = look.seen(plan, prospect, starting).await;
        let holds = look.confirm_defaults(&mut facts.limits, |_| 0.0, None).await;
        facts.holds = holds;
        facts.running = look.running_now(plan, prospect, &facts.limits, holds.is_some()).await;
        if let Some(Ok(running)) = &facts.running {
            let taken = running.instances as f64;
            facts.holds = look.confirm_defaults(&mut facts.limits, |_| taken, holds).await;
        }
        facts
    }

    /// Looks once more at the limits of a job that has others beside it in the same command: what a new account has must
    /// not refuse it unasked.
    pub async fn room_beside(&self, facts: &mut Facts, plan: &Plan, together: &Together) {
        let known = facts.holds;
        let running = facts.running_instances();
        let taken = |limit: &Limit| running + together.before(plan, limit);
        facts.holds = self.confirm_defaults(&mut facts.limits, taken, known).await;
    }

    /// All that depends on nothing else.
    async fn seen(&self, plan: &Plan, prospect: &Prospect, starting: bool) -> Facts {
        let (desired, caller) = (&prospect.desired, &prospect.caller);
        let plan = &plan.clone().in_account(&desired.account);
        let linked = linked(prospect);
        let inputs = if starting { inputs(plan) } else { Vec::new() };
        let inputs: Vec<Data> =
            inputs.into_iter().filter(|data| !linked.contains(data.uri.trim_end_matches('/'))).collect();
        let mut places = places(plan);
        places.retain(|(uri, _)| !linked.contains(uri.trim_end_matches('/')));
        let network = plan.job.network.as_ref();
        let ids = |list: Option<&Vec<Val<String>>>| -> Vec<String> {
            list.into_iter().flatten().map(|val| val.value.clone()).collect()
        };
        let subnets = ids(network.map(|network| &network.subnets));
        let groups = ids(network.map(|network| &network.security_groups));
        let kind = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value());
        // Where an older run of the job is or was on the same machines, its zones offer them.
        let ran_there =
            |kind: &String| prospect.observed.runs.described.iter().any(|job| ran_in(job, kind, &subnets));
        let kind = kind.filter(|kind| !subnets.is_empty() && starting && !ran_there(kind));
        let zones: OptionFuture<_> = kind
            .map(|kind| async move {
                let kind = kind.strip_prefix("ml.").unwrap_or(kind);
                self.ask(async |cloud| cloud.zones(kind).await).await
            })
            .into();
        let (network, groups, zones, limits, buckets, data, keys, own, image, rest) = join!(
            self.network(plan, &subnets, starting),
            some(!groups.is_empty(), self.ask(async |cloud| cloud.security_groups(&groups).await)),
            zones,
            self.limits(plan, prospect, starting),
            self.buckets(&places, &inputs, desired),
            self.data(&inputs, desired),
            self.keys(plan),
            self.own_role(plan),
            some(starting && is_own_image(plan, desired), self.image(plan)),
            join3(self.secrets(plan), self.given_file_systems(plan), self.release(desired, caller)),
        );
        let (subnets, routes, endpoints) = network;
        let (role, permissions) = own;
        let (secrets, file_systems, release) = rest;
        let (mut buckets, (data, told)) = (buckets, data);
        // The one that trainc makes may not be there yet.
        for (bucket, seen) in told.into_iter().filter(|(bucket, _)| Some(bucket) != desired.bucket.as_ref()) {
            let span = places.iter().find(|(uri, _)| split_uri(uri).is_some_and(|(of, _)| of == bucket));
            buckets.insert(bucket, (span.map_or(plan.job.span, |(_, span)| *span), Some(seen)));
        }
        Facts {
            account: desired.account.clone(),
            subnets,
            routes,
            endpoints,
            groups,
            zones,
            limits,
            holds: None,
            waits: self.patience.capacity.is_some(),
            running: None,
            buckets,
            data,
            keys,
            role,
            permissions,
            release,
            image,
            secrets,
            file_systems,
        }
    }

    /// The subnets; then the route tables of their network, and where none of these leads out, the endpoints of S3.
    async fn network(
        &self,
        plan: &Plan,
        ids: &[String],
        starting: bool,
    ) -> (Seen<Vec<Subnet>>, Seen<Vec<RouteTable>>, Seen<Vec<Endpoint>>) {
        if ids.is_empty() {
            return (None, None, None);
        }
        let subnets = self.ask(async |cloud| cloud.subnets(ids).await).await;
        let first = subnets.as_ref().ok().and_then(|found| found.first()).map(|one| one.vpc.clone());
        let Some(vpc) = first.filter(|_| starting) else { return (Some(subnets), None, None) };
        let routes = self.ask(async |cloud| cloud.route_tables(&vpc).await).await;
        let shut = |found: &Vec<Subnet>, tables: &Vec<RouteTable>| {
            found.iter().any(|subnet| super::network::way_out(subnet, tables) != Way::Out)
        };
        let region = plan.job.region.value().map_or("", String::as_str);
        let service = format!("com.amazonaws.{region}.s3");
        let wanted = matches!((&subnets, &routes), (Ok(found), Ok(tables)) if shut(found, tables));
        let endpoints = some(wanted, self.ask(async |cloud| cloud.endpoints(&vpc, &service).await)).await;
        (Some(subnets), Some(routes), endpoints)
    }

    /// Buckets in which nothing is read: those of inputs are seen with what lies in them.
    async fn buckets(
        &self,
        places: &[(String, Span)],
        inputs: &[Data],
        desired: &Desired,
    ) -> BTreeMap<String, (Span, Seen<Bucket>)> {
        let read: BTreeSet<&str> = inputs.iter().filter_map(|data| Some(split_uri(&data.uri)?.0)).collect();
        let mut buckets: BTreeMap<String, Span> = BTreeMap::new();
        for (uri, span) in places {
            if let Some((bucket, _)) = split_uri(uri) {
                buckets.entry(bucket.to_owned()).or_insert(*span);
            }
        }
        // The one that trainc makes is looked at as a resource.
        buckets
            .retain(|bucket, _| Some(bucket) != desired.bucket.as_ref() && !read.contains(bucket.as_str()));
        let asked = buckets.into_iter().map(async |(bucket, span)| {
            let seen = self.owned(&bucket, &desired.account).await;
            (bucket, (span, Some(seen)))
        });
        join_all(asked).await.into_iter().collect()
    }

    /// What lies behind each input, and what that tells of its bucket.
    async fn data(
        &self,
        inputs: &[Data],
        desired: &Desired,
    ) -> (Vec<Data>, BTreeMap<String, Answer<Bucket>>) {
        let asked = inputs.iter().map(async |data| {
            let mut data = data.clone();
            let place = split_uri(&data.uri).map(|(bucket, prefix)| (bucket.to_owned(), prefix.to_owned()));
            let (bucket, prefix) = place?;
            let (found, foreign) = self.lying(&bucket, &prefix, &desired.account).await;
            let told = match &found {
                Ok(_) => Ok(Bucket { name: bucket.clone(), foreign, ..Bucket::default() }),
                Err(Fault { class: Class::Elsewhere, region, .. }) => Ok(Bucket {
                    name: bucket.clone(),
                    region: region.as_deref().map(str::to_owned),
                    moved: true,
                    foreign,
                }),
                Err(fault) => Err(fault.clone()),
            };
            data.seen = Some(found.map(with_content));
            Some((data, bucket, told))
        });
        let (mut out, mut buckets) = (Vec::new(), BTreeMap::new());
        for (data, bucket, told) in join_all(asked).await.into_iter().flatten() {
            out.push(data);
            buckets.entry(bucket).or_insert(told);
        }
        (out, buckets)
    }

    /// The first objects of an address, and whether its bucket is somebody else's: who may not look at all is refused as S3
    /// refuses whoever expects another owner, so a refusal is asked about once more.
    async fn lying(&self, bucket: &str, prefix: &str, account: &str) -> (Answer<Vec<Object>>, bool) {
        let ask = async |owner: Option<&str>| {
            self.ask(async |cloud| cloud.objects(bucket, prefix, FIRST_OBJECTS, owner).await).await
        };
        match ask(Some(account)).await {
            Err(Fault { class: Class::Denied, .. }) => {
                let found = ask(None).await;
                let is_seen = !matches!(&found, Err(Fault { class: Class::Denied, .. }));
                (found, is_seen)
            }
            found => (found, false),
        }
    }

    async fn keys(&self, plan: &Plan) -> Vec<(Val<String>, Seen<Key>)> {
        let job = &plan.job;
        let mut keys: Vec<Val<String>> = Vec::new();
        keys.extend(job.output.as_ref().and_then(|output| output.kms.val().cloned()));
        keys.extend(job.cluster.as_ref().and_then(|cluster| cluster.volume_kms.val().cloned()));
        keys.extend(job.storage.iter().filter_map(|storage| storage.kms.val().cloned()));
        let mut known = BTreeSet::new();
        keys.retain(|key| known.insert(key.value.clone()));
        let asked = keys.into_iter().map(async |key| {
            let seen = self.ask(async |cloud| cloud.key(&key.value).await).await;
            (key, Some(seen))
        });
        join_all(asked).await
    }

    async fn own_role(&self, plan: &Plan) -> (Seen<Role>, Seen<Vec<(Question, bool)>>) {
        let Some(arn) = plan.job.role.as_ref().and_then(|role| role.arn.value()) else { return (None, None) };
        let name = arn.rsplit('/').next().unwrap_or(arn);
        let (role, permissions) =
            join!(self.ask(async |cloud| cloud.role(name).await), self.simulations(plan, arn),);
        (Some(role), Some(permissions))
    }

    /// Whether the caller may delete what goes with the job.
    async fn release(&self, desired: &Desired, caller: &Caller) -> Seen<Vec<(Question, bool)>> {
        let questions = release::questions(desired, caller);
        let principal = release::principal(caller).filter(|_| !questions.is_empty())?;
        let simulate = async |arn: &str| self.ask(async |cloud| cloud.simulate(arn, &questions).await).await;
        let answers = match simulate(&principal).await {
            // A role with a path: only itself tells.
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
        let mut out = Vec::new();
        for group in super::questions::questions(plan).into_iter().take(MOST_SIMULATIONS) {
            let answers = self.ask(async |cloud| cloud.simulate(arn, &group).await).await?;
            out.extend(group.into_iter().zip(answers));
        }
        Ok(out)
    }

    async fn image(&self, plan: &Plan) -> Answer<()> {
        let uri = plan.image.as_ref().map(|image| image.uri.clone()).unwrap_or_default();
        self.ask(async |cloud| cloud.image(&uri).await).await
    }

    async fn secrets(&self, plan: &Plan) -> Vec<(Val<String>, Seen<()>)> {
        let secrets = plan.job.program.as_ref().map(|program| program.secrets.as_slice()).unwrap_or_default();
        let asked = secrets.iter().filter_map(|secret| secret.from.val().cloned()).map(async |from| {
            let seen = self.ask(async |cloud| cloud.secret(&from.value).await).await;
            (from, Some(seen))
        });
        join_all(asked).await
    }

    async fn given_file_systems(&self, plan: &Plan) -> Vec<(Val<String>, Seen<FileSystem>)> {
        let lustre =
            |storage: &&crate::ir::Storage| storage.kind.value().is_some_and(|kind| kind == "lustre");
        let given = plan.job.storage.iter().filter(lustre).filter_map(|storage| storage.id.val().cloned());
        let asked = given.map(async |id| {
            let seen = self.ask(async |cloud| cloud.file_system(&id.value).await).await;
            (id, Some(seen))
        });
        join_all(asked).await
    }
}

async fn some<T>(wanted: bool, asked: impl Future<Output = Answer<T>>) -> Seen<T> {
    if wanted { Some(asked.await) } else { None }
}

/// Whether a job got instances of a type in these subnets.
fn ran_in(job: &TrainingJob, kind: &str, subnets: &[String]) -> bool {
    let there = job.request.pointer("/VpcConfig/Subnets").and_then(Value::as_array);
    let there = there.is_some_and(|there| subnets.iter().all(|one| there.iter().any(|other| other == one)));
    there && job.started.is_some() && job.instance_type() == Some(kind)
}

/// Whether the image lies in a registry of the account: AWS's own cannot be asked.
fn is_own_image(plan: &Plan, desired: &Desired) -> bool {
    plan.image.as_ref().is_some_and(|image| image.uri.starts_with(&desired.account))
}
