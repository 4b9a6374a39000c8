//! The bill as JSON. Keys are only added; sizes are bytes, times seconds, money US dollars.

use super::{Bill, Job, JobSide, format};
use crate::json::Price;
use serde::Serialize;
use std::collections::BTreeMap;
use trainc_diag::json::{Problem, problem};
use trainc_diag::source::SourceMap;
use trainc_tune::compare::{Added, Figure, Place};

/// The version of the format: the major number changes with incompatible changes.
const FORMAT_VERSION: &str = "1.0";

/// The JSON Schema of [`Document`], for `trainc schema bill`.
pub const SCHEMA: &str = include_str!("../../schemas/bill.v1.json");

/// Figures by name; unknown ones are null.
type Named = BTreeMap<&'static str, Option<f64>>;

/// The bill of a change for scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "schemas/bill.v1.json says what each member is")]
pub struct Document {
    pub format_version: &'static str,
    pub trainc_version: &'static str,
    pub catalog_version: &'static str,
    pub against: Against,
    pub total: Total,
    pub jobs: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    pub name: String,
    pub commit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Total {
    pub before_usd: Option<f64>,
    pub after_usd: Option<f64>,
    pub difference_usd: Option<f64>,
    pub jobs_not_counted: u64,
    pub on_demand: Option<OnDemand>,
    pub file_systems_counted_once: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnDemand {
    pub jobs: u64,
    pub before_usd: f64,
    pub after_usd: f64,
    pub difference_usd: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub job: Option<String>,
    pub path: String,
    pub state: &'static str,
    pub before: Option<Side>,
    pub after: Option<Side>,
    pub difference: Named,
    pub program_changed: bool,
    pub edits: Vec<Edit>,
    pub shares: Vec<Share>,
    pub together: Option<Named>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    pub job: Option<String>,
    pub path: String,
    pub instance: Option<String>,
    pub world_size: Option<u64>,
    pub figures: Named,
    pub intervals: BTreeMap<&'static str, Interval>,
    pub prices: Vec<Price>,
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Edit {
    pub path: String,
    pub before: Option<Written>,
    pub after: Option<Written>,
    pub moves_figures: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Written {
    pub text: String,
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub start: u32,
    pub end: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    pub edits: Vec<usize>,
    pub alone: Option<Named>,
    pub on_top: Option<Named>,
}

/// Returns the bill for scripts.
pub fn document(bill: &Bill) -> Document {
    let total = bill.total();
    Document {
        format_version: FORMAT_VERSION,
        trainc_version: env!("CARGO_PKG_VERSION"),
        catalog_version: trainc_catalog::VERSION,
        against: Against { name: bill.base.name.clone(), commit: bill.base.commit.clone() },
        total: Total {
            before_usd: total.cost.usd.map(|(before, _)| before),
            after_usd: total.cost.usd.map(|(_, after)| after),
            difference_usd: total.cost.usd.map(|(before, after)| after - before),
            jobs_not_counted: total.on_demand.jobs + total.unknown,
            on_demand: total.on_demand.usd.map(|(before, after)| OnDemand {
                jobs: total.on_demand.jobs,
                before_usd: before,
                after_usd: after,
                difference_usd: (!bill.jobs.iter().any(Job::is_half_spot)).then_some(after - before),
            }),
            file_systems_counted_once: total.cost.shared.names.into_iter().collect(),
        },
        jobs: bill.jobs.iter().map(|job| line(bill.sources, job)).collect(),
    }
}

fn line(sources: &SourceMap, job: &Job) -> Line {
    let change = job.change.as_ref();
    let shares = change.map(|change| &change.shares);
    let edits = change.map_or(&[][..], |change| change.edits.as_slice());
    let moves = |at: usize| {
        let shares = shares?;
        let tried = shares.inert.contains(&at) || shares.shares.iter().any(|share| share.edits.contains(&at));
        tried.then(|| !shares.inert.contains(&at))
    };
    Line {
        job: job.shown().and_then(|seen| seen.job).map(str::to_owned),
        path: job.shown().map_or_else(String::new, |seen| seen.path.to_owned()),
        state: job.state().word(),
        before: job.before.as_ref().map(|seen| side(sources, seen)),
        after: job.after.as_ref().map(|seen| side(sources, seen)),
        difference: Figure::ALL
            .into_iter()
            .map(|figure| {
                let (before, after) = job.figure(figure);
                (figure.as_str(), before.zip(after).map(|(before, after)| after - before))
            })
            .collect(),
        program_changed: job.program,
        edits: edits
            .iter()
            .enumerate()
            .map(|(at, edit)| Edit {
                path: edit.path.clone(),
                before: edit.before.map(|place| written(sources, place)),
                after: edit.after.map(|place| written(sources, place)),
                moves_figures: moves(at),
            })
            .collect(),
        shares: shares
            .iter()
            .flat_map(|shares| &shares.shares)
            .map(|share| Share {
                edits: share.edits.clone(),
                alone: share.alone.as_ref().map(figures_by_key),
                on_top: share.last.as_ref().map(figures_by_key),
            })
            .collect(),
        together: shares
            .filter(|shares| shares.complete && !shares.shares.is_empty())
            .map(|shares| figures_by_key(&shares.together)),
        notes: format::notes(sources, job),
    }
}

fn figures_by_key(added: &Added) -> Named {
    added.iter().map(|(figure, by)| (figure.as_str(), Some(*by))).collect()
}

fn side(sources: &SourceMap, seen: &JobSide) -> Side {
    let figures = &seen.figures;
    Side {
        job: seen.job.map(str::to_owned),
        path: seen.path.to_owned(),
        instance: figures.instance.clone(),
        world_size: figures.gpus,
        figures: Figure::ALL.into_iter().map(|figure| (figure.as_str(), figures.get(figure))).collect(),
        prices: seen.prices.iter().map(|one| Price::from(*one)).collect(),
        intervals: Figure::ALL
            .into_iter()
            .filter_map(|figure| {
                let interval = figures.interval(figure)?;
                Some((figure.as_str(), Interval { low: interval.low, high: interval.high }))
            })
            .collect(),
        problems: seen.problems.iter().map(|one| problem(sources, one)).collect(),
    }
}

fn written(sources: &SourceMap, place: Place) -> Written {
    let (file, (line, column)) = sources.get(place.at.source).map_or_else(
        || (String::new(), (1, 1)),
        |source| (source.name.to_string(), source.line_column(place.at.start)),
    );
    Written {
        text: sources.slice(place.text).to_owned(),
        file,
        line,
        column,
        start: place.at.start,
        end: place.at.end,
    }
}
