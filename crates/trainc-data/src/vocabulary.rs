//! A tokenizer as Hugging Face writes it (`tokenizer.json`), with what stands beside it in
//! `tokenizer_config.json`.

use super::fault::{Fault, T0523, T0524, T0527, T0690, T0770};
use serde_json::Value;
use std::collections::BTreeMap;
use tokenizers::Tokenizer;
use trainc_diag::text;

/// Maximum size of a document in bytes.
pub const MOST_DOCUMENT_BYTES: usize = 8 << 20;
/// Maximum size of a line in bytes: a document, in which JSON may escape some characters.
pub const MOST_LINE_BYTES: usize = 2 * MOST_DOCUMENT_BYTES;

/// Fails if a document is too large to be tokenized.
pub fn check_size(bytes: usize) -> Result<(), Fault> {
    if bytes <= MOST_DOCUMENT_BYTES {
        return Ok(());
    }
    let most = text::bytes(MOST_DOCUMENT_BYTES as u64);
    Err(Fault::new(&T0690, format!("a document is larger than {most}"))
        .help("split it into several lines or files")
        .note("a document is tokenized as a whole, which takes more than 100 times its size in memory"))
}

/// A tokenizer, its special tokens and its width.
pub struct Vocabulary {
    tokenizer: Tokenizer,
    /// Special tokens by their name in templates: `bos_token`, `eos_token` ….
    pub tokens: BTreeMap<String, String>,
    /// The token that ends a document.
    pub eos: u32,
    /// One more than the highest token.
    pub size: usize,
}

/// What the tokenizer makes of a text: tokens, and the byte at which each begins.
pub struct Encoded {
    /// Tokens.
    pub ids: Vec<u32>,
    /// First byte of each in the text; of one that was added without text, the end of the one before.
    pub starts: Vec<usize>,
}

/// Whether the tokenizer's own additions (a first token, as Llama has) are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Additions {
    /// As for a plain text.
    Made,
    /// As for a text from a template, which writes them itself.
    LeftOut,
}

impl Vocabulary {
    /// Reads `tokenizer.json` and, where it is there, `tokenizer_config.json`. `eos` is the token that the
    /// user named; `width` the model's, which no token may exceed.
    pub fn new(
        json: &[u8],
        config: Option<&str>,
        eos: Option<&str>,
        width: Option<usize>,
    ) -> Result<Self, Fault> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|error| {
            let fault = Fault::new(&T0523, format!("not a valid `tokenizer.json`: {error}"));
            fault.note(
                "a fast tokenizer's file is read; \
                `AutoTokenizer.from_pretrained(…).save_pretrained(DIR)` writes one",
            )
        })?;
        // What a file asks for at inference would cut and fill documents here.
        let _ = tokenizer.with_truncation(None);
        tokenizer.with_padding(None);
        let mut tokens = config.map(special_tokens).unwrap_or_default();
        if let Some(eos) = eos {
            tokens.insert("eos_token".to_owned(), eos.to_owned());
        }
        let Some(eos_token) = tokens.get("eos_token") else {
            return Err(Fault::new(&T0524, "no token is known to end a document")
                .help(format!("`--eos TOKEN`, with one of {}", describe_special_tokens(&tokenizer)))
                .note("a `tokenizer_config.json` next to the tokenizer can name it as `eos_token`"));
        };
        let Some(id) = tokenizer.token_to_id(eos_token) else {
            let mut fault = Fault::new(&T0524, format!("the tokenizer has no token `{eos_token}`"));
            let names = special_token_names(&tokenizer);
            fault.help = Some(match text::nearest(eos_token, names.iter().map(String::as_str)) {
                Some(near) => format!("`--eos '{near}'`"),
                None => format!("its special tokens are {}", describe_special_tokens(&tokenizer)),
            });
            return Err(fault);
        };
        let highest = tokenizer.get_vocab(true).into_values().max().unwrap_or(0);
        let size = usize::try_from(highest).unwrap_or(usize::MAX).saturating_add(1);
        if let Some(width) = width.filter(|width| size > *width) {
            return Err(Fault::new(
                &T0527,
                format!(
                    "the tokenizer's highest token is {highest}, and the model's vocabulary has {width} rows"
                ),
            )
            .note("a token beyond the embedding's rows has no vector"));
        }
        Ok(Self { tokenizer, tokens, eos: id, size: width.unwrap_or(size) })
    }

    /// Tokens of a text.
    pub fn encode(&self, text: &str, additions: Additions) -> Result<Encoded, Fault> {
        check_size(text.len())?;
        let encoding = self
            .tokenizer
            .encode(text, additions == Additions::Made)
            .map_err(|error| Fault::new(&T0770, format!("the tokenizer cannot read the text: {error}")))?;
        let starts = encoding.get_offsets().iter().map(|(start, _)| *start).collect();
        Ok(Encoded { ids: encoding.get_ids().to_vec(), starts })
    }
}

/// Special tokens of `tokenizer_config.json`: strings, or objects with `content`.
fn special_tokens(config: &str) -> BTreeMap<String, String> {
    let Ok(Value::Object(config)) = serde_json::from_str::<Value>(config) else { return BTreeMap::new() };
    config
        .into_iter()
        .filter(|(name, _)| name.ends_with("_token"))
        .filter_map(|(name, value)| {
            let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
            Some((name, text.to_owned()))
        })
        .collect()
}

/// The template of `tokenizer_config.json`, the one called `default` where there are several.
pub fn template_of(config: &str) -> Option<String> {
    let config: Value = serde_json::from_str(config).ok()?;
    let template = config.get("chat_template")?;
    if let Some(text) = template.as_str() {
        return Some(text.to_owned());
    }
    let named = |name: &str| {
        let all = template.as_array()?;
        let one = all.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name))?;
        one.get("template")?.as_str().map(str::to_owned)
    };
    named("default")
}

fn special_token_names(tokenizer: &Tokenizer) -> Vec<String> {
    let mut all: Vec<(u32, String)> = tokenizer
        .get_added_tokens_decoder()
        .into_iter()
        .filter(|(_, token)| token.special)
        .map(|(id, token)| (id, token.content))
        .collect();
    all.sort();
    all.into_iter().map(|(_, token)| token).collect()
}

/// The first special tokens, for a message.
fn describe_special_tokens(tokenizer: &Tokenizer) -> String {
    let names: Vec<String> =
        special_token_names(tokenizer).iter().take(8).map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "its vocabulary".to_owned() } else { text::list(&names, "and") }
}
