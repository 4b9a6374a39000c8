//! A saved plan: what apply will do and nothing else, as long as nothing has moved.

mod drift;

use super::change::{Choices, Target};
use super::prospect::Prospect;
use super::verdict::Verdict;
use drift::{drift, fingerprints, steps};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic};

declare_code!(T0612, "stale-plan", Error, "a saved plan that is out of date");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0612];

/// The word by which a saved plan is known.
pub const MARK: &str = "trainc-saved-plan";

/// The form of saved plans; one of another whole number is not read.
const FORMAT: &str = "3.0";

/// What was laid over the manifest on the command line: all of it counts again when the plan is applied, and nothing
/// else does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overrides {
    /// Values laid over it.
    pub sets: Vec<String>,
    /// The environment laid over it.
    pub env: Option<String>,
    /// The account that was named, where the manifest names none.
    #[serde(default)]
    pub for_account: Option<String>,
    /// The worker's binary, as it was named.
    #[serde(default)]
    pub worker: Option<String>,
    /// The file of constants, as it was named.
    #[serde(default)]
    pub calibration: Option<String>,
    /// Prices: instance type and US dollars per hour.
    #[serde(default)]
    pub prices: Vec<(String, f64)>,
    /// A discount, a fraction.
    #[serde(default)]
    pub discount: Option<f64>,
}

/// A plan as it was saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// [`MARK`].
    pub kind: String,
    /// The version of this form.
    pub format_version: String,
    /// The version of trainc that saved it.
    pub trainc_version: String,
    /// The catalogue that it was made with.
    pub catalog_version: String,
    /// The manifest, as it was named.
    pub manifest: String,
    /// SHA-256 of the manifest's bytes.
    pub manifest_sha256: String,
    /// Its command-line overrides.
    #[serde(flatten)]
    pub given: Overrides,
    /// The account.
    pub account: String,
    /// The jobs that the manifest describes, by name: one, or each of a sweep.
    pub jobs: BTreeMap<String, SavedJob>,
    /// True if foreign objects are taken over.
    pub adopt: bool,
    /// True if another run is started.
    pub new_run: bool,
}

/// The version alone.
#[derive(Deserialize)]
struct FormatVersion {
    format_version: String,
}

/// One job of a saved plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedJob {
    /// The job's digest: over the request and the source.
    pub digest: String,
    /// Returns the planned steps, by resource.
    pub steps: BTreeMap<String, Step>,
    /// What was seen of each resource that was there, as digests by resource: what trainc leaves as it is.
    pub seen: BTreeMap<String, String>,
    /// The number of the run that would be started, from 1; `None` if one exists.
    pub run: Option<usize>,
    /// True if anything would be done.
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
    /// The word of the action, as `create`.
    pub action: String,
    /// What differs, each as a digest of the setting, of what was found and of what is wanted.
    pub differences: BTreeSet<String>,
}

/// The manifest of a saved plan, and its overrides.
#[derive(Clone, Debug, Default)]
pub struct SavedPlanSource {
    /// The manifest, as it was named.
    pub manifest: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Its command-line overrides.
    pub given: Overrides,
}

impl SavedPlan {
    /// A saved plan out of a text, if it is one; else why it cannot be read, as words for people.
    pub fn read(text: &str) -> Option<Result<Self, String>> {
        if !text.trim_start().starts_with('{') || !text.contains(MARK) {
            return None;
        }
        let whole = |version: &str| version.split('.').next().map(str::to_owned);
        // Another form has other members: it is named before any of them is missed.
        let form = serde_json::from_str::<FormatVersion>(text).map(|form| form.format_version);
        Some(match (form, serde_json::from_str(text)) {
            (Ok(form), _) if whole(&form) != whole(FORMAT) => {
                Err(format!("its format is {form}, but this version of trainc reads {FORMAT}"))
            }
            (_, read) => read.map_err(|error| error.to_string()),
        })
    }

    /// Saves what was seen of the jobs of one manifest.
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

    /// Why it no longer holds for a job, if so: the first thing that moved. What this plan itself has made or changed
    /// has not. The manifest describes jobs of these names now.
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

/// A saved plan that no longer holds, at the job that it was made for; `command` saves it again.
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
