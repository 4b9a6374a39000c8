//! Literal hyperparameters compared with the plan: the script trains with the former, trainc predicts the latter.

use crate::Context;
use trainc_catalog::script_options::{self, ScriptOption};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Engine, Plan, Scalar, Val};
use trainc_plan::bind::placeholder_value;

declare_code!(T0584, "hyperparameter-conflict", Warning, "a hyperparameter that contradicts the plan");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0584];

/// Compares each hyperparameter whose name has a known meaning.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    // The worker reads the plan, and the meaning of SMP's options depends on the script.
    if matches!(plan.engine(), None | Some(Engine::Worker | Engine::Smp)) || is_assumed(plan) {
        return;
    }
    for h in &program.hyperparameters {
        let Some(val) = h.value.val() else { continue };
        let Some(span) = val.origin.span().filter(|span| !context.sources.slice(*span).contains("{{")) else { continue };
        let Some(row) = script_options::get(&h.name) else { continue };
        let Some((path, planned)) = conflict(plan, &row, val) else { continue };
        let script = trainc_emit::python_str(&val.value);
        problems.push(
            Diagnostic::new(
                &T0584,
                span,
                format!("the script receives `--{} {script}`, but the plan has {} {planned}", h.name, row.meaning),
            )
            .help(if row.equals.is_some() {
                format!("write the same in `{}` and in the hyperparameter", path.replacen('.', " { ", 1) + " }")
            } else {
                format!("write `\"{{{{ {path} }}}}\"`, which reads the value from the plan, or change the plan")
            })
            .note("memory, time and cost are predicted for the plan's value"),
        );
    }
}

/// Returns whether the plan has the placeholder values of `import`.
fn is_assumed(plan: &Plan) -> bool {
    let train = &plan.job.train;
    train.micro_batch_size.get() == Some(1) && train.steps.get() == Some(1)
}

/// Returns the first path of the row with its value in the plan, if no path has the value of the hyperparameter.
fn conflict(plan: &Plan, row: &ScriptOption, val: &Val<Scalar>) -> Option<(String, String)> {
    let values: Vec<(&String, Scalar)> =
        row.paths.iter().filter_map(|path| Some((path, placeholder_value(plan, path)?))).collect();
    let (path, first) = values.first()?;
    let differs = match &row.equals {
        // Only a switch that is on says what it contradicts: `fp16` off leaves the precision to another option.
        Some(equals) => truth(&val.value)? && trainc_emit::python_str(first) != *equals,
        None => values.iter().all(|(_, planned)| differs(planned, &val.value)),
    };
    differs.then(|| ((*path).clone(), trainc_emit::python_str(first)))
}

/// Returns whether both are known to be different.
fn differs(planned: &Scalar, written: &Scalar) -> bool {
    if let Scalar::Bool(planned) = planned {
        return truth(written).is_some_and(|written| written != *planned);
    }
    let (Some(planned), Some(written)) = (number(planned), number(written)) else { return false };
    // Scripts use zero and negative values for "not set".
    written > 0.0 && (planned - written).abs() > 1e-9 * planned.abs()
}

/// Returns a switch's position, as scripts read it.
fn truth(value: &Scalar) -> Option<bool> {
    match value {
        Scalar::Bool(value) => Some(*value),
        Scalar::Int(0) => Some(false),
        Scalar::Int(1) => Some(true),
        Scalar::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a number, also one written as text.
fn number(value: &Scalar) -> Option<f64> {
    trainc_emit::python_str(value).trim().parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_only_if_both_are_known() {
        assert!(differs(&Scalar::Int(500), &Scalar::Int(1000)));
        assert!(differs(&Scalar::Int(500), &Scalar::Text("1000".to_owned())));
        assert!(!differs(&Scalar::Int(500), &Scalar::Float(500.0)));
        assert!(!differs(&Scalar::Float(2e-4), &Scalar::Text("0.0002".to_owned())));
        for unset in [Scalar::Int(-1), Scalar::Int(0), Scalar::Text("auto".to_owned()), Scalar::Null] {
            assert!(!differs(&Scalar::Int(500), &unset), "{unset:?}");
        }
        assert!(differs(&Scalar::Bool(true), &Scalar::Text("False".to_owned())));
        assert!(!differs(&Scalar::Bool(true), &Scalar::Int(1)));
    }
}
