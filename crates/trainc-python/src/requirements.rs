//! The packages of a `requirements.txt`, as pip reads it.
//!
//! A line is a requirement of PEP 508, which `pep508_rs` reads; an address of an archive, a directory or a
//! repository; or an option (<https://pip.pypa.io/en/stable/reference/requirements-file-format/>).

pub use pep508_rs::pep440_rs::Version;
use pep508_rs::pep440_rs::{Operator, VersionSpecifiers};
use pep508_rs::{MarkerEnvironment, MarkerEnvironmentBuilder, Requirement, VerbatimUrl, VersionOrUrl};
use std::ops::Range;
use std::str::FromStr;

/// The most bytes of a file that are read.
const MAX_BYTES: usize = 256 << 10;

/// A `requirements.txt`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirements {
    /// Its lines, without empty ones.
    pub lines: Vec<Line>,
}

/// A line, with those that continue it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its place, without comments.
    pub at: Range<usize>,
    /// What it says.
    pub content: Content,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A package of an index.
    Package(Package),
    /// An archive, a directory or a repository.
    Address {
        /// The address, as written.
        address: String,
        /// The name of the package, if it is written.
        package: Option<String>,
    },
    /// An option for the whole file.
    Option {
        /// Its long name, as `--requirement`.
        name: String,
        /// Its value.
        value: String,
    },
    /// Not a requirement.
    Invalid {
        /// Why.
        reason: String,
    },
}

/// A package of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// Its name in the form of PyPI: `flash-attn`.
    pub name: String,
    /// Its extras: `vllm` of `trl[vllm]`.
    pub extras: Vec<String>,
    /// Whether its markers hold in a Linux container.
    pub applies: bool,
    /// The conditions on its version, as written.
    pub specifiers: String,
    conditions: VersionSpecifiers,
}

impl Package {
    /// Returns the version, if the line accepts a single one.
    pub fn exact(&self) -> Option<String> {
        let pinned = |one: &&pep508_rs::pep440_rs::VersionSpecifier| {
            matches!(one.operator(), Operator::Equal | Operator::ExactEqual)
        };
        self.conditions.iter().find(pinned).map(|one| one.version().to_string())
    }

    /// Returns whether a version meets all conditions; `None` for a text that is no version.
    pub fn accepts(&self, version: &str) -> Option<bool> {
        let version = Version::from_str(version).ok()?;
        Some(self.conditions.iter().all(|condition| condition.contains(&version)))
    }
}

impl Requirements {
    /// Returns the packages that a Linux container installs, each with its place.
    pub fn packages(&self) -> impl Iterator<Item = (&Package, &Range<usize>)> {
        self.lines.iter().filter_map(|line| match &line.content {
            Content::Package(package) if package.applies => Some((package, &line.at)),
            _ => None,
        })
    }
}

/// The option that names another file.
pub const FILE: &str = "--requirement";

/// The short options of a file, with their long names.
const SHORT: [(&str, &str); 5] = [
    ("-r", FILE),
    ("-c", "--constraint"),
    ("-i", "--index-url"),
    ("-f", "--find-links"),
    ("-e", "--editable"),
];

/// The options of a line (pip documentation, requirements file format, read 2026-11-28).
const LINE_OPTIONS: [&str; 4] = ["--hash", "--config-settings", "--global-option", "--config-setting"];

/// The options of a file (the same page).
const FILE_OPTIONS: [&str; 16] = [
    FILE,
    "--constraint",
    "--editable",
    "--extra-index-url",
    "--find-links",
    "--index-url",
    "--no-binary",
    "--no-index",
    "--only-binary",
    "--pre",
    "--prefer-binary",
    "--require-hashes",
    "--trusted-host",
    "--use-feature",
    "--pypi-url",
    "--no-use-pep517",
];

/// Reads a file. `python` is the version of Python in the container, as `3.12`.
pub fn read(text: &str, python: &str) -> Requirements {
    let mut out = Requirements::default();
    let Some(environment) = environment(python).filter(|_| text.len() <= MAX_BYTES) else { return out };
    let mut start = 0;
    let mut joined = String::new();
    let mut at = 0;
    // Skips a byte order mark and the line ends of Windows.
    for line in text.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        let mut plain = line.trim_end_matches(['\n', '\r']);
        if begin == 0 {
            plain = plain.trim_start_matches('\u{feff}');
        }
        if joined.is_empty() {
            start = begin + (line.len() - line.trim_start_matches('\u{feff}').trim_start().len());
        }
        // A comment is not continued.
        if let Some(head) = plain.strip_suffix('\\').filter(|_| !plain.trim_start().starts_with('#')) {
            joined.push_str(head);
            // pip keeps a last line that would go on.
            if at < text.len() {
                continue;
            }
            plain = "";
        }
        joined.push_str(plain);
        let content = std::mem::take(&mut joined);
        let content = without_comment(&content);
        if content.is_empty() {
            continue;
        }
        let end = (start + content.len()).min(at);
        out.lines.push(Line { at: start..end, content: content_of(content, &environment) });
    }
    out
}

/// Removes a comment, which begins the line or follows a space.
fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') {
        return "";
    }
    let at = line
        .match_indices('#')
        .find(|(at, _)| line.get(..*at).is_some_and(|head| head.ends_with([' ', '\t'])));
    at.and_then(|(at, _)| line.get(..at)).unwrap_or(line).trim_end()
}

fn content_of(line: &str, environment: &MarkerEnvironment) -> Content {
    if line.starts_with('-') {
        return option_of(line);
    }
    // Options of a line.
    let (requirement, options) = match line.find(" -") {
        Some(at) => line.split_at(at),
        None => (line, ""),
    };
    let requirement = requirement.trim_end();
    let is_unknown = |word: &&str| {
        word.starts_with('-') && !LINE_OPTIONS.contains(&word.split('=').next().unwrap_or(word))
    };
    if let Some(word) = options.split_whitespace().find(is_unknown) {
        return Content::Invalid { reason: format!("`{word}` is not valid on the line of a package") };
    }
    if is_address(requirement) {
        let package = requirement
            .split_once("#egg=")
            .map(|(_, name)| normalize(name.split(['&', '[']).next().unwrap_or(name)));
        return Content::Address { address: requirement.to_owned(), package };
    }
    match Requirement::<VerbatimUrl>::from_str(requirement) {
        Ok(found) => {
            let name = found.name.to_string();
            let conditions = match &found.version_or_url {
                Some(VersionOrUrl::Url(_)) => {
                    let address = requirement.split_once('@').map_or("", |(_, address)| address);
                    let address = address.split(" ;").next().unwrap_or(address).trim().to_owned();
                    return Content::Address { address, package: Some(name) };
                }
                Some(VersionOrUrl::VersionSpecifier(conditions)) => conditions.clone(),
                None => VersionSpecifiers::empty(),
            };
            let extras = found.extras.iter().map(ToString::to_string).collect();
            let applies = found.evaluate_markers(environment, &[]);
            Content::Package(Package {
                name,
                extras,
                applies,
                specifiers: conditions.to_string(),
                conditions,
            })
        }
        Err(error) => {
            let message = error.message.to_string();
            Content::Invalid {
                reason: message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned(),
            }
        }
    }
}

/// Reads an option.
fn option_of(line: &str) -> Content {
    let (word, value) = line.split_once([' ', '=', '\t']).unwrap_or((line, ""));
    let mut name = SHORT.iter().find(|(short, _)| *short == word).map_or(word, |(_, long)| long);
    let mut value = value.trim_start_matches(['=', ' ', '\t']);
    // `-rother.txt`
    if !word.starts_with("--")
        && let Some((short, long)) = SHORT.iter().find(|(short, _)| word.starts_with(short) && word != *short)
    {
        name = long;
        value = line.strip_prefix(short).unwrap_or_default();
    }
    if !name.starts_with("--") || !FILE_OPTIONS.contains(&name) {
        return Content::Invalid { reason: format!("`{word}` is not valid in a requirements file") };
    }
    match name {
        "--editable" => Content::Address { address: value.to_owned(), package: None },
        _ => Content::Option { name: name.to_owned(), value: value.to_owned() },
    }
}

/// Returns whether a version meets conditions, as `>=2.0,<3`; `None` for texts that are none.
pub fn accepts(conditions: &str, version: &str) -> Option<bool> {
    let conditions = VersionSpecifiers::from_str(conditions).ok()?;
    Some(conditions.contains(&Version::from_str(version).ok()?))
}

/// Returns whether a line is an address and not the name of a package.
fn is_address(line: &str) -> bool {
    let first = line.split([' ', ';']).next().unwrap_or_default();
    let has_scheme = first.split_once("://").is_some_and(|(scheme, _)| !scheme.contains(['@', '[']));
    has_scheme
        || first.starts_with("git@")
        || first.starts_with(['.', '/'])
        || first.ends_with(".whl")
        || first.ends_with(".tar.gz")
        || first.ends_with(".zip")
}

/// Returns a package's name in the form of PyPI (PEP 503).
pub fn normalize(name: &str) -> String {
    let mut out = String::new();
    for c in name.trim().chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// Returns the environment of a training container: `CPython` on Linux, `x86_64`.
fn environment(python: &str) -> Option<MarkerEnvironment> {
    let full = format!("{python}.0");
    MarkerEnvironment::try_from(MarkerEnvironmentBuilder {
        implementation_name: "cpython",
        implementation_version: &full,
        os_name: "posix",
        platform_machine: "x86_64",
        platform_python_implementation: "CPython",
        platform_release: "",
        platform_system: "Linux",
        platform_version: "",
        python_full_version: &full,
        python_version: python,
        sys_platform: "linux",
    })
    .ok()
}

#[cfg(test)]
mod tests;
