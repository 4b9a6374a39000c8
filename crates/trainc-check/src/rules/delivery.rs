//! Settings that nothing carries to the program.

use crate::Context;
use crate::queries::program::has_assumed_batch;
use trainc_catalog::vocabulary;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::delivery::Delivery;
use trainc_ir::{Assumed, Carrier, FileReader, ForeignFile, ParserKind, WhyAssumed};

declare_code!(
    T0820,
    "program-default-differs",
    Warning,
    "a setting that is not passed, and whose default in the program is another value"
);
declare_code!(T0821, "assumed-settings", Note, "settings that are not passed to the program");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0820, &T0821];

/// Reports settings that are assumed of the program.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    // A class of which nothing is passed is an error of its own.
    let takes = plan.job.program.as_ref().and_then(|program| program.takes.span());
    let is_refused = takes.is_some() && plan.delivery.passed.iter().all(|one| one.by != Carrier::Vocabulary);
    // A file that nothing names to the program is one fault, not one for each value.
    let file_of = |one: &Assumed| plan.files.iter().find(|file| file.span.source == one.span.source);
    let is_in_file = |one: &Assumed| file_of(one).is_some();
    for one in plan.delivery.assumed.iter().filter(|one| !is_refused && !is_in_file(one)) {
        if let Some(diagnostic) = other_default(one) {
            problems.push(diagnostic);
        }
    }
    // A batch that a rule refuses is passed by nothing.
    let is_refused_batch = |one: &Assumed| {
        plan.batch.is_none() && one.placeholder.is_some_and(|path| path.starts_with("batch."))
    };
    let assumed = plan.delivery.assumed.iter().filter(|one| !is_refused_batch(one));
    let names: Vec<&str> = assumed.map(|one| Delivery::short(&one.setting)).collect();
    // The values of `import`, which another rule reports, and algorithms, which have arguments of their own.
    if names.is_empty() || has_assumed_batch(plan) || plan.job.has_algorithm_name() {
        return;
    }
    let program = plan.job.program.as_ref();
    let Some(at) = program.map(|program| program.span).or(plan.job.train.span) else { return };
    let message = format!("not passed to the program: {}", text::backtick_list(&names, "and"));
    let mut diagnostic = Diagnostic::new(&T0821, at, message)
        .note(
            "the plan assumes that the program has these values; an edit of them changes the plan, not the \
             job",
        );
    for one in &plan.delivery.assumed {
        if let WhyAssumed::UnreadVariable { name } = &one.why {
            let what = Delivery::short(&one.setting);
            diagnostic = diagnostic.note(format!("the program does not read the variable `{name}` ({what})"));
        }
    }
    let parser = plan.script.as_ref().and_then(|script| script.command_line.as_ref());
    let class = parser.filter(|line| line.parser != ParserKind::Argparse).and_then(|line| {
        let is_one = |name: &&String| trainc_ir::ARGUMENT_CLASSES.contains(&name.as_str());
        line.classes.iter().find(is_one)
    });
    // Another rule reports an option that the program does not read.
    let is_named = |file: &&ForeignFile| {
        let values = program.iter().flat_map(|program| &program.hyperparameters);
        values.filter_map(|h| h.value.value()).any(|value| value.python().contains(file.name()))
    };
    if let Some(file) = plan.delivery.assumed.iter().find_map(file_of).filter(|file| !is_named(file)) {
        let (option, placeholder) = match file.reader {
            FileReader::Program => (Some("config"), "train.file"),
            FileReader::Engine | FileReader::OtherFile => {
                (plan.engine.and_then(|engine| engine.front.file_option), "engine.file")
            }
        };
        let declares = |name: &&str| {
            let line = plan.script.as_ref().and_then(|script| script.command_line.as_ref());
            line.is_none_or(|line| !line.is_complete || line.option(name).is_some())
        };
        let help = match option.filter(declares) {
            Some(option) => {
                format!("add `hyperparameter \"{option}\" \"{{{{ {placeholder} }}}}\"` to `program`")
            }
            None => format!("pass `{{{{ {placeholder} }}}}` under the program's own name for it"),
        };
        let help = format!("{help}: nothing passes `{}` to it", file.path);
        problems.push(diagnostic.severity(Severity::Warning).help(help));
        return;
    }
    diagnostic = match class.filter(|_| takes.is_none()) {
        Some(class) => diagnostic
            .help(format!(
                "write `takes=\"{class}\"` in `program`: trainc passes what that class has a name for"
            )),
        None => match plan.delivery.assumed.first().and_then(|first| first.placeholder) {
            Some(path) => diagnostic.help(format!(
                "pass a value under the program's own name for it, such as `hyperparameter \"…\" \"{{{{ \
                 {path} }}}}\"`"
            )),
            None => diagnostic,
        },
    };
    problems.push(diagnostic);
}

/// Reports a default of the program that differs from the plan.
fn other_default(assumed: &Assumed) -> Option<Diagnostic> {
    let WhyAssumed::Default { name, class, value, is_same: false, is_option, placeholder, span } = &assumed.why
    else {
        return None;
    };
    let what = Delivery::short(&assumed.setting);
    let planned = assumed.value.written();
    let of = match class {
        Some(class) => format!("the default of {class}"),
        None => "the program's default".to_owned(),
    };
    let shown = value.python();
    let mut diagnostic = Diagnostic::new(
        &T0820,
        assumed.span,
        format!("`{what} {planned}` is not passed: the program runs with `{name}` {shown}, {of}"),
    )
    .note("memory, time and cost are predicted for the plan's value");
    let row = match class {
        Some(class) => vocabulary::of_class(class, name),
        None => vocabulary::get(name),
    };
    // A switch for one word of several, as `bf16`, has no placeholder.
    let carries = row.as_ref().is_none_or(|row| row.equals.is_none() && row.words.is_none());
    let path = placeholder.or(assumed.placeholder).filter(|_| carries);
    let is_on = row.is_some_and(|row| row.writes.get(&planned).is_some_and(|word| word == "true"));
    diagnostic = match (is_option, class, path) {
        (true, _, Some(path)) => {
            diagnostic.help(format!("add `hyperparameter \"{name}\" \"{{{{ {path} }}}}\"` to `program`"))
        }
        (true, ..) if is_on => {
            diagnostic.help(format!("add `hyperparameter \"{name}\" #true` to `program`"))
        }
        (true, _, None) if assumed.value.number().is_some() && carries => {
            diagnostic.help(format!("add `hyperparameter \"{name}\" {planned}` to `program`"))
        }
        (true, ..) => diagnostic.help(format!("pass `{name}` as a `hyperparameter` of `program`")),
        (false, Some(class), _) => {
            diagnostic.help(format!("set `{name}=` in the call of {class}, from an argument of the program"))
        }
        (false, None, _) => diagnostic,
    };
    if let Some(span) = span {
        diagnostic = diagnostic.label(*span, "default");
    }
    Some(diagnostic)
}
