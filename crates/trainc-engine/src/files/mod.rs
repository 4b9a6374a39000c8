//! Files of the engines and their programs: their keys and values, by the tables of the catalogue, and the
//! expressions of these tables.

mod expression;
mod names;
mod settings;

pub use expression::Names;
pub use names::plan_names;
pub use settings::{Part, parts};

use trainc_catalog::engine_files::{self, KeyRow, KeyTable, Syntax};
use trainc_document::{Error, Limits, Node};
use trainc_ir::{FileValue, ForeignFile, ProgramVersion, Scalar};

/// The bounds of a file: those of a document, but of a size that a person writes.
const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 32, nodes: 20_000, expanded_bytes: 4 << 20 };

/// Reads the text of a file, in the syntax that its program reads. Programs that read YAML read JSON where the
/// name says it.
pub fn read(table: &KeyTable, path: &str, text: &str) -> Result<Node, Error> {
    match table.syntax {
        Syntax::Yaml if path.ends_with(".json") => trainc_document::read_json(text, &LIMITS),
        Syntax::Yaml => trainc_document::read_yaml(text, &LIMITS),
        Syntax::Json => trainc_document::read_json(text, &LIMITS),
        Syntax::Toml => trainc_document::read_toml(text, &LIMITS),
    }
}

/// Returns the versions of programs as expressions name them.
pub fn versions(programs: &[ProgramVersion]) -> impl Iterator<Item = (&'static str, Scalar)> {
    programs.iter().map(|one| (one.package, Scalar::Text(one.version.value.clone())))
}

/// Returns the name of the law that a file selects.
pub fn law(file: &ForeignFile, programs: &[ProgramVersion]) -> Option<&'static str> {
    let table = engine_files::keys(file.table)?;
    let names = Names::default().with_file(table, file, programs).with("versions", versions(programs));
    let (_, law) = table.laws().iter().find(|(when, _)| names.holds(when) == Some(true))?;
    Some(law)
}

/// Returns what a value of a key means in words of the manifest, at the row's place; `None` where the program
/// does not read it, or it means nothing there.
pub fn meant(row: &KeyRow, written: &Scalar, names: &Names) -> Option<Scalar> {
    let names = names.clone().with_value("value", written);
    if *written == Scalar::Null
        || row.read_when.as_deref().is_some_and(|when| names.holds(when) != Some(true))
    {
        return None;
    }
    let meant = match (&row.gives, row.values.get(&written.as_variable())) {
        (Some(gives), _) => names.value(gives),
        (None, Some(meant)) => Some(engine_files::scalar(meant)),
        (None, None) => Some(written.clone()),
    };
    meant.filter(|meant| *meant != Scalar::Null)
}

/// Returns a value as the manifest writes it, which separates names by commas; `None` for a map or an empty
/// list.
pub fn as_written(value: &FileValue) -> Option<Scalar> {
    match value {
        FileValue::Scalar(value) => Some(value.clone()),
        FileValue::List(items) if items.is_empty() => None,
        FileValue::List(items) => {
            Some(Scalar::Text(items.iter().map(Scalar::as_variable).collect::<Vec<_>>().join(",")))
        }
        FileValue::Map => None,
    }
}
