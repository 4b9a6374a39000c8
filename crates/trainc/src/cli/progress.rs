//! Progress of what takes long: bars on a terminal, plain lines in a log, JSON lines for scripts.

use super::io::is_unread;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;
use trainc_apply::diff::Difference;
use trainc_apply::fault::Fault;
use trainc_apply::ledger::{Event, Item, Listener, Retry};
use trainc_diag::text;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Not at all.
    Silent,
    /// One line for each thing that happens, on standard error.
    Lines,
    /// Bars that move, on standard error.
    Bars,
    /// One JSON object for each thing that happens, on standard output.
    Json,
}

impl Mode {
    /// The mode for a run.
    pub(super) fn of(output: &str, quiet: bool) -> Self {
        match (output, quiet) {
            ("json", _) => Self::Json,
            (_, true) => Self::Silent,
            _ if std::io::stderr().is_terminal() => Self::Bars,
            _ => Self::Lines,
        }
    }
}

/// What a spinner says while an account is looked at.
pub(super) const LOOKING: &str = "looking at the account";

/// The same while logs are read.
pub(super) const READING: &str = "reading the logs";

/// How often a bar turns.
const TICK: Duration = Duration::from_millis(120);

/// In a log, the same wait is told again after so many seconds.
const AGAIN: u64 = 120;

/// The most characters of each side of a difference.
const MOST_CHARACTERS: usize = 60;

/// Who shows what happens.
pub(super) struct Progress {
    mode: Mode,
    all: MultiProgress,
    /// The job that it happens to, in JSON lines.
    job: Option<String>,
    /// The same before each line and bar, where several jobs write between each other.
    prefix: String,
    bars: RefCell<BTreeMap<Item, ProgressBar>>,
    told: RefCell<BTreeMap<Item, (String, u64)>>,
    /// Whether it was told that a call is asked again.
    is_repeating: Cell<bool>,
}

impl Progress {
    /// Shows in a mode.
    pub(super) fn new(mode: Mode) -> Self {
        let (bars, told) = (RefCell::default(), RefCell::default());
        let is_repeating = Cell::new(false);
        Self { mode, all: MultiProgress::new(), job: None, prefix: String::new(), bars, told, is_repeating }
    }

    /// The same for one job; `among` others, each line says whose it is.
    pub(super) fn of(&self, job: &str, among: bool) -> Self {
        let prefix = if among { format!("{job}: ") } else { String::new() };
        Self { all: self.all.clone(), job: Some(job.to_owned()), prefix, ..Self::new(self.mode) }
    }

    /// How it is shown.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Does something that nothing is told of meanwhile, under a spinner.
    pub(super) async fn busy<T>(&self, message: &str, work: impl Future<Output = T>) -> T {
        let item = Item::new("", "");
        if self.mode == Mode::Bars {
            self.bar(&item, message);
        }
        let done = work.await;
        self.clear();
        done
    }

    /// Says once that a call is asked again because no answer came.
    pub(super) fn repeating(&self, fault: &Fault) {
        if self.is_repeating.replace(true) {
            return;
        }
        let text = format!("no answer yet: {}; asking again", fault.message.trim_end_matches('.'));
        match self.mode {
            Mode::Bars => self.bar(&Item::new("", ""), &text),
            _ => self.line(&text),
        }
    }

    /// Writes something else while the bars stand aside.
    pub(super) fn aside(&self, write: impl FnOnce()) {
        self.all.suspend(write);
    }

    /// A line of its own.
    pub(super) fn line(&self, text: &str) {
        let prefix = &self.prefix;
        match self.mode {
            Mode::Bars => {
                let _ = self.all.println(format!("{prefix}{text}"));
            }
            Mode::Lines => {
                let _ = writeln!(std::io::stderr().lock(), "{prefix}{text}");
            }
            Mode::Silent | Mode::Json => {}
        }
    }

    fn bar(&self, item: &Item, message: &str) {
        let mut bars = self.bars.borrow_mut();
        let bar = bars.entry(item.clone()).or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg}") {
                bar.set_style(style);
            }
            // A wait of minutes says nothing new, and still must not look like a hang.
            bar.enable_steady_tick(TICK);
            bar
        });
        bar.set_message(format!("{}{message}", self.prefix));
    }

    /// Takes the bars away.
    pub(super) fn clear(&self) {
        for bar in self.bars.borrow().values() {
            bar.finish_and_clear();
        }
        self.bars.borrow_mut().clear();
    }
}

/// Writes one JSON object on a line of its own; whether anybody reads them still.
pub(super) fn json_line(value: &Value) -> bool {
    !is_unread(&written(value))
}

fn written(value: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()
}

/// The first line of every stream of JSON lines.
pub(super) fn version_line() {
    json_line(&json!({"type": "version", "format": "1.0"}));
}

impl Listener for Progress {
    fn on_event(&self, event: &Event) {
        if self.mode == Mode::Json {
            let mut value = as_json(event);
            if let (Some(job), Some(members)) = (&self.job, value.as_object_mut()) {
                members.insert("job".to_owned(), json!(job));
            }
            json_line(&value);
            return;
        }
        match event {
            Event::Doing { item, what } => {
                if self.mode == Mode::Bars {
                    self.bar(item, &format!("{} {}: {what}", item.kind, item.name));
                }
            }
            Event::Taking { item, because, differences } => {
                self.line(&format!("{} {}: {because}", item.kind, item.name));
                for one in differences {
                    self.line(&format!("  {}", difference(one)));
                }
            }
            Event::Done { item, what, id, with } => {
                if let Some(bar) = self.bars.borrow_mut().remove(item) {
                    bar.finish_and_clear();
                }
                let id = id.as_ref().map_or_else(String::new, |id| format!(" ({id})"));
                let with = match (with.as_slice(), *what) {
                    ([], _) => String::new(),
                    (others, "shared") => format!(" with {}", text::backtick_list(others, "and")),
                    (others, _) => format!(", shared with {}", text::backtick_list(others, "and")),
                };
                self.line(&format!("{} {}: {what}{with}{id}", item.kind, item.name));
            }
            Event::Waiting { item, state, seconds, retry } => {
                let since = match retry {
                    Some(retry) => again(*retry),
                    None if *seconds == 0 => String::new(),
                    None => format!(", {}", text::duration(*seconds)),
                };
                let words = format!("{} {}: {state}{since}", item.kind, item.name);
                if self.mode == Mode::Bars {
                    self.bar(item, &words);
                    return;
                }
                let mut told = self.told.borrow_mut();
                let known = told.get(item);
                // Each try is one, and they become ever more seldom.
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

/// When something is tried again, behind why it has to be.
fn again(retry: Retry) -> String {
    // At the end nothing is left: that try is the last.
    if retry.left <= retry.pause {
        return format!("; trying for the last time in {}", text::duration(retry.pause));
    }
    format!("; trying again in {}, for {} more", text::duration(retry.pause), text::duration(retry.left))
}

/// A setting that differs, on one line.
pub(super) fn difference(one: &Difference) -> String {
    let (found, wanted) = text::differing_parts(&one.found, &one.wanted, MOST_CHARACTERS);
    format!("{}: {found} → {wanted}", one.what)
}

/// The same for scripts, whole.
pub(super) fn difference_json(one: &Difference) -> Value {
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
