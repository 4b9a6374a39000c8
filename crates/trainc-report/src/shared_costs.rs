//! Costs that several jobs share: how much a sum over jobs counts more than once.

use std::collections::{BTreeMap, BTreeSet};
use trainc_emit::fsx;
use trainc_ir::Plan;
use trainc_predict::bills::monthly_price_for_seconds;

/// A file system that a job creates, as the job's cost includes it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFileSystem {
    /// Region, account and client request token: equal for jobs that share the file system.
    identity: String,
    /// Its name in the manifest.
    name: String,
    /// US dollars a month; `None` if the price is unknown.
    usd_per_month: Option<f64>,
    /// How long the job keeps it, seconds.
    seconds: f64,
}

/// Returns the file systems that a job creates and keeps for so many seconds.
pub fn job_file_systems(plan: &Plan, seconds: f64) -> Vec<JobFileSystem> {
    // A link with the job's digest makes the file system specific to the job; here the job's name does the
    // same.
    let job = plan.job.name.value().map_or("", String::as_str);
    let place = (plan.job.region.value(), plan.job.account.value());
    let systems = fsx::file_systems(plan, job).into_iter().map(|system| {
        let mut all = plan.created_file_systems();
        let found = all.find(|(storage, _)| storage.name.value() == Some(&system.name));
        let price =
            found.and_then(|(storage, price)| Some(price?.usd_per_month(storage.capacity_bytes.get()?)));
        JobFileSystem {
            identity: format!("{place:?} {}", system.create.client_request_token),
            name: system.name,
            usd_per_month: price,
            seconds,
        }
    });
    systems.collect()
}

/// The part of a sum over jobs that is counted more than once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedCosts {
    /// US dollars to subtract from the sum.
    pub usd: f64,
    /// The names of the shared file systems.
    pub names: BTreeSet<String>,
}

impl SharedCosts {
    /// Computes the shared costs of jobs.
    ///
    /// A shared file system is as large as the largest that any of the jobs requests and is kept as long as
    /// the longest of them takes, as if all began at the same time.
    pub fn from_jobs<'a>(jobs: impl IntoIterator<Item = &'a [JobFileSystem]>) -> Self {
        let mut by_identity: BTreeMap<&str, Vec<(&JobFileSystem, f64)>> = BTreeMap::new();
        for system in jobs.into_iter().flatten() {
            if let Some(usd) = system.usd_per_month {
                by_identity.entry(&system.identity).or_default().push((system, usd));
            }
        }
        let mut out = Self::default();
        for all in by_identity.values().filter(|all| all.len() > 1) {
            let sum: f64 =
                all.iter().map(|(system, usd)| monthly_price_for_seconds(*usd, system.seconds)).sum();
            let most = all.iter().map(|(_, usd)| *usd).fold(0.0, f64::max);
            let longest = all.iter().map(|(system, _)| system.seconds).fold(0.0, f64::max);
            out.usd += sum - monthly_price_for_seconds(most, longest);
            out.names.extend(all.iter().map(|(system, _)| system.name.clone()));
        }
        out
    }

    /// Returns the text to append to a sum: `; shared file system … counted once`, or nothing.
    pub fn describe(&self) -> String {
        let names: Vec<&String> = self.names.iter().collect();
        let systems = if names.len() == 1 { "system" } else { "systems" };
        if names.is_empty() {
            return String::new();
        }
        format!("; shared file {systems} {} counted once", trainc_diag::text::backtick_list(&names, "and"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(identity: &str, usd_per_month: Option<f64>, hours: f64) -> JobFileSystem {
        let name = identity.to_owned();
        JobFileSystem { identity: name.clone(), name, usd_per_month, seconds: hours * 3_600.0 }
    }

    /// By hand: 730 dollars a month are one an hour.
    #[test]
    fn shared_file_systems_count_for_the_longest_job_at_the_largest_size() {
        let jobs = [
            vec![system("corpus", Some(730.0), 10.0), system("own", Some(73.0), 10.0)],
            vec![system("corpus", Some(730.0), 4.0), system("free", None, 4.0)],
            vec![system("free", None, 4.0)],
        ];
        let found = SharedCosts::from_jobs(jobs.iter().map(Vec::as_slice));
        assert!((found.usd - 4.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.describe(), "; shared file system `corpus` counted once");
        // A file system that grows for a short job has the larger size for the long job too.
        let grown = [vec![system("corpus", Some(730.0), 10.0)], vec![system("corpus", Some(1_460.0), 1.0)]];
        let found = SharedCosts::from_jobs(grown.iter().map(Vec::as_slice));
        assert!((found.usd - (10.0 + 2.0 - 20.0)).abs() < 1e-9, "{found:?}");
        assert_eq!(SharedCosts::from_jobs(jobs.iter().take(1).map(Vec::as_slice)), SharedCosts::default());
        assert_eq!(SharedCosts::default().describe(), "");
    }
}
