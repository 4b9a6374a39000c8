//! Options of the script that the accelerator does not support: attention kernels and number formats.

use crate::Context;
use crate::queries::literals::{literals, truth};
use crate::queries::torchrun::is_trainium;
use trainc_catalog::script_options;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(T0599, "option-unsupported-by-gpu", Error, "an option of the script that the accelerator does not support");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0599];

/// Compares the compute capability that an option requires with that of the instance type.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(instance) = &plan.instance else { return };
    let gpu = &instance.accelerator;
    for literal in literals(context) {
        let Some(row) = script_options::get(&literal.name) else { continue };
        let written = match truth(&literal.value) {
            Some(on) => on.to_string(),
            None => trainc_emit::python_str(&literal.value).to_lowercase(),
        };
        let Some(least) = row.capability.get(&written) else { continue };
        let found = gpu.compute_capability.map(|(major, minor)| format!("{major}.{minor}"));
        // Trainium computes bf16, and none of the CUDA kernels.
        let lacks = match gpu.compute_capability {
            Some(found) => capability(least).is_some_and(|least| found < least),
            None => is_trainium(plan) && row.equals.as_deref() != Some("bf16"),
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
        .help(format!("remove `{}`, or use an instance type with newer GPUs", literal.name))
        .note(format!("{} ({})", row.provenance.source, row.provenance.date));
        if let Some(at) = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.span()) {
            diagnostic = diagnostic.label(at, gpu.product.clone());
        }
        problems.push(diagnostic);
    }
}

/// Parses `8.0`.
fn capability(text: &str) -> Option<(u8, u8)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
