//! A document that is open in the editor.

use super::positions::{Encoding, Folder};
use super::problems::Places;
use super::workspace::{Compilation, Reads};
use kdl::KdlDocument;
use lsp_types::Uri;
use trainc_diag::Problems;
use trainc_diag::source::{SourceId, SourceMap};
use trainc_ir::price::describe_origins;
use trainc_plan::Compiled;
use trainc_syntax::document;

/// An open document and its compilation.
pub struct OpenDocument {
    pub(super) uri: Uri,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) compiled: Compiled,
    pub(super) sources: SourceMap,
    pub(super) source: SourceId,
    pub(super) reads: Reads,
    /// The number of its source map.
    pub(super) part: u32,
    /// Its problems without those of the comparison with other jobs.
    pub(super) own_problems: Problems,
    /// The sources of the other jobs that its problems point into.
    pub(super) others: SourceMap,
    /// The day of the server in days since 1970, for the age of prices.
    pub(super) today: Option<i64>,
}

impl OpenDocument {
    /// Makes the document of a compiled text.
    pub(super) fn new(
        (uri, name): (Uri, String),
        text: String,
        compilation: Compilation,
        part: u32,
        today: Option<i64>,
    ) -> Self {
        let Compilation { compiled, sources, source, reads } = compilation;
        let (own_problems, others) = (compiled.problems.clone(), SourceMap::default());
        Self { uri, name, text, compiled, sources, source, reads, part, own_problems, others, today }
    }

    /// Parses the text as far as it is valid.
    pub(super) fn parse(&self) -> Option<KdlDocument> {
        document::parse(self.source, &self.text, &mut Problems::default())
    }

    /// Returns the dates of the prices of its instances, with the age of old ones.
    pub(super) fn price_origin(&self) -> Option<String> {
        let plan = self.compiled.plan.as_deref()?;
        describe_origins(plan.instance_prices(), self.today)
    }

    /// Returns where its spans are.
    pub(super) fn places<'a>(&'a self, folder: &'a Folder, encoding: Encoding) -> Places<'a> {
        let sources = [&self.sources, &self.others];
        Places { folder, encoding, own: (&self.name, self.uri.as_str()), sources }
    }
}
