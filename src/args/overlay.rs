//! Flags that override values of a manifest: one group for all commands, so that a run is compared with what
//! was planned.

use crate::terminal::io::Io;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use trainc_apply::saved_plan::Overrides;
use trainc_calibrate::own_runs;
use trainc_emit::quote;
use trainc_plan::Options;
use trainc_plan::resolve::Choices;
use trainc_predict::Constants;
use trainc_project::files::{MOST_TABLE_BYTES, describe, read_named_text};
use trainc_project::runs_file::{RUNS_FILE, read_runs_file, runs_file};

/// Overridden values, and the prices and constants for the prediction.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Overlay {
    /// Override a value of the manifest, e.g. cluster.nodes=4 or channel.train.s3=s3://…
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = parse_set)]
    pub sets: Vec<String>,
    /// Apply an environment of the manifest: its node `env "NAME" { … }`
    #[arg(long, value_name = "NAME")]
    pub env: Option<String>,
    /// AWS account ID, if the manifest does not set one
    #[arg(long, value_name = "ID", value_parser = parse_account)]
    pub account: Option<String>,
    /// Override a price in US dollars: per instance-hour, e.g. ml.p4d.24xlarge=25.25, or per GB-month of
    /// storage, e.g. fsx/us-west-2/PERSISTENT_2/SSD/125=0.145 or ebs-training/us-west-2=0.14
    #[arg(long = "price", value_name = "WHAT=USD", value_parser = parse_price)]
    pub prices: Vec<(String, f64)>,
    /// Discount on all instance prices, e.g. 0.25 for 25 %
    #[arg(long, value_name = "FRACTION", value_parser = parse_fraction)]
    pub discount: Option<f64>,
    /// The `trainc-worker` binary for engine `worker` [default: next to trainc]
    #[arg(long, value_name = "PATH", value_parser = parse_binary_path)]
    pub worker: Option<PathBuf>,
    /// Constants of the cost model: a file of `trainc calibrate --write`, the output of a probe, or the JSON
    /// of `trainc-worker selfcheck`
    #[arg(long, value_name = "FILE", value_parser = calibration)]
    pub calibration: Option<Calibration>,
    /// Table of your own runs, which predictions of similar jobs are conditioned on [default:
    /// .trainc/runs.csv at the repository's root, unless `--calibration` is given]
    #[arg(long, value_name = "RUNS.csv")]
    pub runs: Option<PathBuf>,
    /// Constants with the measured runs, once they are read.
    #[arg(skip)]
    pub conditioned: OnceCell<Constants>,
}

/// Longest warning about a row, in characters.
const MOST_WARNING: usize = 300;

fn parse_set(written: &str) -> Result<String, String> {
    let what = match written.split_once('=') {
        Some((path, value)) if !path.is_empty() && !value.is_empty() => return Ok(written.to_owned()),
        Some(("", _)) => "missing path before `=`",
        Some(_) => "missing value after `=`",
        None => "missing `=`",
    };
    Err(format!("{what} (T0210); expected PATH=VALUE, e.g. cluster.nodes=4 (an empty string is PATH='\"\"')"))
}

fn parse_account(written: &str) -> Result<String, String> {
    if written.len() == 12 && written.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(written.to_owned())
    } else {
        Err("not an AWS account ID; expected twelve digits, e.g. 111122223333".to_owned())
    }
}

fn parse_price(written: &str) -> Result<(String, f64), String> {
    let (name, usd) = written
        .split_once('=')
        .ok_or("expected WHAT=USD, e.g. ml.p4d.24xlarge=25.25 or fsx/us-west-2/PERSISTENT_2/SSD/125=0.145")?;
    let usd: f64 = usd.parse().map_err(|_| format!("`{usd}` is not a number"))?;
    if name.contains('/') {
        if !trainc_catalog::prices::is_storage_key(name) {
            return Err(format!(
                "`{name}` is not a storage price; expected fsx/REGION/DEPLOYMENT/TYPE/TIER, e.g. \
                    fsx/us-west-2/PERSISTENT_2/SSD/125 (tier 0 for none), ebs-training/REGION or \
                    s3-standard/REGION"
            ));
        }
    } else if !trainc_catalog::instances::instance_exists(name) {
        let known = trainc_catalog::instances::all_names();
        return Err(match trainc_diag::text::nearest(name, known.iter().map(String::as_str)) {
            Some(near) => {
                format!("`{name}` is not a SageMaker training instance type; did you mean `{near}`?")
            }
            None => {
                format!("`{name}` is not a SageMaker training instance type; expected e.g. ml.p4d.24xlarge")
            }
        });
    }
    if usd.is_finite() && usd >= 0.0 {
        Ok((name.to_owned(), usd))
    } else {
        Err(format!("`{usd}` is not a price"))
    }
}

pub(crate) fn parse_binary_path(written: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(written);
    if path.is_file() { Ok(path) } else { Err("no such file".to_owned()) }
}

/// A file of constants for the cost model.
#[derive(Clone, Debug)]
pub(crate) struct Calibration {
    /// Path as the user wrote it.
    pub path: String,
    /// Its content.
    pub constants: Constants,
}

pub(crate) fn calibration(path: &str) -> Result<Calibration, String> {
    let mut constants = crate::commands::calibrate::constants(Some(Path::new(path)))?;
    constants.file = Some(path.to_owned());
    Ok(Calibration { path: path.to_owned(), constants })
}

fn parse_fraction(written: &str) -> Result<f64, String> {
    let value: f64 = written.parse().map_err(|_| format!("`{written}` is not a number"))?;
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err("expected a fraction from 0 to below 1, e.g. 0.25 for 25 %".to_owned())
    }
}

impl Overlay {
    /// Returns the overrides in the form of a saved plan.
    pub(crate) fn to_overrides(&self) -> Overrides {
        Overrides {
            sets: self.sets.clone(),
            env: self.env.clone(),
            for_account: self.account.clone(),
            worker: self.worker.as_ref().map(|path| path.to_string_lossy().into_owned()),
            calibration: self.calibration.as_ref().map(|file| file.path.clone()),
            runs: self.runs.as_ref().map(|path| path.to_string_lossy().into_owned()),
            prices: self.prices.clone(),
            discount: self.discount,
        }
    }

    /// Restores the overrides of a saved plan; fails if a file that it names is missing.
    pub(crate) fn restore(&mut self, given: &Overrides) -> Result<(), String> {
        let gone = |path: &str, why: &str| format!("error: the saved plan names `{path}`: {why}\n");
        self.sets.clone_from(&given.sets);
        self.env.clone_from(&given.env);
        self.account.clone_from(&given.for_account);
        self.prices.clone_from(&given.prices);
        self.discount = given.discount;
        self.worker = match &given.worker {
            Some(path) => Some(parse_binary_path(path).map_err(|why| gone(path, &why))?),
            None => None,
        };
        self.calibration = match &given.calibration {
            Some(path) => Some(calibration(path).map_err(|why| gone(path, &why))?),
            None => None,
        };
        self.runs = given.runs.as_ref().map(PathBuf::from);
        Ok(())
    }

    /// The flags of this group, quoted for a shell.
    pub(crate) fn flags(&self) -> Vec<String> {
        let path = |path: &Path| quote(&path.to_string_lossy());
        let mut out = Vec::new();
        let mut add = |flag: &str, value: String| out.extend([flag.to_owned(), value]);
        if let Some(env) = &self.env {
            add("--env", quote(env));
        }
        for set in &self.sets {
            add("--set", quote(set));
        }
        if let Some(worker) = &self.worker {
            add("--worker", path(worker));
        }
        if let Some(account) = &self.account {
            add("--account", quote(account));
        }
        for (what, usd) in &self.prices {
            add("--price", quote(&format!("{what}={usd}")));
        }
        if let Some(discount) = self.discount {
            add("--discount", discount.to_string());
        }
        if let Some(file) = &self.calibration {
            add("--calibration", quote(&file.path));
        }
        if let Some(file) = &self.runs {
            add("--runs", path(file));
        }
        out
    }

    /// Returns the constants of `--calibration`, or those that ship with trainc, with the measured runs if
    /// these were read.
    pub(crate) fn constants(&self) -> &Constants {
        let fitted =
            || self.calibration.as_ref().map_or_else(|| Constants::shipped(), |file| &file.constants);
        self.conditioned.get().unwrap_or_else(fitted)
    }

    /// Reads the measured runs of `--runs`, or of the repository that these manifests lie in; prints which of
    /// their rows are not used.
    ///
    /// # Errors
    ///
    /// If the file of `--runs` cannot be read or is not a table of runs, with a message. A table of the
    /// repository that cannot be used is a warning.
    pub(crate) fn read_runs(&self, io: &mut Io, manifests: &[String]) -> Result<(), String> {
        let (name, text) = match &self.runs {
            Some(path) => {
                let name = path.display().to_string();
                let text = read_named_text(path, MOST_TABLE_BYTES);
                (name.clone(), text.map_err(|error| format!("error: `{name}`: {}\n", describe(&error)))?)
            }
            None if self.calibration.is_some() => return Ok(()),
            None => match read_runs_file(&runs_file(manifests)) {
                Ok(Some(text)) => (RUNS_FILE.to_owned(), text),
                Ok(None) => return Ok(()),
                Err(error) => {
                    io.note(&format!("warning: `{RUNS_FILE}` is not used: {}\n", describe(&error)));
                    return Ok(());
                }
            },
        };
        self.condition_on(io, name, &text)
    }

    /// Uses the measured runs of a table.
    pub(crate) fn condition_on(&self, io: &mut Io, name: String, text: &str) -> Result<(), String> {
        let own = match own_runs(text) {
            Ok(own) => own,
            Err(why) if self.runs.is_some() => {
                return Err(format!("error: `{name}` is not a table of runs: {why}\n"));
            }
            Err(why) => {
                io.note(&format!("warning: `{name}` is not used: it is not a table of runs: {why}\n"));
                return Ok(());
            }
        };
        for warning in &own.warnings {
            io.note(&format!(
                "warning: `{name}` {}\n",
                warning.chars().take(MOST_WARNING).collect::<String>()
            ));
        }
        if !own.runs.is_empty() || !own.finished.is_empty() {
            let constants = self.constants().with_evidence(name, own.runs, own.finished);
            // Read once for each command.
            let _ = self.conditioned.set(constants);
        }
        Ok(())
    }

    /// Returns the constants that replace the shipped ones.
    fn own_constants(&self) -> Option<Constants> {
        let fitted = || self.calibration.as_ref().map(|file| &file.constants);
        self.conditioned.get().or_else(fitted).cloned()
    }

    /// Returns the options of the compiler.
    pub(crate) fn options(&self, io: &Io, complete: bool) -> Options {
        Options {
            choices: Choices {
                env: self.env.clone(),
                sets: self.sets.clone(),
                replaces_file_values: false,
                account: self.account.clone(),
                role_boundary: role_boundary(),
                swept: Vec::new(),
                suffix: None,
            },
            today: io.today.clone(),
            prices: self.prices.clone(),
            discount: self.discount,
            constants: self.own_constants(),
            complete,
            fetch: false,
            asks_account: false,
            later_codes: crate::later_codes(),
            worker: self.worker.clone(),
        }
    }
}

/// Returns the permissions boundary for roles of manifests without one, from `TRAINC_ROLE_BOUNDARY`.
pub(crate) fn role_boundary() -> Option<String> {
    // Text that is not UTF-8 is kept, and then reported as invalid: without it roles would have no boundary.
    let arn = std::env::var_os("TRAINC_ROLE_BOUNDARY")?;
    Some(arn.to_string_lossy().trim().to_owned()).filter(|arn| !arn.is_empty())
}
