//! The bill of a change: every job's figures before and after, and the edits that moved them.

mod document;
mod human;
mod markdown;
#[cfg(test)]
mod tests;
mod total;
mod words;

pub use document::{Document, SCHEMA, document};
pub use human::human;
pub use markdown::{MARKER, markdown};

use super::shared_costs::JobFileSystem;
use trainc_diag::Problems;
use trainc_diag::source::SourceMap;
use trainc_tune::compare::{Change, Figure, Figures};

/// What the manifests are held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// A revision or a path, as it was written.
    pub name: String,
    /// The commit that a revision is.
    pub commit: Option<String>,
}

/// A job on one side.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// Its manifest.
    pub path: &'a str,
    /// Its name, if it could be read.
    pub job: Option<&'a str>,
    /// Its figures.
    pub figures: Figures,
    /// The file systems that it makes, which other jobs may share, for as long as its run is expected to take.
    pub made: Vec<JobFileSystem>,
    /// Its problems.
    pub problems: &'a Problems,
}

/// A job on both sides, or on one.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// As it was.
    pub before: Option<Seen<'a>>,
    /// As it is.
    pub after: Option<Seen<'a>>,
    /// The edits between the two, where both could be read.
    pub change: Option<Change>,
    /// Whether the program's files are others.
    pub program: bool,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was not there before.
    New,
    /// It is not there any more.
    Removed,
    /// A value, a file or a figure is another.
    Changed,
    /// Nothing is another.
    Unchanged,
}

impl State {
    /// The word for it.
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
    /// What the manifests are held against.
    pub base: Base,
    /// The jobs: those that are there in their order, then those that are gone.
    pub jobs: Vec<Job<'a>>,
    /// The texts of both sides.
    pub sources: &'a SourceMap,
}

impl<'a> Job<'a> {
    /// What became of it.
    pub fn state(&self) -> State {
        let (Some(before), Some(after)) = (&self.before, &self.after) else {
            return if self.before.is_some() { State::Removed } else { State::New };
        };
        let edited = self.change.as_ref().is_some_and(|change| !change.edits.is_empty());
        let moved = Figure::ALL.iter().any(|figure| before.figures.moved(&after.figures, *figure));
        let broken = before.problems.errors() != after.problems.errors();
        if edited || moved || broken || self.program { State::Changed } else { State::Unchanged }
    }

    /// The side that is shown: as it is, or as it was where it is gone.
    pub fn shown(&self) -> Option<&Seen<'a>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// Its name, or its path where the name could not be read.
    pub fn name(&self) -> &'a str {
        self.shown().map_or("", |seen| seen.job.unwrap_or(seen.path))
    }

    /// The figure that is its cost: where something of it has no price, what it costs at least.
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
        // Of spot instances that have no price nothing is sure but what the same hours cost on demand.
        [Figure::Least, Figure::OnDemand].into_iter().find(|figure| some(*figure)).unwrap_or(Figure::Cost)
    }

    /// Whether one side has a cost and of the other only what its hours on spot would cost on demand: the difference of the
    /// two is of what nobody pays.
    fn is_half_spot(&self) -> bool {
        let known = |side: &Option<Seen>| {
            side.as_ref()
                .map(|seen| [Figure::Cost, Figure::Least].iter().any(|one| seen.figures.get(*one).is_some()))
        };
        let sides = known(&self.before).zip(known(&self.after));
        self.cost() == Figure::OnDemand && sides.is_some_and(|(before, after)| before != after)
    }

    /// Whether a figure is one to show: of the three that say the cost only one is.
    fn shows(&self, figure: Figure) -> bool {
        !matches!(figure, Figure::Cost | Figure::Least | Figure::OnDemand) || figure == self.cost()
    }

    fn figure(&self, figure: Figure) -> (Option<f64>, Option<f64>) {
        let of = |side: &Option<Seen>| side.as_ref().and_then(|seen| seen.figures.get(figure));
        (of(&self.before), of(&self.after))
    }
}

impl Bill<'_> {
    /// Whether anything is another.
    pub fn differs(&self) -> bool {
        self.jobs.iter().any(|job| job.state() != State::Unchanged)
    }

    fn count(&self, state: State) -> u64 {
        self.jobs.iter().filter(|job| job.state() == state).count() as u64
    }
}
