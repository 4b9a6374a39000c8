//! Writes the file that an engine reads, from the table of its keys.

mod text;

use crate::files::{self, plan_names};
use text::Map;
use trainc_catalog::engine_files::{self, Syntax};
use trainc_diag::source::{SourceId, Span};
use trainc_ir::{FileReader, ForeignFile, Plan, Scalar};

/// Returns the text of the file that trainc writes for the engine of a plan; `None` for an engine without
/// one. A value that the plan does not have is not written.
pub fn file(plan: &Plan) -> Option<String> {
    let table = engine_files::keys(plan.engine?.front.file?)?;
    let version = |package: &str| {
        let program = plan.programs.iter().find(|program| program.package == package);
        program.map(|program| program.version.value.as_str())
    };
    let names = plan_names(plan);
    let mut map = Map::default();
    for row in &table.rows {
        let package = row.package.as_deref().unwrap_or(table.package);
        let expression = row.write.as_deref().filter(|_| row.is_in(version(package)));
        let value = expression.and_then(|expression| names.value(expression));
        if let Some(value) = value.filter(|value| *value != Scalar::Null) {
            map.insert(&row.key, value);
        }
    }
    match table.syntax {
        Syntax::Yaml => Some(format!("{COMMENT}{}", map.to_yaml())),
        Syntax::Json => Some(map.to_json()),
        Syntax::Toml => None,
    }
}

/// Returns the file that trainc writes for the engine of a plan as its program reads it, without places.
pub fn read_back(plan: &Plan) -> Option<ForeignFile> {
    let path = plan.written_file()?;
    let table = engine_files::keys(plan.engine?.front.file?)?;
    let text = file(plan)?;
    let document = files::read(table, path, &text).ok()?;
    let part = files::parts(table, &document, SourceId::default()).into_iter().next()?;
    Some(ForeignFile {
        reader: FileReader::Engine,
        table: table.name,
        path: path.to_owned(),
        packed_as: path.to_owned(),
        is_in_source: false,
        text: text.into(),
        span: Span::default(),
        settings: part.settings,
        is_replaced: false,
    })
}

/// The first lines of a file that may have comments.
const COMMENT: &str =
    "# Written by trainc from the manifest. The launch script states the topology on the command line.\n";
