//! The versions of the packages that read the files of a job: those that the program pins, those of the
//! image, or the newest known.

use super::paths;
use crate::World;
use trainc_catalog::packages::{self, ImagePackages, InImage};
use trainc_catalog::{engine_files, images};
use trainc_diag::source::{SourceMap, Span, Spanned};
use trainc_ir::{Origin, ProgramVersion, RequirementsFile, Val};
use trainc_python::requirements::{self, Content, Package};
use trainc_syntax::ast::{Node, Value};

/// The packages whose versions decide how files are read.
const PACKAGES: [&str; 6] = ["accelerate", "deepspeed", "torchtitan", "transformers", "trl", "torch"];

/// The file from which the training toolkit and the launch script install.
const REQUIREMENTS: &str = "requirements.txt";

/// Returns the versions of all packages that are known, and the requirements of the program.
pub(crate) fn versions(
    job: &Node,
    world: &mut dyn World,
    sources: &mut SourceMap,
) -> (Vec<ProgramVersion>, Vec<RequirementsFile>) {
    let required = requirements(job, world, sources);
    // Addresses, and files that could not be read, may bring a package.
    let is_known = |file: &RequirementsFile, line: &requirements::Line| match &line.content {
        Content::Address { package, .. } => package.is_some(),
        Content::Option { name, value } => {
            let named = paths::join(&file.path, value.trim());
            name != requirements::FILE || required.iter().any(|read| read.path == named)
        }
        Content::Package(_) | Content::Invalid { .. } => true,
    };
    let names_others =
        required.iter().any(|file| file.content.lines.iter().any(|line| !is_known(file, line)));
    let each = PACKAGES.iter().filter_map(|package| {
        let line = required.iter().find_map(|file| {
            let (found, at) = file.content.packages().find(|(one, _)| one.name == *package)?;
            Some((found, file.span(at)))
        });
        let found = version(job, package, line)?;
        // A file of requirements or a wheel that is named there may bring it.
        let is_installed = found.is_installed.filter(|is_installed| *is_installed || !names_others);
        Some(ProgramVersion { is_installed, ..found })
    });
    let versions = each.collect();
    (versions, required)
}

/// Returns the version of a package: the one that the requirements pin, else that of the image if they accept
/// it, else the one that the manifest names for its engine, else the newest if they accept it. `None` where
/// another version is installed.
fn version(job: &Node, package: &'static str, required: Option<(&Package, Span)>) -> Option<ProgramVersion> {
    let found = |version: Val<String>, is_installed| Some(ProgramVersion { package, version, is_installed });
    if let Some((line, at)) = required
        && let Some(exact) = line.exact()
    {
        return found(Val::written(exact, at), Some(true));
    }
    let accepts = |version: &str| required.is_none_or(|(line, _)| line.accepts(version).unwrap_or(false));
    let in_image = in_image(job, package);
    if let Some(Found::Written(version)) = &in_image
        && accepts(&version.value)
    {
        return found(version.clone(), Some(true));
    }
    let is_installed = match (&in_image, required) {
        (_, Some(_)) | (Some(Found::Written(_) | Found::AnyVersion), None) => Some(true),
        (Some(Found::Missing), None) => Some(false),
        (None, None) => None,
    };
    if let Some(written) = version_of_engine(job, package) {
        return found(Val::written(written.value, written.span), is_installed);
    }
    let newest = packages::newest(package).filter(|newest| accepts(&newest.version))?;
    let origin = Origin::Catalogue {
        row: format!("packages {}", newest.row),
        source: newest.provenance.source,
        date: newest.provenance.date,
    };
    found(Val { value: newest.version, origin }, is_installed)
}

/// Returns `version=` of the engine, if its file is read by the package.
fn version_of_engine(job: &Node, package: &str) -> Option<Spanned<String>> {
    let parallel = job.child("parallel")?;
    let engine = trainc_engine::find(&text(parallel.prop("engine"))?.value)?;
    let table = engine_files::keys(engine.front.file?)?;
    text(parallel.prop("version")).filter(|_| table.package == package)
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
        InImage::AnyVersion(_) => Found::AnyVersion,
        InImage::Unknown => return None,
        InImage::Missing => Found::Missing,
    })
}

/// The most files of requirements that are read: bounds the work if each names others.
const MAX_FILES: usize = 16;

/// Reads the requirements in the program's directory, and the files that they name there.
fn requirements(job: &Node, world: &mut dyn World, sources: &mut SourceMap) -> Vec<RequirementsFile> {
    let mut out: Vec<RequirementsFile> = Vec::new();
    let directory = job.child("program").and_then(|node| text(node.prop("source")));
    let Some(directory) = directory else { return out };
    let from = sources.get(directory.span.source).map_or_else(String::new, |it| it.name.to_string());
    let python = python_of_image(job).unwrap_or_else(|| DEFAULT_PYTHON.to_owned());
    let mut waiting = vec![REQUIREMENTS.to_owned()];
    while let Some(file) = waiting.pop() {
        if out.len() >= MAX_FILES || out.iter().any(|known| known.path == file) || file.starts_with("..") {
            continue;
        }
        let path = paths::join_directory(&directory.value, &file);
        let Ok(read) = world.read_text(&from, &path) else { continue };
        let content = requirements::read(&read, &python);
        for line in &content.lines {
            if let Content::Option { name, value } = &line.content
                && name == requirements::FILE
            {
                waiting.push(paths::join(&file, value.trim()));
            }
        }
        let source = sources.add_once(&paths::join(&from, &path), &read);
        out.push(RequirementsFile { path: file, source, content });
    }
    out
}

/// The version of Python by which markers are judged where the image does not say it, as a custom image.
const DEFAULT_PYTHON: &str = "3.12";

/// Returns the version of Python in the image: written, in the tag of its URI, or that of its row.
fn python_of_image(job: &Node) -> Option<String> {
    let image = job.child("image")?;
    if let Some(word) = text(image.prop("python")) {
        return python_version(&word.value);
    }
    if let Some(uri) = text(image.prop("uri")) {
        return images::parse_uri(&uri.value)?.tag?.split('-').find_map(python_version);
    }
    let pytorch = text(image.prop("pytorch")).or_else(|| text(image.prop("version")))?;
    let transformers = text(image.prop("transformers")).map(|version| version.value);
    let found = ImagePackages::find(image.first_text()?, &pytorch.value, transformers.as_deref())?;
    Some(found.python().to_owned()).filter(|python| !python.is_empty())
}

/// Returns `3.12` for `py312`.
fn python_version(word: &str) -> Option<String> {
    let (major, minor) = word.strip_prefix("py")?.split_at_checked(1)?;
    (!minor.is_empty() && word.chars().skip(2).all(|c| c.is_ascii_digit()))
        .then(|| format!("{major}.{minor}"))
}

fn text(value: Option<&Spanned<Value>>) -> Option<Spanned<String>> {
    let value = value?;
    match &value.value {
        Value::Text(text) => Some(Spanned::new(text.clone(), value.span)),
        _ => None,
    }
}
