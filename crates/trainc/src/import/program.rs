//! The script and its arguments.

use super::kdl::{Node, bound, literal, plain, string};
use super::launch::Decoded;
use super::unsaid::Unsaid;
use serde_json::Value;
use trainc_emit::{UnmappedMembers, unquoted};

/// What the hyperparameters say.
pub(super) struct Script {
    entry: Option<String>,
    submit: Option<String>,
    entrypoint: Vec<String>,
    arguments: Vec<String>,
    /// The script's own arguments, as sent.
    own: Vec<(String, String)>,
    /// The launcher's keys, decoded; what is left of them cannot be said.
    pub(super) launcher: Decoded,
}

/// The script of a request that names none where one is needed.
const PLACEHOLDER: &str = "train.py";

/// The keys that launchers read, besides `sagemaker_…`.
const LAUNCHER: &[&str] = &["mp_parameters"];

impl Script {
    /// Sorts the hyperparameters.
    pub(super) fn of(keys: &mut Vec<(String, String)>, algorithm: &mut UnmappedMembers) -> Self {
        let texts = |items: Vec<Value>| {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let mut out = Self {
            entry: None,
            submit: None,
            entrypoint: texts(algorithm.list("ContainerEntrypoint")),
            arguments: texts(algorithm.list("ContainerArguments")),
            own: Vec::new(),
            launcher: Decoded::new(),
        };
        let scripted = out.entrypoint.is_empty() && keys.iter().any(|(key, _)| key == "sagemaker_program");
        for (key, text) in std::mem::take(keys) {
            if !scripted {
                out.own.push((key, text));
                continue;
            }
            let decoded = serde_json::from_str::<Value>(&text).ok();
            let plain = decoded.as_ref().and_then(Value::as_str).map(str::to_owned);
            match key.as_str() {
                "sagemaker_program" => out.entry = plain.or(Some(text)),
                "sagemaker_submit_directory" => out.submit = plain.or(Some(text)),
                // Made again by trainc.
                "sagemaker_job_name" | "sagemaker_region" => {}
                "sagemaker_container_log_level" if text == "20" => {}
                _ if key.starts_with("sagemaker_") || LAUNCHER.contains(&key.as_str()) => {
                    out.launcher.insert(key, decoded.unwrap_or(Value::from(text)));
                }
                _ => out.own.push((key, text)),
            }
        }
        out
    }

    /// Whether the image's training toolkit starts a script.
    pub(super) fn is_script(&self) -> bool {
        self.entry.is_some() && self.entrypoint.is_empty()
    }

    /// `program …`; `toolkit` says that the image is one in which the training toolkit starts a script.
    pub(super) fn node(
        &mut self,
        toolkit: bool,
        code: Option<&str>,
        environment: &[(String, String)],
        algorithm: &mut UnmappedMembers,
        unsaid: &mut Unsaid,
    ) -> Node {
        // What the launcher did not take.
        for (key, value) in std::mem::take(&mut self.launcher) {
            unsaid.lose(&format!("hyperparameter `{key}` of the toolkit, {value}: no node says it, and trainc would not send it"));
        }
        let mut node = Node::new("program");
        if toolkit && self.entry.is_none() && self.entrypoint.is_empty() {
            self.entry = Some(PLACEHOLDER.to_owned());
            unsaid.lose(&format!(
                "`program`: the request names no script (`sagemaker_program`), and the toolkit of this image starts nothing else; `{PLACEHOLDER}` in the manifest is a placeholder"
            ));
        }
        if let Some(entry) = &self.entry {
            node = node.arg(&string(entry));
        }
        let archive = self.submit.as_deref().filter(|submit| submit.starts_with("s3://")).or(code);
        if let Some(archive) = archive {
            node = node.prop("s3", &string(&bound(archive)));
            node = node.said("The archive that the job ran; write `source=\"./…\"` once its files are here.");
            unsaid.add("`program source=`: the source directory; `s3=` names the archive that the job ran");
        } else if self.is_script() {
            node = node.prop("s3", &string("s3://placeholder/sourcedir.tar.gz"));
            node = node.said(&match &self.submit {
                Some(submit) => format!("Placeholder: the job took its code from {submit}."),
                None => "Placeholders: the request does not say where its code is.".to_owned(),
            });
            unsaid.add("`program s3=`: where the archive lies; the one in the manifest is a placeholder");
        }
        let script = self.is_script();
        for (name, text) in std::mem::take(&mut self.own) {
            let (literal, exact) = argument(&text, script);
            if !exact {
                unsaid.lose(&format!(
                    "hyperparameter `{name}` was sent as {text}, which the container's shell takes apart: trainc sends it as one word"
                ));
            }
            node = node.child(Node::text("hyperparameter", &name).arg(&literal));
        }
        for (name, value) in environment {
            node = node.child(Node::new("environment").prop(name, &plain(value)));
        }
        for metric in algorithm.list("MetricDefinitions") {
            let text = |name: &str| metric.get(name).and_then(Value::as_str).unwrap_or("");
            node = node.child(Node::text("metric", text("Name")).maybe("regex", Some(text("Regex"))));
        }
        for (name, words) in [("entrypoint", &self.entrypoint), ("arguments", &self.arguments)] {
            if !words.is_empty() {
                node = node
                    .child(words.iter().fold(Node::new(name), |node, word| node.arg(&string(&bound(word)))));
            }
        }
        if node.is_bare() {
            node = node.said("The image starts by itself.");
        }
        node
    }
}

/// A hyperparameter as a literal, and whether it is sent again as it was.
fn argument(text: &str, script: bool) -> (String, bool) {
    if !script {
        // No toolkit: texts as they are; whole numbers and switches look better bare, and come back the same.
        let literal = match text {
            "True" => "#true".to_owned(),
            "False" => "#false".to_owned(),
            _ => plain(text),
        };
        return (literal, true);
    }
    match serde_json::from_str::<Value>(text) {
        // The container's shell takes the quotes away, and trainc puts them there.
        Ok(Value::String(value)) => match unquoted(&value) {
            Some(value) => (string(&bound(&value)), true),
            None => (string(&bound(&value)), false),
        },
        // More digits than a number of the language holds stay digits: the script reads a word either way.
        Ok(Value::Number(_)) if digits(text) => (string(text), true),
        Ok(value) => literal(&value).map_or_else(|| (string(&bound(text)), false), |literal| (literal, true)),
        // The toolkit takes what is no JSON as it is, as it takes a text (`mapping.py`, `decode`).
        Err(_) => (string(&bound(text)), unquoted(text).is_some_and(|value| value == text)),
    }
}

/// Whether a number of JSON has more digits than come back: a whole one past 64 bits, a float past 17 digits.
fn digits(text: &str) -> bool {
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
    fn arguments_come_back() {
        let exact = |literal: &str| (literal.to_owned(), true);
        assert_eq!(argument("\"linear\"", true), exact("\"linear\""));
        assert_eq!(argument("\"\\\"full_shard auto_wrap\\\"\"", true), exact("\"full_shard auto_wrap\""));
        assert_eq!(argument("1e-05", true), exact("1e-5"));
        assert_eq!(argument("true", true), exact("#true"));
        // Two words that the user did not quote reach the script as two: no node says so.
        assert_eq!(argument("\"two words\"", true), ("\"two words\"".to_owned(), false));
        assert_eq!(argument("[1, 2]", true), ("\"[1, 2]\"".to_owned(), false));
        assert_eq!(argument("no json", true), ("\"no json\"".to_owned(), false));
        assert_eq!(argument("True", true), exact("\"True\""));
        let long = "12345678901234567890123";
        assert_eq!(argument(long, true), exact("\"12345678901234567890123\""));
        assert_eq!(argument("0.1234567890123456789", true), exact("\"0.1234567890123456789\""));
        assert_eq!(argument("-9223372036854775808", true), exact("-9223372036854775808"));
        assert_eq!(argument(long, false), exact("\"12345678901234567890123\""));
        assert_eq!(argument("7", false), exact("7"));
        assert_eq!(argument("007", false), exact("\"007\""));
    }
}
