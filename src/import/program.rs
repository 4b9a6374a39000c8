//! The script and its arguments.

use super::kdl::{Node, bound, literal, plain, string};
use super::launch::Decoded;
use super::rest::Rest;
use super::Unsaid;
use crate::emit::unquoted;
use serde_json::{Map, Value};

/// What the hyperparameters say.
pub(super) struct Script {
    entry: Option<String>,
    submit: Option<String>,
    entrypoint: Vec<String>,
    arguments: Vec<String>,
    /// The script's own arguments, as sent.
    own: Vec<(String, String)>,
    /// The launcher's keys, decoded; what is left of them goes under `request`.
    pub(super) launcher: Decoded,
    /// Hyperparameters that no node can say, as sent.
    pub(super) raw: Map<String, Value>,
}

/// The keys that launchers read, besides `sagemaker_…`.
const LAUNCHER: &[&str] = &["mp_parameters"];

impl Script {
    /// Sorts the hyperparameters.
    pub(super) fn of(keys: &mut Vec<(String, String)>, algorithm: &mut Rest) -> Self {
        let texts = |items: Vec<Value>| items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>();
        let mut out = Self {
            entry: None,
            submit: None,
            entrypoint: texts(algorithm.list("ContainerEntrypoint")),
            arguments: texts(algorithm.list("ContainerArguments")),
            own: Vec::new(),
            launcher: Decoded::new(),
            raw: Map::new(),
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
                _ if key.starts_with("sagemaker_") || LAUNCHER.contains(&key.as_str()) => match decoded {
                    Some(value) => {
                        out.launcher.insert(key, value);
                    }
                    None => {
                        out.raw.insert(key, Value::from(text));
                    }
                },
                _ => out.own.push((key, text)),
            }
        }
        out
    }

    /// Whether the image's training toolkit starts a script.
    pub(super) fn is_script(&self) -> bool {
        self.entry.is_some() && self.entrypoint.is_empty()
    }

    /// `program …`.
    pub(super) fn node(&mut self, code: Option<&str>, environment: &[(String, String)], algorithm: &mut Rest, unsaid: &mut Unsaid) -> Node {
        // What the launcher did not take.
        for (key, value) in std::mem::take(&mut self.launcher) {
            self.raw.insert(key, Value::from(value.to_string()));
        }
        let mut node = Node::new("program");
        if let Some(entry) = &self.entry {
            node = node.arg(&string(entry));
        }
        let archive = self.submit.as_deref().filter(|submit| submit.starts_with("s3://")).or(code);
        if let Some(archive) = archive {
            node = node.prop("s3", &string(&bound(archive)));
            node = node.said("The archive that the job ran; write `source=\"./…\"` once its files are here.");
            unsaid.add("`program source=`: the source directory; `s3=` names the archive that the job ran");
        } else if self.is_script() {
            let submit = self.submit.clone().unwrap_or_default();
            node = node.prop("s3", &string("s3://placeholder/sourcedir.tar.gz"));
            node = node.said(&format!("Placeholder: the job took its code from {submit}."));
            unsaid.add("`program s3=`: where the archive lies; the one in the manifest is a placeholder");
        }
        let script = self.is_script();
        for (name, text) in std::mem::take(&mut self.own) {
            match argument(&text, script) {
                Some(literal) => node = node.child(Node::text("hyperparameter", &name).arg(&literal)),
                None => {
                    self.raw.insert(name, Value::from(text));
                }
            }
        }
        for (name, value) in environment {
            node = node.child(Node::new("environment").prop(name, &plain(value)));
        }
        for metric in algorithm.list("MetricDefinitions") {
            let text = |name: &str| metric.get(name).and_then(Value::as_str).unwrap_or("");
            node = node.child(Node::text("metric", text("Name")).prop("regex", &string(text("Regex"))));
        }
        for (name, words) in [("entrypoint", &self.entrypoint), ("arguments", &self.arguments)] {
            if !words.is_empty() {
                node = node.child(words.iter().fold(Node::new(name), |node, word| node.arg(&string(word))));
            }
        }
        if node.is_bare() {
            node = node.said("The image starts by itself.");
        }
        node
    }
}

/// A hyperparameter as a literal; `None` where none would send the same text.
fn argument(text: &str, script: bool) -> Option<String> {
    if !script {
        // No toolkit: texts as they are; whole numbers and switches look better bare, and come back the same.
        return Some(match text {
            "True" => "#true".to_owned(),
            "False" => "#false".to_owned(),
            _ => plain(text),
        });
    }
    match serde_json::from_str::<Value>(text).ok()? {
        // The container's shell takes the quotes away, and trainc puts them there.
        Value::String(value) => Some(string(&bound(&unquoted(&value)?))),
        scalar => literal(&scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back() {
        assert_eq!(argument("\"linear\"", true).as_deref(), Some("\"linear\""));
        assert_eq!(argument("\"\\\"full_shard auto_wrap\\\"\"", true).as_deref(), Some("\"full_shard auto_wrap\""));
        assert_eq!(argument("1e-05", true).as_deref(), Some("1e-5"));
        assert_eq!(argument("true", true).as_deref(), Some("#true"));
        // Two words that the user did not quote reach the script as two: no node says so.
        assert_eq!(argument("\"two words\"", true), None);
        assert_eq!(argument("[1, 2]", true), None);
        assert_eq!(argument("no json", true), None);
        assert_eq!(argument("7", false).as_deref(), Some("7"));
        assert_eq!(argument("007", false).as_deref(), Some("\"007\""));
    }
}
