//! Looking at what a manifest names: everything at once that waits for nothing else.

use super::asks::{is_own_image, ran_in, some};
use super::needs::{View, inputs, linked, links, places};
use super::quota::Together;
use super::room::{Limit, Room, Running};
use crate::account::{
    Bucket, Endpoint, FileSystem, Key, Object, Question, Role, RouteTable, SecurityGroup, Subnet,
};
use crate::cloud::{Answer, Clock, Observe};
use crate::desired::split_uri;
use crate::diff::{Choices, Target};
use crate::observed::Look;
use crate::prospect::{First, Prospect, Survey};
use futures_util::future::OptionFuture;
use futures_util::join;
use std::cell::Cell;
use std::collections::BTreeMap;
use trainc_diag::source::Span;
use trainc_ir::{Plan, Val};

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

/// Which of the questions are asked.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// Those of every plan.
    standing: bool,
    /// Those about room for a job that is to be started.
    room: bool,
    /// Those about its data: whether it is known by now what is linked already.
    data: bool,
    /// Whether the job is to be started, as far as is known.
    starts: bool,
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Looks at an account for a checked plan, and at everything that the plan names: at once where neither waits for the
    /// other. The facts only where the account could be compared with the plan.
    pub async fn survey_with_facts(&self, plan: &Plan, choices: Choices) -> (Survey, Option<Facts>) {
        let subnets = subnets_of(plan);
        let begin = async |look: Look<'_, C, K>, first: First<'_>| {
            let starts = first.starts && first.systems.is_some();
            let systems = first.systems.unwrap_or_default();
            let is_linked = systems.iter().any(|found| !found.systems.is_empty());
            let ask = Ask { standing: true, room: starts, data: starts && !is_linked, starts };
            let view = View {
                caller: first.caller,
                desired: first.desired,
                systems: &systems,
                taken: first.taken,
                described: &[],
            };
            let begun = Facts { subnets: first.subnets, ..Facts::default() };
            (look.seen(plan, view, ask, begun).await, ask)
        };
        let (survey, begun) = self.survey_beside(plan, choices, &subnets, begin).await;
        let (Some(prospect), Some((begun, asked))) = (&survey.prospect, begun) else {
            return (survey, None);
        };
        let starts = matches!(prospect.target, Target::Start(_));
        let facts = if asked.starts && !starts {
            // What was begun for a job that is to be started says nothing of one that is not.
            self.facts(plan, prospect, starts).await
        } else if asked.data {
            begun
        } else {
            let ask = Ask { standing: false, room: starts && !asked.room, data: true, starts };
            self.counted(prospect, async |look| look.seen(plan, prospect.view(), ask, begun).await).await
        };
        (survey, Some(facts))
    }

    /// Looks at everything that the plan names and the prospect has not seen yet. `starting` is false where the job is there
    /// already: then nothing is asked about room.
    pub async fn facts(&self, plan: &Plan, prospect: &Prospect, starting: bool) -> Facts {
        let ask = Ask { standing: true, room: starting, data: true, starts: starting };
        let begun = Facts::default();
        self.counted(prospect, async |look| look.seen(plan, prospect.view(), ask, begun).await).await
    }

    /// With a look that goes on counting where the prospect's ended.
    async fn counted<T>(&self, prospect: &Prospect, work: impl AsyncFnOnce(Look<'_, C, K>) -> T) -> T {
        let asked = Cell::new(prospect.calls);
        work(Look { asked: Some(&asked), ..*self }).await
    }

    /// Looks once more at the limits of a job that has others beside it in the same command: what a new account has must
    /// not refuse it unasked.
    pub async fn room_beside(&self, facts: &mut Facts, plan: &Plan, together: &Together) {
        let known = facts.holds;
        let running = facts.running_instances();
        let taken = |limit: &Limit| running + together.before(plan, limit);
        facts.holds = self.confirm_defaults(&mut facts.limits, taken, known).await;
    }

    /// Asks what is asked for now, beside what was begun.
    async fn seen(&self, plan: &Plan, view: View<'_>, ask: Ask, begun: Facts) -> Facts {
        let desired = view.desired;
        let plan = &plan.clone().in_account(&desired.account);
        // As long as nobody knows what is linked, all that may be is left for later.
        let linked = if ask.data { linked(view) } else { links(plan) };
        let is_open = |uri: &str| !linked.contains(uri.trim_end_matches('/'));
        let mut places = places(plan);
        places.retain(|(uri, _)| is_open(uri));
        let mut inputs: Vec<Data> = if ask.starts || !ask.data { inputs(plan) } else { Vec::new() };
        inputs.retain(|data| !ask.data || is_open(&data.uri));
        let read = if ask.data { inputs.as_slice() } else { &[] };
        // Each input that is left for later may be one call, and one of their buckets refuse the first.
        let later = if ask.data { 0 } else { inputs.len() + 1 };
        let (network, (data, told), mut buckets, standing, room) = join!(
            self.network(plan, &begun, ask.standing || ask.room, ask.room),
            self.data(read, desired),
            self.buckets(&places, &inputs, desired, &begun.buckets),
            OptionFuture::from(ask.standing.then(|| self.standing(plan, view))),
            // Last: what it asks early, it asks only if enough calls are left beside all others.
            OptionFuture::from(ask.room.then(|| self.for_start(plan, view, later))),
        );
        // The one that trainc makes may not be there yet.
        for (bucket, seen) in told.into_iter().filter(|(bucket, _)| Some(bucket) != desired.bucket.as_ref()) {
            let span = places.iter().find(|(uri, _)| split_uri(uri).is_some_and(|(of, _)| of == bucket));
            buckets.insert(bucket, (span.map_or(plan.job.span, |(_, span)| *span), Some(seen)));
        }
        // Where the standing questions are asked, nothing but the network was begun.
        let mut facts = standing.unwrap_or(begun);
        if let Some((zones, image, room)) = room {
            facts = Facts {
                zones,
                image,
                limits: room.limits,
                holds: room.holds,
                running: room.running,
                ..facts
            };
        }
        let (subnets, routes, endpoints) = network;
        let waits = self.patience.capacity.is_some();
        Facts { account: desired.account.clone(), waits, subnets, routes, endpoints, buckets, data, ..facts }
    }

    /// What is asked for every plan, whatever there is of it.
    async fn standing(&self, plan: &Plan, view: View<'_>) -> Facts {
        let groups = plan.job.network.as_ref().map(|network| &network.security_groups);
        let groups: Vec<String> = groups.into_iter().flatten().map(|val| val.value.clone()).collect();
        let (groups, keys, (role, permissions), secrets, file_systems, release) = join!(
            some(!groups.is_empty(), self.ask(async |cloud| cloud.security_groups(&groups).await)),
            self.keys(plan),
            self.own_role(plan),
            self.secrets(plan),
            self.given_file_systems(plan),
            self.release(view.desired, view.caller),
        );
        Facts { groups, keys, role, permissions, release, secrets, file_systems, ..Facts::default() }
    }

    /// What is asked for a job that is to be started: zones that offer its machines, its image, its room.
    async fn for_start(
        &self,
        plan: &Plan,
        view: View<'_>,
        later: usize,
    ) -> (Seen<Vec<String>>, Seen<()>, Room) {
        let subnets = subnets_of(plan);
        let kind = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value());
        // Where an older run of the job is or was on the same machines, its zones offer them.
        let ran_there = |kind: &String| view.described.iter().any(|job| ran_in(job, kind, &subnets));
        let kind = kind.filter(|kind| !subnets.is_empty() && !ran_there(kind));
        let zones = OptionFuture::from(kind.map(|kind| async move {
            let kind = kind.strip_prefix("ml.").unwrap_or(kind);
            self.ask(async |cloud| cloud.zones(kind).await).await
        }));
        let image = some(is_own_image(plan, view.desired), self.image(plan));
        join!(zones, image, self.room(plan, view, later))
    }
}

/// The subnets that the manifest names.
pub(super) fn subnets_of(plan: &Plan) -> Vec<String> {
    let subnets = plan.job.network.as_ref().map(|network| &network.subnets).into_iter().flatten();
    subnets.map(|val| val.value.clone()).collect()
}
