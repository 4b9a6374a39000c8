//! The versions of the packages that read the files of a job: those that the program pins, those of the
//! image, or the newest known.

use super::requirements::{self, Requirement};
use crate::World;
use trainc_catalog::packages::{self, InImage};
use trainc_catalog::{engine_files, images};
use trainc_diag::source::{SourceMap, Spanned};
use trainc_ir::{Origin, ProgramVersion, Val};
use trainc_syntax::ast::{Node, Value};

/// The packages whose versions decide how files are read.
const PACKAGES: [&str; 6] = ["accelerate", "deepspeed", "torchtitan", "transformers", "trl", "torch"];

/// The file from which the training toolkit and the launch script install.
const REQUIREMENTS: &str = "requirements.txt";

/// Returns the versions of all packages that are known.
pub(crate) fn versions(job: &Node, world: &mut dyn World, sources: &mut SourceMap) -> Vec<ProgramVersion> {
    let (required, names_others) = requirements(job, world, sources);
    let each = PACKAGES.iter().filter_map(|package| {
        let found = version(job, package, required.iter().find(|one| one.package == *package))?;
        // A file of requirements or a wheel that is named there may bring it.
        let is_installed = found.is_installed.filter(|is_installed| *is_installed || !names_others);
        Some(ProgramVersion { is_installed, ..found })
    });
    each.collect()
}

/// Returns the version of a package: the one that the requirements pin, else that of the image if they accept
/// it, else the one that the manifest names for its engine, else the newest if they accept it. `None` where
/// another version is installed.
fn version(job: &Node, package: &'static str, required: Option<&Requirement>) -> Option<ProgramVersion> {
    let found = |version: Val<String>, is_installed| Some(ProgramVersion { package, version, is_installed });
    if let Some(exact) = required.and_then(|it| it.exact.clone()) {
        return found(Val::written(exact.value, exact.span), Some(true));
    }
    let accepts = |version: &str| required.is_none_or(|it| it.accepts(version));
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
        InImage::AnyVersion => Found::AnyVersion,
        InImage::Missing => Found::Missing,
    })
}

/// Reads the packages of the requirements in the program's directory. Also returns whether they name other
/// files or addresses.
fn requirements(job: &Node, world: &mut dyn World, sources: &mut SourceMap) -> (Vec<Requirement>, bool) {
    let directory = job.child("program").and_then(|node| text(node.prop("source")));
    let Some(directory) = directory else { return (Vec::new(), false) };
    let from = sources.get(directory.span.source).map_or_else(String::new, |it| it.name.to_string());
    let path = super::paths::join_directory(&directory.value, REQUIREMENTS);
    let Ok(read) = world.read_text(&from, &path) else { return (Vec::new(), false) };
    let source = sources.add(super::paths::join(&from, &path), read.clone());
    requirements::parse(&read, source)
}

fn text(value: Option<&Spanned<Value>>) -> Option<Spanned<String>> {
    let value = value?;
    match &value.value {
        Value::Text(text) => Some(Spanned::new(text.clone(), value.span)),
        _ => None,
    }
}
