//! Literal options of the script compared with the plan: the script trains with the former, trainc predicts
//! the latter.

use crate::Context;
use std::collections::BTreeSet;
use crate::queries::literals::{Literal, Source, literals, truth};
use trainc_catalog::models;
use trainc_catalog::script_options::{self, ScriptOption};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{CheckpointInterval, Plan, Scalar};
use trainc_plan::bind::placeholder_value;

declare_code!(T0584, "hyperparameter-conflict", Warning, "an option of the script that contradicts the plan");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0584];

/// Compares each option whose name has a known meaning.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    // The worker reads the plan.
    if plan.engine.is_none() || plan.is_worker() || is_assumed(plan) {
        return;
    }
    let literals = literals(context);
    for literal in &literals {
        let Some(row) = script_options::get(&literal.name) else { continue };
        if literal.place().is_some() && !row.in_scripts {
            continue;
        }
        let statement = literal.statement();
        if let Some((path, planned)) = conflict(plan, &row, &literal.value) {
            let is_hyperparameter = matches!(literal.source, Source::Hyperparameter | Source::Variable(_));
            let is_placeholder = is_hyperparameter && placeholder_value(plan, &path).is_some();
            problems.push(
                Diagnostic::new(
                    &T0584,
                    literal.span,
                    format!("{statement}, but the plan has {} {planned}", row.meaning),
                )
                .help(if row.equals.is_some() || row.words.is_some() || !is_placeholder {
                    "write the same in the plan and in the option".to_owned()
                } else {
                    format!("write `\"{{{{ {path} }}}}\"`, which reads the value from the plan, or \
                        change the plan")
                })
                .note("memory, time and cost are predicted for the plan's value")
                .subject(literal.subject),
            );
        } else if let Some(diagnostic) = other_engine(plan, &row, literal).or_else(|| other_unit(plan, &row, literal, &literals)) {
            problems.push(diagnostic.subject(literal.subject));
        } else if let (Some(limit), Some(written)) = (&row.at_most, number(&literal.value))
            && let Some(most) = placeholder_value(plan, limit).as_ref().and_then(number)
            && written > most
        {
            problems.push(
                Diagnostic::new(
                    &T0584,
                    literal.span,
                    format!("{statement}, but the run has only {}", text::count(plan.run.steps.as_ref().map_or(0, |steps| steps.value), "step")),
                )
                .help(format!("write a value of at most {}", trainc_emit::python_str(&Scalar::Float(most))))
                .note("the run ends before the step at which the option has an effect")
                .subject(literal.subject),
            );
        }
    }
}

/// Reports an option of another engine than the plan's.
fn other_engine(plan: &Plan, row: &ScriptOption, literal: &Literal) -> Option<Diagnostic> {
    let engines = row.engines.as_ref()?;
    let engine = plan.engine?.name();
    let value = trainc_emit::python_str(&literal.value);
    let is_off = truth(&literal.value) == Some(false) || matches!(value.as_str(), "" | "None" | "none" | "null");
    if is_off || engines.iter().any(|other| other == engine) {
        return None;
    }
    Some(
        Diagnostic::new(&T0584, literal.span, format!("{}, but the plan has {} {engine}", literal.statement(), row.meaning))
            .write(format!("parallel engine=\"{}\" launcher=\"torchrun\"", engines.first()?)).or_else("remove the option")
            .note("memory, time and cost are predicted for the plan's engine"),
    )
}

/// Reports a length of the run that the plan gives in another unit, unless another option of the script has
/// the plan's.
fn other_unit(plan: &Plan, row: &ScriptOption, literal: &Literal, literals: &[Literal]) -> Option<Diagnostic> {
    let path = row.instead_of.as_ref()?;
    let planned = placeholder_value(plan, path)?;
    number(&literal.value).filter(|written| *written > 0.0)?;
    let unit = path.rsplit('.').next()?;
    let says_it = |name: &str| {
        script_options::get(name).is_some_and(|other| other.paths.contains(path) && other.instead_of.is_none())
    };
    // A placeholder is no literal.
    let program = plan.job.program.as_ref()?;
    let mut names = program.hyperparameters.iter().map(|h| h.name.as_str()).chain(literals.iter().map(|other| other.name.as_str()));
    if row.paths.iter().any(|path| planned_value(plan, path).is_some()) || names.any(says_it) {
        return None;
    }
    let planned = trainc_emit::python_str(&planned);
    Some(
        Diagnostic::new(&T0584, literal.span, format!("{}, but the plan has {unit} {planned}", literal.statement()))
            .help(format!("write `{} {}` and `dataset sequences=…` in `train`, or give the script the plan's \
                {unit}", row.meaning, trainc_emit::python_str(&literal.value)))
            .note("memory, time and cost are predicted for the plan's value"),
    )
}

/// Returns whether the plan has the placeholder values of `import`.
fn is_assumed(plan: &Plan) -> bool {
    let train = &plan.job.train;
    train.micro_batch_size.get() == Some(1) && train.steps.get() == Some(1)
}

/// Returns a value of the plan: that of a placeholder, or one that no placeholder has.
fn planned_value(plan: &Plan, path: &str) -> Option<Scalar> {
    let job = &plan.job;
    let integer = |value: Option<u64>| Some(Scalar::Int(i128::from(value?)));
    match path {
        "adapter.rank" => integer(job.adapter.as_ref()?.rank.get()),
        "adapter.alpha" => Some(Scalar::Float(job.adapter.as_ref()?.alpha.get()?)),
        "adapter.dropout" => Some(Scalar::Float(job.adapter.as_ref()?.dropout.get()?)),
        // A job with a model and without `quantize` trains in its precision.
        "quantize.kind" => match &job.quantize {
            Some(quantize) => Some(Scalar::Text(quantize.kind.value()?.clone())),
            None => plan.model.as_ref().map(|_| Scalar::Text("none".to_owned())),
        },
        "adapter.targets" => Some(Scalar::Text(job.adapter.as_ref()?.targets.value()?.join(","))),
        "quantize.compute" => Some(Scalar::Text(job.quantize.as_ref()?.compute.value()?.clone())),
        "quantize.double" => job.quantize.as_ref()?.double.get().map(Scalar::Bool),
        "parallel.wrap" => Some(Scalar::Text(job.parallel.as_ref()?.wrap.value()?.clone())),
        "parallel.strategy" => Some(Scalar::Text(job.parallel.as_ref()?.strategy.value()?.clone())),
        "checkpoint.s3" => Some(Scalar::Text(job.checkpoint.as_ref()?.s3.value()?.replace(DIGEST_MARK, "{{ job.digest }}"))),
        "checkpoint.keep" => integer(job.checkpoint.as_ref()?.keep.get()),
        "checkpoint.steps" => match job.checkpoint.as_ref()?.every.get()? {
            CheckpointInterval::Steps(steps) => integer(Some(steps)),
            CheckpointInterval::Seconds(_) | CheckpointInterval::Optimal => None,
        },
        _ => placeholder_value(plan, path),
    }
}

/// Returns the first path of the row with its value in the plan, if no path has the value of the option.
fn conflict(plan: &Plan, row: &ScriptOption, value: &Scalar) -> Option<(String, String)> {
    // Under these engines the degrees are the script's own.
    let has_degrees = plan.engine.is_none_or(|engine| engine.law.can_shard());
    let values: Vec<(&String, Scalar)> =
        row.paths.iter().filter(|path| has_degrees || !path.starts_with("mesh.")).filter_map(|path| Some((path, planned_value(plan, path)?))).collect();
    let (path, first) = values.first()?;
    let differs = match (&row.equals, &row.words) {
        // A switch that is off leaves the precision to another option, but not the quantization.
        (Some(equals), _) => {
            let is_planned = trainc_emit::python_str(first).to_lowercase() == *equals;
            let is_on = truth(value)?;
            if is_on { !is_planned } else { is_planned && path.as_str() == "quantize.kind" }
        }
        (None, Some(_)) if path.as_str() == "model.name" => is_other_model(first, value),
        (None, Some(words)) => {
            // A list of words has one with this meaning.
            let written = trainc_emit::python_str(value).to_lowercase();
            let written = words.get(&written).or_else(|| written.split(' ').find_map(|word| words.get(word)))?;
            values.iter().all(|(_, planned)| !is_same_word(&trainc_emit::python_str(planned), written))
        }
        (None, None) if row.is_names => {
            let (planned, written) = (names(first), names(value));
            // A pattern or a word for all matrices names more than one.
            let is_list = |names: &BTreeSet<String>| names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
            is_list(&planned) && is_list(&written) && planned != written
        }
        (None, None) => values.iter().all(|(_, planned)| differs(planned, value, row.has_zero) && is_same_unit(path, planned, value)),
    };
    differs.then(|| ((*path).clone(), trainc_emit::python_str(first)))
}

/// Returns the names of a list in one text.
fn names(value: &Scalar) -> BTreeSet<String> {
    let text = trainc_emit::python_str(value);
    let words = text.split([',', ' ', '[', ']', '"', '\'']).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Returns whether both are fractions or both are counts: a warmup is either.
fn is_same_unit(path: &str, planned: &Scalar, written: &Scalar) -> bool {
    let is_fraction = |value: &Scalar| number(value).map(|number| number < 1.0);
    path != "train.warmup" || is_fraction(planned) == is_fraction(written)
}

/// Returns whether both words have one meaning: a fused kernel computes the same optimizer.
fn is_same_word(planned: &str, written: &str) -> bool {
    let plain = |word: &str| word.to_lowercase().replace("-apex-fused", "").replace("-fused", "");
    plain(planned) == plain(written)
}

/// Returns whether the option names another model of the catalogue.
fn is_other_model(planned: &Scalar, written: &Scalar) -> bool {
    let row = |value: &Scalar| models::find(&trainc_emit::python_str(value)).map(|row| row.name);
    matches!((row(planned), row(written)), (Some(planned), Some(written)) if planned != written)
}

/// Returns whether both are known to be different.
fn differs(planned: &Scalar, written: &Scalar, has_zero: bool) -> bool {
    if let Scalar::Bool(planned) = planned {
        return truth(written).is_some_and(|written| written != *planned);
    }
    let (Some(planned), Some(written)) = (number(planned), number(written)) else { return false };
    // Scripts use zero and negative values for "not set".
    (written > 0.0 || (has_zero && written == 0.0)) && (planned - written).abs() > 1e-9 * planned.abs()
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
        assert!(differs(&Scalar::Int(500), &Scalar::Int(1000), false));
        assert!(differs(&Scalar::Int(500), &Scalar::Text("1000".to_owned()), false));
        assert!(!differs(&Scalar::Int(500), &Scalar::Float(500.0), false));
        assert!(!differs(&Scalar::Float(2e-4), &Scalar::Text("0.0002".to_owned()), false));
        for unset in [Scalar::Int(-1), Scalar::Int(0), Scalar::Text("auto".to_owned()), Scalar::Null] {
            assert!(!differs(&Scalar::Int(500), &unset, false), "{unset:?}");
        }
        assert!(differs(&Scalar::Bool(true), &Scalar::Text("False".to_owned()), false));
        assert!(!differs(&Scalar::Bool(true), &Scalar::Int(1), false));
        assert!(differs(&Scalar::Float(0.1), &Scalar::Float(0.0), true));
    }
}
