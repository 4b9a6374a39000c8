//! Progress of long operations: spinners on a terminal, lines in a log, JSON lines for scripts.

use crate::terminal::io::{is_broken_pipe, wrap_lines};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;
use trainc_apply::diff::Difference;
use trainc_apply::fault::Fault;
use trainc_apply::ledger::{Event, Item, Listener, Outcome, Retry};
use trainc_diag::text;
use trainc_diag::{escape_json, escape_line, escape_output};

/// Display of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Not at all.
    Silent,
    /// One line per event, on standard error.
    Lines,
    /// Spinners, on standard error.
    Bars,
    /// One JSON object per event, on standard output.
    Json,
}

impl Mode {
    /// Returns the mode for `--output` and `--quiet`.
    pub(crate) fn from_flags(output: &str, quiet: bool) -> Self {
        match (output, quiet) {
            ("json", _) => Self::Json,
            (_, true) => Self::Silent,
            _ if std::io::stderr().is_terminal() => Self::Bars,
            _ => Self::Lines,
        }
    }
}

/// Spinner text while the account is read.
pub(crate) const LOOKING: &str = "looking at the account";

/// Spinner text while logs are read.
pub(crate) const READING: &str = "reading the logs";

/// Refresh interval of a spinner.
const TICK: Duration = Duration::from_millis(120);

/// Seconds after which an unchanged wait is logged again.
const AGAIN: u64 = 120;

/// Maximum characters of each side of a difference.
const MOST_CHARACTERS: usize = 60;

/// Progress display.
pub(crate) struct Progress {
    mode: Mode,
    all: MultiProgress,
    /// Name of the job, for JSON lines.
    job: Option<String>,
    /// Name of the job before each line, if several jobs are interleaved.
    prefix: String,
    bars: RefCell<BTreeMap<Bar, ProgressBar>>,
    told: RefCell<BTreeMap<Item, (String, u64)>>,
    /// True after the note that a call is retried.
    is_repeating: Cell<bool>,
}

/// What a line at the bottom of the terminal is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bar {
    /// The command.
    Command,
    /// A figure, by its label.
    Chart(&'static str),
    /// A resource.
    Resource(Item),
}

impl Progress {
    /// Creates a display.
    pub(crate) fn new(mode: Mode) -> Self {
        let (bars, told) = (RefCell::default(), RefCell::default());
        let is_repeating = Cell::new(false);
        Self { mode, all: MultiProgress::new(), job: None, prefix: String::new(), bars, told, is_repeating }
    }

    /// Returns a display for one job; `among` others, each line begins with its name.
    pub(crate) fn for_job(&self, job: &str, among: bool) -> Self {
        let prefix = if among { format!("{job}: ") } else { String::new() };
        Self { all: self.all.clone(), job: Some(job.to_owned()), prefix, ..Self::new(self.mode) }
    }

    /// Returns the mode.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Runs `work` under a spinner.
    pub(crate) async fn run_with_spinner<T>(&self, message: &str, work: impl Future<Output = T>) -> T {
        if self.mode == Mode::Bars {
            self.set_spinner(Bar::Command, message);
        }
        let done = work.await;
        self.clear();
        done
    }

    /// Notes once that a call is retried without an answer.
    pub(crate) fn note_retrying(&self, fault: &Fault) {
        if self.is_repeating.replace(true) {
            return;
        }
        let text = format!("no answer yet: {}; retrying", fault.message.trim_end_matches('.'));
        match self.mode {
            Mode::Bars => self.set_spinner(Bar::Command, &text),
            _ => self.line(&text),
        }
    }

    /// Hides the spinners while something else is written.
    pub(crate) fn suspend_while(&self, write: impl FnOnce()) {
        self.all.suspend(write);
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: &str) {
        let line = wrap_lines(
            &escape_output(&format!("{}{text}", self.prefix), false),
            crate::cli::wrap(&std::io::stderr()),
        );
        match self.mode {
            Mode::Bars => {
                let _ = self.all.println(line);
            }
            Mode::Lines => {
                let _ = writeln!(std::io::stderr().lock(), "{line}");
            }
            Mode::Silent | Mode::Json => {}
        }
    }

    /// Shows a line below the spinners of a terminal, in place of the last one with this label.
    pub(crate) fn show_below(&self, label: &'static str, line: &str) {
        if self.mode != Mode::Bars {
            return;
        }
        let mut bars = self.bars.borrow_mut();
        let bar = bars.entry(Bar::Chart(label)).or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("    {msg}") {
                bar.set_style(style);
            }
            bar
        });
        bar.set_message(escape_line(&format!("{}{label:<10}{line}", self.prefix)));
    }

    fn set_spinner(&self, bar: Bar, message: &str) {
        let mut bars = self.bars.borrow_mut();
        let bar = bars.entry(bar).or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("  {spinner} {wide_msg}") {
                bar.set_style(style);
            }
            // A silent wait of minutes must not look like a hang.
            bar.enable_steady_tick(TICK);
            bar
        });
        bar.set_message(escape_line(&format!("{}{message}", self.prefix)));
    }

    /// Removes the spinners.
    pub(crate) fn clear(&self) {
        for bar in self.bars.borrow().values() {
            bar.finish_and_clear();
        }
        self.bars.borrow_mut().clear();
    }
}

/// Prints one JSON line; returns false if the reader has closed the pipe.
pub(crate) fn print_json_line(value: &Value) -> bool {
    !is_broken_pipe(&write_json_line(value))
}

fn write_json_line(value: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", escape_json(&value.to_string()))?;
    out.flush()
}

/// Prints the first line of a stream of JSON lines.
pub(crate) fn print_version_line() {
    print_json_line(&json!({"type": "version", "format": "1.0"}));
}

impl Listener for Progress {
    fn on_event(&self, event: &Event) {
        if self.mode == Mode::Json {
            let mut value = as_json(event);
            if let (Some(job), Some(members)) = (&self.job, value.as_object_mut()) {
                members.insert("job".to_owned(), json!(job));
            }
            print_json_line(&value);
            return;
        }
        match event {
            Event::Doing { item, what } => {
                if self.mode == Mode::Bars {
                    self.set_spinner(
                        Bar::Resource(item.clone()),
                        &format!("{} {}: {what}", item.kind, text::shorten_name(&item.name)),
                    );
                }
            }
            Event::Taking { item, because, differences } => {
                self.line(&format!("{} {}: {because}", item.kind, text::shorten_name(&item.name)));
                for one in differences {
                    self.line(&format!("  {}", difference(one)));
                }
            }
            Event::Done { item, what, id, with } => {
                if let Some(bar) = self.bars.borrow_mut().remove(&Bar::Resource(item.clone())) {
                    bar.finish_and_clear();
                }
                let id = id.as_ref().map_or_else(String::new, |id| format!(" ({id})"));
                let with = match (with.as_slice(), *what) {
                    ([], _) => String::new(),
                    (others, Outcome::Shared) => format!(" with {}", text::backtick_list(others, "and")),
                    (others, _) => format!(", shared with {}", text::backtick_list(others, "and")),
                };
                self.line(&format!("{} {}: {what}{with}{id}", item.kind, text::shorten_name(&item.name)));
            }
            Event::Waiting { item, state, seconds, retry } => {
                let since = match retry {
                    Some(retry) => describe_retry(*retry),
                    None if *seconds == 0 => String::new(),
                    None => format!(", {}", text::duration(*seconds)),
                };
                let words = format!("{} {}: {state}{since}", item.kind, text::shorten_name(&item.name));
                if self.mode == Mode::Bars {
                    self.set_spinner(Bar::Resource(item.clone()), &words);
                    return;
                }
                let mut told = self.told.borrow_mut();
                let known = told.get(item);
                // One line per attempt; the pauses grow.
                let news = retry.is_some()
                    || known.is_none_or(|(said, when)| said != state || seconds.abs_diff(*when) >= AGAIN);
                if news {
                    told.insert(item.clone(), (state.clone(), *seconds));
                    self.line(&words);
                }
            }
        }
    }
}

/// Describes the next attempt of a retried call.
fn describe_retry(retry: Retry) -> String {
    // No time left: the last attempt.
    if retry.left <= retry.pause {
        return format!("; last attempt in {}", text::duration(retry.pause));
    }
    format!("; retrying in {}, for {} more", text::duration(retry.pause), text::duration(retry.left))
}

/// Formats a difference on one line.
pub(crate) fn difference(one: &Difference) -> String {
    let (found, wanted) = text::differing_parts(&one.found, &one.wanted, MOST_CHARACTERS);
    format!("{}: {found} → {wanted}", one.what)
}

/// Returns a difference as JSON, uncut.
pub(crate) fn difference_json(one: &Difference) -> Value {
    json!({"what": one.what, "found": one.found, "wanted": one.wanted})
}

fn as_json(event: &Event) -> Value {
    match event {
        Event::Doing { item, what } => {
            json!({"type": "doing", "kind": item.kind, "name": item.name, "what": what})
        }
        Event::Taking { item, because, differences } => {
            let differences: Vec<Value> = differences.iter().map(difference_json).collect();
            json!({"type": "taking", "kind": item.kind, "name": item.name, "because": because,
                "differences": differences})
        }
        Event::Done { item, what, id, with } => {
            let mut line =
                json!({"type": "done", "kind": item.kind, "name": item.name, "what": what, "id": id});
            if let Some(members) = line.as_object_mut().filter(|_| !with.is_empty()) {
                members.insert("shared_with".to_owned(), json!(with));
            }
            line
        }
        Event::Waiting { item, state, seconds, retry } => {
            json!({"type": "waiting", "kind": item.kind, "name": item.name, "state": state, "seconds": seconds,
                "again_seconds": retry.map(|retry| retry.pause), "left_seconds": retry.map(|retry| retry.left)})
        }
    }
}
