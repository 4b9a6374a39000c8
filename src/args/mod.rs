//! Flags shared by commands.

pub(crate) mod account;
pub(crate) mod completion_values;
pub(crate) mod invocation;
pub(crate) mod overlay;

use crate::args::overlay::Overlay;
use crate::terminal::io::Io;
use clap::{Args, ValueEnum};
use trainc_diag::{self as diag, Format, ManifestReport};
use trainc_project::manifests::Set;

/// Value of `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Only on a terminal, and unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Flags of every command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Quiet output: only errors, no progress
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Verbose output, e.g. the origin of every value in `plan` and the reasons for notes in `check`
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// When to colour the output
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        hide_possible_values = false
    )]
    pub color: Color,
    /// Use this date as today, e.g. 2026-12-31. Affects diagnostics only, never the plan or the request
    #[arg(long, global = true, value_name = "DATE", value_parser = day)]
    pub today: Option<String>,
}

impl Global {
    /// Returns true if results are coloured, given the terminal and `NO_COLOR`.
    pub(crate) fn wants_color(&self, terminal: bool, no_color: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !no_color,
        }
    }
}

/// Arguments that select manifests.
#[derive(Args, Clone, Debug)]
pub(crate) struct Named {
    /// Manifests: files, directories (searched for *.kdl), globs, or `-` for standard input [default: the
    /// current directory]
    #[arg(value_name = "MANIFEST", value_parser = path)]
    pub manifests: Vec<String>,
}

impl Named {
    /// Returns the manifests, or a usage error if none is named and the current directory has none.
    pub(crate) fn paths(&self, command: &str) -> Result<Vec<String>, String> {
        if !self.manifests.is_empty() {
            return Ok(self.manifests.clone());
        }
        // Only if a manifest is directly here: a home directory is not searched because an argument is
        // missing.
        let here = std::fs::read_dir(".").into_iter().flatten().flatten();
        let mut names = here.map(|entry| entry.file_name().to_string_lossy().into_owned());
        if names.any(|name| name.ends_with(".kdl") && !name.starts_with('.')) {
            return Ok(vec![".".to_owned()]);
        }
        Err(format!(
            "error: no manifest given, and no `*.kdl` in the current directory\nhelp: `trainc \
                {command} job.kdl`, or write a first manifest with `trainc init`\n"
        ))
    }
}

/// Manifests, and the values that override theirs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Input {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    pub overlay: Overlay,
    /// Treat warnings as errors: exit with 3
    #[arg(long)]
    pub deny_warnings: bool,
    /// Exit with 0 even if problems are found, e.g. in a CI step that only uploads the results
    #[arg(long)]
    pub exit_zero: bool,
}

fn path(written: &str) -> Result<String, String> {
    if written.is_empty() {
        Err("empty path; expected a file, a directory or `-`".to_owned())
    } else {
        Ok(written.to_owned())
    }
}

fn day(written: &str) -> Result<String, String> {
    if trainc_check::is_date(written) {
        Ok(written.to_owned())
    } else {
        Err("expected a date, e.g. 2026-12-31".to_owned())
    }
}

/// Formats a duration in the largest unit that divides it; [`duration`] reads it back.
pub(crate) fn duration_text(time: std::time::Duration) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let seconds = time.as_secs();
    if time.subsec_nanos() > 0 {
        return format!("{}s", time.as_secs_f64());
    }
    let whole = units.into_iter().find(|(_, size)| seconds > 0 && seconds.is_multiple_of(*size));
    whole.map_or_else(|| format!("{seconds}s"), |(unit, size)| format!("{}{unit}", seconds / size))
}

/// Parses a duration such as `2h`, `30m`, `90s` or `1d`.
pub(crate) fn duration(written: &str) -> Result<std::time::Duration, String> {
    let fault = || "expected a duration with a unit, e.g. 2h or 30m".to_owned();
    let number = written.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let each = match written.get(number.len()..) {
        Some("s") => 1.0,
        Some("m") => 60.0,
        Some("h") => 3_600.0,
        Some("d") => 86_400.0,
        _ => return Err(fault()),
    };
    let seconds: f64 = number.parse().map_err(|_| fault())?;
    std::time::Duration::try_from_secs_f64(seconds * each).map_err(|_| fault())
}

impl Input {
    /// Explains the exit code if only `--deny-warnings` makes it nonzero.
    pub(crate) fn explain_denied_warnings(&self, io: &mut Io, set: &Set, quiet: bool) {
        let count = |of: fn(&diag::Problems) -> usize| -> usize {
            set.manifests.iter().map(|manifest| of(&manifest.compiled.problems)).sum()
        };
        let (errors, warnings) = (count(diag::Problems::errors), count(diag::Problems::warnings));
        if !self.deny_warnings || self.exit_zero || errors > 0 || warnings == 0 {
            return;
        }
        let found = trainc_diag::text::count(warnings as u64, "warning");
        let hint = if quiet { "; omit `-q` to see them" } else { "" };
        io.note(&format!("error: {found}, denied by `--deny-warnings`{hint}\n"));
    }

    /// Returns the exit code for the problems found.
    pub(crate) fn exit_code(&self, set: &Set) -> u8 {
        let errors: usize = set.manifests.iter().map(|m| m.compiled.problems.errors()).sum();
        let warnings: usize = set.manifests.iter().map(|m| m.compiled.problems.warnings()).sum();
        if self.exit_zero || (errors == 0 && !(self.deny_warnings && warnings > 0)) {
            crate::exit::DONE
        } else {
            crate::exit::MANIFEST
        }
    }
}

/// Names the files of a searched directory that were skipped.
pub(crate) fn note_skipped(io: &mut Io, global: &Global, set: &Set) {
    for path in set.skipped.iter().filter(|_| !global.quiet) {
        io.note(&format!("note: skipped {path}: none of its nodes is one of a manifest\n"));
    }
}

/// Formats all problems of a run.
pub(crate) fn problems(set: &Set, format: Format, io: &Io, color: bool, global: &Global) -> String {
    let mut errors: Vec<diag::Problems> = Vec::new();
    if global.quiet {
        errors = set.manifests.iter().map(|manifest| manifest.compiled.problems.clone()).collect();
        for problems in &mut errors {
            problems.retain(|diagnostic| diagnostic.severity == diag::Severity::Error);
        }
        if format == Format::Human && errors.iter().all(diag::Problems::is_empty) {
            return String::new();
        }
    }
    let reports: Vec<ManifestReport> = set
        .manifests
        .iter()
        .enumerate()
        .map(|(at, manifest)| ManifestReport {
            path: &manifest.path,
            job: manifest.compiled.job.as_deref(),
            problems: errors.get(at).unwrap_or(&manifest.compiled.problems),
        })
        .collect();
    let current = std::env::current_dir().unwrap_or_default();
    let (current, root) = (current.to_string_lossy().into_owned(), set.root.to_string_lossy().into_owned());
    let options = diag::Options {
        human: diag::human::Options { color, unicode: io.unicode, width: io.width, notes: global.verbose },
        paths: diag::Paths { current: &current, root: &root },
        ..diag::Options::default()
    };
    let mut text = diag::render(format, &diag::Run { sources: &set.sources, manifests: &reports }, &options);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{day, duration, duration_text};
    use std::time::Duration;

    #[test]
    fn durations_require_a_unit() {
        assert_eq!(duration("2h"), Ok(Duration::from_hours(2)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for written in ["2h", "90s", "1d", "45m", "0s", "0.5s"] {
            assert_eq!(duration_text(duration(written).unwrap()), written);
        }
        assert_eq!(duration_text(duration("1.5h").unwrap()), "90m");
        assert!(duration("2").is_err() && duration("h").is_err() && duration("2 weeks").is_err());
    }

    #[test]
    fn dates_must_exist_in_the_calendar() {
        assert_eq!(day("2026-12-31").as_deref(), Ok("2026-12-31"));
        assert!(day("2026-13-01").is_err());
        assert!(day("tomorrow").is_err());
    }
}
