//! A document that is open in the editor.

use kdl::KdlDocument;
use lsp_types::Uri;
use std::rc::Rc;
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
    /// Its problems without those of the comparison with other jobs.
    pub(super) own_problems: Problems,
    /// The sources of the other jobs that its problems point into.
    pub(super) others: Rc<SourceMap>,
    /// The day of the server in days since 1970, for the age of prices.
    pub(super) today: Option<i64>,
}

impl OpenDocument {
    /// Parses the text as far as it is valid.
    pub(super) fn parse(&self) -> Option<KdlDocument> {
        document::parse(self.source, &self.text, &mut Problems::default())
    }

    /// Returns the dates of the prices of its instances, with the age of old ones.
    pub(super) fn price_origin(&self) -> Option<String> {
        let plan = self.compiled.plan.as_deref()?;
        describe_origins(plan.instance_prices(), self.today)
    }
}
