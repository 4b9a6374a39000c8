//! The nouns of a job, from nodes to [`ir`].

use super::betas::betas;
use super::defaults as default;
use super::pick::{
    bytes, first, milliseconds, number, pairs, rate, scalar, seconds, switch, text, texts, whole, words,
};
use super::{identity, parallel, storage};
use trainc_diag::declare_code;
use trainc_diag::source::{Span, Spanned};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::job::SERVERLESS;
use trainc_ir::{
    Adapter, Allow, Budget, Cluster, CustomGpu, Dataset, Every, Field, Hyperparameter, ImageAsk,
    InstanceGroup, Job, Metric, Model, Network, Optimizer, Origin, Placement, Program, Quantize, Raw,
    Recompute, RequestMember, Scalar, Secret, Spot, Train, Val, Warmup,
};
use trainc_syntax::ast::{Node, Value};

declare_code!(T0220, "missing-node", Error, "a job is missing a required node");
declare_code!(T0222, "unsupported-engine-option", Error, "a parameter that the engine does not support");
declare_code!(T0223, "unknown-engine", Error, "an engine that does not exist");

/// The codes of this file and its neighbours.
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
    // SageMaker chooses machines, container and code of a serverless job by its model and technique.
    let serverless = node
        .child("request")
        .is_some_and(|raw| raw.children.iter().any(|member| member.name.value == SERVERLESS));
    // An algorithm of the service or of a marketplace brings its own container and program.
    let algorithm = node.child("request").is_some_and(|raw| {
        let inside = raw.children.iter().filter(|one| one.name.value == "AlgorithmSpecification");
        inside.flat_map(|one| &one.children).any(|one| one.name.value == "AlgorithmName")
    });
    let is_off_account = matches!(cluster_kind(node), Some("custom" | "local"));
    let is_given = serverless || algorithm || is_off_account;
    let needs_program = !is_given && node.child("parallel").is_none_or(parallel::needs_program);
    let name = node.first_text().unwrap_or("").to_owned();
    let mut missing = |what: &'static str, example: &str| {
        problems.push(
            Diagnostic::new(&T0220, span, format!("job `{name}` has no `{what}`"))
                .help(format!("add `{example}`")),
        );
    };
    for (what, example) in [
        ("region", "region \"us-west-2\""),
        ("cluster", "cluster \"ml.p4d.24xlarge\" nodes=1"),
        ("parallel", "parallel engine=\"fsdp\""),
        ("train", "train { precision \"bf16\"; sequence-length 2048; micro-batch 1; steps 100 }"),
        ("output", "output s3=\"s3://bucket/prefix/\""),
        ("role", "role create=#true"),
    ] {
        if !node.children.iter().any(|child| child.name.value == what) {
            let local = is_off_account && matches!(what, "region" | "output" | "role");
            // A plain script may train nothing: it prepares data, or evaluates.
            let plain = what == "train" && node.child("parallel").is_some_and(parallel::is_plain);
            let chosen = serverless && matches!(what, "cluster" | "parallel" | "train");
            if !local && !plain && !chosen {
                missing(what, example);
            }
        }
    }
    if needs_program {
        // A missing `image` is said by `plan`, which knows what there is to write.
        if !node.children.iter().any(|child| child.name.value == "program") {
            missing("program", "program \"train.py\" source=\"./scripts\"");
        }
    }
    let mut allows = Vec::new();
    collect_allows(node, &mut allows);
    Job {
        name: text(node.arg(0)),
        span,
        region: text(first(node.child("region"))),
        account: text(first(node.child("account"))),
        tags: pairs(node.child("tags")),
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
        role: node.child("role").map(identity::role),
        debugger: node.child("debugger").map(identity::debugger),
        profiler: node.child("profiler").map(identity::profiler),
        tensorboard: node.child("tensorboard").map(identity::tensorboard),
        experiment: node.child("experiment").map(identity::experiment),
        remote_debug: switch(node.child("remote-debug")),
        health_check: switch(node.child("health-check")),
        session_chaining: switch(node.child("session-chaining")),
        budget: node.child("budget").map(|n| Budget {
            span: n.name.span,
            usd: number(n.prop("usd")),
            hard: super::pick::boolean(n.prop("hard")),
        }),
        request: node.child("request").map_or_else(Vec::new, |n| n.children.iter().map(member).collect()),
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
        .filter_map(|&name| match whole(first(node.child(name))) {
            Field::Is(val) => Some((name, val)),
            Field::Absent | Field::Bad => None,
        })
        .collect();
    Model {
        span: node.name.span,
        name: text(node.arg(0)),
        config: text(node.prop("config")),
        dimensions,
        unusable: DIMENSIONS.iter().copied().filter(|name| whole(first(node.child(name))).is_bad()).collect(),
        tied: switch(node.child("tied")),
        parameters: whole(first(node.child("parameters"))),
    }
}

fn adapter(node: &Node) -> Adapter {
    Adapter {
        span: node.name.span,
        kind: text(node.arg(0)),
        rank: whole(node.prop("rank")),
        alpha: number(node.prop("alpha")),
        dropout: number(node.prop("dropout")),
        targets: words(node.prop("targets")),
    }
}

fn quantize(node: &Node) -> Quantize {
    Quantize {
        span: node.name.span,
        kind: text(node.arg(0)),
        double: super::pick::boolean(node.prop("double")),
        compute: text(node.prop("compute")),
    }
}

fn cluster(node: &Node) -> Cluster {
    let volume = node.child("volume");
    let nodes = whole(node.prop("nodes"));
    let groups: Vec<InstanceGroup> = node
        .children_named("group")
        .map(|group| InstanceGroup {
            span: group.name.span,
            name: text(group.arg(0)),
            instance: text(group.prop("instance")),
            nodes: whole(group.prop("nodes")),
        })
        .collect();
    let nodes = if groups.is_empty() { nodes.or_default(default::NODES.0, default::NODES.1) } else { nodes };
    Cluster {
        span: node.name.span,
        instance: text(node.arg(0)),
        nodes,
        volume_bytes: bytes(first(volume)).or_default(default::VOLUME_BYTES.0, default::VOLUME_BYTES.1),
        volume_kms: text(volume.and_then(|n| n.prop("kms"))),
        max_run_seconds: seconds(first(node.child("max-run")))
            .or_default(default::MAX_RUN_SECONDS.0, default::MAX_RUN_SECONDS.1),
        max_pending_seconds: seconds(first(node.child("max-pending"))),
        spot: node.child("spot").map(|n| Spot {
            span: n.name.span,
            max_wait_seconds: seconds(n.prop("max-wait")),
            interruptions_per_hour: number(n.prop("interruptions-per-hour")),
        }),
        warm_pool_seconds: seconds(first(node.child("warm-pool"))),
        retry: whole(first(node.child("retry"))),
        training_plan: text(first(node.child("training-plan"))),
        placement: node.child("placement").map(|n| Placement {
            span: n.name.span,
            multiple_jobs: super::pick::boolean(n.prop("multiple-jobs")),
            ultra_servers: n
                .children_named("ultra-server")
                .filter_map(|server| {
                    let id = Val::written(server.first_text()?.to_owned(), server.arg(0)?.span);
                    Some((id, whole(server.prop("instances"))))
                })
                .collect(),
        }),
        groups,
        gpu: node.child("gpu").map(|n| CustomGpu {
            span: n.name.span,
            name: text(n.arg(0)),
            per_node: whole(n.prop("per-node")),
        }),
        intra_bytes_per_second: rate(first(node.child("intra"))),
        inter_bytes_per_second: rate(first(node.child("inter"))),
        ranks: whole(first(node.child("ranks"))),
        node_mtbf_seconds: seconds(first(node.child("node-mtbf"))),
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
        precision: text(first(node.child("precision"))),
        sequence_length: whole(first(node.child("sequence-length"))),
        micro_batch_size: whole(first(node.child("micro-batch"))),
        accumulation: whole(first(node.child("accumulation"))),
        global_batch: whole(first(node.child("global-batch"))),
        activation_checkpointing: checkpointing,
        flash_attention: switch(node.child("flash-attention")),
        optimizer: node.child("optimizer").map(|n| optimizer(n, problems)),
        steps: whole(first(node.child("steps"))),
        tokens: whole(first(node.child("tokens"))),
        epochs: number(first(node.child("epochs"))),
        dataset: node.child("dataset").map(|n| Dataset {
            span: n.name.span,
            sequences: whole(n.prop("sequences")),
            tokens: whole(n.prop("tokens")),
            size_bytes: bytes(n.prop("size")),
        }),
        seed: whole(first(node.child("seed"))),
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
        hyperparameters: node
            .children_named("hyperparameter")
            .filter_map(|n| {
                let name = n.first_text()?.to_owned();
                Some(Hyperparameter { name, name_span: n.arg(0)?.span, value: scalar(n.arg(1)) })
            })
            .collect(),
        environment: pairs(node.children_named("environment")),
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
        dependencies: node.children_named("dependency").flat_map(|n| texts(Some(n))).collect(),
        entrypoint: texts(node.child("entrypoint")),
        arguments: texts(node.child("arguments")),
    }
}

fn image(node: &Node) -> ImageAsk {
    ImageAsk {
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
        subnets: texts(subnets),
        security_groups: texts(groups),
        subnets_span: subnets.map(|n| n.name.span),
        security_groups_span: groups.map(|n| n.name.span),
        isolation: switch(node.child("isolation")),
        encrypt_traffic: switch(node.child("encrypt-traffic")),
    }
}

fn member(node: &Node) -> RequestMember {
    RequestMember { name: node.name.value.clone(), span: node.name.span, value: raw(node) }
}

/// One argument is a scalar, several are a list; `-` children are a list, other children and properties an object.
fn raw(node: &Node) -> Raw {
    let scalars = || node.args.iter().map(single);
    if node.children.is_empty() && node.props.is_empty() {
        return match node.args.as_slice() {
            [] => Raw::Object(Vec::new()),
            [one] => single(one),
            _ => Raw::List(scalars().collect()),
        };
    }
    if !node.children.is_empty() && node.children.iter().all(|child| child.name.value == "-") {
        return Raw::List(scalars().chain(node.children.iter().map(raw)).collect());
    }
    let props = node.props.iter().map(|(key, value)| RequestMember {
        name: key.value.clone(),
        span: key.span,
        value: single(value),
    });
    Raw::Object(props.chain(node.children.iter().map(member)).collect())
}

fn single(value: &Spanned<Value>) -> Raw {
    Raw::Scalar(Spanned::new(super::pick::scalar_of(&value.value).unwrap_or(Scalar::Null), value.span))
}

/// How often a checkpoint is written.
pub(super) fn every(written: super::pick::Written) -> Field<Every> {
    match written {
        None => Field::Absent,
        Some(spanned) => {
            let value = match &spanned.value {
                Value::Steps(n) => Every::Steps(*n),
                Value::Milliseconds(_) => match milliseconds(written).get() {
                    Some(ms) => Every::Seconds(ms.div_ceil(1_000)),
                    None => return Field::Bad,
                },
                Value::Text(_) => Every::Optimal,
                _ => return Field::Bad,
            };
            Field::Is(Val { value, origin: Origin::Written(spanned.span) })
        }
    }
}

/// Keeps the span type in one place for the readers beside this file.
pub(super) fn blame(node: &Node) -> Span {
    node.name.span
}
