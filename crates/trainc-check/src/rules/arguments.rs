//! Hyperparameters compared with the command line that the program parses.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{
    CommandLine, CommandOption, FileReader, FileSetting, Hyperparameter, ParserKind, Program, Scalar, Takes, Val,
};

declare_code!(
    T0260,
    "undeclared-argument",
    Warning,
    "a hyperparameter that the script does not declare",
    explains: [Program]
);
declare_code!(T0261, "flag-with-value", Warning, "a value for an option that accepts none");
declare_code!(
    T0822,
    "argument-of-another-type",
    Warning,
    "a hyperparameter that the script reads as another value, or rejects",
    explains: [Program]
);
declare_code!(
    T0823,
    "missing-argument",
    Warning,
    "an option that the script requires and nothing passes",
    explains: [Program]
);

/// The longest value that a message repeats, in bytes.
const LONGEST: usize = 60;

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0260, &T0261, &T0822, &T0823];

/// Checks each hyperparameter, which the toolkit passes as `--name value`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(program), Some(script)) = (&plan.job.program, &plan.script) else { return };
    let (Some(line), Some(entry)) = (&script.command_line, program.entry.value()) else { return };
    if plan.is_worker() {
        return;
    }
    let arguments = Arguments { program, line, entry };
    // Names reserved by the toolkit are reported as T0406.
    for h in program.hyperparameters.iter().filter(|h| !h.name.starts_with("sagemaker_")) {
        match line.option(&h.name) {
            Some(option) => arguments.check_value(h, option, problems),
            None => arguments.check_unknown(h, problems),
        }
    }
    arguments.check_missing(problems);
    let files = plan.named_files.iter().chain(&plan.files);
    let files = files.filter(|file| file.reader == FileReader::Program);
    let unknown = files.flat_map(|file| &file.settings);
    for setting in unknown.filter(|setting| !setting.key.contains('.')) {
        arguments.check_key(setting, problems);
    }
}

struct Arguments<'a> {
    program: &'a Program,
    line: &'a CommandLine,
    entry: &'a str,
}

impl Arguments<'_> {
    /// Reports a name that no option has.
    fn check_unknown(&self, h: &Hyperparameter, problems: &mut Problems) {
        let same = |a: &str, b: &str| a.replace('-', "_").eq_ignore_ascii_case(&b.replace('-', "_"));
        let names = || self.line.options.iter().flat_map(|option| &option.names).map(String::as_str);
        let alike = names().find(|name| same(name, &h.name));
        let is_known = self.line.is_complete && self.line.rejects_unknown;
        if alike.is_none() && !is_known {
            return;
        }
        // Both spellings are set: T0266.
        if alike.is_some_and(|name| self.program.hyperparameters.iter().any(|other| other.name == name)) {
            return;
        }
        let (found, stops) = match self.line.parser {
            ParserKind::Argparse => (
                "found in the calls of `add_argument`",
                "argparse exits with an error on an unknown option",
            ),
            ParserKind::Dataclasses | ParserKind::DataclassesAndFile => (
                "found in the dataclasses of the parser",
                "it stops at an argument that no field has",
            ),
        };
        let message = format!("`{}` declares no option `--{}`", self.entry, h.name);
        let diagnostic =
            Diagnostic::new(&T0260, h.name_span, message)
                .note(format!("{found}; {stops}"))
                .subject(h.value.span().unwrap_or(h.name_span));
        let near = alike.or_else(|| text::nearest(&h.name, names().filter(|name| name.chars().count() > 1)));
        problems.push(match near {
            Some(near) => {
                diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(h.name_span, format!("\"{near}\""))
            }
            None => diagnostic,
        });
    }

    /// Reports a key of the file of arguments that no option has. `env` sets variables.
    fn check_key(&self, setting: &FileSetting, problems: &mut Problems) {
        let is_option = self.line.options.iter().any(|option| option.names.contains(&setting.key));
        let reads_file = self.line.parser == ParserKind::DataclassesAndFile;
        if !reads_file || !self.line.is_complete || setting.key == "env" || is_option {
            return;
        }
        let names = self.line.options.iter().flat_map(|option| &option.names).map(String::as_str);
        let message = format!("`{}` parses no option `{}`", self.entry, setting.key);
        let diagnostic = Diagnostic::new(&T0260, setting.key_span, message)
            .note("TrlParser stops at a key of its file that no dataclass has (trl 0.23.0 scripts/utils.py)");
        problems.push(match text::nearest(&setting.key, names) {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None => diagnostic,
        });
    }

    /// Compares a value with what its option takes.
    fn check_value(&self, h: &Hyperparameter, option: &CommandOption, problems: &mut Problems) {
        let Some(val) = h.value.val() else { return };
        let name = &h.name;
        let at = val.span_or(h.name_span);
        let whole = val.value.python();
        // A long text, or one of several lines, is in the manifest.
        let is_long = whole.len() > LONGEST || whole.contains('\n');
        let shown = if is_long { "…".to_owned() } else { whole.clone() };
        let declared = |diagnostic: Diagnostic| match option.span {
            Some(span) => diagnostic.label(span, "declared here"),
            None => diagnostic,
        };
        let is_boolean = matches!(val.value, Scalar::Bool(_));
        match option.takes {
            Takes::Nothing if is_boolean || shown.is_empty() => {
                let received = if shown.is_empty() { "an empty value" } else { &*format!("`{shown}`") };
                let message =
                    format!("the script receives `--{name} {shown}`, but this option does not accept a value");
                problems.push(
                    Diagnostic::new(&T0261, at, message)
                        .help("declare the option with a value in the script: `type=lambda v: v == \"True\"`")
                        .note(format!("`{}` declares it as a flag; argparse rejects {received}", self.entry)),
                );
            }
            Takes::TrueIfAny if val.value.truth() == Some(false) => {
                let message =
                    format!("`--{name} {shown}` is true in the script: `type=bool` treats every non-empty string as true");
                let diagnostic = Diagnostic::new(&T0822, at, message)
                    .help(
                        "declare it with `type=lambda text: text == \"True\"` in the script; or pass \
                         `\"\"`, which is false",
                    );
                problems.push(declared(diagnostic));
            }
            Takes::Int | Takes::Float | Takes::Truth if !is_readable(option.takes, val) => {
                let wanted = match option.takes {
                    Takes::Int => "an integer",
                    Takes::Float => "a number",
                    _ => "true or false",
                };
                let message = format!("`--{} {shown}`: the script reads {wanted}", h.name);
                problems.push(declared(Diagnostic::new(&T0822, at, message)));
            }
            _ if !option.choices.is_empty()
                && option.takes != Takes::Several
                && !option.choices.iter().any(|choice| choice.python() == whole) =>
            {
                let choices: Vec<String> = option.choices.iter().map(Scalar::python).collect();
                let expected = text::backtick_list(&choices, "or");
                let message = format!("`--{} {shown}`: the script accepts {expected}", h.name);
                let diagnostic = Diagnostic::new(&T0822, at, message);
                let near = text::nearest(&shown, choices.iter().map(String::as_str));
                problems.push(declared(match near {
                    Some(near) => diagnostic
                        .help(format!("did you mean `\"{near}\"`?"))
                        .fix(at, format!("\"{near}\"")),
                    None => diagnostic,
                }));
            }
            _ => {}
        }
    }

    /// Reports options that are required and not passed.
    fn check_missing(&self, problems: &mut Problems) {
        // A file may have them.
        let has_file = self.line.parser == ParserKind::DataclassesAndFile
            && self.program.hyperparameters.iter().any(|h| h.name == "config");
        let can_be_known = self.program.arguments.is_empty() && !has_file;
        let passed: Vec<&str> = self
            .program
            .hyperparameters
            .iter()
            .filter_map(|h| Some(self.line.option(&h.name)?.attribute.as_str()))
            .collect();
        for option in self.line.options.iter().filter(|option| option.is_required && can_be_known) {
            // The name as the program spells it, not the variant with `-` that a parser adds.
            let rank = |name: &&String| (**name == option.attribute, name.len());
            let Some(name) = option.names.iter().max_by_key(rank) else { continue };
            if passed.contains(&option.attribute.as_str()) {
                continue;
            }
            let at = self.program.entry.span().unwrap_or(self.program.span);
            let message = format!("`{}` requires `--{name}`, which nothing passes", self.entry);
            let diagnostic = Diagnostic::new(&T0823, at, message)
                .help(format!("add `hyperparameter \"{name}\" …` to `program`"));
            problems.push(match option.span {
                Some(span) => diagnostic.label(span, "required here"),
                None => diagnostic,
            });
        }
    }
}

/// Returns whether Python reads a value as the type of an option.
fn is_readable(takes: Takes, val: &Val<Scalar>) -> bool {
    let shown = val.value.python();
    let shown = shown.trim();
    match takes {
        // `int("1_000")` is 1000; `int("1e3")` and `int("2.0")` are errors.
        Takes::Int => {
            let digits = shown.replace('_', "");
            let digits = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
            !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
        }
        Takes::Float => {
            let plain = shown.replace('_', "").to_ascii_lowercase();
            plain.parse::<f64>().is_ok()
        }
        // transformers' `string_to_bool` (hf_argparser.py:36, 5.24.0).
        Takes::Truth => {
            let words = ["yes", "true", "t", "y", "1", "no", "false", "f", "n", "0"];
            words.contains(&shown.to_ascii_lowercase().as_str())
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::Origin;

    #[test]
    fn python_reads_values() {
        let reads = |takes, value: Scalar| is_readable(takes, &Val { value, origin: Origin::Default("") });
        let text = |text: &str| Scalar::Text(text.to_owned());
        assert!(reads(Takes::Int, Scalar::Int(-3)) && reads(Takes::Int, text("1_000")));
        for wrong in [Scalar::Float(2.0), text("1e3"), text("auto"), Scalar::Bool(true), text("")] {
            assert!(!reads(Takes::Int, wrong.clone()), "{wrong:?}");
        }
        assert!(reads(Takes::Float, text("1e-5")) && reads(Takes::Float, text("inf")) && reads(Takes::Float, Scalar::Int(1)));
        assert!(!reads(Takes::Float, text("fast")));
        assert!(reads(Takes::Truth, Scalar::Bool(false)) && reads(Takes::Truth, text("YES")));
        assert!(!reads(Takes::Truth, text("on")));
    }
}
