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
    use crate::sample::{self, small_plan};
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

    /// Returns the file that trainc writes for an engine, of a job on two nodes of eight GPUs.
    fn written(parallel: &str, path: &str) -> String {
        let plan = sample::plan(&format!(
            r#"
job "a" {{
    region "us-west-2"
    model "gpt2-xl"
    cluster "ml.p4d.24xlarge" nodes=2
    parallel {parallel}
    train {{
        precision "bf16"
        sequence-length 1024
        micro-batch 2
        accumulation 4
        attention "fa2"
        optimizer "adamw" lr=2e-4 clip=1.0
        steps 100
    }}
    program "train.py" source="./scripts"
    image "pytorch" version="2.13"
    output s3="s3://example-runs/output/"
    role create=#true
}}
"#
        ));
        file(&plan, path).unwrap()
    }

    #[test]
    fn accelerate_gets_fsdp_of_the_second_version() {
        let parallel = r#"engine="accelerate" {
            replicate-degree 2
            shard-degree 4
            context-degree 2
            wrap "GPT2Block"
        }"#;
        let expected = "\
# Written by trainc from the manifest. The launch script states the topology on the command line.
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
  fsdp_offload_params: false
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: GPT2Block
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_cpu_ram_efficient_loading: true
parallelism_config:
  parallelism_config_dp_replicate_size: 2
  parallelism_config_dp_shard_size: 4
  parallelism_config_cp_size: 2
";
        assert_eq!(written(parallel, "engine/accelerate.yaml"), expected);
    }

    #[test]
    fn accelerate_gets_a_stage_of_zero() {
        let parallel = r#"engine="accelerate" { strategy "zero-3"; ulysses-degree 4; offload "optimizer"; }"#;
        let expected = "\
# Written by trainc from the manifest. The launch script states the topology on the command line.
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: bf16
deepspeed_config:
  zero_stage: 3
  gradient_accumulation_steps: 4
  gradient_clipping: 1.0
  offload_optimizer_device: cpu
  offload_param_device: none
  zero3_init_flag: true
  zero3_save_16bit_model: true
  deepspeed_multinode_launcher: standard
parallelism_config:
  parallelism_config_dp_shard_size: 4
  parallelism_config_sp_size: 4
  parallelism_config_sp_attn_implementation: flash_attention_2
";
        assert_eq!(written(parallel, "engine/accelerate.yaml"), expected);
    }

    /// The numbers are the plan's, where `auto` would take the Trainer's.
    #[test]
    fn deepspeed_gets_numbers() {
        let parallel = r#"engine="deepspeed" { strategy "zero-2"; offload "optimizer"; }"#;
        let read: serde_json::Value =
            serde_json::from_str(&written(parallel, "engine/ds_config.json")).unwrap();
        let expected = serde_json::json!({
            "train_batch_size": 128,
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 4,
            "gradient_clipping": 1.0,
            "bf16": {"enabled": true},
            "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        });
        assert_eq!(read, expected);
        // DeepSpeed's law of batches counts the tensor ranks, too (`runtime/config.py`, `_batch_assertion`).
        let tensor =
            written(r#"engine="deepspeed" { strategy "zero-1"; tensor-degree 2; }"#, "engine/ds_config.json");
        assert!(tensor.contains("\"train_batch_size\": 128,"), "{tensor}");
    }

    #[test]
    fn transformers_gets_degrees() {
        let parallel =
            r#"engine="distributed-config" { replicate-degree 2; shard-degree 4; tensor-degree 2; }"#;
        let read: serde_json::Value =
            serde_json::from_str(&written(parallel, "engine/distributed.json")).unwrap();
        let degrees = [("tp_size", 2), ("fsdp_size", 4), ("dp_replicate_size", 2)];
        let mut expected = serde_json::json!({"fsdp_mixed_precision": true});
        for (key, degree) in degrees {
            expected[key] = degree.into();
        }
        assert_eq!(read, expected);
    }
}
