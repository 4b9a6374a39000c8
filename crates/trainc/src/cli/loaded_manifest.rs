//! One manifest, read once, to be compiled again with other choices or as another text.

use super::files::{Files, Tree as _};
use super::manifest_paths::{expand, root_of};
use super::manifests::{Manifest, Set};
use trainc_check::compile;
use trainc_diag::source::SourceMap;
use trainc_plan::Options;

/// A manifest in memory, with the files around it as far as they were read.
pub(super) struct LoadedManifest {
    /// The path as it is shown.
    pub path: String,
    /// Its text.
    pub text: String,
    sha256: String,
    reader: Files,
}

impl LoadedManifest {
    /// The only manifest that the arguments lead to; none where they lead to another number of them, or where it
    /// cannot be read as text.
    pub(super) fn only(arguments: &[String], options: &Options) -> Option<Self> {
        let mut files: Vec<_> = arguments.iter().flat_map(|argument| expand(argument).files).collect();
        let file = files.pop().filter(|_| files.is_empty())?;
        let mut reader = Files::new(root_of(&file.path, file.walked.as_deref()), options);
        let bytes = reader.read(&file.path).ok()?;
        Some(Self {
            path: file.shown,
            sha256: trainc_ir::digest::sha256_hex(&bytes),
            text: String::from_utf8(bytes).ok()?,
            reader,
        })
    }

    /// Compiles its text.
    pub(super) fn compile(&mut self, options: &Options) -> Set {
        let text = self.text.clone();
        self.compile_as(&text, options)
    }

    /// Compiles another text as if it stood in the file.
    pub(super) fn compile_as(&mut self, text: &str, options: &Options) -> Set {
        let mut sources = SourceMap::default();
        let source = sources.add(self.path.as_str(), text);
        let compiled = compile(source, text, options, &mut self.reader, &mut sources);
        let manifest = Manifest::new(&self.path, self.sha256.clone(), compiled);
        let (root, constants) = (self.reader.root().to_path_buf(), options.constants.clone());
        Set { sources, manifests: vec![manifest], many: false, root, constants }
    }
}
