//! The memory that a job needs of its hosts, against the memory that they have.

use super::elsewhere::same_cards;
use super::memory::{bytes, constants};
use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Severity};
use trainc_predict::layout::Offload;
use trainc_predict::{Layout, Memory, memory as model};

declare_code!(T0327, "host-memory", Warning, "a job that needs more host memory than its instances have");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0327];

/// What a host needs beyond what it has, with what it is needed for; `span` is where no engine is written.
pub(super) fn host(
    context: &Context,
    (layout, memory): (&Layout, &Memory),
    span: Span,
) -> Option<Diagnostic> {
    let (needs, has) = (memory.host_bytes?, layout.hardware.host_memory_bytes?);
    if needs <= has {
        return None;
    }
    let sure = model::least_host_bytes(layout, &constants(context)).is_some_and(|least| least > has);
    let job = &context.plan.job;
    let place = job.parallel.as_ref().map_or(span, |parallel| parallel.span);
    let holder = match job.rank_instance().map(|kind| kind.value.as_str()) {
        Some(name) => format!("`{name}`"),
        None => "the instance".to_owned(),
    };
    let parts = model::host_parts(layout, &constants(context));
    let counted: Vec<String> = [
        ("its processes", parts.processes),
        ("what is offloaded to it", parts.offloaded),
        ("a checkpoint's copy on its way out", parts.checkpoint),
    ]
    .into_iter()
    .filter(|(_, n)| *n > 0.0)
    .map(|(what, n)| format!("{what} {}", bytes(n)))
    .collect();
    let diagnostic = Diagnostic::new(
        &T0327,
        place,
        format!("each host needs about {}; {holder} has {}", bytes(needs), bytes(has)),
    )
    .severity(if sure { Severity::Error } else { Severity::Warning })
    .note(format!("counted: {}", text::list(&counted, "and")))
    .fact("host_bytes", needs.round())
    .fact("host_memory_bytes", has);
    let mut ways: Vec<String> = Vec::new();
    if let Some(larger) = same_cards(context, needs) {
        ways.push(format!(
            "write `cluster \"{}\"`: the same GPUs, and {} beside them",
            larger.name, larger.memory
        ));
    }
    if layout.offload != Offload::default() {
        ways.push("offload less".to_owned());
    }
    if layout.degrees.shard > 1.0 || layout.offload != Offload::default() {
        ways.push("take more instances: each holds its own part".to_owned());
    }
    let Some((first, rest)) = ways.split_first() else {
        return Some(diagnostic.help("take a type with more host memory"));
    };
    Some(rest.iter().fold(diagnostic.help(first.clone()), |found, way| found.note(format!("or {way}"))))
}
