//! Credentials in an imported request: neither the manifest nor the written request contains them.

use super::recording::MADE_UP;
use serde_json::{Map, Value};
use trainc_diag::credentials::{NamedCredential, Place, classify, classify_name, find};
use trainc_diag::source::SourceMap;

/// The text in place of a credential.
const WITHHELD: &str = "***";

/// Members whose values reach the program.
const VARIABLES: [&str; 2] = ["Environment", "HyperParameters"];

/// A credential that was taken out of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Withheld {
    /// The names of its members, the outermost first.
    path: Vec<String>,
    /// Whether `secret` fetches it in place of the variable or the hyperparameter.
    is_secret: bool,
    /// Whether it is not there: a script asked for it.
    is_made_up: bool,
}

impl Withheld {
    /// Returns the variable that `secret` sets, if the value of this member is withheld.
    pub(super) fn variable_of(all: &[Self], member: &str, name: &str) -> Option<String> {
        let is_it = |one: &&Self| one.is_secret && one.path == [member, name];
        all.iter().find(is_it).map(|_| variable(name))
    }

    /// Returns whether `secret` fetches it.
    pub(super) fn is_fetched(&self) -> bool {
        self.is_secret
    }

    /// Returns whether it is the member at a path.
    pub(super) fn is_at(&self, path: &[String]) -> bool {
        self.is_secret && self.path == path
    }

    /// Returns whether it is not there, and a text stands for it.
    pub(super) fn is_made_up(&self) -> bool {
        self.is_made_up
    }

    /// Returns whether a line is about it: its path in backquotes comes first.
    pub(super) fn is_named(&self, line: &str) -> bool {
        self.is_secret && line.starts_with(&format!("`{}`", self.path.join(".")))
    }

    /// Says what to do for one that is not there.
    pub(super) fn describe_made_up(&self) -> String {
        let variable = variable(self.path.last().map_or("", String::as_str));
        format!(
            "`{}`: the script asks for it, and `secret \"{variable}\"` fetches it: store it in AWS \
                Secrets Manager, and write the secret's ARN",
            self.path.join(".")
        )
    }

    /// Describes the difference of the manifest's request.
    pub(super) fn describe(&self) -> String {
        let path = self.path.join(".");
        let name = self.path.last().map_or("", String::as_str);
        if !self.is_secret {
            return format!("`{path}` contains a credential, which is not written: it reads `{WITHHELD}`");
        }
        let variable = variable(name);
        let reads = if self.path.first().is_some_and(|first| first == "HyperParameters") {
            format!("; the program has to read the variable `{variable}` instead")
        } else {
            String::new()
        };
        format!(
            "`{path}` is a credential, which is not written: the manifest fetches it with \
                `secret \"{variable}\"`{reads}"
        )
    }
}

/// Returns the variable for a name: `hf-token` becomes `HF_TOKEN`.
fn variable(name: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    // A variable keeps its name.
    if name.contains(|c: char| c.is_ascii_uppercase()) {
        name.to_owned()
    } else {
        name.chars().map(upper).collect()
    }
}

/// Replaces the credentials of a request, and returns where they were.
pub(super) fn withhold(members: &mut Map<String, Value>) -> Vec<Withheld> {
    let mut out = Vec::new();
    for (name, value) in members {
        let place = if VARIABLES.contains(&name.as_str()) { Place::Variable } else { Place::Other };
        replace(value, &mut vec![name.clone()], name, place, &mut out);
    }
    out
}

fn replace(value: &mut Value, path: &mut Vec<String>, name: &str, place: Place, out: &mut Vec<Withheld>) {
    match value {
        Value::String(text) => {
            let is_asked_for = place == Place::Variable && is_made_up_token(name, text);
            if !is_asked_for && classify(name, text, place).is_none() {
                return;
            }
            // The address around a password stays.
            let is_address = text.contains("://");
            let masked = SourceMap::default().mask(text);
            *text = if find(text).is_some() && is_address { masked } else { WITHHELD.to_owned() };
            let is_secret = place == Place::Variable && path.len() == 2 && !is_address;
            out.push(Withheld { path: path.clone(), is_secret, is_made_up: is_asked_for });
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, path, name, place, out)),
        Value::Object(members) => {
            // A tag or a parameter is a pair of a name and a value.
            let key = ["Key", "Name"].iter().find_map(|key| members.get(*key)?.as_str()).map(str::to_owned);
            for (name, inner) in members {
                let known = key.as_deref().filter(|_| name == "Value").unwrap_or(name);
                path.push(known.to_owned());
                replace(inner, path, known, place, out);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether a text stands for a credential that a script asked for: by the text, or by the name of its
/// variable.
fn is_made_up_token(name: &str, text: &str) -> bool {
    let Some(what) = text.strip_prefix(MADE_UP).and_then(|rest| rest.strip_prefix('-')) else { return false };
    let is_credential = |name| {
        let kind = classify_name(name);
        matches!(
            kind,
            Some(NamedCredential::Password | NamedCredential::Credential | NamedCredential::Perhaps)
        )
    };
    what == "token" || is_credential(name) || is_credential(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn credentials_are_taken_out_wherever_they_are() {
        let token = concat!("hf_", "AbCdEfGhIjKlMnOpQrStUvWxYz01234567");
        let mut request = json!({
            "TrainingJobName": "a",
            "Environment": {"HF_TOKEN": token, "DB_PASSWORD": "hunter2", "GIT_SHA": "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12"},
            "HyperParameters": {"token": format!("\"{token}\""), "repo": "\"https://me:geheim@host/a.git\"", "lr": "0.1"},
            "Tags": [{"Key": "api-password", "Value": "geheim"}, {"Key": "owner", "Value": "me"}],
            "AlgorithmSpecification": {"ContainerArguments": ["--token", token]},
            "RoleArn": "arn:aws:iam::111122223333:role/a",
        });
        let withheld = withhold(request.as_object_mut().unwrap());
        let text = request.to_string();
        assert!(![token, "hunter2", "geheim"].iter().any(|secret| text.contains(secret)), "{text}");
        assert_eq!(request["Environment"]["GIT_SHA"], "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12");
        assert_eq!(request["HyperParameters"]["repo"], "\"***host/a.git\"");
        assert_eq!(request["Tags"][1]["Value"], "me");
        let paths: Vec<String> = withheld.iter().map(|one| one.path.join(".")).collect();
        let expected = [
            "AlgorithmSpecification.ContainerArguments",
            "Environment.DB_PASSWORD",
            "Environment.HF_TOKEN",
            "HyperParameters.repo",
            "HyperParameters.token",
            "Tags.api-password",
        ];
        let mut sorted = paths.clone();
        sorted.sort();
        assert_eq!(sorted, expected);
        let variable = |member, name| Withheld::variable_of(&withheld, member, name);
        assert_eq!(variable("HyperParameters", "token").as_deref(), Some("TOKEN"));
        assert_eq!(variable("Environment", "HF_TOKEN").as_deref(), Some("HF_TOKEN"));
        assert_eq!(variable("HyperParameters", "repo"), None);
    }
}
