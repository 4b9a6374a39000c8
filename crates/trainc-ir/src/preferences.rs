//! `request { ResourceConfig { InstancePreferences … } }`: an ordered list of types, of which the service takes the
//! first that it has. A plan is made for the first.

use super::job::{InstanceGroup, Job, SERVERLESS};
use super::origin::{Field, Origin, Val};
use super::scalar::{Raw, RequestMember, Scalar};
use trainc_diag::source::Spanned;

/// Members that nodes say of machines, container and code: a serverless job has none of those nodes, and says by their
/// AWS names what the service takes of them.
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
    /// The instance type, if it is a text.
    pub instance: Option<&'a str>,
    /// How many instances, if it says so itself.
    pub count: Option<u64>,
}

/// Whether a type is of the families with GPUs, as the SageMaker SDK tells them (2.257.7).
fn has_gpus(instance: &str) -> bool {
    instance.strip_prefix("ml.").is_some_and(|name| name.starts_with(['g', 'p']))
}

impl Job {
    /// The member of `request` that says them, and the types in their order; nothing where there are none.
    pub fn preferences(&self) -> Option<(&RequestMember, Vec<Preference<'_>>)> {
        let config = self.request.iter().find(|member| member.name == "ResourceConfig")?;
        let Raw::List(items) = &config.value.member("InstancePreferences")?.value else { return None };
        let preferences = items.iter().map(|item| Preference {
            instance: item.member("InstanceType").and_then(|member| member.value.text()),
            count: match item.member("InstanceCount").map(|member| &member.value) {
                Some(Raw::Scalar(Spanned { value: Scalar::Int(n), .. })) => u64::try_from(*n).ok(),
                _ => None,
            },
        });
        Some((config, preferences.collect()))
    }

    /// The instance type that chooses the container: the written one; of groups the first with a GPU, else the first,
    /// as the SageMaker SDK has it (2.257.7, `image_uris._get_instance_type`); of preferences the first.
    pub fn container_instance(&self) -> Option<&str> {
        let cluster = self.cluster.as_ref()?;
        if !cluster.instance.is_absent() {
            return cluster.instance.value().map(String::as_str);
        }
        // Where the manifest says on which group the ranks run, their container is of that group's kind.
        let named = self.parallel.as_ref().is_some_and(|parallel| !parallel.group.is_absent());
        if let Some(group) = self.rank_group().filter(|_| named) {
            return group.instance.value().map(String::as_str);
        }
        let groups = || cluster.groups.iter().filter_map(|group| group.instance.value().map(String::as_str));
        groups()
            .find(|name| has_gpus(name))
            .or_else(|| groups().next())
            .or_else(|| self.preferences().and_then(|(_, list)| list.first()?.instance))
    }

    /// The member of `request` that makes the job serverless.
    pub fn serverless(&self) -> Option<&RequestMember> {
        self.request.iter().find(|member| member.name == SERVERLESS)
    }

    /// Whether the job runs an algorithm of the service or of a marketplace, which `request` names: it brings its own
    /// container and program.
    pub fn names_algorithm(&self) -> bool {
        let mut members = self.request.iter().filter(|member| member.name == "AlgorithmSpecification");
        members.any(|member| member.value.member("AlgorithmName").is_some())
    }

    /// Instances of the job, those of all groups together.
    pub fn instances(&self) -> Option<u64> {
        let cluster = self.cluster.as_ref()?;
        if cluster.groups.is_empty() {
            return cluster.nodes.get();
        }
        cluster.groups.iter().map(|group| group.nodes.get()).sum()
    }

    /// The instance group of a heterogeneous cluster on which the ranks run: the one that `parallel` names, else the
    /// only one. `None` where the cluster has no groups, several of which none is named, or not the one that is.
    pub fn rank_group(&self) -> Option<&InstanceGroup> {
        let groups = &self.cluster.as_ref()?.groups;
        match self.parallel.as_ref().map(|parallel| &parallel.group) {
            Some(Field::Is(name)) => groups.iter().find(|group| group.name.value() == Some(&name.value)),
            _ => groups.first().filter(|_| groups.len() == 1),
        }
    }

    /// The instance type on which the ranks run: the cluster's, or that of [`rank_group`](Self::rank_group); of several
    /// groups none of which is named the first's with a GPU, else the first's.
    pub fn rank_instance(&self) -> Option<&Val<String>> {
        let cluster = self.cluster.as_ref()?;
        if !cluster.instance.is_absent() || cluster.groups.is_empty() {
            return cluster.instance.val();
        }
        if let Some(group) = self.rank_group() {
            return group.instance.val();
        }
        // A group that is not there was named, and that is said.
        if self.parallel.as_ref().is_some_and(|parallel| !parallel.group.is_absent()) {
            return None;
        }
        let types = || cluster.groups.iter().filter_map(|group| group.instance.val());
        types().find(|kind| has_gpus(&kind.value)).or_else(|| types().next())
    }

    /// The first type's own count, where `cluster` does not say how many.
    pub fn take_preferred_count(&mut self) {
        let count = self.preferences().and_then(|(_, list)| list.first()?.count);
        let (Some(count), Some(cluster)) = (count, &mut self.cluster) else { return };
        if matches!(&cluster.nodes, Field::Is(val) if matches!(val.origin, Origin::Default(_))) {
            cluster.nodes = Field::Is(Val::derived(count, "the first of InstancePreferences"));
        }
    }
}
