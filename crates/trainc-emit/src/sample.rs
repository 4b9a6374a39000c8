//! Plans for the tests of this crate.

use trainc_diag::Problems;
use trainc_diag::source::SourceMap;
use trainc_ir::{Plan, SourceFile, SourceTree};
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{self, LayerLoader, LoadedLayer};

/// A job with only required nodes.
const SMALL: &str = r#"
    region "us-west-2"
    model "gpt2-xl"
    cluster "ml.p4d.24xlarge" nodes=2
    parallel engine="fsdp" { wrap "GPT2Block"; }
    train { precision "bf16"; sequence-length 1024; micro-batch 4; optimizer "adamw" lr=2e-4; steps 100; }
    program "train.py" source="./scripts" { hyperparameter "lr" "{{ train.lr }}"; }
    image uri="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu"
    output s3="s3://example-runs/output/"
    role create=#true
"#;

/// A layer that adds everything that affects role and storage.
const FULL: &str = r#"
    tags team="nlp" run="{{ job.digest }}"
    cluster "ml.p4d.24xlarge" nodes=2 { volume "500GiB" kms="alias/volumes"; }
    program "train.py" source="./scripts" { secret "KEY" from="arn:aws:secretsmanager:us-west-2:111122223333:secret:wandb-AbCdEf"; }
    network { subnets "subnet-0123456789abcdef0" "subnet-0123456789abcdef1"; security-groups "sg-0123456789abcdef0"; }
    storage "lustre" name="corpus" capacity="4800GiB" deployment="persistent-2" throughput=250 metadata-iops=6000 compression="lz4" maintenance="7:02:00" kms="1234abcd-12ab-34cd-56ef-1234567890ab" {
        import "s3://example-corpus/tokens" path="/tokens/"
        export "s3://example-corpus/tokens/" path="tokens"
        export "s3://example-runs/{{ job.digest }}/spill/" path="/spill"
    }
    storage "lustre" name="cold" capacity="6000GiB" deployment="persistent-1" throughput=12 type="hdd" drive-cache="read"
    storage "lustre" name="old" id="fs-0123456789abcdef0" mount="3x5lhbmv"
    channel "tokens" from="corpus" path="/tokens"
    channel "dir" s3="s3://example-in/dir/"
    channel "open" s3="s3://example-in/open"
    channel "all" s3="s3://example-all"
    channel "list" manifest="s3://example-in/lists/a.manifest"
    checkpoint s3="s3://example-runs/{{ job.digest }}/checkpoints/"
    output s3="s3://example-runs/output/" kms="arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    role create=#true boundary="arn:aws:iam::111122223333:policy/edge"
    debugger s3="s3://example-watch/debugger/"
    profiler s3="s3://example-watch/profiler/"
    tensorboard s3="s3://example-watch/tensorboard"
    remote-debug #true
    session-chaining #true
    request {
        MlflowConfig { MlflowResourceArn "arn:aws:sagemaker:us-west-2:111122223333:mlflow-app/app-1"; }
        AlgorithmSpecification { TrainingImageConfig { TrainingRepositoryAuthConfig { TrainingRepositoryCredentialsProviderArn "arn:aws:lambda:us-west-2:111122223333:function:login"; }; }; }
    }
"#;

/// Returns the plan of a small job, overlaid with the nodes of `more`.
pub(crate) fn small_plan(name: &str, more: &str) -> Plan {
    plan(&format!("extends \"small.kdl\"\njob \"{name}\" {{\n{more}\n}}\n"))
}

/// Returns the plan of a job with everything, overlaid with the nodes of `more`.
pub(crate) fn plan_with_all_nodes(name: &str, more: &str) -> Plan {
    plan(&format!("extends \"small.kdl\"\nextends \"full.kdl\"\njob \"{name}\" {{\n{more}\n}}\n"))
}

/// Returns the plan of a manifest.
pub(crate) fn plan(text: &str) -> Plan {
    let mut sources = SourceMap::default();
    let id = sources.add("job.kdl", text);
    let mut problems = Problems::default();
    let file = trainc_syntax::parse(id, text, &mut problems).unwrap();
    let options = Options::default();
    let merged =
        resolve::merge_layers(file, id, &options.choices, &mut Small, &mut sources, &mut problems).unwrap();
    let compiled = trainc_plan::plan_and_predict(merged, problems, &options, &mut Small, &mut sources);
    let unread: Vec<_> = compiled
        .problems
        .iter()
        .filter(|p| p.code.id.starts_with("T01") || p.code.id.starts_with("T02"))
        .collect();
    assert!(unread.is_empty(), "{unread:#?}");
    *compiled.plan.unwrap()
}

/// A file of accelerate.
const ACCELERATE_YAML: &str =
    "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 3\n";

struct Small;

impl LayerLoader for Small {
    fn read_layer(&mut self, _: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        Ok(LoadedLayer {
            name: path.to_owned(),
            identity: path.to_owned(),
            text: if path == "full.kdl" { FULL } else { SMALL }.to_owned(),
        })
    }
    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Small {
    fn read_directory(&mut self, _: &str, path: &str) -> Result<SourceTree, ReadError> {
        let file = SourceFile::new("train.py", *b"print()\n", false);
        Ok(SourceTree { dir: path.to_owned(), files: vec![file] })
    }
    fn read_text(&mut self, _: &str, path: &str) -> Result<String, ReadError> {
        // Two files of one name differ.
        let is_yaml = path.ends_with("zero3.yaml");
        is_yaml.then(|| format!("# {path}\n{ACCELERATE_YAML}")).ok_or(ReadError::NotFound)
    }
}
