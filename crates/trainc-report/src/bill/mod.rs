//! The bill of a change: every job's figures before and after, and the edits that changed them.

mod document;
mod format;
mod human;
mod markdown;
#[cfg(test)]
mod tests;
mod total;

pub use document::{Document, SCHEMA, document};
pub use human::human;
pub use markdown::{MARKER, markdown};

use super::shared_costs::JobFileSystem;
use schemars::JsonSchema;
use serde::Serialize;
use trainc_diag::Problems;
use trainc_diag::source::SourceMap;
use trainc_ir::{Delivery, Price};
use trainc_tune::compare::{Change, Figure, Figures};

/// The revision or path that the manifests are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The revision or path as the user wrote it.
    pub name: String,
    /// The commit of a revision.
    pub commit: Option<String>,
}

/// A job before or after the change.
#[derive(Clone, Debug)]
pub struct JobSide<'a> {
    /// Its manifest.
    pub path: &'a str,
    /// Its name, if it could be read.
    pub job: Option<&'a str>,
    /// Its figures.
    pub figures: Figures,
    /// The file systems that it creates, for its expected run time; other jobs may share them.
    pub file_systems: Vec<JobFileSystem>,
    /// The known prices of its instances.
    pub prices: Vec<&'a Price>,
    /// Its problems.
    pub problems: &'a Problems,
    /// The digest of its request, if it can be emitted.
    pub digest: Option<String>,
    /// How its settings reach the program.
    pub delivery: Option<&'a Delivery>,
}

/// A job before and after the change; one that is new or removed has one side.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Before the change.
    pub before: Option<JobSide<'a>>,
    /// After the change.
    pub after: Option<JobSide<'a>>,
    /// The edits between both sides, if both could be read.
    pub change: Option<Change>,
    /// Whether files of the program changed.
    pub program: bool,
}

/// The effect of a change on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was added.
    New,
    /// It was removed.
    Removed,
    /// A value, a file or a figure changed.
    Changed,
    /// Nothing changed.
    Unchanged,
}

impl State {
    /// Returns its name, as the JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}

/// The bill of a change.
#[derive(Clone, Debug)]
pub struct Bill<'a> {
    /// The revision or path that the manifests are compared with.
    pub base: Base,
    /// The jobs in their order, then the removed ones.
    pub jobs: Vec<Job<'a>>,
    /// The texts of both sides.
    pub sources: &'a SourceMap,
}

impl<'a> Job<'a> {
    /// Returns the effect of the change on it.
    pub fn state(&self) -> State {
        let (Some(before), Some(after)) = (&self.before, &self.after) else {
            return if self.before.is_some() { State::Removed } else { State::New };
        };
        let edited = self.change.as_ref().is_some_and(|change| !change.edits.is_empty());
        let moved = Figure::ALL.iter().any(|figure| before.figures.is_changed(&after.figures, *figure));
        let broken = before.problems.errors() != after.problems.errors();
        if edited || moved || broken || self.program { State::Changed } else { State::Unchanged }
    }

    /// Returns the side to show: after the change, or before it for a removed job.
    pub fn shown(&self) -> Option<&JobSide<'a>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Returns its name, or its path if the name could not be read.
    pub fn name(&self) -> &'a str {
        self.shown().map_or("", |seen| seen.job.unwrap_or(seen.path))
    }

    /// Returns the figure to show as its cost: a lower bound if some price is not known.
    fn cost(&self) -> Figure {
        let some = |figure: Figure| {
            let mut sides = self.before.iter().chain(&self.after);
            sides.any(|seen| {
                let get = |figure| seen.figures.get(figure);
                let known =
                    get(Figure::Cost).or_else(|| get(Figure::Least).filter(|_| figure == Figure::OnDemand));
                known.is_none() && get(figure).is_some()
            })
        };
        // Without a spot price, only the on-demand cost of the same hours is known.
        [Figure::Least, Figure::OnDemand].into_iter().find(|figure| some(*figure)).unwrap_or(Figure::Cost)
    }

    /// Returns whether one side has a cost and the other only the on-demand cost of its spot hours, so that
    /// their difference is meaningless.
    fn is_half_spot(&self) -> bool {
        let known = |side: &Option<JobSide>| {
            side.as_ref()
                .map(|seen| [Figure::Cost, Figure::Least].iter().any(|one| seen.figures.get(*one).is_some()))
        };
        let sides = known(&self.before).zip(known(&self.after));
        self.cost() == Figure::OnDemand && sides.is_some_and(|(before, after)| before != after)
    }

    /// Returns whether to show a figure: of the three cost figures, only one is shown.
    fn shows(&self, figure: Figure) -> bool {
        !matches!(figure, Figure::Cost | Figure::Least | Figure::OnDemand) || figure == self.cost()
    }

    fn figure(&self, figure: Figure) -> (Option<f64>, Option<f64>) {
        let of = |side: &Option<JobSide>| side.as_ref().and_then(|seen| seen.figures.get(figure));
        (of(&self.before), of(&self.after))
    }
}

impl Bill<'_> {
    /// Returns whether any job changed.
    pub fn differs(&self) -> bool {
        self.jobs.iter().any(|job| job.state() != State::Unchanged)
    }

    fn count(&self, state: State) -> u64 {
        self.jobs.iter().filter(|job| job.state() == state).count() as u64
    }
}
