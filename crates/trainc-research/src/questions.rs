//! Published figures whose sources leave more open than the micro-batch: ranges over the possible values.
//!
//! In: `questions.toml` and constants. Out: the smallest and largest prediction of each figure over the combinations that
//! fit. A figure inside its range is calibration, not evidence, and nothing is fitted to it.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use trainc_calibrate::layout_of_cells;
use trainc_predict::memory::{MemoryConstants, memory_with};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Layout};

/// Cells of a table of runs, by column.
type Cells = BTreeMap<String, String>;

/// Kind of a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Sequences per second of the whole cluster.
    SamplesPerSecond,
    /// Speedup over another run.
    TimesAsFast,
    /// Seconds of several steps, with the startup if the figure counts it.
    Seconds,
}

/// Entry of `questions.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    what: String,
    source: String,
    figure: Figure,
    case: Vec<Case>,
    cells: Cells,
    over: Option<Cells>,
    open: Vec<OpenProperty>,
    #[serde(default)]
    over_open: Vec<OpenProperty>,
}

/// A published figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    published: f64,
    #[serde(default)]
    cells: Cells,
}

/// A property that the source does not give.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenProperty {
    what: String,
    why: String,
    choices: Vec<Cells>,
}

/// Predicted ranges of the figures of an entry.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Description of the run and unit of the figure.
    pub what: String,
    /// Publication.
    pub source: String,
    /// Kind of the figure.
    pub figure: Figure,
    /// Properties that the source does not give, with the values of which at least one combination fits.
    pub open: Vec<PossibleValues>,
    /// Figures.
    pub cases: Vec<FigureRange>,
}

/// Possible values of a property.
#[derive(Clone, Debug)]
pub struct PossibleValues {
    /// Property.
    pub what: String,
    /// Values that fit.
    pub values: Vec<String>,
    /// Reason for these values.
    pub why: String,
}

/// Published figures are rounded to one part in a hundred.
const ROUNDING: f64 = 1.01;

/// Predicted range of a figure.
#[derive(Clone, Debug)]
pub struct FigureRange {
    /// Name.
    pub id: String,
    /// Published value.
    pub published: f64,
    /// Smallest prediction; none if no combination fits.
    pub low: Option<f64>,
    /// Largest prediction.
    pub high: Option<f64>,
    /// True if the published value lies inside the range.
    pub is_inside: Option<bool>,
    /// Number of combinations that fit.
    pub combinations: usize,
}

fn questions() -> &'static [Question] {
    #[derive(Deserialize)]
    struct Table {
        question: Vec<Question>,
    }
    static ONCE: LazyLock<Vec<Question>> = LazyLock::new(|| {
        toml::from_str::<Table>(include_str!("questions.toml")).map_or_else(|_| Vec::new(), |it| it.question)
    });
    &ONCE
}

/// Returns the ranges of every entry by these constants, in the order of the file.
pub fn answers(constants: &Constants) -> Vec<Answer> {
    questions().iter().map(|question| question.answer(constants)).collect()
}

/// Returns all combinations of one choice per property: the indices of the choices, and the given cells with theirs.
fn combinations(given: &Cells, properties: &[OpenProperty]) -> Vec<(Vec<usize>, Cells)> {
    let start = vec![(Vec::new(), given.clone())];
    properties.iter().fold(start, |found, property| {
        let each = |(at, cells): (Vec<usize>, Cells)| {
            let with = move |(place, choice): (usize, &Cells)| {
                let at = at.iter().copied().chain([place]).collect();
                let mut cells = cells.clone();
                cells.extend(choice.clone());
                (at, cells)
            };
            property.choices.iter().enumerate().map(with).collect::<Vec<_>>()
        };
        found.into_iter().flat_map(each).collect()
    })
}

/// Returns the layout of these cells, if it fits its GPU.
fn layout(cells: &Cells, constants: &Constants) -> Option<Layout> {
    let number = |column: &str| cells.get(column)?.parse::<f64>().ok();
    // With data parallelism only, the accumulation steps determine the micro-batch.
    let micro = number("passes").and_then(|passes| {
        let ranks = number("gpus_per_node")? * number("nodes")?;
        Some(number("global_batch_sequences")? / ranks / passes)
    });
    let given = cells.iter().map(|(column, cell)| (column.as_str(), cell.as_str()));
    let mut layout = layout_of_cells(given.filter(|(_, cell)| !cell.is_empty()).collect(), micro).ok()?;
    layout.hardware.efa = cells.get("efa").is_some_and(|cell| cell == "1");
    let fits = memory_with(&layout, &MemoryConstants::from_constants(constants)).fits == Some(true);
    fits.then_some(layout)
}

impl Question {
    fn answer(&self, constants: &Constants) -> Answer {
        let mut fitting = vec![BTreeSet::new(); self.open.len() + self.over_open.len()];
        let cases = self.case.iter().map(|case| self.figure_range(case, constants, &mut fitting)).collect();
        let values = |(property, fitting): (&OpenProperty, &BTreeSet<usize>)| {
            let name = |at: &usize| property.choices.get(*at).map(choice_name);
            PossibleValues {
                what: property.what.clone(),
                values: fitting.iter().filter_map(name).collect(),
                why: property.why.clone(),
            }
        };
        Answer {
            what: self.what.clone(),
            source: self.source.clone(),
            figure: self.figure,
            open: self.open.iter().chain(&self.over_open).zip(&fitting).map(values).collect(),
            cases,
        }
    }

    /// Returns the range of a figure; adds to `fitting` the choices of each property in a combination that fits.
    fn figure_range(
        &self,
        case: &Case,
        constants: &Constants,
        fitting: &mut [BTreeSet<usize>],
    ) -> FigureRange {
        let mut given = self.cells.clone();
        given.extend(case.cells.clone());
        let mut found = Vec::new();
        for (at, cells) in combinations(&given, &self.open) {
            for (other, figure) in self.figures(&cells, constants) {
                found.push(figure);
                for (set, place) in fitting.iter_mut().zip(at.iter().chain(&other)) {
                    set.insert(*place);
                }
            }
        }
        let low = found.iter().copied().min_by(f64::total_cmp);
        let high = found.iter().copied().max_by(f64::total_cmp);
        FigureRange {
            id: case.id.clone(),
            published: case.published,
            low,
            high,
            is_inside: low
                .zip(high)
                .map(|(low, high)| (low / ROUNDING..=high * ROUNDING).contains(&case.published)),
            combinations: found.len(),
        }
    }

    /// Returns the figure of a run, for each choice of the run that it is compared with.
    fn figures(&self, cells: &Cells, constants: &Constants) -> Vec<(Vec<usize>, f64)> {
        let rate = |cells: &Cells| {
            let layout = layout(cells, constants)?;
            speed(&layout, constants).ok()
        };
        let Some(own) = rate(cells) else { return Vec::new() };
        let number = |column: &str| cells.get(column).and_then(|cell| cell.parse::<f64>().ok());
        match self.figure {
            Figure::SamplesPerSecond => vec![(Vec::new(), own.samples_per_second)],
            Figure::Seconds => {
                let before = number("startup_s").unwrap_or(0.0);
                let seconds = number("steps").map(|steps| before + steps * own.step_seconds);
                seconds.into_iter().map(|seconds| (Vec::new(), seconds)).collect()
            }
            Figure::TimesAsFast => {
                let mut other = cells.clone();
                other.extend(self.over.clone().unwrap_or_default());
                let ratio = |(at, cells): (Vec<usize>, Cells)| {
                    Some((at, own.samples_per_second / rate(&cells)?.samples_per_second))
                };
                combinations(&other, &self.over_open).into_iter().filter_map(ratio).collect()
            }
        }
    }
}

/// Returns the name of a choice, or its cells.
fn choice_name(choice: &Cells) -> String {
    choice
        .get("name")
        .cloned()
        .unwrap_or_else(|| choice.values().map(String::as_str).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_and_every_question_has_an_answer() {
        let answers = answers(Constants::shipped());
        assert!(answers.len() >= 6, "{answers:?}");
        for answer in &answers {
            assert!(!answer.source.is_empty() && !answer.open.is_empty(), "{answer:?}");
            for property in &answer.open {
                assert!(!property.values.is_empty() && !property.why.is_empty(), "{answer:?}");
            }
            for case in &answer.cases {
                assert!(case.combinations > 1 && case.low < case.high, "{answer:?}");
            }
        }
        let shown = answers.iter().flat_map(|answer| &answer.cases).map(|case| case.id.as_str());
        let mut ids: Vec<&str> = shown.collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }

    /// ZeRO stages that keep 30 billion weights on a card of 40 GB do not fit.
    #[test]
    fn choices_that_do_not_fit_are_left_out() {
        let answers = answers(Constants::shipped());
        let values = |id: &str, what: &str| -> Vec<String> {
            let answer = answers.iter().find(|answer| answer.cases.iter().any(|case| case.id == id)).unwrap();
            answer.open.iter().find(|property| property.what == what).unwrap().values.clone()
        };
        assert_eq!(values("deepspeed-30b-16-nodes", "ZeRO stage"), ["3"]);
        assert_eq!(values("bert-squad-2n", "micro-batch"), ["4", "8", "16", "32"]);
    }

    /// Two choices of one property and one of another make two combinations.
    #[test]
    fn combinations_are_all_of_them() {
        let cells = |pairs: &[(&str, &str)]| -> Cells {
            pairs.iter().map(|(column, cell)| ((*column).to_owned(), (*cell).to_owned())).collect()
        };
        let property =
            |choices: Vec<Cells>| OpenProperty { what: String::new(), why: String::new(), choices };
        let found = combinations(
            &cells(&[("a", "0"), ("b", "0")]),
            &[
                property(vec![cells(&[("a", "1")]), cells(&[("a", "2")])]),
                property(vec![cells(&[("c", "3")])]),
            ],
        );
        let places: Vec<&[usize]> = found.iter().map(|(at, _)| at.as_slice()).collect();
        assert_eq!(places, [[0, 0], [1, 0]]);
        assert_eq!(found[1].1, cells(&[("a", "2"), ("b", "0"), ("c", "3")]));
    }
}
