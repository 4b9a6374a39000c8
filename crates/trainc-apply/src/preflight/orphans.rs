//! Resources of the job that the manifest no longer names.

use crate::account::FileSystem;
use crate::file_systems::{describe_monthly_cost, monthly_cost};
use crate::orphaned_jobs::OrphanedJob;
use crate::ownership;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Detail, Diagnostic, Problems};
use trainc_diag::{NextCommand, help};
use trainc_ir::Plan;

declare_code!(
    T0649,
    "mounted-file-system-deleted",
    Warning,
    "a running job whose file system was deleted",
    found_in: Account
);
declare_code!(
    T0644,
    "orphaned-file-system",
    Warning,
    "a file system of the job that is no longer in the manifest",
    found_in: Account
);

declare_code!(
    T0668,
    "orphaned-sweep-job",
    Warning,
    "resources of a job that is no longer in the sweep",
    found_in: Account
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0644, &T0649, &T0668];

/// Reports the remaining resources of each job that the sweep no longer contains, with the command that
/// deletes them. Today, in days since 1970, gives the age of old prices.
pub fn orphaned_sweep_jobs(plan: &Plan, strays: &[OrphanedJob], today: Option<i64>, problems: &mut Problems) {
    let region = plan.job.region.value().map_or("", String::as_str);
    for stray in strays {
        let job = &stray.job;
        let runs = stray.running.iter().map(|(run, status)| format!("training job `{run}` ({status})"));
        let systems = stray.file_systems.iter().map(|system| {
            let monthly = describe_monthly_cost(region, system, today);
            let others = ownership::others(&system.tags, job);
            let said = match monthly {
                _ if !others.is_empty() => format!(" (kept for {})", text::backtick_list(&others, "and")),
                Some(cost) => format!(", {cost}"),
                None => String::new(),
            };
            format!("file system `{}`{said}", system.id)
        });
        let role = stray.role.iter().map(|role| format!("role `{role}`"));
        let all: Vec<String> = runs.chain(systems).chain(role).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let stays = if all.len() == 1 { "remains" } else { "remain" };
        let words =
            format!("the sweep no longer contains `{job}`, but its {} {stays}", text::list(&all, "and"));
        let mut one = Diagnostic::new(&T0668, plan.job.name.span().unwrap_or(plan.job.span), words)
            .help(help![NextCommand::new("destroy").flag(format!("--job {job}"))])
            .note(
                "editing a manifest deletes nothing; if another manifest describes that job, the \
                resources belong to that manifest",
            )
            .fact("job", job.as_str());
        if !stray.file_systems.is_empty() {
            one = one.note("`--delete-data` also deletes the file system with all of its data");
        }
        problems.push(one);
    }
}

/// Reports deleted file systems of a running job by their IDs: trainc does not replace them.
pub fn lost_file_systems(plan: &Plan, run: &str, systems: &[String], problems: &mut Problems) {
    let span = plan.job.storage.first().map_or(plan.job.span, |storage| storage.span);
    for id in systems {
        problems.push(
            Diagnostic::new(&T0649, span, format!("`{run}` keeps running without `{id}`, which was deleted"))
                .help(help![
                    "stop it with `",
                    NextCommand::new("stop").flag(format!("--run {run}")),
                    "`, then `",
                    NextCommand::new("apply").flag("--new-run"),
                    "` creates the file system again",
                ])
                .note("a job mounts its file systems when it starts: it cannot use one that is created now")
                .detail(Detail::LostFileSystem { file_system: id.clone(), training_job: run.to_owned() }),
        );
    }
}

/// Reports orphaned file systems, with their monthly cost where the price is known. Today, in days since
/// 1970, gives the age of old prices.
pub fn orphaned_file_systems(
    plan: &Plan,
    systems: &[FileSystem],
    today: Option<i64>,
    problems: &mut Problems,
) {
    let region = plan.job.region.value().map_or("", String::as_str);
    let span = plan.job.storage.first().map_or(plan.job.span, |storage| storage.span);
    for system in systems {
        let before = system.tags.get("trainc:resource").and_then(|tag| tag.strip_prefix("file-system/"));
        let monthly = monthly_cost(region, system).map(|(usd, _)| usd);
        let cost = describe_monthly_cost(region, system, today)
            .map_or_else(String::new, |cost| format!(", at {cost}"));
        let what = before.map_or_else(String::new, |name| format!(", storage `{name}`,"));
        let named = |storage: &trainc_ir::Storage| storage.name.value().map(String::as_str) == before;
        let (words, note) = if plan.job.storage.iter().any(named) {
            (
                "also belongs to this job, in addition to the one in use",
                "this deletes it with all of its data",
            )
        } else {
            (
                "belongs to this job, but is no longer in the manifest",
                "this deletes it with all of its data; to use it again, restore its name in the manifest",
            )
        };
        let job = plan.job.name.value().map_or("", String::as_str);
        let others = ownership::others(&system.tags, job);
        let said = format!("`{}`{what} {words}: it is kept{cost}", system.id);
        let diagnostic = Diagnostic::new(&T0644, span, said);
        let diagnostic = if others.is_empty() {
            let delete =
                format!("aws fsx delete-file-system --file-system-id {} --region {region}", system.id);
            diagnostic.help(delete).note(note)
        } else {
            let uses = if others.len() == 1 { "uses" } else { "use" };
            diagnostic
                .help(help![
                    NextCommand::new("destroy"),
                    " leaves it to them and deletes the other resources of this job"
                ])
                .note(format!("{} also {uses} it", text::backtick_list(&others, "and")))
        };
        let mut diagnostic =
            diagnostic.fact("file_system", system.id.as_str()).fact("capacity_gib", system.capacity_gib);
        if let Some(usd) = monthly {
            diagnostic = diagnostic.fact("usd_per_month", usd);
        }
        problems.push(diagnostic);
    }
}
