//! Reads the resources to which a manifest refers; independent reads run concurrently.

use super::facts::{Data, Facts, Limit, Lookup};
use super::limits::Room;
use super::queries::{ask_if, is_own_image, ran_in};
use super::quota::Together;
use super::requirements::{View, existing_links, inputs, manifest_links, s3_locations, subnets_of};
use crate::change::{Choices, Target};
use crate::cloud::{Clock, Observe};
use crate::desired::split_uri;
use crate::look::Look;
use crate::prospect::{FirstAnswers, Prospect, Survey};
use futures_util::future::{OptionFuture, join_all};
use futures_util::join;
use std::cell::Cell;
use trainc_ir::{Alternatives, Plan};

/// The groups of queries to make.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// Queries of every plan.
    standing: bool,
    /// Queries about quotas for a job that is to be started.
    room: bool,
    /// Queries about its data; requires that existing links are known.
    data: bool,
    /// True if the job is to be started, as far as known.
    starts: bool,
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Compares an account with a checked plan and reads the resources to which the plan refers, concurrently
    /// where possible. The facts are `None` if the account could not be compared.
    pub async fn survey_with_facts(&self, plan: &Plan, choices: Choices) -> (Survey, Option<Facts>) {
        let subnets = subnets_of(plan);
        let begin = async |look: Look<'_, C, K>, first: FirstAnswers<'_>| {
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
            (look.gather_facts(plan, view, ask, begun).await, ask)
        };
        let (survey, begun) = self.survey_with(plan, choices, &subnets, begin).await;
        let (Some(prospect), Some((begun, asked))) = (&survey.prospect, begun) else {
            return (survey, None);
        };
        let starts = matches!(prospect.target, Target::Start(_));
        let facts = if asked.starts && !starts {
            // Facts for a job to be started do not apply to an existing one.
            self.facts(plan, prospect, starts).await
        } else if asked.data {
            begun
        } else {
            let ask = Ask { standing: false, room: starts && !asked.room, data: true, starts };
            self.with_call_count(prospect, async |look| {
                look.gather_facts(plan, prospect.view(), ask, begun).await
            })
            .await
        };
        (survey, Some(facts))
    }

    /// Reads all resources to which the plan refers and which the prospect does not contain. With `starting`
    /// false, because the job exists, quotas are not read.
    pub async fn facts(&self, plan: &Plan, prospect: &Prospect, starting: bool) -> Facts {
        let ask = Ask { standing: true, room: starting, data: true, starts: starting };
        let begun = Facts::default();
        self.with_call_count(prospect, async |look| {
            look.gather_facts(plan, prospect.view(), ask, begun).await
        })
        .await
    }

    /// Runs `work` with a call counter that continues from the prospect's.
    async fn with_call_count<T>(
        &self,
        prospect: &Prospect,
        work: impl AsyncFnOnce(Look<'_, C, K>) -> T,
    ) -> T {
        let asked = Cell::new(prospect.calls);
        work(Look { asked: Some(&asked), ..*self }).await
    }

    /// Checks the quotas of a job again together with the other jobs of the same command: default quotas must
    /// be confirmed before they refuse a job.
    pub async fn recheck_limits(&self, facts: &mut Facts, plan: &Plan, together: &Together) {
        let known = facts.holds;
        let mut limits = std::mem::take(&mut facts.limits);
        let taken = |limit: &Limit| facts.used_instances(limit) + together.demand_so_far(plan, limit);
        let holds = self.confirm_defaults(&mut limits, taken, known).await;
        (facts.limits, facts.holds) = (limits, holds);
    }

    /// Makes the selected queries, in addition to those already made.
    async fn gather_facts(&self, plan: &Plan, view: View<'_>, ask: Ask, begun: Facts) -> Facts {
        let desired = view.desired;
        let plan = &plan.clone().with_account(&desired.account);
        // Locations that may be linked are read later, when the links are known.
        let linked = if ask.data { existing_links(view) } else { manifest_links(plan) };
        let is_open = |uri: &str| !linked.contains(uri.trim_end_matches('/'));
        let mut places = s3_locations(plan);
        places.retain(|(uri, _)| is_open(uri));
        let mut inputs: Vec<Data> = if ask.starts || !ask.data { inputs(plan) } else { Vec::new() };
        inputs.retain(|data| !ask.data || is_open(&data.uri));
        let read = if ask.data { inputs.as_slice() } else { &[] };
        // Each input that is read later may cost a call, and one more if a bucket denies the first.
        let later = if ask.data { 0 } else { inputs.len() + 1 };
        let (network, (data, told), mut buckets, standing, room) = join!(
            self.network(plan, &begun, ask.standing || ask.room, ask.room),
            self.data(read, desired),
            self.buckets(&places, &inputs, desired, &begun.buckets),
            OptionFuture::from(ask.standing.then(|| self.standing_facts(plan, view))),
            // Last, because its early queries require that enough calls are left after all others.
            OptionFuture::from(ask.room.then(|| self.start_facts(plan, view, later))),
        );
        // The bucket that trainc creates may not exist yet.
        for (bucket, seen) in told.into_iter().filter(|(bucket, _)| Some(bucket) != desired.bucket.as_ref()) {
            let span = places.iter().find(|(uri, _)| split_uri(uri).is_some_and(|(of, _)| of == bucket));
            buckets.insert(bucket, (span.map_or(plan.job.span, |(_, span)| *span), Some(seen)));
        }
        // If the standing queries are made now, `begun` contains only the network.
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

    /// Makes the queries of every plan.
    async fn standing_facts(&self, plan: &Plan, view: View<'_>) -> Facts {
        let groups = plan.job.network.as_ref().map(|network| &network.security_groups);
        let groups: Vec<String> = groups.into_iter().flatten().map(|val| val.value.clone()).collect();
        let (groups, keys, (role, permissions), secrets, file_systems, release) = join!(
            ask_if(!groups.is_empty(), self.ask(async |cloud| cloud.security_groups(&groups).await)),
            self.keys(plan),
            self.own_role(plan),
            self.secrets(plan),
            self.given_file_systems(plan),
            self.delete_permissions(view.desired, view.caller),
        );
        Facts { groups, keys, role, permissions, release, secrets, file_systems, ..Facts::default() }
    }

    /// Makes the queries for a job that is to be started: zones that offer its instance type, its image, its
    /// quotas.
    async fn start_facts(
        &self,
        plan: &Plan,
        view: View<'_>,
        later: usize,
    ) -> (Vec<(String, Lookup<Vec<String>>)>, Lookup<()>, Room) {
        let subnets = subnets_of(plan);
        // If an older run of the job ran on an instance type, the zones of its subnets offer it.
        let ran_there = |kind: &str| view.described.iter().any(|job| ran_in(job, kind, &subnets));
        let parts =
            plan.fleet.alternatives().into_iter().flat_map(Alternatives::iter).flat_map(|one| &one.parts);
        let kinds = parts.filter(|part| part.group.is_none()).map(|part| &part.instance);
        let kinds = kinds.filter(|kind| !subnets.is_empty() && !ran_there(kind));
        let zones = join_all(kinds.map(|kind| async move {
            let name = kind.strip_prefix("ml.").unwrap_or(kind);
            (kind.clone(), Some(self.ask(async |cloud| cloud.zones(name).await).await))
        }));
        let image = ask_if(is_own_image(plan, view.desired), self.image(plan));
        join!(zones, image, self.room(plan, view, later))
    }
}
