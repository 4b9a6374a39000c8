//! What a run says of a case, written beside the lines of its manifest.

use crate::cases::{Case, GUTTER, MANIFEST, Part, texts};
use crate::support::{HEAD, Outcome, human, root};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, Write as _};
use trainc_diag::source::Span;
use trainc_diag::{Problems, Severity};
use unicode_width::UnicodeWidthStr;

/// The width at which what is said of a manifest is wrapped.
const WIDTH: usize = 110;

/// The text of the case as a run would have it written: its own manifest, and under each line what is said of
/// it. Empty if it is the page's and nothing is said.
pub fn written(case: &Case, outcome: &Outcome) -> String {
    let mut annotations = Annotations { case, outcome, under: BTreeMap::new() };
    let shown = shown(outcome, &case.code);
    annotations.add_all(&shown);
    let mut under = annotations.under;
    if case.section.is_some() && case.is_plain() && !case.has_picture && under.is_empty() {
        return String::new();
    }
    let mut out = format!("--- {} ---\n", case.name);
    if !case.flags.is_empty() {
        out.push_str(&format!("// args: {}\n", case.flags));
    }
    if case.stands_alone && case.section.is_none() {
        out.push_str("// alone\n");
    }
    if case.has_picture {
        out.push_str("// picture\n");
    }
    for (part, Part { name, text }) in case.parts.iter().enumerate() {
        if part > 0 {
            out.push_str(&format!("+++ {name}\n"));
        } else if case.section.is_some() {
            continue;
        }
        for (line, text) in text.lines().enumerate() {
            let gutter = if text.is_empty() { "" } else { GUTTER };
            out.push_str(&format!("{gutter}{text}\n"));
            out.push_str(&under.remove(&Some((part, line))).unwrap_or_default());
        }
    }
    out.push_str(&under.remove(&None).unwrap_or_default());
    if case.has_picture {
        let job = outcome.compiled.job.as_deref();
        for line in human(&outcome.sources, MANIFEST, job, &shown).lines() {
            out.push_str(format!("//| {line}").trim_end());
            out.push('\n');
        }
    }
    out
}

/// Puts this text in the place of the case in its file. Tests of other cases may do the same at once.
pub fn rewrite(case: &Case, text: &str) {
    let mut options = fs::OpenOptions::new();
    let path = root().join(case.path());
    let mut file = options.read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.lock().unwrap();
    let mut old = String::new();
    file.read_to_string(&mut old).unwrap();
    let mut texts: Vec<String> = texts(&old).map(|one| format!("{}\n", one.trim_end())).collect();
    let head = format!("--- {} ---\n", case.name);
    if let Some(at) = texts.iter().position(|one| one.starts_with(&head)) {
        text.clone_into(&mut texts[at]);
    } else {
        // Those of the page come first, in its order.
        let before = texts.iter().take_while(|one| place_on_page(one) < place_on_page(&head)).count();
        texts.insert(before, text.to_owned());
    }
    texts.retain(|one| !one.is_empty());
    file.set_len(0).unwrap();
    file.rewind().unwrap();
    file.write_all(texts.join("\n").as_bytes()).unwrap();
}

/// Where the case of a text stands on its page; those of no page are behind all others.
fn place_on_page(text: &str) -> (usize, &str) {
    let head = text.lines().next().unwrap_or("");
    let sections = ["--- page: wrong", "--- page: right"];
    (sections.iter().position(|section| head.starts_with(section)).unwrap_or(sections.len()), head)
}

/// The problems that a case shows: errors, warnings, and notes of its own code.
fn shown(outcome: &Outcome, code: &str) -> Problems {
    let mut problems = outcome.compiled.problems.clone();
    problems.retain(|problem| problem.severity > Severity::Note || problem.code.id == code);
    problems
}

/// What a run says, by part and line of the case; of other places at the end.
struct Annotations<'a> {
    case: &'a Case,
    outcome: &'a Outcome,
    under: BTreeMap<Option<(usize, usize)>, String>,
}

impl Annotations<'_> {
    fn add_all(&mut self, problems: &Problems) {
        for problem in problems.iter() {
            let problem = problem.masked(&self.outcome.sources);
            let (at, mark) = self.place(problem.span, "^");
            let out = self.under.entry(at).or_default();
            let head = format!("{}[{}]: {}", problem.severity.word(), problem.code.id, problem.text());
            say(out, &mark, &head);
            if !problem.label.is_empty() {
                say(out, "//  label: ", &problem.label);
            }
            if let Some(help) = problem.help.as_deref() {
                say(out, "//  help: ", help);
            }
            for note in &problem.notes {
                say(out, "//  note: ", note);
            }
            for label in &problem.labels {
                let (at, mark) = self.place(label.span, "-");
                say(
                    self.under.entry(at).or_default(),
                    &mark,
                    &format!("{}: {}", problem.code.id, label.text),
                );
            }
        }
    }

    /// Returns where a span is said, and the marks that show it: a line under it, or its place and its text.
    fn place(&self, span: Span, mark: &str) -> (Option<(usize, usize)>, String) {
        let sources = &self.outcome.sources;
        let source = sources.get(span.source).unwrap();
        let ((line, column), (end_line, end_column)) =
            (source.line_column(span.start), source.line_column(span.end));
        let text = sources.slice(span);
        let more =
            if end_line > line { format!(" +{}:{end_column}", end_line - line) } else { String::new() };
        let first = text.lines().next().unwrap_or("");
        if let Some(at) = self.line_of(&source.name, line) {
            let whole = source.line(line as usize - 1).unwrap();
            let before = &whole[..span.start as usize - source.line_start(line as usize - 1).unwrap()];
            let blank: String = before.split_inclusive('\t').map(blanks).collect();
            let marks = if text.is_empty() { "|".to_owned() } else { mark.repeat(first.width().max(1)) };
            return (Some(at), format!("//  {blank}{marks}{more} "));
        }
        let file = if *source.name == *MANIFEST { String::new() } else { format!("{}:", source.name) };
        let quote = if text.is_empty() { String::new() } else { format!(" `{}`", sources.mask(first)) };
        (None, format!("// {file}{line}:{column}{quote}{more} "))
    }

    /// The part and line of the case that shows a line (from 1) of a source.
    fn line_of(&self, source: &str, line: u32) -> Option<(usize, usize)> {
        let part = self.case.parts.iter().position(|part| part.name == source)?;
        let head = if part > 0 || self.case.is_alone() { 0 } else { HEAD.lines().count() };
        let line = (line as usize).checked_sub(1 + head)?;
        let is_here = line < self.case.parts[part].text.lines().count();
        (is_here && (part > 0 || self.case.section.is_none())).then_some((part, line))
    }
}

/// Blanks as wide as a text; a tab, which ends it, stays.
fn blanks(text: &str) -> String {
    let (text, tab) = text.strip_suffix('\t').map_or((text, ""), |text| (text, "\t"));
    format!("{}{tab}", " ".repeat(text.width()))
}

/// Writes a text after marks, wrapped. Further lines of the text itself keep their indentation.
fn say(out: &mut String, marks: &str, text: &str) {
    let mut line = marks.to_owned();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or("");
    // A line of its own, and not a few words beside the marks.
    if marks.width() > WIDTH / 4 && marks.width() + first.width() > WIDTH {
        out.push_str(marks.trim_end());
        out.push('\n');
        "//    ".clone_into(&mut line);
    }
    let mut is_first = true;
    for word in first.split(' ') {
        if !is_first && line.width() + 1 + word.width() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = format!("//    {word}");
        } else {
            line.push_str(if is_first { "" } else { " " });
            line.push_str(word);
        }
        is_first = false;
    }
    out.push_str(&line);
    out.push('\n');
    for line in lines {
        out.push_str(format!("//    {line}").trim_end());
        out.push('\n');
    }
}
