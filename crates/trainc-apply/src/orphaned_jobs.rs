//! Resources of jobs that a sweep no longer contains: their values were removed from the manifest, but their
//! resources remain. They are identified by their names, which begin with the sweep's, and by their tags.

use super::account::{FileSystem, JobSummary, Tags};
use super::cloud::{Clock, Observe};
use super::desired::job_name_of_run;
use super::look::Look;
use super::ownership;
use super::patience::none_if_not_found;
use futures_util::future::join_all;
use futures_util::join;
use std::collections::{BTreeMap, BTreeSet};
use trainc_emit as emit;
use trainc_ir::Plan;

/// The resources of a job that the manifest no longer describes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrphanedJob {
    /// The job's name in the tag `trainc:job`.
    pub job: String,
    /// Training jobs that have not ended, with their status.
    pub running: Vec<(String, String)>,
    /// File systems.
    pub file_systems: Vec<FileSystem>,
    /// Name of its role.
    pub role: Option<String>,
}

impl OrphanedJob {
    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.file_systems.is_empty() && self.role.is_none()
    }
}

/// Maximum number of jobs whose role is read; file systems come from a single list.
const MOST_JOBS: usize = 5;

/// Maximum number of runs per job whose tags are read.
const MOST_RUNS: usize = 3;

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Returns the remaining resources of jobs of a plan's sweep other than the `known` ones; empty if the
    /// plan is not part of a sweep. Resources that the caller may not read are omitted.
    pub async fn orphaned_jobs(&self, plan: &Plan, known: &[&str]) -> Vec<OrphanedJob> {
        let Some(family) = &plan.job.swept_from else { return Vec::new() };
        let begins = format!("{family}-");
        let is_stray = |job: &str| job.starts_with(&begins) && !known.contains(&job);
        let mut found: BTreeMap<String, OrphanedJob> = BTreeMap::new();
        let (systems, listed) = join!(
            self.ask(async |cloud| cloud.file_systems().await),
            self.ask(async |cloud| cloud.training_jobs(&begins).await),
        );
        for system in systems.unwrap_or_default().into_iter().filter(|one| one.lifecycle != "DELETING") {
            if !system.tags.contains_key("trainc:resource") {
                continue;
            }
            for job in ownership::jobs(&system.tags).into_iter().filter(|job| is_stray(job)) {
                found.entry(job.to_owned()).or_default().file_systems.push(system.clone());
            }
        }
        let mut runs: BTreeMap<String, Vec<JobSummary>> = BTreeMap::new();
        for run in listed.unwrap_or_default() {
            let Some(job) =
                job_name_of_run(&run.name).filter(|job| is_stray(job) && !is_truncated_name(job, known))
            else {
                continue;
            };
            runs.entry(job.to_owned()).or_default().push(run);
        }
        let jobs: BTreeSet<String> = found.keys().chain(runs.keys()).cloned().collect();
        let asked = jobs.into_iter().take(MOST_JOBS).map(|job| {
            let going = runs.get(&job).into_iter().flatten().filter(|run| !is_over(&run.status));
            let going: Vec<&JobSummary> = going.take(MOST_RUNS).collect();
            async move {
                let name = emit::role_name(&plan_with_job_name(plan, &job));
                let (running, role) = join!(
                    join_all(going.into_iter().map(async |run| {
                        let tags = self.ask(async |cloud| cloud.job_tags(&run.arn).await).await;
                        (run, tags)
                    })),
                    self.ask(async |cloud| cloud.role(&name).await),
                );
                (job, running, none_if_not_found(role).unwrap_or_default())
            }
        });
        for (job, running, role) in join_all(asked).await {
            let ours = running.into_iter().filter(|(_, tags)| {
                let tags: Option<&Tags> = tags.as_ref().ok();
                tags.is_some_and(|tags| ownership::is_ours(tags, &job))
            });
            let running = ours.map(|(run, _)| (run.name.clone(), run.status.clone())).collect();
            let role = role.filter(|role| ownership::is_ours(&role.tags, &job)).map(|role| role.name);
            let stray = found.entry(job).or_default();
            (stray.running, stray.role) = (running, role);
        }
        found.retain(|_, stray| !stray.is_empty());
        found.into_iter().map(|(job, stray)| OrphanedJob { job, ..stray }).collect()
    }
}

/// Returns the plan with another job name; region, bucket and account are unchanged.
#[must_use]
pub fn plan_with_job_name(plan: &Plan, job: &str) -> Plan {
    let mut plan = plan.clone();
    if let Some(name) = plan.job.name.value_mut() {
        job.clone_into(name);
    }
    plan
}

/// Minimum length of a job name that the name of a run truncates (63 characters, less the digest and the
/// number).
const CUT: usize = 45;

/// Returns true if the text may be the truncated name of a known job.
fn is_truncated_name(job: &str, known: &[&str]) -> bool {
    job.len() >= CUT && known.iter().any(|known| known.starts_with(job))
}

/// Returns true for the status of a run that has ended.
pub(crate) fn is_over(status: &str) -> bool {
    matches!(status, "Completed" | "Failed" | "Stopped")
}

#[cfg(test)]
mod tests {
    use super::{is_truncated_name, job_name_of_run};

    #[test]
    fn a_run_tells_its_job() {
        assert_eq!(job_name_of_run("lr-1e-4-0a1b2c3d"), Some("lr-1e-4"));
        assert_eq!(job_name_of_run("lr-1e-4-0a1b2c3d-r12"), Some("lr-1e-4"));
        for other in ["lr-1e-4", "0a1b2c3d", "lr-0a1b2c3", "-0a1b2c3d", "lr-0a1b2c3d-r", "lr-0a1b2c3x"] {
            assert_eq!(job_name_of_run(other), None, "{other}");
        }
        let long = "a".repeat(60);
        assert!(is_truncated_name(&long[..50], &[&long]) && !is_truncated_name("lr-1", &["lr-10"]));
    }
}
