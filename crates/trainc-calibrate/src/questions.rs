//! Published figures whose sources leave more of a run open than its micro-batch: ranges over what it may have been.
//!
//! In: the table `questions.toml`, constants. Out: for each figure the least and the most that is predicted over the
//! combinations that fit. As of [`open`](super::open) rows, a figure inside its range is calibration, not evidence, and is
//! fitted to nothing.

use super::row::Row;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use trainc_predict::memory::{MemoryConstants, memory_with};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Layout};

/// Cells of a table of runs, by column.
type Cells = BTreeMap<String, String>;

/// What a source publishes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Sequences a second of the whole cluster.
    SamplesPerSecond,
    /// How many times as many sequences a second as another run takes.
    TimesAsFast,
    /// Seconds of so many steps, with what comes before the first one where the figure counts it.
    Seconds,
}

/// A row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    what: String,
    source: String,
    figure: Figure,
    case: Vec<Case>,
    cells: Cells,
    over: Option<Cells>,
    open: Vec<Part>,
    #[serde(default)]
    over_open: Vec<Part>,
}

/// One of the figures that a source publishes alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    published: f64,
    #[serde(default)]
    cells: Cells,
}

/// Something that a source does not say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    what: String,
    why: String,
    choices: Vec<Cells>,
}

/// A published figure with what its source leaves open, and the ranges that are predicted.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// What was run, and the figure's unit.
    pub what: String,
    /// Who published it.
    pub source: String,
    /// What the figure is.
    pub figure: Figure,
    /// What the source does not say, with the choices of which at least one combination fits.
    pub open: Vec<Asked>,
    /// The figures.
    pub cases: Vec<Range>,
}

/// Something that a source does not say, and what it may have been.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// What it is.
    pub what: String,
    /// The values that are tried and fit.
    pub values: Vec<String>,
    /// Why these.
    pub why: String,
}

/// One figure and its range.
#[derive(Clone, Debug, Serialize)]
pub struct Range {
    /// Its name.
    pub id: String,
    /// As published.
    pub published: f64,
    /// The least that is predicted; null where no combination fits.
    pub low: Option<f64>,
    /// The most.
    pub high: Option<f64>,
    /// Whether the published figure lies between them.
    pub inside: Option<bool>,
    /// Combinations that fit.
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

/// Every question of the table with its ranges by these constants, in the table's order.
pub fn answers(constants: &Constants) -> Vec<Answer> {
    questions().iter().map(|question| question.answer(constants)).collect()
}

/// One choice of each part: the places of the choices, and their cells over those that are given.
fn combinations(given: &Cells, parts: &[Part]) -> Vec<(Vec<usize>, Cells)> {
    let start = vec![(Vec::new(), given.clone())];
    parts.iter().fold(start, |found, part| {
        let each = |(at, cells): (Vec<usize>, Cells)| {
            let with = move |(place, choice): (usize, &Cells)| {
                let at = at.iter().copied().chain([place]).collect();
                let mut cells = cells.clone();
                cells.extend(choice.clone());
                (at, cells)
            };
            part.choices.iter().enumerate().map(with).collect::<Vec<_>>()
        };
        found.into_iter().flat_map(each).collect()
    })
}

/// The layout of such cells, where it fits its card.
fn layout(cells: &Cells, constants: &Constants) -> Option<Layout> {
    let number = |column: &str| cells.get(column)?.parse::<f64>().ok();
    // Where nothing but the data is divided, the passes of a step say the micro-batch.
    let micro = number("passes").and_then(|passes| {
        let ranks = number("gpus_per_node")? * number("nodes")?;
        Some(number("global_batch_sequences")? / ranks / passes)
    });
    let given = cells.iter().map(|(column, cell)| (column.as_str(), cell.as_str()));
    let row = Row { cells: given.filter(|(_, cell)| !cell.is_empty()).collect(), micro };
    let mut layout = row.layout().ok()?;
    layout.hardware.efa = cells.get("efa").is_some_and(|cell| cell == "1");
    let fits = memory_with(&layout, &MemoryConstants::of(constants)).fits == Some(true);
    fits.then_some(layout)
}

impl Question {
    fn answer(&self, constants: &Constants) -> Answer {
        let mut fitting = vec![BTreeSet::new(); self.open.len() + self.over_open.len()];
        let cases = self.case.iter().map(|case| self.range(case, constants, &mut fitting)).collect();
        let asked = |(part, fitting): (&Part, &BTreeSet<usize>)| {
            let name = |at: &usize| part.choices.get(*at).map(named);
            Asked {
                what: part.what.clone(),
                values: fitting.iter().filter_map(name).collect(),
                why: part.why.clone(),
            }
        };
        Answer {
            what: self.what.clone(),
            source: self.source.clone(),
            figure: self.figure,
            open: self.open.iter().chain(&self.over_open).zip(&fitting).map(asked).collect(),
            cases,
        }
    }

    /// The range of a figure; `fitting` takes up which choices of each part were in a combination that fits.
    fn range(&self, case: &Case, constants: &Constants, fitting: &mut [BTreeSet<usize>]) -> Range {
        let mut given = self.cells.clone();
        given.extend(case.cells.clone());
        let mut found = Vec::new();
        for (at, cells) in combinations(&given, &self.open) {
            for (beside, figure) in self.figures(&cells, constants) {
                found.push(figure);
                for (set, place) in fitting.iter_mut().zip(at.iter().chain(&beside)) {
                    set.insert(*place);
                }
            }
        }
        let low = found.iter().copied().min_by(f64::total_cmp);
        let high = found.iter().copied().max_by(f64::total_cmp);
        Range {
            id: case.id.clone(),
            published: case.published,
            low,
            high,
            inside: low.zip(high).map(|(low, high)| (low..=high).contains(&case.published)),
            combinations: found.len(),
        }
    }

    /// The figure of such a run, over each choice of the run that it is compared with.
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

/// A choice for people: its name, else its cells.
fn named(choice: &Cells) -> String {
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
            for asked in &answer.open {
                assert!(!asked.values.is_empty() && !asked.why.is_empty(), "{answer:?}");
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

    /// What does not fit is no choice: stages of ZeRO that keep the whole of 30 billion weights on a card of 40 GB.
    #[test]
    fn what_does_not_fit_is_left_out() {
        let answers = answers(Constants::shipped());
        let asked = |id: &str, what: &str| -> Vec<String> {
            let answer = answers.iter().find(|answer| answer.cases.iter().any(|case| case.id == id)).unwrap();
            answer.open.iter().find(|asked| asked.what == what).unwrap().values.clone()
        };
        assert_eq!(asked("deepspeed-30b-16-nodes", "ZeRO stage"), ["3"]);
        assert_eq!(asked("bert-squad-2n", "micro-batch"), ["4", "8", "16", "32"]);
    }

    /// By hand: two choices of one part and one of another are two runs, each choice over what is given.
    #[test]
    fn combinations_are_all_of_them() {
        let cells = |pairs: &[(&str, &str)]| -> Cells {
            pairs.iter().map(|(column, cell)| ((*column).to_owned(), (*cell).to_owned())).collect()
        };
        let part = |choices: Vec<Cells>| Part { what: String::new(), why: String::new(), choices };
        let found = combinations(
            &cells(&[("a", "0"), ("b", "0")]),
            &[part(vec![cells(&[("a", "1")]), cells(&[("a", "2")])]), part(vec![cells(&[("c", "3")])])],
        );
        let places: Vec<&[usize]> = found.iter().map(|(at, _)| at.as_slice()).collect();
        assert_eq!(places, [[0, 0], [1, 0]]);
        assert_eq!(found[1].1, cells(&[("a", "2"), ("b", "0"), ("c", "3")]));
    }
}
