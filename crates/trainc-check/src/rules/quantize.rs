//! Quantised base weights: adapter, engine and compute precision.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::engine::Quantized;
use trainc_ir::{Plan, Quantize};

declare_code!(
    T0378,
    "quantized-without-adapter",
    Error,
    "quantized weights without an adapter to train",
    ends: Speed
);
declare_code!(
    T0379,
    "engine-without-quantization",
    Error,
    "quantized weights that the engine does not support",
    ends: Speed
);
declare_code!(
    T0380,
    "quantize-compute-mismatch",
    Warning,
    "quantized weights with a different compute type from the rest of the model"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0378, &T0379, &T0380];

/// Checks that quantised weights have an adapter, an engine that supports them, and a matching compute type.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let job = &plan.job;
    let Some(quantize) = &job.quantize else { return };
    let Some(kind) = quantize.kind.val() else { return };
    let span = kind.span_or(quantize.span);
    if job.adapter.is_none() {
        problems.push(
            Diagnostic::new(
                &T0378,
                span,
                format!("{} weights cannot be trained without an adapter", kind.value),
            )
            .add("adapter \"lora\" rank=16 alpha=16 targets=\"all-linear\"").or_remove("quantize")
            .note("quantised weights are integers without a gradient (QLoRA trains adapters on top of them)"),
        );
    }
    if !check_engine(plan, quantize, &kind.value, problems) {
        check_compute(plan, quantize, &kind.value, problems);
    }
}

/// Checks the engine; returns whether it reported a problem.
fn check_engine(plan: &Plan, quantize: &Quantize, kind: &str, problems: &mut Problems) -> bool {
    let Some(parallel) = &plan.job.parallel else { return false };
    let (Some(engine), Some(bound)) = (parallel.engine.val(), plan.engine) else { return false };
    let at = engine.span_or(parallel.span);
    let span = quantize.kind.span().unwrap_or(quantize.span);
    match bound.law.quantized {
        Quantized::None(why) => {
            problems.push(
                Diagnostic::new(&T0379, span, format!("engine `{}` does not support {kind} weights", engine.value.as_str()))
                    .label(at, "the engine")
                    .write("parallel engine=\"device-map\"").and_text(" for one node").or_else("`fsdp` with nf4")
                    .note(why),
            );
            true
        }
        Quantized::Nf4 if kind == "int8" => {
            problems.push(
                Diagnostic::new(&T0379, span, "FSDP flattens parameters of one floating-point type, which \
                    int8 is not")
                    .label(at, "the engine")
                    .write("quantize \"nf4\"").or("parallel engine=\"ddp\"")
                    .note("\"Cannot flatten integer dtype tensors\": huggingface/peft#1432, \
                        hiyouga/LlamaFactory#3853"),
            );
            true
        }
        Quantized::Nf4 => check_storage_type(plan, quantize, problems),
        Quantized::Any => false,
    }
}

/// Checks that under FSDP the compute type matches the precision; returns whether it reported a problem.
fn check_storage_type(plan: &Plan, quantize: &Quantize, problems: &mut Problems) -> bool {
    let Some(precision) = plan.job.train.precision.val() else { return false };
    let compute = quantize.compute.value().map_or("fp32", String::as_str);
    if quantize.compute.is_bad() || compute == precision.value {
        return false;
    }
    let span = quantize.compute.span().unwrap_or(quantize.span);
    problems.push(
        Diagnostic::new(
            &T0379,
            span,
            format!("under FSDP nf4 storage, adapter and precision must have one type: compute is \
                {compute}, precision {}", precision.value),
        )
        .label(precision.span_or(quantize.span), "the precision")
        .help(format!("write `compute=\"{}\"`, and set `bnb_4bit_quant_storage` to it in the script", precision.value))
        .note("\"Must flatten tensors with uniform dtype\": axolotl-ai-cloud/axolotl#1482, \
            huggingface/peft#1432"),
    );
    true
}

fn check_compute(plan: &Plan, quantize: &Quantize, kind: &str, problems: &mut Problems) {
    let Some(precision) = plan.job.train.precision.val() else { return };
    // int8 has a fixed compute type.
    if kind != "nf4" || quantize.compute.is_bad() {
        return;
    }
    let (compute, written) = match quantize.compute.value() {
        Some(compute) => (compute.as_str(), true),
        None => ("fp32", false),
    };
    // Unsupported by the GPU: T0381.
    let is_unsupported =
        compute == "bf16" && plan.machine.as_ref().and_then(|machine| machine.bf16) == Some(false);
    if compute == precision.value || is_unsupported {
        return;
    }
    let span = quantize.compute.span().unwrap_or(quantize.span);
    let diagnostic = Diagnostic::new(
        &T0380,
        span,
        if written {
            format!("nf4 weights are computed in {compute}, but the rest of the model in {}", precision.value)
        } else {
            format!("nf4 weights are computed in fp32 by default, but the precision is {}", precision.value)
        },
    )
    .label(precision.span_or(quantize.span), "the precision")
    .write(format!("compute=\"{}\"", precision.value));
    problems.push(if written {
        diagnostic.note("the inputs and outputs of every quantised layer are converted")
    } else {
        diagnostic
            .note("`bnb_4bit_compute_dtype` is float32 by default (bitsandbytes), much slower than 16 bits")
    });
}
