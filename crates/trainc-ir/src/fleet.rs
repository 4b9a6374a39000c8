//! The SageMaker instances that a job may run on.

use super::cost::Cost;
use super::job::Job;
use super::price::Price;
use trainc_diag::source::Span;

/// The SageMaker instances that a job may run on. Quotas, prices and budgets are judged by these.
#[derive(Clone, Debug, PartialEq)]
pub enum Fleet {
    /// Each of these may be used; the plan is for the first.
    Instances(Alternatives),
    /// The job uses no instances of SageMaker: its cluster is custom or local, or it is serverless.
    NoInstances,
    /// The manifest sets no valid instance type, which is reported.
    Unreadable,
}

/// The alternatives of a job, in order of preference: at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternatives {
    /// The one that the plan is for.
    pub first: Alternative,
    /// The others (`InstancePreferences`).
    pub further: Vec<Alternative>,
}

/// Instances that run a job together.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The instances by type: one part, or one for each instance group.
    pub parts: Vec<Part>,
}

/// Instances of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The span of the instance group, if the cluster has groups.
    pub group: Option<Span>,
    /// The instance type.
    pub instance: String,
    /// Its span.
    pub span: Span,
    /// The number of instances, if known.
    pub nodes: Option<u64>,
    /// The span of the number, otherwise that of the type.
    pub nodes_span: Span,
    /// The price of one instance, if known.
    pub price: Option<Price>,
}

impl Part {
    /// Returns the price of all its instances for an hour, with the discount of the user.
    fn cost_per_hour(&self, of: impl Fn(&Price) -> Cost) -> Cost {
        let priced = self.price.as_ref().zip(self.nodes);
        priced.map_or(Cost::UNKNOWN, |(price, nodes)| of(price) * nodes as f64)
    }
}

impl Alternative {
    /// Returns the price of all instances for an hour.
    pub fn cost_per_hour(&self) -> Cost {
        self.parts.iter().map(|part| part.cost_per_hour(Price::per_hour)).sum()
    }

    /// Returns the most that all instances can cost for an hour: spot instances at the on-demand price,
    /// others with the discount of the user.
    pub fn most_per_hour(&self, is_spot: bool) -> Cost {
        let of = if is_spot { Price::list_per_hour } else { Price::per_hour };
        self.parts.iter().map(|part| part.cost_per_hour(of)).sum()
    }

    /// Returns the same without the instances whose price is an estimate: a lower bound of what is billed.
    pub fn billed_per_hour(&self, is_spot: bool) -> Cost {
        let of = if is_spot { Price::list_per_hour } else { Price::per_hour };
        let billed = |price: &Price| if price.estimate().is_some() { Cost::UNKNOWN } else { of(price) };
        self.parts.iter().map(|part| part.cost_per_hour(billed)).sum()
    }

    /// Returns the types without a price or with an estimate, each once, and whether it has an estimate.
    pub fn types_without_list_price(&self) -> Vec<(&str, bool)> {
        let mut names: Vec<(&str, bool)> = self
            .parts
            .iter()
            .filter(|part| part.price.as_ref().is_none_or(|price| price.estimate().is_some()))
            .map(|part| (part.instance.as_str(), part.price.is_some()))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the instance types, each once, with the number of instances of all parts.
    pub fn instances_by_type(&self) -> Vec<TypeCount<'_>> {
        let mut out: Vec<TypeCount<'_>> = Vec::new();
        for part in &self.parts {
            match out.iter_mut().find(|one| one.instance == part.instance) {
                Some(one) => one.nodes = one.nodes.zip(part.nodes).map(|(a, b)| a.saturating_add(b)),
                None => out.push(TypeCount {
                    instance: &part.instance,
                    nodes: part.nodes,
                    span: part.span,
                    nodes_span: part.nodes_span,
                }),
            }
        }
        out
    }

    /// Returns the number of instances of all types, if known.
    pub fn instance_count(&self) -> Option<u64> {
        self.parts.iter().map(|part| part.nodes).try_fold(0_u64, |sum, nodes| sum.checked_add(nodes?))
    }

    /// Returns the types without a price, each once.
    pub fn unpriced_types(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .parts
            .iter()
            .filter(|part| part.price.is_none())
            .map(|part| part.instance.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The instances of one type in all parts of an alternative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TypeCount<'a> {
    /// The instance type.
    pub instance: &'a str,
    /// The number of instances, if known.
    pub nodes: Option<u64>,
    /// The span of the type where it is first named.
    pub span: Span,
    /// The span of the number there, otherwise that of the type.
    pub nodes_span: Span,
}

impl Alternatives {
    /// Returns each alternative, in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &Alternative> {
        std::iter::once(&self.first).chain(&self.further)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Alternative> {
        std::iter::once(&mut self.first).chain(&mut self.further)
    }

    /// Returns the alternative that consists of instances of one type.
    pub fn of_type(&self, instance: &str) -> Option<&Alternative> {
        self.iter().find(|one| matches!(one.parts.as_slice(), [part] if part.instance == instance))
    }
}

impl Fleet {
    /// Returns the instances of a job, with the price of each type.
    pub fn from_job(job: &Job, price: impl Fn(&str) -> Option<Price>) -> Self {
        if job.serverless_member().is_some() {
            return Self::NoInstances;
        }
        let Some(cluster) = &job.cluster else { return Self::Unreadable };
        let part = |instance: &str, span: Span, nodes: Option<u64>, nodes_span: Option<Span>| Part {
            group: None,
            instance: instance.to_owned(),
            span,
            nodes,
            nodes_span: nodes_span.unwrap_or(span),
            price: price(instance),
        };
        if !cluster.groups.is_empty() {
            let parts = cluster.groups.iter().map(|group| {
                let instance = group.instance.val()?;
                let span = instance.span_or(group.span);
                let part = part(&instance.value, span, group.nodes.get(), group.nodes.span());
                Some(Part { group: Some(group.span), ..part })
            });
            let Some(parts) = parts.collect() else { return Self::Unreadable };
            let first = Alternative { parts };
            return Self::Instances(Alternatives { first, further: Vec::new() });
        }
        let Some(instance) = cluster.instance.val() else { return Self::Unreadable };
        if matches!(instance.value.as_str(), "custom" | "local") {
            return Self::NoInstances;
        }
        let of_one = |part: Part| Alternative { parts: vec![part] };
        let (nodes, nodes_span) = (cluster.nodes.get(), cluster.nodes.span());
        let first = of_one(part(&instance.value, instance.span_or(cluster.span), nodes, nodes_span));
        let preferences = job.preferences().map(|(_, preferences)| preferences).unwrap_or_default();
        let further = preferences.iter().filter_map(|one| {
            let (instance, span) = one.instance?;
            // The first is the plan's.
            (instance != first.parts.first()?.instance)
                .then(|| of_one(part(instance, span, one.count.or(nodes), nodes_span)))
        });
        let further = further.collect();
        Self::Instances(Alternatives { first, further })
    }

    /// Returns the alternatives, if the job uses instances of SageMaker and their types are valid.
    pub fn alternatives(&self) -> Option<&Alternatives> {
        match self {
            Self::Instances(alternatives) => Some(alternatives),
            Self::NoInstances | Self::Unreadable => None,
        }
    }

    /// Returns the instances that the plan is for.
    pub fn first(&self) -> Option<&Alternative> {
        self.alternatives().map(|alternatives| &alternatives.first)
    }

    /// Sets the number of instances of a cluster without groups.
    pub fn set_nodes(&mut self, nodes: u64) {
        if let Self::Instances(alternatives) = self {
            for one in alternatives.iter_mut() {
                for part in one.parts.iter_mut().filter(|part| part.group.is_none()) {
                    part.nodes = Some(nodes);
                }
            }
        }
    }

    /// Replaces all alternatives by one of the same size with instances of another type.
    pub fn replace_type(&mut self, instance: &str, price: Option<Price>) {
        if let Self::Instances(alternatives) = self {
            alternatives.further.clear();
            for part in &mut alternatives.first.parts {
                instance.clone_into(&mut part.instance);
                part.price.clone_from(&price);
            }
        }
    }
}
