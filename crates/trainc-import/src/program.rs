//! The program: script, archive, hyperparameters and environment.

use super::credentials::Withheld;
use super::kdl::{Node, escape_placeholders, integer_or_string, literal, string};
use super::launch::Decoded;
use super::origin::{Origin, ProgramSource};
use super::recording::MADE_UP;
use super::unsupported::Unsupported;
use serde_json::Value;
use trainc_catalog::reserved_names::{self, Kind};
use trainc_emit::{UnmappedMembers, unquote};

/// The program, from the hyperparameters.
pub(super) struct Script {
    entry: Option<String>,
    submit: Option<String>,
    entrypoint: Vec<String>,
    arguments: Vec<String>,
    /// The log level of the toolkit, unless it is the default.
    log_level: Option<&'static str>,
    /// The script's arguments, as sent.
    pub(super) arguments_sent: Vec<(String, String)>,
    /// The launcher's keys, decoded; those that remain are not supported.
    pub(super) launcher: Decoded,
    /// The source of the archive, if it is known.
    pub(super) source: Option<ProgramSource>,
    /// Whether the script would have uploaded the archive.
    is_missing: bool,
    /// Whether the node has the source in place of the archive.
    pub(super) has_source: bool,
}

/// The variable whose value the toolkit starts in place of `sagemaker_program`.
const PROGRAM_VARIABLE: &str = "SAGEMAKER_PROGRAM";

/// Returns the word of a log level.
fn log_level(number: &str) -> Option<&'static str> {
    let number: u8 = number.parse().ok()?;
    trainc_emit::LOG_LEVELS.iter().find(|(_, level)| *level == number).map(|(word, _)| *word)
}

impl Script {
    /// Separates the hyperparameters of script, launcher and toolkit.
    pub(super) fn new(keys: &mut Vec<(String, String)>, algorithm: &mut UnmappedMembers) -> Self {
        let texts = |items: Vec<Value>| {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let mut out = Self {
            entry: None,
            submit: None,
            entrypoint: texts(algorithm.take_list("ContainerEntrypoint")),
            arguments: texts(algorithm.take_list("ContainerArguments")),
            log_level: None,
            arguments_sent: Vec::new(),
            launcher: Decoded::new(),
            source: None,
            is_missing: false,
            has_source: false,
        };
        let scripted = out.entrypoint.is_empty() && keys.iter().any(|(key, _)| key == "sagemaker_program");
        for (key, text) in std::mem::take(keys) {
            if !scripted {
                // A name that trainc reserves is sent through `request`.
                if reserved_names::get(Kind::Hyperparameter, &key).is_some() {
                    out.launcher.insert(key, Value::from(text));
                } else {
                    out.arguments_sent.push((key, text));
                }
                continue;
            }
            let decoded = serde_json::from_str::<Value>(&text).ok();
            let plain = decoded.as_ref().and_then(Value::as_str).map(str::to_owned);
            match key.as_str() {
                "sagemaker_program" => out.entry = plain.or(Some(text)),
                "sagemaker_submit_directory" => out.submit = plain.or(Some(text)),
                // Generated again by trainc.
                "sagemaker_job_name" | "sagemaker_region" => {}
                "sagemaker_container_log_level" if log_level(&text).is_some() => {
                    out.log_level = log_level(&text).filter(|level| *level != "info");
                }
                _ if reserved_names::get(Kind::Hyperparameter, &key).is_some() => {
                    out.launcher.insert(key, decoded.unwrap_or(Value::from(text)));
                }
                _ => out.arguments_sent.push((key, text)),
            }
        }
        out
    }

    /// Finds the source of the archive.
    pub(super) fn find_source(&mut self, origin: &Origin) {
        self.source = self.submit.as_ref().and_then(|submit| origin.sources.get(submit)).cloned();
        self.is_missing = self.submit.as_ref().is_some_and(|submit| origin.missing_files(submit).is_some());
    }

    /// Returns whether the image's training toolkit starts a script.
    pub(super) fn is_script(&self) -> bool {
        self.entry.is_some() && self.entrypoint.is_empty()
    }

    /// Returns the node `program …`; `toolkit` means that the image's training toolkit starts a script.
    #[expect(clippy::too_many_arguments, reason = "the parts of a request that a program is made of")]
    pub(super) fn node(
        &mut self,
        toolkit: bool,
        code: Option<&str>,
        environment: &[(String, String)],
        (withheld, store): (&[Withheld], &str),
        algorithm: &mut UnmappedMembers,
        unsupported: &mut Unsupported,
    ) -> Node {
        // Keys that the launcher did not take.
        for (key, value) in std::mem::take(&mut self.launcher) {
            unsupported.add_difference(&format!(
                "hyperparameter `{key}` of the toolkit, {value}: not supported by any node, so \
                trainc does not send it"
            ));
        }
        let mut node = Node::new("program");
        let named = environment.iter().any(|(name, _)| name == PROGRAM_VARIABLE);
        if toolkit && !named && self.entry.is_none() && self.entrypoint.is_empty() {
            unsupported.add(
                "`program`: the request has no script (`sagemaker_program`), which the toolkit of \
                this image requires",
            );
            node = node.with_comment(
                "The request has no script, which the image requires: write `program \
                    \"train.py\" source=\"./src\"`.",
            );
        }
        if let Some(entry) = &self.entry {
            node = node.arg(&string(entry));
        }
        if let Some(level) = self.log_level {
            node = node.prop("log-level", &string(level));
        }
        let archive = self.submit.as_deref().filter(|submit| submit.starts_with("s3://")).or(code);
        let source = self.source.take().filter(|_| archive.is_some() && code.is_none());
        if let Some(source) = source {
            node = source.write(&node);
            self.has_source = true;
        } else if let Some(archive) = archive {
            node = node.prop("s3", &string(&escape_placeholders(archive)));
            if self.is_missing {
                node = node.with_comment(
                    "Not uploaded, as the script would have done: write `source=\"./…\"` for the \
                        directory of its files.",
                );
                unsupported.add_caveat(&format!(
                    "`program s3=`: not uploaded to `{archive}`: the source of the program"
                ));
            } else {
                node = node.with_comment(
                    "The archive that the job used; write `source=\"./…\"` once you have its files.",
                );
                unsupported.add(
                    "`program source=`: the source directory; `s3=` refers to the archive that the job used",
                );
            }
        } else if self.is_script() {
            node = node.prop("s3", &string("s3://placeholder/sourcedir.tar.gz"));
            node = node.with_comment(&match &self.submit {
                Some(submit) => format!("Placeholder: the job loaded its code from {submit}."),
                None => "Placeholders: the request does not contain the location of its code.".to_owned(),
            });
            unsupported
                .add("`program s3=`: the location of the archive; the one in the manifest is a placeholder");
        }
        let script = self.is_script();
        for (name, text) in std::mem::take(&mut self.arguments_sent) {
            if let Some(variable) = Withheld::variable_of(withheld, "HyperParameters", &name) {
                node = node.child(secret_node(&variable, store));
                continue;
            }
            let (literal, exact) = argument_literal(&text, script);
            if !exact {
                unsupported.add_difference(&format!(
                    "hyperparameter `{name}` was sent as {text}, which the container's shell \
                        splits into words: trainc sends it as one word"
                ));
            }
            node = node.child(Node::text("hyperparameter", &name).arg(&literal));
        }
        for (name, value) in environment {
            if Withheld::variable_of(withheld, "Environment", name).is_some() {
                node = node.child(secret_node(name, store));
                continue;
            }
            node = node.child(Node::new("environment").prop(name, &integer_or_string(value)));
        }
        for metric in algorithm.take_list("MetricDefinitions") {
            let text = |name: &str| metric.get(name).and_then(Value::as_str).unwrap_or("");
            node = node.child(Node::text("metric", text("Name")).prop_if_some("regex", Some(text("Regex"))));
        }
        for (name, words) in [("entrypoint", &self.entrypoint), ("arguments", &self.arguments)] {
            if !words.is_empty() {
                node = node.child(
                    words
                        .iter()
                        .fold(Node::new(name), |node, word| node.arg(&string(&escape_placeholders(word)))),
                );
            }
        }
        if node.is_bare() && !toolkit {
            node = node.with_comment("The image has its own entry point.");
        }
        node
    }
}

/// Returns the node that fetches a credential, whose ARN the request does not contain; `store` is the
/// beginning of ARNs.
fn secret_node(variable: &str, store: &str) -> Node {
    Node::text("secret", variable)
        .prop("from", &string(&format!("{store}{MADE_UP}-{variable}")))
        .with_comment(
            "A credential, which is not written here: store it in AWS Secrets Manager, and write the \
            secret's ARN.",
        )
}

/// Returns a hyperparameter as a literal, and whether trainc sends it unchanged.
fn argument_literal(text: &str, script: bool) -> (String, bool) {
    if !script {
        // No toolkit: strings are sent unchanged; bare integers and booleans read better and are sent as the
        // same strings.
        let literal = match text {
            "True" => "#true".to_owned(),
            "False" => "#false".to_owned(),
            _ => integer_or_string(text),
        };
        return (literal, true);
    }
    match serde_json::from_str::<Value>(text) {
        // The container's shell removes the quotes that trainc adds.
        Ok(Value::String(value)) => match unquote(&value) {
            Some(value) => (string(&escape_placeholders(&value)), true),
            None => (string(&escape_placeholders(&value)), false),
        },
        // A number with more digits than the language supports becomes a string: the script receives a string
        // either way.
        Ok(Value::Number(_)) if exceeds_precision(text) => (string(text), true),
        // The script receives the string either way (`mapping.py`), and `#null` takes a hyperparameter away.
        Ok(Value::Null) => (string("None"), true),
        Ok(value) => literal(&value)
            .map_or_else(|| (string(&escape_placeholders(text)), false), |literal| (literal, true)),
        // The toolkit passes text that is not JSON unchanged, like a string (`mapping.py`, `decode`).
        Err(_) => (string(&escape_placeholders(text)), unquote(text).is_some_and(|value| value == text)),
    }
}

/// Returns whether a JSON number has more digits than the language supports: an integer above 64 bits, or a
/// float with more than 17 digits.
fn exceeds_precision(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    if mantissa == text && !text.contains('.') {
        return text.parse::<i64>().is_err();
    }
    let all: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    all.trim_start_matches('0').trim_end_matches('0').len() > 17
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_round_trip() {
        let exact = |literal: &str| (literal.to_owned(), true);
        assert_eq!(argument_literal("\"linear\"", true), exact("\"linear\""));
        assert_eq!(
            argument_literal("\"\\\"full_shard auto_wrap\\\"\"", true),
            exact("\"full_shard auto_wrap\"")
        );
        assert_eq!(argument_literal("1e-05", true), exact("1e-5"));
        assert_eq!(argument_literal("true", true), exact("#true"));
        // Two unquoted words reach the script as two arguments, which no node expresses.
        assert_eq!(argument_literal("\"two words\"", true), ("\"two words\"".to_owned(), false));
        assert_eq!(argument_literal("[1, 2]", true), ("\"[1, 2]\"".to_owned(), false));
        assert_eq!(argument_literal("no json", true), ("\"no json\"".to_owned(), false));
        assert_eq!(argument_literal("True", true), exact("\"True\""));
        let long = "12345678901234567890123";
        assert_eq!(argument_literal(long, true), exact("\"12345678901234567890123\""));
        assert_eq!(argument_literal("0.1234567890123456789", true), exact("\"0.1234567890123456789\""));
        assert_eq!(argument_literal("-9223372036854775808", true), exact("-9223372036854775808"));
        assert_eq!(argument_literal(long, false), exact("\"12345678901234567890123\""));
        assert_eq!(argument_literal("7", false), exact("7"));
        assert_eq!(argument_literal("007", false), exact("\"007\""));
    }
}
