//! A document that is open in the editor.

use kdl::KdlDocument;
use lsp_types::Uri;
use std::rc::Rc;
use trainc_diag::Problems;
use trainc_diag::source::{SourceId, SourceMap};
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
    /// Its problems without those of the comparison with other jobs.
    pub(super) own_problems: Problems,
    /// The sources of the other jobs that its problems point into.
    pub(super) others: Rc<SourceMap>,
}

impl OpenDocument {
    /// Parses the text as far as it is valid.
    pub(super) fn parse(&self) -> Option<KdlDocument> {
        document::parse(self.source, &self.text, &mut Problems::default())
    }
}
