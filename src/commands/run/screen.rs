//! Progress display of a run: a bar and the loss on a terminal, occasional lines elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};
use trainc_diag::{escape_output, sparkline, text};

/// Number of lines for a whole run without a terminal.
const LINES: u64 = 20;
/// Width of the loss curve in columns.
const COLUMNS: usize = 32;

/// The progress display of a run.
pub(super) struct Screen {
    bar: Option<ProgressBar>,
    silent: bool,
    unicode: bool,
    steps: u64,
    began: Instant,
    losses: Vec<(u64, f64)>,
    first_step: Option<u64>,
    tokens: f64,
    tokens_per_step: u64,
    memory: u64,
    planned: Option<u64>,
    validation: Option<f64>,
}

impl Screen {
    /// Creates the display of a run with this number of steps and of tokens per step over all ranks;
    /// `planned` is the predicted memory of a rank in bytes.
    pub(super) fn new(
        steps: u64,
        tokens_per_step: u64,
        planned: Option<u64>,
        silent: bool,
        unicode: bool,
    ) -> Self {
        let bar = (!silent && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
            let glyphs = if unicode { "█▉▊▋▌▍▎▏ " } else { "#> " };
            // With an invalid template the default bar is used.
            if let Ok(style) =
                ProgressStyle::with_template("{bar:32} step {pos}/{len}  {elapsed} gone, {eta} left\n{msg}")
            {
                bar.set_style(style.progress_chars(glyphs));
            }
            bar
        });
        Self {
            bar,
            silent,
            unicode,
            steps,
            began: Instant::now(),
            losses: Vec::new(),
            first_step: None,
            tokens: 0.0,
            tokens_per_step,
            memory: 0,
            planned,
            validation: None,
        }
    }

    /// Shows a line of the worker.
    pub(super) fn step(&mut self, line: &Value) {
        let Some(step) = line.get("step").and_then(Value::as_u64) else { return };
        if let Some(loss) = line.get("validation_loss").and_then(Value::as_f64) {
            self.validation = Some(loss);
            self.note(&format!("step {step}: validation loss {loss:.4}"));
            return;
        }
        let Some(loss) = line.get("loss").and_then(Value::as_f64) else { return };
        self.first_step.get_or_insert(step);
        self.losses.push((step, loss));
        self.tokens += self.tokens_per_step as f64;
        let tokens_per_s = line.get("tokens_per_s").and_then(Value::as_f64).unwrap_or(0.0);
        self.memory = line.get("memory").and_then(Value::as_u64).unwrap_or(0);
        let said = format!("loss {loss:.4}  {} tokens/s  {}", rate(tokens_per_s), self.memory());
        if let Some(bar) = &self.bar {
            bar.set_position(step);
            bar.set_message(format!("{said}  {}", self.curve()));
        } else if !self.silent {
            let every = (self.steps / LINES).max(1);
            if step == self.steps || step.is_multiple_of(every) || self.first_step == Some(step) {
                self.line(&format!("step {step}/{}  {said}", self.steps));
            }
        }
    }

    /// Shows a message of the worker other than a step.
    pub(super) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(escape_output(text, false)),
            None if !self.silent => self.line(text),
            None => {}
        }
    }

    #[expect(clippy::print_stderr, reason = "progress is printed to stderr while results go to stdout")]
    #[expect(clippy::unused_self, reason = "a line belongs to a screen")]
    fn line(&self, text: &str) {
        eprintln!("{}", escape_output(text, false));
    }

    /// Removes the bar.
    pub(super) fn clear_bar(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Returns the completed steps, over all runs of the job.
    pub(super) fn steps_done(&self) -> Option<u64> {
        self.losses.last().map(|(step, _)| *step)
    }

    /// Returns the last loss in nats per token.
    pub(super) fn last_loss(&self) -> Option<f64> {
        self.losses.last().map(|(_, loss)| *loss)
    }

    /// Formats the summary of the run.
    pub(super) fn summary(&self) -> String {
        let (Some((first, from)), Some((last, to))) = (self.losses.first(), self.losses.last()) else {
            return format!("steps       nothing left to do: all {} were done before", self.steps);
        };
        let mut out = format!(
            "steps       {first} to {last} of {} in {}\nloss        {from:.4} to {to:.4}  \
                {}\nspeed       {} tokens/s\nmemory      {}",
            self.steps,
            text::duration(self.began.elapsed().as_secs()),
            self.curve(),
            rate(self.tokens / self.began.elapsed().as_secs_f64()),
            self.memory()
        );
        if let Some(loss) = self.validation {
            out.push_str(&format!("\nvalidation  {loss:.4}"));
        }
        out
    }

    /// Returns the peak resident memory of the largest rank in bytes.
    pub(super) fn peak_resident_bytes(&self) -> u64 {
        self.memory
    }

    /// Formats the resident memory, including program and libraries, and the predicted memory of the buffers.
    fn memory(&self) -> String {
        let resident = text::bytes(self.memory);
        match self.planned {
            Some(planned) => format!("{resident} a rank, {} planned", text::bytes(planned)),
            None => format!("{resident} a rank"),
        }
    }

    /// Draws the loss over the run as a row of block characters.
    fn curve(&self) -> String {
        let losses: Vec<f64> = self.losses.iter().map(|(_, loss)| *loss).collect();
        if self.unicode { sparkline(&losses, None, COLUMNS, true) } else { String::new() }
    }
}

/// Formats tokens per second: `11,194`.
fn rate(tokens: f64) -> String {
    text::group_digits(Duration::try_from_secs_f64(tokens.max(0.0).round()).unwrap_or_default().as_secs())
}
