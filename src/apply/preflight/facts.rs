//! Looking at what a manifest names: everything at once, since nothing depends on anything else.

use super::needs::{inputs, places, wanted};
use super::network::Way;
use super::release;
use crate::apply::account::{
    Bucket, Caller, Endpoint, FileSystem, Key, Object, Question, Role, RouteTable, SecurityGroup, Subnet,
};
use crate::apply::cloud::{Answer, Clock, Observe};
use crate::apply::desired::{Desired, split_uri};
use crate::apply::fault::Class;
use crate::apply::observed::Look;
use crate::apply::patience::absent;
use crate::catalog::quotas::Quota;
use crate::ir::{Plan, Val};
use crate::source::Span;
use futures_util::future::{OptionFuture, join_all, join3};
use futures_util::join;
use std::collections::{BTreeMap, BTreeSet};

/// What was asked for and answered; `None` where there was nothing to ask.
pub type Seen<T> = Option<Answer<T>>;

/// A limit of the account, and what the job asks of it.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Which quota.
    pub quota: Quota,
    /// What the job needs, in the quota's unit.
    pub wanted: f64,
    /// Whether what runs already counts against it.
    pub is_shared: bool,
    /// The account's figure.
    pub seen: Seen<f64>,
    /// The place of blame.
    pub span: Span,
}

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

/// What runs now beside the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Instances of the job's type, of the running jobs that were looked at.
    pub instances: u64,
    /// Whether these are all that run: else there may be more.
    pub is_all: bool,
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

/// The most running jobs whose size is asked for, the newest first: each costs a call, and a plan in an account where
/// everybody works must cost no more than in one's own.
const MOST_RUNNING: usize = 2;
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
    /// Looks at everything that the plan names. `starting` is false where the job is there already: then nothing is
    /// asked about room.
    pub async fn facts(&self, plan: &Plan, desired: &Desired, caller: &Caller, starting: bool) -> Facts {
        let plan = &plan.clone().in_account(&desired.account);
        let network = plan.job.network.as_ref();
        let ids = |list: Option<&Vec<Val<String>>>| -> Vec<String> {
            list.into_iter().flatten().map(|val| val.value.clone()).collect()
        };
        let subnets = ids(network.map(|network| &network.subnets));
        let groups = ids(network.map(|network| &network.security_groups));
        let kind = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value());
        let kind = kind.filter(|_| !subnets.is_empty() && starting);
        let zones: OptionFuture<_> = kind
            .map(|kind| async move {
                let kind = kind.strip_prefix("ml.").unwrap_or(kind);
                self.ask(async |cloud| cloud.zones(kind).await).await
            })
            .into();
        let (network, groups, zones, room, buckets, data, keys, own, image, rest) = join!(
            self.network(plan, &subnets, starting),
            some(!groups.is_empty(), self.ask(async |cloud| cloud.security_groups(&groups).await)),
            zones,
            self.room(plan, desired, starting),
            self.buckets(plan, desired),
            self.data(plan, starting),
            self.keys(plan),
            self.own_role(plan),
            some(starting && is_own_image(plan, desired), self.image(plan)),
            join3(self.secrets(plan), self.given_file_systems(plan), self.release(desired, caller)),
        );
        let (subnets, routes, endpoints) = network;
        let (limits, running) = room;
        let (role, permissions) = own;
        let (secrets, file_systems, release) = rest;
        Facts {
            account: desired.account.clone(),
            subnets,
            routes,
            endpoints,
            groups,
            zones,
            limits,
            waits: self.patience.capacity.is_some(),
            running,
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

    /// The limits; then what runs now, where that may decide: not where the job is more than one of them by itself.
    async fn room(&self, plan: &Plan, desired: &Desired, starting: bool) -> (Vec<Limit>, Seen<Running>) {
        let limits = self.limits(plan, desired, starting).await;
        let mut shared = limits.iter().filter(|limit| limit.is_shared).peekable();
        let wanted = shared.peek().is_some()
            && shared.all(|limit| !matches!(limit.seen, Some(Ok(has)) if limit.wanted > has));
        let running = some(wanted, self.running_beside(plan)).await;
        (limits, running)
    }

    async fn limits(&self, plan: &Plan, desired: &Desired, starting: bool) -> Vec<Limit> {
        if !starting {
            return Vec::new();
        }
        let asked = wanted(plan, desired).into_iter().map(async |mut limit| {
            if let Some(code) = limit.quota.code.clone() {
                limit.seen = Some(self.limit(&limit, &code).await);
            }
            limit
        });
        join_all(asked).await
    }

    /// The limit that is in force. One that was never changed has the value of a new account: where the job fits into
    /// the catalogue's figure of that, nobody is asked once more. Where it does not, the service has the last word: a
    /// figure that has aged must not refuse a job.
    async fn limit(&self, limit: &Limit, code: &str) -> Answer<f64> {
        let service = limit.quota.service.as_str();
        let own = absent(self.ask(async |cloud| cloud.quota(service, code).await).await)?;
        if let Some(own) = own {
            return Ok(own);
        }
        let known = limit.quota.default.map(|value| value as f64);
        match known.filter(|value| limit.wanted <= *value && !limit.is_shared) {
            Some(value) => Ok(value),
            None => self.ask(async |cloud| cloud.default_quota(service, code).await).await,
        }
    }

    /// Instances of the plan's type that run now.
    async fn running_beside(&self, plan: &Plan) -> Answer<Running> {
        let kind = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value()).cloned();
        let spot = is_spot(plan);
        let running = self.ask(async |cloud| cloud.running_jobs(false).await).await?;
        let jobs = running
            .iter()
            .take(MOST_RUNNING)
            .map(async |one| self.ask(async |cloud| cloud.training_job(&one.name).await).await);
        let jobs: Vec<_> = join_all(jobs).await;
        let same = jobs.into_iter().flatten().filter(|job| {
            job.instance_type().map(str::to_owned) == kind && job.is_spot() == spot && !job.is_over()
        });
        Ok(Running {
            instances: same.map(|job| job.instances()).sum(),
            is_all: running.len() <= MOST_RUNNING,
        })
    }

    async fn buckets(&self, plan: &Plan, desired: &Desired) -> BTreeMap<String, (Span, Seen<Bucket>)> {
        let named = places(plan);
        let mut buckets: BTreeMap<String, Span> = BTreeMap::new();
        for (uri, span) in &named {
            if let Some((bucket, _)) = split_uri(uri) {
                buckets.entry(bucket.to_owned()).or_insert(*span);
            }
        }
        // The one that trainc makes is looked at as a resource.
        buckets.retain(|bucket, _| Some(bucket) != desired.bucket.as_ref());
        let asked = buckets.into_iter().map(async |(bucket, span)| {
            let seen = self.owned(&bucket, &desired.account).await;
            (bucket, (span, Some(seen)))
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn data(&self, plan: &Plan, starting: bool) -> Vec<Data> {
        if !starting {
            return Vec::new();
        }
        let asked = inputs(plan).into_iter().map(async |mut data| {
            if let Some((bucket, prefix)) = split_uri(&data.uri) {
                let found = self.ask(async |cloud| cloud.objects(bucket, prefix, FIRST_OBJECTS).await).await;
                data.seen = Some(found.map(with_content));
            }
            data
        });
        join_all(asked).await
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

/// Whether the image lies in a registry of the account: AWS's own cannot be asked.
fn is_own_image(plan: &Plan, desired: &Desired) -> bool {
    plan.image.as_ref().is_some_and(|image| image.uri.starts_with(&desired.account))
}

pub(super) fn is_spot(plan: &Plan) -> bool {
    plan.job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_some())
}
