//! Makes an imported manifest send the imported request: what the nodes send differently is written in
//! `request`, and what still differs is stated in the header. Both requests are real: the manifest is
//! compiled.

use super::Imported;
use super::comparison::{Difference, differences, without_start};
use super::credentials::Withheld;
use super::kdl::{Node, string};
use super::unsupported::Unsupported;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainc_check::codes::T0760;
use trainc_diag::{Allowable, Code, Severity};
use trainc_emit as emit;
use trainc_ir::Scalar;
use trainc_plan::Compiled;
use trainc_plan::bind::placeholder_value;

impl Imported {
    /// Compares the manifest's request with the imported one, and completes the manifest and its header.
    #[must_use]
    pub fn reconcile(mut self, mut compile: impl FnMut(&str) -> Compiled) -> Self {
        let mut compiled = compile(&self.manifest);
        if self.link(&compiled) {
            self.manifest = self.render();
            compiled = compile(&self.manifest);
        }
        for difference in self.differences(&compiled) {
            if is_expressible(&difference) {
                insert(&mut self.members, &difference.path, difference.imported.unwrap_or(Value::Null));
            }
        }
        self.manifest = self.render();
        let compiled = compile(&self.manifest);
        let errors = |compiled: &Compiled| -> BTreeMap<&'static str, &'static Code> {
            let errors = compiled.problems.iter().filter(|problem| problem.severity == Severity::Error);
            errors.map(|problem| (problem.code.id, problem.code)).collect()
        };
        // That a request was sent says nothing about a prediction.
        let may_be_sent = |code: &&Code| code.allowable == Some(Allowable::AwsMayAccept);
        for code in errors(&compiled).into_values().filter(may_be_sent) {
            self.nodes.push(
                Node::text("allow", code.id)
                    .prop("reason", &string("imported: sent as in the original request")),
            );
        }
        self.manifest = self.render();
        let compiled = compile(&self.manifest);
        let mut found = Unsupported::default();
        for line in &self.computed {
            found.add_difference(line);
        }
        for difference in self.differences(&compiled) {
            found.add_difference(&difference.describe());
        }
        let (blank, errors): (Vec<&str>, Vec<&str>) =
            errors(&compiled).into_keys().partition(|code| *code == T0760.id);
        if !blank.is_empty() && errors.is_empty() {
            let line = "nothing is sent before the names that read `made-up-…` are replaced";
            self.unsupported.push(line.to_owned());
            self.caveats.push(line.to_owned());
        }
        if !errors.is_empty() {
            found.add_difference(&format!(
                "the manifest has errors, so nothing is sent: {}",
                errors.join(", ")
            ));
        }
        // The comparison replaces what was only expected to differ.
        self.unsupported.retain(|line| !self.lost.contains(line));
        self.unsupported.extend(found.all);
        self.lost = found.lost;
        self.manifest = self.render();
        self
    }

    fn differences(&self, compiled: &Compiled) -> Vec<Difference> {
        let plan = compiled.plan.as_deref();
        let sent = plan.map_or(Value::Null, |plan| emit::training_job_request(plan, &emit::identity(plan)));
        let mut found = match (&sent, self.replaces_drivers) {
            (Value::Object(sent), true) => {
                let channel = plan.and_then(|plan| plan.payload.code_channel());
                differences(&without_start(&self.compared, None), &without_start(sent, channel))
            }
            _ => differences(&Value::Object(self.compared.clone()), &sent),
        };
        // It names the file that trainc packs.
        let is_moved = |difference: &Difference| match difference.path.as_slice() {
            [member, name] => member == "HyperParameters" && Some(name) == self.moved.as_ref(),
            _ => false,
        };
        found.retain(|difference| !is_moved(difference));
        found.retain(|difference| !differs_in_digest(difference));
        found.retain(|difference| !self.withheld.iter().any(|one| one.is_at(&difference.path)));
        // The script that fetches secrets starts the program.
        let fetches = self.withheld.iter().any(Withheld::is_fetched);
        found.retain(|difference| !(fetches && difference.path == PROGRAM));
        // trainc uploads the source to a place of its own.
        found.retain(|difference| !(self.has_source && difference.path == SUBMIT_DIRECTORY));
        found
    }
}

impl Imported {
    /// Writes placeholders for hyperparameters that have the value of one; returns whether there are any.
    fn link(&mut self, compiled: &Compiled) -> bool {
        let Some(plan) = compiled.plan.as_deref() else { return false };
        let keys = self.compared.get("HyperParameters").and_then(Value::as_object);
        let mut links: Vec<(String, String)> = Vec::new();
        for (name, paths) in &self.placeholders {
            let written = keys.and_then(|keys| keys.get(name)).and_then(Value::as_str).map(argument_text);
            let is_same = |path: &&String| {
                placeholder_value(plan, path).is_some_and(|value| Some(value.python()) == written)
            };
            links.extend(paths.iter().find(is_same).map(|path| (name.clone(), path.clone())));
        }
        let program = self.nodes.iter_mut().find(|node| node.is("program"));
        let Some(program) = program.filter(|_| !links.is_empty()) else { return false };
        for (name, path) in links {
            program.set_value_of("hyperparameter", &name, &string(&format!("{{{{ {path} }}}}")));
        }
        true
    }
}

/// Returns a hyperparameter as the program gets it.
fn argument_text(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::String(text)) => text,
        Ok(Value::Number(number)) if number.is_f64() => {
            Scalar::Float(number.as_f64().unwrap_or_default()).python()
        }
        _ => text.to_owned(),
    }
}

/// Path of the script that the toolkit starts.
const PROGRAM: [&str; 2] = ["HyperParameters", "sagemaker_program"];

/// Path of the location of the source archive.
const SUBMIT_DIRECTORY: [&str; 2] = ["HyperParameters", "sagemaker_submit_directory"];

/// Returns whether `request` can express a difference: a placeholder in the imported request is not sent.
fn is_expressible(difference: &Difference) -> bool {
    difference.path.first().is_some_and(|name| name != "RoleArn" && name != "Tags")
}

/// Returns whether two texts differ only in a digest, which has another value for each manifest.
fn differs_in_digest(difference: &Difference) -> bool {
    let (Some(Value::String(old)), Some(Value::String(new))) = (&difference.imported, &difference.sent)
    else {
        return false;
    };
    let is_digit = |c: char| c.is_ascii_hexdigit();
    let parts = |text: &str| -> Vec<String> {
        let words = text.split(|c| !is_digit(c));
        words.filter(|word| word.len() == 64).map(str::to_owned).collect()
    };
    let without =
        |text: &str| parts(text).iter().fold(text.to_owned(), |text, digest| text.replace(digest, ""));
    !parts(old).is_empty() && without(old) == without(new)
}

/// Sets a member by its path.
fn insert(members: &mut Map<String, Value>, path: &[String], value: Value) {
    let Some((name, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        members.insert(name.clone(), value);
        return;
    }
    let inner = members.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
    if !inner.is_object() {
        *inner = Value::Object(Map::new());
    }
    if let Value::Object(inner) = inner {
        insert(inner, rest, value);
    }
}
