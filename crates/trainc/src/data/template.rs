//! Chat templates in Jinja as Hugging Face writes them.

use super::fault::{Fault, T0522, T0526};
use super::{python, template_limits};
use minijinja::machinery::{self, CompiledTemplate, TemplateConfig};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, context};
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The question-and-answer template that trainc ships: what the fine-tuning of GPT-NeoXT-Chat-Base-20B on ELI5 used.
pub const ELI5: &str = include_str!("../../templates/chat/eli5.jinja");

/// A template, ready to render.
pub struct Template {
    environment: Environment<'static>,
    compiled: CompiledTemplate<'static>,
    tokens: BTreeMap<String, String>,
    /// The template marks its answers itself.
    marks: bool,
}

/// A rendered conversation: its text, and which bytes of it are answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The answers' byte ranges, in order.
    pub answers: Vec<std::ops::Range<usize>>,
}

const NAME: &str = "template";

impl Template {
    /// Reads a template. `tokens` are the tokenizer's special tokens by name (`bos_token` …); `today` is for
    /// `strftime_now`, which templates of Llama 3 call.
    pub fn new(text: &str, tokens: BTreeMap<String, String>, today: &str) -> Result<Self, Fault> {
        let mut environment = Environment::new();
        // What `transformers` sets up (utils/chat_template_utils.py, `_compile_jinja_template`).
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|error| fault("the template cannot be read", &error))?;
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_formatter(|out: &mut minijinja::Output<'_>, _: &mut State<'_, '_>, value: &Value| {
            template_limits::measure(value)?;
            out.write_str(&python::python_str(value)).map_err(|_| Error::from(ErrorKind::WriteFailure))
        });
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        let day = today.to_owned();
        environment.add_function("strftime_now", move |format: String| date(&day, &format));
        environment.add_filter("tojson", |value: Value, options: Kwargs| -> Result<Value, Error> {
            let indent: Option<usize> = options.get("indent")?;
            let _: Option<bool> = options.get("ensure_ascii")?;
            options.assert_all_used()?;
            template_limits::to_json(&value, indent).map(Value::from_safe_string)
        });
        let marked = insert_answer_marks(text);
        let marks = marked != text;
        // It is used as long as the program runs.
        let prepared = template_limits::prepare(&marked, &syntax)
            .map_err(|error| fault("the template cannot be read", &error))?;
        let text: &'static str = Box::leak(prepared.into_boxed_str());
        let config =
            TemplateConfig { syntax_config: syntax, default_auto_escape: Arc::new(|_| AutoEscape::None) };
        let compiled = CompiledTemplate::new(NAME, text, &config)
            .map_err(|error| fault("the template cannot be read", &error))?;
        let compiled = template_limits::compile(&mut environment, compiled);
        Ok(Self { environment, compiled, tokens, marks })
    }

    /// The text of a conversation; with `prompt`, up to where the next answer begins.
    pub fn render(&self, messages: &[Value], extra: &Value, prompt: bool) -> Result<String, Fault> {
        self.render_with_marks(messages, extra, prompt).map(|text| split_at_marks(&text).text)
    }

    fn render_with_marks(&self, messages: &[Value], extra: &Value, prompt: bool) -> Result<String, Fault> {
        let known = context! {
            messages => messages, add_generation_prompt => prompt,
        };
        // A record may bring its own.
        let absent = context! { tools => Value::from(()), documents => Value::from(()) };
        let tokens = Value::from(self.tokens.clone());
        let root = context! { ..known, ..tokens, ..extra.clone(), ..absent };
        template_limits::start();
        let mut text = String::new();
        let mut out = machinery::make_string_output(&mut text);
        let CompiledTemplate { instructions, blocks, .. } = &self.compiled;
        machinery::eval(&self.environment, instructions, root, blocks, &mut out, AutoEscape::None)
            .map_err(|error| fault("the template cannot be rendered", &error))?;
        Ok(text)
    }

    /// A conversation with its answers: what the template's `generation` blocks enclose; without such blocks, what each
    /// message of the assistant adds to the text before it, for which the text must grow with its messages.
    pub fn conversation(&self, messages: &[Value], extra: &Value) -> Result<Rendered, Fault> {
        if self.marks {
            return self.render_with_marks(messages, extra, false).map(|text| split_at_marks(&text));
        }
        let text = self.render(messages, extra, false)?;
        let mut answers = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let role = message.get_attr("role").unwrap_or_default();
            if role.as_str() != Some("assistant") {
                continue;
            }
            let (before, through) =
                (messages.get(..at).unwrap_or_default(), messages.get(..=at).unwrap_or_default());
            let whole =
                if at + 1 == messages.len() { text.clone() } else { self.render(through, extra, false)? };
            let start = [true, false].into_iter().find_map(|prompt| {
                let before = self.render(before, extra, prompt).ok()?;
                whole.starts_with(&before).then_some(before.len())
            });
            match start {
                Some(start) if text.starts_with(&whole) => answers.push(start..whole.len()),
                _ => {
                    return Err(Fault::new(
                        &T0526,
                        format!(
                            "the template changes the text before message {} (an answer) when that message is added",
                            at + 1
                        ),
                    )
                    .help("`--train-on all` trains on every token")
                    .note(
                        "an answer is what its message adds to the text; prompts are masked from the loss by that",
                    ));
                }
            }
        }
        Ok(Rendered { text, answers })
    }
}

fn fault(what: &str, error: &Error) -> Fault {
    let detail = match error.kind() {
        ErrorKind::OutOfFuel => "it takes too many steps for one conversation".to_owned(),
        kind => error.detail().map_or_else(|| kind.to_string(), str::to_owned),
    };
    let line = error.line().map_or_else(String::new, |line| format!(" in its line {line}"));
    Fault::new(&T0522, format!("{what}: {detail}{line}"))
}

/// What stands in rendered text where an answer begins and ends, until [`split_at_marks`] takes it out: two noncharacters of Unicode.
const MARKS: [char; 2] = ['\u{fdd0}', '\u{fdd1}'];

/// `transformers`' own tag `generation` encloses answers. It becomes two nested blocks with the mark between them, so that
/// the whitespace around the tags is trimmed as around any block.
fn insert_answer_marks(text: &str) -> String {
    let Ok(tag) = Regex::new(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}") else { return text.to_owned() };
    let [begin, end] = MARKS;
    tag.replace_all(text, |found: &regex::Captures<'_>| {
        let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
        let (left, right) = (part(1), part(3));
        if part(2).is_empty() {
            format!("{{%{left} if true %}}{{{{ '{begin}' }}}}{{%+ if true {right}%}}")
        } else {
            format!("{{%{left} endif %}}{{{{ '{end}' }}}}{{%+ endif {right}%}}")
        }
    })
    .into_owned()
}

/// Takes the marks out of a text: what they enclosed are answers.
fn split_at_marks(marked: &str) -> Rendered {
    let [begin, end] = MARKS;
    let mut out = Rendered { text: String::with_capacity(marked.len()), answers: Vec::new() };
    let mut open = None;
    for part in marked.split_inclusive(MARKS) {
        let (body, mark) = match part.chars().last() {
            Some(mark) if MARKS.contains(&mark) => (part.strip_suffix(mark).unwrap_or(part), Some(mark)),
            _ => (part, None),
        };
        out.text.push_str(body);
        if mark == Some(begin) {
            open = Some(out.text.len());
        } else if mark == Some(end)
            && let Some(start) = open.take()
        {
            out.answers.push(start..out.text.len());
        }
    }
    out
}

/// `strftime` of an ISO date; the hour is midnight, so that one day gives one text.
fn date(today: &str, format: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let mut parts = today.split('-');
    let mut next = || parts.next().unwrap_or("").to_owned();
    let (year, month, day) = (next(), next(), next());
    let number = month.parse::<usize>().unwrap_or(1);
    let name = number.checked_sub(1).and_then(|at| MONTHS.get(at)).copied().unwrap_or("");
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('Y') => out.push_str(&year),
            Some('m') => out.push_str(&month),
            Some('d') => out.push_str(&day),
            Some('B') => out.push_str(name),
            Some('b') => out.push_str(name.get(..3).unwrap_or(name)),
            Some('y') => out.push_str(year.get(2..).unwrap_or("")),
            Some('H' | 'M' | 'S') => out.push_str("00"),
            Some('%') => out.push('%'),
            Some(other) => {
                out.push('%');
                out.push(other);
            }
            None => out.push('%'),
        }
    }
    out
}
