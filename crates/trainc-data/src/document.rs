//! Documents: a record as tokens, each of which is trained on or not.

use super::fault::{Fault, T0522};
use super::record::Record;
use super::template::Template;
use super::vocabulary::{Additions, Vocabulary};
use std::ops::Range;

/// The tokens of one document; the last ends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Tokens.
    pub ids: Vec<u32>,
    /// Which of them are learnt.
    pub trained: Vec<bool>,
}

/// The text of a document that is not tokenized yet.
pub struct DocumentText {
    text: String,
    /// The bytes of it that are answers.
    answers: Vec<Range<usize>>,
    additions: Additions,
    /// Every token is learnt.
    is_trained: bool,
}

/// Which tokens are learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainOn {
    /// Of a prompt and its completion only the completion, of a conversation only the answers.
    Answers,
    /// Every token.
    All,
}

/// How records become documents.
pub struct Maker {
    /// The tokenizer.
    pub vocabulary: Vocabulary,
    /// The template, which conversations need.
    pub template: Option<Template>,
    /// Which tokens are learnt.
    pub train_on: TrainOn,
}

impl Maker {
    /// Makes a document of a record.
    pub fn make(&self, record: &Record) -> Result<Document, Fault> {
        self.tokenize(self.text_of(record)?)
    }

    /// Makes the text of a record: renders the template of a conversation.
    pub fn text_of(&self, record: &Record) -> Result<DocumentText, Fault> {
        let (text, answers, additions) = match record {
            Record::Text(text) => (text.clone(), std::iter::once(0..text.len()).collect(), Additions::Made),
            Record::Pair { prompt, completion } => {
                let text = format!("{prompt}{completion}");
                let answer: Vec<Range<usize>> = std::iter::once(prompt.len()..text.len()).collect();
                (text, answer, Additions::Made)
            }
            Record::Messages { messages, record } => {
                let Some(template) = &self.template else {
                    return Err(Fault::new(&T0522, "conversations require a chat template")
                        .help("pass `--template FILE`, or `--template eli5` for questions and answers")
                        .note(
                            "the `chat_template` of a `tokenizer_config.json` next to the tokenizer \
                            is used automatically",
                        ));
                };
                let rendered = match self.train_on {
                    TrainOn::Answers => template.conversation(messages, record)?,
                    TrainOn::All => {
                        let text = template.render(messages, record, false)?;
                        super::template::Rendered { answers: Vec::new(), text }
                    }
                };
                (rendered.text, rendered.answers, Additions::LeftOut)
            }
        };
        let is_trained = self.train_on == TrainOn::All || matches!(record, Record::Text(_));
        Ok(DocumentText { text, answers, additions, is_trained })
    }

    /// Makes a document of its text. It ends with the end-of-text token: added where it is not there already.
    pub fn tokenize(&self, document: DocumentText) -> Result<Document, Fault> {
        let DocumentText { text, answers, additions, is_trained } = document;
        let encoded = self.vocabulary.encode(&text, additions)?;
        let mut document = Document { trained: Vec::with_capacity(encoded.ids.len() + 1), ids: encoded.ids };
        for start in encoded.starts {
            document.trained.push(is_trained || answers.iter().any(|answer| answer.contains(&start)));
        }
        if document.ids.last() != Some(&self.vocabulary.eos) {
            // The end of the last answer is learnt, or generation would not stop.
            document.ids.push(self.vocabulary.eos);
            document.trained.push(true);
        }
        Ok(document)
    }
}
