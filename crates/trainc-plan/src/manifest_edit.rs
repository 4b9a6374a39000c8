//! Edits of a job in the text of its manifest.

use trainc_diag::{Edit, NodeStep};
use trainc_ir::{Engine, Plan};
use trainc_syntax::edit::{self, EditError};

/// Returns the text of a job's manifest with edits of the job: existing values are replaced, others added;
/// comments and layout stay.
pub fn edit_manifest(plan: &Plan, text: &str, edits: &[Edit]) -> Result<String, EditError> {
    let job = plan.job.name.value().map_or("", String::as_str);
    let instance = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value());
    let required = [
        instance.map(|instance| Edit::argument(&["cluster"], instance)),
        plan.engine.map(|engine| Edit::property(&["parallel"], "engine", Engine::name(engine))),
    ];
    let required: Vec<Edit> = required.into_iter().flatten().collect();
    edit::apply_all(text, &[NodeStep::by_argument("job", job)], &required, edits)
}
