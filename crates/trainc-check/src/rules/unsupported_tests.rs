//! Tests: the unsupported combinations of `tests/refused`, and sources with several files, which fixtures cannot show.

use crate::{codes, compile};
use trainc_catalog::{algorithms, images};
use trainc_diag::Severity;
use trainc_diag::source::SourceMap;
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};

/// A world in which every directory contains these empty files.
struct Files(&'static [&'static str]);

impl LayerLoader for Files {
    fn read_layer(&mut self, _: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let text = match path {
            "base.kdl" => include_str!("../../../../tests/fixtures/base.kdl"),
            _ => return Err(ReadError::NotFound),
        };
        Ok(LoadedLayer { name: path.to_owned(), identity: path.to_owned(), text: text.to_owned() })
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Files {
    fn read_directory(&mut self, _: &str, path: &str) -> Result<SourceTree, ReadError> {
        let file = |path: &&str| SourceFile::new(*path, Vec::new(), false);
        Ok(SourceTree { dir: path.to_owned(), files: self.0.iter().map(file).collect() })
    }

    fn read_text(&mut self, _: &str, _: &str) -> Result<String, ReadError> {
        Err(ReadError::NotFound)
    }
}

/// Returns every problem as code, severity and message.
fn problems(text: &str, files: &'static [&'static str]) -> Vec<(&'static str, Severity, String)> {
    let mut sources = SourceMap::default();
    let source = sources.add("job.kdl", text);
    let options = Options { today: "2026-06-01".to_owned(), ..Options::default() };
    let compiled = compile(source, text, &options, &mut Files(files), &mut sources);
    compiled.problems.iter().map(|d| (d.code.id, d.severity, d.message.clone())).collect()
}

fn job_extending_base(nodes: &str) -> String {
    format!("extends \"base.kdl\"\njob \"example\" {{\n{nodes}\n}}\n")
}

#[track_caller]
fn assert_reports(text: &str, code: &str) {
    let found = problems(text, &["train.py"]);
    assert!(
        found.iter().any(|(id, severity, _)| *id == code && *severity == Severity::Error),
        "{code}: {found:?}"
    );
}

#[test]
fn refused_combinations_are_errors() {
    for (text, code) in [
        (include_str!("../../../../tests/refused/trn1-mpi.kdl"), "T0354"),
        (include_str!("../../../../tests/refused/smddp-g5.kdl"), "T0356"),
        (include_str!("../../../../tests/refused/smddp-p5en.kdl"), "T0356"),
        (include_str!("../../../../tests/refused/smddp-pt-2.0-alias.kdl"), "T0351"),
        (include_str!("../../../../tests/refused/torchrun-hf-short-version-1.13.kdl"), "T0351"),
        (include_str!("../../../../tests/refused/smp1-manual-without-default.kdl"), "T0371"),
        (include_str!("../../../../tests/refused/smp1-sharded-with-pipeline.kdl"), "T0370"),
        (include_str!("../../../../tests/refused/smp1-sharded-with-tensor.kdl"), "T0370"),
        (include_str!("../../../../tests/refused/smp2-on-hf.kdl"), "T0376"),
    ] {
        assert_reports(text, code);
    }
}

#[test]
fn setup_py_makes_a_package() {
    let text = job_extending_base("");
    let found = problems(&text, &["setup.py", "train.py"]);
    assert!(found.iter().any(|(id, ..)| *id == "T0352"), "{found:?}");
    assert!(problems(&text, &["train.py"]).iter().all(|(id, ..)| *id != "T0352"));
}

/// Returns a manifest without what it allows, so that every problem is reported.
fn without_allow(job: &str) -> String {
    job.lines().filter(|line| !line.trim_start().starts_with("allow ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_bubble_is_counted() {
    let job = include_str!("../../../../examples/gptj-6b-pipeline/trainc.kdl");
    let found = problems(&without_allow(job), &["train_gptj_smp_script.py"]);
    // Eight stages, four micro-batches: 7 / 11.
    assert!(found.iter().any(|(id, _, message)| *id == "T0395" && message.contains("64 %")), "{found:?}");
    assert!(found.iter().all(|(_, severity, _)| *severity < Severity::Error), "{found:?}");
}

#[test]
fn the_shard_group_of_the_30b_run_is_neither_too_small_nor_too_wide() {
    let job = include_str!("../../../../examples/gpt2-30b-sharded/trainc.kdl");
    let found = problems(&without_allow(job), &["train_gpt_simple.py"]);
    let codes: Vec<&str> = found.iter().map(|(id, ..)| *id).collect();
    assert!(!codes.contains(&"T0385") && !codes.contains(&"T0387"), "{found:?}");
    assert!(codes.contains(&"T0374"), "{found:?}");
}

/// A misspelled name of a required hyperparameter leaves the required one unset: the container of any
/// algorithm stops.
#[test]
fn misspelled_required_hyperparameters_are_errors() {
    let families = images::other_families().into_iter().filter(|family| images::is_algorithm_family(family));
    let mut seen = 0;
    for family in families {
        let version = images::other_versions(family).pop().unwrap();
        let parameters = algorithms::get(family).unwrap().parameters;
        for name in &parameters {
            for misspelled in [format!("{name}s"), name.replace('_', "-"), format!("{name}x")] {
                if misspelled == *name {
                    continue;
                }
                let others = parameters.iter().filter(|other| *other != name);
                let set = others.chain([&misspelled]).map(|name| format!("hyperparameter \"{name}\" 1\n"));
                let text = format!(
                    "job \"x\" {{\nregion \"us-west-2\"\naccount \"111122223333\"\ncluster \"ml.p3.2xlarge\" nodes=1 {{\n max-run \"1h\"\n}}\nimage \"{family}\" version=\"{version}\"\nprogram {{\n{}}}\noutput s3=\"s3://example-runs/x/\"\nrole arn=\"arn:aws:iam::111122223333:role/training\"\n}}\n",
                    set.collect::<String>()
                );
                let found = problems(&text, &[]);
                let is_missing = |message: &str| {
                    message.contains("requires hyperparameter") && message.contains(&format!("`{name}`"))
                };
                assert!(
                    found.iter().any(|(code, severity, message)| *code == "T0600"
                        && *severity == Severity::Error
                        && is_missing(message)),
                    "{family} {misspelled}: {found:?}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "{seen}");
}

/// What only SageMaker refuses is no problem of a job on another cluster, which sends it no request.
#[test]
fn another_cluster_gets_no_errors_of_sagemaker() {
    let errors = |cluster: &str| -> Vec<&'static str> {
        let nodes = r#"
            network { subnets "private-a"; security-groups "sg-0123456789abcdef0" }
            tags "trainc:job"="other"
            checkpoint s3="s3://Not_A_Bucket/checkpoints/"
        "#;
        let found = problems(&job_extending_base(&format!("{cluster}{nodes}")), &["train.py"]);
        let errors = found.into_iter().filter(|(_, severity, _)| *severity == Severity::Error);
        errors.map(|(id, ..)| id).collect()
    };
    let refused = [&codes::T0416, &codes::T0439, &codes::T0468].map(|code| code.id);
    let here = errors(r#"cluster "ml.p4d.24xlarge" nodes=2"#);
    assert!(refused.iter().all(|code| here.contains(code)), "{here:?}");
    let elsewhere = errors(
        r#"cluster "custom" nodes=2 { gpu "A100-SXM4-80GB" per-node=8; intra "600GB/s"; inter "50GB/s" }"#,
    );
    assert_eq!(elsewhere, [""; 0]);
}
