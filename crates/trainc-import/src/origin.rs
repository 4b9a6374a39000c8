//! Where a request comes from, if it is not a file of its own: the script that would have sent it.

use super::account_of;
use super::credentials::Withheld;
use super::kdl::{Node, escape_placeholders, string};
use super::recording::{
    ACCOUNT, GitSource, LocalChannel, ROLE_PLACEHOLDER, RecordedDocument, Recording, fill_account,
    in_account, made_up_members,
};
use super::trainer::{self, Started, Trainer};
use super::training::Training;
use super::unsupported::{Unsupported, shown};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use trainc_ir::payload::CODE_DIRECTORY;
use trainc_project::files::read_regular;

/// Largest file of arguments that is read, in bytes.
const MOST_ARGUMENTS: u64 = 1 << 20;
/// Where containers have the channels, and the SDK v3 the source in one.
const CHANNELS: &str = "/opt/ml/input/data/";

/// What of the training is written into a manifest, from hyperparameters and the file that they name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fill {
    /// The values; otherwise placeholders.
    pub(super) values: bool,
    /// `train file=` in place of the values of the file.
    pub(super) file: bool,
    /// The model.
    pub(super) model: bool,
}

impl Fill {
    /// The ways to write a manifest, the best one first. A model may not fit with what is assumed of the
    /// launcher.
    pub(super) const WAYS: [Self; 5] = [
        Self { values: true, file: true, model: true },
        Self { values: true, file: false, model: true },
        Self { values: true, file: true, model: false },
        Self { values: true, file: false, model: false },
        Self { values: false, file: false, model: false },
    ];
}

/// The script that would have sent a request, and what is known from running it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// Name of the script.
    pub script: Option<String>,
    /// Region of the client.
    pub region: Option<String>,
    /// Source archives by their URI.
    pub sources: BTreeMap<String, ProgramSource>,
    /// Objects that the script would have uploaded: URI, and the user's file, relative to the manifest.
    uploaded: BTreeMap<String, Option<String>>,
    /// Texts of uploaded settings by their URI.
    texts: BTreeMap<String, String>,
    /// What each `ModelTrainer` starts, by the URI of its drivers; paths are relative to the manifest.
    trainers: BTreeMap<String, Trainer>,
    /// Directory of the manifest.
    base: PathBuf,
    /// What of the training is written.
    pub(super) fill: Fill,
    /// Channels of local files by their URI; paths are relative to the manifest.
    channels: BTreeMap<String, LocalChannel>,
    /// ARNs of the roles that it names, and whether it would have created them.
    roles: BTreeMap<String, bool>,
    /// Whether the region is that of trainc, as none is configured.
    is_region_assumed: bool,
    /// Members of the request that contain an answer of trainc, with their values.
    made_up: Vec<String>,
    /// Lines of the script that failed before the request and were skipped.
    ignored: Vec<(usize, usize)>,
    /// What the script asked before the request that only the account knows.
    unknown: Vec<String>,
    /// Whether the drivers of a `ModelTrainer` are kept.
    keeps_drivers: bool,
}

/// The source of a program, as a manifest names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramSource {
    /// Directory, relative to the manifest or to the repository.
    pub directory: String,
    /// Name of the script, if the script's own archive contains it alone.
    pub script: Option<String>,
    /// Names next to it, of directories with a slash.
    pub others: Vec<String>,
    /// Further directories, relative to the manifest.
    pub dependencies: Vec<String>,
    /// Repository of the source.
    pub git: Option<GitSource>,
}

impl Origin {
    /// Creates the origin of a request of a script whose manifests are written to a directory. Both paths are
    /// absolute.
    pub fn from_recording(
        script: &str,
        document: &RecordedDocument,
        recording: &Recording,
        directory: &Path,
    ) -> Self {
        let region = document.region.clone();
        let failed = recording.ignored.iter().take(document.ignored);
        let mut ignored: Vec<(usize, usize)> =
            failed.filter_map(|one| Some((one.line?, one.last.or(one.line)?))).collect();
        ignored.sort_unstable();
        ignored.dedup();
        let asked = recording.unknown.iter().take(document.unknown);
        let relative = |path: &str| relative(directory, Path::new(path));
        let sources = recording.sources.iter().map(|(uri, source)| {
            let name =
                |path: &str| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
            let of_git = source.git.is_some();
            let written = ProgramSource {
                directory: if of_git { source.directory.clone() } else { relative(&source.directory) },
                script: source.script.as_deref().and_then(name),
                others: source.others.clone(),
                dependencies: source.dependencies.iter().map(|path| relative(path)).collect(),
                git: source.git.clone(),
            };
            (uri.clone(), written)
        });
        let uploaded =
            recording.uploaded.iter().map(|(uri, file)| (uri.clone(), file.as_deref().map(relative)));
        let channels = recording.channels.iter().map(|(uri, channel)| {
            (uri.clone(), LocalChannel { path: channel.path.as_deref().map(relative) })
        });
        let trainers = recording.trainers.iter().map(|(uri, trainer)| {
            let directory = trainer.directory.as_deref().map(relative);
            (uri.clone(), Trainer { directory, ..trainer.clone() })
        });
        Self {
            script: Some(script.to_owned()),
            texts: recording.texts.clone(),
            trainers: trainers.collect(),
            base: directory.to_owned(),
            fill: Fill::default(),
            is_region_assumed: region.is_some() && region == recording.assumed_region,
            region,
            sources: sources.collect(),
            uploaded: uploaded.collect(),
            channels: channels.collect(),
            roles: recording.roles.clone(),
            made_up: Vec::new(),
            ignored,
            unknown: asked.map(|one| shown(&in_account(&one.to_string(), None))).collect(),
            keeps_drivers: false,
        }
    }

    /// Returns what the script asked before the request that only the account knows.
    pub(super) fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Replaces the recorder's account in a recorded request, and returns the origin of that request. The
    /// account is that of the request's role, if the script names it, otherwise its placeholder.
    pub(super) fn of_request(&self, request: &mut Map<String, Value>) -> Self {
        fn filled<T: Clone>(map: &BTreeMap<String, T>, account: Option<&str>) -> BTreeMap<String, T> {
            map.iter().map(|(uri, value)| (in_account(uri, account), value.clone())).collect()
        }
        let role = request.get("RoleArn").and_then(Value::as_str);
        let account = role.and_then(account_of).filter(|account| account != ACCOUNT);
        let account = account.as_deref();
        let made_up = made_up_members(request, account);
        request.values_mut().for_each(|value| fill_account(value, account));
        Self {
            sources: filled(&self.sources, account),
            uploaded: filled(&self.uploaded, account),
            channels: filled(&self.channels, account),
            texts: filled(&self.texts, account),
            trainers: filled(&self.trainers, account),
            // The script has named that of the request itself: SDK v3 asks for each.
            roles: if account.is_some() { BTreeMap::new() } else { filled(&self.roles, None) },
            made_up,
            ..self.clone()
        }
    }

    /// Adds what a request has in place of what only the account knows, and what it refers to that is not
    /// there.
    pub(super) fn describe(
        &self,
        request: &Map<String, Value>,
        withheld: &[Withheld],
        out: &mut Unsupported,
    ) {
        if let Some(region) = self.region.as_deref().filter(|_| self.is_region_assumed) {
            out.add_caveat(&format!(
                "`region`: not configured; `{region}` is a placeholder: run `trainc import` with `--region`"
            ));
        }
        if self.script.is_none() {
            return;
        }
        match request.get("RoleArn").and_then(Value::as_str) {
            Some(ROLE_PLACEHOLDER) => out.add_caveat(
                "`RoleArn`: the execution role of your environment, which is not asked; the \
                    manifest creates a role instead, unless you write `role arn=\"arn:…\"`",
            ),
            Some(arn) => match self.roles.get(arn) {
                Some(true) => out.add_caveat(&format!(
                    "`RoleArn`: the script would have created `{arn}`; create it, or write `role \
                        create=#true`"
                )),
                Some(false) => out.add(&format!(
                    "`RoleArn`: the script names the role alone, and the path of `{arn}` is assumed"
                )),
                None => {}
            },
            None => {}
        }
        if !self.ignored.is_empty() {
            let lines: Vec<String> = self
                .ignored
                .iter()
                .map(|(line, last)| if line == last { line.to_string() } else { format!("{line} to {last}") })
                .collect();
            let is_one = matches!(self.ignored[..], [(line, last)] if line == last);
            let (line, was) = if is_one { ("line", "was") } else { ("lines", "were") };
            out.add_caveat(&format!(
                "{line} {} of the script failed and {was} skipped (`--keep-going`): what would \
                    have been set there is missing, or reads `made-up-…`",
                trainc_diag::text::list(&lines, "and")
            ));
        }
        let is_fetched = |member: &str| withheld.iter().any(|one| one.is_named(member));
        for member in self.made_up.iter().filter(|member| !is_fetched(member)) {
            out.add_caveat(&if member.contains(&format!("`{ACCOUNT}.")) {
                format!(
                    "{member} is in the registry of your account, which is not asked: write its ID \
                    instead of `{ACCOUNT}`"
                )
            } else {
                format!("{member} contains a placeholder, since trainc does not know the value: write yours")
            });
        }
    }

    /// Returns the files that the script would have uploaded to a prefix, e.g. 3 files of `./src`.
    pub(super) fn missing_files(&self, prefix: &str) -> Option<String> {
        let objects = self.uploaded.range(prefix.to_owned()..);
        let files: Vec<_> =
            objects.take_while(|(uri, _)| uri.starts_with(prefix)).map(|(_, file)| file.as_deref()).collect();
        let count = |what| trainc_diag::text::count(files.len() as u64, what);
        let place = match self.channels.get(prefix) {
            Some(channel) => channel.path.clone(),
            None => common_path(&files),
        };
        match place {
            _ if files.is_empty() || prefix.is_empty() => None,
            Some(place) if files == [Some(place.as_str())] => Some(format!("`{place}`")),
            Some(place) => Some(format!("{} of `{place}`", count("file"))),
            None => Some(count("generated file")),
        }
    }

    /// Returns the request of a `ModelTrainer` as one that starts its script with the toolkit, or what to
    /// write in place of its drivers; `None` for another request. `per_host` is the number of GPUs of a host.
    pub(super) fn start(
        &self,
        request: &Map<String, Value>,
        per_host: Option<u64>,
    ) -> Option<Result<Started, String>> {
        let drivers = trainer::channel_uri(request, trainer::DRIVERS)?;
        let Some(trainer) = self.trainers.get(&drivers) else {
            return trainer::is_by_drivers(request).then(|| Err(trainer::of_drivers(request, &drivers)));
        };
        Some(match trainer.start(request, per_host) {
            _ if self.keeps_drivers => Err(trainer.instead("the source cannot be used")),
            Ok(started) => Ok(started),
            Err(reason) => Err(trainer.instead(&reason)),
        })
    }

    /// Returns the origin of a document that is no script's.
    pub(super) fn filled(fill: Fill) -> Self {
        Self { fill, ..Self::default() }
    }

    /// Returns whether the script has a `ModelTrainer`.
    pub(super) fn is_of_trainer(&self) -> bool {
        !self.trainers.is_empty()
    }

    /// Forgets the sources, for those that cannot be used.
    pub(super) fn forget_sources(&mut self) {
        self.sources.clear();
        self.keeps_drivers = true;
    }

    /// Returns the training that a file of arguments says, with the file if it is there and the manifest can
    /// name it; `value` is the path in the container.
    pub(super) fn training_of(
        &self,
        value: &str,
        source: Option<&ProgramSource>,
        request: &Map<String, Value>,
    ) -> Option<(Training, Option<String>)> {
        if !is_settings(value) {
            return None;
        }
        let in_code =
            [CODE_DIRECTORY, "/opt/ml/input/data/code"].iter().find_map(|code| value.strip_prefix(code));
        let (path, text) = if let Some(inside) = in_code.or((!value.starts_with('/')).then_some(value)) {
            let source = source.filter(|source| source.git.is_none())?;
            let inside = inside.trim_start_matches("./").trim_start_matches('/');
            (Some(format!("{}/{inside}", source.directory.trim_end_matches('/'))), None)
        } else {
            self.file_of_channel(value, request)?
        };
        let read = |path: &String| {
            let bytes = read_regular(&self.base.join(path), MOST_ARGUMENTS).ok()?;
            String::from_utf8(bytes).ok()
        };
        // A notebook deletes what it has uploaded, and writes another text into it.
        let there =
            path.as_ref().and_then(read).filter(|found| text.as_ref().is_none_or(|text| text == found));
        let path = path.filter(|_| there.is_some());
        let training = Training::of_file(value, there.or(text).as_deref()?)?;
        Some((training, path))
    }

    /// Returns the path and the text of a file in a channel, as far as they are known; `value` is its path in
    /// the container.
    fn file_of_channel(
        &self,
        value: &str,
        request: &Map<String, Value>,
    ) -> Option<(Option<String>, Option<String>)> {
        let (channel, inside) = value.strip_prefix(CHANNELS)?.split_once('/')?;
        let uri = trainer::channel_uri(request, channel)?;
        let object = if uri.ends_with(&format!("/{inside}")) {
            uri.clone()
        } else {
            format!("{}/{inside}", uri.trim_end_matches('/'))
        };
        let of_channel = self.channels.get(&uri).and_then(|channel| channel.path.as_deref());
        let of_channel = of_channel
            .map(|path| if is_settings(path) { path.to_owned() } else { format!("{path}/{inside}") });
        let path = self.uploaded.get(&object).cloned().flatten().or(of_channel);
        Some((path, self.texts.get(&object).cloned()))
    }

    /// Returns whether a channel has nothing but one file of the user.
    pub(super) fn has_only(&self, uri: &str, file: &str) -> bool {
        let objects = self.uploaded.range(uri.to_owned()..);
        let mut files =
            objects.take_while(|(object, _)| object.starts_with(uri)).map(|(_, file)| file.as_deref());
        files.next() == Some(Some(file)) && files.next().is_none()
    }

    /// Returns the comment at the region, if no region is configured.
    pub(super) fn comment_on_region(&self) -> Option<&'static str> {
        const COMMENT: &str = "Placeholder: no region is configured; import again with `--region`.";
        self.is_region_assumed.then_some(COMMENT)
    }

    /// Returns the comment at an image in the registry of the account, whose ID is not known.
    pub(super) fn comment_on_image(&self, uri: &str) -> Option<&'static str> {
        const COMMENT: &str =
            "Placeholder: the registry is that of your account; write its ID instead of the zeros.";
        (self.script.is_some() && uri.starts_with(ACCOUNT)).then_some(COMMENT)
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
    /// Returns the node of a program with its source.
    pub(super) fn write(&self, program: &Node) -> Node {
        let text = |text: &str| string(&escape_placeholders(text));
        let mut node = program.clone();
        node = node.with_comment_if_some(self.comment().as_deref());
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
        node
    }

    /// Says what is packed with a script that is alone in its own archive: a manifest names directories.
    fn comment(&self) -> Option<String> {
        const MOST_SHOWN: usize = 4;
        let script = self.script.as_deref()?;
        let others = match self.others.len() {
            0 => self.git.as_ref().map(|_| "the other files of the directory".to_owned())?,
            count => {
                let mut shown: Vec<String> =
                    self.others.iter().take(MOST_SHOWN).map(|name| format!("`{name}`")).collect();
                if count > MOST_SHOWN {
                    shown.push(format!("{} more", count - MOST_SHOWN));
                }
                trainc_diag::text::list(&shown, "and")
            }
        };
        Some(format!(
            "The script packs `{script}` alone; trainc also packs {others}: move the script to \
                its own directory to leave them out."
        ))
    }
}

/// Returns whether a path is that of a file with settings.
fn is_settings(path: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| path.ends_with(end))
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

/// Returns the path of a file, or the directory of several; `None` if one is unknown.
fn common_path(files: &[Option<&str>]) -> Option<String> {
    let paths: Vec<&Path> = files.iter().map(|file| file.map(Path::new)).collect::<Option<_>>()?;
    let (first, others) = paths.split_first()?;
    let common = first.ancestors().find(|place| others.iter().all(|path| path.starts_with(place)))?;
    Some(common.to_string_lossy().into_owned()).filter(|place| !place.is_empty())
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

    #[test]
    fn files_are_those_of_a_prefix() {
        let file = |uri: &str, file: Option<&str>| (uri.to_owned(), file.map(str::to_owned));
        let uploaded = [
            file("s3://b/data/x/1.bin", Some("./data/x/1.bin")),
            file("s3://b/data/y/2.bin", Some("./data/y/2.bin")),
            file("s3://b/made/1.bin", None),
            file("s3://b/one.bin", Some("./data/x/1.bin")),
        ];
        let origin = Origin { uploaded: uploaded.into(), ..Origin::default() };
        assert_eq!(origin.missing_files("s3://b/data/").as_deref(), Some("2 files of `./data`"));
        assert_eq!(origin.missing_files("s3://b/one").as_deref(), Some("`./data/x/1.bin`"));
        assert_eq!(origin.missing_files("s3://b/made").as_deref(), Some("1 generated file"));
        assert_eq!(origin.missing_files("s3://b/c"), None);
        assert_eq!(origin.missing_files(""), None);
    }
}
