//! The output heads of the Hugging Face classes.

use super::family::Family;
use super::kinds::Class;
use super::modules::{ModuleList, ModulePlace, ModuleRole};

impl ModuleList<'_> {
    /// Adds the output matrix over the vocabulary, whose weight may be shared with the embedding.
    fn vocabulary(&mut self, path: &'static str, bias: bool) {
        let a = self.a;
        self.matrix(path, ModulePlace::Head, ModuleRole::Output, (a.word_embedding, a.vocab), bias);
        if let Some(head) = self.modules.last_mut() {
            head.shared = a.tied;
        }
    }

    /// Adds a square matrix that processes one vector per sequence.
    fn pooled(&mut self, path: &'static str) {
        let h = self.a.hidden;
        self.matrix(path, ModulePlace::Head, ModuleRole::Pooled, (h, h), true);
    }

    pub(super) fn head(&mut self, class: Class) {
        let a = self.a;
        // Input width of the head: OPT first projects back to the embedding width.
        let h = a.word_embedding;
        match class {
            Class::Base if matches!(a.family, Family::Bert | Family::Roberta) => {
                self.pooled("pooler.dense");
            }
            Class::Base => {}
            Class::CausalLm | Class::ConditionalGeneration => {
                self.vocabulary(self.names.head, a.family.spec().head_bias);
            }
            Class::MaskedLm => {
                let [dense, norm, decoder] = masked_lm_paths(a.family);
                self.matrix(dense, ModulePlace::Head, ModuleRole::Output, (h, h), true);
                self.norm(norm, ModulePlace::Head, h);
                self.vocabulary(decoder, true);
            }
            Class::SequenceClassification { labels } => match classifier_paths(a.family) {
                Some([dense, out]) => {
                    self.pooled(dense);
                    self.matrix(out, ModulePlace::Head, ModuleRole::Pooled, (h, labels), true);
                }
                None => self.matrix("score", ModulePlace::Head, ModuleRole::Pooled, (h, labels), false),
            },
            Class::QuestionAnswering => {
                self.matrix("qa_outputs", ModulePlace::Head, ModuleRole::Output, (h, 2), true);
            }
        }
    }
}

/// Returns the paths of dense layer, norm and vocabulary matrix of masked-token prediction.
fn masked_lm_paths(family: Family) -> [&'static str; 3] {
    match family.name() {
        "roberta" => ["lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"],
        "distilbert" => ["vocab_transform", "vocab_layer_norm", "vocab_projector"],
        _ => [
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.decoder",
        ],
    }
}

/// Returns the paths of a two-layer classifier; decoders have one layer without bias, `score`.
fn classifier_paths(family: Family) -> Option<[&'static str; 2]> {
    match family.name() {
        "bert" => Some(["pooler.dense", "classifier"]),
        "distilbert" => Some(["pre_classifier", "classifier"]),
        "roberta" => Some(["classifier.dense", "classifier.out_proj"]),
        "t5" => Some(["classification_head.dense", "classification_head.out_proj"]),
        _ => None,
    }
}
