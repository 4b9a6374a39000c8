//! The splits of packed data: training and validation.

use crate::document::Document;
use crate::document_reader::hex;
use crate::fault::Fault;
use crate::pack::{Packer, is_held_out, shuffled};
use crate::packing::Stop;
use crate::shard::{Index, Input, Layout, Split};
use crate::shard_writer::{Writer, check_replaceable};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// Value of `--validation`.
pub(crate) enum HeldOut {
    /// No validation set.
    None,
    /// A fraction of the documents, between 0 and 1.
    Fraction(f64),
    /// All documents of these files.
    Files(Vec<String>),
}

impl HeldOut {
    /// Parses one fraction, or files.
    pub(crate) fn read(written: &[String]) -> Result<Self, Stop> {
        let fractions: Vec<Option<f64>> = written.iter().map(|word| word.parse().ok()).collect();
        let usage = |said: String| Err(Stop::Refused(format!("`--validation`: {said}")));
        match fractions.as_slice() {
            [] => Ok(Self::None),
            [Some(fraction)] if *fraction > 0.0 && *fraction < 1.0 => Ok(Self::Fraction(*fraction)),
            [Some(fraction)] => usage(format!("{fraction} is not between 0 and 1")),
            many if many.iter().any(Option::is_some) => {
                usage("expected one fraction, e.g. `0.05`, or files, not both".to_owned())
            }
            _ => Ok(Self::Files(written.to_vec())),
        }
    }

    /// Returns the files of the validation set.
    pub(crate) fn files(&self) -> &[String] {
        match self {
            Self::Files(files) => files,
            Self::None | Self::Fraction(_) => &[],
        }
    }

    /// Returns true if the document at this index belongs to the validation set.
    pub(crate) fn is_held_out(&self, seed: u64, place: u64) -> bool {
        matches!(self, Self::Fraction(fraction) if is_held_out(seed, place, *fraction))
    }

    /// Returns true if there is a validation set.
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the split for the index.
    pub(crate) fn split(&self, part: &'static str, seed: u64) -> Option<Split> {
        match self {
            Self::None => None,
            Self::Fraction(fraction) => Some(Split { part, fraction: Some(*fraction), seed: Some(seed) }),
            Self::Files(_) => Some(Split { part, fraction: None, seed: None }),
        }
    }
}

/// Returns the directory of the validation set: a sibling, so that a channel contains only one split.
pub(crate) fn validation_dir(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_os_string();
    name.push("-validation");
    out.with_file_name(name)
}

/// Writer of one split.
pub(crate) struct SplitWriter {
    /// Output directory.
    pub(crate) out: PathBuf,
    /// Inputs that were read.
    pub(crate) inputs: Vec<Input>,
    writer: Writer,
    packer: Packer,
    /// All documents, if they are to be shuffled.
    seed: Option<u64>,
    kept: Vec<Document>,
    records: Vec<u8>,
    written: Result<(), Stop>,
}

impl SplitWriter {
    /// Opens a writer; fails if `out` may not be replaced.
    pub(crate) fn new(out: &Path, layout: Layout, seed: Option<u64>) -> Result<Self, Stop> {
        check_replaceable(out)?;
        Ok(Self {
            out: out.to_path_buf(),
            inputs: Vec::new(),
            writer: Writer::new(out, layout)?,
            packer: Packer::new(layout),
            seed,
            kept: Vec::new(),
            records: Vec::new(),
            written: Ok(()),
        })
    }

    /// Adds a document.
    pub(crate) fn take(&mut self, document: Document) {
        if self.seed.is_some() {
            self.kept.push(document);
        } else {
            self.pack(&document);
        }
    }

    fn pack(&mut self, document: &Document) {
        if self.written.is_ok() {
            self.records.clear();
            self.packer.push(document, &mut self.records);
            self.written = self.writer.put(&self.records);
        }
    }

    /// Packs the remaining documents. Returns the number of dropped tokens, or a fault if no sequence was
    /// filled.
    pub(crate) fn close(&mut self) -> Result<Result<u64, Fault>, Stop> {
        let kept = std::mem::take(&mut self.kept);
        for at in self.seed.map_or_else(Vec::new, |seed| shuffled(kept.len(), seed)) {
            if let Some(document) = kept.get(at) {
                self.pack(document);
            }
        }
        std::mem::replace(&mut self.written, Ok(()))?;
        Ok(self.packer.count_dropped_tokens())
    }

    /// Removes all partial output.
    pub(crate) fn discard(&self) {
        self.writer.discard();
    }

    /// Writes the index and moves the directory into its place.
    pub(crate) fn publish(
        mut self,
        index: &Index,
        dropped: u64,
        split: Option<Split>,
    ) -> Result<Index, Stop> {
        let counts = self.packer.counts;
        let files = self.writer.finish()?;
        let mut digest = Sha256::new();
        for file in &files {
            digest.update(&file.sha256);
        }
        let index = Index {
            sequences: counts.sequences,
            masked: counts.trained_labels < counts.sequences * index.sequence_length as u64,
            documents: counts.documents,
            tokens: counts.tokens,
            trained_labels: counts.trained_labels,
            dropped_tokens: dropped,
            inputs: self.inputs,
            files,
            digest: hex(&digest.finalize()),
            split,
            ..index.clone()
        };
        self.writer.publish(&index)?;
        Ok(index)
    }
}
