//! One manifest in memory, to be compiled repeatedly with other choices or edited text.

use crate::files::{Files, Tree as _};
use crate::manifest_paths::{expand, root_of};
use crate::manifests::{Manifest, Set};
use trainc_check::compile;
use trainc_diag::source::SourceMap;
use trainc_plan::Options;

/// A manifest in memory, with a cache of the files it refers to.
pub struct LoadedManifest {
    /// Path for display.
    pub path: String,
    /// Text of the manifest.
    pub text: String,
    sha256: String,
    reader: Files,
}

impl LoadedManifest {
    /// Reads the manifest if the arguments name exactly one, as UTF-8 text.
    pub fn load_single(arguments: &[String], options: &Options) -> Option<Self> {
        let mut files: Vec<_> = arguments.iter().flat_map(|argument| expand(argument).files).collect();
        let file = files.pop().filter(|_| files.is_empty())?;
        let mut reader = Files::new(root_of(&file.path, file.walked.as_deref()), options);
        let bytes = reader.read(&file).ok()?;
        Some(Self {
            path: file.shown,
            sha256: trainc_ir::digest::sha256_hex(&bytes),
            text: String::from_utf8(bytes).ok()?,
            reader,
        })
    }

    /// Returns the manifest of a set that was compiled from one, without reading it again.
    pub fn from_set(set: &Set, options: &Options) -> Option<Self> {
        let [manifest] = set.manifests.as_slice() else { return None };
        let text = set.sources.iter().find(|(_, source)| *source.name == *manifest.path)?.1.text.to_string();
        Some(Self {
            path: manifest.path.clone(),
            text,
            sha256: manifest.sha256.clone(),
            reader: Files::new(set.root.clone(), options),
        })
    }

    /// Compiles its text.
    pub fn compile(&mut self, options: &Options) -> Set {
        let text = self.text.clone();
        self.compile_as(&text, options)
    }

    /// Compiles another text in place of the file's.
    pub fn compile_as(&mut self, text: &str, options: &Options) -> Set {
        let mut sources = SourceMap::default();
        let source = sources.add(self.path.as_str(), text);
        let compiled = compile(source, text, options, &mut self.reader, &mut sources);
        let manifest = Manifest::new(&self.path, self.sha256.clone(), compiled);
        let (root, constants) = (self.reader.root().to_path_buf(), options.constants.clone());
        Set { sources, manifests: vec![manifest], skipped: Vec::new(), many: false, root, constants }
    }
}
