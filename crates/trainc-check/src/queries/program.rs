//! The form of the program's entry point, and what its files contain.

use std::path::Path;
use trainc_diag::Help;
use trainc_diag::source::Span;
use trainc_ir::{Image, Plan, Program, Scalar};

/// Words of scripts that start processes, connect hosts or use several GPUs by themselves.
const OWN_PROCESSES: &[&str] = &[
    "import ray",
    "from ray",
    "dask",
    "SM_HOSTS",
    "SM_CURRENT_HOST",
    "SM_RESOURCE_CONFIG",
    "init_process_group",
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.elastic",
    "nproc_per_node",
    "nproc-per-node",
    "multiprocessing.spawn",
    "start_processes(",
    "mp.spawn",
    "mpirun",
    "mpiexec",
    "horovod",
    "smdistributed",
    "accelerate",
    "deepspeed",
    "DataParallel",
    "device_map",
    "tensor_parallel_size",
    "Trainer(",
    "Fabric(",
    "MirroredStrategy",
    "tf.distribute",
    "jax.distributed",
    "pmap(",
];

/// Who decides how many processes a host runs, if no launcher does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processes {
    /// The container or the script: an image that is not one of PyTorch (XGBoost, a built-in algorithm,
    /// TensorFlow), an entry point that starts any program, or a script that starts processes or connects
    /// hosts.
    Own,
    /// Neither: each host runs the script in a single process.
    Single,
    /// The script, which is not among the files that trainc reads: an archive in S3, a repository that was
    /// not fetched.
    Unknown,
}

/// Returns who decides how many processes a host runs.
pub(crate) fn processes(plan: &Plan) -> Processes {
    let has_entrypoint = plan.job.program.as_ref().is_some_and(|program| !program.entrypoint.is_empty());
    let is_own = plan.image.as_ref().is_some_and(Image::is_own) || plan.job.has_algorithm_name();
    if has_entrypoint || is_own || source_contains(plan, OWN_PROCESSES) {
        Processes::Own
    } else if plan.source.is_some() {
        Processes::Single
    } else {
        Processes::Unknown
    }
}

/// Words of options, images and scripts that shard the model by themselves, with DeepSpeed, Megatron-LM,
/// PyTorch's FSDP or the Neuron SDK.
const OWN_SHARDING: &[&str] = &[
    "deepspeed",
    "ds_config",
    "zero_stage",
    "megatron",
    "colossalai",
    "neuronx_distributed",
    "FullyShardedDataParallel",
    "fully_shard",
    "fsdp",
    "tensor_parallel",
    "tensor_model_parallel",
    "pipeline_parallel",
];

/// Returns the word that says that the program shards the model in a way that the engine does not describe.
pub(crate) fn own_sharding(plan: &Plan) -> Option<&'static str> {
    plan.engine.filter(|engine| engine.law.whole_model)?;
    let program = plan.job.program.as_ref()?;
    let names = program.hyperparameters.iter().flat_map(|h| {
        let value = h.value.value().map(Scalar::python).unwrap_or_default();
        [h.name.replace('-', "_"), value]
    });
    let words = program.entrypoint.iter().chain(&program.arguments).map(|word| word.value.replace('-', "_"));
    let image = plan.image.iter().map(|image| image.uri.clone());
    let texts: Vec<String> = names.chain(words).chain(image).collect();
    OWN_SHARDING
        .iter()
        .copied()
        .find(|word| texts.iter().any(|text| text.contains(word)) || source_contains(plan, &[word]))
}

/// Returns whether a script of the program contains one of the words.
fn source_contains(plan: &Plan, words: &[&str]) -> bool {
    let is_script = |path: &str| {
        Path::new(path).extension().is_some_and(|extension| extension == "py" || extension == "sh")
    };
    plan.source.iter().flat_map(|tree| &tree.files).filter(|file| is_script(&file.path)).any(|file| {
        let text = file.text();
        words.iter().any(|word| text.contains(word))
    })
}

/// The environment variable whose value the toolkit starts instead of the entry point
/// (sagemaker-training-toolkit @3383937, `environment.py`).
pub(crate) const PROGRAM_VARIABLE: &str = "SAGEMAKER_PROGRAM";

/// Returns the module that an entry point names in place of a file: `-m acme.train`, `python -m acme.train`,
/// `acme.train`.
pub(crate) fn module_of_entry(entry: &str) -> Option<&str> {
    let words: Vec<&str> = entry.split_whitespace().collect();
    let named = words.iter().position(|word| *word == "-m").and_then(|at| words.get(at + 1)).copied();
    let is_name = |word: &str| {
        let mut parts = word.split('.');
        parts.all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let ends = [
        "py", "sh", "ipynb", "bash", "zsh", "r", "pl", "exe", "tar", "gz", "zip", "json", "yaml", "yml",
        "txt",
    ];
    let is_file = |word: &str| {
        word.rsplit_once('.').is_none_or(|(_, end)| ends.contains(&end.to_ascii_lowercase().as_str()))
    };
    let alone = words.first().copied().filter(|word| words.len() == 1 && !is_file(word));
    named.or(alone).filter(|word| is_name(word))
}

/// Returns the script that a whole command starts: `python train.py --lr 1e-4`.
pub(crate) fn script_of_command(command: &str) -> Option<&str> {
    let words = || command.split_whitespace();
    let is_script = |word: &&str| [".py", ".sh"].iter().any(|end| word.ends_with(end));
    words().find(is_script).filter(|_| words().nth(1).is_some())
}

/// Returns the help for an entry point that is a whole command.
pub(crate) fn command_help(script: &str) -> Help {
    Help::from(format!(
        "write `program \"{script}\"`, which trainc starts, and each argument as `hyperparameter \"…\" …`"
    ))
}

/// Returns the help for an entry point that names a module.
pub(crate) fn module_help(module: &str, files: &[&str]) -> Help {
    let path = module.replace('.', "/");
    let is_it = |file: &&&str| {
        let stem = file.strip_suffix(".py");
        stem.is_some_and(|stem| stem == path || stem.strip_suffix("/__main__") == Some(&path))
    };
    let start = format!("a start script with `runpy.run_module(\"{module}\", run_name=\"__main__\")`");
    match files.iter().find(is_it) {
        Some(file) => Help::write(format!("program \"{file}\"")).or_else(&start),
        None => format!("write the path of the module's file, such as `{path}.py`, or {start}").into(),
    }
}

/// Returns whether a job has the batch and the length that `import` writes where a request does not say them.
pub(crate) fn has_assumed_batch(plan: &Plan) -> bool {
    let train = &plan.job.train;
    train.micro_batch_size.get() == Some(1) && train.steps.get() == Some(1)
}

/// Returns whether the path of an entry point leads outside the program's directory.
pub(crate) fn is_outside_source(path: &str) -> bool {
    path.starts_with("s3://") || path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// Returns whether the toolkit starts the file with Python: it compares the extension, case included.
pub(crate) fn is_python(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "py")
}

/// Returns the texts of the program's hyperparameters and variables: name, text and the text's place.
pub(crate) fn texts(program: &Program) -> Vec<(&str, &str, Span)> {
    let parameters = program.hyperparameters.iter().filter_map(|h| match h.value.val() {
        Some(val) => match &val.value {
            Scalar::Text(text) => Some((h.name.as_str(), text.as_str(), val.span_or(h.name_span))),
            _ => None,
        },
        None => None,
    });
    let variables = program.environment.iter().filter_map(|pair| {
        let val = pair.value.val()?;
        Some((pair.key.as_str(), val.value.as_str(), val.span_or(pair.key_span)))
    });
    parameters.chain(variables).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_no_file() {
        for (entry, module) in [
            ("-m acme.train", Some("acme.train")),
            ("python -m acme.train --x", Some("acme.train")),
            ("acme.train", Some("acme.train")),
            ("train.py", None),
            ("scripts/train.py", None),
            ("run.sh", None),
            ("train", None),
            ("-m", None),
        ] {
            assert_eq!(module_of_entry(entry), module, "{entry}");
        }
    }
}
