//! Go to definition: the layer that a file extends, the storage of a channel, the value of a placeholder.

use super::hover::find_row;
use super::open_document::OpenDocument;
use super::problems::Places;
use kdl::KdlDocument;
use lsp_types::{Location, Range};
use trainc_diag::source::is_file;
use trainc_report::origins::rows;
use trainc_syntax::cursor::{self, Cursor, Part};

/// Returns the location of the definition of the text at a byte.
pub(super) fn definition(
    opened: &OpenDocument,
    document: &KdlDocument,
    offset: usize,
    places: &Places,
) -> Option<Location> {
    if let Some((path, ..)) = cursor::placeholder(&opened.text, offset) {
        let plan = opened.compiled.plan.as_ref()?;
        let values = rows(plan, &opened.sources);
        return places.location(find_row(&values, path)?.span?);
    }
    let cursor = Cursor::at(document, &opened.text, offset);
    let step = cursor.node()?;
    match (step.spec?.name, cursor.part) {
        ("extends", Part::Argument(0, entry)) => {
            let file = layer_file(opened, entry.value().as_string()?)?;
            Some(Location::new(places.folder.uri(&file).parse().ok()?, Range::default()))
        }
        ("channel", Part::Value(entry)) if entry.name().is_some_and(|name| name.value() == "from") => {
            let storages = &opened.compiled.plan.as_ref()?.job.storage;
            let wanted = entry.value().as_string()?;
            let storage = storages.iter().find(|one| one.name.value().is_some_and(|name| name == wanted))?;
            places.location(storage.name.span()?)
        }
        _ => None,
    }
}

/// Returns the file of a layer among the sources of the compilation: the one whose path ends with the written
/// path.
fn layer_file(opened: &OpenDocument, written: &str) -> Option<String> {
    let wanted = written.trim_start_matches("./").trim_start_matches("../");
    let wanted = wanted.rsplit("../").next()?;
    let mut names = opened.sources.iter().map(|(_, source)| source.name.to_string());
    names.find(|name| is_file(name) && *name != opened.name && ends_with_path(name, wanted))
}

fn ends_with_path(name: &str, wanted: &str) -> bool {
    name.strip_suffix(wanted).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}
