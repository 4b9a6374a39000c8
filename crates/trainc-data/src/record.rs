//! One line of training data: which fields it has, and so what kind of document it is.

use super::fault::{Fault, T0520, T0521};
use minijinja::context;
use minijinja::value::{Value, ValueKind};

/// What one line says.
#[derive(Clone, Debug)]
pub enum Record {
    /// `text`: every token is trained on.
    Text(String),
    /// `prompt` and `completion` as texts: the prompt is masked.
    Pair {
        /// What is given.
        prompt: String,
        /// What is learnt.
        completion: String,
    },
    /// `messages`, or what becomes messages: answers are learnt. A template makes the text.
    Messages {
        /// Each with `role` and `content`.
        messages: Vec<Value>,
        /// The whole record, whose other fields templates may read.
        record: Value,
    },
}

/// What the lines of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// One JSON object per line.
    Json,
    /// The file is one document.
    Text,
}

/// What a file holds, by its name, or where that does not say by its first bytes.
pub fn detect_format(name: &str, head: &[u8]) -> Lines {
    let name = name.to_ascii_lowercase();
    if [".jsonl", ".ndjson", ".json"].iter().any(|end| name.ends_with(end)) {
        return Lines::Json;
    }
    if name.ends_with(".txt") {
        return Lines::Text;
    }
    if head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        Lines::Json
    } else {
        Lines::Text
    }
}

/// The shapes that a line may have, for messages to the user.
const SHAPES: &str = "a line has `text`; or `prompt` and `completion`; or `messages`; or `question` (or \
    `title`) and `answers` (or `answer`)";

/// Reads one line of JSON. An empty line is no record.
pub fn read(line: &[u8]) -> Result<Option<Record>, Fault> {
    let text = std::str::from_utf8(line)
        .map_err(|error| Fault::new(&T0520, "the line is not UTF-8 text").at(error.valid_up_to(), 1))?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let record: Value = serde_json::from_str(text).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line").next().unwrap_or_default().to_owned();
        let fault = Fault::new(&T0520, format!("the line is no JSON: {what}"))
            .at(error.column().saturating_sub(1).min(text.len().saturating_sub(1)), 1);
        if text.trim() == "[" || text.trim_start().starts_with("[{") {
            fault.help("one object per line: `jq -c '.[]' FILE > FILE.jsonl`")
        } else {
            fault
        }
    })?;
    if record.kind() != ValueKind::Map {
        return Err(Fault::new(&T0520, format!("the line holds {}, not an object", describe_kind(&record)))
            .at(0, text.len()));
    }
    record_from_json(&record)
        .map(Some)
        .map_err(|message| Fault::new(&T0521, message).at(0, text.len()).note(SHAPES))
}

fn field(record: &Value, name: &str) -> Option<Value> {
    record.get_attr(name).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

fn string_field(record: &Value, name: &str) -> Result<Option<String>, String> {
    match field(record, name) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(format!("`{name}` is {}, not a string", describe_kind(&value))),
        },
    }
}

fn describe_kind(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Map => "an object",
        ValueKind::Seq | ValueKind::Iterable => "a list",
        ValueKind::String => "a string",
        ValueKind::Number => "a number",
        ValueKind::Bool => "true or false",
        _ => "null",
    }
}

fn record_from_json(record: &Value) -> Result<Record, String> {
    if let Some(messages) = field(record, "messages") {
        return conversation(list("messages", &messages)?, record);
    }
    if field(record, "prompt").is_some() || field(record, "completion").is_some() {
        return pair(record);
    }
    let question = match string_field(record, "question")? {
        Some(question) => Some(question),
        None => string_field(record, "title")?,
    };
    if let Some(question) = question {
        let answer = match string_field(record, "answer")? {
            Some(answer) => answer,
            None => best_answer(
                &field(record, "answers").ok_or("there is a question, but no `answers` or `answer`")?,
            )?,
        };
        let messages = vec![message("user", &question), message("assistant", &answer)];
        return Ok(Record::Messages { messages, record: record.clone() });
    }
    if let Some(text) = string_field(record, "text")? {
        return Ok(Record::Text(text));
    }
    let names: Vec<String> =
        record.try_iter().into_iter().flatten().map(|name| format!("`{name}`")).collect();
    Err(if names.is_empty() {
        "the object is empty".to_owned()
    } else {
        format!("no document can be made of the fields {}", trainc_diag::text::list(&names, "and"))
    })
}

fn message(role: &str, content: &str) -> Value {
    context! { role, content }
}

fn list(name: &str, value: &Value) -> Result<Vec<Value>, String> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => Ok(value.try_iter().into_iter().flatten().collect()),
        _ => Err(format!("`{name}` is {}, not a list of messages", describe_kind(value))),
    }
}

fn conversation(messages: Vec<Value>, record: &Value) -> Result<Record, String> {
    if messages.is_empty() {
        return Err("`messages` is empty".to_owned());
    }
    for (at, message) in messages.iter().enumerate() {
        if message.kind() != ValueKind::Map || field(message, "role").is_none() {
            return Err(format!("message {} has no `role`", at + 1));
        }
    }
    Ok(Record::Messages { messages, record: record.clone() })
}

fn pair(record: &Value) -> Result<Record, String> {
    let (Some(prompt), Some(completion)) = (field(record, "prompt"), field(record, "completion")) else {
        let (has, lacks) = if field(record, "prompt").is_some() {
            ("prompt", "completion")
        } else {
            ("completion", "prompt")
        };
        return Err(format!("there is a `{has}`, but no `{lacks}`"));
    };
    if let (Some(prompt), Some(completion)) = (prompt.as_str(), completion.as_str()) {
        return Ok(Record::Pair { prompt: prompt.to_owned(), completion: completion.to_owned() });
    }
    let mut messages = list("prompt", &prompt)?;
    messages.extend(list("completion", &completion)?);
    conversation(messages, record)
}

/// The answer with the highest score, the first of equals: of `{text: […], score: […]}` as ELI5 has it, of a
/// list of objects with `text` and `score`, or of a list of strings.
fn best_answer(answers: &Value) -> Result<String, String> {
    let items = |value: &Value| -> Vec<Value> { value.try_iter().into_iter().flatten().collect() };
    let scored: Vec<(Option<Value>, f64)> = match answers.kind() {
        ValueKind::Map => {
            let texts = field(answers, "text").map(|texts| items(&texts)).unwrap_or_default();
            let scores = field(answers, "score").map(|scores| items(&scores)).unwrap_or_default();
            texts
                .into_iter()
                .enumerate()
                .map(|(at, text)| (Some(text), scores.get(at).map_or(0.0, number)))
                .collect()
        }
        ValueKind::Seq | ValueKind::Iterable => items(answers)
            .into_iter()
            .map(|item| match item.kind() {
                ValueKind::Map => (field(&item, "text"), field(&item, "score").map_or(0.0, |s| number(&s))),
                _ => (Some(item), 0.0),
            })
            .collect(),
        _ => {
            return Err(format!(
                "`answers` is {}, neither a list nor an object with `text`",
                describe_kind(answers)
            ));
        }
    };
    let mut best: Option<(String, f64)> = None;
    for (text, score) in scored {
        let text = text.as_ref().and_then(Value::as_str).ok_or("an answer has no text")?;
        if best.as_ref().is_none_or(|(_, highest)| score > *highest) {
            best = Some((text.to_owned(), score));
        }
    }
    best.map(|(text, _)| text).ok_or_else(|| "there is no answer".to_owned())
}

fn number(value: &Value) -> f64 {
    f64::try_from(value.clone()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        match read(line.as_bytes()) {
            Ok(Some(Record::Text(text))) => format!("text {text}"),
            Ok(Some(Record::Pair { prompt, completion })) => format!("pair {prompt}|{completion}"),
            Ok(Some(Record::Messages { messages, .. })) => {
                let parts: Vec<String> = messages
                    .iter()
                    .map(|m| format!("{}:{}", m.get_attr("role").unwrap(), m.get_attr("content").unwrap()))
                    .collect();
                parts.join(" ")
            }
            Ok(None) => "nothing".to_owned(),
            Err(fault) => format!("{} {}", fault.code.id, fault.message),
        }
    }

    #[test]
    fn lines_become_documents_or_faults() {
        for (line, expected) in [
            ("  ", "nothing"),
            (r#"{"text": "a"}"#, "text a"),
            (r#"{"prompt": "a", "completion": "b"}"#, "pair a|b"),
            (
                r#"{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}"#,
                "user:a assistant:b",
            ),
            (r#"{"question": "q", "answer": "a"}"#, "user:q assistant:a"),
            (
                r#"{"title": "q", "answers": {"text": ["x", "y", "z"], "score": [3, 9, 9]}}"#,
                "user:q assistant:y",
            ),
            (
                r#"{"question": "q", "answers": [{"text": "x", "score": 1}, {"text": "y", "score": 2}]}"#,
                "user:q assistant:y",
            ),
            (r#"{"question": "q", "answers": ["x", "y"]}"#, "user:q assistant:x"),
            (r#"{"question": "q"}"#, "T0521 there is a question, but no `answers` or `answer`"),
            (r#"{"question": "q", "answers": []}"#, "T0521 there is no answer"),
            (r#"{"prompt": "a"}"#, "T0521 there is a `prompt`, but no `completion`"),
            (r#"{"text": 3}"#, "T0521 `text` is a number, not a string"),
            (r#"{"id": 3, "body": ""}"#, "T0521 no document can be made of the fields `id` and `body`"),
            (r#"{"messages": [{"content": "a"}]}"#, "T0521 message 1 has no `role`"),
            (r#"["a"]"#, "T0520 the line holds a list, not an object"),
            (r#"{"text": "a"#, "T0520 the line is no JSON: EOF while parsing a string"),
        ] {
            assert_eq!(said(line), expected, "{line}");
        }
        assert_eq!(said("{\"text\": \"a\", \"text\": }"), "T0520 the line is no JSON: expected value");
        let fault = read(b"{\"text\": \"\xff\"}").unwrap_err();
        assert_eq!((fault.code.id, fault.at), ("T0520", (10, 1)));
    }

    #[test]
    fn a_name_or_the_first_byte_says_what_a_file_is() {
        assert_eq!(detect_format("a.JSONL", b""), Lines::Json);
        assert_eq!(detect_format("a.txt", b"{"), Lines::Text);
        assert_eq!(detect_format("-", b"\n {"), Lines::Json);
        assert_eq!(detect_format("corpus", b"It was"), Lines::Text);
    }
}
