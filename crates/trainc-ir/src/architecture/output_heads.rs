//! The output heads of the Hugging Face classes.

use super::Architecture;
use super::kinds::Class;
use super::modules::{Module, ModulePlace, ModuleRole};
use super::spec::{Spec, intern};

/// Adds the modules of a head.
struct HeadList<'a> {
    a: &'a Architecture,
    spec: &'static Spec,
    modules: &'a mut Vec<Module>,
}

impl HeadList<'_> {
    fn add(&mut self, path: &str, role: ModuleRole, (inputs, outputs): (u64, u64), bias: u64) {
        self.modules.push(Module {
            path: intern(path),
            place: ModulePlace::Head,
            role,
            inputs,
            outputs,
            bias,
            per_layer: 1,
            copies: 1,
            shared: false,
        });
    }

    /// Adds the output matrix over the vocabulary, whose weight may be shared with the embedding.
    fn vocabulary(&mut self, path: &str, biases: u64) {
        let a = self.a;
        let size = (a.word_embedding, a.vocab);
        self.add(path, ModuleRole::Output, size, a.vocab.saturating_mul(biases));
        if let Some(head) = self.modules.last_mut() {
            head.shared = a.tied;
        }
    }

    fn head(&mut self, class: Class) {
        let (a, spec) = (self.a, self.spec);
        // Input width of the head: OPT first projects back to the embedding width.
        let h = a.word_embedding;
        // Encoders with a narrower embedding project once only, before the layers.
        let width = if spec.masked.is_empty() { h } else { a.hidden };
        match class {
            Class::Base if spec.pooler => {
                self.add("pooler.dense", ModuleRole::Pooled, (a.hidden, a.hidden), a.hidden);
            }
            Class::Base => {}
            Class::CausalLm | Class::ConditionalGeneration => {
                self.vocabulary(&spec.head, u64::from(a.head_bias));
            }
            Class::MaskedLm => {
                let [dense, norm, decoder] = spec.masked.as_slice() else {
                    self.vocabulary(&spec.head, u64::from(a.head_bias));
                    return;
                };
                self.add(dense, ModuleRole::Output, (a.hidden, h), if spec.plain_head_dense { 0 } else { h });
                self.add(norm, ModuleRole::Norm, (h, 1), if a.norm.has_bias() { h } else { 0 });
                self.vocabulary(decoder, a.masked_biases);
            }
            Class::TokenClassification { labels } | Class::SequenceClassification { labels }
                if let [dense, norm, out] = spec.classifier.as_slice() =>
            {
                self.add(dense, ModuleRole::Output, (h, h), if spec.plain_head_dense { 0 } else { h });
                self.add(norm, ModuleRole::Norm, (h, 1), if a.norm.has_bias() { h } else { 0 });
                self.add(out, ModuleRole::Output, (h, labels), labels);
            }
            Class::TokenClassification { labels } => {
                let path = if spec.masked.is_empty() { "score" } else { "classifier" };
                self.add(path, ModuleRole::Output, (width, labels), labels);
            }
            Class::SequenceClassification { labels } => match spec.classifier.as_slice() {
                [dense, out] => {
                    self.add(dense, ModuleRole::Pooled, (a.hidden, a.hidden), a.hidden);
                    self.add(out, ModuleRole::Pooled, (a.hidden, labels), labels);
                }
                _ => self.add(
                    "score",
                    ModuleRole::Pooled,
                    (h, labels),
                    if spec.head_bias { labels } else { 0 },
                ),
            },
            Class::QuestionAnswering => self.add("qa_outputs", ModuleRole::Output, (width, 2), 2),
        }
    }
}

impl Architecture {
    /// Adds the output of a class.
    pub(super) fn head(&self, class: Class, modules: &mut Vec<Module>) {
        HeadList { a: self, spec: self.family.spec(), modules }.head(class);
    }
}
