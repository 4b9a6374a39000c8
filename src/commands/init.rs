//! `trainc init`.

use crate::exit;
use crate::terminal::io::Io;
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trainc_diag::text;
use trainc_project::files::describe;

/// Write a commented manifest to start from
///
/// Writes `trainc.kdl` and the scripts that it names. Existing files are never overwritten.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc init\n  trainc init my-job\n  trainc init --example\n  trainc init --example llama-70b-zero3 llama"
)]
pub(crate) struct Args {
    /// Example to start from; without NAME, lists all [default: qwen3-trainer]
    #[arg(long, value_name = "NAME", value_parser = names())]
    #[expect(clippy::option_option, reason = "the flag, and its value")]
    example: Option<Option<String>>,
    /// Output directory; created if missing
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// An example: its name and its files.
type Example = (&'static str, &'static [(&'static str, &'static str)]);

macro_rules! examples {
    ($($name:literal: $($file:literal)*;)*) => {
        /// The shipped examples; a test compares the list with the directory.
        pub(crate) const EXAMPLES: &[Example] = &[
            $(($name, &[$(($file, include_str!(concat!("../../examples/", $name, "/", $file)))),*]),)*
        ];
    };
}

examples! {
    "qwen3-trainer": "trainc.kdl" "scripts/requirements.txt" "scripts/train.py";
    "qwen3-8b-fsdp2": "trainc.kdl" "scripts/requirements.txt" "scripts/sft.py";
    "llama-70b-zero3": "configs/args.yaml" "configs/zero3.yaml" "trainc.kdl" "scripts/requirements.txt"
        "scripts/sft.py";
    "qwen3-8b-qlora-deepspeed": "trainc.kdl" "scripts/finetune.py" "scripts/requirements.txt";
    "llama-8b-2d": "trainc.kdl" "scripts/requirements.txt" "scripts/train.py";
    "qwen3-30b-a3b": "trainc.kdl" "scripts/finetune.py" "scripts/requirements.txt";
    "qwen-32b-qlora": "trainc.kdl" "scripts/finetune.py" "scripts/requirements.txt";
    "qwen-vl-lora": "trainc.kdl" "scripts/finetune.py" "scripts/requirements.txt";
    "modernbert-ddp": "trainc.kdl" "scripts/pretrain.py" "scripts/requirements.txt";
    "smollm3-own-image": "trainc.kdl" "image/Dockerfile" "scripts/finetune.py";
    "smollm2-trainium": "trainc.kdl" "scripts/requirements.txt" "scripts/train.py";
    "xgboost-churn": "trainc.kdl";
    "llama-7b-worker": "trainc.kdl";
    "tiny-llama": "alice.txt" "tokenizer.json" "tokenizer_config.json" "trainc.kdl";
    "team-repo": "base.kdl" "jobs/classify.kdl" "jobs/finetune.kdl" "jobs/pretrain.kdl" "scripts/classify.py"
        "scripts/finetune.py" "scripts/pretrain.py" "scripts/requirements.txt";
    "starter": "trainc.kdl" "scripts/requirements.txt" "scripts/train.py";
    "distilbert-spot": "trainc.kdl" "scripts/train.py";
    "bert-squad-smddp": "trainc.kdl";
    "roberta-mnli-pipeline": "trainc.kdl";
    "gptj-6b-pipeline": "trainc.kdl" "scripts/train_gptj_smp_script.py";
    "gptj-6b-tensor": "trainc.kdl" "scripts/requirements.txt" "scripts/train_gptj_smp_tensor_parallel_script.py";
    "gpt2-30b-sharded": "trainc.kdl" "scripts/requirements.txt" "scripts/train_gpt_simple.py";
    "gpt2-30b-seq512": "trainc.kdl" "scripts/requirements.txt" "scripts/train.py";
    "neox-20b-fsdp": "trainc.kdl" "scripts/run_clm.py";
    "llama-7b-fsdp": "trainc.kdl" "scripts/pretrain.py" "scripts/requirements.txt";
    "falcon-40b-qlora": "trainc.kdl" "scripts/requirements.txt" "scripts/run_clm.py";
}

/// The index of the examples, which says what each shows.
const INDEX: &str = include_str!("../../examples/README.md");

/// The example that is written without `--example`.
const DEFAULT: &str = "qwen3-trainer";

/// Returns name and purpose of the example in a row of the index; `None` for any other line.
fn index_row(line: &'static str) -> Option<(&'static str, &'static str)> {
    let mut cells = line.strip_prefix("| [")?.split(" | ");
    let (name, _) = cells.next()?.split_once(']')?;
    Some((name, cells.next()?))
}

/// Returns the values of `--example`.
fn names() -> PossibleValuesParser {
    let rows = INDEX.lines().filter_map(index_row);
    rows.map(|(name, shows)| PossibleValue::new(name).help(shows)).collect::<Vec<_>>().into()
}

/// Prints the index of the examples.
fn list(io: &mut Io) {
    let mut gap = "";
    for line in INDEX.lines() {
        if let Some((name, shows)) = index_row(line) {
            io.print(&format!("{name:<26}{shows}\n"));
        } else if let Some(heading) = line.strip_prefix("## ") {
            io.print(&format!("{gap}{heading}\n"));
            gap = "\n";
        }
    }
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, args: &Args) -> u8 {
    let name = match &args.example {
        None => DEFAULT,
        Some(Some(name)) => name,
        Some(None) => {
            list(io);
            return exit::DONE;
        }
    };
    let Some((_, files)) = EXAMPLES.iter().find(|(known, _)| *known == name) else {
        return exit::USAGE;
    };
    let taken: Vec<String> = files
        .iter()
        .map(|(file, _)| args.dir.join(file))
        .filter(|path| fs::symlink_metadata(path).is_ok())
        .map(|path| format!("`{}`", path.display()))
        .collect();
    if !taken.is_empty() {
        let verb = if taken.len() == 1 { "exists" } else { "exist" };
        io.note(&format!("error: {} already {verb}; nothing was written\n", text::list(&taken, "and")));
        return exit::USAGE;
    }
    for (file, content) in *files {
        let path = args.dir.join(file);
        if let Err(error) = write_new(&path, content) {
            io.note(&format!("error: `{}` cannot be written: {}\n", path.display(), describe(&error)));
            return exit::USAGE;
        }
        io.print(&format!("wrote {}\n", path.display()));
    }
    io.print(&format!("next:  trainc plan --offline {}\n", path_to_plan(&args.dir, files).display()));
    exit::DONE
}

/// Returns the path to plan next: the manifest, or the whole directory if jobs and layers are spread over it.
fn path_to_plan(dir: &Path, files: &[(&str, &str)]) -> PathBuf {
    let manifest = "trainc.kdl";
    if files.iter().any(|(file, _)| *file == manifest) { dir.join(manifest) } else { dir.to_path_buf() }
}

/// Creates a file; fails if it exists.
fn write_new(path: &Path, content: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(content.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_lists_the_examples() {
        let listed: Vec<&str> = INDEX.lines().filter_map(index_row).map(|(name, _)| name).collect();
        let shipped: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, shipped);
        assert!(shipped.contains(&DEFAULT));
    }

    #[test]
    fn what_is_next_is_there() {
        for (name, files) in EXAMPLES {
            let next = path_to_plan(Path::new("d"), files);
            let is_there = |file: &str| Path::new("d").join(file) == next;
            let is_whole = next == Path::new("d") && !files.iter().any(|(file, _)| *file == "trainc.kdl");
            assert!(is_whole || files.iter().any(|(file, _)| is_there(file)), "{name}: {}", next.display());
        }
    }
}
