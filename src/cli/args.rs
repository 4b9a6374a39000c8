//! Flags that many commands take.

use super::io::Io;
use super::manifests::Set;
use crate::Options;
use crate::apply::saved::Given;
use crate::diag::{self, Format, ManifestReport};
use crate::predict::Constants;
use crate::resolve::Choices;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// When results are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Flags of every command.
#[derive(Args, Clone, Debug)]
pub(super) struct Global {
    /// Say less: of the problems only the errors, and no progress
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more: `plan` also shows where every value comes from, and `check` why its notes say so
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Colour the output
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        hide_possible_values = false
    )]
    pub color: Color,
    /// Take this day for today, as 2026-12-31; it may only change problems, never what is emitted
    #[arg(long, global = true, value_name = "DATE", value_parser = day)]
    pub today: Option<String>,
}

impl Global {
    /// Whether to colour, given the terminal and `NO_COLOR`.
    pub(super) fn wants_color(&self, terminal: bool, no_color: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !no_color,
        }
    }
}

/// Which manifests.
#[derive(Args, Clone, Debug)]
pub(super) struct Named {
    /// Manifests: files, directories (walked for *.kdl), globs, or `-` for standard input; if none is named, those of
    /// the current directory
    #[arg(value_name = "MANIFEST", value_parser = path)]
    pub manifests: Vec<String>,
}

impl Named {
    /// The manifests that are meant; the words of a usage error where none is named and none is here.
    pub(super) fn paths(&self, command: &str) -> Result<Vec<String>, String> {
        if !self.manifests.is_empty() {
            return Ok(self.manifests.clone());
        }
        // Only where a manifest lies right here: nobody wants a home directory walked for want of an argument.
        let here = std::fs::read_dir(".").into_iter().flatten().flatten();
        let mut names = here.map(|entry| entry.file_name().to_string_lossy().into_owned());
        if names.any(|name| name.ends_with(".kdl") && !name.starts_with('.')) {
            return Ok(vec![".".to_owned()]);
        }
        Err(format!(
            "error: no manifest is named, and no `*.kdl` is in this directory\nname one, as `trainc {command} job.kdl`, or write a first one with `trainc init`\n"
        ))
    }
}

/// Which manifests, and what is laid over them.
#[derive(Args, Clone, Debug)]
pub(super) struct Input {
    #[command(flatten)]
    pub named: Named,
    /// Lay one value over the manifest, as cluster.nodes=4 or channel.train.s3=s3://…
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = set)]
    pub sets: Vec<String>,
    /// Lay the environment of that name over the manifest: the node `env "NAME" { … }`
    #[arg(long, value_name = "NAME")]
    pub env: Option<String>,
    /// The AWS account, twelve digits, where the manifest does not say it
    #[arg(long, value_name = "ID", value_parser = account)]
    pub account: Option<String>,
    /// A price in US dollars: of an instance per hour, as ml.p4d.24xlarge=25.25; of storage per GB and month, as
    /// fsx/us-west-2/PERSISTENT_2/SSD/125=0.145 or ebs-training/us-west-2=0.14
    #[arg(long = "price", value_name = "WHAT=USD", value_parser = price)]
    pub prices: Vec<(String, f64)>,
    /// A discount on every instance price, as 0.25
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    pub discount: Option<f64>,
    /// The binary `trainc-worker` that engine `worker` runs, where it is not beside trainc
    #[arg(long, value_name = "PATH", value_parser = binary)]
    pub worker: Option<PathBuf>,
    /// Constants of the cost model, as `trainc calibrate --write` makes them
    #[arg(long, value_name = "FILE", value_parser = calibration)]
    pub calibration: Option<Calibration>,
    /// Exit with 3 on warnings as on errors
    #[arg(long)]
    pub deny_warnings: bool,
    /// Exit with 0 whatever is found: for a CI step that only uploads the results
    #[arg(long)]
    pub exit_zero: bool,
}

fn path(written: &str) -> Result<String, String> {
    if written.is_empty() {
        Err("an empty path; name a file, a directory or `-`".to_owned())
    } else {
        Ok(written.to_owned())
    }
}

fn set(written: &str) -> Result<String, String> {
    let what = match written.split_once('=') {
        Some((path, value)) if !path.is_empty() && !value.is_empty() => return Ok(written.to_owned()),
        Some(("", _)) => "no path before the `=`",
        Some(_) => "no value behind the `=`",
        None => "no `=`",
    };
    Err(format!("{what} (T0210); expected PATH=VALUE, as cluster.nodes=4 (the empty text is PATH='\"\"')"))
}

fn account(written: &str) -> Result<String, String> {
    if written.len() == 12 && written.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(written.to_owned())
    } else {
        Err("an account number has twelve digits, as 111122223333".to_owned())
    }
}

fn day(written: &str) -> Result<String, String> {
    if crate::check::is_date(written) {
        Ok(written.to_owned())
    } else {
        Err("expected a day of the calendar, as 2026-12-31".to_owned())
    }
}

/// A time as [`duration`] reads it, in the largest unit that holds it whole.
pub(super) fn duration_text(time: std::time::Duration) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let seconds = time.as_secs();
    if time.subsec_nanos() > 0 {
        return format!("{}s", time.as_secs_f64());
    }
    let whole = units.into_iter().find(|(_, size)| seconds > 0 && seconds.is_multiple_of(*size));
    whole.map_or_else(|| format!("{seconds}s"), |(unit, size)| format!("{}{unit}", seconds / size))
}

/// `2h`, `30m`, `90s`, `1d`.
pub(super) fn duration(written: &str) -> Result<std::time::Duration, String> {
    let fault = || "expected a time with its unit, as 2h or 30m".to_owned();
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

fn price(written: &str) -> Result<(String, f64), String> {
    let (name, usd) = written
        .split_once('=')
        .ok_or("expected WHAT=USD, as ml.p4d.24xlarge=25.25 or fsx/us-west-2/PERSISTENT_2/SSD/125=0.145")?;
    let usd: f64 = usd.parse().map_err(|_| format!("`{usd}` is no number of dollars"))?;
    if name.contains('/') {
        if !crate::catalog::prices::is_storage_key(name) {
            return Err(format!(
                "`{name}` is no storage; write fsx/REGION/DEPLOYMENT/TYPE/TIER, as fsx/us-west-2/PERSISTENT_2/SSD/125 (tier 0 where none is chosen), or ebs-training/REGION"
            ));
        }
    } else if !crate::catalog::instances::instance_exists(name) {
        let known = crate::catalog::instances::all_names();
        return Err(match crate::text::nearest(name, known.iter().map(String::as_str)) {
            Some(near) => {
                format!("`{name}` is no instance type of SageMaker training; did you mean `{near}`?")
            }
            None => format!(
                "`{name}` is no instance type of SageMaker training; write it whole, as ml.p4d.24xlarge"
            ),
        });
    }
    if usd.is_finite() && usd >= 0.0 {
        Ok((name.to_owned(), usd))
    } else {
        Err(format!("`{usd}` is no price"))
    }
}

pub(super) fn binary(written: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(written);
    if path.is_file() { Ok(path) } else { Err("there is no such file".to_owned()) }
}

/// A file of constants, and what is in it.
#[derive(Clone, Debug)]
pub(super) struct Calibration {
    /// As it was named.
    pub path: String,
    /// What it holds.
    pub constants: Constants,
}

pub(super) fn calibration(path: &str) -> Result<Calibration, String> {
    let mut constants = super::calibrate::constants(Some(std::path::Path::new(path)))?;
    constants.file = Some(path.to_owned());
    Ok(Calibration { path: path.to_owned(), constants })
}

fn fraction(written: &str) -> Result<f64, String> {
    let value: f64 = written.parse().map_err(|_| format!("`{written}` is no number"))?;
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err("expected a fraction from 0 to 1, as 0.25".to_owned())
    }
}

impl Input {
    /// What is laid over the manifest, as a saved plan keeps it.
    pub(super) fn given(&self) -> Given {
        Given {
            sets: self.sets.clone(),
            env: self.env.clone(),
            for_account: self.account.clone(),
            worker: self.worker.as_ref().map(|path| path.to_string_lossy().into_owned()),
            calibration: self.calibration.as_ref().map(|file| file.path.clone()),
            prices: self.prices.clone(),
            discount: self.discount,
        }
    }

    /// The same as a saved plan has kept it; the words of a usage error where a file that it names is gone.
    pub(super) fn keep(&mut self, given: &Given) -> Result<(), String> {
        let gone = |path: &str, why: &str| format!("error: the saved plan names `{path}`: {why}\n");
        self.sets.clone_from(&given.sets);
        self.env.clone_from(&given.env);
        self.account.clone_from(&given.for_account);
        self.prices.clone_from(&given.prices);
        self.discount = given.discount;
        self.worker = match &given.worker {
            Some(path) => Some(binary(path).map_err(|why| gone(path, &why))?),
            None => None,
        };
        self.calibration = match &given.calibration {
            Some(path) => Some(calibration(path).map_err(|why| gone(path, &why))?),
            None => None,
        };
        Ok(())
    }

    /// What shapes the job, as it is typed again: what the commands about a job that is there know as well.
    pub(super) fn laid_over(&self) -> Vec<String> {
        super::typed::laid_over(self.env.as_deref(), &self.sets, self.worker.as_deref())
    }

    /// What is laid over the manifests, as it is typed again.
    pub(super) fn again(&self) -> Vec<String> {
        let quoted = |path: &std::path::Path| crate::emit::quoted(&path.to_string_lossy());
        let mut out = self.laid_over();
        let mut add = |flag: &str, value: String| out.extend([flag.to_owned(), value]);
        if let Some(account) = &self.account {
            add("--account", crate::emit::quoted(account));
        }
        for (what, usd) in &self.prices {
            add("--price", format!("{what}={usd}"));
        }
        if let Some(discount) = self.discount {
            add("--discount", discount.to_string());
        }
        if let Some(file) = &self.calibration {
            add("--calibration", quoted(std::path::Path::new(&file.path)));
        }
        out
    }

    /// The constants of the command's own file, else those that ship with trainc.
    pub(super) fn constants(&self) -> &Constants {
        self.calibration.as_ref().map_or_else(|| Constants::shipped(), |file| &file.constants)
    }

    /// What the compiler is told beside the text.
    pub(super) fn options(&self, io: &Io, complete: bool) -> Options {
        Options {
            choices: Choices {
                env: self.env.clone(),
                sets: self.sets.clone(),
                account: self.account.clone(),
                swept: Vec::new(),
                suffix: None,
            },
            today: io.today.clone(),
            prices: self.prices.clone(),
            discount: self.discount,
            constants: self.calibration.as_ref().map(|file| file.constants.clone()),
            complete,
            fetch: false,
            worker: self.worker.clone(),
        }
    }

    /// Says why the exit code is no 0 where nothing else does: warnings alone, denied.
    pub(super) fn say_denied(&self, io: &mut Io, set: &Set, quiet: bool) {
        let count = |of: fn(&diag::Problems) -> usize| -> usize {
            set.manifests.iter().map(|manifest| of(&manifest.compiled.problems)).sum()
        };
        let (errors, warnings) = (count(diag::Problems::errors), count(diag::Problems::warnings));
        if !self.deny_warnings || self.exit_zero || errors > 0 || warnings == 0 {
            return;
        }
        let found = crate::text::count(warnings as u64, "warning");
        let hint = if quiet { "; leave out `-q` to see them" } else { "" };
        io.note(&format!("error: {found}, and `--deny-warnings` takes none{hint}\n"));
    }

    /// The exit code of what was found.
    pub(super) fn exit(&self, set: &Set) -> u8 {
        let errors: usize = set.manifests.iter().map(|m| m.compiled.problems.errors()).sum();
        let warnings: usize = set.manifests.iter().map(|m| m.compiled.problems.warnings()).sum();
        if self.exit_zero || (errors == 0 && !(self.deny_warnings && warnings > 0)) {
            super::exit::DONE
        } else {
            super::exit::MANIFEST
        }
    }
}

/// All problems of a run in one format.
pub(super) fn problems(set: &Set, format: Format, io: &Io, color: bool, global: &Global) -> String {
    let mut set_problems: Vec<crate::diag::Problems> =
        set.manifests.iter().map(|m| m.compiled.problems.clone()).collect();
    if global.quiet {
        for problems in &mut set_problems {
            problems.retain(|diagnostic| diagnostic.severity == diag::Severity::Error);
        }
    }
    if global.quiet && format == Format::Human && set_problems.iter().all(diag::Problems::is_empty) {
        return String::new();
    }
    let reports: Vec<ManifestReport> = set
        .manifests
        .iter()
        .zip(&set_problems)
        .map(|(manifest, problems)| ManifestReport {
            path: &manifest.path,
            job: manifest.compiled.job.as_deref(),
            problems,
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
    fn a_time_has_a_unit() {
        assert_eq!(duration("2h"), Ok(Duration::from_hours(2)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for written in ["2h", "90s", "1d", "45m", "0s", "0.5s"] {
            assert_eq!(duration_text(duration(written).unwrap()), written);
        }
        assert_eq!(duration_text(duration("1.5h").unwrap()), "90m");
        assert!(duration("2").is_err() && duration("h").is_err() && duration("2 weeks").is_err());
    }

    #[test]
    fn a_day_is_one_of_the_calendar() {
        assert_eq!(day("2026-12-31").as_deref(), Ok("2026-12-31"));
        assert!(day("2026-13-01").is_err());
        assert!(day("tomorrow").is_err());
    }
}
