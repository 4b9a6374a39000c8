//! Passes what a manifest writes to a program whose class of arguments it names: `program takes="SFTConfig"`.

use crate::delivery::{Setting, settings};
use crate::planned_values::PlannedValues;
use trainc_catalog::argument_classes::{self, ArgumentField, ArgumentKind};
use trainc_catalog::vocabulary::{self, OptionMeaning, Unit};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::payload::CODE_DIRECTORY;
use trainc_ir::{Field, FileReader, Hyperparameter, Plan, Scalar, Script, Val, version_of};

declare_code!(
    T0824,
    "class-not-parsed",
    Error,
    "a class of arguments whose options the program does not have"
);

/// The codes of this stage.
pub(crate) static CODES: &[&Code] = &[&T0824];

/// The class of TRL whose options say which model is trained, and its adapter. Programs parse it with
/// another.
pub(crate) const MODEL_CLASS: &str = "ModelConfig";

/// Adds the arguments that a program gets because of its class to the program of a bound plan.
pub(crate) fn add_arguments(mut plan: Plan, problems: &mut Problems) -> Plan {
    let Some(program) = &plan.job.program else { return plan };
    let Some(class) = program.takes.val().cloned().filter(|_| !plan.is_worker()) else { return plan };
    let span = class.span_or(program.span);
    let script = plan.script.clone();
    if let Some(problem) = not_in_version(&plan, &class.value, span) {
        problems.push(problem);
        return plan;
    }
    let added = arguments(&plan, &class.value, script.as_deref());
    if let Some(problem) = not_parsed(&plan, &class.value, span, &added) {
        problems.push(problem);
        return plan;
    }
    if let Some(program) = &mut plan.job.program {
        program.hyperparameters.extend(added.into_iter().map(|(name, value)| Hyperparameter {
            name,
            name_span: span,
            span,
            value: Field::Is(Val::derived(value, format!("`takes=\"{}\"`", class.value))),
        }));
    }
    plan
}

/// Returns the options of a class that the manifest does not pass itself, with the values of the plan.
fn arguments(plan: &Plan, class: &str, script: Option<&Script>) -> Vec<(String, Scalar)> {
    let values = PlannedValues::new(plan);
    let version = |package: &str| version_of(&plan.programs, package);
    let fields_of = |class: &str| argument_classes::fields(class, &version).unwrap_or_default().iter();
    let mut fields: Vec<&ArgumentField> = fields_of(class).collect();
    let parses = |name: &str| {
        let line = script.and_then(|script| script.command_line.as_ref());
        line.is_some_and(|line| line.classes.iter().any(|known| known == name))
    };
    if parses(MODEL_CLASS) {
        fields.extend(fields_of(MODEL_CLASS));
    }
    let mut out: Vec<(String, Scalar)> = Vec::new();
    let file = plan.file_of(FileReader::Program);
    if let Some(file) = file {
        out.push(("config".to_owned(), Scalar::Text(format!("{CODE_DIRECTORY}/{}", file.packed_as))));
    }
    let rows: Vec<(&ArgumentField, &OptionMeaning)> = fields
        .iter()
        .filter_map(|&field| {
            let declared_by = if field.class.name == MODEL_CLASS { MODEL_CLASS } else { class };
            Some((field, vocabulary::of_class(declared_by, field.name)?))
        })
        .collect();
    // The library's config, which the Trainer opens.
    let option = plan.engine.and_then(|engine| engine.front.file_option);
    let option = option.filter(|option| fields.iter().any(|field| field.name == *option));
    if let Some((option, path)) = option.zip(plan.engine_file()) {
        out.push((option.to_owned(), Scalar::Text(format!("{CODE_DIRECTORY}/{path}"))));
    }
    let all = settings(plan, &values);
    let is_batch = |setting: &Setting| setting.placeholders.iter().any(|path| path.starts_with("batch."));
    let writes_batch = all.iter().any(is_batch);
    let of_file = |span: Span| plan.files.iter().any(|file| file.span.source == span.source);
    for setting in all.iter().filter(|setting| !of_file(setting.span)) {
        // The first placeholder that an option of the class carries, and the parts of a value.
        let carried = setting.placeholders.iter().find_map(|path| {
            let found = options_of(&rows, path, &values);
            (!found.is_empty()).then_some(found)
        });
        out.extend(carried.into_iter().flatten());
    }
    // The micro-batch follows from a global batch, and the other way round.
    if writes_batch && !all.iter().any(|setting| of_file(setting.span) && is_batch(setting)) {
        for path in ["batch.micro", "batch.accumulation"] {
            out.extend(options_of(&rows, path, &values));
        }
    }
    // So does that of evaluations.
    if plan.job.train.evaluate.is_some() {
        out.extend(options_of(&rows, "train.evaluate_micro_batch", &values));
    }
    let mut named: Vec<String> = plan
        .job
        .program
        .iter()
        .flat_map(|program| &program.hyperparameters)
        .map(|h| h.name.replace('-', "_"))
        .collect();
    // What the file has is passed by it.
    named.extend(file.iter().flat_map(|file| &file.settings).map(|setting| setting.key.clone()));
    out.retain(|(name, _)| {
        let is_new = !named.contains(name);
        named.push(name.clone());
        is_new
    });
    out
}

/// Returns the options of a class that carry a value of the plan.
fn options_of(
    fields: &[(&ArgumentField, &OptionMeaning)],
    path: &str,
    values: &PlannedValues,
) -> Vec<(String, Scalar)> {
    // Settings that take two options: both decay rates, and when to evaluate.
    let paths: &[&str] = match path {
        "train.betas" => &["train.beta1", "train.beta2"],
        "train.evaluate_strategy" | "train.evaluate_steps" => {
            &["train.evaluate_strategy", "train.evaluate_steps"]
        }
        _ => &[path],
    };
    let mut out = Vec::new();
    for (field, row) in fields {
        let Some(path) = row.paths.iter().find(|path| paths.contains(&path.as_str())) else { continue };
        let Some(planned) = values.get(path).filter(|_| row.is_written) else { continue };
        if let Some(value) = value_of(row, field, fields, &planned) {
            out.push((field.name.to_owned(), value));
        }
    }
    out
}

/// Returns the value of an option for one of the plan; `None` if it cannot say it.
fn value_of(
    row: &OptionMeaning,
    field: &ArgumentField,
    fields: &[(&ArgumentField, &OptionMeaning)],
    planned: &Scalar,
) -> Option<Scalar> {
    if let Some(unit) = row.unit {
        let is_fraction = planned.number()? < 1.0 && planned.number()? > 0.0;
        let fits = match unit {
            Unit::Fraction => is_fraction,
            // Newer classes have no option of its own for a fraction.
            Unit::Steps if is_fraction => {
                let has_ratio = fields.iter().any(|(_, other)| other.unit == Some(Unit::Fraction));
                field.kind == ArgumentKind::Float && !has_ratio
            }
            Unit::Steps => true,
        };
        return fits.then(|| planned.clone());
    }
    // Words of the program that are not the plan's.
    if row.writes.is_empty()
        && (row.words.as_ref().is_some_and(|words| !words.is_empty()) || row.equals.is_some())
    {
        return None;
    }
    // A switch has no word.
    if field.kind == ArgumentKind::Bool && planned.truth().is_none() && row.writes.is_empty() {
        return None;
    }
    if row.writes.is_empty() {
        // `int("64.0")` is an error.
        if field.kind == ArgumentKind::Int
            && let Scalar::Float(number) = planned
        {
            return planned
                .python()
                .strip_suffix(".0")?
                .parse()
                .ok()
                .map(Scalar::Int)
                .filter(|_| number.is_finite());
        }
        // A command line of the toolkit has one value for each option.
        let is_one = !matches!(field.kind, ArgumentKind::List(_)) || !planned.python().contains(',');
        return is_one.then(|| planned.clone());
    }
    let word = row.writes.get(&planned.python())?;
    // A version may not have the word.
    if !field.choices.is_empty() && !field.choices.iter().any(|choice| choice.python() == *word) {
        return None;
    }
    Some(match word.as_str() {
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        word => Scalar::Text(word.to_owned()),
    })
}

/// Reports a class that the container's version of its package does not have.
fn not_in_version(plan: &Plan, class: &str, span: Span) -> Option<Diagnostic> {
    let of = argument_classes::class(class)?;
    let version = |package: &str| version_of(&plan.programs, package);
    let own = version(of.package)?;
    version("transformers")?;
    if argument_classes::fields(class, &version).is_some() {
        return None;
    }
    let message = format!("{} {own} has no {class}, as far as trainc knows", of.package);
    Some(
        Diagnostic::new(&T0824, span, message).help(format!(
            "pin a version of {} that has it in requirements.txt, or remove `takes`",
            of.package
        )),
    )
}

/// Reports options that the program, as far as it could be read, does not have.
fn not_parsed(plan: &Plan, class: &str, span: Span, added: &[(String, Scalar)]) -> Option<Diagnostic> {
    let script = plan.script.as_ref()?;
    let entry = plan.job.program.as_ref()?.entry.value()?;
    if !script.reads_arguments() {
        let message = format!("`{entry}` reads no arguments: nothing of {class} would reach it");
        return Some(
            Diagnostic::new(&T0824, span, message)
                .help("parse the class in the program: `HfArgumentParser(…).parse_args_into_dataclasses()`"),
        );
    }
    let line = script.command_line.as_ref()?;
    if line.classes.iter().any(|known| known == class) || !line.is_complete {
        return None;
    }
    let missing: Vec<&str> =
        added.iter().map(|(name, _)| name.as_str()).filter(|name| line.option(name).is_none()).collect();
    if missing.is_empty() {
        return None;
    }
    let names = text::backtick_list(&missing, "and");
    let shown = text::count(missing.len() as u64, "option");
    let other = line.classes.iter().find(|known| trainc_ir::ARGUMENT_CLASSES.contains(&known.as_str()));
    let diagnostic = Diagnostic::new(
        &T0824,
        span,
        format!("`{entry}` does not parse {class}: it lacks {shown} that would be passed: {names}"),
    );
    Some(match other {
        Some(other) => diagnostic.write(format!("takes=\"{other}\"")),
        None => diagnostic.help("remove `takes`, and pass each value as a `hyperparameter`"),
    })
}
