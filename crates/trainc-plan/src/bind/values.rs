//! The paths that placeholders can use, what they mean, and their values in one plan.

use minijinja::value::Value;
use std::collections::BTreeMap;
use trainc_ir::checkpoint_parts::DEFAULT_CHECKPOINT_PATH;
use trainc_ir::payload::CODE_DIRECTORY;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{EvaluationInterval, Field, FileReader, Plan, Warmup};
use trainc_syntax::nodes::JOB_CHILDREN;
use trainc_syntax::spec::NodeSpec;

/// The value of a path.
pub(super) enum ValueEntry {
    Value(Value),
    /// A valid path without a value in this job, for the reason given.
    Missing(&'static str),
    /// Unknown because of a problem already reported.
    AlreadyReported,
}

/// Each path with its meaning, and with its value in `examples/starter` if it has one there. Without a meaning
/// it has that of the node or property of the same name.
const PLACEHOLDERS: &[(&str, &str, &str)] = &[
    ("adapter.alpha", "", ""),
    ("adapter.dropout", "", ""),
    ("adapter.kind", "the kind of the adapter", ""),
    ("adapter.rank", "", ""),
    ("adapter.targets", "", ""),
    ("batch.accumulation", "the passes whose gradients are added up before a step", "2"),
    ("batch.global_sequences", "the sequences of one step on all ranks", "64"),
    ("batch.global_tokens", "the tokens of one step on all ranks", "65536"),
    (
        "batch.micro",
        "the sequences of one pass on each data-parallel rank: per GPU, unless several share a sequence",
        "8",
    ),
    ("batch.microbatches", "the micro-batches that are in the pipeline in one pass", "1"),
    ("batch.per_replica", "the sequences of one pass on a model replica: micro-batch × micro-batches", "8"),
    (
        "checkpoint.local",
        "the directory in the container that is uploaded as checkpoints",
        "/opt/ml/checkpoints",
    ),
    ("cluster.gpu.memory_bytes", "the memory of one GPU in bytes", "23999807488"),
    ("cluster.gpu.name", "the GPU of the instance type", "NVIDIA A10G"),
    ("cluster.gpus_per_node", "the GPUs of one node", "4"),
    ("cluster.instance", "", "ml.g5.12xlarge"),
    ("cluster.max_run_seconds", "the seconds after which the job is stopped, from `max-run`", "14400"),
    ("cluster.nodes", "", "1"),
    ("cluster.world_size", "the ranks of the job, as `mesh.world_size`", "4"),
    ("engine.file", "the path in the container of the file that the launcher or the library reads", ""),
    ("job", "the name of the job, as `job.name`", "my-first-job"),
    ("job.digest", "the digest of the job: 64 characters that differ whenever the request differs", ""),
    ("job.name", "the name of the job", "my-first-job"),
    ("job.region", "the AWS region of the job", "us-west-2"),
    ("mesh.context_degree", "the ranks that share each sequence", "1"),
    ("mesh.data_parallel_replicas", "the copies of the model, whole or sharded", "1"),
    ("mesh.engine", "the name of the engine, as in `parallel engine=`", "fsdp"),
    ("mesh.expert_degree", "the ranks over which experts are distributed", "1"),
    (
        "mesh.minimum_nodes",
        "the nodes on which the model fits, by the rule of one node per 3 billion parameters",
        "1",
    ),
    ("mesh.pipeline_degree", "the stages of the pipeline", "1"),
    ("mesh.recommended_nodes", "the nodes that are recommended for the model", "1"),
    ("mesh.replicate_degree", "the copies of the sharded model, as `mesh.data_parallel_replicas`", "1"),
    ("mesh.shard_degree", "the ranks over which parameters, gradients and optimizer states are sharded", "4"),
    ("mesh.tensor_degree", "the ranks that share each matrix", "1"),
    ("mesh.ulysses_degree", "the ranks that exchange attention heads for parts of a sequence", "1"),
    ("mesh.world_size", "the ranks of the job: one for each GPU", "4"),
    ("model.ffn", "the width of the feed-forward layer", "6400"),
    ("model.head_dim", "the width of an attention head", "64"),
    ("model.heads", "the number of attention heads", "25"),
    ("model.hidden", "the width of the residual stream", "1600"),
    ("model.kv_heads", "the number of key and value heads", "25"),
    ("model.layers", "the number of layers", "48"),
    ("model.name", "the name of the model", "gpt2-xl"),
    ("model.parameters", "the parameters of the model", "1557611200"),
    (
        "model.parameters_trainable",
        "the parameters that are trained: those of the adapter, if there is one",
        "1557611200",
    ),
    ("model.positions", "the maximum sequence length of the model", "1024"),
    ("model.sequence_length", "the sequence length of the training, as `train.sequence_length`", "1024"),
    ("model.vocab", "the size of the vocabulary", "50257"),
    ("quantize.compute", "", ""),
    ("quantize.double", "", ""),
    ("quantize.kind", "the storage format of the base weights", ""),
    ("run.steps", "the optimizer steps of the run", "1000"),
    ("run.tokens", "the tokens of the run", "65536000"),
    ("train.accumulation", "", ""),
    ("train.activation_checkpointing", "whether activations are recomputed in the backward pass", "true"),
    ("train.attention", "", ""),
    ("train.beta1", "the first of the `betas` of the optimizer", ""),
    ("train.beta2", "the second of the `betas` of the optimizer", ""),
    ("train.betas", "both betas of the optimizer, separated by a comma", ""),
    ("train.clip", "", ""),
    ("train.compile", "", ""),
    ("train.epochs", "", ""),
    ("train.eps", "", ""),
    ("train.evaluate_micro_batch", "the sequences of one forward pass of an evaluation", ""),
    ("train.evaluate_steps", "the steps between two evaluations", ""),
    ("train.evaluate_strategy", "how often the training evaluates: `steps` or `epoch`", ""),
    ("train.file", "the path in the container of the file that the program reads", ""),
    ("train.flash_attention", "", ""),
    ("train.global_batch", "", "64"),
    ("train.gradients", "", ""),
    ("train.loss", "", ""),
    ("train.lr", "", "2e-05"),
    ("train.micro_batch", "", "8"),
    ("train.min_lr", "", ""),
    ("train.optimizer", "the name of the optimizer", "adamw"),
    ("train.precision", "", "bf16"),
    ("train.recipe", "", ""),
    ("train.schedule", "", "cosine"),
    ("train.seed", "", "7"),
    ("train.sequence_length", "", "1024"),
    ("train.states", "", ""),
    ("train.steps", "", "1000"),
    ("train.tokens", "", ""),
    ("train.warmup", "", "50"),
    ("train.weight_decay", "", ""),
];

/// Returns all paths, sorted.
pub fn placeholder_paths() -> impl Iterator<Item = &'static str> {
    PLACEHOLDERS.iter().map(|(path, ..)| *path)
}

/// Returns the value of a path in `examples/starter`; `None` if that job does not have it.
pub fn placeholder_example(path: &str) -> Option<&'static str> {
    row(path).map(|(_, _, example)| *example).filter(|example| !example.is_empty())
}

fn row(path: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let at = PLACEHOLDERS.binary_search_by_key(&path, |(path, ..)| path).ok()?;
    PLACEHOLDERS.get(at)
}

/// Returns what the value of a path is: `the sequences of one step on all ranks`.
pub fn placeholder_meaning(path: &str) -> Option<&'static str> {
    let (_, meaning, _) = row(path)?;
    if meaning.is_empty() { declared_meaning(path) } else { Some(meaning) }
}

/// Returns the documentation of the node or property that a path is named after: `train.lr` is a property of
/// `optimizer`, which is in `train`.
fn declared_meaning(path: &str) -> Option<&'static str> {
    let (group, name) = path.split_once('.')?;
    let name = name.replace('_', "-");
    let node = JOB_CHILDREN.iter().find(|spec| spec.name == group)?;
    let in_node = |node: &NodeSpec| {
        node.child(&name).map(|child| child.doc).or_else(|| node.prop(&name).map(|prop| prop.doc))
    };
    in_node(node).or_else(|| node.children.iter().find_map(|child| in_node(child)))
}

/// The paths of a plan and their values.
pub(crate) struct PlanValues {
    pub(super) entries: BTreeMap<String, ValueEntry>,
}

impl PlanValues {
    /// Collects every valid path with its value in this plan.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut table = Self { entries: BTreeMap::new() };
        let job = &plan.job;
        table.put("job.digest", Some(DIGEST_MARK), "");
        let reported = |field: &Field<String>| if field.is_absent() { Field::Bad } else { field.clone() };
        table.insert_text_field("job.name", &reported(&job.name), "");
        table.insert_text_field("job", &reported(&job.name), "");
        table.insert_text_field("job.region", &job.region, "the job has no region");
        let mesh = plan.mesh.as_ref();
        for (path, value) in [
            ("mesh.world_size", mesh.map(|mesh| mesh.world_size)),
            ("mesh.data_parallel_replicas", mesh.map(|mesh| mesh.replicas.value)),
            ("mesh.replicate_degree", mesh.map(|mesh| mesh.replicas.value)),
            ("mesh.shard_degree", mesh.map(|mesh| mesh.shard_degree.value)),
            ("mesh.tensor_degree", mesh.map(|mesh| mesh.tensor_degree.value)),
            ("mesh.pipeline_degree", mesh.map(|mesh| mesh.pipeline_degree.value)),
            ("mesh.context_degree", mesh.map(|mesh| mesh.context_degree.value)),
            ("mesh.ulysses_degree", mesh.map(|mesh| mesh.ulysses_degree.value)),
            ("mesh.expert_degree", mesh.map(|mesh| mesh.expert_degree.value)),
        ] {
            table.put_or_already_reported(path, value);
        }
        for (path, value) in [
            ("mesh.minimum_nodes", mesh.and_then(|mesh| mesh.minimum_nodes.as_ref())),
            ("mesh.recommended_nodes", mesh.and_then(|mesh| mesh.recommended_nodes.as_ref())),
        ] {
            if mesh.is_none() || (job.model.is_some() && plan.model.is_none()) {
                table.insert_already_reported(path);
            } else {
                table.put(
                    path,
                    value.map(|val| val.value),
                    "nothing is sharded, so the rule of one node per 3 billion parameters does not apply",
                );
            }
        }
        match trainc_engine::of_job(job) {
            Some(engine) => table.put("mesh.engine", Some(engine.name()), ""),
            None => table.insert_already_reported("mesh.engine"),
        }
        table.insert_model(plan);
        let batch = plan.batch.as_ref();
        for (path, value) in [
            ("batch.micro", batch.map(|batch| batch.micro_batch_size.value)),
            ("batch.microbatches", batch.map(|batch| batch.num_micro_batches)),
            ("batch.per_replica", batch.map(|batch| batch.per_replica)),
            ("batch.accumulation", batch.map(|batch| batch.accumulation.value)),
            ("batch.global_sequences", batch.map(|batch| batch.global_sequences.value)),
        ] {
            table.put_or_already_reported(path, value);
        }
        let no_length = job.train.sequence_length.is_absent();
        if batch.is_some() && no_length {
            table.put("batch.global_tokens", None::<u64>, "`train` has no `sequence-length`");
        } else {
            table.put_or_already_reported("batch.global_tokens", batch.and_then(|batch| batch.global_tokens));
        }
        let cluster = job.cluster.as_ref();
        if let Some(cluster) = cluster {
            let groups = !cluster.groups.is_empty();
            let instance = if groups { cluster.instance.clone() } else { reported(&cluster.instance) };
            table.insert_text_field("cluster.instance", &instance, "`cluster` has no instance type");
            table.insert_number_field("cluster.nodes", &cluster.nodes, "`cluster` has no `nodes`");
            table.insert_number_field(
                "cluster.max_run_seconds",
                &cluster.max_run_seconds,
                "`cluster` has no `max-run`",
            );
        } else {
            for path in ["cluster.instance", "cluster.nodes", "cluster.max_run_seconds"] {
                table.insert_already_reported(path);
            }
        }
        table.insert_checkpoint(plan);
        table.insert_files(plan);
        table.put_or_already_reported(
            "cluster.gpus_per_node",
            plan.machine.as_ref().map(|machine| machine.gpus_per_node),
        );
        // The GPUs of a local machine are unknown, and CPU instance types have none.
        let machine = plan.machine.as_ref();
        for (path, value) in [
            ("cluster.gpu.name", machine.map(|machine| machine.gpu.as_deref().map(Value::from))),
            ("cluster.gpu.memory_bytes", machine.map(|machine| machine.gpu_memory_bytes.map(Value::from))),
        ] {
            match value {
                None => table.insert_already_reported(path),
                Some(value) => table.put(path, value, "the cluster has no GPU that is in the catalogue"),
            }
        }
        table.put_or_already_reported("cluster.world_size", mesh.map(|mesh| mesh.world_size));
        table.put_or_already_reported("run.steps", plan.run.steps.as_ref().map(|val| val.value));
        if plan.run.tokens.is_none() && batch.is_some() && no_length {
            table.put(
                "run.tokens",
                None::<u64>,
                "the tokens of a step are unknown: `train` has no `sequence-length`",
            );
        } else {
            table.put_or_already_reported("run.tokens", plan.run.tokens.as_ref().map(|val| val.value));
        }
        table.insert_train(plan);
        table.insert_adapter(plan);
        table
    }

    fn put(&mut self, path: &str, value: Option<impl Into<Value>>, why: &'static str) {
        let entry = value.map_or(ValueEntry::Missing(why), |value| ValueEntry::Value(value.into()));
        self.entries.insert(path.to_owned(), entry);
    }

    /// Adds a path whose value is unknown because of a problem already reported.
    fn insert_already_reported(&mut self, path: &str) {
        self.entries.insert(path.to_owned(), ValueEntry::AlreadyReported);
    }

    /// Adds a value that every job has unless a problem was reported.
    fn put_or_already_reported(&mut self, path: &str, value: Option<u64>) {
        let entry = value.map_or(ValueEntry::AlreadyReported, |value| ValueEntry::Value(value.into()));
        self.entries.insert(path.to_owned(), entry);
    }

    fn insert_text_field(&mut self, path: &str, field: &Field<String>, why: &'static str) {
        let entry = match field {
            Field::Is(val) => ValueEntry::Value(Value::from(val.value.as_str())),
            Field::Absent => ValueEntry::Missing(why),
            Field::Bad => ValueEntry::AlreadyReported,
        };
        self.entries.insert(path.to_owned(), entry);
    }

    /// Adds a number or a boolean.
    fn insert_number_field<T: Copy + Into<Value>>(
        &mut self,
        path: &str,
        field: &Field<T>,
        why: &'static str,
    ) {
        let entry = match field {
            Field::Is(val) => ValueEntry::Value(val.value.into()),
            Field::Absent => ValueEntry::Missing(why),
            Field::Bad => ValueEntry::AlreadyReported,
        };
        self.entries.insert(path.to_owned(), entry);
    }

    /// Adds a number that scripts parse as an int where it is whole.
    fn insert_shortest(&mut self, path: &str, field: &Field<f64>, why: &'static str) {
        match field.get().filter(|x| x.fract() == 0.0 && x.abs() < 1e15) {
            #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
            Some(whole) => {
                self.entries.insert(path.to_owned(), ValueEntry::Value(Value::from(whole as i64)));
            }
            None => self.insert_number_field(path, field, why),
        }
    }

    fn insert_model(&mut self, plan: &Plan) {
        const NO_MODEL: &str = "the job has no `model`";
        const SIZE_ONLY: &str = "only the model's size is known, not its dimensions";
        const PATHS: [&str; 8] =
            ["hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab", "positions"];
        let written = plan.job.model.is_some();
        if let Some(model) = &plan.model {
            self.put("model.name", Some(model.name.as_str()), "");
            self.put("model.parameters", Some(model.parameters.value), "");
            if model.trainable.is_none() && model.architecture.is_some() {
                self.insert_already_reported("model.parameters_trainable");
            } else {
                self.put(
                    "model.parameters_trainable",
                    model.trainable.as_ref().map(|val| val.value),
                    SIZE_ONLY,
                );
            }
            let a = model.architecture.as_ref();
            let values =
                a.map(|a| [a.hidden, a.layers, a.heads, a.kv_heads, a.head_dim, a.ffn, a.vocab, a.positions]);
            for (at, path) in PATHS.iter().enumerate() {
                self.put(
                    &format!("model.{path}"),
                    values.and_then(|values| values.get(at).copied()),
                    SIZE_ONLY,
                );
            }
        } else {
            for path in ["name", "parameters", "parameters_trainable"].iter().chain(&PATHS) {
                let entry = if written { ValueEntry::AlreadyReported } else { ValueEntry::Missing(NO_MODEL) };
                self.entries.insert(format!("model.{path}"), entry);
            }
            if let Some(name) = plan.job.model.as_ref().and_then(|model| model.name.value()) {
                self.put("model.name", Some(name.as_str()), "");
            }
        }
        self.insert_number_field(
            "model.sequence_length",
            &plan.job.train.sequence_length,
            "`train` has no `sequence-length`",
        );
    }

    /// Adds the checkpoint directory in the container: as written, otherwise the default of
    /// `CheckpointConfig`.
    fn insert_checkpoint(&mut self, plan: &Plan) {
        let local = plan.job.checkpoint.as_ref().map(|checkpoint| match &checkpoint.local {
            Field::Absent => {
                Field::Is(trainc_ir::Val::default(DEFAULT_CHECKPOINT_PATH.to_owned(), "SageMaker default"))
            }
            written => written.clone(),
        });
        match local {
            Some(Field::Is(val)) if val.value.contains("{{") => {
                self.put("checkpoint.local", None::<&str>, "`checkpoint local` contains a placeholder");
            }
            local => {
                self.insert_text_field(
                    "checkpoint.local",
                    &local.unwrap_or(Field::Absent),
                    "the job has no `checkpoint`",
                );
            }
        }
    }

    /// Adds the paths in the container of the files that the launcher, a library or the program reads.
    fn insert_files(&mut self, plan: &Plan) {
        let in_container = |path: &str| format!("{CODE_DIRECTORY}/{path}");
        let parallel = plan.job.parallel.as_ref();
        if plan.engine.is_none() || parallel.is_some_and(|parallel| parallel.file.is_bad()) {
            self.insert_already_reported("engine.file");
        } else {
            let has_none = plan.engine.is_none_or(|engine| engine.front.file.is_none());
            let why =
                if has_none { "the engine of the job reads no file" } else { "`parallel` has no `file`" };
            self.put("engine.file", plan.engine_file().map(in_container), why);
        }
        let program = plan.file_of(FileReader::Program).map(|file| in_container(&file.packed_as));
        if program.is_none() && !plan.job.train.file.is_absent() {
            self.insert_already_reported("train.file");
        } else {
            self.put("train.file", program, "`train` has no `file`");
        }
    }

    fn insert_train(&mut self, plan: &Plan) {
        const UNWRITTEN: &str = "not set in `train`";
        const NO_OPTIMIZER: &str = "not set in `optimizer`";
        let train = &plan.job.train;
        if train.span.is_none() {
            // The missing node was reported.
            for path in placeholder_paths().filter(|path| path.starts_with("train.") && *path != "train.file")
            {
                self.insert_already_reported(path);
            }
            return;
        }
        self.insert_text_field("train.precision", &train.precision, UNWRITTEN);
        for (path, field) in [
            ("train.sequence_length", &train.sequence_length),
            ("train.micro_batch", &train.micro_batch_size),
            ("train.accumulation", &train.accumulation),
            ("train.global_batch", &train.global_batch),
            ("train.steps", &train.steps),
            ("train.tokens", &train.tokens),
            ("train.seed", &train.seed),
        ] {
            self.insert_number_field(path, field, UNWRITTEN);
        }
        self.insert_shortest("train.epochs", &train.epochs, UNWRITTEN);
        let checkpointing =
            train.activation_checkpointing.clone().map(|what| what != trainc_ir::Recompute::None);
        self.insert_number_field("train.activation_checkpointing", &checkpointing, UNWRITTEN);
        self.insert_number_field("train.flash_attention", &train.flash_attention, UNWRITTEN);
        self.insert_number_field("train.compile", &train.compile, UNWRITTEN);
        self.insert_text_field("train.recipe", &train.recipe, UNWRITTEN);
        self.insert_text_field("train.gradients", &train.gradients, UNWRITTEN);
        self.insert_text_field("train.attention", &train.attention, UNWRITTEN);
        self.insert_text_field("train.loss", &train.loss, UNWRITTEN);
        let none = trainc_ir::Field::Absent;
        let text_none = trainc_ir::Field::Absent;
        let optimizer = train.optimizer.as_ref();
        self.insert_text_field("train.optimizer", optimizer.map_or(&text_none, |o| &o.name), UNWRITTEN);
        self.insert_text_field("train.schedule", optimizer.map_or(&text_none, |o| &o.schedule), NO_OPTIMIZER);
        self.insert_text_field("train.states", optimizer.map_or(&text_none, |o| &o.states), NO_OPTIMIZER);
        for (path, field) in [
            ("train.lr", optimizer.map_or(&none, |o| &o.lr)),
            ("train.min_lr", optimizer.map_or(&none, |o| &o.min_lr)),
            ("train.eps", optimizer.map_or(&none, |o| &o.eps)),
            ("train.weight_decay", optimizer.map_or(&none, |o| &o.weight_decay)),
            ("train.clip", optimizer.map_or(&none, |o| &o.clip)),
        ] {
            self.insert_number_field(path, field, NO_OPTIMIZER);
        }
        let evaluate = train.evaluate.as_ref();
        // The training's, unless it is written.
        match evaluate.filter(|it| it.micro_batch.is_absent()) {
            Some(_) => {
                let size = plan.batch.as_ref().map(|batch| batch.micro_batch_size.value);
                self.put("train.evaluate_micro_batch", size, UNWRITTEN);
            }
            None => self.insert_number_field(
                "train.evaluate_micro_batch",
                evaluate.map_or(&Field::Absent, |it| &it.micro_batch),
                UNWRITTEN,
            ),
        }
        let every = evaluate.map_or(Field::Absent, |it| it.every.clone());
        let strategy = every.clone().map(|every| match every {
            EvaluationInterval::Steps(_) => "steps".to_owned(),
            EvaluationInterval::Epoch => "epoch".to_owned(),
        });
        self.insert_text_field("train.evaluate_strategy", &strategy, UNWRITTEN);
        match every.get() {
            Some(EvaluationInterval::Epoch) => {
                self.put("train.evaluate_steps", None::<Value>, "set to `epoch`");
            }
            _ => self.insert_number_field(
                "train.evaluate_steps",
                &every.map(|every| match every {
                    EvaluationInterval::Steps(steps) => steps,
                    EvaluationInterval::Epoch => 0,
                }),
                UNWRITTEN,
            ),
        }
        let betas = optimizer.map_or(Field::Absent, |o| o.betas.clone());
        self.insert_number_field("train.beta1", &betas.clone().map(|betas| betas.0), NO_OPTIMIZER);
        self.insert_number_field("train.beta2", &betas.clone().map(|betas| betas.1), NO_OPTIMIZER);
        let both = betas.map(|(a, b)| {
            format!("{},{}", trainc_ir::digest::python_float(a), trainc_ir::digest::python_float(b))
        });
        self.insert_text_field("train.betas", &both, NO_OPTIMIZER);
        match optimizer.map_or(Field::Absent, |o| o.warmup.clone()) {
            Field::Bad => self.insert_already_reported("train.warmup"),
            warmup => self.put(
                "train.warmup",
                warmup.get().map(|warmup| match warmup {
                    Warmup::Fraction(x) => Value::from(x),
                    Warmup::Steps(n) => Value::from(n),
                }),
                NO_OPTIMIZER,
            ),
        }
    }

    /// Adds the adapter, and the storage format of the base weights.
    fn insert_adapter(&mut self, plan: &Plan) {
        const NO_ADAPTER: &str = "not set in `adapter`";
        const NO_QUANTIZE: &str = "not set in `quantize`";
        let (text, number) = (Field::Absent, Field::Absent);
        let adapter = plan.job.adapter.as_ref();
        self.insert_text_field("adapter.kind", adapter.map_or(&text, |it| &it.kind), NO_ADAPTER);
        self.insert_number_field("adapter.rank", adapter.map_or(&Field::Absent, |it| &it.rank), NO_ADAPTER);
        self.insert_shortest("adapter.alpha", adapter.map_or(&number, |it| &it.alpha), NO_ADAPTER);
        self.insert_number_field("adapter.dropout", adapter.map_or(&number, |it| &it.dropout), NO_ADAPTER);
        let targets = adapter.map_or(Field::Absent, |it| it.targets.clone().map(|names| names.join(",")));
        self.insert_text_field("adapter.targets", &targets, NO_ADAPTER);
        let quantize = plan.job.quantize.as_ref();
        self.insert_text_field("quantize.kind", quantize.map_or(&text, |it| &it.kind), NO_QUANTIZE);
        let double = quantize.map_or(&Field::Absent, |it| &it.double);
        self.insert_number_field("quantize.double", double, NO_QUANTIZE);
        self.insert_text_field("quantize.compute", quantize.map_or(&text, |it| &it.compute), NO_QUANTIZE);
    }

    /// Returns the values as nested maps, the context of the template engine.
    pub(super) fn template_context(&self) -> Value {
        let values = self.entries.iter().filter_map(|(path, entry)| match entry {
            ValueEntry::Value(value) => Some((path.as_str(), value)),
            ValueEntry::Missing(_) | ValueEntry::AlreadyReported => None,
        });
        nest_dotted_paths(values.filter(|(path, _)| path.contains('.')).collect())
    }
}

/// Converts values with dotted paths to nested maps.
fn nest_dotted_paths(values: Vec<(&str, &Value)>) -> Value {
    let mut groups: BTreeMap<String, Vec<(&str, &Value)>> = BTreeMap::new();
    let mut out: BTreeMap<String, Value> = BTreeMap::new();
    for (path, value) in values {
        match path.split_once('.') {
            Some((group, rest)) => groups.entry(group.to_owned()).or_default().push((rest, value)),
            None => {
                out.insert(path.to_owned(), value.clone());
            }
        }
    }
    out.extend(groups.into_iter().map(|(group, values)| (group, nest_dotted_paths(values))));
    Value::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_meaning() {
        assert!(PLACEHOLDERS.is_sorted());
        for path in placeholder_paths() {
            assert!(placeholder_meaning(path).is_some_and(|meaning| !meaning.is_empty()), "{path}");
        }
    }
}
