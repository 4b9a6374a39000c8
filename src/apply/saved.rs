//! A saved plan: what apply will do and nothing else, as long as nothing has moved.

use super::diff::Choices;
use super::prospect::Prospect;
use super::verdict::Verdict;
use crate::declare_code;
use crate::diag::{Code, Diagnostic};
use serde::{Deserialize, Serialize};

declare_code!(T0612, "stale-plan", Error, "a saved plan that no longer holds");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0612];

/// The word by which a saved plan is known.
pub const MARK: &str = "trainc-saved-plan";

/// A plan as it was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Values laid over it.
    pub sets: Vec<String>,
    /// The environment laid over it.
    pub env: Option<String>,
    /// The account.
    pub account: String,
    /// The job's digest: over the request and the source.
    pub digest: String,
    /// What was observed and would be done, as a digest.
    pub fingerprint: String,
    /// Whether anything would be done.
    pub changes: bool,
    /// Whether foreign objects are taken over.
    pub adopt: bool,
    /// Whether another run is started.
    pub new_run: bool,
}

/// What a plan is saved with beside what was observed.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The manifest, as it was named.
    pub manifest: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Values laid over it.
    pub sets: Vec<String>,
    /// The environment laid over it.
    pub env: Option<String>,
}

impl SavedPlan {
    /// Saves what was seen.
    pub fn of(input: &Input, prospect: &Prospect, choices: Choices) -> Self {
        Self {
            kind: MARK.to_owned(),
            format_version: "1.0".to_owned(),
            trainc_version: env!("CARGO_PKG_VERSION").to_owned(),
            catalog_version: crate::catalog::VERSION.to_owned(),
            manifest: input.manifest.clone(),
            manifest_sha256: input.sha256.clone(),
            sets: input.sets.clone(),
            env: input.env.clone(),
            account: prospect.desired.account.clone(),
            digest: prospect.desired.digest.clone(),
            fingerprint: prospect.fingerprint(),
            changes: !prospect.is_empty(),
            adopt: choices.adopt,
            new_run: choices.new_run,
        }
    }

    /// What the user chose.
    pub fn choices(&self) -> Choices {
        Choices { adopt: self.adopt, new_run: self.new_run, after_capacity: false }
    }

    /// Why it no longer holds, if so: the first thing that moved.
    pub fn stale(&self, manifest_sha256: &str, prospect: &Prospect) -> Option<String> {
        if self.catalog_version != crate::catalog::VERSION {
            return Some(format!(
                "the catalogue is {} now, and was {}",
                crate::catalog::VERSION,
                self.catalog_version
            ));
        }
        if self.manifest_sha256 != manifest_sha256 {
            return Some(format!("`{}` was changed since", self.manifest));
        }
        if self.account != prospect.desired.account {
            return Some(format!(
                "it was made for account {}, and the credentials are of {}",
                self.account, prospect.desired.account
            ));
        }
        if self.digest != prospect.desired.digest {
            return Some("the program's files or a layer of the manifest were changed since".to_owned());
        }
        (self.fingerprint != prospect.fingerprint())
            .then(|| "what is in the account was changed since: something else would be done now".to_owned())
    }
}

/// A saved plan that no longer holds, at the job that it was made for.
pub fn stale(plan: &crate::ir::Plan, why: &str) -> Verdict {
    let span = plan.job.name.span().unwrap_or(plan.job.span);
    Verdict {
        diagnostic: Diagnostic::new(&T0612, span, format!("the saved plan no longer holds: {why}"))
            .help("save it again: trainc plan --save")
            .note("a saved plan leaves no choice to apply: it is done as it was seen, or not at all"),
        exit: super::verdict::exit::DIFFERENT,
    }
}
