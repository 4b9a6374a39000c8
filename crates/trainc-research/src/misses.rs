//! Known causes of errors on published runs, from `misses.toml`.

use std::sync::LazyLock;
use trainc_calibrate::verdict::RowVerdict;

/// Kind of a wrong prediction. The cause of a wrong time does not explain memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The step time lies outside its interval.
    Time,
    /// The peak of memory lies outside its interval.
    Memory,
    /// The run ran out of memory and is predicted to fit.
    OutOfMemory,
    /// The run ran and is predicted not to fit.
    FalseAlarm,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Misses {
    miss: Vec<Miss>,
}

/// Causes of errors on some runs.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Miss {
    /// Prefix of their ids.
    ids: String,
    time: Option<String>,
    memory: Option<String>,
    full: Option<String>,
    ran: Option<String>,
}

impl Miss {
    fn cause(&self, missed: Missed) -> Option<&str> {
        let cause = match missed {
            Missed::Time => &self.time,
            Missed::Memory => &self.memory,
            Missed::OutOfMemory => &self.full,
            Missed::FalseAlarm => &self.ran,
        };
        cause.as_deref()
    }
}

static MISSES: LazyLock<Option<Misses>> = LazyLock::new(|| toml::from_str(include_str!("misses.toml")).ok());

/// Returns the cause of a wrong prediction, if it was investigated.
pub fn cause(id: &str, missed: Missed) -> Option<&'static str> {
    let own = |miss: &'static Miss| if id.starts_with(&miss.ids) { miss.cause(missed) } else { None };
    MISSES.as_ref()?.miss.iter().find_map(own)
}

/// Returns the wrong predictions of a row.
pub fn wrong_predictions(row: &RowVerdict) -> Vec<Missed> {
    [
        (Missed::Time, row.step_seconds.as_ref().is_some_and(|time| !time.is_inside())),
        (Missed::Memory, row.peak_memory_bytes.as_ref().is_some_and(|peak| !peak.is_inside())),
        (Missed::OutOfMemory, row.oom && row.fits == Some(true)),
        (Missed::FalseAlarm, !row.oom && row.fits == Some(false)),
    ]
    .into_iter()
    .filter_map(|(missed, is_missed)| is_missed.then_some(missed))
    .collect()
}

/// Describes the wrong predictions of a row with their causes: `step time -35.0 %: …; memory -22.5 %: …`. None if all are
/// right.
pub fn describe(row: &RowVerdict) -> Option<String> {
    let parts: Vec<String> = wrong_predictions(row)
        .into_iter()
        .map(|missed| {
            let error = |error: Option<f64>| format!("{:+.1} %", error.unwrap_or(f64::NAN) * 100.0);
            let head = match missed {
                Missed::Time => format!("step time {}", error(row.step_seconds.as_ref().map(|it| it.error))),
                Missed::Memory => {
                    format!("memory {}", error(row.peak_memory_bytes.as_ref().map(|it| it.error)))
                }
                Missed::OutOfMemory => "ran out of memory, predicted to fit".to_owned(),
                Missed::FalseAlarm => "ran, predicted not to fit".to_owned(),
            };
            format!("{head}: {}", cause(&row.id, missed).unwrap_or("cause not investigated"))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_calibrate::judge::judge;
    use trainc_calibrate::verdict::Verdict;
    use trainc_calibrate::{Table, read};
    use trainc_predict::Constants;
    use trainc_predict::memory::{MemoryConstants, memory_with};

    const KINDS: [Missed; 4] = [Missed::Time, Missed::Memory, Missed::OutOfMemory, Missed::FalseAlarm];

    fn judged() -> (Table, Verdict) {
        let table = read(include_str!("../../trainc-calibrate/data/runs.csv")).unwrap();
        let verdict = judge(&table, Constants::shipped());
        (table, verdict)
    }

    /// Every wrong prediction on the shipped table has a cause, and every cause belongs to a wrong prediction of its kind.
    #[test]
    fn every_wrong_prediction_has_a_cause() {
        let (_, verdict) = judged();
        let mut all: Vec<(&str, Missed)> = Vec::new();
        for row in &verdict.rows {
            all.extend(wrong_predictions(row).into_iter().map(|what| (row.id.as_str(), what)));
        }
        let ranges = verdict.step_ranges.iter().filter(|range| range.is_outside());
        all.extend(ranges.map(|range| (range.id.as_str(), Missed::Time)));
        for (id, what) in &all {
            assert!(cause(id, *what).is_some(), "{id}: {what:?}");
        }
        let misses: Misses = toml::from_str(include_str!("misses.toml")).unwrap();
        for miss in misses.miss {
            for what in KINDS {
                let Some(words) = miss.cause(what) else { continue };
                let used = all.iter().any(|(id, of)| *of == what && cause(id, what) == Some(words));
                assert!(used, "{}: {what:?}", miss.ids);
            }
        }
        // Every wrong prediction of fitting is counted.
        let count = |what| all.iter().filter(|(_, of)| *of == what).count();
        let oom = verdict.summary.oom;
        assert_eq!(
            (count(Missed::OutOfMemory), count(Missed::FalseAlarm)),
            (oom.rows - oom.caught, oom.wrong)
        );
        // `tune` keeps the mean error of these peaks free.
        let peaks = verdict.summary.peak_memory_bytes.mean_error.unwrap();
        assert!((peaks - trainc_predict::memory::MEAN_ERROR).abs() < 0.002, "{peaks}");
    }

    #[test]
    fn figures_of_neighbouring_rows_in_causes_are_right() {
        let (table, verdict) = judged();
        let time = |begin: &str| -> Vec<f64> {
            let rows = verdict.rows.iter().filter(|row| row.id.starts_with(begin));
            rows.filter_map(|row| Some(row.step_seconds.as_ref()?.error.abs())).collect()
        };
        let within = |errors: &[f64], limit: f64| !errors.is_empty() && errors.iter().all(|it| *it <= limit);
        assert!(within(&time("vt-39.1b-512g-t8"), 0.06) && within(&time("vt-39.1b-512g-t1"), 0.05));
        for micro in ["mb8", "mb16"] {
            assert!(within(&time(&format!("vt-3.6b-64g-t8d8p1-{micro}")), 0.09), "{micro}");
        }
        assert!(within(&time("kor-530b"), 0.05));
        let mut peaks: Vec<f64> = verdict
            .rows
            .iter()
            .filter(|row| row.family == "bloom")
            .filter_map(|row| Some(row.peak_memory_bytes.as_ref()?.error.abs()))
            .collect();
        peaks.sort_by(f64::total_cmp);
        assert_eq!(peaks.len(), 30);
        assert!(within(&peaks[..29], 0.11) && peaks[29] > 0.3, "{peaks:?}");
        let split: Vec<&str> = table
            .runs
            .iter()
            .filter(|run| run.id.starts_with("tr3m-"))
            .filter(|run| run.layout.as_ref().is_ok_and(|layout| layout.degrees.tensor > 1.0))
            .map(|run| run.id.as_str())
            .collect();
        assert_eq!(split, ["tr3m-1b3-v10032-t2p1d4mb1-noac"]);
    }

    #[test]
    fn predicted_and_available_memory_in_causes_are_right() {
        let (table, verdict) = judged();
        let own = MemoryConstants::from_constants(Constants::shipped());
        let mut wrong = Vec::new();
        for row in verdict.rows.iter().filter(|row| wrong_predictions(row).contains(&Missed::FalseAlarm)) {
            let run = table.runs.iter().find(|run| run.id == row.id).unwrap();
            let memory = memory_with(run.memory_layout.as_ref().unwrap(), &own);
            let gib = |bytes: f64| bytes / f64::from(1 << 30);
            let (needs, has) = (gib(memory.per_gpu_bytes), gib(memory.capacity_bytes.unwrap()));
            let words = cause(&row.id, Missed::FalseAlarm).unwrap();
            // `83 to 93 of 80 GiB are predicted`, `95 of 80 GiB are predicted`.
            let (before, card) =
                words.split_once(" GiB are predicted").unwrap().0.rsplit_once(" of ").unwrap();
            let mut ends = before.rsplit(' ');
            let most: f64 = ends.next().unwrap().parse().unwrap();
            let least = match ends.next() {
                Some("to") => ends.next().unwrap().parse().unwrap(),
                _ => most,
            };
            let slip = if most.fract() > 0.0 { 0.051 } else { 0.51 };
            let card: f64 = card.parse().unwrap();
            if !(least - slip..=most + slip).contains(&needs) || !(0.9 * card..card + 0.5).contains(&has) {
                wrong.push(format!("{}: {needs:.2} of {has:.2}, not `{before} of {card}`", row.id));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Predicted memory of the two rows of BERT that ran out of it, in total and per sequence, and the memory per sequence
    /// with which 6 would run out of 16 GB and 12 would run in 32.
    #[test]
    fn figures_of_two_bert_rows_on_the_page_are_right() {
        let (table, _) = judged();
        let page = include_str!("../../trainc-calibrate/data/README.md");
        let gib = |bytes: f64| bytes / f64::from(1 << 30);
        let needs = |id: &str, sequences: f64| {
            let run = table.runs.iter().find(|run| run.id == id).unwrap();
            let mut layout = run.memory_layout.clone().unwrap();
            layout.work.micro_batch_size = sequences;
            let found = memory_with(&layout, &MemoryConstants::from_constants(Constants::shipped()));
            assert_eq!(found.fits, Some(true), "{id} with {sequences}");
            gib(found.per_gpu_bytes)
        };
        let six = needs("dsbert-v10016-mb6-pytorch", 6.0);
        let eight = needs("dsbert-v10016-mb8-pytorch", 8.0);
        let each = (eight - six) / 2.0;
        let rest = six - 6.0 * each;
        // Usable GiB of the two cards.
        let (least, most) = ((15.8 - rest) / 6.0, (31.7 - rest) / 12.0);
        assert!((1.4..1.55).contains(&least) && (1.95..2.1).contains(&most), "{least} to {most}");
        // 16 more bytes per token and hidden unit in 24 layers, which GELU of several operations keeps.
        let composite_gelu = gib(16.0 * 384.0 * 1_024.0 * 24.0);
        assert!(each + composite_gelu < least, "{each} and {composite_gelu} would be {least}");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [
            format!("predicted to fit, at {six:.1} and {eight:.1} GiB"),
            format!("{rest:.1} GiB are states and the reserve, and {each:.2} GiB a sequence"),
        ] {
            assert!(page.contains(&text), "data/README.md lacks `{text}`");
        }
    }
}
