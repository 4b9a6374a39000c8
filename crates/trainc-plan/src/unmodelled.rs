//! Finds what a program does in addition to training that the prediction does not have.

use trainc_catalog::unmodelled::{self, OtherWork, Sign};
use trainc_diag::source::Span;
use trainc_ir::{Plan, Unmodelled};

/// Returns the work of the program that is not predicted, each once.
pub(crate) fn unmodelled(plan: &Plan) -> Vec<Unmodelled> {
    let mut out: Vec<Unmodelled> = Vec::new();
    let has_adapter = plan.job.adapter.is_some();
    let mut add = |work: OtherWork, span: Span| {
        let takes_memory = work.takes_memory && !(work.is_free_with_adapter && has_adapter);
        if !out.iter().any(|known| known.what == work.what) {
            out.push(Unmodelled { what: work.what, takes_memory, takes_time: work.takes_time, span });
        }
    };
    // What the manifest passes comes first: its place is the manifest's.
    for h in plan.job.program.iter().flat_map(|program| &program.hyperparameters) {
        let is_on = h.value.value().and_then(trainc_ir::Scalar::truth) == Some(true);
        if let Some(work) = unmodelled::get(Sign::Switch(&h.name)).filter(|_| is_on) {
            add(work, h.value.span().unwrap_or(h.name_span));
        }
    }
    for setting in plan.named_files.iter().flat_map(|file| &file.settings) {
        let is_on = setting.value.scalar().and_then(trainc_ir::Scalar::truth) == Some(true);
        if let Some(work) = unmodelled::get(Sign::Switch(&setting.key)).filter(|_| is_on) {
            add(work, setting.key_span);
        }
    }
    for module in plan.script.iter().flat_map(|script| &script.modules) {
        for call in &module.module.calls {
            if let Some(work) = unmodelled::get(Sign::Class(call.function())) {
                add(work, module.span(&call.at));
            }
        }
        for import in module.module.imports.iter().filter(|import| import.level == 0) {
            let package = import.module.split('.').next().unwrap_or_default();
            let named = import.names.iter().find_map(|(name, _)| unmodelled::get(Sign::Class(name)));
            if let Some(work) = unmodelled::get(Sign::Package(package)).or(named) {
                add(work, module.span(&import.at));
            }
        }
    }
    // Its passes hold the logits of all their sequences, and may be larger than those of the training.
    let evaluate = plan.job.train.evaluate.as_ref().and_then(|evaluate| evaluate.micro_batch.val());
    let trained = plan.batch.as_ref().map(|batch| batch.micro_batch_size.value);
    if let (Some(written), Some(trained)) = (evaluate, trained)
        && written.value > trained
    {
        out.push(Unmodelled {
            what: format!("evaluation with {} a pass", trainc_diag::text::count(written.value, "sequence")),
            takes_memory: true,
            takes_time: false,
            span: written.origin.span().unwrap_or_default(),
        });
    }
    out
}
