//! Quantised weights and optimizers whose libraries have no kernels for Trainium.

use crate::codes;
use crate::Context;
use crate::queries::literals::{Literal, literals};
use crate::queries::optimizer::requires_cuda_tensors;
use crate::queries::torchrun::is_trainium;
use trainc_catalog::vocabulary;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Help, Problems};

// The option cannot run at all.
declare_code!(
    T0591,
    "cuda-only-library",
    Error,
    "quantized weights or an optimizer that require CUDA, on Trainium",
    ends: Speed,
    supersedes: { Value: [codes::T0584, codes::T0599] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0591];

/// Reports what bitsandbytes and apex compute, which have kernels for GPUs only.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    if !is_trainium(context.plan) {
        return;
    }
    let mut report = |what: String, span: Span, help: Help, literal: Option<&Literal>| {
        let mut diagnostic = Diagnostic::new(&T0591, span, format!("{what} require CUDA, which Trainium \
            does not have"))
            .help(help)
            .note("bitsandbytes and apex have no kernels for Neuron: the program stops at its first step");
        if let Some(instance) = job.cluster.as_ref().and_then(|cluster| cluster.instance.span()) {
            diagnostic = diagnostic.label(instance, "Trainium");
        }
        problems.push(match literal {
            Some(literal) => literal.with_place(diagnostic),
            None => diagnostic,
        });
    };
    for literal in literals(context) {
        let Some(row) = vocabulary::get(&literal.name) else { continue };
        let word = literal.value.python().to_lowercase();
        let meant = row.words.as_ref().and_then(|words| words.get(&word));
        let quantizes = row.paths.iter().any(|path| path == "quantize.kind") && literal.value.truth() == Some(true);
        if quantizes || meant.is_some_and(|optimizer| requires_cuda_tensors(optimizer)) {
            report(format!("the kernels of `{}`", literal.shown()), literal.span, Help::from("remove the option, or use a \
                GPU instance"), Some(&literal));
        }
    }
    if let Some((quantize, kind)) = job.quantize.as_ref().and_then(|node| Some((node, node.kind.val()?))) {
        report(format!("{} weights", kind.value), kind.span_or(quantize.span), Help::remove("quantize").or_else("use a GPU instance"), None);
    }
    if let Some((optimizer, name)) = job.train.optimizer.as_ref().and_then(|node| Some((node, node.name.val()?)))
        && requires_cuda_tensors(&name.value)
    {
        report(format!("the kernels of `{}`", name.value), name.span_or(optimizer.span), Help::write("optimizer \"adamw\""), None);
    }
}
