//! Instance preferences (`request { ResourceConfig { InstancePreferences … } }`), instance groups and
//! serverless jobs.
//!
//! SageMaker uses the first available type of an ordered list of preferences. The plan is for the first type,
//! which [`Job::apply_first_preference`] makes the type of the cluster; the plan's `Fleet` has all of them.

use super::nodes::{InstanceGroup, Job, SERVERLESS};
use super::origin::{Field, Origin, Val};
use super::scalar::{Raw, RequestMember, Scalar};
use trainc_diag::source::{Span, Spanned};

/// Request members for instances, container and code. The nodes for them are not valid in a serverless job,
/// which sets the supported ones in `request`.
pub const MACHINE_MEMBERS: [&str; 7] = [
    "AlgorithmSpecification",
    "EnableManagedSpotTraining",
    "Environment",
    "HyperParameters",
    "ResourceConfig",
    "RetryStrategy",
    "StoppingCondition",
];

/// One of the preferred instance types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference<'a> {
    /// The instance type with its span, if it is a string.
    pub instance: Option<(&'a str, Span)>,
    /// The number of instances, if set in this preference.
    pub count: Option<u64>,
}

/// Returns whether the type is of a GPU family, by the rule of the SageMaker Python SDK (2.257.7).
fn has_gpus(instance: &str) -> bool {
    instance.strip_prefix("ml.").is_some_and(|name| name.starts_with(['g', 'p']))
}

impl Job {
    /// Returns the instance preferences in order, with the request member that contains them; `None` without
    /// preferences.
    pub fn preferences(&self) -> Option<(&RequestMember, Vec<Preference<'_>>)> {
        let config = self.request.iter().find(|member| member.name == "ResourceConfig")?;
        let Raw::List(items) = &config.value.member("InstancePreferences")?.value else { return None };
        let preferences = items.iter().map(|item| Preference {
            instance: match item.member("InstanceType").map(|member| &member.value) {
                Some(Raw::Scalar(Spanned { value: Scalar::Text(text), span })) => {
                    Some((text.as_str(), *span))
                }
                _ => None,
            },
            count: match item.member("InstanceCount").map(|member| &member.value) {
                Some(Raw::Scalar(Spanned { value: Scalar::Int(n), .. })) => u64::try_from(*n).ok(),
                _ => None,
            },
        });
        Some((config, preferences.collect()))
    }

    /// Returns the instance type that selects the container: that of the cluster; of groups the first with a
    /// GPU, otherwise the first (SageMaker Python SDK 2.257.7, `image_uris._get_instance_type`); of
    /// preferences the first.
    pub fn container_instance(&self) -> Option<&str> {
        let cluster = self.cluster.as_ref()?;
        if !cluster.instance.is_absent() {
            return cluster.instance.value().map(String::as_str);
        }
        // If the manifest sets the group of the ranks, the type of that group selects the container.
        let named = self.parallel.as_ref().is_some_and(|parallel| !parallel.group.is_absent());
        if let Some(group) = self.rank_group().filter(|_| named) {
            return group.instance.value().map(String::as_str);
        }
        let groups = || cluster.groups.iter().filter_map(|group| group.instance.value().map(String::as_str));
        groups().find(|name| has_gpus(name)).or_else(|| groups().next())
    }

    /// Returns the request member that makes the job serverless.
    pub fn serverless_member(&self) -> Option<&RequestMember> {
        self.request.iter().find(|member| member.name == SERVERLESS)
    }

    /// Returns whether `request` specifies a built-in or marketplace algorithm, which has its own container
    /// and program.
    pub fn has_algorithm_name(&self) -> bool {
        let mut members = self.request.iter().filter(|member| member.name == "AlgorithmSpecification");
        members.any(|member| member.value.member("AlgorithmName").is_some())
    }

    /// Returns the number of instances, over all groups.
    pub fn instance_count(&self) -> Option<u64> {
        let cluster = self.cluster.as_ref()?;
        if cluster.groups.is_empty() {
            return cluster.nodes.get();
        }
        cluster.groups.iter().map(|group| group.nodes.get()).sum()
    }

    /// Returns the instance group of a heterogeneous cluster that runs the ranks: the one that `parallel`
    /// names, otherwise the only one. Returns `None` without groups, with several groups and no name, or with
    /// an unknown name.
    pub fn rank_group(&self) -> Option<&InstanceGroup> {
        let groups = &self.cluster.as_ref()?.groups;
        match self.parallel.as_ref().map(|parallel| &parallel.group) {
            Some(Field::Is(name)) => groups.iter().find(|group| group.name.value() == Some(&name.value)),
            _ => groups.first().filter(|_| groups.len() == 1),
        }
    }

    /// Returns the instance type that runs the ranks: that of the cluster or of
    /// [`rank_group`](Self::rank_group); of several groups without a named one the first with a GPU,
    /// otherwise the first.
    pub fn rank_instance(&self) -> Option<&Val<String>> {
        let cluster = self.cluster.as_ref()?;
        if !cluster.instance.is_absent() || cluster.groups.is_empty() {
            return cluster.instance.val();
        }
        if let Some(group) = self.rank_group() {
            return group.instance.val();
        }
        // An unknown group name is reported by a rule.
        if self.parallel.as_ref().is_some_and(|parallel| !parallel.group.is_absent()) {
            return None;
        }
        let types = || cluster.groups.iter().filter_map(|group| group.instance.val());
        types().find(|kind| has_gpus(&kind.value)).or_else(|| types().next())
    }

    /// Sets instance type and number of nodes to those of the first preference, where `cluster` does not set
    /// them.
    pub fn apply_first_preference(&mut self) {
        let Some(Preference { instance, count }) =
            self.preferences().and_then(|(_, list)| list.first().copied())
        else {
            return;
        };
        let instance =
            instance.map_or(Field::Bad, |(name, span)| Field::Is(Val::written(name.to_owned(), span)));
        let Some(cluster) = &mut self.cluster else { return };
        if cluster.instance.is_absent() && cluster.groups.is_empty() {
            cluster.instance = instance;
        }
        if let Some(count) = count
            && matches!(&cluster.nodes, Field::Is(val) if matches!(val.origin, Origin::Default(_)))
        {
            cluster.nodes = Field::Is(Val::derived(count, "first of InstancePreferences"));
        }
    }

    /// Returns whether the instance type of `cluster` is the first of the preferences.
    pub fn is_instance_preferred(&self) -> bool {
        let span = self.cluster.as_ref().and_then(|cluster| cluster.instance.span());
        let Some((_, preferences)) = self.preferences() else { return false };
        span.is_some() && preferences.first().and_then(|first| first.instance).map(|(_, span)| span) == span
    }
}
