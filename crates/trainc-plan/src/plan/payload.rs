//! Decides what the containers of a job start, from which code, and what trainc adds to it.

use trainc_catalog::efa::{self, Starter};
use trainc_ir::{AddedFile, Archive, ArchiveOrigin, KeyPlace, Launcher, Payload, Plan, Program, Starts};

/// The channel in which the training toolkit expects the archive of an isolated container.
const CODE_CHANNEL: &str = "code";
/// The channel of engine `worker`.
const WORKER_CHANNEL: &str = "worker";

/// Returns the payload of a bound plan whose launcher is decided.
pub(super) fn payload(plan: &Plan, in_container: bool) -> Payload {
    let program = plan.job.program.as_ref();
    let starts = starts(plan, program, in_container);
    let archive = program.and_then(|program| archive(plan, program, &starts));
    let environment = environment(plan, &starts);
    let mut out = Payload { starts, archive, environment, ..Payload::default() };
    let is_watched = (plan.is_probed() || plan.enforced_budget().is_some()) && out.can_start_script();
    let watching = [AddedFile::StartScript, AddedFile::StartSettings]
        .into_iter()
        .chain(plan.is_probed().then_some(AddedFile::Probe))
        .filter(|_| is_watched);
    let has_secrets = program.is_some_and(|program| !program.secrets.is_empty());
    match &mut out.starts {
        Starts::Worker { added, .. } if is_watched => added.extend(watching),
        _ if is_watched => out.added.extend(watching),
        _ => out.added.extend(has_secrets.then_some(AddedFile::SecretsScript)),
    }
    out.program = program.filter(|_| out.starts != Starts::Container).and_then(|program| {
        let is_direct = !has_secrets && !is_watched;
        let entry = has_file(program).then(|| program.entry.value().cloned().unwrap_or_default())?;
        Some(if is_direct { entry } else { AddedFile::StartScript.name().to_owned() })
    });
    if out.is_launched_by_script() {
        out.added.push(AddedFile::LaunchScript);
    }
    if out.is_packed() {
        out.added.extend(settings_files(plan));
    }
    out.key = match out.starts {
        _ if !in_container => None,
        Starts::Worker { .. } => Some(KeyPlace::Worker),
        _ => (plan.enforced_budget().is_some() && is_watched).then_some(KeyPlace::Archive),
    };
    out
}

fn starts(plan: &Plan, program: Option<&Program>, in_container: bool) -> Starts {
    if plan.is_worker() {
        return Starts::Worker { channel: free_channel_name(plan, WORKER_CHANNEL), added: Vec::new() };
    }
    let is_by_script = match plan.launch.launcher {
        Launcher::LaunchScript => true,
        // No toolkit starts it. A rule reports an archive that trainc does not pack.
        Launcher::Accelerate => {
            in_container && program.is_some_and(|program| has_file(program) && program.s3.is_absent())
        }
        _ => false,
    };
    if is_by_script {
        return Starts::LaunchScript { has_other_hosts: plan.launch.group.is_some() };
    }
    if program.is_some_and(has_file) { Starts::Toolkit } else { Starts::Container }
}

/// Returns the files of launchers, libraries and the program that the source does not contain: those that the
/// manifest names, and the one that trainc writes for the engine.
fn settings_files(plan: &Plan) -> impl Iterator<Item = AddedFile> {
    let named = plan.files.iter().filter(|file| !file.is_in_source);
    let named =
        named.map(|file| AddedFile::Settings { path: file.packed_as.clone(), text: file.text.clone() });
    let written = plan.written_file().and_then(|path| {
        Some(AddedFile::Settings { path: path.to_owned(), text: trainc_engine::write::file(plan)?.into() })
    });
    named.chain(written)
}

/// Returns whether the program is a file that the toolkit or the launch script starts, instead of an entry
/// point of the image or the job.
fn has_file(program: &Program) -> bool {
    program.entrypoint.is_empty() && !program.entry.is_absent()
}

/// Returns the archive with the code: none for a container with its own entry point, or for a program without
/// code, which only has hyperparameters and variables for the image's own program.
fn archive(plan: &Plan, program: &Program, starts: &Starts) -> Option<Archive> {
    let has_code = !(program.entry.is_absent() && program.source.is_absent() && program.git.is_absent());
    let origin = match program.s3.value() {
        Some(_) => ArchiveOrigin::Existing,
        None if has_code && program.entrypoint.is_empty() => ArchiveOrigin::Packed,
        None => return None,
    };
    let is_isolated = plan.job.network.as_ref().and_then(|network| network.isolation.get()) == Some(true);
    let channel = match starts {
        Starts::LaunchScript { .. } => Some(free_channel_name(plan, CODE_CHANNEL)),
        Starts::Toolkit => is_isolated.then(|| CODE_CHANNEL.to_owned()),
        Starts::Container | Starts::Worker { .. } => None,
    };
    Some(Archive { origin, channel })
}

/// Returns the name, or the next one that no channel of the job has: `code`, `code-2`.
fn free_channel_name(plan: &Plan, name: &str) -> String {
    let taken = |name: &str| {
        plan.job.channels.iter().any(|channel| channel.name.value().is_some_and(|other| other == name))
    };
    if !taken(name) {
        return name.to_owned();
    }
    (2..100).map(|n| format!("{name}-{n}")).find(|name| !taken(name)).unwrap_or_else(|| name.to_owned())
}

/// Returns the variables that communication over EFA requires.
fn environment(plan: &Plan, starts: &Starts) -> Vec<(String, String)> {
    let starter = match starts {
        Starts::LaunchScript { .. } => Starter::LaunchScript,
        Starts::Worker { .. } => Starter::Worker,
        Starts::Container | Starts::Toolkit => return Vec::new(),
    };
    let hosts = plan.mesh.as_ref().map_or(1, |mesh| mesh.nodes);
    plan.instance.as_ref().map(|instance| efa::environment(instance, starter, hosts)).unwrap_or_default()
}
