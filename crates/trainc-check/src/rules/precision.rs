//! Precision, recomputation and attention compared with the capabilities of GPU, container and engine.

use crate::Context;
use crate::queries::torchrun::is_trainium;
use trainc_catalog::images::version_key;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::job::Recompute;
use trainc_ir::engine::Bf16;
use trainc_ir::hardware::Instance;
use trainc_ir::{Parallel, Plan};
use trainc_predict::{Attention, Layout, System};

declare_code!(T0381, "bf16-unsupported", Error, "bf16 on a GPU that does not support it", ends: Speed);
declare_code!(T0382, "fp16-instead-of-bf16", Warning, "fp16 on a GPU that supports bf16");
declare_code!(
    T0383,
    "selective-checkpointing-unsupported",
    Error,
    "selective activation checkpointing on an engine that does not support it",
    ends: Speed
);
declare_code!(
    T0290,
    "selective-with-flash-attention",
    Note,
    "selective recomputation with flash attention, which recomputes nothing"
);
declare_code!(
    T0562,
    "fp8-unsupported",
    Error,
    "8-bit precision on a GPU that does not support it",
    ends: Speed
);
declare_code!(
    T0563,
    "recipe-without-fp8",
    Error,
    "a recipe for 8-bit products without 8-bit precision",
    ends: Speed
);
declare_code!(
    T0384,
    "flash-attention-unsupported",
    Error,
    "flash attention on a GPU or container that does not support it",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0290, &T0381, &T0382, &T0383, &T0384, &T0562, &T0563];

/// First PyTorch whose CUDA autocast supports bf16 (PyTorch 1.10 release notes).
const BF16_AUTOCAST: &str = "1.10";
/// First PyTorch with `scaled_dot_product_attention` (PyTorch 2.0 release notes).
const SDPA: &str = "2.0";
/// Minimum compute capability of FlashAttention: Ampere (Dao-AILab/flash-attention, README).
const FLASH_CAPABILITY: (u8, u8) = (8, 0);

/// Major compute capability of Hopper, for which FlashAttention 3 is written.
const HOPPER: u8 = 9;
/// Minimum compute capability of 8-bit products: Ada (Transformer Engine, `check_fp8_support`).
const FP8: (u8, u8) = (8, 9);
/// Minimum compute capability of scales per block in hardware: Blackwell (Transformer Engine,
/// `check_mxfp8_support`).
const BLOCK_SCALES: (u8, u8) = (10, 0);

/// Checks bf16, fp16, fp8, selective recomputation and flash attention.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    check_bf16(plan, problems);
    check_fp16(plan, problems);
    check_fp8(plan, problems);
    check_selective(plan, problems);
    check_selective_with_flash(plan, problems);
    check_flash(plan, problems);
}

fn gpu_name(plan: &Plan) -> &str {
    plan.machine.as_ref().and_then(|machine| machine.gpu.as_deref()).unwrap_or("this GPU")
}

fn label_gpu(plan: &Plan, diagnostic: Diagnostic) -> Diagnostic {
    match plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.span()) {
        Some(span) => diagnostic.label(span, gpu_name(plan).to_owned()),
        None => diagnostic,
    }
}

fn check_bf16(plan: &Plan, problems: &mut Problems) {
    if plan.machine.as_ref().and_then(|machine| machine.bf16) != Some(false) {
        return;
    }
    if let Some(parallel) = plan.job.parallel.as_ref().filter(|_| plan.is_worker()) {
        problems.push(bf16_of_worker(plan, parallel));
        return;
    }
    let train = &plan.job.train;
    let mut requests: Vec<(Span, &str)> = Vec::new();
    if let (Some(precision), Some(span)) =
        (train.precision.val().filter(|val| val.value == "bf16"), train.span)
    {
        requests.push((precision.span_or(span), "precision \"fp16\""));
    }
    if let Some(quantize) = &plan.job.quantize
        && let Some(compute) = quantize.compute.val().filter(|val| val.value == "bf16")
    {
        requests.push((compute.span_or(quantize.span), "compute=\"fp16\""));
    }
    for (span, instead) in requests {
        problems.push(label_gpu(
            plan,
            Diagnostic::new(&T0381, span, format!("{} does not support bf16, which requires Ampere or newer", gpu_name(plan)))
                .write(instead).or_else("use an instance type with bf16, e.g. `ml.g5` or `ml.p4d`")
                .note("transformers stops with \"Your setup doesn't support bf16/gpu\" \
                    (tatsu-lab/stanford_alpaca#133, databrickslabs/dolly#11)"),
        ));
    }
}

/// Returns whether the GPUs of an instance type support bf16, or the job does not need it.
pub(super) fn supports_instance(plan: &Plan, instance: &Instance) -> bool {
    let is_bf16 = |word: Option<&String>| word.is_some_and(|word| word == "bf16");
    let quantize = plan.job.quantize.as_ref();
    let needs_bf16 = plan.is_worker()
        || is_bf16(plan.job.train.precision.value())
        || quantize.is_some_and(|quantize| is_bf16(quantize.compute.value()));
    instance.accelerator.bf16 || !needs_bf16
}

/// Returns the problem of engine `worker`, which computes in no other precision on GPUs.
fn bf16_of_worker(plan: &Plan, parallel: &Parallel) -> Diagnostic {
    let instance = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.span());
    let engine = parallel.engine.span().unwrap_or(parallel.span);
    let diagnostic = Diagnostic::new(
        &T0381,
        instance.unwrap_or(engine),
        format!("{} does not support bf16, which engine `worker` requires on GPUs", gpu_name(plan)),
    )
    .help("use an instance type with Ampere GPUs or newer, e.g. `ml.g5.12xlarge` or `ml.p4d.24xlarge`")
    .note("the worker calls PyTorch's flash attention, whose kernels require compute capability 8.0 or \
        newer");
    if instance.is_some() { diagnostic.label(engine, "engine `worker`") } else { diagnostic }
}

fn check_fp16(plan: &Plan, problems: &mut Problems) {
    let train = &plan.job.train;
    let (Some(precision), Some(train_span)) =
        (train.precision.val().filter(|val| val.value == "fp16"), train.span)
    else {
        return;
    };
    let Some(parallel) = &plan.job.parallel else { return };
    if plan.machine.as_ref().and_then(|machine| machine.bf16) != Some(true) || is_trainium(plan) {
        return;
    }
    let supports_bf16 = match plan.engine.map_or(Bf16::No, |engine| engine.law.bf16) {
        Bf16::Yes => true,
        Bf16::WithShards => parallel.shard_degree.get().is_some_and(|degree| degree > 1),
        Bf16::No => false,
    };
    let pytorch = plan.image.as_ref().and_then(|image| image.pytorch.as_deref());
    if !supports_bf16 || pytorch.is_some_and(|version| version_key(version) < version_key(BF16_AUTOCAST)) {
        return;
    }
    problems.push(label_gpu(
        plan,
        Diagnostic::new(
            &T0382,
            precision.span_or(train_span),
            format!("fp16 on {}, which supports bf16 at the same speed", gpu_name(plan)),
        )
        .write("precision \"bf16\"")
        .note("bf16 has the range of fp32: no loss scaling and no steps skipped on overflow (rule of thumb)"),
    ));
}

/// Checks 8-bit precision and its recipe against the GPU.
fn check_fp8(plan: &Plan, problems: &mut Problems) {
    let train = &plan.job.train;
    let Some(train_span) = train.span else { return };
    let precision = train.precision.val();
    let is_fp8 = precision.is_some_and(|precision| precision.value == "fp8");
    if let Some(recipe) = train.recipe.val().filter(|_| !is_fp8 && !train.precision.is_bad()) {
        problems.push(
            Diagnostic::new(&T0563, recipe.span_or(train_span), "`recipe` is only valid with `precision \
                \"fp8\"`")
                .remove("recipe").or_write("precision \"fp8\""),
        );
    }
    let capability = plan.instance.as_ref().and_then(|row| row.accelerator.compute_capability);
    let (Some(precision), Some(capability)) = (precision.filter(|_| is_fp8 && !plan.is_worker()), capability) else {
        return;
    };
    let recipe = train.recipe.val().filter(|recipe| matches!(recipe.value.as_str(), "mxfp8" | "nvfp4"));
    let (what, needs, span, instead) = match recipe {
        Some(recipe) if capability < BLOCK_SCALES => {
            (recipe.value.as_str(), BLOCK_SCALES, recipe.span_or(train_span), "`ml.p6-b200.48xlarge`")
        }
        _ => ("fp8", FP8, precision.span_or(train_span), "`ml.g6` or `ml.p5`"),
    };
    if capability >= needs {
        return;
    }
    let ((major, minor), (least, point)) = (capability, needs);
    let message = format!(
        "{} does not support {what}: it has compute capability {major}.{minor}, but \
            {least}.{point} is required",
        gpu_name(plan)
    );
    problems.push(label_gpu(
        plan,
        Diagnostic::new(&T0562, span, message)
            .write("precision \"bf16\"").or_else(&format!("use an instance type with it, e.g. {instead}"))
            .note("see `check_fp8_support` and `check_mxfp8_support` of Transformer Engine"),
    ));
}

fn check_selective(plan: &Plan, problems: &mut Problems) {
    let Some(parallel) = plan.job.parallel.as_ref().filter(|_| plan.is_worker()) else { return };
    let Some(what) =
        plan.job.train.activation_checkpointing.val().filter(|val| val.value == Recompute::Selective)
    else {
        return;
    };
    problems.push(
        Diagnostic::new(&T0383, what.span_or(parallel.span), "engine `worker` does not support selective \
            recomputation, only whole layers")
            .write("activation-checkpointing #true")
            .note("schemas/worker.v1.json: `memory.recompute` is `none` or `block`; the worker's \
                attention stores no seq × seq matrix anyway"),
    );
}

/// Reports selective recomputation with flash attention, which stores none of the matrices that it would
/// recompute.
fn check_selective_with_flash(plan: &Plan, problems: &mut Problems) {
    let Some(what) =
        plan.job.train.activation_checkpointing.val().filter(|val| val.value == Recompute::Selective)
    else {
        return;
    };
    let (Some(train_span), Ok(layout)) = (plan.job.train.span, Layout::from_plan(plan)) else { return };
    // torchtitan recomputes by operation, and the worker rejects `selective`.
    let of_attention = layout.recompute == trainc_predict::layout::Recompute::Selective;
    if !of_attention || layout.attention != Attention::Flash || layout.system == System::Worker {
        return;
    }
    let flash = &plan.job.train.flash_attention;
    let mut diagnostic = Diagnostic::new(
        &T0290,
        what.span_or(train_span),
        "`selective` has no effect: flash attention does not store the matrices it would recompute",
    )
    .help("write `activation-checkpointing #true` to store less, or `#false`, which is equivalent to \
        `selective` here")
    .note("selective recomputation recomputes only the seq × seq attention matrices (Korthikanti et \
        al. 2022, section 5)");
    match flash.span() {
        Some(span) => diagnostic = diagnostic.label(span, "flash attention"),
        None => diagnostic = diagnostic.note("the model's code uses flash attention by default with this \
            precision"),
    }
    problems.push(diagnostic);
}

fn check_flash(plan: &Plan, problems: &mut Problems) {
    let Some(train_span) = plan.job.train.span else { return };
    let capability = plan.instance.as_ref().and_then(|row| row.accelerator.compute_capability);
    if let (Some(kernel), Some((major, minor))) =
        (plan.job.train.attention.val().filter(|kernel| kernel.value == "fa3"), capability)
        && major != HOPPER
    {
        problems.push(label_gpu(
            plan,
            Diagnostic::new(
                &T0384,
                kernel.span_or(train_span),
                format!(
                    "{} does not support FlashAttention 3: it has compute capability \
                        {major}.{minor}, but 9.0 is required",
                    gpu_name(plan)
                ),
            )
            .help("write `attention \"sdpa\"` or `attention \"fa2\"`, or use an instance type with \
                Hopper, e.g. `ml.p5`")
            .note("Dao-AILab/flash-attention, README: FlashAttention-3 is for Hopper GPUs"),
        ));
    }
    let Some(flash) = plan.job.train.flash_attention.val().filter(|val| val.value) else { return };
    let span = flash.span_or(train_span);
    if let Some((major, minor)) = capability.filter(|capability| *capability < FLASH_CAPABILITY) {
        problems.push(label_gpu(
            plan,
            Diagnostic::new(&T0384, span, format!("{} does not support flash attention: it has compute \
                capability {major}.{minor}, but 8.0 is required", gpu_name(plan)))
                .remove("flash-attention").or_else("use an instance type with Ampere or newer, e.g. `ml.g5` \
                    or `ml.p4d`")
                .note("Dao-AILab/flash-attention: \"only supports Ampere GPUs or newer\"; PyTorch \
                    falls back to the seq × seq matrix"),
        ));
        return;
    }
    let Some(pytorch) = plan.image.as_ref().and_then(|image| image.pytorch.as_deref()) else { return };
    if version_key(pytorch) >= version_key(SDPA)
        || plan.is_worker()
    {
        return;
    }
    let installs_flash = |tree: &trainc_ir::SourceTree| {
        tree.get("requirements.txt").is_some_and(|file| {
            let text = file.text();
            ["flash-attn", "flash_attn", "xformers"].iter().any(|name| text.contains(name))
        })
    };
    if plan.source.as_ref().is_some_and(installs_flash) {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0384,
            span,
            format!("PyTorch {pytorch} has no built-in flash attention, which requires {SDPA}"),
        )
        .severity(Severity::Warning)
        .help("use an image with PyTorch 2.0 or newer, or add `flash-attn` to requirements.txt")
        .note("without it attention stores the seq × seq matrix, and memory exceeds the prediction"),
    );
}
