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
    let file = |added: &AddedFile| Some(SourceFile::new(added.name(), content(plan, added)?, false));
    added.iter().filter_map(file).collect()
}

/// Returns the content of a file; `None` in a plan with errors.
fn content(plan: &Plan, file: &AddedFile) -> Option<Vec<u8>> {
    match file {
        AddedFile::SecretsScript => secrets_script(plan).map(String::into_bytes),
        AddedFile::StartScript => Some(start::SCRIPT.as_bytes().to_vec()),
        AddedFile::StartSettings => start::settings(plan),
        AddedFile::Probe => Some(start::PROBE.as_bytes().to_vec()),
        AddedFile::LaunchScript => launch_script::script(plan).map(String::into_bytes),
        AddedFile::Settings { text, .. } => Some(text.as_bytes().to_vec()),
    }
}

/// Returns the script that fetches the secrets and then starts the program.
fn secrets_script(plan: &Plan) -> Option<String> {
    let program = plan.job.program.as_ref()?;
    let secret = |secret: &trainc_ir::Secret| Some((secret.name.clone(), secret.from.text()?.to_owned()));
    let secrets: Vec<(String, String)> = program.secrets.iter().filter_map(secret).collect();
    template::secrets_script(&secrets, program.entry.value()?)
}

#[cfg(test)]
mod tests {
    use crate::sample::small_plan;
    use crate::{archive, identity};
    use trainc_ir::{Plan, SourceFile};

    const GIT: &str = r#"program "train.py" git="https://example.com/team/train.git""#;

    fn file(plan: &Plan, path: &str) -> Option<String> {
        let files = archive::files(plan);
        let found = files.iter().find(|file| file.path == path)?;
        Some(String::from_utf8(found.bytes.to_vec()).unwrap())
    }

    fn paths(plan: &Plan) -> Vec<String> {
        archive::files(plan).into_iter().map(|file: SourceFile| file.path).collect()
    }

    fn accelerate(file: &str, more: &str) -> Plan {
        let parallel = format!("parallel engine=\"accelerate\" file=\"{file}\"");
        small_plan("a", &format!("{parallel}\n{more}"))
    }

    #[test]
    fn a_file_outside_the_source_is_packed_as_it_is() {
        let plan = accelerate("configs/zero3.yaml", "");
        assert_eq!(paths(&plan), ["engine/zero3.yaml", "train.py", "trainc_launch.py"]);
        assert!(
            file(&plan, "engine/zero3.yaml").unwrap().starts_with("# configs/zero3.yaml\ndistributed_type:")
        );
        let script = file(&plan, "trainc_launch.py").unwrap();
        assert!(script.contains("CONFIG = \"engine/zero3.yaml\"") && !script.contains("torchrun\","));
        let of_repository = accelerate("configs/zero3.yaml", GIT);
        assert!(paths(&of_repository).contains(&"engine/zero3.yaml".to_owned()));
    }

    #[test]
    fn a_file_of_the_source_keeps_its_path() {
        let plan = accelerate("scripts/configs/zero3.yaml", "");
        assert_eq!(paths(&plan), ["train.py", "trainc_launch.py"]);
        assert!(file(&plan, "trainc_launch.py").unwrap().contains("CONFIG = \"configs/zero3.yaml\""));
    }

    #[test]
    fn the_content_of_a_file_is_part_of_the_digest() {
        for program in ["", GIT] {
            let digest = |file: &str| identity(&accelerate(file, program)).digest;
            assert_ne!(digest("a/zero3.yaml"), digest("b/zero3.yaml"), "{program}");
        }
    }

    #[test]
    fn a_file_that_trainc_writes_is_part_of_the_digest() {
        let plan = |stage: u8, more: &str| {
            let parallel = format!("parallel engine=\"accelerate\" {{ strategy \"zero-{stage}\"; }}");
            small_plan("a", &format!("{parallel}\n{more}"))
        };
        let written = |stage| file(&plan(stage, ""), "engine/accelerate.yaml").unwrap();
        assert!(written(2).contains("zero_stage: 2\n") && written(3).contains("zero_stage: 3\n"));
        assert_eq!(written(2), written(2));
        for program in ["", GIT] {
            assert_ne!(identity(&plan(2, program)).digest, identity(&plan(3, program)).digest, "{program}");
        }
    }

    #[test]
    fn placeholders_are_paths_in_the_container() {
        let program =
            r#"program "train.py" source="./scripts" { hyperparameter "config" "{{ engine.file }}"; }"#;
        let value = |plan: &Plan| {
            let program = plan.job.program.as_ref().unwrap();
            let found = program.hyperparameters.iter().find(|one| one.name == "config").unwrap();
            found.value.value().cloned()
        };
        let text = |path: &str| Some(trainc_ir::Scalar::Text(path.to_owned()));
        assert_eq!(value(&accelerate("configs/zero3.yaml", program)), text("/opt/ml/code/engine/zero3.yaml"));
        let written =
            small_plan("a", &format!("parallel engine=\"accelerate\" {{ strategy \"zero-2\"; }}\n{program}"));
        assert_eq!(value(&written), text("/opt/ml/code/engine/accelerate.yaml"));
    }
}
