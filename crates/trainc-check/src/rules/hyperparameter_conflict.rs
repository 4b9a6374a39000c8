//! Literal options of the script compared with the plan: the script trains with the former, trainc predicts
//! the latter.

use crate::Context;
use crate::queries::program::has_assumed_batch;
use crate::queries::literals::{Literal, Source, literals};
use trainc_catalog::vocabulary::{self, OptionMeaning};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Carrier, Passed, Plan, Scalar};
use trainc_plan::bind::placeholder_value;
use trainc_plan::planned_values::{PlannedValues, compare};

declare_code!(T0584, "hyperparameter-conflict", Warning, "an option of the script that contradicts the plan");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0584];

/// Compares each option whose name has a known meaning.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    // The worker reads the plan.
    if plan.engine.is_none() || plan.is_worker() || has_assumed_batch(plan) {
        return;
    }
    let literals = literals(context);
    let values = PlannedValues::new(plan);
    for literal in &literals {
        let Some(row) = literal.meaning() else { continue };
        if literal.place().is_some() && !row.in_scripts {
            continue;
        }
        let statement = literal.statement();
        // A switch of the program is off because a file of the launcher has it on.
        let by_file = |path: &String| is_by_file(plan, path);
        if literal.value.truth() == Some(false) && row.paths.iter().any(by_file) {
            continue;
        }
        let compared = compare(&values, row, &literal.value);
        if let Some(found) = compared.filter(trainc_plan::planned_values::Comparison::is_conflict) {
            let (path, planned) = (found.path, found.planned.python());
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
        } else if let Some(diagnostic) = other_engine(plan, row, literal)
            .or_else(|| other_unit(&values, plan, row, literal, &literals))
        {
            problems.push(diagnostic.subject(literal.subject));
        } else if let (Some(limit), Some(written)) = (&row.at_most, literal.value.number())
            && !has_assumed_length(plan)
            && let Some(most) = placeholder_value(plan, limit).and_then(|most| most.number())
            && written > most
        {
            problems.push(
                Diagnostic::new(
                    &T0584,
                    literal.span,
                    format!(
                        "{statement}, but the run has only {}",
                        text::count(plan.run.steps.as_ref().map_or(0, |steps| steps.value), "step")
                    ),
                )
                .help(format!("write a value of at most {}", Scalar::Float(most).python()))
                .note("the run ends before the step at which the option has an effect")
                .subject(literal.subject),
            );
        }
    }
}

/// Returns whether a file that the launcher or the library of the engine reads has a value of the plan.
fn is_by_file(plan: &Plan, path: &str) -> bool {
    let of_path = path.replace('_', "-");
    let is_it = |one: &Passed| one.setting == of_path && one.by == Carrier::File;
    plan.delivery.passed.iter().any(is_it)
}

/// Reports an option of another engine than the plan's.
fn other_engine(plan: &Plan, row: &OptionMeaning, literal: &Literal) -> Option<Diagnostic> {
    let engines = row.engines.as_ref()?;
    let engine = plan.engine?.name();
    let value = literal.value.python();
    let is_off =
        literal.value.truth() == Some(false) || matches!(value.as_str(), "" | "None" | "none" | "null");
    if is_off || engines.iter().any(|other| other == engine) {
        return None;
    }
    let message = format!("{}, but the plan has {} {engine}", literal.statement(), row.meaning);
    let other = trainc_engine::find(engines.first()?)?;
    let path = plan.source.as_ref().filter(|tree| tree.get(&value).is_some());
    let help = match (other.front.file, path) {
        (None, _) => format!("parallel engine=\"{}\" launcher=\"torchrun\"", other.name()),
        (Some(_), Some(tree)) => {
            format!("parallel engine=\"{}\" file=\"{}/{value}\"", other.name(), tree.dir.trim_end_matches('/'))
        }
        (Some(_), None) => format!("parallel engine=\"{}\"", other.name()),
    };
    Some(
        Diagnostic::new(&T0584, literal.span, message)
            .write(help)
            .or_else("remove the option")
            .note("memory, time and cost are predicted for the plan's engine"),
    )
}

/// Reports a length of the run that the plan gives in another unit, unless another option of the script has
/// the plan's.
fn other_unit(
    values: &PlannedValues,
    plan: &Plan,
    row: &OptionMeaning,
    literal: &Literal,
    literals: &[Literal],
) -> Option<Diagnostic> {
    let path = row.instead_of.as_ref()?;
    let planned = values.get(path)?;
    literal.value.number().filter(|written| *written > 0.0)?;
    let unit = path.rsplit('.').next()?;
    let says_it = |name: &str| {
        vocabulary::get(name).is_some_and(|other| other.paths.contains(path) && other.instead_of.is_none())
    };
    // A placeholder is no literal.
    let program = plan.job.program.as_ref()?;
    let passed = program.hyperparameters.iter().map(|h| h.name.as_str());
    let mut names = passed.chain(literals.iter().map(|other| other.name.as_str()));
    if row.paths.iter().any(|path| values.get(path).is_some()) || names.any(says_it) {
        return None;
    }
    let planned = planned.python();
    Some(
        Diagnostic::new(&T0584, literal.span, format!("{}, but the plan has {unit} {planned}", literal.statement()))
            .help(format!("write `{} {}` and `dataset sequences=…` in `train`, or give the script the plan's \
                {unit}", row.meaning, literal.value.python()))
            .note("memory, time and cost are predicted for the plan's value"),
    )
}

/// Returns whether the length of the run is a placeholder of `import`.
fn has_assumed_length(plan: &Plan) -> bool {
    let train = &plan.job.train;
    let sequences = train.dataset.as_ref().and_then(|dataset| dataset.sequences.get());
    train.steps.get() == Some(1) || sequences == Some(1)
}
