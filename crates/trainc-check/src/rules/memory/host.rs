//! Host memory: what a job needs compared with what its instances have.

use crate::Context;
use crate::queries::memory::{format_bytes, memory_constants};
use crate::what_if::alternatives::type_with_host_memory;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Severity};
use trainc_predict::layout::Offload;
use trainc_predict::{Layout, Memory, memory as model};

declare_code!(
    T0327,
    "host-memory",
    Warning,
    "a job that needs more host memory than its instances have",
    ends: Prediction,
    allowable: Prediction,
    explains: [HostMemory]
);

/// Reports the host memory that is missing; `span` is the place if no engine is written.
pub(super) fn missing_host_memory(
    context: &Context,
    (layout, memory): (&Layout, &Memory),
    span: Span,
) -> Option<Diagnostic> {
    let (needs, has) = (memory.host_bytes?, layout.hardware.host_memory_bytes?);
    if needs <= has {
        return None;
    }
    let constants = memory_constants(context);
    let is_sure = model::least_host_bytes(layout, &constants).is_some_and(|least| least > has);
    let job = &context.plan.job;
    let place = job.parallel.as_ref().map_or(span, |parallel| parallel.span);
    let holder = match job.rank_instance().map(|kind| kind.value.as_str()) {
        Some(name) => format!("`{name}`"),
        None => "the instance".to_owned(),
    };
    let parts = model::host_parts(layout, &constants);
    let counted: Vec<String> = [
        ("processes", parts.processes),
        ("offloaded states and activations", parts.offloaded),
        ("the copy of a checkpoint being saved", parts.checkpoint),
    ]
    .into_iter()
    .filter(|(_, n)| *n > 0.0)
    .map(|(part, n)| format!("{part} {}", format_bytes(n)))
    .collect();
    let diagnostic = Diagnostic::new(
        &T0327,
        place,
        format!("each host needs about {}; {holder} has {}", format_bytes(needs), format_bytes(has)),
    )
    .severity(if is_sure { Severity::Error } else { Severity::Warning })
    .note(format!("counted: {}", text::list(&counted, "and")))
    .fact("host_bytes", needs.round())
    .fact("host_memory_bytes", has);
    let diagnostic = if parts.offloaded > has { diagnostic.certain() } else { diagnostic };
    let mut ways: Vec<String> = Vec::new();
    if let Some((name, memory)) = type_with_host_memory(context, needs) {
        ways.push(format!("write `cluster \"{name}\"`: the same GPUs with {memory} of host memory"));
    }
    if layout.offload != Offload::default() {
        ways.push("offload less".to_owned());
    }
    if layout.degrees.shard > 1.0 || layout.offload != Offload::default() {
        ways.push("use more instances: each holds its own shard".to_owned());
    }
    let Some((first, rest)) = ways.split_first() else {
        return Some(diagnostic.help("use an instance type with more host memory"));
    };
    Some(rest.iter().fold(diagnostic.help(first.clone()), |found, way| found.note(format!("or {way}"))))
}
