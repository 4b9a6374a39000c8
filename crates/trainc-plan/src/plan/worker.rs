//! What engine `worker` is told: the network by its parts, the optimizer, the schedule. A model or a setting that the
//! worker does not have is refused here, not by a container that has already been paid for.

use super::network::{self, Source};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::worker::{
    TRAIN_CHANNEL, WEIGHTS_CHANNEL, Worker, WorkerModel, WorkerOptimizer, WorkerSchedule,
};
use trainc_ir::{
    Engine, Field, Job, Model, ModelFacts, Optimizer, Parallel, Recompute, Run, Scalar, SourceFile, Val,
    Warmup,
};

declare_code!(T0540, "worker-unsupported-model", Error, "a model that engine `worker` does not support");
declare_code!(T0541, "worker-unsupported-setting", Error, "a setting that engine `worker` does not support");
declare_code!(T0542, "worker-without-data", Error, "engine `worker` without a training data channel");
declare_code!(T0543, "worker-missing-setting", Error, "a missing setting that engine `worker` requires");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0540, &T0541, &T0542, &T0543];

/// The worker's side of a job; `None` for other engines, or where something is missing and was reported.
pub(super) fn worker(
    job: &Job,
    model: Option<&ModelFacts>,
    run: &Run,
    binary: Option<SourceFile>,
    problems: &mut Problems,
) -> Option<Worker> {
    let parallel = job.parallel.as_ref().filter(|parallel| parallel.engine.get() == Some(Engine::Worker))?;
    let before = problems.errors();
    let network = network(job, model, problems);
    settings(job, parallel, model, problems);
    data(job, parallel, problems);
    missing(job, parallel, problems);
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
                    "a warm-up of {} in a run of {}: the rate would never be reached",
                    text::count(schedule.warmup_steps.value, "step"),
                    text::count(steps, "step")
                ),
            )
            .help("write fewer steps of warm-up, or a fraction as `warmup=0.05`"),
        );
        return None;
    }
    if let Some(problem) = rates(optimizer, learning_rate.value, &schedule) {
        problems.push(problem);
        return None;
    }
    Some(Worker {
        model: network?,
        schedule,
        optimizer: WorkerOptimizer {
            learning_rate,
            betas: or(&optimizer.betas, (0.9, 0.999), "AdamW's usual decays"),
            eps: or(&optimizer.eps, 1e-8, "AdamW's usual epsilon"),
            weight_decay: or(&optimizer.weight_decay, 0.01, "PyTorch's AdamW"),
            clip_norm: optimizer.clip.val().cloned(),
        },
        bf16: match job.train.precision.val() {
            Some(val) => Val { value: val.value == "bf16", origin: val.origin.clone() },
            None => Val::default(false, "fp32 unless written"),
        },
        reduce_bf16: match word(parallel, "reduce") {
            Some((text, span)) => Val::written(text == "bf16", span),
            None => Val::default(false, "gradients are summed in fp32"),
        },
        recompute: match job.train.activation_checkpointing.val() {
            Some(val) => Val { value: val.value == Recompute::Full, origin: val.origin.clone() },
            None => Val::default(false, "nothing is recomputed unless written"),
        },
        prefetch: match option(parallel, "prefetch") {
            Some((Scalar::Int(units), span)) => Val::written(u64::try_from(*units).unwrap_or(1), span),
            _ => Val::default(1, "one unit ahead"),
        },
        reshard_after_forward: switch(parallel, "reshard-after-forward", true, "full sharding"),
        offload: switch(parallel, "offload", false, "states stay beside the parameters"),
        document_mask: switch(parallel, "document-mask", false, "attention sees the whole sequence"),
        keep: match job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.keep.val()) {
            Some(val) => val.clone(),
            None => Val::default(2, "one that is complete while the next is written"),
        },
        seed: or(&job.train.seed, 0, "seed 0"),
        binary,
    })
}

fn or<T: Clone>(field: &Field<T>, value: T, rule: &'static str) -> Val<T> {
    field.val().cloned().unwrap_or_else(|| Val::default(value, rule))
}

fn schedule(optimizer: &Optimizer, steps: u64) -> WorkerSchedule {
    let warmup_steps = match optimizer.warmup.val() {
        Some(Val { value: Warmup::Steps(steps), origin }) => Val { value: *steps, origin: origin.clone() },
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
        Some(Val { value: Warmup::Fraction(part), .. }) => Val::derived(
            (steps as f64 * part).round() as u64,
            format!("warmup {part} of {} steps", text::group(steps)),
        ),
        None => Val::default(0, "no warm-up"),
    };
    WorkerSchedule {
        kind: or(&optimizer.schedule, "constant".to_owned(), "a constant rate"),
        warmup_steps,
        minimum_learning_rate: or(&optimizer.min_lr, 0.0, "down to nothing"),
    }
}

/// Rates and divisors with which the worker's config would be refused.
fn rates(optimizer: &Optimizer, peak: f64, schedule: &WorkerSchedule) -> Option<Diagnostic> {
    if let Some(least) = optimizer.min_lr.val().filter(|least| least.value > 0.0) {
        let span = least.span_or(optimizer.span);
        if least.value > peak {
            let message = "`min-lr` is above `lr`: the rate would rise to the end of the run";
            return Some(Diagnostic::new(&T0541, span, message).help("write a `min-lr` below `lr`"));
        }
        if schedule.kind.value == "constant" {
            let message = "`min-lr` under a constant rate, which goes down to none";
            let help = "leave `min-lr` out, or write `schedule=\"cosine\"`";
            return Some(Diagnostic::new(&T0541, span, message).help(help));
        }
    }
    let eps = optimizer.eps.val().filter(|eps| !(f64::from(f32::MIN_POSITIVE)..1.0).contains(&eps.value))?;
    let message = "`eps` is not between 1.2e-38, the least that fp32 tells from 0, and 1";
    Some(Diagnostic::new(&T0541, eps.span_or(optimizer.span), message).help("write `eps=1e-8`"))
}

fn option<'a>(parallel: &'a Parallel, name: &str) -> Option<(&'a Scalar, Span)> {
    let option = parallel.options.iter().find(|option| option.name == name)?;
    let val = option.value.val()?;
    Some((&val.value, val.span_or(option.span)))
}

fn word<'a>(parallel: &'a Parallel, name: &str) -> Option<(&'a str, Span)> {
    match option(parallel, name)? {
        (Scalar::Text(text), span) => Some((text, span)),
        _ => None,
    }
}

fn switch(parallel: &Parallel, name: &str, otherwise: bool, rule: &'static str) -> Val<bool> {
    match option(parallel, name) {
        Some((Scalar::Bool(on), span)) => Val::written(*on, span),
        _ => Val::default(otherwise, rule),
    }
}

/// The network by its parts, or why the worker does not have it.
fn network(job: &Job, facts: Option<&ModelFacts>, problems: &mut Problems) -> Option<WorkerModel> {
    let (written, facts) = (job.model.as_ref(), facts?);
    let span = written.map_or(job.span, |model| model.name.span().unwrap_or(model.span));
    let Some(architecture) = &facts.architecture else {
        problems.push(
            Diagnostic::new(&T0540, span, "engine `worker` builds the network itself and knows only its size")
                .help("name a model of the catalogue, or write an architecture with `hidden`, `layers`, `heads`, `ffn` and `vocab`"),
        );
        return None;
    };
    let source = Source::of(written, facts);
    let sequence_length = job.train.sequence_length.get().unwrap_or(0);
    match network::parts(architecture, facts.class, &facts.details, source, sequence_length) {
        Ok(parts) => Some(parts),
        Err(why) => {
            problems.push(refused(written, span, &why));
            None
        }
    }
}

fn refused(written: Option<&Model>, span: Span, why: &str) -> Diagnostic {
    let name = written.and_then(|model| model.name.value()).map_or("this model", String::as_str);
    Diagnostic::new(&T0540, span, format!("engine `worker` has no {why}: it cannot train `{name}`"))
        .help("write `parallel engine=\"fsdp\"` with a program of your own, or train a Llama, Mistral, GPT-2 or GPT-NeoX model")
        .note("schemas/worker.v1.json: decoder-only transformers of the Llama, GPT-2 and GPT-NeoX families")
}

fn settings(job: &Job, parallel: &Parallel, model: Option<&ModelFacts>, problems: &mut Problems) {
    let mut refuse = |span: Span, message: String, help: &str| {
        problems.push(
            Diagnostic::new(&T0541, span, message)
                .help(help.to_owned())
                .note("schemas/worker.v1.json says what the worker takes"),
        );
    };
    if let Some(precision) = job.train.precision.val().filter(|val| val.value == "fp16") {
        refuse(
            precision.span_or(parallel.span),
            "engine `worker` has no fp16: it scales no losses".to_owned(),
            "write `precision \"bf16\"`, or `\"fp32\"`",
        );
    }
    if let Some(optimizer) = &job.train.optimizer
        && let Some(name) =
            optimizer.name.val().filter(|val| !val.value.starts_with("adamw") || val.value.contains("8bit"))
    {
        refuse(
            name.span_or(optimizer.span),
            format!("engine `worker` has AdamW with fp32 states, not `{}`", name.value),
            "write `optimizer \"adamw\"`",
        );
    }
    let architecture = model.and_then(|model| model.architecture.as_ref());
    if let Some((Scalar::Int(units), span)) = option(parallel, "prefetch")
        && let Some(most) = architecture.map(|a| a.layers + 2)
        && !(0..=i128::from(most)).contains(units)
    {
        let message =
            format!("engine `worker` gathers 0 to {most} units ahead, as many as there are; here {units}");
        refuse(span, message, "write `prefetch 1`");
    }
    let clip = job.train.optimizer.as_ref().and_then(|optimizer| optimizer.clip.val());
    if let Some(clip) = clip.filter(|clip| clip.value <= 0.0) {
        let message = "`clip` 0 would take every gradient away".to_owned();
        refuse(clip.span_or(parallel.span), message, "leave `clip` out, or write `clip=1.0`");
    }
    if let Some((Scalar::Bool(true), span)) = option(parallel, "offload") {
        refuse(
            span,
            "engine `worker` does not offload".to_owned(),
            "remove `offload`; a larger `shard-degree` needs less memory as well",
        );
    }
    let Some(adapter) = &job.adapter else { return };
    if let Some(dropout) = adapter.dropout.val().filter(|val| val.value > 0.0) {
        refuse(
            dropout.span_or(adapter.span),
            "engine `worker` adds adapters to the gathered weights, so nothing can be dropped from their input".to_owned(),
            "write `dropout=0`, or remove it",
        );
    }
    if let Some(alpha) = adapter.alpha.val().filter(|alpha| alpha.value <= 0.0) {
        let message = format!("`alpha` {} leaves the adapter without effect", alpha.value);
        refuse(alpha.span_or(adapter.span), message, "write `alpha=16`");
    }
    if let Some(rank) = adapter.rank.val()
        && let Some(most) = architecture.map(|a| a.hidden).filter(|most| rank.value > *most)
    {
        let message = format!("an adapter of rank {} on matrices of {most} columns", rank.value);
        refuse(rank.span_or(adapter.span), message, "write `rank=16`");
    }
    if !has_channel(job, WEIGHTS_CHANNEL) {
        refuse(
            adapter.span,
            format!("an adapter needs weights to sit on: there is no channel `{WEIGHTS_CHANNEL}`"),
            "add `channel \"model\" s3=\"s3://bucket/weights/\"`",
        );
    }
}

fn has_channel(job: &Job, name: &str) -> bool {
    job.channels.iter().any(|channel| channel.name.value().is_some_and(|other| other == name))
}

fn data(job: &Job, parallel: &Parallel, problems: &mut Problems) {
    let named =
        |name: &str| job.channels.iter().any(|channel| channel.name.value().is_some_and(|n| n == name));
    if named(TRAIN_CHANNEL) || job.channels.iter().any(|channel| channel.name.is_bad()) {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0542,
            parallel.engine.span().unwrap_or(parallel.span),
            format!(
                "engine `worker` reads packed tokens from a channel `{TRAIN_CHANNEL}`, and there is none"
            ),
        )
        .help(format!("add `channel \"{TRAIN_CHANNEL}\" s3=\"s3://bucket/tokens/\"`"))
        .note("`trainc data pack` makes the tokens"),
    );
}

fn missing(job: &Job, parallel: &Parallel, problems: &mut Problems) {
    let train = &job.train;
    let span = train.span.unwrap_or(parallel.span);
    let mut lack = |span: Span, what: &str, help: &str| {
        problems.push(
            Diagnostic::new(&T0543, span, format!("engine `worker` needs {what}")).help(help.to_owned()),
        );
    };
    match &train.optimizer {
        None => lack(span, "an optimizer with its learning rate", "add `optimizer \"adamw\" lr=3e-4`"),
        Some(optimizer) if optimizer.lr.is_absent() => {
            lack(optimizer.span, "a learning rate", "add `lr=3e-4`");
        }
        Some(_) => {}
    }
    if train.sequence_length.is_absent() {
        lack(span, "the sequence length", "add `sequence-length 2048`");
    }
}
