//! Plans the settings of engine `worker`: network, optimizer and schedule. Reports unsupported models and
//! settings before a container is paid for.

use super::worker_network::{DetailsSource, worker_model};
use trainc_catalog::worker_gpu;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems};
use trainc_ir::hardware::{AcceleratorKind, Instance};
use trainc_ir::worker::{
    TRAIN_CHANNEL, WEIGHTS_CHANNEL, Worker, WorkerModel, WorkerOptimizer, WorkerRunSettings, WorkerSchedule,
};
use trainc_ir::{
    Field, Job, Machine, Model, ModelFacts, Optimizer, Parallel, Recompute, Run, Scalar, SourceFile, Val,
    Warmup,
};

declare_code!(
    T0540,
    "worker-unsupported-model",
    Error,
    "a model that engine `worker` does not support",
    ends: Speed
);
declare_code!(
    T0541,
    "worker-unsupported-setting",
    Error,
    "a setting that engine `worker` does not support",
    ends: Speed
);
declare_code!(T0542, "worker-without-data", Error, "engine `worker` without a training data channel");
declare_code!(T0543, "worker-missing-setting", Error, "a missing setting that engine `worker` requires");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0540, &T0541, &T0542, &T0543];

/// The GPUs of the ranks.
#[derive(Clone, Copy)]
pub(super) struct Gpu {
    /// False if they do not support bf16: the precision rule reports it, and no other precision would do.
    has_bf16: bool,
}

impl Gpu {
    /// Returns the GPUs of a machine; `None` for ranks on CPUs, and for Trainium, which the worker does not
    /// support.
    pub(super) fn from_machine(machine: Option<&Machine>, instance: Option<&Instance>) -> Option<Self> {
        let machine = machine.filter(|machine| machine.gpu.is_some())?;
        let trainium = instance.is_some_and(|row| row.accelerator.kind == AcceleratorKind::Trainium);
        (!trainium).then_some(Self { has_bf16: machine.bf16 != Some(false) })
    }
}

/// Returns the worker's settings; `None` for other engines or if a problem was reported.
pub(super) fn worker(
    job: &Job,
    model: Option<&ModelFacts>,
    gpu: Option<Gpu>,
    run: &Run,
    binary: Option<SourceFile>,
    problems: &mut Problems,
) -> Option<Worker> {
    let parallel = job.parallel.as_ref().filter(|_| trainc_engine::runs_worker(job))?;
    let before = problems.errors();
    let network = network(job, model, problems);
    if gpu.is_some() {
        check_head_dim(job, model, problems);
    }
    check_precision(job, parallel, gpu, problems);
    check_settings(job, parallel, model, problems);
    check_data(job, parallel, problems);
    check_required_settings(job, parallel, problems);
    if problems.errors() > before {
        return None;
    }
    let optimizer = job.train.optimizer.as_ref()?;
    let learning_rate = optimizer.lr.val()?.clone();
    let steps = run.steps.as_ref()?.value;
    let schedule = schedule(optimizer, steps);
    if schedule.warmup_steps.value > steps {
        problems.push(
            Diagnostic::new(
                &T0541,
                optimizer.warmup.span().unwrap_or(optimizer.span),
                format!(
                    "warm-up of {} in a run of {}: `lr` would never be reached",
                    text::count(schedule.warmup_steps.value, "step"),
                    text::count(steps, "step")
                ),
            )
            .help("write fewer warm-up steps, or a fraction such as `warmup=0.05`"),
        );
        return None;
    }
    if let Some(problem) = check_rates(optimizer, learning_rate.value, &schedule) {
        problems.push(problem);
        return None;
    }
    Some(Worker {
        model: network?,
        schedule,
        optimizer: WorkerOptimizer {
            learning_rate,
            betas: written_or_default(&optimizer.betas, (0.9, 0.999), "PyTorch default of AdamW"),
            eps: written_or_default(&optimizer.eps, 1e-8, "PyTorch default of AdamW"),
            weight_decay: written_or_default(&optimizer.weight_decay, 0.01, "PyTorch default of AdamW"),
            clip_norm: optimizer.clip.val().cloned(),
        },
        bf16: match job.train.precision.val() {
            Some(val) => Val { value: val.value == "bf16", origin: val.origin.clone() },
            None => Val::default(false, "fp32 unless set"),
        },
        reduce_bf16: match text_option(parallel, "reduce") {
            Some((text, span)) => Val::written(text == "bf16", span),
            None => Val::default(false, "gradients are reduced in fp32"),
        },
        recompute: match job.train.activation_checkpointing.val() {
            Some(val) => Val { value: val.value == Recompute::Full, origin: val.origin.clone() },
            None => Val::default(false, "no recomputation unless set"),
        },
        prefetch: match option(parallel, "prefetch") {
            Some((Scalar::Int(units), span)) => Val::written(u64::try_from(*units).unwrap_or(1), span),
            _ => Val::default(1, "one unit ahead"),
        },
        reshard_after_forward: switch_option(parallel, "reshard-after-forward", true, "full sharding"),
        offload: switch_option(parallel, "offload", false, "optimizer states are not offloaded"),
        document_mask: switch_option(parallel, "document-mask", false, "attention sees the whole sequence"),
        attention: match text_option(parallel, "attention") {
            Some((text, span)) => Val::written(text.to_owned(), span),
            None => Val::default("auto".to_owned(), "the worker chooses by GPU and head"),
        },
        self_check_ends_run: match text_option(parallel, "self-check") {
            Some((text, span)) => Val::written(text == "enforce", span),
            None => Val::default(true, "a failed self-check ends the run"),
        },
        accept_changes: switch_option(
            parallel,
            "accept-changes",
            false,
            "a run resumes with the same settings",
        ),
        keep: match job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.keep.val()) {
            Some(val) => val.clone(),
            None => Val::default(2, "keeps a complete checkpoint while the next is written"),
        },
        seed: written_or_default(&job.train.seed, 0, "seed 0"),
        run: WorkerRunSettings::default(),
        binary,
    })
}

fn written_or_default<T: Clone>(field: &Field<T>, value: T, rule: &'static str) -> Val<T> {
    field.val().cloned().unwrap_or_else(|| Val::default(value, rule))
}

fn schedule(optimizer: &Optimizer, steps: u64) -> WorkerSchedule {
    let warmup_steps = match optimizer.warmup.val() {
        Some(Val { value: Warmup::Steps(steps), origin }) => Val { value: *steps, origin: origin.clone() },
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
        Some(Val { value: Warmup::Fraction(part), .. }) => Val::derived(
            (steps as f64 * part).round() as u64,
            format!("warmup {part} of {} steps", text::group_digits(steps)),
        ),
        None => Val::default(0, "no warm-up"),
    };
    WorkerSchedule {
        kind: written_or_default(&optimizer.schedule, "constant".to_owned(), "constant learning rate"),
        warmup_steps,
        minimum_learning_rate: written_or_default(&optimizer.min_lr, 0.0, "decays to 0"),
    }
}

/// Reports learning rates and epsilon that the worker's config does not allow.
fn check_rates(optimizer: &Optimizer, peak: f64, schedule: &WorkerSchedule) -> Option<Diagnostic> {
    if let Some(least) = optimizer.min_lr.val().filter(|least| least.value > 0.0) {
        let span = least.span_or(optimizer.span);
        if least.value > peak {
            let message = "`min-lr` is above `lr`: the learning rate would rise during the run";
            return Some(Diagnostic::new(&T0541, span, message).help("write a `min-lr` below `lr`"));
        }
        if schedule.kind.value == "constant" {
            let message = "`min-lr` is not supported with a constant schedule";
            let help = Help::remove("min-lr").or_write("schedule=\"cosine\"");
            return Some(Diagnostic::new(&T0541, span, message).help(help));
        }
    }
    let eps = optimizer.eps.val().filter(|eps| !(f64::from(f32::MIN_POSITIVE)..1.0).contains(&eps.value))?;
    let message = "`eps` is out of range: expected 1.2e-38 (the smallest normal fp32 number) to below 1";
    Some(Diagnostic::new(&T0541, eps.span_or(optimizer.span), message).write("eps=1e-8"))
}

fn option<'a>(parallel: &'a Parallel, name: &str) -> Option<(&'a Scalar, Span)> {
    let option = parallel.options.iter().find(|option| option.name == name)?;
    let val = option.value.val()?;
    Some((&val.value, val.span_or(option.span)))
}

fn text_option<'a>(parallel: &'a Parallel, name: &str) -> Option<(&'a str, Span)> {
    match option(parallel, name)? {
        (Scalar::Text(text), span) => Some((text, span)),
        _ => None,
    }
}

fn switch_option(parallel: &Parallel, name: &str, otherwise: bool, rule: &'static str) -> Val<bool> {
    match option(parallel, name) {
        Some((Scalar::Bool(on), span)) => Val::written(*on, span),
        _ => Val::default(otherwise, rule),
    }
}

/// Returns the network of the worker, or reports why the model is not supported.
fn network(job: &Job, facts: Option<&ModelFacts>, problems: &mut Problems) -> Option<WorkerModel> {
    let (written, facts) = (job.model.as_ref(), facts?);
    let span = written.map_or(job.span, |model| model.name.span().unwrap_or(model.span));
    let Some(architecture) = &facts.architecture else {
        problems.push(
            Diagnostic::new(
                &T0540,
                span,
                "engine `worker` requires the architecture of the model; only its size is known",
            )
            .help(
                "use a model of the catalogue, or write an architecture with `hidden`, `layers`, \
                    `heads`, `ffn` and `vocab`",
            ),
        );
        return None;
    };
    let source = DetailsSource::new(written, facts);
    let sequence_length = job.train.sequence_length.get().unwrap_or(0);
    match worker_model(architecture, facts.class, &facts.details, source, sequence_length) {
        Ok(parts) => Some(parts),
        Err(why) => {
            problems.push(unsupported_model(written, span, &why));
            None
        }
    }
}

fn unsupported_model(written: Option<&Model>, span: Span, why: &str) -> Diagnostic {
    let name = written.and_then(|model| model.name.value()).map_or("this model", String::as_str);
    Diagnostic::new(&T0540, span, format!("engine `worker` cannot train `{name}`: unsupported {why}"))
        .help(
            "write `parallel engine=\"fsdp\"` and a `program`, or train a Llama, Mistral, GPT-2 or \
            GPT-NeoX model",
        )
        .note(
            "supported are decoder-only transformers of the Llama, GPT-2 and GPT-NeoX families \
            (schemas/worker.v1.json)",
        )
}

/// Reports attention heads that the flash attention kernels for GPUs do not support.
fn check_head_dim(job: &Job, model: Option<&ModelFacts>, problems: &mut Problems) {
    let (Some(dims), Some(written)) = (worker_gpu::head_dims(), job.model.as_ref()) else { return };
    let architecture = model.and_then(|model| model.architecture.as_ref());
    let Some(a) = architecture.filter(|a| !dims.contains(a.head_dim)) else { return };
    let heads = written.dimensions.iter().find(|(name, _)| *name == "heads").map(|(_, heads)| heads);
    let span = heads
        .map_or_else(|| written.name.span().unwrap_or(written.span), |heads| heads.span_or(written.span));
    let name = written.name.value().map_or("this model", String::as_str);
    let has_kv_heads = written.dimensions.iter().any(|(name, _)| *name == "kv-heads");
    let fitting = |heads: u64| a.hidden.is_multiple_of(heads) && dims.contains(a.hidden / heads);
    let nearest = (1..=a.hidden).filter(|heads| fitting(*heads)).min_by_key(|near| near.abs_diff(a.heads));
    let help = match nearest.filter(|_| heads.is_some() && !has_kv_heads) {
        Some(nearest) => {
            Help::write(format!("heads {nearest}")).or_else("`parallel engine=\"fsdp\"` and a `program`")
        }
        None => Help::from("write `parallel engine=\"fsdp\"` and a `program`"),
    };
    problems.push(
        Diagnostic::new(
            &T0540,
            span,
            format!(
                "engine `worker` cannot train `{name}` on GPUs: its attention heads have \
                    dimension {}; expected a multiple of {}, at most {}",
                a.head_dim, dims.multiple, dims.most
            ),
        )
        .help(help)
        .note("the worker calls PyTorch's flash attention, whose kernels support no other dimension"),
    );
}

/// Reports a precision that the worker does not support; on GPUs it supports bf16 alone.
fn check_precision(job: &Job, parallel: &Parallel, gpu: Option<Gpu>, problems: &mut Problems) {
    let train = &job.train;
    let span = train.span.unwrap_or(parallel.span);
    let written = train.precision.val();
    let at = written.map_or(span, |written| written.span_or(span));
    let note = "see schemas/worker.v1.json for the supported settings";
    let kernels = "on GPUs the worker calls PyTorch's flash attention, whose kernels take 16-bit numbers \
        only; weights, gradients and optimizer states are in fp32";
    let diagnostic = match (written.map(|written| written.value.as_str()), gpu) {
        (Some("bf16"), _) | (_, Some(Gpu { has_bf16: false })) => return,
        (Some("fp16"), None) => {
            Diagnostic::new(&T0541, at, "engine `worker` does not support fp16, which requires loss scaling")
                .choose(
                    "write `precision \"bf16\"` or `precision \"fp32\"`",
                    &["bf16", "fp32"].map(|name| format!("precision \"{name}\"")),
                )
                .note(note)
        }
        (Some("fp16"), Some(_)) => {
            Diagnostic::new(&T0541, at, "engine `worker` does not support fp16, which requires loss scaling")
                .write("precision \"bf16\"")
                .note(note)
        }
        (Some(found), Some(_)) => {
            Diagnostic::new(&T0541, at, format!("engine `worker` supports only bf16 on GPUs; found {found}"))
                .write("precision \"bf16\"")
                .note(kernels)
        }
        (None, Some(_)) if train.precision.is_absent() => Diagnostic::new(
            &T0543,
            span,
            "engine `worker` requires `precision \"bf16\"` on GPUs; without `precision` it would be fp32",
        )
        .add("precision \"bf16\"")
        .note(kernels),
        _ => return,
    };
    problems.push(diagnostic);
}

fn check_settings(job: &Job, parallel: &Parallel, model: Option<&ModelFacts>, problems: &mut Problems) {
    let mut unsupported = |span: Span, message: String, help: Help| {
        problems.push(
            Diagnostic::new(&T0541, span, message)
                .help(help)
                .note("see schemas/worker.v1.json for the supported settings"),
        );
    };
    if let Some(optimizer) = &job.train.optimizer
        && let Some(name) =
            optimizer.name.val().filter(|val| !val.value.starts_with("adamw") || val.value.contains("8bit"))
    {
        unsupported(
            name.span_or(optimizer.span),
            format!(
                "engine `worker` does not support optimizer `{}`, only AdamW with fp32 states",
                name.value
            ),
            Help::write("optimizer \"adamw\""),
        );
    }
    let architecture = model.and_then(|model| model.architecture.as_ref());
    if let Some((Scalar::Int(units), span)) = option(parallel, "prefetch")
        && let Some(most) = architecture.map(|a| a.layers + 2)
        && !(0..=i128::from(most)).contains(units)
    {
        let message =
            format!("`prefetch` {units} is out of range: this model has {most} units, expected 0 to {most}");
        unsupported(span, message, Help::write("prefetch 1"));
    }
    let clip = job.train.optimizer.as_ref().and_then(|optimizer| optimizer.clip.val());
    if let Some(clip) = clip.filter(|clip| clip.value <= 0.0) {
        let message = "`clip` must be above 0: a limit of 0 sets every gradient to 0".to_owned();
        unsupported(clip.span_or(parallel.span), message, Help::remove("clip").or_write("clip=1.0"));
    }
    if let Some((Scalar::Bool(true), span)) = option(parallel, "offload") {
        unsupported(
            span,
            "engine `worker` does not support `offload`".to_owned(),
            Help::remove("offload").and_text("; a larger `shard-degree` also reduces memory"),
        );
    }
    let Some(adapter) = &job.adapter else { return };
    if let Some(dropout) = adapter.dropout.val().filter(|val| val.value > 0.0) {
        unsupported(
            dropout.span_or(adapter.span),
            "engine `worker` does not support adapter dropout: it merges adapters into the gathered weights"
                .to_owned(),
            Help::remove("dropout").or_write("dropout=0"),
        );
    }
    if let Some(alpha) = adapter.alpha.val().filter(|alpha| alpha.value <= 0.0) {
        let message = format!("`alpha` must be above 0; found {}", alpha.value);
        unsupported(alpha.span_or(adapter.span), message, Help::write("alpha=16"));
    }
    if let Some(rank) = adapter.rank.val()
        && let Some(most) = architecture.map(|a| a.hidden).filter(|most| rank.value > *most)
    {
        let message = format!("adapter `rank` {} exceeds the width of the model, {most}", rank.value);
        unsupported(rank.span_or(adapter.span), message, Help::write("rank=16"));
    }
    if !has_channel(job, WEIGHTS_CHANNEL) {
        unsupported(
            adapter.span,
            format!("`adapter` requires base weights from a channel `{WEIGHTS_CHANNEL}`, which is missing"),
            Help::add("channel \"model\" s3=\"s3://bucket/weights/\""),
        );
    }
}

fn has_channel(job: &Job, name: &str) -> bool {
    job.channels.iter().any(|channel| channel.name.value().is_some_and(|other| other == name))
}

fn check_data(job: &Job, parallel: &Parallel, problems: &mut Problems) {
    if has_channel(job, TRAIN_CHANNEL) || job.channels.iter().any(|channel| channel.name.is_bad()) {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0542,
            parallel.engine.span().unwrap_or(parallel.span),
            format!(
                "engine `worker` requires packed tokens from a channel `{TRAIN_CHANNEL}`, which is missing"
            ),
        )
        .add(format!("channel \"{TRAIN_CHANNEL}\" s3=\"s3://bucket/tokens/\""))
        .note("`trainc data pack` packs the tokens"),
    );
}

fn check_required_settings(job: &Job, parallel: &Parallel, problems: &mut Problems) {
    let train = &job.train;
    let span = train.span.unwrap_or(parallel.span);
    let mut require = |span: Span, what: &str, help: Help| {
        problems.push(Diagnostic::new(&T0543, span, format!("engine `worker` requires {what}")).help(help));
    };
    match &train.optimizer {
        None => {
            require(span, "an optimizer with its learning rate", Help::add("optimizer \"adamw\" lr=3e-4"));
        }
        Some(optimizer) if optimizer.lr.is_absent() => {
            require(optimizer.span, "a learning rate", Help::add("lr=3e-4"));
        }
        Some(_) => {}
    }
    if train.sequence_length.is_absent() {
        require(span, "a sequence length", Help::add("sequence-length 2048"));
    }
}
