//! The bill as JSON. Keys are only added; sizes are bytes, times seconds, money US dollars.

use super::{Bill, Job, JobSide, State, format};
use schemars::JsonSchema;
use serde::Serialize;
use trainc_diag::json::{Problem, problem};
use trainc_diag::source::SourceMap;
use trainc_ir::Price;
use trainc_predict::Interval;
use trainc_tune::compare::{Added, Figure, Place};

/// The version of the format: the major number changes with incompatible changes.
const FORMAT_VERSION: &str = "1.0";

/// The JSON Schema of [`Document`], for `trainc schema bill`.
pub const SCHEMA: &str = include_str!("../../schemas/bill.v1.json");

/// A value per figure; absent ones are left out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Figures<T> {
    /// Cost of the run, US dollars; null if a price is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub cost_usd: Option<T>,
    /// Free memory of the fullest GPU at the peak, bytes; below zero if it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub headroom_bytes: Option<T>,
    /// Cost of everything with a known price, US dollars: a lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub least_usd: Option<T>,
    /// Cost of a run until max-run, of everything with a known price, US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub most_usd: Option<T>,
    /// Instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub nodes: Option<T>,
    /// Cost of the expected hours, including work lost to interruptions, at on-demand prices, US dollars:
    /// spot instances without a known price cost less.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub on_demand_usd: Option<T>,
    /// Billed seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub seconds: Option<T>,
    /// Time of an optimizer step, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub step_seconds: Option<T>,
    /// Tokens per second of the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "T")]
    pub tokens_per_second: Option<T>,
}

/// Figures of which unknown ones are null.
type Named = Figures<Option<f64>>;

impl<T> Figures<T> {
    fn new(value: impl Fn(Figure) -> Option<T>) -> Self {
        Self {
            cost_usd: value(Figure::Cost),
            headroom_bytes: value(Figure::Headroom),
            least_usd: value(Figure::Least),
            most_usd: value(Figure::Most),
            nodes: value(Figure::Nodes),
            on_demand_usd: value(Figure::OnDemand),
            seconds: value(Figure::Time),
            step_seconds: value(Figure::Step),
            tokens_per_second: value(Figure::Tokens),
        }
    }
}

/// The output of `trainc plan --against REF|FILE -o json`: the bill of a change. Sizes are bytes, times
/// seconds, money US dollars. An unknown figure is null. Both sides are predicted by the same version of
/// trainc at the same prices. Members are only added: readers must ignore unknown members, and only a new
/// major number of `format_version` removes members.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "trainc bill, version 1")]
pub struct Document {
    /// Major and minor version of this format.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    pub format_version: &'static str,
    /// The version of trainc that wrote it.
    pub trainc_version: &'static str,
    /// The date of the catalogue.
    pub catalog_version: &'static str,
    /// The revision or path that the manifests are compared with.
    pub against: Against,
    /// Sums over all jobs whose cost is known on each of their sides. Null if there is no such job: the sum
    /// is then unknown, not $0.
    pub total: Total,
    /// All jobs: first the current ones, then the removed ones.
    pub jobs: Vec<Line>,
}

/// The revision or path that the manifests are compared with.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Against {
    /// The revision or path as the user wrote it.
    pub name: String,
    /// The commit of a revision; null for a file.
    pub commit: Option<String>,
}

/// Sums over all jobs whose cost is known on each of their sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Total {
    /// Before; null if no job is counted.
    pub before_usd: Option<f64>,
    /// After; null if no job is counted.
    pub after_usd: Option<f64>,
    /// After minus before; null if no job is counted.
    pub difference_usd: Option<f64>,
    /// Jobs without a known cost on a side: the sums exclude them, so a gate on `difference_usd` must require
    /// 0 here.
    pub jobs_not_counted: u64,
    /// Sums over the uncounted jobs with on-demand prices, at these prices: spot instances, whose prices are
    /// not known in advance, cost less for the same hours, lost work included; null without such jobs.
    pub on_demand: Option<OnDemand>,
    /// Names of file systems that several counted jobs share: each is in the sums once, at the largest size
    /// that any job requests, for the longest of their runs.
    pub file_systems_counted_once: Vec<String>,
}

/// Sums at on-demand prices.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OnDemand {
    /// Number of these jobs.
    #[schemars(range(min = 1))]
    pub jobs: u64,
    /// Before.
    pub before_usd: f64,
    /// After.
    pub after_usd: f64,
    /// After minus before; null if a job is on spot on only one side, since the difference is then
    /// meaningless.
    pub difference_usd: Option<f64>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Line {
    /// The job's name, or its former name if it was removed; null if it could not be read.
    pub job: Option<String>,
    /// Its manifest.
    pub path: String,
    /// The effect of the change on it.
    pub state: State,
    /// Before the change; null for a new job.
    pub before: Option<Side>,
    /// After the change; null for a removed job.
    pub after: Option<Side>,
    /// After minus before, if both are known.
    pub difference: Named,
    /// Whether files of the program changed; the cost model does not read them.
    pub program_changed: bool,
    /// Every changed value, in the order of the new manifest.
    pub edits: Vec<Edit>,
    /// The edits that change a figure, the most expensive first.
    pub shares: Vec<Share>,
    /// The whole difference minus the effects of each share alone: not zero if edits interact. null if a
    /// share could not be computed alone.
    pub together: Option<Named>,
    /// Notes.
    pub notes: Vec<String>,
}

/// A job before or after the change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// The job's name; null if it could not be read.
    pub job: Option<String>,
    /// The manifest.
    pub path: String,
    /// The instance type.
    pub instance: Option<String>,
    /// GPUs of the whole cluster.
    pub world_size: Option<u64>,
    /// The figures; unknown ones are null.
    pub figures: Named,
    /// 90 % intervals by the name of the figure.
    pub intervals: Figures<Interval>,
    /// The known prices of its instances. US dollars per hour, the region and date of the catalogue row (null
    /// for a price of the user), and the source.
    pub prices: Vec<Price>,
    /// All problems of this side, in the format of `check -o json`.
    pub problems: Vec<Problem>,
}

/// An edit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Edit {
    /// The path of the value, as `cluster.nodes`.
    pub path: String,
    /// null if the value did not exist.
    pub before: Option<Written>,
    /// null if the value did not exist.
    pub after: Option<Written>,
    /// Whether it changes a figure; null if that was not computed.
    pub moves_figures: Option<bool>,
}

/// A value as written.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Written {
    /// The text: the value, or the node with its content.
    pub text: String,
    /// The file, or the flag that set the value; for a revision in git notation, `main:jobs/a.kdl`.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// An edit, or several that are only valid together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    /// Positions in `edits`, from 0.
    pub edits: Vec<usize>,
    /// Its effect on the job before the change; null if the job is not valid with it alone.
    pub alone: Option<Named>,
    /// Its effect on top of all other edits; null if the job is not valid without it.
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
        state: job.state(),
        before: job.before.as_ref().map(|seen| side(sources, seen)),
        after: job.after.as_ref().map(|seen| side(sources, seen)),
        difference: Figures::new(|figure| {
            let (before, after) = job.figure(figure);
            Some(before.zip(after).map(|(before, after)| after - before))
        }),
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
    Figures::new(|figure| Some(Some(*added.get(&figure)?)))
}

fn side(sources: &SourceMap, seen: &JobSide) -> Side {
    let figures = &seen.figures;
    Side {
        job: seen.job.map(str::to_owned),
        path: seen.path.to_owned(),
        instance: figures.instance.clone(),
        world_size: figures.gpus,
        figures: Figures::new(|figure| Some(figures.get(figure))),
        prices: seen.prices.iter().copied().cloned().collect(),
        intervals: Figures::new(|figure| figures.interval(figure)),
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
