//! What is missing in the model where a run is not met: `misses.toml`, apart by what is missed.

use super::tiers::Tier;
use super::verdict::Line;
use std::sync::LazyLock;

/// What of a run is not met. A reason that explains a time says nothing of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// A step's time lies outside its interval.
    Time,
    /// A peak lies outside its interval.
    Memory,
    /// It ran out of memory and is predicted to fit.
    Full,
    /// It ran and is predicted not to fit.
    Ran,
}

#[derive(serde::Deserialize)]
struct Misses {
    miss: Vec<Miss>,
    #[serde(default)]
    family: Vec<Family>,
}

/// A family that keeps a tier from its goal.
#[derive(serde::Deserialize)]
struct Family {
    tier: String,
    family: String,
    physics: String,
}

/// Runs that are not met.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Miss {
    /// How their ids begin.
    ids: String,
    time: Option<String>,
    memory: Option<String>,
    full: Option<String>,
    ran: Option<String>,
}

impl Miss {
    fn of(&self, what: Missed) -> Option<&str> {
        let words = match what {
            Missed::Time => &self.time,
            Missed::Memory => &self.memory,
            Missed::Full => &self.full,
            Missed::Ran => &self.ran,
        };
        words.as_deref()
    }
}

static MISSES: LazyLock<Option<Misses>> = LazyLock::new(|| toml::from_str(include_str!("misses.toml")).ok());

/// What is known to be missing in the model for this of a run, where somebody looked.
pub fn missing(id: &str, what: Missed) -> Option<&'static str> {
    let own = |miss: &'static Miss| if id.starts_with(&miss.ids) { miss.of(what) } else { None };
    MISSES.as_ref()?.miss.iter().find_map(own)
}

/// What is known to be missing for the rows of a family in a tier, where somebody looked.
pub fn missing_of_family(tier: Tier, family: &str) -> Option<&'static str> {
    let of = |one: &&Family| one.tier == tier.word() && one.family == family;
    MISSES.as_ref()?.family.iter().find(of).map(|one| one.physics.as_str())
}

impl Line {
    /// What of it is not met.
    pub fn missed(&self) -> Vec<Missed> {
        let time = self.step_seconds.as_ref().is_some_and(|it| !(it.low..=it.high).contains(&it.measured));
        let peak =
            self.peak_memory_bytes.as_ref().is_some_and(|it| !(it.low..=it.high).contains(&it.measured));
        let (full, ran) = (self.oom && self.fits == Some(true), !self.oom && self.fits == Some(false));
        [(Missed::Time, time), (Missed::Memory, peak), (Missed::Full, full), (Missed::Ran, ran)]
            .into_iter()
            .filter_map(|(what, is_missed)| is_missed.then_some(what))
            .collect()
    }

    /// What is not met and what is missing there, in words: `step time -35.0 %: …; memory -22.5 %: …`. None where all is met.
    pub(super) fn misses(&self) -> Option<String> {
        let words: Vec<String> = self
            .missed()
            .into_iter()
            .map(|what| {
                let error = |error: Option<f64>| format!("{:+.1} %", error.unwrap_or(f64::NAN) * 100.0);
                let head = match what {
                    Missed::Time => {
                        format!("step time {}", error(self.step_seconds.as_ref().map(|it| it.error)))
                    }
                    Missed::Memory => {
                        format!("memory {}", error(self.peak_memory_bytes.as_ref().map(|it| it.error)))
                    }
                    Missed::Full => "ran out of memory, predicted to fit".to_owned(),
                    Missed::Ran => "ran, predicted not to fit".to_owned(),
                };
                format!("{head}: {}", missing(&self.id, what).unwrap_or("not known: nobody looked"))
            })
            .collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::verdict::Verdict;
    use trainc_predict::Constants;
    use trainc_predict::memory::{MemoryConstants, memory_with};

    const KINDS: [Missed; 4] = [Missed::Time, Missed::Memory, Missed::Full, Missed::Ran];

    fn judged() -> (crate::Table, Verdict) {
        let table = crate::read(include_str!("../data/runs.csv")).unwrap();
        let verdict = judge(&table, Constants::shipped());
        (table, verdict)
    }

    /// Everything that is missed in the shipped table says what is missing, and every reason is for something that is missed,
    /// of its own kind.
    #[test]
    fn rows_that_are_not_met_say_what_is_missing() {
        let (_, verdict) = judged();
        let mut missed: Vec<(&str, Missed)> = Vec::new();
        for row in &verdict.rows {
            missed.extend(row.missed().into_iter().map(|what| (row.id.as_str(), what)));
            assert_eq!(row.missing.is_some(), row.is_outside(), "{}", row.id);
        }
        let open = verdict.open.iter().filter(|row| row.is_outside());
        missed.extend(open.map(|row| (row.id.as_str(), Missed::Time)));
        for (id, what) in &missed {
            assert!(missing(id, *what).is_some(), "{id}: {what:?}");
        }
        let misses: Misses = toml::from_str(include_str!("misses.toml")).unwrap();
        for miss in misses.miss {
            for what in KINDS {
                let Some(words) = miss.of(what) else { continue };
                let used = missed.iter().any(|(id, of)| *of == what && missing(id, what) == Some(words));
                assert!(used, "{}: {what:?}", miss.ids);
            }
        }
        // Every row that the summary counts as wrong about memory is named.
        let count = |what| missed.iter().filter(|(_, of)| *of == what).count();
        let oom = verdict.summary.oom;
        assert_eq!((count(Missed::Full), count(Missed::Ran)), (oom.rows - oom.caught, oom.wrong));
        // What tune keeps free is the mean error of these peaks.
        let peaks = verdict.summary.peak_memory_bytes.mean_error.unwrap();
        assert!((peaks - trainc_predict::memory::MEAN_ERROR).abs() < 0.002, "{peaks}");
    }

    /// What reasons say of neighbouring rows is so.
    #[test]
    fn what_the_reasons_say_of_other_rows_is_so() {
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

    /// What a run that ran is predicted to need, and what its card has, are the figures that its reason ends with.
    #[test]
    fn a_run_that_ran_needs_what_its_reason_says() {
        let (table, verdict) = judged();
        let own = MemoryConstants::of(Constants::shipped());
        let mut wrong = Vec::new();
        for row in verdict.rows.iter().filter(|row| row.missed().contains(&Missed::Ran)) {
            let run = table.runs.iter().find(|run| run.id == row.id).unwrap();
            let memory = memory_with(run.memory_layout.as_ref().unwrap(), &own);
            let gib = |bytes: f64| bytes / f64::from(1 << 30);
            let (needs, has) = (gib(memory.per_gpu_bytes), gib(memory.capacity_bytes.unwrap()));
            let words = missing(&row.id, Missed::Ran).unwrap();
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

    /// What the page says of the two rows of BERT that ran out of memory: what is predicted for them, of that for a
    /// sequence, and what a sequence would have to take for 6 to run out of 16 GB and 12 to run in 32.
    #[test]
    fn what_two_rows_of_bert_ask_for() {
        let (table, _) = judged();
        let page = include_str!("../data/README.md");
        let gib = |bytes: f64| bytes / f64::from(1 << 30);
        let needs = |id: &str, sequences: f64| {
            let run = table.runs.iter().find(|run| run.id == id).unwrap();
            let mut layout = run.memory_layout.clone().unwrap();
            layout.work.micro_batch_size = sequences;
            let found = memory_with(&layout, &MemoryConstants::of(Constants::shipped()));
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
        // 16 bytes more for each token and hidden unit of 24 layers, as GELU taken apart keeps.
        let apart = gib(16.0 * 384.0 * 1_024.0 * 24.0);
        assert!(each + apart < least, "{each} and {apart} would be {least}");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [
            format!("predicted to fit, at {six:.1} and {eight:.1} GiB"),
            format!("{rest:.1} GiB are states and the reserve, and {each:.2} GiB a sequence"),
        ] {
            assert!(page.contains(&said), "data/README.md lacks `{said}`");
        }
    }
}
