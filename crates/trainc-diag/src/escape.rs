//! Makes text that others wrote safe to print: text of manifests, tables, file names and logs, in every
//! output format.
//!
//! A terminal interprets control characters and marks of text direction. A CI system also interprets lines of
//! a log as commands, e.g. `::stop-commands::` (GitHub Actions) or `##vso[` (Azure Pipelines).

/// Returns true for characters that are never printed: control characters except line ends, and marks of
/// direction.
fn is_unsafe(character: char) -> bool {
    character.is_control() && character != '\n' || is_direction_mark(character)
}

/// Returns true for marks that change the direction of text, and separators that end a line, wherever text is
/// shown.
pub fn is_direction_mark(character: char) -> bool {
    matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces a control character with its symbol, and a mark of direction with a replacement character.
pub(super) fn control_picture(character: char) -> char {
    match character {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        _ if is_unsafe(character) => '\u{fffd}',
        _ => character,
    }
}

/// Replaces the characters that a terminal would interpret; line ends are kept.
pub fn escape_control_characters(text: &str) -> String {
    // The most frequent case.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
        return text.to_owned();
    }
    text.replace("\r\n", "\n").chars().map(|c| if c == '\n' { c } else { control_picture(c) }).collect()
}

/// Replaces the characters that a terminal would interpret, and line ends: for names.
pub fn escape_line(text: &str) -> String {
    text.chars().map(control_picture).collect()
}

/// Writes the same characters of JSON, and commands of a CI system, with `\u` escapes, which does not change
/// its meaning.
pub fn escape_json(json: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if is_unsafe(character) {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    for command in COMMANDS {
        out = out.replace(command, &command.replace('[', "\\u005b"));
    }
    out
}

/// Commands of CI systems anywhere in a line (actions/runner, `ActionCommand.TryParse`; Azure Pipelines;
/// TeamCity).
const COMMANDS: [&str; 3] = ["##[", "##vso[", "##teamcity["];

/// Replaces the characters that a terminal would interpret, except tabs, in lines for a terminal or the log
/// of a CI system, and changes lines that the CI system would run as a command. With `colors`, sequences that
/// set a colour are kept: only for text whose parts were escaped before.
pub fn escape_output(text: &str, colors: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let body = line.strip_suffix("\r\n").or_else(|| line.strip_suffix('\n'));
        let body_start = out.len();
        let mut rest = body.unwrap_or(line);
        while let Some(character) = rest.chars().next() {
            let color = if colors { color_sequence(rest) } else { "" };
            if color.is_empty() {
                out.push(if character == '\t' { character } else { control_picture(character) });
                rest = rest.get(character.len_utf8()..).unwrap_or("");
            } else {
                out.push_str(color);
                rest = rest.get(color.len()..).unwrap_or("");
            }
        }
        escape_commands(&mut out, body_start);
        if body.is_some() {
            out.push('\n');
        }
    }
    out
}

/// Returns the sequence at the start of a text that sets a colour (SGR of ECMA-48), or an empty text.
fn color_sequence(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return "" };
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ';'));
    let is_color = end.is_some_and(|end| rest.get(end..).is_some_and(|rest| rest.starts_with('m')));
    end.filter(|_| is_color).and_then(|end| text.get(..end + 3)).unwrap_or("")
}

/// Makes the line from this byte on no command of a CI system: neither one of [`COMMANDS`] nor `::name::` at
/// its start (actions/runner, `ActionCommand.TryParseV2`, which ignores spaces before it).
fn escape_commands(out: &mut String, start: usize) {
    let line = out.get(start..).unwrap_or("");
    let trimmed = line.trim_start();
    if trimmed.starts_with("::") {
        out.insert(start + line.len() - trimmed.len(), '\\');
    }
    for command in COMMANDS {
        if out.get(start..).is_some_and(|line| line.contains(command)) {
            let escaped = out.get(start..).unwrap_or("").replace(command, &command.replacen('#', "#\\", 1));
            out.truncate(start);
            out.push_str(&escaped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[31mb\u{7}\u{9b}5m\u{7f}\u{202e}\u{2066}\u{61c}\tc";

    #[test]
    fn nothing_is_left_for_a_terminal_to_interpret() {
        assert_eq!(escape_control_characters(HOSTILE), "a␛[31mb␇\u{fffd}5m␡\u{fffd}\u{fffd}\u{fffd}␉c");
        assert_eq!(escape_control_characters("a\r\nb\rc"), "a\nb␍c");
        assert_eq!(escape_line("a\nb"), "a␊b");
        assert_eq!(escape_output(HOSTILE, false), "a␛[31mb␇\u{fffd}5m␡\u{fffd}\u{fffd}\u{fffd}\tc");
        assert_eq!(escape_output("größer … ─\r\n\n", false), "größer … ─\n\n");
    }

    #[test]
    fn only_colours_pass_to_a_terminal() {
        let text = "\u{1b}[1;31mred\u{1b}[0m \u{1b}[2J \u{1b}]0;title\u{7} \u{1b}[";
        assert_eq!(escape_output(text, true), "\u{1b}[1;31mred\u{1b}[0m ␛[2J ␛]0;title␇ ␛[");
    }

    #[test]
    fn no_line_is_a_command_of_a_ci_system() {
        assert_eq!(
            escape_output("a\n ::error::x\r\n::stop-commands::y", false),
            "a\n \\::error::x\n\\::stop-commands::y"
        );
        assert_eq!(escape_output("x ##[error]y ##vso[z]", false), "x #\\#[error]y #\\#vso[z]");
        assert_eq!(escape_output("std::fs ## a", false), "std::fs ## a");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({"a\u{9b}": HOSTILE, "b": "\n::error:: ##[group]"});
        let safe = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        assert!(!safe.chars().any(is_unsafe) && !safe.contains("##["), "{safe}");
    }
}
