//! Chat templates in Jinja as Hugging Face writes them.
//!
//! A template comes with a model from elsewhere and may ask for any time and memory: the steps are bounded
//! here, and the process that renders it bounds the rest.

use super::fault::{Fault, T0522, T0526};
use super::python::{self, JsonStyle};
use super::template_functions;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, context};
use regex::Regex;
use std::collections::BTreeMap;

/// The question-and-answer template that trainc ships: what the fine-tuning of GPT-NeoXT-Chat-Base-20B on
/// ELI5 used.
pub const ELI5: &str = include_str!("../templates/chat/eli5.jinja");

/// A template, ready to render.
pub struct Template {
    environment: Environment<'static>,
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

/// Maximum steps of a rendering.
const MOST_STEPS: u64 = 500_000;

impl Template {
    /// Reads a template. `tokens` are the tokenizer's special tokens by name (`bos_token` …); `today` is for
    /// `strftime_now`, which templates of Llama 3 call.
    pub fn new(source: &str, tokens: BTreeMap<String, String>, today: &str) -> Result<Self, Fault> {
        let unreadable = |error: Error| fault("the template cannot be read", &error);
        let mut environment = Environment::new();
        // What `transformers` sets up (utils/chat_template_utils.py, `_compile_jinja_template`).
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(unreadable)?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_fuel(Some(MOST_STEPS));
        environment.set_formatter(|out: &mut minijinja::Output<'_>, _: &mut State<'_, '_>, value: &Value| {
            out.write_str(&python::python_str(value)).map_err(|_| Error::from(ErrorKind::WriteFailure))
        });
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        let day = today.to_owned();
        environment.add_function("strftime_now", move |format: String| date(&day, &format));
        environment.add_filter("tojson", |value: Value, options: Kwargs| -> Result<Value, Error> {
            Ok(Value::from_safe_string(python::json(&value, &json_style(&options)?)))
        });
        template_functions::add(&mut environment);
        let marked = insert_answer_marks(source);
        let marks = marked != source;
        environment.add_template_owned(NAME, marked).map_err(unreadable)?;
        Ok(Self { environment, tokens, marks })
    }

    /// The text of a conversation; with `prompt`, up to where the next answer begins.
    pub fn render(&self, messages: &[Value], extra: &Value, prompt: bool) -> Result<String, Fault> {
        let text = self.render_with_marks(messages, extra, prompt)?;
        Ok(if self.marks { split_at_marks(&text).text } else { text })
    }

    fn render_with_marks(&self, messages: &[Value], extra: &Value, prompt: bool) -> Result<String, Fault> {
        let mark = messages.iter().chain([extra]).filter(|_| self.marks).find_map(mark_in);
        if let Some(mark) = mark.map(u32::from) {
            return Err(Fault::new(
                &T0522,
                format!(
                    "a message contains the noncharacter U+{mark:04X}, which trainc uses to mark answers"
                ),
            ));
        }
        let known = context! {
            messages => messages, add_generation_prompt => prompt,
        };
        // A record may bring its own.
        let absent = context! { tools => Value::from(()), documents => Value::from(()) };
        let tokens = Value::from(self.tokens.clone());
        let root = context! { ..known, ..tokens, ..extra.clone(), ..absent };
        let rendered = self.environment.get_template(NAME).and_then(|template| template.render(root));
        rendered.map_err(|error| fault("the template cannot be rendered", &error))
    }

    /// A conversation with its answers: what the template's `generation` blocks enclose; without such blocks,
    /// what each message of the assistant adds to the text before it, for which the text must grow with its
    /// messages.
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
            let mut start = None;
            for prompt in [true, false] {
                if start.is_none() {
                    // A template may reject a conversation without its last messages.
                    let before = self.render(before, extra, prompt).ok();
                    start = before.filter(|before| whole.starts_with(before)).map(|before| before.len());
                }
            }
            match start {
                Some(start) if text.starts_with(&whole) => answers.push(start..whole.len()),
                _ => {
                    return Err(Fault::new(
                        &T0526,
                        format!(
                            "the template changes the text before message {} (an answer) when \
                                that message is added",
                            at + 1
                        ),
                    )
                    .help("`--train-on all` trains on every token")
                    .note(
                        "an answer is what its message adds to the text; prompts are masked from \
                            the loss by that",
                    ));
                }
            }
        }
        Ok(Rendered { text, answers })
    }
}

/// The arguments of `tojson` in `transformers`.
fn json_style(options: &Kwargs) -> Result<JsonStyle, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let [item_separator, key_separator] = match separators {
        Some(pair) => <[String; 2]>::try_from(pair).map_err(|_| {
            Error::new(ErrorKind::InvalidOperation, "`separators` of `tojson` must have two members")
        })?,
        None => [if indent.is_some() { "," } else { ", " }, ": "].map(str::to_owned),
    };
    Ok(JsonStyle { indent, item_separator, key_separator, sort_keys: sort_keys == Some(true) })
}

fn fault(what: &str, error: &Error) -> Fault {
    let detail = match error.kind() {
        ErrorKind::OutOfFuel => "it takes too many steps".to_owned(),
        kind => error.detail().map_or_else(|| kind.to_string(), str::to_owned),
    };
    let line = error.line().map_or_else(String::new, |line| format!(" in its line {line}"));
    Fault::new(&T0522, format!("{what}: {detail}{line}"))
}

/// What stands in rendered text where an answer begins and ends, until [`split_at_marks`] takes it out: two
/// noncharacters of Unicode.
const MARKS: [char; 2] = ['\u{fdd0}', '\u{fdd1}'];

/// Returns a mark in a text of the value.
fn mark_in(value: &Value) -> Option<char> {
    match value.as_str() {
        Some(text) => text.chars().find(|c| MARKS.contains(c)),
        None => value.try_iter().ok()?.find_map(|item| {
            let inner = if value.kind() == ValueKind::Map { value.get_item(&item).ok() } else { None };
            mark_in(&item).or_else(|| mark_in(&inner?))
        }),
    }
}

/// `transformers`' own tag `generation` encloses answers. It becomes two nested blocks with the mark between
/// them, so that the whitespace around the tags is trimmed as around any block.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> Result<String, Fault> {
        let template = Template::new(text, BTreeMap::new(), "2026-11-21")?;
        let messages =
            [("user", "a\n\nb\n"), ("assistant", " c ")].map(|(role, content)| context! { role, content });
        template.render(&messages, &Value::from(()), false)
    }

    /// The expected text is that of Jinja 3.1.6 in Python, with the settings of `transformers`.
    #[test]
    fn templates_render_as_in_python() {
        let mut wrong = Vec::new();
        for (text, expected) in [
            (
                "{{ 1 + 2 * 3 ** 2 }} {{ -2 * 3 }} {{ 1.5 + 1 }} {{ 0.5 * 4 }} {{ 2 * 'ab' }} {{ \
                    [1, 2] * 2 }}",
                "19 -6 2.5 2.0 abab [1, 2, 1, 2]",
            ),
            ("{% macro sum(a, b) %}{{ a + b }}{% endmacro %}{{ sum(*[1, 2]) }}{{ sum(1, *[2]) * 2 }}", "333"),
            (
                "{{ messages[0].content | indent(2) }}|{{ messages[0].content | indent(2, \
                    first=true, blank=true) }}|",
                "a\n\n  b\n|  a\n  \n  b\n  |",
            ),
            (
                "{{ messages | join(',', attribute='role') }} {{ '%5.1f|%s' | format(1.25, 'x') \
                    }} {{ '{:>3}'.format(1) }} {{ 12 | string ~ 'x' }}",
                "user,assistant   1.2|x   1 12x",
            ),
            (&format!("{{{{ 1{} }}}}", " + 1".repeat(990)), "991"),
            (
                "{{ 1e20 }} {{ [1e16, 1e15, 1e-5, 0.0001, -1.5e300, 0.0] }} {{ [1e20, 1e-5, 2.0] | tojson }}",
                "1e+20 [1e+16, 1000000000000000.0, 1e-05, 0.0001, -1.5e+300, 0.0] [1e+20, 1e-05, 2.0]",
            ),
            (
                "{{ {'b': 1, 'a': [1, 2]} | tojson(separators=(',', ':'), sort_keys=true) }} {{ \
                    [1, 2] | tojson(separators=(' , ', ':')) }}",
                "{\"a\":[1,2],\"b\":1} [1 , 2]",
            ),
            (
                "{{ none is iterable }} {{ x is iterable }} {{ 'a' is sequence }} {{ {} is \
                    sequence }} {{ 1 is sequence }} {{ range(2) is sequence }}",
                "False True True True False True",
            ),
            (
                "{{ 'abcdef'[1:4] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-2:] }} {{ 'abcdef'[:-2] \
                    }} {{ 'abcdef'[4:1:-1] }} {{ 'äöü'[1:] }}",
                "bcd fedcba ef abcd edc öü",
            ),
            (
                "{{ [1, 2, 3, 4, 5][1:4] }} {{ [1, 2, 3][::-1] }} {{ [1, 2, 3][5:] }} {{ [1, 2, \
                    3, 4][::2] }} {{ [1,2,3,4][-1:0:-2] }}",
                "[2, 3, 4] [3, 2, 1] [] [1, 3] [4, 2]",
            ),
            ("{{ (1, 2, 3)[1:] }} {{ (1, 2) == (1, 2) }} {{ [1] == (1,) }}", "(2, 3) True False"),
            (
                "{{ 1 < 2 < 3 }} {{ 3 > 2 >= 2 }} {{ 1 < 3 < 2 }} {{ 1 == 1 == 1 }} {{ 'a' in \
                    'cat' in ['cat'] }}",
                "True True False True True",
            ),
            (
                "{{ 'a' in 'abc' }} {{ 'a' not in 'abc' }} {{ 1 in [1, 2] }} {{ 'k' in {'k': 1} \
                    }} {{ 'role' in messages[0] }}",
                "True False True True True",
            ),
            (
                "{{ {'a': 1, 'b': [2, 3]} }} {{ {'a': 1}.a }} {{ {'a': 1}['a'] }} {{ {'a': {'b': 2}}.a.b }}",
                "{'a': 1, 'b': [2, 3]} 1 1 2",
            ),
            ("{% for k, v in {'a': 1, 'b': 2} | items %}{{ k }}={{ v }};{% endfor %}", "a=1;b=2;"),
            (
                "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ loop.index }}{{ k }}={{ v }}{{ ',' \
                    if not loop.last }}{% endfor %}",
                "1a=1,2b=2",
            ),
            (
                "{% for x in [3, 1, 2] | sort %}{{ x }}{% endfor %} {{ [3, 1, 2] | \
                    sort(reverse=true) }} {{ ['b', 'A'] | sort }} {{ [1, 1, 2] | unique | list }} {{ [1, 2] \
                    | sum }} {{ [3, 9, 4] | max }} {{ [3, 9, 4] | min }}",
                "123 [3, 2, 1] ['A', 'b'] [1, 2] 3 9 3",
            ),
            (
                "{{ messages | map(attribute='role') | list }} {{ messages | selectattr('role', \
                    'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'equalto', \
                    'user') | list | length }} {{ messages | selectattr('role', 'eq', 'system') | first is \
                    defined }}",
                "['user', 'assistant'] 1 1 False",
            ),
            (
                "{{ ['a', 'b'] | map('upper') | join('-') }} {{ [1, 0, 2] | select | list }} {{ \
                    [1, 2, 3] | select('odd') | list }} {{ [1, 2, 3] | reject('odd') | list }}",
                "A-B [1, 2] [1, 3] [2]",
            ),
            (
                r"{{ ' a b ' | trim }}| {{ ' a b '.strip() }}| {{ 'xxaxx'.strip('x') }} {{ ' a'.lstrip() }} {{ 'a '.rstrip() }}| {{ 'a\nb\n'.splitlines() }} {{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b  c'.split() }} {{ 'a</think>b'.split('</think>')[-1] }}",
                "a b| a b| a a a| ['a', 'b'] ['a', 'b', 'c'] ['a', 'b,c'] ['a', 'b', 'c'] b",
            ),
            (
                "{{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('b', 'c')) }} {{ 'ABC'.lower() \
                    }} {{ 'abc'.upper() }} {{ 'hello world'.title() }} {{ 'hello'.capitalize() }} {{ \
                    'abcabc'.count('a') }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }}",
                "True True abc ABC Hello World Hello 2 2 -1",
            ),
            (
                "{{ messages[0]['content'] | length }} {{ messages | length }} {{ 'äö' | length \
                    }} {{ range(5) | list }} {{ range(1, 10, 3) | list }} {{ range(3) | length }}",
                "5 2 2 [0, 1, 2, 3, 4] [1, 4, 7] 3",
            ),
            (
                "{% for a in range(3) %}{{ loop.cycle('x', 'y') }}{{ loop.index0 }}{{ \
                    loop.revindex }}{{ loop.first }}{{ loop.length }}{% endfor %}",
                "x03True3y12False3x21False3",
            ),
            ("{% for a in [1, 1, 2, 2] %}{% if loop.changed(a) %}{{ a }}{% endif %}{% endfor %}", "12"),
            ("{% for a in [1, 2, 3] %}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}", "2;13;2;"),
            (
                "{% for a in [1, [2, [3]]] recursive %}{% if a is sequence %}<{{ loop(a) }}>{% \
                    else %}{{ a }}{% endif %}{% endfor %}",
                "1<2<3>>",
            ),
            (
                "{% for a in [1, 2, 3, 4] if a > 2 %}{{ a }}{{ loop.last }}{% else %}none{% \
                    endfor %}{% for a in [] %}{% else %}none{% endfor %}",
                "3False4Truenone",
            ),
            (
                "{% set ns = namespace(a=1, b=[]) %}{% set ns.a = ns.a + 1 %}{% set ns.b = ns.b \
                    + [ns.a] %}{{ ns.a }}{{ ns.b }}",
                "2[2]",
            ),
            (
                "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ \
                    m(1, c=5) }} {{ m(b=1, a=3) }} {{ m(*[7, 8]) }} {{ m(**{'a': 1, 'c': 4}) }}",
                "12x 125 31x 78x 124",
            ),
            ("{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}inner{% endcall %}", "<inner>"),
            (
                "{% set x %}body {{ 1 + 1 }}{% endset %}{{ x }} {% filter upper %}abc{% endfilter %}",
                "body 2 ABC",
            ),
            (
                "{{ 1 if true else 2 }} {{ 'a' if false }}| {{ none }} {{ undefined_name is \
                    defined }} {{ undefined_name }}| {{ undefined_name | default('d') }} {{ '' | \
                    default('e', true) }}",
                "1 | None False | d e",
            ),
            (
                "{{ 7 // 2 }} {{ 7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ -7 // 2 }} {{ not true }} \
                    {{ true and 'a' }} {{ 'b' or 'c' }}",
                "3 1 3.5 1024 -4 False a b",
            ),
            (
                "{{ 'a' ~ 1 ~ true ~ none ~ [1, 'b'] ~ 1.0 }} {{ 'a' + 'b' }} {{ [1] + [2] }} {{ \
                    (1,) + (2,) }} {{ 'ab' * 3 }} {{ [0] * 3 }}",
                "a1TrueNone[1, 'b']1.0 ab [1, 2] (1, 2) ababab [0, 0, 0]",
            ),
            (
                "{{ 'a' < 'b' }} {{ 'a' == 'a' }} {{ [1, 2] < [1, 3] }} {{ {'a': 1} == {'a': 1} \
                    }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ none == none }} {{ 1 != 2 }}",
                "True True True True True False True True",
            ),
            (
                "{{ 1 is odd }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is iterable }} {{ \
                    'a' is iterable }} {{ none is none }} {{ 4 is divisibleby(2) }} {{ 'a' is in('abc') }} \
                    {{ 1 is eq(1) }} {{ 2 is gt(1) }} {{ 1 is number }} {{ true is boolean }} {{ 1.5 is \
                    float }} {{ 1 is integer }} {{ 'A' is upper }} {{ 'a' is lower }} {{ true is true }} {{ \
                    1 is sameas(1) }}",
                "True True True True True True True True True True True True True True True True True True",
            ),
            (
                "{{ '%s-%d' | format('a', 3) }} {{ '%05.2f' | format(3.14159) }} {{ '{} \
                    {}'.format('a', 1) }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x:>4}'.format(x=1) }} {{ \
                    '{:,}'.format(1234567) }}",
                "a-3 03.14 a 1 aba    1 1,234,567",
            ),
            (
                r"{{ 'a\nb' | indent(2) }}| {{ 'a\nb' | indent(2, true) }}| {{ '1.50' | float }} {{ '12' | int }} {{ 'x' | int(9) }} {{ 3.7 | int }} {{ -3 | abs }} {{ 3.14159 | round(2) }} {{ 2.5 | round }}",
                "a\n  b|   a\n  b| 1.5 12 9 3 3 3.14 2.0",
            ),
            (
                "{{ [1, 2, 3, 4] | batch(2) | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ \
                    [1, 2] | first }} {{ [1, 2] | last }} {{ 'abc' | first }} {{ 'abc' | reverse }} {{ [1, \
                    2] | reverse | list }} {{ 'ab' | list }} {{ 'abc' | upper | lower | capitalize }} {{ 'a \
                    b' | title }} {{ 'a b' | replace(' ', '_') }}",
                "[[1, 2], [3, 4]] [[1, 2, 3], [4, 5]] 1 2 a cba [2, 1] ['a', 'b'] Abc A B a_b",
            ),
            (
                r#"{{ {'a': [1, 2.5, none, true], 'b': 'ä"<'} | tojson }} {{ [1, {'a': 2}] | tojson(indent=2) }} {{ messages[0] | tojson }}"#,
                "{\"a\": [1, 2.5, null, true], \"b\": \"ä\\\"<\"} [\n  1,\n  {\n    \"a\": 2\n  \
                    }\n] {\"role\": \"user\", \"content\": \"a\\n\\nb\\n\"}",
            ),
            (
                "{% for g in [{'k': 1, 'v': 'a'}, {'k': 2, 'v': 'b'}, {'k': 1, 'v': 'c'}] | \
                    groupby('k') %}{{ g.grouper }}:{{ g.list | map(attribute='v') | join }};{% endfor %}",
                "1:ac;2:b;",
            ),
            (
                "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %} {% set a, b = 1, 2 \
                    %}{{ a }}{{ b }} {% set (c, d) = [3, 4] %}{{ c }}{{ d }}",
                "1234 12 34",
            ),
            (
                "{{ messages[-1].role }} {{ messages[0].nothing is defined }} {{ \
                    messages[0]['nothing'] is undefined }} {{ messages[1:] | length }} {{ messages[9:] }} \
                    {{ (messages | last).content }}",
                "assistant False True 1 []  c ",
            ),
            ("{{ 'a<b' | e }} {{ 'a<b' | safe }} {{ '<' ~ ('<' | e) }}", "a&lt;b a<b <&lt;"),
            (
                "{{ messages | map(attribute='content') | join('|') }} {{ [[1, 2], [3]] | \
                    map('sum') | list }} {{ ['b', 'a'] | sort | first }} {{ [{'a': 2}, {'a': 1}] | \
                    sort(attribute='a') | map(attribute='a') | list }} {{ [{'a': 2}, {'a': 1}] | \
                    sum(attribute='a') }}",
                "a\n\nb\n| c  [3, 3] a [1, 2] 3",
            ),
            (
                "{%- for m in messages -%}{%- if loop.index0 % 2 == 0 and m['role'] != 'user' \
                    -%}bad{%- elif m.role == 'user' -%}{{ '[INST] ' + m.content.strip() + ' [/INST]' }}{%- \
                    else -%}{{ ' ' + m.content | trim + ' ' + '</s>' }}{%- endif -%}{%- endfor -%}",
                "[INST] a\n\nb [/INST] c </s>",
            ),
            (
                "{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% if x \
                    == 3 %}{% break %}{% endif %}{% endfor %}",
                "13",
            ),
        ] {
            let found = rendered(text);
            if !found.as_ref().is_ok_and(|text| text == expected) {
                let found = found.unwrap_or_else(|fault| fault.message);
                wrong.push(format!("{text}: {found:?}, not {expected:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The line is named where a template takes too many steps, or cannot be read.
    #[test]
    fn steps_are_bounded() {
        for (text, expected) in [
            (
                "{% for a in range(100000) %}{% for b in range(100000) %}{% set x = 1 %}{% \
                    endfor %}{% endfor %}",
                "too many steps",
            ),
            (
                "{% macro f(n) %}{% if n < 40 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}{% \
                    endmacro %}{{ f(0) }}",
                "too many steps",
            ),
            ("{% include '/etc/passwd' %}", "non-existing"),
            ("{{ [1] | sliced }}", "filter sliced is unknown"),
        ] {
            let said = rendered(&format!("{{# a comment #}}\n\n{text}\n")).unwrap_err().message;
            assert!(said.contains(expected) && said.ends_with("in its line 3"), "{text}: {said}");
        }
    }

    #[test]
    fn text_cannot_mark_answers() {
        let text = "{% generation %}{{ messages[0].content }}{% endgeneration %}";
        let template = Template::new(text, BTreeMap::new(), "2026-11-21").unwrap();
        let message = |content: &str| context! { role => "assistant", content };
        let found = template.conversation(&[message("a")], &Value::from(())).unwrap();
        assert_eq!((found.text.as_str(), found.answers.first()), ("a", Some(&(0..1))));
        let fault = template.conversation(&[message("a\u{fdd1}b")], &Value::from(())).unwrap_err();
        assert!(fault.message.contains("U+FDD1"), "{}", fault.message);
        let fault = template.render(&[message("a\u{fdd0}b")], &Value::from(()), false).unwrap_err();
        assert!(fault.message.contains("U+FDD0"), "{}", fault.message);
        assert_eq!(rendered("{{ '\u{fdd0}' }}").unwrap(), "\u{fdd0}");
    }
}
