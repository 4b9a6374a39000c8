//! `request { ResourceConfig { InstancePreferences … } }`: an ordered list of types, of which the service takes the
//! first that it has. A plan is made for the first.

use super::job::{Job, RequestMember};
use super::origin::{Field, Origin, Val};
use super::scalar::{Raw, Scalar};

/// One of the preferred instance types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference<'a> {
    /// The instance type, if it is a text.
    pub instance: Option<&'a str>,
    /// How many instances, if it says so itself.
    pub count: Option<u64>,
}

fn member<'a>(value: &'a Raw, name: &str) -> Option<&'a Raw> {
    let Raw::Object(members) = value else { return None };
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

impl Job {
    /// The member of `request` that says them, and the types in their order; nothing where there are none.
    pub fn preferences(&self) -> Option<(&RequestMember, Vec<Preference<'_>>)> {
        let config = self.request.iter().find(|member| member.name == "ResourceConfig")?;
        let Raw::List(items) = member(&config.value, "InstancePreferences")? else { return None };
        let preferences = items.iter().map(|item| Preference {
            instance: match member(item, "InstanceType") {
                Some(Raw::Scalar(Scalar::Text(text))) => Some(text.as_str()),
                _ => None,
            },
            count: match member(item, "InstanceCount") {
                Some(Raw::Scalar(Scalar::Int(n))) => u64::try_from(*n).ok(),
                _ => None,
            },
        });
        Some((config, preferences.collect()))
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
