//! Checks the layouts to show: each is compiled as it would be written.

use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::{Diagnostic, Problems, Severity};
use trainc_plan::Compiled;
use trainc_plan::Options;
use trainc_predict::{Constants, Fit};
use trainc_project::loaded_manifest::LoadedManifest;
use trainc_tune::fitting::has_same_shape;
use trainc_tune::front::Measure;
use trainc_tune::unranked::{MAX_COMPILED, REFUSALS_PER_TYPE, Rejection, Unranked};
use trainc_tune::{self as tune, Choice, Limits, Point, Refusal, Space, Status, front_to_show};

/// Maximum number of layouts shown.
const SHOWN: usize = 12;

/// Number of layouts with an error that the manifest has too, in the same words, after which the search ends
/// if none has passed.
const OWN_ERRORS: usize = 8;

/// A member of the front whose compilation has no errors.
pub struct Sound {
    /// Its index in the points.
    pub at: usize,
    /// Its compilation.
    pub compiled: Compiled,
    /// Codes of warnings that the unchanged manifest does not have.
    pub warnings: Vec<String>,
}

impl Sound {
    /// Returns the upper bound of the predicted memory in bytes if it exceeds the GPU memory: the layout fits
    /// by the estimate, but with less room than the model's error.
    pub fn high_memory_if_tight(&self) -> Option<f64> {
        let memory = self.compiled.prediction.memory.as_ref()?;
        (memory.fit()? != Fit::Surely).then_some(memory.interval.high)
    }
}

/// The result of the search and of the checks.
pub struct CheckedLayouts {
    /// Every layout of the search space.
    pub points: Vec<Point>,
    /// The valid layouts that no equally certain one dominates: those that surely fit first, each the fastest
    /// first.
    pub front: Vec<Sound>,
    /// Rejected members of the front, one per reason, as index in the points.
    pub refused: Vec<(usize, Refusal)>,
    /// Number of rejected layouts, including those of the same shape as a rejected one or of a rejected
    /// instance type.
    pub dropped: usize,
    /// True if there were too many to check them all.
    pub cut: bool,
    /// Instance types without a valid layout, of which some were rejected because of the type.
    off_types: BTreeSet<usize>,
}

impl CheckedLayouts {
    /// Returns the number of layouts that are predicted to fit, within the bounds or not.
    pub fn count_fitting(&self) -> usize {
        use Status::{NeverFinishes, Refused, TooExpensive, TooLate, Valid};
        self.count(&[Valid, TooLate, TooExpensive, NeverFinishes, Refused])
    }

    /// Returns the number of those within the bounds of time and cost.
    pub fn count_within_bounds(&self) -> usize {
        self.count(&[Status::Valid, Status::Refused])
    }

    /// Returns the instance type of the layouts that exceed the cost bound, if none of them has a known
    /// price.
    pub fn site_without_price(&self) -> Option<usize> {
        let mut dear = self.points.iter().filter(|point| point.status == Status::TooExpensive).peekable();
        let site = dear.peek()?.choice.site;
        dear.all(|point| point.usd.is_none() && point.most_usd.is_none()).then_some(site)
    }

    /// Describes which bounds the fitting layouts miss, if none is within the bounds.
    pub fn describe_missed_bounds(&self) -> &'static str {
        let of = |status: Status| self.points.iter().filter(move |point| point.status == status);
        let endless = of(Status::NeverFinishes).next().is_some();
        match (of(Status::TooLate).next().is_some(), of(Status::TooExpensive).next().is_some()) {
            (true, true) => "too late or too expensive",
            (true, false) => "too late",
            (false, true) if self.site_without_price().is_some() => "of unknown price",
            (false, true) if of(Status::TooExpensive).all(|point| point.usd.is_none()) => {
                "too expensive on demand; the spot price is unknown: set it with `--discount`"
            }
            (false, true) => "too expensive",
            (false, false) if endless => "interrupted too often to finish",
            (false, false) => "too late or too expensive",
        }
    }

    /// Returns the points for selecting runners-up. Layouts of a rejected instance type have status
    /// `Refused`, so that none of them appears as if only memory or a bound excluded it.
    pub fn points_with_refused_types(&self) -> Vec<Point> {
        let status = |point: &Point| {
            if self.off_types.contains(&point.choice.site) { Status::Refused } else { point.status }
        };
        self.points.iter().map(|point| Point { status: status(point), ..*point }).collect()
    }

    /// Returns the number of layouts that fit without enough room and are not rejected.
    pub fn count_tight(&self) -> usize {
        self.points_with_refused_types().iter().filter(|point| point.status == Status::Tight).count()
    }

    fn count(&self, standings: &[Status]) -> usize {
        self.points.iter().filter(|point| standings.contains(&point.status)).count()
    }

    /// Returns the number, from 1, of the layout to write by default; see [`tune::default_choice`].
    pub fn first_choice(&self) -> usize {
        let points: Vec<&Point> = self.front.iter().filter_map(|sound| self.points.get(sound.at)).collect();
        tune::default_choice(&points) + 1
    }

    /// Returns true if only some members of the front have a price.
    pub fn is_priced_in_part(&self) -> bool {
        let measure = Measure::from_points(&self.points);
        let priced =
            |sound: &Sound| self.points.get(sound.at).is_some_and(|point| measure.cost_usd(point).is_some());
        self.front.iter().any(&priced) && !self.front.iter().all(priced)
    }
}

/// Compiles the members of the front until all that are shown pass. A rejected member is replaced by those
/// that it dominates; layouts that differ from it only in batch and recomputation are rejected too.
pub fn check_layouts(
    held: &mut LoadedManifest,
    options: &Options,
    base: &Compiled,
    space: &Space,
    points: Vec<Point>,
) -> CheckedLayouts {
    let mut out = CheckedLayouts {
        points,
        front: Vec::new(),
        refused: Vec::new(),
        dropped: 0,
        cut: false,
        off_types: BTreeSet::new(),
    };
    // Points are never removed, only their status changes, so that indices stay valid.
    let mut alive = out.points.clone();
    let mut known: BTreeMap<usize, (Compiled, Vec<String>)> = BTreeMap::new();
    let mut blamed: BTreeMap<(usize, &'static str), usize> = BTreeMap::new();
    let mut own_errors = 0;
    for compiled in 0.. {
        let places = shown_places(&alive);
        let Some(at) = places.iter().copied().find(|at| !known.contains_key(at)) else {
            for at in places {
                if let Some((compiled, warnings)) = known.remove(&at) {
                    out.front.push(Sound { at, compiled, warnings });
                }
            }
            break;
        };
        if compiled >= MAX_COMPILED || out.cut {
            out.cut = true;
            break;
        }
        let Some(point) = out.points.get(at).copied() else { break };
        match compile_layout(held, options, space, &point.choice) {
            Ok(compiled) => {
                let warnings = new_warnings(base, &compiled);
                known.insert(at, (compiled, warnings));
            }
            Err(blame) => {
                let (error, at_instance) = *blame;
                let site = point.choice.site;
                let count = blamed.entry((site, error.code.id)).or_default();
                *count += usize::from(at_instance);
                let whole_site = *count >= REFUSALS_PER_TYPE;
                let (code, message) = (error.code.id.to_owned(), error.text().into_owned());
                // What is wrong with more than the layout, no layout mends.
                let is_of_manifest = |one: &Diagnostic| {
                    one.code.ends.is_none() && one.code.id == code && one.text() == message.as_str()
                };
                own_errors += usize::from(base.problems.iter().any(is_of_manifest));
                out.cut = own_errors >= OWN_ERRORS && known.is_empty();
                let alike = |(_, one): &&mut (usize, Refusal)| one.code == code && one.message == message;
                match out.refused.iter_mut().find(alike) {
                    Some((_, refusal)) => refusal.layouts += 1,
                    None => out.refused.push((at, Refusal { code, message, layouts: 1 })),
                }
                for other in &mut alive {
                    let site_is_given_up = whole_site && other.choice.site == site;
                    if other.status == Status::Valid
                        && (site_is_given_up || has_same_shape(&other.choice, &point.choice))
                    {
                        other.status = Status::Refused;
                        out.dropped += 1;
                    }
                }
            }
        }
    }
    out.points = alive;
    let stands = |site: usize| {
        let mut sound = out.points.iter().filter(|point| point.status == Status::Valid);
        sound.any(|point| point.choice.site == site)
    };
    let blamed = blamed.into_iter().filter(|(_, times)| *times > 0).map(|((site, _), _)| site);
    out.off_types = blamed.filter(|site| !stands(*site)).collect();
    out
}

/// Returns the layouts of a job whose step time cannot be predicted, each compiled as it would be written.
pub fn unranked_layouts<'a>(
    held: &mut LoadedManifest,
    options: &Options,
    base: &Compiled,
    space: &'a Space<'a>,
    (limits, constants): (&Limits, &Constants),
) -> Unranked<'a> {
    Unranked::new(space, limits, constants, |choice| {
        let compiled = compile_layout(held, options, space, choice)?;
        let warnings = new_warnings(base, &compiled);
        Ok((compiled, warnings))
    })
}

/// Returns the indices to show: the fastest of the front, including the default choice.
fn shown_places(points: &[Point]) -> Vec<usize> {
    let mut places = front_to_show(points);
    let members: Vec<&Point> = places.iter().filter_map(|at| points.get(*at)).collect();
    let taken = tune::default_choice(&members);
    let kept = places.get(taken).copied().filter(|_| taken >= SHOWN);
    places.truncate(SHOWN);
    if let Some(at) = kept {
        places.pop();
        places.push(at);
    }
    places
}

/// Returns the codes of warnings that a layout has and the unchanged manifest does not.
fn new_warnings(base: &Compiled, compiled: &Compiled) -> Vec<String> {
    let old: BTreeSet<&str> = base.problems.iter().map(|one| one.code.id).collect();
    let warnings = compiled.problems.iter().filter(|one| one.severity == Severity::Warning);
    let new: BTreeSet<&str> = warnings.map(|one| one.code.id).collect();
    new.into_iter().filter(|id| !old.contains(id)).map(str::to_owned).collect()
}

/// Compiles the manifest with a layout as overrides. Fails with the first error, and whether the instance
/// type causes it.
pub(crate) fn compile_layout(
    held: &mut LoadedManifest,
    options: &Options,
    space: &Space,
    choice: &Choice,
) -> Result<Compiled, Rejection> {
    let mut options = options.clone();
    options.choices.sets.extend(space.values_to_set(choice).iter().map(ToString::to_string));
    options.choices.replaces_file_values = true;
    let mut set = held.compile(&options);
    let compiled = set
        .manifests
        .pop()
        .map_or_else(|| Compiled::unreadable_file(Problems::default()), |manifest| manifest.compiled);
    let error = compiled.problems.iter().find(|one| one.severity == Severity::Error);
    let error = error.map(|error| error.masked(&set.sources));
    let Some(error) = error else { return Ok(compiled) };
    let cluster = compiled.plan.as_ref().and_then(|plan| plan.job.cluster.as_ref());
    let instance = cluster.and_then(|cluster| cluster.instance.span());
    let mut spans = std::iter::once(error.span).chain(error.labels.iter().map(|label| label.span));
    let at_instance = spans.any(|span| Some(span) == instance);
    Err(Box::new((error, at_instance)))
}
