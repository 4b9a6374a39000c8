//! Scripts with `ModelTrainer`, in the shapes of public notebooks, import to manifests without errors but for
//! placeholders.
//!
//! `tests/import/trainer` has each script with the record of its run under the SageMaker SDK v3, and the
//! sources that they name; `tests/python/test_import_scripts.py` runs them.

#![expect(clippy::disallowed_methods, reason = "the test reads and writes files")]
#![expect(clippy::unwrap_used, reason = "a test's helpers")]

use std::fs;
use std::path::{Path, PathBuf};
use trainc_check::codes::T0760;
use trainc_diag::Severity;
use trainc_import::Recording;
use trainc_import::conversion::{Converted, convert_recording};
use trainc_import::destination::Destination;
use trainc_plan::Options;
use trainc_predict::Constants;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import/trainer").canonicalize().unwrap()
}

/// Copies a directory with what is below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A directory that is deleted at the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Imports the record of a script, in a directory of its own with the sources.
fn imported(name: &str) -> (Place, Converted) {
    let work = std::env::temp_dir().join(format!("trainc-trainer-{name}-{}", std::process::id()));
    fs::create_dir_all(&work).unwrap();
    let work = work.canonicalize().unwrap();
    let directory = Place(work.clone());
    copy(&scripts(), &work);
    fs::create_dir(work.join(".git")).unwrap();
    let record = fs::read_to_string(work.join(format!("{name}.record"))).unwrap();
    let mut recording = Recording::read(&record.replace("${work}", &work.to_string_lossy()));
    assert!(recording.ended && recording.failure.is_none(), "{name}: {:?}", recording.failure);
    let to = Destination { out: Some(work.join("job.kdl")), request: None, prints_one: true };
    let script = work.join(format!("{name}.py"));
    let mut done = convert_recording(&to, &Options::default(), &script, "", &mut recording).unwrap();
    assert_eq!(done.len(), 1, "{name}");
    (directory, done.remove(0))
}

/// Lines of each manifest: the program, the launcher, and what is known of the training.
const EXPECTED: &[(&str, &[&str])] = &[
    (
        "args_in_source",
        &[
            "program \"train.py\" source=\"./scripts\"",
            "parallel engine=\"ddp\" launcher=\"torchrun\"",
            "model \"Qwen/Qwen3-8B\"",
            "train file=\"./scripts/recipes/qwen3-8b-lora.yaml\"",
            "hyperparameter \"config\" \"{{ train.file }}\"",
        ],
    ),
    (
        "command_accelerate",
        &[
            "program \"train.py\" source=\"./scripts\"",
            "parallel engine=\"accelerate\" file=\"./scripts/fsdp.yaml\"",
            "hyperparameter \"per_device_train_batch_size\" \"{{ batch.micro }}\"",
            "micro-batch 2",
            "steps 200",
            "secret \"HF_TOKEN\" from=\"arn:aws:secretsmanager:us-west-2:${account}:secret:made-up-",
            "secret \"WANDB_API_KEY\" from=\"arn:aws:secretsmanager:us-west-2:${account}:secret:made-up-",
        ],
    ),
    (
        "command_launcher",
        &[
            "program \"launcher.py\" source=\"./shell\"",
            "hyperparameter \"entrypoint\" \"train.py\"",
            "train file=\"./shell/recipes/qwen3-4b.yaml\" {",
            "dataset sequences=1",
        ],
    ),
    ("command_of_several", &["entrypoint \"/bin/bash\"", "channel \"sm_drivers\""]),
    (
        "command_shell_recipe",
        &[
            "program \"run_sft.sh\" source=\"./shell\"",
            "hyperparameter \"config\" \"{{ train.file }}\"",
            "secret \"HF_TOKEN\" from=\"arn:aws:secretsmanager:us-west-2:${account}:secret:made-up-",
            "environment NCCL_DEBUG=\"INFO\"",
        ],
    ),
    (
        "command_torchrun",
        &[
            "program \"train.py\" source=\"./scripts\"",
            "parallel engine=\"ddp\" launcher=\"torchrun\"",
            "hyperparameter \"packing\" #true",
            "hyperparameter \"max_steps\" \"{{ train.steps }}\"",
            "steps 1000",
        ],
    ),
    (
        "mpi",
        &[
            "program \"train.py\" source=\"./scripts\"",
            "parallel engine=\"ddp\" launcher=\"mpi\" {",
            "processes 8",
            "mpi-env NCCL_DEBUG=\"INFO\"",
        ],
    ),
    (
        "multi_node",
        &[
            "program \"train.py\" source=\"./scripts\"",
            "parallel engine=\"fsdp\" {",
            "strategy \"full-shard\"",
            "model \"meta-llama/Llama-3.1-8B\"",
            "hyperparameter \"num_train_epochs\" \"{{ train.epochs }}\"",
        ],
    ),
    ("own_image_command", &["program \"jobs/grpo.sh\" source=\"./shell\"", "parallel engine=\"none\""]),
    ("plain_python", &["program \"train.py\" source=\"./scripts\"", "parallel engine=\"none\""]),
    (
        "shell_entry",
        &[
            "program \"train.sh\" source=\"./shell\"",
            "environment RUN_NAME=\"flux\"",
            "secret \"WANDB_API_KEY\" from=\"arn:aws:secretsmanager:us-west-2:${account}:secret:made-up-",
        ],
    ),
    (
        "smp",
        &[
            "program \"train.py\" source=\"./scripts\"",
            "parallel engine=\"smp\" {",
            "shard-degree 16",
            "offload-activations #true",
        ],
    ),
    (
        "torchrun_hyperparameters",
        &[
            "program \"train.py\" source=\"./scripts\"",
            "model \"Qwen/Qwen3-0.6B\"",
            "accumulation 2",
            "hyperparameter \"learning_rate\" \"{{ train.lr }}\"",
            "hyperparameter \"dataset\" \"/opt/ml/input/data/train\"",
        ],
    ),
    (
        "torchrun_uploaded_args",
        &[
            "program \"train.py\" source=\"./scripts\"",
            "parallel engine=\"fsdp\" {",
            "model \"mistralai/Mistral-7B-v0.1\"",
            "micro-batch 4",
            "epochs 10",
            "hyperparameter \"config\" \"/opt/ml/input/data/config/args.yaml\"",
        ],
    ),
];

/// Jobs whose hyperparameters, or file of arguments, say how long they train: their costs are known.
const PREDICTED: [&str; 4] =
    ["args_in_source", "command_accelerate", "command_torchrun", "torchrun_hyperparameters"];

#[test]
fn scripts_with_a_trainer_become_programs_with_their_source() {
    let is_script = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "py");
    let scripts =
        fs::read_dir(scripts()).unwrap().map(|entry| entry.unwrap().path()).filter(is_script).count();
    assert_eq!(scripts, EXPECTED.len());
    for (name, lines) in EXPECTED {
        let (_directory, job) = imported(name);
        let manifest = &job.imported.manifest;
        let errors: Vec<String> = job
            .compiled
            .problems
            .iter()
            .filter(|one| one.severity == Severity::Error && one.code.id != T0760.id)
            .map(|one| format!("{}: {}", one.code.id, one.message))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}\n{manifest}");
        for line in *lines {
            let has = manifest
                .lines()
                .any(|one| one.trim().trim_end_matches(" {").starts_with(line.trim_end_matches(" {")));
            assert!(has, "{name}: {line}\n{manifest}");
        }
        assert_eq!(manifest.contains("sm_drivers"), *name == "command_of_several", "{manifest}");
        assert_eq!(job.imported.lost, [""; 0], "{name}\n{manifest}");
        if PREDICTED.contains(name) {
            let plan = job.compiled.plan.as_deref().unwrap();
            let predicted = trainc_predict::of_plan(plan, Constants::shipped());
            let cost = predicted.run.and_then(|run| run.cost_usd);
            assert!(predicted.memory.is_some() && cost.is_some(), "{name}\n{manifest}");
        }
    }
}
