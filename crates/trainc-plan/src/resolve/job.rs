//! Reads the nodes of a job into [`trainc_ir::Job`].

use super::betas::betas;
use super::defaults as default;
use super::fields::{
    WrittenValue, boolean, bytes, bytes_per_second, comma_list, first_arg, free_properties, integer,
    milliseconds, number, scalar, scalar_of, seconds, switch_or_true, text, text_args,
};
use super::missing_node::missing_node;
use super::{parallel, storage};
use std::mem;
use trainc_catalog::arn::Arn;
use trainc_diag::declare_code;
use trainc_diag::source::Spanned;
use trainc_diag::{Code, Problems};
use trainc_ir::job::SERVERLESS;
use trainc_ir::{
    Adapter, Allow, Bucket, Budget, CheckpointInterval, Cluster, Collection, CustomGpu, Dataset, Debugger,
    Experiment, Field, Hyperparameter, ImageRequest, InstanceGroup, Job, Metric, Model, MonitoringRule,
    Network, Optimizer, Origin, Placement, Probe, Profiler, Program, Quantize, Raw, Recompute, RequestMember,
    Role, RoleRead, Scalar, Secret, Spot, Tensorboard, Train, Val, Warmup,
};
use trainc_syntax::ast::{Node, Value};

declare_code!(T0220, "missing-node", Error, "a job is missing a required node");
declare_code!(
    T0222,
    "unsupported-engine-option",
    Error,
    "a parameter that the engine does not support",
    ends: Speed
);
declare_code!(T0223, "unknown-engine", Error, "an engine that does not exist", ends: Speed);

/// The codes of this file and of `parallel.rs`.
pub(super) static CODES: &[&Code] = &[&T0220, &T0222, &T0223];

const DIMENSIONS: &[&str] = &[
    "hidden",
    "layers",
    "heads",
    "kv-heads",
    "head-dim",
    "ffn",
    "vocab",
    "positions",
    "experts",
    "active-experts",
];

/// Reads the whole job.
pub(super) fn job(node: &Node, problems: &mut Problems) -> Job {
    let span = node.name.span;
    let parallel = node.child("parallel").map(|n| parallel::read(n, problems));
    // SageMaker chooses instances, container and code of a serverless job from its model and technique.
    let serverless = node
        .child("request")
        .is_some_and(|raw| raw.children.iter().any(|member| member.name.value == SERVERLESS));
    // A built-in or marketplace algorithm has its own container and program.
    let algorithm = node.child("request").is_some_and(|raw| {
        let inside = raw.children.iter().filter(|one| one.name.value == "AlgorithmSpecification");
        inside.flat_map(|one| &one.children).any(|one| one.name.value == "AlgorithmName")
    });
    let is_off_account = matches!(cluster_kind(node), Some("custom" | "local"));
    let is_given = serverless || algorithm || is_off_account;
    let needs_program = !is_given && node.child("parallel").is_none_or(parallel::needs_program);
    let name = node.first_text().unwrap_or("").to_owned();
    let mut missing = |what: &str, example: &str| problems.push(missing_node(span, &name, what, example));
    // A program that is not distributed uses one GPU.
    let machine = match parallel {
        Some(_) => "cluster \"ml.p4d.24xlarge\" nodes=1",
        None => "cluster \"ml.g5.2xlarge\" nodes=1",
    };
    for (what, example) in [
        ("region", "region \"us-west-2\""),
        ("cluster", machine),
        ("output", "output s3=\"s3://bucket/prefix/\""),
        ("role", "role create=#true"),
    ] {
        if !node.children.iter().any(|child| child.name.value == what) {
            let local = is_off_account && matches!(what, "region" | "output" | "role");
            let chosen = serverless && what == "cluster";
            if !local && !chosen {
                missing(what, example);
            }
        }
    }
    // `plan` reports what depends on the catalogue: `parallel`, `train`, `program` and `image`.
    let mut allows = Vec::new();
    collect_allows(node, &mut allows);
    Job {
        name: text(node.arg(0)),
        span,
        region: text(first_arg(node.child("region"))),
        account: text(first_arg(node.child("account"))),
        tags: free_properties(node.child("tags")),
        model: node.child("model").map(model),
        adapter: node.child("adapter").map(adapter),
        quantize: node.child("quantize").map(quantize),
        cluster: node.child("cluster").map(cluster),
        parallel,
        needs_program,
        train: node.child("train").map(|n| train(n, problems)).unwrap_or_default(),
        program: node.child("program").map(program),
        image: node.child("image").map(image),
        network: node.child("network").map(network),
        storage: node.children_named("storage").map(storage::read).collect(),
        channels: node.children_named("channel").map(storage::channel).collect(),
        checkpoint: node.child("checkpoint").map(storage::checkpoint),
        output: node.child("output").map(storage::output),
        buckets: node.children_named("bucket").map(bucket).collect(),
        role: node.child("role").map(role),
        debugger: node.child("debugger").map(debugger),
        profiler: node.child("profiler").map(profiler),
        tensorboard: node.child("tensorboard").map(tensorboard),
        experiment: node.child("experiment").map(experiment),
        remote_debug: switch_or_true(node.child("remote-debug")),
        health_check: switch_or_true(node.child("health-check")),
        session_chaining: switch_or_true(node.child("session-chaining")),
        probe: node.child("probe").map(|n| Probe { span: n.name.span, minimum: number(n.prop("minimum")) }),
        budget: node.child("budget").map(|n| Budget {
            span: n.name.span,
            usd: number(n.prop("usd")),
            hard: boolean(n.prop("hard")),
            enforce: boolean(n.prop("enforce")),
            slowest: number(n.prop("slowest")),
            steps: integer(n.prop("steps")),
        }),
        request: node.child("request").map_or_else(Vec::new, |n| {
            // The members have no spec; an `allow` has.
            n.children.iter().filter(|child| child.spec.is_none()).map(request_member).collect()
        }),
        swept_from: None,
        sweep: node.child("sweep").map_or_else(Vec::new, super::sweep::read),
        allows,
        is_whole: true,
        overrides: Vec::new(),
    }
}

fn cluster_kind(node: &Node) -> Option<&str> {
    node.child("cluster").and_then(Node::first_text)
}

fn collect_allows(node: &Node, out: &mut Vec<Allow>) {
    for child in &node.children {
        if child.name.value == "allow" && child.spec.is_some() {
            out.push(Allow {
                span: child.name.span,
                scopes: std::iter::once(node.span).chain(node.also.iter().copied()).collect(),
                code: text(child.arg(0)),
                reason: text(child.prop("reason")),
                until: text(child.prop("until")),
            });
        }
        collect_allows(child, out);
    }
}

fn model(node: &Node) -> Model {
    let dimensions = DIMENSIONS
        .iter()
        .filter_map(|&name| match integer(first_arg(node.child(name))) {
            Field::Is(val) => Some((name, val)),
            Field::Absent | Field::Bad => None,
        })
        .collect();
    Model {
        span: node.name.span,
        name: text(node.arg(0)),
        config: text(node.prop("config")),
        dimensions,
        unusable: DIMENSIONS
            .iter()
            .copied()
            .filter(|name| integer(first_arg(node.child(name))).is_bad())
            .collect(),
        tied: switch_or_true(node.child("tied")),
        parameters: integer(first_arg(node.child("parameters"))),
    }
}

fn adapter(node: &Node) -> Adapter {
    Adapter {
        span: node.name.span,
        kind: text(node.arg(0)),
        rank: integer(node.prop("rank")),
        alpha: number(node.prop("alpha")),
        dropout: number(node.prop("dropout")),
        targets: comma_list(node.prop("targets")),
    }
}

fn quantize(node: &Node) -> Quantize {
    Quantize {
        span: node.name.span,
        kind: text(node.arg(0)),
        double: boolean(node.prop("double")),
        compute: text(node.prop("compute")),
    }
}

fn cluster(node: &Node) -> Cluster {
    let volume = node.child("volume");
    let nodes = integer(node.prop("nodes"));
    let groups: Vec<InstanceGroup> = node
        .children_named("group")
        .map(|group| InstanceGroup {
            span: group.name.span,
            name: text(group.arg(0)),
            instance: text(group.prop("instance")),
            nodes: integer(group.prop("nodes")),
        })
        .collect();
    let nodes = if groups.is_empty() { nodes.or_default(default::NODES.0, default::NODES.1) } else { nodes };
    Cluster {
        span: node.name.span,
        instance: text(node.arg(0)),
        nodes,
        volume_bytes: bytes(first_arg(volume)).or_default(default::VOLUME_BYTES.0, default::VOLUME_BYTES.1),
        volume_kms: text(volume.and_then(|n| n.prop("kms"))),
        max_run_seconds: seconds(first_arg(node.child("max-run")))
            .or_default(default::MAX_RUN_SECONDS.0, default::MAX_RUN_SECONDS.1),
        max_pending_seconds: seconds(first_arg(node.child("max-pending"))),
        spot: node.child("spot").map(|n| Spot {
            span: n.name.span,
            max_wait_seconds: seconds(n.prop("max-wait")),
            interruptions_per_hour: number(n.prop("interruptions-per-hour")),
        }),
        warm_pool_seconds: seconds(first_arg(node.child("warm-pool"))),
        retry: integer(first_arg(node.child("retry"))),
        training_plan: text(first_arg(node.child("training-plan"))),
        placement: node.child("placement").map(|n| Placement {
            span: n.name.span,
            multiple_jobs: boolean(n.prop("multiple-jobs")),
            ultra_servers: n
                .children_named("ultra-server")
                .filter_map(|server| {
                    let id = Val::written(server.first_text()?.to_owned(), server.arg(0)?.span);
                    Some((id, integer(server.prop("instances"))))
                })
                .collect(),
        }),
        groups,
        gpu: node.child("gpu").map(|n| CustomGpu {
            span: n.name.span,
            name: text(n.arg(0)),
            per_node: integer(n.prop("per-node")),
        }),
        intra_bytes_per_second: bytes_per_second(first_arg(node.child("intra"))),
        inter_bytes_per_second: bytes_per_second(first_arg(node.child("inter"))),
        ranks: integer(first_arg(node.child("ranks"))),
        node_mtbf_seconds: seconds(first_arg(node.child("node-mtbf"))),
    }
}

fn train(node: &Node, problems: &mut Problems) -> Train {
    let checkpointing = match node.child("activation-checkpointing").map(|n| (n, n.arg(0))) {
        None => Field::Absent,
        Some((n, None)) => Field::Is(Val::written(Recompute::Full, n.name.span)),
        Some((_, Some(arg))) => match &arg.value {
            Value::Bool(true) => Field::Is(Val::written(Recompute::Full, arg.span)),
            Value::Bool(false) => Field::Is(Val::written(Recompute::None, arg.span)),
            Value::Text(_) => Field::Is(Val::written(Recompute::Selective, arg.span)),
            _ => Field::Bad,
        },
    };
    Train {
        span: Some(node.name.span),
        precision: text(first_arg(node.child("precision"))),
        recipe: text(node.child("precision").and_then(|n| n.prop("recipe"))),
        sequence_length: integer(first_arg(node.child("sequence-length"))),
        micro_batch_size: integer(first_arg(node.child("micro-batch"))),
        accumulation: integer(first_arg(node.child("accumulation"))),
        global_batch: integer(first_arg(node.child("global-batch"))),
        activation_checkpointing: checkpointing,
        flash_attention: switch_or_true(node.child("flash-attention")),
        compile: switch_or_true(node.child("compile")),
        attention: text(first_arg(node.child("attention"))),
        loss: text(first_arg(node.child("loss"))),
        optimizer: node.child("optimizer").map(|n| optimizer(n, problems)),
        steps: integer(first_arg(node.child("steps"))),
        tokens: integer(first_arg(node.child("tokens"))),
        epochs: number(first_arg(node.child("epochs"))),
        dataset: node.child("dataset").map(|n| Dataset {
            span: n.name.span,
            sequences: integer(n.prop("sequences")),
            tokens: integer(n.prop("tokens")),
            size_bytes: bytes(n.prop("size")),
        }),
        seed: integer(first_arg(node.child("seed"))),
    }
}

fn optimizer(node: &Node, problems: &mut Problems) -> Optimizer {
    let warmup = match node.prop("warmup") {
        None => Field::Absent,
        Some(written) => match &written.value {
            Value::Steps(n) => Field::Is(Val::written(Warmup::Steps(*n), written.span)),
            Value::Float(x) => Field::Is(Val::written(Warmup::Fraction(*x), written.span)),
            _ => Field::Bad,
        },
    };
    Optimizer {
        span: node.name.span,
        name: text(node.arg(0)),
        lr: number(node.prop("lr")),
        betas: betas(node, problems),
        eps: number(node.prop("eps")),
        weight_decay: number(node.prop("weight-decay")),
        clip: number(node.prop("clip")),
        warmup,
        schedule: text(node.prop("schedule")),
        min_lr: number(node.prop("min-lr")),
    }
}

fn program(node: &Node) -> Program {
    Program {
        span: node.name.span,
        entry: text(node.arg(0)),
        source: text(node.prop("source")),
        git: text(node.prop("git")),
        branch: text(node.prop("branch")),
        commit: text(node.prop("commit")),
        dir: text(node.prop("dir")),
        s3: text(node.prop("s3")),
        upload: text(node.prop("upload")),
        code: match text(node.prop("code")) {
            Field::Absent => {
                Field::Is(Val::default("huggingface".to_owned(), "assumed unless `code` is written"))
            }
            written => written,
        },
        log_level: text(node.prop("log-level")),
        hyperparameters: node
            .children_named("hyperparameter")
            .filter_map(|n| {
                let name = n.first_text()?.to_owned();
                Some(Hyperparameter { name, name_span: n.arg(0)?.span, value: scalar(n.arg(1)) })
            })
            .collect(),
        environment: free_properties(node.children_named("environment")),
        secrets: node
            .children_named("secret")
            .filter_map(|n| {
                let name = n.first_text()?.to_owned();
                Some(Secret { name, name_span: n.arg(0)?.span, from: text(n.prop("from")) })
            })
            .collect(),
        metrics: node
            .children_named("metric")
            .filter_map(|n| {
                let name = n.first_text()?.to_owned();
                Some(Metric { name, name_span: n.arg(0)?.span, regex: text(n.prop("regex")) })
            })
            .collect(),
        dependencies: node.children_named("dependency").flat_map(|n| text_args(Some(n))).collect(),
        entrypoint: text_args(node.child("entrypoint")),
        arguments: text_args(node.child("arguments")),
    }
}

fn image(node: &Node) -> ImageRequest {
    ImageRequest {
        span: node.name.span,
        family: text(node.arg(0)),
        version: text(node.prop("version")),
        transformers: text(node.prop("transformers")),
        pytorch: text(node.prop("pytorch")),
        python: text(node.prop("python")),
        uri: text(node.prop("uri")),
    }
}

fn network(node: &Node) -> Network {
    let (subnets, groups) = (node.child("subnets"), node.child("security-groups"));
    Network {
        span: node.name.span,
        subnets: text_args(subnets),
        security_groups: text_args(groups),
        subnets_span: subnets.map(|n| n.name.span),
        security_groups_span: groups.map(|n| n.name.span),
        isolation: switch_or_true(node.child("isolation")),
        encrypt_traffic: switch_or_true(node.child("encrypt-traffic")),
    }
}

fn request_member(node: &Node) -> RequestMember {
    RequestMember { name: node.name.value.clone(), span: node.name.span, value: raw(node) }
}

/// Reads one argument as a scalar, several as a list; `-` children as a list, other children and properties as an
/// object.
fn raw(node: &Node) -> Raw {
    let scalars = || node.args.iter().map(raw_scalar);
    if node.children.is_empty() && node.props.is_empty() {
        return match node.args.as_slice() {
            [] => Raw::Object(Vec::new()),
            [one] => raw_scalar(one),
            _ => Raw::List(scalars().collect()),
        };
    }
    if !node.children.is_empty() && node.children.iter().all(|child| child.name.value == "-") {
        return Raw::List(scalars().chain(node.children.iter().map(raw)).collect());
    }
    let props = node.props.iter().map(|(key, value)| RequestMember {
        name: key.value.clone(),
        span: key.span,
        value: raw_scalar(value),
    });
    Raw::Object(props.chain(node.children.iter().map(request_member)).collect())
}

fn raw_scalar(value: &Spanned<Value>) -> Raw {
    Raw::Scalar(Spanned::new(scalar_of(&value.value).unwrap_or(Scalar::Null), value.span))
}

/// Reads the interval between checkpoints.
pub(super) fn checkpoint_interval(written: WrittenValue) -> Field<CheckpointInterval> {
    match written {
        None => Field::Absent,
        Some(spanned) => {
            let value = match &spanned.value {
                Value::Steps(n) => CheckpointInterval::Steps(*n),
                Value::Milliseconds(_) => match milliseconds(written).get() {
                    Some(ms) => CheckpointInterval::Seconds(ms.div_ceil(1_000)),
                    None => return Field::Bad,
                },
                Value::Text(_) => CheckpointInterval::Optimal,
                _ => return Field::Bad,
            };
            Field::Is(Val { value, origin: Origin::Written(spanned.span) })
        }
    }
}

fn bucket(node: &Node) -> Bucket {
    Bucket { span: node.name.span, name: text(node.arg(0)), owner: text(node.prop("owner")) }
}

fn role(node: &Node) -> Role {
    let create = boolean(node.prop("create"));
    let path = text(node.prop("path"));
    let path = if create.get() == Some(true) {
        path.or_default(default::ROLE_PATH.0.to_owned(), default::ROLE_PATH.1)
    } else {
        path
    };
    Role {
        span: node.name.span,
        create,
        arn: text(node.prop("arn")),
        boundary: text(node.prop("boundary")),
        path,
        reads: node
            .children_named("read")
            .map(|n| RoleRead { span: n.name.span, s3: text(n.arg(0)) })
            .collect(),
    }
}

/// Sets the permissions boundary of a created role where the manifest has none, and the default path for its boundary.
pub(super) fn apply_boundary(role: &mut Role, boundary: Option<&str>) {
    if role.create.get() != Some(true) {
        return;
    }
    if let Some(boundary) = boundary {
        role.boundary = mem::take(&mut role.boundary).or_default(boundary.to_owned(), default::ROLE_BOUNDARY);
    }
    let Some(path) = role.boundary.value().and_then(|arn| Arn::parse(arn).ok()?.role_path()) else {
        return;
    };
    if role.path.val().is_some_and(|path| matches!(path.origin, Origin::Default(_))) {
        role.path = Field::Is(Val::default(path, default::BOUNDED_ROLE_PATH));
    }
}

fn debugger(node: &Node) -> Debugger {
    Debugger {
        span: node.name.span,
        s3: text(node.prop("s3")),
        local: text(node.prop("local")),
        parameters: free_properties(node.child("parameters")),
        collections: node
            .children_named("collection")
            .filter_map(|n| {
                Some(Collection {
                    name: Val::written(n.first_text()?.to_owned(), n.arg(0)?.span),
                    parameters: free_properties([n]),
                })
            })
            .collect(),
        rules: monitoring_rules(node),
    }
}

fn monitoring_rules(node: &Node) -> Vec<MonitoringRule> {
    let rules = node.children_named("rule").filter_map(|n| {
        let span = n.arg(0)?.span;
        let name = Val::written(n.first_text()?.to_owned(), span);
        Some(MonitoringRule { name, span, parameters: free_properties([n]) })
    });
    rules.collect()
}

fn profiler(node: &Node) -> Profiler {
    Profiler {
        span: node.name.span,
        s3: text(node.prop("s3")),
        interval_milliseconds: milliseconds(node.prop("interval")),
        parameters: free_properties(node.child("parameters")),
        rules: monitoring_rules(node),
    }
}

fn tensorboard(node: &Node) -> Tensorboard {
    Tensorboard { span: node.name.span, s3: text(node.prop("s3")), local: text(node.prop("local")) }
}

fn experiment(node: &Node) -> Experiment {
    Experiment {
        span: node.name.span,
        name: text(node.prop("name")),
        trial: text(node.prop("trial")),
        component: text(node.prop("component")),
        run: text(node.prop("run")),
    }
}
