//! A saved plan: exactly the changes that apply will make, as long as nothing has changed.

mod drift;

use super::change::{Choices, Target};
use super::prospect::Prospect;
use super::verdict::Verdict;
use drift::{drift, fingerprints, steps};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic};

declare_code!(T0612, "stale-plan", Error, "a saved plan that is out of date", found_in: Account);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0612];

/// Identifies the file as a saved plan.
pub const MARK: &str = "trainc-saved-plan";

/// Format version of saved plans; other major versions are rejected.
const FORMAT: &str = "3.0";

/// Overrides of the manifest on the command line. When the plan is applied, exactly these are used again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overrides {
    /// Overridden values (`--set`).
    pub sets: Vec<String>,
    /// Environment (`--env`).
    pub env: Option<String>,
    /// Account ID, if the manifest has none.
    #[serde(default)]
    pub for_account: Option<String>,
    /// Path of the worker's binary, as given.
    #[serde(default)]
    pub worker: Option<String>,
    /// Path of the file of constants, as given.
    #[serde(default)]
    pub calibration: Option<String>,
    /// Path of the table of measured runs, as given.
    #[serde(default)]
    pub runs: Option<String>,
    /// Prices: item, such as an instance type, and US dollars per unit.
    #[serde(default)]
    pub prices: Vec<(String, f64)>,
    /// Discount, a fraction.
    #[serde(default)]
    pub discount: Option<f64>,
}

/// A saved plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// [`MARK`].
    pub kind: String,
    /// Format version.
    pub format_version: String,
    /// Version of trainc that saved it.
    pub trainc_version: String,
    /// Version of the catalogue that it was made with.
    pub catalog_version: String,
    /// Path of the manifest, as given.
    pub manifest: String,
    /// SHA-256 of the manifest's bytes.
    pub manifest_sha256: String,
    /// Overrides on the command line.
    #[serde(flatten)]
    pub given: Overrides,
    /// Account ID.
    pub account: String,
    /// The jobs of the manifest by name: one, or each job of a sweep.
    pub jobs: BTreeMap<String, SavedJob>,
    /// True with `--adopt`.
    pub adopt: bool,
    /// True with `--new-run`.
    pub new_run: bool,
}

/// Only the format version.
#[derive(Deserialize)]
struct FormatVersion {
    format_version: String,
}

/// One job of a saved plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedJob {
    /// Digest of the job, over the request and the source.
    pub digest: String,
    /// Planned steps, by resource.
    pub steps: BTreeMap<String, Step>,
    /// Fingerprints of existing resources: the parts that trainc does not change.
    pub seen: BTreeMap<String, String>,
    /// Number of the run to start, from 1; `None` if the job exists.
    pub run: Option<usize>,
    /// True if the plan makes changes.
    pub changes: bool,
}

impl SavedJob {
    fn new(prospect: &Prospect) -> Self {
        Self {
            digest: prospect.desired.digest.clone(),
            steps: steps(prospect),
            seen: fingerprints(prospect).into_iter().map(|(key, seen)| (key, seen.now)).collect(),
            run: match &prospect.target {
                Target::Start(name) => prospect.desired.run_number(name),
                Target::Attach(_) | Target::Blocked(_) => None,
            },
            changes: !prospect.is_empty(),
        }
    }
}

/// The saved step for one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// The word of the action, such as `create`.
    pub action: String,
    /// Differences, each as a digest of the setting, its value in the account and its value in the plan.
    pub differences: BTreeSet<String>,
}

/// The manifest of a saved plan, and its overrides.
#[derive(Clone, Debug, Default)]
pub struct SavedPlanSource {
    /// Path of the manifest, as given.
    pub manifest: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Overrides on the command line.
    pub given: Overrides,
}

impl SavedPlan {
    /// Parses a saved plan; `None` if the text is not one, an error message if it cannot be read.
    pub fn read(text: &str) -> Option<Result<Self, String>> {
        if !text.trim_start().starts_with('{') || !text.contains(MARK) {
            return None;
        }
        let whole = |version: &str| version.split('.').next().map(str::to_owned);
        // The format version is checked first, since other formats have other members.
        let form = serde_json::from_str::<FormatVersion>(text).map(|form| form.format_version);
        Some(match (form, serde_json::from_str(text)) {
            (Ok(form), _) if whole(&form) != whole(FORMAT) => {
                Err(format!("its format is {form}, but this version of trainc reads {FORMAT}"))
            }
            (_, read) => read.map_err(|error| error.to_string()),
        })
    }

    /// Creates a saved plan from the comparison of one manifest's jobs with the account.
    pub fn new(source: &SavedPlanSource, prospects: &[&Prospect], choices: Choices) -> Self {
        let account = prospects.first().map(|prospect| prospect.desired.account.clone());
        let jobs = prospects.iter().map(|one| (one.desired.job.clone(), SavedJob::new(one)));
        Self {
            kind: MARK.to_owned(),
            format_version: FORMAT.to_owned(),
            trainc_version: env!("CARGO_PKG_VERSION").to_owned(),
            catalog_version: trainc_catalog::VERSION.to_owned(),
            manifest: source.manifest.clone(),
            manifest_sha256: source.sha256.clone(),
            given: source.given.clone(),
            account: account.unwrap_or_default(),
            jobs: jobs.collect(),
            adopt: choices.adopt,
            new_run: choices.new_run,
        }
    }

    /// Returns the user's choices for a job.
    pub fn choices(&self, job: &str) -> Choices {
        let run = self.jobs.get(job).and_then(|job| job.run);
        Choices { adopt: self.adopt, new_run: self.new_run, run }
    }

    /// Returns why the plan is out of date for a job: the first change other than those that this plan itself
    /// made; `None` if it is current. `jobs` are the names of the jobs that the manifest describes now.
    pub fn stale_reason(&self, manifest_sha256: &str, prospect: &Prospect, jobs: &[&str]) -> Option<String> {
        if self.catalog_version != trainc_catalog::VERSION {
            return Some(format!(
                "the catalogue is {} now and was {} when the plan was saved",
                trainc_catalog::VERSION,
                self.catalog_version
            ));
        }
        if self.manifest_sha256 != manifest_sha256 {
            return Some(format!("`{}` has changed since", self.manifest));
        }
        if self.account != prospect.desired.account {
            return Some(format!(
                "it was saved for account {}, but the credentials belong to {}",
                self.account, prospect.desired.account
            ));
        }
        let described = self.jobs.keys().all(|name| jobs.contains(&name.as_str()));
        let saved = self.jobs.get(&prospect.desired.job).filter(|_| described);
        let Some(saved) = saved.filter(|saved| saved.digest == prospect.desired.digest) else {
            return Some(
                "the program's files, the worker or a layer of the manifest have changed since".to_owned(),
            );
        };
        drift(saved, prospect, self.choices(&prospect.desired.job))
    }
}

/// Returns the diagnostic for an outdated saved plan of a job; `command` saves it again.
pub fn stale_plan_verdict(plan: &trainc_ir::Plan, why: &str, command: &str) -> Verdict {
    let span = plan.job.name.span().unwrap_or(plan.job.span);
    Verdict {
        diagnostic: Diagnostic::new(&T0612, span, format!("the saved plan is out of date: {why}"))
            .help(format!("save it again: {command}"))
            .note("`apply` executes a saved plan exactly as it was saved, or not at all"),
        exit: super::verdict::exit::DIFFERENT,
        flag: None,
    }
}
