//! The contents of the files that trainc adds to the code of a job, or to the channel of engine `worker`.

use super::{launch_script, start, template};
use trainc_ir::{AddedFile, Plan, SourceFile};

/// Returns the files that trainc adds to the code.
pub(super) fn to_code(plan: &Plan) -> Vec<SourceFile> {
    files(plan, &plan.payload.added)
}

/// Returns the files that trainc adds to the channel of engine `worker`.
pub(super) fn to_worker_channel(plan: &Plan) -> Vec<SourceFile> {
    files(plan, plan.payload.worker_files())
}

fn files(plan: &Plan, added: &[AddedFile]) -> Vec<SourceFile> {
    let file = |added: &AddedFile| Some(SourceFile::new(added.name(), content(plan, *added)?, false));
    added.iter().filter_map(file).collect()
}

/// Returns the content of a file; `None` in a plan with errors.
fn content(plan: &Plan, file: AddedFile) -> Option<Vec<u8>> {
    match file {
        AddedFile::SecretsScript => secrets_script(plan).map(String::into_bytes),
        AddedFile::StartScript => Some(start::SCRIPT.as_bytes().to_vec()),
        AddedFile::StartSettings => start::settings(plan),
        AddedFile::Probe => Some(start::PROBE.as_bytes().to_vec()),
        AddedFile::LaunchScript => launch_script::script(plan).map(String::into_bytes),
    }
}

/// Returns the script that fetches the secrets and then starts the program.
fn secrets_script(plan: &Plan) -> Option<String> {
    let program = plan.job.program.as_ref()?;
    let secret = |secret: &trainc_ir::Secret| Some((secret.name.clone(), secret.from.text()?.to_owned()));
    let secrets: Vec<(String, String)> = program.secrets.iter().filter_map(secret).collect();
    template::secrets_script(&secrets, program.entry.value()?)
}
