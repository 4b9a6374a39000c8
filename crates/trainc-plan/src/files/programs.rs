//! The versions of the packages that read the files of a job: those that the program pins, those of the
//! image, or the newest known.

use crate::World;
use std::sync::LazyLock;
use trainc_catalog::images;
use trainc_catalog::packages::{self, InImage};
use trainc_diag::source::{SourceMap, Span, Spanned};
use trainc_ir::{Origin, ProgramVersion, Val};
use trainc_syntax::ast::{Node, Value};

/// The packages whose versions decide how files are read.
const PACKAGES: [&str; 6] = ["accelerate", "deepspeed", "torchtitan", "transformers", "trl", "torch"];

/// The file from which the training toolkit and the launch script install.
const REQUIREMENTS: &str = "requirements.txt";

/// Returns the versions of all packages that are known.
pub(crate) fn versions(job: &Node, world: &mut dyn World, sources: &mut SourceMap) -> Vec<ProgramVersion> {
    let (pins, names_others) = requirements(job, world, sources);
    let each = PACKAGES.iter().filter_map(|package| {
        let pinned = pins.iter().find(|pin| pin.package == *package);
        let found = version(job, package, pinned)?;
        // A file of requirements or a wheel that is named there may bring it.
        let is_installed = found.is_installed.filter(|is_installed| *is_installed || !names_others);
        Some(ProgramVersion { is_installed, ..found })
    });
    each.collect()
}

fn version(job: &Node, package: &'static str, pinned: Option<&Pin>) -> Option<ProgramVersion> {
    if let Some(Pin { version: Some(version), .. }) = pinned {
        let version = Val::written(version.value.clone(), version.span);
        return Some(ProgramVersion { package, version, is_installed: Some(true) });
    }
    let parallel = job.child("parallel");
    let engine = parallel.and_then(|node| text(node.prop("engine")));
    let own = engine.and_then(|engine| trainc_engine::find(&engine.value)).and_then(|it| it.front.file);
    if own == Some(package)
        && let Some(written) = parallel.and_then(|node| text(node.prop("version")))
    {
        let version = Val::written(written.value, written.span);
        return Some(ProgramVersion { package, version, is_installed: pinned.map(|_| true) });
    }
    let in_image = in_image(job, package);
    if let (Some(Found::Written(version)), None) = (&in_image, pinned) {
        return Some(ProgramVersion { package, version: version.clone(), is_installed: Some(true) });
    }
    let newest = packages::newest(package)?;
    let origin = Origin::Catalogue {
        row: format!("packages {}", newest.row),
        source: newest.provenance.source,
        date: newest.provenance.date,
    };
    let is_installed = match (&in_image, pinned) {
        (_, Some(_)) | (Some(Found::Written(_) | Found::AnyVersion), None) => Some(true),
        (Some(Found::Missing), None) => Some(false),
        (None, None) => None,
    };
    Some(ProgramVersion { package, version: Val { value: newest.version, origin }, is_installed })
}

enum Found {
    Written(Val<String>),
    AnyVersion,
    Missing,
}

/// Returns whether the image of the job contains a package; `None` if that is unknown.
fn in_image(job: &Node, package: &str) -> Option<Found> {
    let image = job.child("image")?;
    let from_uri = text(image.prop("uri")).map(|uri| images::parse_uri(&uri.value));
    if from_uri.is_some() {
        return None;
    }
    let family = image.first_text()?;
    let of_hugging_face = text(image.prop("transformers"));
    if package == "transformers"
        && let Some(written) = of_hugging_face
    {
        return Some(Found::Written(Val::written(written.value, written.span)));
    }
    let pytorch = text(image.prop("pytorch")).or_else(|| text(image.prop("version")))?;
    if package == "torch" {
        return Some(Found::Written(Val::written(pytorch.value, pytorch.span)));
    }
    Some(match packages::in_image(family, &pytorch.value, package)? {
        InImage::Version(found) => {
            let origin = Origin::Catalogue {
                row: format!("packages {}", found.row),
                source: found.provenance.source,
                date: found.provenance.date,
            };
            Found::Written(Val { value: found.version, origin })
        }
        InImage::AnyVersion => Found::AnyVersion,
        InImage::Missing => Found::Missing,
    })
}

/// A package of the program's requirements.
struct Pin {
    package: String,
    /// The exact version; `None` where the line accepts several.
    version: Option<Spanned<String>>,
}

/// Reads the packages of the requirements in the program's directory. Also returns whether they name other files
/// or addresses.
fn requirements(job: &Node, world: &mut dyn World, sources: &mut SourceMap) -> (Vec<Pin>, bool) {
    let directory = job.child("program").and_then(|node| text(node.prop("source")));
    let Some(directory) = directory else { return (Vec::new(), false) };
    let from = sources.get(directory.span.source).map_or_else(String::new, |it| it.name.to_string());
    let path = super::paths::join_directory(&directory.value, REQUIREMENTS);
    let Ok(read) = world.read_text(&from, &path) else { return (Vec::new(), false) };
    let source = sources.add(super::paths::join(&from, &path), read.clone());
    let mut at = 0;
    let mut pins = Vec::new();
    for line in read.split_inclusive('\n') {
        if let Some((package, version)) = parse_line(line) {
            let version = version.map(|version| {
                let start = at + line.find(version).unwrap_or(0);
                Spanned::new(version.to_owned(), Span::new(source, start, start + version.len()))
            });
            pins.push(Pin { package, version });
        }
        at += line.len();
    }
    let names_others = read.lines().map(str::trim).any(|line| {
        let options = ["-r", "--requirement", "-e", "--editable"];
        options.iter().any(|option| line.starts_with(option))
            || line.contains("://")
            || line.starts_with(['.', '/'])
    });
    (pins, names_others)
}

/// Returns the package of a line, in the form of PyPI, and its exact version. A line with an option, an
/// address, or a version with a wildcard has none.
fn parse_line(line: &str) -> Option<(String, Option<&str>)> {
    static LINE: LazyLock<Option<regex::Regex>> = LazyLock::new(|| {
        regex::Regex::new(
            r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?:={2,3}\s*([^\s;,#*]+)\s*(?:[;#]|$))?",
        )
        .ok()
    });
    let found = LINE.as_ref()?.captures(line.trim_end())?;
    let package = found.get(1)?.as_str().to_ascii_lowercase().replace(['_', '.'], "-");
    Some((package, found.get(2).map(|version| version.as_str())))
}

fn text(value: Option<&Spanned<Value>>) -> Option<Spanned<String>> {
    let value = value?;
    match &value.value {
        Value::Text(text) => Some(Spanned::new(text.clone(), value.span)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_pin_packages() {
        let parsed =
            |line: &str| parse_line(line).map(|(package, version)| (package, version.map(str::to_owned)));
        let pin =
            |package: &str, version: Option<&str>| Some((package.to_owned(), version.map(str::to_owned)));
        assert_eq!(parsed("transformers==5.24.0\n"), pin("transformers", Some("5.24.0")));
        assert_eq!(
            parsed("Flash_Attn[extra] == 2.8.3 ; python_version > '3.9'"),
            pin("flash-attn", Some("2.8.3"))
        );
        assert_eq!(parsed("accelerate>=1.0,<2"), pin("accelerate", None));
        assert_eq!(parsed("trl==1.*"), pin("trl", None));
        assert_eq!(parsed("trl # ==1.0"), pin("trl", None));
        assert_eq!(parsed("-r other.txt"), None);
        assert_eq!(parsed("# transformers==5"), None);
    }
}
