//! Checks of a config's values. All problems are reported at once.

use super::{
    AttentionKernels, Backend, Config, Format, NormKind, Offload, PositionKind, SCHEMA, ScalingKind,
    ScheduleKind,
};

/// A problem with a config.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON path of the field.
    pub path: String,
    /// Description of the problem.
    pub message: String,
}

/// Returns whether a shell can set a variable of this name: letters, digits and underscores, not starting
/// with a digit.
fn is_variable_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns the problems that a config has only on GPUs; `--ranks` trains it on CPU ranks.
pub fn check_gpus(c: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    if c.precision.compute != Format::Bf16 {
        let message = "GPUs require `bf16`: PyTorch's attention kernels do not support f32".to_owned();
        problems.push(Problem { path: "precision.compute".to_owned(), message });
    }
    let dim = c.model.head_dim;
    if !dim.is_multiple_of(8) || dim > 256 {
        let message = format!("{dim} is not a multiple of 8 up to 256, as the kernels of attention require");
        problems.push(Problem { path: "model.head_dim".to_owned(), message });
    }
    let attention = c.gpu.attention;
    if attention == AttentionKernels::Cudnn && dim > crate::aten::CUDNN_HEAD {
        let most = crate::aten::CUDNN_HEAD;
        let message =
            format!("`cudnn` supports heads of at most {most} elements, but `model.head_dim` is {dim}");
        problems.push(Problem { path: "gpu.attention".to_owned(), message });
    }
    problems
}

/// Returns all problems, in the order of the schema.
pub fn check(c: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut need = |holds: bool, path: &str, message: String| {
        if !holds {
            problems.push(Problem { path: path.to_owned(), message });
        }
    };
    need(c.schema == SCHEMA, "schema", format!("`{}` is not `{SCHEMA}`", c.schema));
    need(
        c.digest.len() == 64 && c.digest.bytes().all(|b| b.is_ascii_hexdigit()),
        "digest",
        "not a SHA-256 digest in hexadecimal".to_owned(),
    );
    let m = &c.model;
    let text = |path: &'static str, text: &str| (path, Some(text.to_owned()));
    for (path, text) in [
        text("job", &c.job),
        text("cluster.instance", &c.cluster.instance),
        ("model.weights", m.weights.clone()),
        text("data.train", &c.data.train),
        ("data.validation", c.data.validation.clone()),
        text("checkpoint.directory", &c.checkpoint.directory),
        text("checkpoint.resume", &c.checkpoint.resume),
        text("output.model", &c.output.model),
        text("output.data", &c.output.data),
        text("output.failure", &c.output.failure),
    ] {
        let text = text.as_deref();
        need(text.is_none_or(|text| !text.trim().is_empty()), path, "must not be empty".to_owned());
        need(text.is_none_or(|text| !text.contains('\0')), path, "contains a NUL byte".to_owned());
    }
    for (name, value) in &c.communication.environment {
        let path = format!("communication.environment.{name}");
        need(is_variable_name(name), &path, format!("`{name}` is not a valid environment variable name"));
        need(!value.contains('\0'), &path, "contains a NUL byte".to_owned());
    }
    // Bounds far above any model, so that no product of these values overflows.
    for (path, count, power) in [
        ("cluster.nodes", c.cluster.nodes, 16),
        ("mesh.shard_degree", c.mesh.shard_degree, 16),
        ("mesh.data_parallel_replicas", c.mesh.data_parallel_replicas, 16),
        ("model.vocab_size", m.vocab_size, 31),
        ("model.hidden_size", m.hidden_size, 20),
        ("model.intermediate_size", m.intermediate_size, 22),
        ("model.layers", m.layers, 12),
        ("model.heads", m.heads, 12),
        ("model.kv_heads", m.kv_heads, 12),
        ("model.head_dim", m.head_dim, 12),
        ("model.sequence_length", m.sequence_length, 22),
        ("batch.micro", c.batch.micro, 16),
        ("batch.accumulation", c.batch.accumulation, 20),
        ("batch.global_sequences", c.batch.global_sequences, 32),
        ("schedule.steps", c.schedule.steps, 40),
        ("checkpoint.keep", c.checkpoint.keep, 20),
        ("log.every_steps", c.log.every_steps, 40),
    ] {
        need((1..=1 << power).contains(&count), path, format!("{count} is not between 1 and 2^{power}"));
    }
    if !problems.is_empty() {
        return problems;
    }
    let mut need = |holds: bool, path: &str, message: String| {
        if !holds {
            problems.push(Problem { path: path.to_owned(), message });
        }
    };
    let ranks = c.mesh.shard_degree.saturating_mul(c.mesh.data_parallel_replicas);
    if c.cluster.gpus_per_node > 0 {
        let gpus = c.cluster.nodes.saturating_mul(c.cluster.gpus_per_node);
        need(
            ranks == gpus,
            "mesh",
            format!(
                "{} shards x {} replicas = {ranks} ranks, but {} nodes x {} GPUs = {gpus}",
                c.mesh.shard_degree, c.mesh.data_parallel_replicas, c.cluster.nodes, c.cluster.gpus_per_node
            ),
        );
    }
    need(
        m.heads.is_multiple_of(m.kv_heads),
        "model.kv_heads",
        format!("{} query heads are not divisible by {} key and value heads", m.heads, m.kv_heads),
    );
    need(m.vocab_size < 1 << 31, "model.vocab_size", format!("{} is not below 2^31", m.vocab_size));
    need(
        m.initializer_range > 0.0 && m.initializer_range < 10.0,
        "model.initializer_range",
        format!("{} is not between 0 and 10", m.initializer_range),
    );
    need(
        m.norm.kind == NormKind::Layer || m.biases == super::Biases::None,
        "model.biases",
        "biases are unsupported with an RMS norm".to_owned(),
    );
    let p = &m.positions;
    match p.kind {
        PositionKind::Learned => {
            need(p.theta.is_none(), "model.positions.theta", "must be null for learned positions".to_owned());
            need(
                p.fraction.is_none(),
                "model.positions.fraction",
                "must be null for learned positions".to_owned(),
            );
        }
        PositionKind::Rotary => {
            need(
                p.theta.is_some_and(|t| t > 0.0 && t.is_finite()),
                "model.positions.theta",
                "rotary positions require a base above 0".to_owned(),
            );
            need(
                p.fraction.is_some_and(|f| {
                    f > 0.0 && f <= 1.0 && {
                        let rotated = (f * m.head_dim as f64).floor();
                        rotated % 2.0 == 0.0 && rotated > 0.0
                    }
                }),
                "model.positions.fraction",
                format!(
                    "with rotary positions, `fraction` must select an even, nonzero number of \
                        the head's {} elements",
                    m.head_dim
                ),
            );
        }
    }
    if let Some(s) = &p.scaling {
        let (llama3, linear) = (s.kind == ScalingKind::Llama3, s.kind == ScalingKind::Linear);
        need(
            p.kind == PositionKind::Rotary,
            "model.positions.scaling",
            "only valid with rotary positions".to_owned(),
        );
        need(
            s.factor >= 1.0 && s.factor.is_finite(),
            "model.positions.scaling.factor",
            format!("{} is not a number of at least 1", s.factor),
        );
        let bounds = s.low_frequency_factor.zip(s.high_frequency_factor);
        need(
            if llama3 {
                bounds.is_some_and(|(low, high)| low > 0.0 && high > low)
            } else {
                s.low_frequency_factor.is_none() && s.high_frequency_factor.is_none()
            },
            "model.positions.scaling",
            "`llama3` requires 0 < `low_frequency_factor` < `high_frequency_factor`; both must \
                be null for other kinds"
                .to_owned(),
        );
        need(
            s.original_positions.is_some_and(|n| n > 0) != linear,
            "model.positions.scaling.original_positions",
            "required for `dynamic` and `llama3`, must be null for `linear`".to_owned(),
        );
    }
    if let Some(a) = &m.adapter {
        need(a.kind == "lora", "model.adapter.kind", format!("`{}` is not `lora`", a.kind));
        need(
            (1..=m.hidden_size).contains(&a.rank),
            "model.adapter.rank",
            format!("{} is not between 1 and {}", a.rank, m.hidden_size),
        );
        need(
            a.alpha > 0.0 && a.alpha.is_finite(),
            "model.adapter.alpha",
            format!("{} is not above 0", a.alpha),
        );
        need(
            a.dropout == 0.0,
            "model.adapter.dropout",
            format!(
                "{}: only 0 is supported, because adapters are added to the weights before each pass",
                a.dropout
            ),
        );
        let missing = crate::model::adapter::unknown_targets(m);
        need(
            missing.is_empty() && !a.targets.is_empty(),
            "model.adapter.targets",
            format!(
                "{}: this model family has the modules {}",
                if missing.is_empty() { "no target given".to_owned() } else { missing.join(", ") },
                crate::model::adapter::module_names(m.family).join(", ")
            ),
        );
        need(m.weights.is_some(), "model.weights", "`model.adapter` requires pretrained weights".to_owned());
    }
    need(
        crate::fsdp::topology(c).fits_two_steps(),
        "mesh.shard_degree",
        format!(
            "{} shards x {} replicas on {} hosts: each host must hold whole shard groups, or \
                each shard group whole hosts",
            c.mesh.shard_degree, c.mesh.data_parallel_replicas, c.cluster.nodes
        ),
    );
    need(
        c.memory.prefetch <= m.layers + 2,
        "memory.prefetch",
        format!("{} exceeds the number of units in the model", c.memory.prefetch),
    );
    need(
        c.memory.offload == Offload::None,
        "memory.offload",
        "`cpu` is unsupported: GPUs keep their states in GPU memory, and CPU ranks in host memory already"
            .to_owned(),
    );
    let product = c.batch.micro.saturating_mul(c.batch.accumulation).saturating_mul(ranks);
    need(
        product == c.batch.global_sequences,
        "batch.global_sequences",
        format!(
            "{} is not {} x {} x {ranks} ranks = {product}",
            c.batch.global_sequences, c.batch.micro, c.batch.accumulation
        ),
    );
    need(
        (c.schedule.steps as u64).checked_mul(c.batch.global_sequences as u64).is_some_and(|n| n < 1 << 62),
        "schedule.steps",
        format!(
            "{} steps of {} sequences overflow the sequence counter",
            c.schedule.steps, c.batch.global_sequences
        ),
    );
    let o = &c.optimizer;
    for (path, value) in [("optimizer.beta1", o.beta1), ("optimizer.beta2", o.beta2)] {
        need((0.0..1.0).contains(&value), path, format!("{value} is not in [0, 1)"));
    }
    for (path, value) in [
        ("optimizer.learning_rate", o.learning_rate),
        ("optimizer.weight_decay", o.weight_decay),
        ("schedule.minimum_learning_rate", c.schedule.minimum_learning_rate),
        ("checkpoint.grace_seconds", c.checkpoint.grace_seconds),
    ] {
        need((0.0..1e9).contains(&value), path, format!("{value} is not a number from 0 to 1e9"));
    }
    for (path, value) in [("optimizer.eps", o.eps), ("model.norm.eps", m.norm.eps)] {
        need(
            (f64::from(f32::MIN_POSITIVE)..1.0).contains(&value),
            path,
            format!("{value} is not between 1.2e-38, the smallest normal f32, and 1"),
        );
    }
    let least = c.schedule.minimum_learning_rate;
    need(
        least <= o.learning_rate,
        "schedule.minimum_learning_rate",
        format!("{least} exceeds `optimizer.learning_rate`, which is {}", o.learning_rate),
    );
    need(
        least == 0.0 || c.schedule.kind != ScheduleKind::Constant,
        "schedule.minimum_learning_rate",
        format!("{least}: must be 0 for a `constant` schedule"),
    );
    need(o.clip_norm.is_none_or(|n| n > 0.0), "optimizer.clip_norm", "must be above 0".to_owned());
    need(
        c.schedule.warmup_steps <= c.schedule.steps,
        "schedule.warmup_steps",
        format!("{} exceeds `schedule.steps`, which is {}", c.schedule.warmup_steps, c.schedule.steps),
    );
    need(c.data.epochs.is_none_or(|e| e > 0), "data.epochs", "must be at least 1".to_owned());
    need(
        c.log.evaluate_every_steps.is_none() || c.data.validation.is_some(),
        "log.evaluate_every_steps",
        "requires `data.validation`, which is null".to_owned(),
    );
    need(
        c.data.validation.is_none() || c.log.evaluate_every_steps.is_some(),
        "data.validation",
        "requires `log.evaluate_every_steps`, which is null".to_owned(),
    );
    need(
        c.communication.backend != Backend::SharedMemory || c.cluster.nodes == 1,
        "communication.backend",
        format!("`shared-memory` requires a single host, but `cluster.nodes` is {}", c.cluster.nodes),
    );
    for (path, value) in [
        ("communication.join_seconds", Some(c.communication.join_seconds)),
        ("communication.peer_dead_seconds", Some(c.communication.peer_dead_seconds)),
        ("communication.collective_seconds", Some(c.communication.collective_seconds)),
        ("checkpoint.every_seconds", c.checkpoint.every_seconds),
        ("limits.max_seconds", c.limits.max_seconds),
        ("limits.max_loss", c.limits.max_loss),
    ] {
        need(value.is_none_or(|v| v > 0.0 && v < 1e9), path, "must be a number above 0".to_owned());
    }
    for (path, value) in
        [("gpu.peak_flops", c.gpu.peak_flops), ("gpu.network_bytes_per_s", c.gpu.network_bytes_per_s)]
    {
        need(value.is_none_or(|v| v > 0.0 && v.is_finite()), path, "must be a number above 0".to_owned());
    }
    let least = if c.cluster.nodes > 1 { 3.0 } else { 1.0 };
    need(
        c.communication.peer_dead_seconds >= least,
        "communication.peer_dead_seconds",
        format!(
            "{} is less than {least}, the shortest timeout that the heartbeat interval allows",
            c.communication.peer_dead_seconds
        ),
    );
    need(
        (1..=1000).contains(&c.checkpoint.max_age_intervals),
        "checkpoint.max_age_intervals",
        format!("{} is not between 1 and 1000", c.checkpoint.max_age_intervals),
    );
    need(c.checkpoint.every_steps != Some(0), "checkpoint.every_steps", "must be at least 1".to_owned());
    need(c.log.evaluate_every_steps != Some(0), "log.evaluate_every_steps", "must be at least 1".to_owned());
    need(
        c.communication.backend != Backend::Nccl || c.cluster.gpus_per_node > 0,
        "communication.backend",
        "`nccl` requires GPUs, but `cluster.gpus_per_node` is 0".to_owned(),
    );
    problems
}
