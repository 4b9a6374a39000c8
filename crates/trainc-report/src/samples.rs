//! Plans for the tests of reports: the examples of this repository, compiled without a disk.

use super::json::Document;
use super::{Subject, document};
use trainc_diag::source::SourceMap;
use trainc_emit::Identity;
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::Compiled;
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};
use trainc_predict::{Constants, Layout, MeasuredRun};

/// A manifest and its plan.
pub(super) struct Sample {
    pub(super) sources: SourceMap,
    pub(super) compiled: Compiled,
    identity: Option<Identity>,
    constants: Option<Constants>,
}

/// A world with only the program's files.
pub(super) struct Nowhere;

impl LayerLoader for Nowhere {
    fn read_layer(&mut self, _: &str, _: &str) -> Result<LoadedLayer, ReadError> {
        Err(ReadError::NotFound)
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Nowhere {
    fn read_directory(&mut self, _: &str, path: &str) -> Result<SourceTree, ReadError> {
        let names = [
            "pretrain.py",
            "run_clm.py",
            "train.py",
            "train_gpt_simple.py",
            "train_gptj_smp_tensor_parallel_script.py",
        ];
        let file = |name: &str| SourceFile::new(name, *b"print()\n", false);
        Ok(SourceTree { dir: path.to_owned(), files: names.map(file).to_vec() })
    }

    fn read_text(&mut self, _: &str, _: &str) -> Result<String, ReadError> {
        Err(ReadError::NotFound)
    }
}

/// Compiles a manifest with `--set` values.
pub(super) fn sample(text: &str, sets: &[&str]) -> Sample {
    sample_with(text, sets, None)
}

/// Compiles a manifest with one measured run of its layout, 27 % slower than planned.
pub(super) fn measured_sample(text: &str) -> Sample {
    let planned = sample(text, &[]);
    let layout = Layout::from_plan(planned.compiled.plan.as_ref().unwrap()).unwrap();
    let run = MeasuredRun {
        id: "a".to_owned(),
        layout,
        step_seconds: 1.27 * planned.compiled.prediction.speed.unwrap().step_seconds,
        spread: None,
        date: Some("2026-11-20".to_owned()),
    };
    let constants = Constants::shipped().with_runs(".trainc/runs.csv".to_owned(), vec![run]);
    sample_with(text, &[], Some(constants))
}

fn sample_with(text: &str, sets: &[&str], constants: Option<Constants>) -> Sample {
    let mut sources = SourceMap::default();
    let source = sources.add("job.kdl", text);
    let mut options =
        Options { today: "2026-11-21".to_owned(), constants: constants.clone(), ..Options::default() };
    options.choices.sets = sets.iter().map(|set| (*set).to_owned()).collect();
    let compiled = trainc_check::compile(source, text, &options, &mut Nowhere, &mut sources);
    let identity = compiled.plan_without_errors().map(trainc_emit::identity);
    Sample { sources, compiled, identity, constants }
}

impl Sample {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            path: "job.kdl",
            sha256: "",
            job: self.compiled.job.as_deref(),
            plan: self.compiled.plan.as_deref(),
            identity: self.identity.as_ref(),
            prediction: &self.compiled.prediction,
            constants: self.constants.as_ref().unwrap_or_else(|| Constants::shipped()),
            problems: &self.compiled.problems,
            choices: self.compiled.choices.as_deref(),
            sources: &self.sources,
        }
    }

    pub(super) fn document(&self) -> Document {
        document::document(&self.subject())
    }
}

pub(super) const GPT2: &str = include_str!("../../../examples/gpt2-30b-sharded/trainc.kdl");
pub(super) const ROBERTA: &str = include_str!("../../../examples/roberta-mnli-pipeline/trainc.kdl");
pub(super) const GPTJ: &str = include_str!("../../../examples/gptj-6b-tensor/trainc.kdl");
pub(super) const LLAMA: &str = include_str!("../../../examples/llama-7b-fsdp/trainc.kdl");
pub(super) const FALCON: &str = include_str!("../../../examples/falcon-40b-qlora/trainc.kdl");
pub(super) const XGBOOST: &str = include_str!("../../../examples/xgboost-churn/trainc.kdl");

/// Mistakes of several kinds: part of it can still be planned.
pub(super) const BROKEN: &str = r#"job "broken" {
    region "us-west-2"
    model "gpt2-xl"
    cluster "ml.p4d.24xlarge" nodes=4 {
        max-run "2h"
    }
    parallel engine="smp" {
        shard-degree 12
    }
    train {
        sequence-length 1024
        micro-batch 2
        steps 10
    }
    program "train.py" source="./scripts"
    image "pytorch" version="1.12" python="py38"
    output s3="s3://bucket/out/"
    role create=#true
    colour "red"
}
"#;

/// A job on a cluster that is not SageMaker's.
pub(super) const CUSTOM: &str = r#"job "custom" {
    model "gpt2-xl"
    cluster "custom" nodes=2 {
        gpu "A100-SXM4-80GB" per-node=8
        intra "600GB/s"
        inter "50GB/s"
    }
    parallel engine="fsdp"
    train {
        precision "bf16"
        sequence-length 1024
        micro-batch 1
        optimizer "adamw" lr=1e-4
        steps 10
    }
    program "train.py" source="./scripts"
}
"#;
