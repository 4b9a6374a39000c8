//! Where a request comes from, if it is not a file of its own: the script that would have sent it.

use super::kdl::{Node, escape_placeholders, string};
use super::recording::{GitSource, ROLE_PLACEHOLDER, Recording, made_up_members, uri_of_account};
use super::unsupported::Unsupported;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The script that would have sent a request, and what is known from running it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// Name of the script.
    pub script: Option<String>,
    /// Region of the client.
    pub region: Option<String>,
    /// Source archives by their URI.
    pub sources: BTreeMap<String, ProgramSource>,
    /// Objects that the script would have uploaded.
    uploaded: Vec<String>,
    /// ARNs of the roles that it names, and whether it would have created them.
    roles: BTreeMap<String, bool>,
    notes: Vec<String>,
}

/// The source of a program, as a manifest names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramSource {
    /// Directory, relative to the manifest or to the repository.
    pub directory: String,
    /// Name of the script, if the archive contains it alone.
    pub script: Option<String>,
    /// Further directories, relative to the manifest.
    pub dependencies: Vec<String>,
    /// Repository of the source.
    pub git: Option<GitSource>,
}

impl Origin {
    /// Creates the origin of the requests of a script whose manifests are written to a directory. Both paths are absolute.
    pub fn from_recording(
        script: &str,
        region: Option<String>,
        recording: &Recording,
        directory: &Path,
    ) -> Self {
        let sources = recording.sources.iter().map(|(uri, source)| {
            let relative = |path: &str| relative(directory, Path::new(path));
            let name =
                |path: &str| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
            let of_git = source.git.is_some();
            let written = ProgramSource {
                directory: if of_git { source.directory.clone() } else { relative(&source.directory) },
                script: source.script.as_deref().and_then(name),
                dependencies: source.dependencies.iter().map(|path| relative(path)).collect(),
                git: source.git.clone(),
            };
            (uri.clone(), written)
        });
        let mut notes = Vec::new();
        if let Some(region) = &recording.assumed_region {
            notes.push(format!(
                "`region`: not configured; `{region}` is a placeholder: run `trainc import` with `--region`"
            ));
        }
        Self {
            script: Some(script.to_owned()),
            region,
            sources: sources.collect(),
            uploaded: recording.uploaded.clone(),
            roles: recording.roles.clone(),
            notes,
        }
    }

    /// Returns the origin with an account in place of the placeholder.
    pub(super) fn in_account(&self, account: &str) -> Self {
        let uri = |uri: &String| uri_of_account(uri, account);
        Self {
            sources: self.sources.iter().map(|(key, source)| (uri(key), source.clone())).collect(),
            uploaded: self.uploaded.iter().map(uri).collect(),
            ..self.clone()
        }
    }

    /// Adds what a request has in place of what only the account knows, and what it refers to that is not there.
    pub(super) fn describe(&self, request: &Map<String, Value>, out: &mut Unsupported) {
        self.notes.iter().for_each(|note| out.add(note));
        if self.script.is_none() {
            return;
        }
        match request.get("RoleArn").and_then(Value::as_str) {
            Some(ROLE_PLACEHOLDER) => out.add_caveat(
                "`RoleArn`: the execution role of your environment, which is not asked; the manifest creates a role instead, \
unless you write `role arn=\"arn:…\"`",
            ),
            Some(arn) => match self.roles.get(arn) {
                Some(true) => out.add_caveat(&format!(
                    "`RoleArn`: the script would have created `{arn}`; create it, or write `role create=#true`"
                )),
                Some(false) => out.add(&format!(
                    "`RoleArn`: the script names the role alone, and the path of `{arn}` is assumed"
                )),
                None => {}
            },
            None => {}
        }
        for member in made_up_members(&Value::Object(request.clone())) {
            out.add_caveat(&format!(
                "{member} is the answer of trainc to a call of the script: write the value of your account"
            ));
        }
        let channels = request.get("InputDataConfig").and_then(Value::as_array);
        for channel in channels.into_iter().flatten() {
            let uri = channel.pointer("/DataSource/S3DataSource/S3Uri").and_then(Value::as_str);
            let name = channel.get("ChannelName").and_then(Value::as_str).unwrap_or_default();
            let Some(uri) = uri.filter(|uri| !uri.is_empty()) else { continue };
            let objects = self.uploaded.iter().filter(|object| object.starts_with(uri)).count();
            if objects > 0 {
                out.add_caveat(&format!(
                    "channel `{name}`: the script would have uploaded {} to `{uri}`, which does not have them yet",
                    trainc_diag::text::count(objects as u64, "file")
                ));
            }
        }
    }

    /// Returns the comment at a role that the script names without its path, or would have created.
    pub(super) fn comment_on_role(&self, arn: &str) -> Option<&'static str> {
        Some(match self.roles.get(arn)? {
            true => "The script would have created this role; trainc creates one with `role create=#true`.",
            false => "The script names the role alone: if it has a path, add it, as in `role/PATH/NAME`.",
        })
    }
}

impl ProgramSource {
    /// Returns the node of a program with its source; `None` if only the archive is known.
    pub(super) fn write(&self, program: &Node) -> Option<Node> {
        // A manifest names directories: with the script's own, other files would be uploaded too.
        if self.script.is_some() {
            return None;
        }
        let text = |text: &str| string(&escape_placeholders(text));
        let mut node = program.clone();
        node = match &self.git {
            Some(git) => node
                .prop("git", &text(&git.repo))
                .prop_if_some("branch", git.branch.as_deref())
                .prop_if_some("commit", git.commit.as_deref())
                .prop("dir", &text(&self.directory)),
            None => node.prop("source", &text(&self.directory)),
        };
        for dependency in &self.dependencies {
            node = node.child(Node::new("dependency").arg(&text(dependency)));
        }
        Some(node)
    }
}

/// Returns the path from a directory to another one: `./src`, `../src`.
fn relative(from: &Path, to: &Path) -> String {
    let common = from.components().zip(to.components()).take_while(|(from, to)| from == to).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to.components().skip(common)).collect();
    let text = path.to_string_lossy();
    if text.starts_with("..") {
        text.into_owned()
    } else if text.is_empty() {
        ".".to_owned()
    } else {
        format!("./{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_manifest() {
        let check = |from: &str, to: &str, expected: &str| {
            assert_eq!(relative(Path::new(from), Path::new(to)), expected);
        };
        check("/a/b", "/a/b/src", "./src");
        check("/a/b", "/a/src", "../src");
        check("/a/b", "/a/b", ".");
    }
}
