//! Paths and variables of the container: channels that the job has, and directories that SageMaker makes.

use crate::Context;
use crate::queries::program::is_python;
use trainc_catalog::container_paths;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Plan, Program, Scalar};

declare_code!(
    T0582, "unknown-channel", Warning,
    "a path or variable of a channel that the job does not have"
);
declare_code!(T0583, "unknown-container-path", Warning, "a path under /opt/ml that looks misspelled");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0582, &T0583];

/// The directory of the channels.
const CHANNELS: &str = "/opt/ml/input/data/";
/// The start of the toolkit's variable for the path of a channel.
const VARIABLE: &str = "SM_CHANNEL_";

/// Checks what the program is given, then its entry point.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    // The worker's channels are trainc's own, and `request` can add channels.
    let adds_channels = plan.job.request.iter().any(|member| member.name == "InputDataConfig");
    if adds_channels || plan.is_worker() {
        return;
    }
    let Some(channels) = channel_names(plan) else { return };
    let texts = texts(program);
    for (text, span) in &texts {
        for used in uses(text) {
            if !channels.iter().any(|name| used.is_of(name)) {
                problems.push(unknown_channel(&used, *span, &channels));
            }
        }
        check_directories(plan, text, *span, problems);
    }
    // A path that the program is given replaces the default of its option.
    if !texts.iter().any(|(text, _)| text.contains(CHANNELS) || text.contains(VARIABLE)) {
        check_entry(context, program, &channels, problems);
    }
}

/// Returns the names of the channels; `None` if one of them has no valid name.
fn channel_names(plan: &Plan) -> Option<Vec<&str>> {
    let mut names = plan.job.channels.iter().map(|channel| channel.name.value().map(String::as_str)).collect::<Option<Vec<_>>>()?;
    if plan.job.network.as_ref().is_some_and(|network| network.isolation.get() == Some(true)) {
        names.push("code");
    }
    Some(names)
}

/// Returns the texts that reach the program.
fn texts(program: &Program) -> Vec<(&str, Span)> {
    let parameters = program.hyperparameters.iter().filter_map(|h| match h.value.val() {
        Some(val) => match &val.value {
            Scalar::Text(text) => Some((text.as_str(), val.span_or(h.name_span))),
            _ => None,
        },
        None => None,
    });
    let variables = program
        .environment
        .iter()
        .filter_map(|pair| pair.value.val().map(|val| (val.value.as_str(), val.span_or(pair.key_span))));
    let words = program.entrypoint.iter().chain(&program.arguments);
    parameters.chain(variables).chain(words.map(|word| (word.value.as_str(), word.span_or(program.span)))).collect()
}

/// A channel that a text refers to.
struct Use<'a> {
    name: &'a str,
    /// By its variable, whose name is in capital letters.
    by_variable: bool,
}

impl Use<'_> {
    /// Returns whether it refers to the channel. A pipe has the number of its epoch at the end.
    fn is_of(&self, channel: &str) -> bool {
        if self.by_variable {
            return channel.to_uppercase() == self.name;
        }
        let rest = self.name.strip_prefix(channel);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('_').is_some_and(|epoch| epoch.parse::<u32>().is_ok())
                || rest == "-manifest"
        })
    }

    fn name_of_channel(&self) -> String {
        if self.by_variable { self.name.to_lowercase() } else { self.name.to_owned() }
    }

    fn shown(&self) -> String {
        format!("{}{}", if self.by_variable { VARIABLE } else { CHANNELS }, self.name)
    }

    /// Returns what it is without its channel.
    fn consequence(&self) -> &'static str {
        if self.by_variable { "is not set" } else { "does not exist" }
    }

    /// Returns how to refer to another channel.
    fn instead(&self, channel: &str) -> String {
        if self.by_variable { format!("{VARIABLE}{}", channel.to_uppercase()) } else { format!("{CHANNELS}{channel}") }
    }
}

/// Returns the channels that a text refers to, without names that are put together when the program runs.
fn uses(text: &str) -> Vec<Use<'_>> {
    let mut found = Vec::new();
    for (start, by_variable) in [(CHANNELS, false), (VARIABLE, true)] {
        for after in text.split(start).skip(1) {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || (!by_variable && c == '.');
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            let (name, rest) = after.split_at(end);
            if !name.is_empty() && !rest.starts_with(['{', '$', '%', '*', '?', '[']) {
                found.push(Use { name, by_variable });
            }
        }
    }
    found
}

fn unknown_channel(used: &Use, span: Span, channels: &[&str]) -> Diagnostic {
    let shown = used.shown();
    let diagnostic = Diagnostic::new(
        &T0582,
        span,
        format!("the job has no channel `{}`: `{shown}` {}", used.name_of_channel(), used.consequence()),
    )
    .note("SageMaker creates a directory under `/opt/ml/input/data`, and the training toolkit a \
        variable, for each channel of the job");
    let near = text::nearest(used.name, channels.iter().copied()).or(match channels {
        [only] => Some(*only),
        _ => None,
    });
    match near {
        Some(near) => diagnostic.write(used.instead(near)).or_else("rename the channel"),
        None if channels.is_empty() => {
            diagnostic.help(format!("add `channel \"{}\" s3=\"s3://BUCKET/PREFIX/\"`", used.name_of_channel()))
        }
        None => diagnostic.help(format!("use {}, or add the channel", text::backtick_list(channels, "or"))),
    }
}

/// Reports directories under `/opt/ml` that are nearly one of SageMaker's.
fn check_directories(plan: &Plan, text: &str, span: Span, problems: &mut Problems) {
    const ROOT: &str = "/opt/ml/";
    let job = &plan.job;
    let own = [
        job.checkpoint.as_ref().and_then(|node| node.local.value()),
        job.debugger.as_ref().and_then(|node| node.local.value()),
        job.tensorboard.as_ref().and_then(|node| node.local.value()),
    ];
    for after in text.split(ROOT).skip(1) {
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))).unwrap_or(after.len());
        let (name, rest) = after.split_at(end);
        if name == "input" && !is_input_directory(rest) {
            let path = format!("{ROOT}{name}{}", rest.split('/').nth(1).map_or_else(String::new, |part| format!("/{part}")));
            problems.push(
                Diagnostic::new(&T0583, span, format!("`{path}` is not a directory of SageMaker: the \
                    channels are in `/opt/ml/input/data`"))
                    .help("write `/opt/ml/input/data/CHANNEL`"),
            );
            continue;
        }
        if container_paths::names().any(|known| known == name) || rest.starts_with(['{', '$']) {
            continue;
        }
        let path = format!("{ROOT}{name}");
        let is_own = |local: &String| {
            local.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if own.iter().flatten().any(|local| is_own(local)) {
            continue;
        }
        let instead = container_paths::instead_of(name);
        let near = instead.as_deref().or_else(|| text::nearest(name, container_paths::names()));
        let Some(near) = near else { continue };
        let Some(row) = container_paths::get(near) else { continue };
        let diagnostic = Diagnostic::new(&T0583, span, format!("`{path}` is not a directory of SageMaker: \
            did you mean `{ROOT}{near}`?"))
            .note(format!("`{ROOT}{near}`: {} ({})", row.statement, row.provenance.source));
        problems.push(diagnostic.write(format!("{ROOT}{near}")));
    }
}

/// Returns whether a path below `/opt/ml/input` begins with a directory that SageMaker makes, or one that is
/// put together when the program runs.
fn is_input_directory(rest: &str) -> bool {
    let part = rest.trim_start_matches('/').split(['/', ' ', '"', '\'', ':', ',']).next().unwrap_or_default();
    part.is_empty() || part.starts_with(['{', '$', '*']) || matches!(part, "data" | "config")
}

/// Reports a script that refers to channels, but to none that the job has.
fn check_entry(context: &Context, program: &Program, channels: &[&str], problems: &mut Problems) {
    let Some(entry) = program.entry.val().filter(|entry| is_python(&entry.value)) else { return };
    let Some(file) = context.plan.source.as_ref().and_then(|tree| tree.get(&entry.value)) else { return };
    let script = file.text();
    let used = uses(&script);
    let is_known = used.iter().any(|used| channels.iter().any(|name| used.is_of(name)));
    let Some(first) = used.first().filter(|_| !is_known && !channels.is_empty()) else { return };
    problems.push(
        unknown_channel(first, entry.span_or(program.span), channels)
            .note(format!("found by searching `{}`, which refers to no channel of the job", entry.value)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_channels_in_a_text() {
        let names = |text: &str| uses(text).iter().map(|used| used.name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names("--data /opt/ml/input/data/train/a.csv --x $SM_CHANNEL_VALIDATION"), ["train", "VALIDATION"]);
        assert_eq!(names("f\"/opt/ml/input/data/{name}\" /opt/ml/input/data SM_CHANNEL_{x}"), [""; 0]);
        assert_eq!(names("/opt/ml/input/data/train_${EPOCH}"), [""; 0]);
    }

    #[test]
    fn a_use_is_of_its_channel() {
        let path = |name| Use { name, by_variable: false };
        let variable = |name| Use { name, by_variable: true };
        assert!(path("train").is_of("train") && path("train_0").is_of("train"));
        assert!(!path("training").is_of("train") && !path("train_x").is_of("train") && !path("Train").is_of("train"));
        assert!(variable("TRAIN").is_of("train") && variable("EVAL-A").is_of("eval-a"));
        assert!(!variable("TRAINING").is_of("train"));
    }
}
