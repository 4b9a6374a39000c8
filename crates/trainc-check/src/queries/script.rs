//! Options with literal values in the source of a Python script: keywords of known calls, and defaults of
//! argparse.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use trainc_catalog::memo::Memo;
use trainc_catalog::{script_calls, script_options};
use trainc_ir::{Scalar, SourceFile};

/// An option that a script sets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    /// Its name in the table of options.
    pub(crate) option: String,
    pub(crate) value: Scalar,
    /// The line, from 1.
    pub(crate) line: usize,
    /// Whether an argument of the script replaces it.
    pub(crate) is_default: bool,
}

/// Settings by script digest: the jobs of a repository share scripts.
static SCANNED: Memo<String, Arc<[Setting]>> = Memo::new();

/// The call of argparse that declares an option.
const ADD_ARGUMENT: &str = "add_argument";

/// Returns the settings of a script. An option with several values is left out: which of them is used, is not
/// known.
pub(crate) fn settings(file: &SourceFile) -> Arc<[Setting]> {
    SCANNED.get(file.sha256().to_owned(), |_| scan(&String::from_utf8_lossy(&file.bytes)).into())
}

fn scan(script: &str) -> Vec<Setting> {
    static CALLS: LazyLock<Vec<&'static str>> = LazyLock::new(|| script_calls::names().collect());
    let mut found: BTreeMap<String, Option<Setting>> = BTreeMap::new();
    let mut add = |setting: Setting| {
        let known = found.entry(setting.option.clone()).or_insert_with(|| Some(setting.clone()));
        if known.as_ref().is_some_and(|known| known.value != setting.value) {
            *known = None;
        }
    };
    for name in CALLS.iter().chain([&ADD_ARGUMENT]) {
        for (at, arguments) in calls(script, name) {
            let line = |offset: usize| script.get(..offset).map_or(1, |head| head.matches('\n').count() + 1);
            let keywords = || {
                arguments.iter().filter_map(|(at, text)| keyword(text).map(|(key, value)| (*at, key, value)))
            };
            if *name == ADD_ARGUMENT {
                let option = arguments
                    .iter()
                    .filter_map(|(_, text)| quoted(text.trim()))
                    .find_map(|text| text.strip_prefix("--"));
                let default =
                    keywords().find(|(_, key, _)| *key == "default").and_then(|(.., value)| literal(value));
                let option = option.filter(|option| script_options::get(option).is_some());
                if let (Some(option), Some(value)) = (option, default) {
                    add(Setting { option: option.to_owned(), value, line: line(at), is_default: true });
                }
                continue;
            }
            for (at, key, value) in keywords() {
                if let (Some(option), Some(value)) = (script_calls::option_of(name, key), literal(value)) {
                    add(Setting { option, value, line: line(at), is_default: false });
                }
            }
        }
    }
    found.into_values().flatten().collect()
}

/// Returns the arguments of each call of a function, with their places; the first place is that of the call.
fn calls<'a>(script: &'a str, name: &str) -> Vec<(usize, Vec<(usize, &'a str)>)> {
    let mut out = Vec::new();
    for (at, _) in script.match_indices(name) {
        let before = script.get(..at).and_then(|head| head.chars().next_back());
        let line = script.get(..at).and_then(|head| head.rsplit('\n').next()).unwrap_or_default();
        let is_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let open = at + name.len();
        if !is_name && !line.contains('#') && script.get(open..).is_some_and(|rest| rest.starts_with('(')) {
            out.push((at, arguments(script, open + 1)));
        }
    }
    out
}

/// Splits the arguments of a call, which begin at `start`, at its commas.
fn arguments(script: &str, start: usize) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    let (mut depth, mut quote, mut from, mut in_comment) = (0_u32, None, start, false);
    for (at, c) in script.get(start..).unwrap_or_default().char_indices() {
        let at = start + at;
        match (quote, c) {
            _ if in_comment => in_comment = c != '\n',
            (Some(open), _) if c == open || c == '\n' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => in_comment = true,
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth > 0 => depth -= 1,
            (None, ',') if depth == 0 => {
                out.extend(script.get(from..at).map(|text| (from, text)));
                from = at + 1;
            }
            (None, ')' | ']' | '}') => {
                out.extend(script.get(from..at).map(|text| (from, text)));
                break;
            }
            (None, _) => {}
        }
    }
    // The place of an argument is that of its first character; a comment in front of it is left out.
    let lead = |(at, text): (usize, &str)| {
        let mut at = at;
        let mut rest = text;
        loop {
            let trimmed = rest.trim_start();
            at += rest.len() - trimmed.len();
            let Some(end) = trimmed.strip_prefix('#').and_then(|comment| comment.find('\n')) else {
                return script.get(at..at + trimmed.len()).map(|text| (at, text));
            };
            at += end + 1;
            rest = trimmed.get(end + 1..).unwrap_or_default();
        }
    };
    out.into_iter().filter_map(lead).collect()
}

/// Splits `key=value`.
fn keyword(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let key = key.trim();
    let is_name = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // A comment behind the value.
    let value = value.split(" #").next().unwrap_or_default().trim();
    (is_name && !value.starts_with('=')).then_some((key, value))
}

/// Returns the content of a quoted text.
fn quoted(text: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

/// Returns a value that is written in the script.
fn literal(value: &str) -> Option<Scalar> {
    match value {
        "True" => return Some(Scalar::Bool(true)),
        "False" => return Some(Scalar::Bool(false)),
        _ => {}
    }
    if let Some(text) = quoted(value) {
        return Some(Scalar::Text(text.to_owned()));
    }
    let plain = value.replace('_', "");
    if let Ok(number) = plain.parse::<i64>() {
        return Some(Scalar::Int(number.into()));
    }
    let is_number = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    is_number.then(|| plain.parse().ok()).flatten().map(Scalar::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_keywords_and_defaults() {
        let script = "parser.add_argument('--lr', '-l', type=float, \
            default=1e-3)\nparser.add_argument(\"--model_id\", default=None)\ntraining = \
            TrainingArguments(\n    output_dir=args.out,  # per_device_train_batch_size=64\n\x20   \
            per_device_train_batch_size=8,\n    # of the GPU\n    bf16=True, optim=\"adamw_torch\",\n    \
            warmup_steps=len(data) // 3,\n)\nlora = LoraConfig(r=16, bias=\"none\")\n# LoraConfig(r=8)\n";
        let shown: Vec<(String, String, usize, bool)> = scan(script)
            .into_iter()
            .map(|one| (one.option, trainc_emit::python_str(&one.value), one.line, one.is_default))
            .collect();
        let expected = [
            ("bf16", "True", 7, false),
            ("lora_r", "16", 10, false),
            ("lr", "0.001", 1, true),
            ("optim", "adamw_torch", 7, false),
            ("per_device_train_batch_size", "8", 5, false),
        ];
        assert_eq!(
            shown,
            expected.map(|(name, value, line, default)| (name.to_owned(), value.to_owned(), line, default))
        );
    }

    #[test]
    fn several_values_are_left_out() {
        let of = |script: &str| scan(script).len();
        assert_eq!(of("a = LoraConfig(r=8)\nb = LoraConfig(r=16)\n"), 0);
        assert_eq!(of("a = LoraConfig(r=8)\nb = LoraConfig(r=8)\n"), 1);
        assert_eq!(of("a = LoraConfig(r=8"), 0);
        assert_eq!(of("class MyLoraConfig(r=8): pass"), 0);
    }
}
