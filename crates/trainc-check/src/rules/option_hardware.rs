//! Options of the script that the accelerator does not support: attention kernels and number formats.

use crate::codes;
use crate::Context;
use crate::queries::literals::literals;
use crate::queries::torchrun::is_trainium;
use trainc_catalog::vocabulary;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Plan;
use trainc_ir::hardware::Accelerator;

// The option cannot run at all.
declare_code!(
    T0599,
    "option-unsupported-by-gpu",
    Error,
    "an option of the script that the accelerator does not support",
    ends: Speed,
    supersedes: { Value: [codes::T0584] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0599];

/// Compares the compute capability that an option requires with that of the instance type.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(instance) = &plan.instance else { return };
    let gpu = &instance.accelerator;
    check_architectures(plan, gpu, problems);
    check_int8(plan, gpu, problems);
    for literal in literals(context) {
        let Some(row) = vocabulary::get(&literal.name) else { continue };
        let written = match literal.value.truth() {
            Some(on) => on.to_string(),
            None => literal.value.python().to_lowercase(),
        };
        let Some(least) = row.capability.get(&written) else { continue };
        let found = gpu.compute_capability.map(|(major, minor)| format!("{major}.{minor}"));
        // Trainium computes bf16, and none of the CUDA kernels.
        let lacks = match gpu.compute_capability {
            Some(found) => capability(least).is_some_and(|least| found < least),
            None => is_trainium(plan) && row.meaning != "precision",
        };
        if !lacks {
            continue;
        }
        let mut diagnostic = Diagnostic::new(
            &T0599,
            literal.span,
            match &found {
                Some(found) => format!("`{}` requires compute capability {least}, but {} has {found}", literal.shown(), gpu.product),
                None => format!("`{}` requires CUDA, which {} does not have", literal.shown(), gpu.product),
            },
        )
        .remove(literal.written_name()).or_else("use an instance type with newer GPUs")
        .note(format!("{} ({})", row.provenance.source, row.provenance.date));
        if let Some(at) = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.span()) {
            diagnostic = diagnostic.label(at, gpu.product.clone());
        }
        problems.push(literal.with_place(diagnostic));
    }
}

/// Reports int8 weights on a GPU without their matrix products, as for the option of scripts.
fn check_int8(plan: &Plan, gpu: &Accelerator, problems: &mut Problems) {
    let Some(quantize) = &plan.job.quantize else { return };
    let Some(kind) = quantize.kind.val().filter(|kind| kind.value == "int8") else { return };
    let Some(row) = vocabulary::get("load_in_8bit") else { return };
    let (Some(least), Some(found)) = (row.capability.get("true"), gpu.compute_capability) else { return };
    if capability(least).is_some_and(|least| found < least) {
        problems.push(
            Diagnostic::new(
                &T0599,
                kind.span_or(quantize.span),
                format!("int8 weights require compute capability {least}, but {} has {}.{}", gpu.product, found.0, found.1),
            )
            .write("quantize \"nf4\"").or_else("use an instance type with newer GPUs")
            .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
        );
    }
}

/// Reports a list of compute capabilities for which extensions are compiled, without that of the GPU.
fn check_architectures(plan: &Plan, gpu: &Accelerator, problems: &mut Problems) {
    let (Some(program), Some((major, minor))) = (&plan.job.program, gpu.compute_capability) else { return };
    for pair in program.environment.iter().filter(|pair| pair.key == "TORCH_CUDA_ARCH_LIST") {
        let Some(val) = pair.value.val() else { continue };
        // Code of one generation runs on later GPUs of it, and `+PTX` is compiled for any later one.
        let runs = |part: &str| match capability(part.trim_end_matches("+PTX").trim_end_matches(['a', 'f'])) {
            Some(listed) => {
                (listed.0 == major && listed.1 <= minor) || (part.ends_with("+PTX") && listed <= (major, minor))
            }
            // A name such as `Ampere` is not compared.
            None => true,
        };
        let mut parts = val.value.split([' ', ';', ',']).filter(|part| !part.is_empty()).peekable();
        if parts.peek().is_some() && !parts.any(runs) {
            problems.push(
                Diagnostic::new(&T0599, val.span_or(pair.key_span), format!("extensions are compiled for \
                    {}, but {} has {major}.{minor}", val.value, gpu.product))
                    .write(format!("TORCH_CUDA_ARCH_LIST=\"{major}.{minor}\""))
                    .note("a kernel of an extension then fails with \"no kernel image is available for \
                        execution on the device\""),
            );
        }
    }
}

/// Parses `8.0`.
fn capability(text: &str) -> Option<(u8, u8)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
