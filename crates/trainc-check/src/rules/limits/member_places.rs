//! The places of request members in the manifest: for each path that nodes set, the node to blame and its
//! name.

use super::{T0402, T0403, T0412, T0415, T0418, T0420, T0444, truncate};
use crate::shared_codes::{T0410, T0431, T0437};
use trainc_diag::Code;
use trainc_diag::source::Span;
use trainc_ir::{Field, Origin, Pair, Plan, Val};
use trainc_language::spec::Ty;
use trainc_language::{Member, NodeType};

/// The place of a request member in the manifest.
pub(super) struct MemberPlace {
    /// The path as in a violation.
    pub(super) path: String,
    /// The code under which its limits are reported.
    pub(super) code: &'static Code,
    /// The place to blame.
    pub(super) span: Span,
    /// Its name in messages.
    pub(super) what: String,
    /// The key of a map's entry: violations of key and value have the same path.
    pub(super) key: Option<String>,
    /// The separator of a valid spelling, if an invalid one can be fixed: `-` or `_`.
    pub(super) joint: Option<char>,
}

/// The list under construction.
#[derive(Default)]
struct Places(Vec<MemberPlace>);

impl Places {
    fn put(
        &mut self,
        path: impl Into<String>,
        code: &'static Code,
        span: Option<Span>,
        what: impl Into<String>,
    ) {
        if let Some(span) = span {
            self.0.push(MemberPlace { path: path.into(), code, span, what: what.into(), key: None, joint: None });
        }
    }

    fn field<T>(&mut self, path: &str, code: &'static Code, field: &Field<T>, what: &str) {
        self.put(path, code, field.span(), what);
    }

    fn put_name(
        &mut self,
        path: impl Into<String>,
        code: &'static Code,
        span: Option<Span>,
        what: &str,
        joint: char,
    ) {
        self.put(path, code, span, what);
        if let Some(last) = self.0.last_mut().filter(|_| span.is_some()) {
            last.joint = Some(joint);
        }
    }

    /// The values of a node that are sent as they are written, except words, bounded numbers and durations,
    /// which are checked where they are read, and S3 URIs, which have rules of their own.
    fn sent_values(&mut self, node: &impl NodeType, position: usize) {
        node.visit("", &mut |seen| {
            let Some(Member { path, called, .. }) = &seen.declared.member else { return };
            if !matches!(seen.declared.ty, Ty::Text | Ty::Bytes | Ty::Count) || seen.declared.name == "s3" {
                return;
            }
            let code = if seen.value.is_address() { &T0437 } else { &T0444 };
            let what = called.map_or_else(|| format!("`{}`", seen.declared.name), str::to_owned);
            let span = seen.origin.and_then(Origin::span);
            let joint = path.starts_with("ExperimentConfig.").then_some('-');
            self.put(path.replace("[]", &format!("[{position}]")), code, span, what);
            if let Some(last) = self.0.last_mut().filter(|_| span.is_some()) {
                last.joint = joint;
            }
        });
    }

    /// An entry of a map; `what` names the kind of key.
    fn entry(&mut self, map: &str, code: &'static Code, key: &str, span: Span, what: &str) {
        let joint = (map == "Environment").then_some('_');
        let what = format!("{what} `{}`", truncate(key));
        self.0.push(MemberPlace {
            path: format!("{map}[{key:?}]"),
            code,
            span,
            what,
            key: Some(key.to_owned()),
            joint,
        });
    }

    fn pairs(&mut self, map: &str, code: &'static Code, pairs: &[Pair], word: &str) {
        for pair in pairs {
            self.entry(map, code, &pair.key, pair.key_span, word);
        }
        self.put(map, code, pairs.first().map(|pair| pair.key_span), format!("{word}s"));
    }

    fn put_list(
        &mut self,
        path: &str,
        code: &'static Code,
        words: &[Val<String>],
        whole: Option<Span>,
        what: &str,
    ) {
        for (at, word) in words.iter().enumerate() {
            self.put(format!("{path}[{at}]"), code, word.origin.span(), what);
        }
        self.put(path, code, whole.or_else(|| words.first().and_then(|word| word.origin.span())), what);
    }
}

/// Returns every path that the nodes of the plan set, except S3 URIs and durations, which have separate
/// rules.
pub(super) fn member_places(plan: &Plan) -> Vec<MemberPlace> {
    let mut places = Places::default();
    program(plan, &mut places);
    cluster(plan, &mut places);
    data(plan, &mut places);
    identity(plan, &mut places);
    places.0
}

fn program(plan: &Plan, places: &mut Places) {
    let Some(program) = &plan.job.program else { return };
    for h in &program.hyperparameters {
        places.entry("HyperParameters", &T0403, &h.name, h.name_span, "hyperparameter");
    }
    if let Some(parallel) = &plan.job.parallel {
        places.entry(
            "HyperParameters",
            &T0403,
            "mp_parameters",
            parallel.span,
            "the hyperparameter made from `parallel`,",
        );
        let span = parallel
            .mpi_options
            .span()
            .or_else(|| parallel.mpi_env.first().map(|pair| pair.key_span))
            .unwrap_or(parallel.span);
        for key in
            ["sagemaker_mpi_custom_mpi_options", "sagemaker_distributed_dataparallel_custom_mpi_options"]
        {
            places.entry(
                "HyperParameters",
                &T0403,
                key,
                span,
                "the hyperparameter made from `parallel`,",
            );
        }
    }
    places.put("HyperParameters", &T0402, Some(program.span), "hyperparameters");
    for pair in &program.environment {
        places.entry("Environment", &T0410, &pair.key, pair.key_span, "environment variable");
    }
    places.put(
        "Environment",
        &T0410,
        program.environment.first().map(|pair| pair.key_span),
        "`environment`",
    );
    let metrics = "AlgorithmSpecification.MetricDefinitions";
    let sent = program.metrics.iter().filter(|metric| metric.regex.value().is_some());
    for (at, metric) in sent.enumerate() {
        places.put(
            format!("{metrics}[{at}].Name"),
            &T0412,
            Some(metric.name_span),
            "a metric's name",
        );
        places.field(
            &format!("{metrics}[{at}].Regex"),
            &T0412,
            &metric.regex,
            "a metric's expression",
        );
    }
    places.put(
        metrics,
        &T0412,
        program.metrics.first().map(|metric| metric.name_span),
        "the list of metrics",
    );
    places.put_list(
        "AlgorithmSpecification.ContainerEntrypoint",
        &T0444,
        &program.entrypoint,
        None,
        "a word of `entrypoint`",
    );
    places.put_list(
        "AlgorithmSpecification.ContainerArguments",
        &T0444,
        &program.arguments,
        None,
        "a word of `arguments`",
    );
}

fn cluster(plan: &Plan, places: &mut Places) {
    if let Some(cluster) = &plan.job.cluster {
        places.sent_values(cluster, 0);
        for (at, group) in cluster.groups.iter().enumerate() {
            let path = format!("ResourceConfig.InstanceGroups[{at}].InstanceGroupName");
            places.put_name(path, &T0431, group.name.span(), "a group's name", '-');
        }
        places.put(
            "ResourceConfig.InstanceGroups",
            &T0431,
            cluster.groups.first().map(|group| group.span),
            "the list of groups",
        );
    }
    if let Some(network) = &plan.job.network {
        let fallback = Some(network.span);
        places.put_list(
            "VpcConfig.Subnets",
            &T0420,
            &network.subnets,
            network.subnets_span.or(fallback),
            "`subnets`",
        );
        places.put_list(
            "VpcConfig.SecurityGroupIds",
            &T0420,
            &network.security_groups,
            network.security_groups_span.or(fallback),
            "`security-groups`",
        );
    }
}

fn data(plan: &Plan, places: &mut Places) {
    let job = &plan.job;
    for (at, channel) in job.channels.iter().enumerate() {
        let path = format!("InputDataConfig[{at}]");
        places.put_name(
            format!("{path}.ChannelName"),
            &T0418,
            channel.name.span(),
            "a channel's name",
            '-',
        );
        places.sent_values(channel, at);
        let source = format!("{path}.DataSource.S3DataSource");
        let attributes = channel.attributes.value().map_or(0, Vec::len);
        let groups = channel.groups.value().map_or(0, Vec::len);
        for at in 0..attributes {
            places.field(
                &format!("{source}.AttributeNames[{at}]"),
                &T0444,
                &channel.attributes,
                "a name in `attributes`",
            );
        }
        for at in 0..groups {
            places.field(
                &format!("{source}.InstanceGroupNames[{at}]"),
                &T0444,
                &channel.groups,
                "a name in `groups`",
            );
        }
        places.field(
            &format!("{source}.AttributeNames"),
            &T0444,
            &channel.attributes,
            "`attributes`",
        );
        places.field(&format!("{source}.InstanceGroupNames"), &T0444, &channel.groups, "`groups`");
    }
    places.put(
        "InputDataConfig",
        &T0418,
        job.channels.first().map(|channel| channel.span),
        "the list of channels",
    );
    if let Some(output) = &job.output {
        places.sent_values(output, 0);
    }
    if let Some(checkpoint) = &job.checkpoint {
        places.sent_values(checkpoint, 0);
    }
}

fn identity(plan: &Plan, places: &mut Places) {
    let job = &plan.job;
    if let Some(role) = &job.role {
        places.sent_values(role, 0);
    }
    let sent = job.tags.iter().filter(|tag| tag.value.value().is_some());
    for (at, tag) in sent.enumerate() {
        places.put(format!("Tags[{at}].Key"), &T0415, Some(tag.key_span), "a tag's key");
        places.field(&format!("Tags[{at}].Value"), &T0415, &tag.value, "a tag's value");
    }
    places.put(
        "Tags",
        &T0415,
        job.tags.first().map(|tag| tag.key_span),
        "the list of tags, with those that trainc adds,",
    );
    if let Some(debugger) = &job.debugger {
        places.sent_values(debugger, 0);
        places.pairs(
            "DebugHookConfig.HookParameters",
            &T0444,
            &debugger.parameters,
            "debugger parameter",
        );
        let path = "DebugHookConfig.CollectionConfigurations";
        for (at, collection) in debugger.collections.iter().enumerate() {
            places.put(
                format!("{path}[{at}].CollectionName"),
                &T0444,
                collection.name.origin.span(),
                "a collection's name",
            );
            places.pairs(
                &format!("{path}[{at}].CollectionParameters"),
                &T0444,
                &collection.parameters,
                "collection parameter",
            );
        }
        places.put(path, &T0444, Some(debugger.span), "the list of collections");
    }
    if let Some(profiler) = &job.profiler {
        places.pairs(
            "ProfilerConfig.ProfilingParameters",
            &T0444,
            &profiler.parameters,
            "profiler parameter",
        );
    }
    if let Some(tensorboard) = &job.tensorboard {
        places.sent_values(tensorboard, 0);
    }
    if let Some(experiment) = &job.experiment {
        places.sent_values(experiment, 0);
    }
}
