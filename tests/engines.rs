//! What accelerate, DeepSpeed, transformers and torchtitan say about configurations, beside what trainc says.
//!
//! `engines/verdicts.json` has the configurations: each was given to the program that reads it, in a process
//! group of the row's size, and the row has its verdict and what the program then said about itself.
//! `engines/README.md` says how.

use crate::support::{Memory, Outcome, compile_in, options, read};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainc_diag::Severity;

/// Rows that the program accepts and trainc refuses, with the reason. Refused later is refused.
const STRICTER: &[(&str, &str)] = &[
    (
        "accelerate/x159",
        "DeepSpeed has no context parallelism: accelerate counts the ranks and splits no sequence",
    ),
    ("deepspeed/x032", "`true` is no stage; Python takes it for 1"),
    ("deepspeed/x117", "a norm below 0 is refused nowhere, and clips nothing"),
    ("deepspeed/x118", "DeepSpeed alone compares the word with a number in the first step"),
    ("deepspeed/x119", "DeepSpeed alone compares the text with a number in the first step"),
    ("deepspeed/x156", "AutoTP over 3 of 8 ranks leaves ranks over"),
    ("deepspeed/x159", "AutoTP over 3 ranks does not divide 8 heads"),
    ("deepspeed/x166", "Ulysses over 3 of 8 ranks leaves ranks over"),
    ("transformers/x028", "no size at all: 8 ranks train alone, each the whole model"),
    ("torchtitan-0.2/x031", "32 tensor ranks for 16 heads fail in the first forward pass"),
    ("torchtitan-0.2/x058", "half a sequence fails in the data loader"),
    ("torchtitan-0.2/x063", "refused by torchtitan's trainer, which was not built"),
    ("torchtitan-0.2/x102", "refused by torchtitan's optimizer, which was not built"),
    ("torchtitan-0.2/x103", "refused by torchtitan's optimizer, which was not built"),
    ("torchtitan-0.2/x104", "refused by torchtitan's optimizer, which was not built"),
    ("torchtitan-0.2/x107", "refused by torchtitan's scheduler, which was not built"),
];

/// The rows that were chosen one by one: all of them hold. The others are drawn at random, and a share does.
const CHOSEN: usize = 91;

/// The share of the drawn rows that the program refuses and trainc does, and that both accept.
const REFUSED: f64 = 0.95;
const ACCEPTED: f64 = 0.97;

/// A configuration and the verdict of its program.
struct Row {
    id: String,
    engine: String,
    world: u64,
    config: String,
    files: BTreeMap<String, String>,
    model: BTreeMap<String, Value>,
    accumulation: Option<u64>,
    is_accepted: bool,
    said: String,
    notes: Value,
}

impl Row {
    fn read(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let object = |key: &str| value[key].as_object().cloned().unwrap_or_default();
        let is_accepted = match text("expected").as_str() {
            "accepted" => true,
            "refused" => false,
            other => panic!("{}: `expected` is {other:?}", text("id")),
        };
        Self {
            id: text("id"),
            engine: text("engine"),
            world: value["world_size"].as_u64().unwrap(),
            config: text("config"),
            files: object("files")
                .into_iter()
                .map(|(name, text)| (name, text.as_str().unwrap().to_owned()))
                .collect(),
            model: object("model").into_iter().collect(),
            accumulation: value["accumulation"].as_u64(),
            is_accepted,
            said: text("message"),
            notes: value["notes"].clone(),
        }
    }

    /// Whether the world divides every dimension of the tiny Llama.
    fn divides_evenly(&self) -> bool {
        let dimensions = [("hidden", 64), ("ffn", 128), ("vocab", 256)];
        dimensions.into_iter().all(|(name, default)| {
            self.model.get(name).and_then(Value::as_u64).unwrap_or(default).is_multiple_of(self.world)
        })
    }

    /// The engine in the manifest, and the name of its file.
    fn engine_and_file(&self) -> (&'static str, &'static str) {
        match self.engine.as_str() {
            "accelerate" => ("accelerate", "engine.yaml"),
            "deepspeed" => ("deepspeed", "engine.json"),
            "transformers" => ("distributed-config", "engine.json"),
            "torchtitan-0.2" => ("torchtitan", "engine.toml"),
            other => panic!("{}: no engine `{other}`", self.id),
        }
    }

    /// The model of the row: the tiny Llama, or torchtitan's debug model.
    fn model(&self) -> String {
        let dimension =
            |name: &str, default: u64| self.model.get(name).and_then(Value::as_u64).unwrap_or(default);
        if self.engine == "torchtitan-0.2" {
            let (architecture, more) = if self.config.contains("\"deepseek_v3\"") {
                ("mixtral", "experts 8; active-experts 3")
            } else {
                ("llama", "tied #false")
            };
            let dimensions = "hidden 256; ffn 768; layers 6; heads 16; vocab 2048; positions 131072";
            return format!("model \"{architecture}\" {{ {dimensions}; {more}; }}");
        }
        let heads = dimension("heads", 8);
        format!(
            "model \"llama\" {{ hidden {}; ffn {}; layers {}; heads {heads}; kv-heads {}; vocab {}; \
             positions {}; tied #{}; }}",
            dimension("hidden", 64),
            dimension("ffn", 128),
            dimension("layers", 2),
            dimension("kv_heads", heads),
            dimension("vocab", 256),
            dimension("positions", 4096),
            self.model.get("tied").and_then(Value::as_bool).unwrap_or(false),
        )
    }

    /// What the row's file does not say: the length, and what the program that was asked did by itself.
    fn train(&self) -> String {
        let accumulation = self.accumulation.map_or(String::new(), |steps| format!("accumulation {steps};"));
        match self.engine.as_str() {
            // The file has batch, length and optimizer.
            "torchtitan-0.2" => String::new(),
            "deepspeed" => "train { sequence-length 96; steps 10; }".to_owned(),
            _ => format!(
                "train {{ sequence-length 96; steps 10; micro-batch 1; {accumulation} optimizer \"adamw\"; }}"
            ),
        }
    }

    /// A manifest with the row's file.
    fn manifest(&self) -> String {
        let per_node = (1..=8).rev().find(|gpus| self.world.is_multiple_of(*gpus)).unwrap();
        let nodes = self.world / per_node;
        let gpu =
            format!("gpu \"H100-SXM5-80GB\" per-node={per_node}; intra \"900GB/s\"; inter \"400GB/s\";");
        let (engine, file) = self.engine_and_file();
        format!(
            "job \"verdict\" {{\n{}\ncluster \"custom\" nodes={nodes} {{ {gpu} }}\n\
             parallel engine=\"{engine}\" file=\"{file}\"\n{}\nprogram \"train.py\" source=\"./scripts\"\n}}\n",
            self.model(),
            self.train(),
        )
    }

    fn compile(&self) -> Outcome {
        let mut world = Memory::default().with(self.engine_and_file().1, &self.config);
        for (name, text) in &self.files {
            world = world.with(name, text);
        }
        compile_in(world, "verdict.kdl", &self.manifest(), &options(""))
    }
}

/// The rows, and how many were chosen one by one. `TRAINC_VERDICTS` names another file, of drawn rows.
fn rows() -> (Vec<Row>, usize) {
    let (text, chosen) = match std::env::var("TRAINC_VERDICTS") {
        Ok(path) => (std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")), 0),
        Err(_) => (read("tests/engines/verdicts.json"), CHOSEN),
    };
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    (rows.iter().map(Row::read).collect(), chosen)
}

/// The errors of an outcome, and whether one of them is at the engine's file or at `parallel`.
fn errors(outcome: &Outcome) -> (String, bool) {
    let mut lines = String::new();
    let mut is_at_engine = false;
    for problem in outcome.sharp().filter(|problem| problem.severity == Severity::Error) {
        let source = outcome.sources.get(problem.span.source).unwrap();
        let (line, _) = source.line_column(problem.span.start);
        let text = source.text.lines().nth(line as usize - 1).unwrap_or_default();
        is_at_engine |= &*source.name != "verdict.kdl" || text.trim_start().starts_with("parallel");
        let _ = write!(lines, "\n      {}:{line} {} {}", source.name, problem.code.id, problem.message);
    }
    (lines, is_at_engine)
}

/// The degrees that a program counts in its notes, by their names in the plan.
fn degrees(row: &Row) -> Vec<(&'static str, u64)> {
    let notes = &row.notes;
    // DeepSpeed counts 2.0 passes.
    let number = |value: &Value| format!("{:.0}", value.as_f64()?).parse::<u64>().ok();
    let mut found = Vec::new();
    let mut take = |name, value: &Value| found.extend(number(value).map(|n| (name, n)));
    match row.engine.as_str() {
        "accelerate" => {
            // The degrees of `parallelism_config`; without it all ranks shard.
            let sizes = &notes["degrees"];
            if notes["distributed_type"] == "FSDP" && sizes.is_object() {
                for (name, key) in [
                    ("replicate", "dp_replicate"),
                    ("shard", "dp_shard"),
                    ("context", "cp"),
                    ("tensor", "tp"),
                ] {
                    take(name, &sizes[key]);
                }
            } else if notes["fsdp_version"] == 2 {
                take("shard", &row.world.into());
            }
            take("ulysses", &sizes["sp"]);
            for (name, key) in [
                ("micro", "micro"),
                ("global", "train"),
                ("accumulation", "accumulation"),
                ("data ranks", "data_ranks"),
                ("stage", "zero_stage"),
            ] {
                take(name, &notes[key]);
            }
        }
        "deepspeed" => {
            // Tensor parallelism divides the data ranks, but `train_batch_size()` does not know it.
            let global = if row.config.contains("autotp_size") { "" } else { "train" };
            for (name, key) in
                [("micro", "micro"), ("global", global), ("accumulation", "accumulation"), ("stage", "stage")]
            {
                take(name, &notes[key]);
            }
        }
        "transformers" => {
            for (name, key) in [
                ("replicate", "replicate"),
                ("shard", "fsdp"),
                ("tensor", "tp"),
                ("pipeline", "pp"),
                ("expert", "ep"),
            ] {
                take(name, &notes[key]);
            }
        }
        _ => {
            for (name, key) in [
                ("replicate", "dp_replicate"),
                ("shard", "dp_shard"),
                ("context", "cp"),
                ("tensor", "tp"),
                ("pipeline", "pp"),
                ("expert", "ep"),
                ("global", "global_batch"),
            ] {
                take(name, &notes[key]);
            }
        }
    }
    found
}

/// The same counts in the plan.
fn planned(outcome: &Outcome) -> BTreeMap<&'static str, u64> {
    let plan = outcome.compiled.plan.as_ref().unwrap();
    let mut found = BTreeMap::new();
    if let Some(mesh) = &plan.mesh {
        found.extend([
            ("world", mesh.world_size),
            ("replicate", mesh.replicas.value),
            ("shard", mesh.shard_degree.value),
            ("tensor", mesh.tensor_degree.value),
            ("pipeline", mesh.pipeline_degree.value),
            ("context", mesh.context_degree.value),
            ("ulysses", mesh.ulysses_degree.value),
            ("expert", mesh.expert_degree.value),
            ("data ranks", mesh.data_ranks.value),
        ]);
    }
    if let Some(batch) = &plan.batch {
        found.extend([
            ("micro", batch.micro_batch_size.value),
            ("accumulation", batch.accumulation.value),
            ("global", batch.global_sequences.value),
        ]);
    }
    let strategy = plan.job.parallel.as_ref().and_then(|parallel| parallel.strategy.value());
    if let Some(stage) = strategy.and_then(|word| word.strip_prefix("zero-")?.parse().ok()) {
        found.insert("stage", stage);
    }
    found
}

/// What is wrong with a row's verdict, if anything is.
fn verdict(row: &Row, outcome: &Outcome) -> Option<String> {
    let (errors, is_at_engine) = errors(outcome);
    let is_stricter = STRICTER.iter().any(|(id, _)| *id == row.id);
    match (row.is_accepted, errors.is_empty()) {
        (true, true) if is_stricter => Some("is no error any more: remove it from STRICTER".to_owned()),
        (false, _) if is_stricter => {
            Some("is refused by the program too: remove it from STRICTER".to_owned())
        }
        (true, false) if !is_stricter => Some(format!("accepted by the program, and refused here:{errors}")),
        (false, true) => Some(format!("refused by the program (`{}`), and accepted here", row.said)),
        (false, false) if !is_at_engine => Some(format!("refused at the wrong place:{errors}")),
        _ => None,
    }
}

/// The counts of a plan that are not those of the program.
fn wrong_counts(row: &Row, outcome: &Outcome) -> Vec<String> {
    let plan = planned(outcome);
    let theirs = degrees(row).into_iter().chain([("world", row.world)]);
    theirs
        .filter(|(name, theirs)| plan.get(name).copied().unwrap_or(0) != *theirs)
        .map(|(name, theirs)| {
            format!("{name} is {theirs} in the program and {:?} in the plan", plan.get(name))
        })
        .collect()
}

/// Elements of the parameters on rank 0 as a program counts them. Pipeline stages are left out, since the plan
/// shows the fullest, and so is ZeRO-3, where what lies beside the parameters counts as 0. On a CPU torch takes
/// each process for a host: the shard group of `HYBRID_SHARD` is one process.
fn elements(row: &Row) -> Option<u64> {
    let is_other = row.config.contains("HYBRID_SHARD") || row.notes["pp"].as_u64().unwrap_or(1) > 1;
    row.notes["local_numel"].as_u64().filter(|elements| *elements > 0 && !is_other)
}

/// What is wrong with the size of the parameters in the plan.
fn wrong_size(row: &Row, outcome: &Outcome, theirs: u64) -> Option<String> {
    let Some(memory) = &outcome.compiled.prediction.memory else {
        return Some("the plan has no memory".to_owned());
    };
    let bytes = memory.parts.parameters;
    // Where the ranks do not divide a dimension evenly, rank 0 has more of it.
    let error = if row.divides_evenly() { 0.0 } else { 0.08 };
    let is_near = [2.0, 4.0].iter().any(|each| (bytes / each / theirs as f64 - 1.0).abs() <= error);
    (!is_near).then(|| format!("{theirs} elements in the program, {bytes} bytes in the plan"))
}

/// All in one test: each row is compiled once.
#[test]
fn the_programs_and_trainc_agree() {
    let (rows, chosen) = rows();
    let mut faults = Vec::new();
    let mut drawn = [0_usize; 2];
    let mut missed = [Vec::new(), Vec::new()];
    let (mut counts, mut sizes) = (0, 0);
    for (index, row) in rows.iter().enumerate() {
        let outcome = row.compile();
        let line = |fault: String| format!("{} (world {}): {fault}", row.id, row.world);
        let is_drawn = index >= chosen;
        drawn[usize::from(row.is_accepted)] += usize::from(is_drawn);
        match verdict(row, &outcome).map(line) {
            Some(fault) if is_drawn => missed[usize::from(row.is_accepted)].push(fault),
            fault => faults.extend(fault),
        }
        if row.is_accepted && errors(&outcome).0.is_empty() {
            counts += 1;
            faults.extend(wrong_counts(row, &outcome).into_iter().map(line));
            if let Some(elements) = elements(row) {
                sizes += 1;
                faults.extend(wrong_size(row, &outcome, elements).map(line));
            }
        }
    }
    println!("{} rows; counts of {counts} and sizes of {sizes} compared", rows.len());
    for ((name, least, all), missed) in
        [("refused", REFUSED, drawn[0]), ("accepted", ACCEPTED, drawn[1])].into_iter().zip(&missed)
    {
        println!("{name}: {} of {all} drawn rows agree\n  {}", all - missed.len(), missed.join("\n  "));
        if ((all - missed.len()) as f64) < least * all as f64 {
            faults.push(format!("{name}: {} of {all} drawn rows disagree", missed.len()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
