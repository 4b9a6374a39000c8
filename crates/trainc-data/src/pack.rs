//! Documents one after the other, cut into sequences of one length without padding.

use super::document::Document;
use super::fault::{Fault, T0525};
use super::shard::Layout;
use trainc_diag::text;

/// Cuts documents into records.
#[derive(Debug)]
pub struct Packer {
    layout: Layout,
    ids: Vec<u32>,
    trained: Vec<bool>,
    begins: Vec<bool>,
    /// Counts so far.
    pub counts: Counts,
}

/// What was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Documents.
    pub documents: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Sequences cut.
    pub sequences: u64,
    /// Labels in them that are trained on.
    pub trained_labels: u64,
}

impl Packer {
    /// For records of this layout.
    pub fn new(layout: Layout) -> Self {
        Self { layout, ids: Vec::new(), trained: Vec::new(), begins: Vec::new(), counts: Counts::default() }
    }

    /// Adds a document; appends the records of the sequences that it completes.
    pub fn push(&mut self, document: &Document, out: &mut Vec<u8>) {
        let was = self.ids.len();
        self.ids.extend(&document.ids);
        self.trained.extend(&document.trained);
        self.begins.resize(self.ids.len(), false);
        if let Some(first) = self.begins.get_mut(was) {
            *first = true;
        }
        self.counts.documents += 1;
        self.counts.tokens += document.ids.len() as u64;
        let s = self.layout.sequence_length;
        let mut at = 0;
        while let (Some(ids), Some(trained), Some(begins)) =
            (self.ids.get(at..=at + s), self.trained.get(at..=at + s), self.begins.get(at..=at + s))
        {
            self.layout.record(ids, trained, begins, out);
            self.counts.sequences += 1;
            self.counts.trained_labels += trained.iter().skip(1).filter(|trained| **trained).count() as u64;
            at += s;
        }
        self.ids.drain(..at);
        self.trained.drain(..at);
        self.begins.drain(..at);
    }

    /// Tokens that filled no sequence. Fewer tokens than one sequence are a fault.
    pub fn count_dropped_tokens(&self) -> Result<u64, Fault> {
        let Counts { documents, tokens, sequences, .. } = self.counts;
        if sequences > 0 {
            // The first token of the rest is the last label of the last sequence.
            return Ok(self.ids.len().saturating_sub(1) as u64);
        }
        let needed = self.layout.sequence_length + 1;
        Err(if documents == 0 {
            Fault::new(&T0525, "there is no document to pack")
        } else {
            Fault::new(
                &T0525,
                format!(
                    "{} with {} {} less than one sequence, which takes {needed}",
                    text::count(documents, "document"),
                    text::count(tokens, "token"),
                    if documents == 1 { "is" } else { "are" },
                ),
            )
            .help("more data, or a shorter `--sequence-length`")
        })
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The counter-based generator splitmix64 (Steele, Lea and Flood 2014): the same on every machine.
fn mix(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The order of documents: 0..n shuffled by a seed (Fisher and Yates).
pub fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    let mut state = seed;
    for last in (1..n).rev() {
        state = state.wrapping_add(STEP);
        let pick = (u128::from(mix(state)) * (last as u128 + 1)) >> 64;
        order.swap(last, usize::try_from(pick).unwrap_or(0));
    }
    order
}

/// Whether the document at `place` of all documents belongs to the `fraction` that is held out to evaluate
/// on. A document's lot depends on nothing but seed and place: more documents at the end move none of the
/// earlier ones.
pub fn is_held_out(seed: u64, place: u64, fraction: f64) -> bool {
    // Not the states that shuffle: the order must say nothing of the choice.
    let lot = mix(mix(seed ^ 0x7661_6c69_6461_7465).wrapping_add(place.wrapping_add(1).wrapping_mul(STEP)));
    (lot >> 11) as f64 / (1_u64 << 53) as f64 >= 1.0 - fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(ids: &[u32], trained: bool) -> Document {
        Document { ids: ids.to_vec(), trained: vec![trained; ids.len()] }
    }

    #[test]
    fn sequences_overlap_by_the_label_of_the_last_position() {
        let layout = Layout { width: 2, sequence_length: 4 };
        let mut packer = Packer::new(layout);
        let mut out = Vec::new();
        packer.push(&document(&[1, 2, 3], false), &mut out);
        assert!(out.is_empty());
        assert_eq!(packer.count_dropped_tokens().unwrap_err().code.id, "T0525");
        packer.push(&document(&[4, 5, 6, 7, 8, 9, 10], true), &mut out);
        let bytes = layout.record_bytes();
        assert_eq!(out.len(), 2 * bytes);
        let ids = |record: &[u8]| -> Vec<u8> { record[..10].iter().step_by(2).copied().collect() };
        assert_eq!(ids(&out), [1, 2, 3, 4, 5]);
        assert_eq!(ids(&out[bytes..]), [5, 6, 7, 8, 9]);
        // Labels are tokens 2 to 5, of which 4 and 5 are trained; tokens 1 and 4 begin documents.
        assert_eq!(out[10..12], [0b1100, 0b1001]);
        assert_eq!(out[bytes + 10..bytes + 12], [0b1111, 0]);
        assert_eq!(packer.count_dropped_tokens().unwrap(), 1);
        let counts = Counts { documents: 2, tokens: 10, sequences: 2, trained_labels: 6 };
        assert_eq!(packer.counts, counts);
        assert_eq!(
            u32::from_le_bytes(out[12..16].try_into().unwrap()),
            crc32fast::hash(&out[..12]),
            "each record carries its own sum"
        );
    }

    #[test]
    fn a_fraction_is_held_out_by_seed_and_place_alone() {
        let held =
            |seed: u64| -> Vec<u64> { (0..20_000).filter(|place| is_held_out(seed, *place, 0.1)).collect() };
        let one = held(7);
        // Four deviations of 20,000 lots of a tenth.
        assert!(one.len().abs_diff(2_000) < 170, "{}", one.len());
        assert_eq!(one, held(7));
        let both = held(8).into_iter().filter(|place| one.contains(place)).count();
        assert!(both.abs_diff(200) < 57, "{both}: another seed is another choice");
        // A larger fraction holds out what a smaller one does, and more.
        assert!(one.iter().all(|place| is_held_out(7, *place, 0.2)));
    }

    #[test]
    fn a_seed_gives_one_permutation() {
        let mut order = shuffled(100, 7);
        assert_eq!(order, shuffled(100, 7));
        assert_ne!(order, shuffled(100, 8));
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
