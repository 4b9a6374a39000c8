//! What several jobs share is billed once: what a sum over jobs counts of it more than that.
//!
//! In: the file systems that each job makes, or shares with those that describe it alike. Out: US dollars that the sum of the
//! jobs has too many, and the names to say so.

use std::collections::{BTreeMap, BTreeSet};
use trainc_emit::fsx;
use trainc_ir::Plan;
use trainc_predict::bills::a_while;

/// A file system as a job counts it.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// What jobs that share it agree in: where it is, and the token of what makes it the one that it is.
    identity: String,
    /// Its name in the manifest.
    name: String,
    /// US dollars a month, where the price is known.
    usd_per_month: Option<f64>,
    /// How long the job has it, seconds.
    seconds: f64,
}

/// The file systems of a job that has them for so many seconds.
pub fn made(plan: &Plan, seconds: f64) -> Vec<Made> {
    // Where a link names the job's digest each job has its own: any word that is the job's does.
    let job = plan.job.name.value().map_or("", String::as_str);
    let place = (plan.job.region.value(), plan.job.account.value());
    let made = fsx::file_systems(plan, job).into_iter().map(|system| {
        let mut all = plan.made_file_systems();
        let found = all.find(|(storage, _)| storage.name.value() == Some(&system.name));
        let price =
            found.and_then(|(storage, price)| Some(price?.usd_per_month(storage.capacity_bytes.get()?)));
        Made {
            identity: format!("{place:?} {}", system.create.client_request_token),
            name: system.name,
            usd_per_month: price,
            seconds,
        }
    });
    made.collect()
}

/// What a sum over jobs has too many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Once {
    /// US dollars.
    pub usd: f64,
    /// The names of the file systems that several of the jobs count.
    pub names: BTreeSet<String>,
}

/// What the sum over these jobs counts too often. A file system that jobs share is as large as the largest that any of them
/// asks for, and there until the last of them has ended: as if all began at the same time.
pub fn once<'a>(jobs: impl IntoIterator<Item = &'a [Made]>) -> Once {
    let mut alike: BTreeMap<&str, Vec<(&Made, f64)>> = BTreeMap::new();
    for one in jobs.into_iter().flatten() {
        if let Some(usd) = one.usd_per_month {
            alike.entry(&one.identity).or_default().push((one, usd));
        }
    }
    let mut out = Once::default();
    for all in alike.values().filter(|all| all.len() > 1) {
        let sum: f64 = all.iter().map(|(one, usd)| a_while(*usd, one.seconds)).sum();
        let most = all.iter().map(|(_, usd)| *usd).fold(0.0, f64::max);
        let longest = all.iter().map(|(one, _)| one.seconds).fold(0.0, f64::max);
        out.usd += sum - a_while(most, longest);
        out.names.extend(all.iter().map(|(one, _)| one.name.clone()));
    }
    out
}

impl Once {
    /// Behind a sum: `; shared file system …`, or nothing.
    pub fn words(&self) -> String {
        let names: Vec<&String> = self.names.iter().collect();
        let systems = if names.len() == 1 { "system" } else { "systems" };
        if names.is_empty() {
            return String::new();
        }
        format!("; shared file {systems} {} counted once", trainc_diag::text::ticked(&names, "and"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(identity: &str, usd_per_month: Option<f64>, hours: f64) -> Made {
        let name = identity.to_owned();
        Made { identity: name.clone(), name, usd_per_month, seconds: hours * 3_600.0 }
    }

    /// By hand: 730 dollars a month are one an hour.
    #[test]
    fn what_is_shared_is_counted_for_the_longest_at_its_largest() {
        let jobs = [
            vec![one("corpus", Some(730.0), 10.0), one("own", Some(73.0), 10.0)],
            vec![one("corpus", Some(730.0), 4.0), one("free", None, 4.0)],
            vec![one("free", None, 4.0)],
        ];
        let found = once(jobs.iter().map(Vec::as_slice));
        assert!((found.usd - 4.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.words(), "; shared file system `corpus` counted once");
        // One that is grown for a short job is as large for the long one.
        let grown = [vec![one("corpus", Some(730.0), 10.0)], vec![one("corpus", Some(1_460.0), 1.0)]];
        let found = once(grown.iter().map(Vec::as_slice));
        assert!((found.usd - (10.0 + 2.0 - 20.0)).abs() < 1e-9, "{found:?}");
        assert_eq!(once(jobs.iter().take(1).map(Vec::as_slice)), Once::default());
        assert_eq!(Once::default().words(), "");
    }
}
