//! Placeholders in strings: `"{{ batch.micro }}"` takes a value of the plan.
//!
//! In: a plan whose texts stand as written. Out: the same with every placeholder replaced, before the checks,
//! which see the final text. Strict: an unknown path is a problem with a did-you-mean. The job's digest is
//! computed from what is emitted, so here [`DIGEST_MARK`](crate::ir::plan::DIGEST_MARK) stands for it.

use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::plan::DIGEST_MARK;
use crate::ir::{Field, Pair, Plan, Scalar, Warmup};
use crate::source::{SourceMap, Span};
use crate::text;
use minijinja::value::Value;
use minijinja::{Environment, UndefinedBehavior};
use std::collections::BTreeMap;

declare_code!(T0230, "unknown-placeholder", Error, "a placeholder that names no value of the plan");
declare_code!(T0231, "placeholder-syntax", Error, "a placeholder that cannot be read");
declare_code!(T0232, "placeholder-without-value", Error, "a placeholder whose value this job does not have");

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    vec![&T0230, &T0231, &T0232]
}

/// Replaces every placeholder of the plan.
pub fn bind(mut plan: Plan, sources: &SourceMap, problems: &mut Problems) -> Plan {
    let mut texts = 0;
    visit(&mut plan, &mut |slot| texts += usize::from(slot.has_placeholder()));
    if texts == 0 {
        return plan;
    }
    let table = Table::of(&plan);
    let mut env = Environment::empty();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    let context = table.context();
    let binder = Binder { table: &table, context: &context, env: &env, sources };
    visit(&mut plan, &mut |slot| binder.slot(slot, problems));
    plan
}

/// A text of the plan that may have placeholders.
enum Slot<'a> {
    Text(&'a mut Field<String>),
    Scalar(&'a mut Field<Scalar>),
}

impl Slot<'_> {
    fn has_placeholder(&self) -> bool {
        match self {
            Self::Text(field) => field.value().is_some_and(|text| text.contains("{{")),
            Self::Scalar(field) => matches!(field.value(), Some(Scalar::Text(text)) if text.contains("{{")),
        }
    }
}

/// Shows every text that may have placeholders.
fn visit(plan: &mut Plan, with: &mut dyn FnMut(Slot)) {
    let job = &mut plan.job;
    fn pairs(list: &mut [Pair], with: &mut dyn FnMut(Slot)) {
        for pair in list {
            with(Slot::Text(&mut pair.value));
        }
    }
    pairs(&mut job.tags, with);
    if let Some(program) = &mut job.program {
        for hyperparameter in &mut program.hyperparameters {
            with(Slot::Scalar(&mut hyperparameter.value));
        }
        pairs(&mut program.environment, with);
        for field in [&mut program.s3, &mut program.upload] {
            with(Slot::Text(field));
        }
        for secret in &mut program.secrets {
            with(Slot::Text(&mut secret.from));
        }
    }
    if let Some(parallel) = &mut job.parallel {
        pairs(&mut parallel.mpi_env, with);
        with(Slot::Text(&mut parallel.mpi_options));
    }
    for storage in &mut job.storage {
        for link in storage.imports.iter_mut().chain(&mut storage.exports) {
            with(Slot::Text(&mut link.s3));
        }
    }
    for channel in &mut job.channels {
        for field in
            [&mut channel.s3, &mut channel.manifest, &mut channel.augmented_manifest, &mut channel.path]
        {
            with(Slot::Text(field));
        }
    }
    if let Some(checkpoint) = &mut job.checkpoint {
        with(Slot::Text(&mut checkpoint.s3));
        with(Slot::Text(&mut checkpoint.local));
    }
    if let Some(output) = &mut job.output {
        with(Slot::Text(&mut output.s3));
    }
    if let Some(debugger) = &mut job.debugger {
        with(Slot::Text(&mut debugger.s3));
    }
    if let Some(profiler) = &mut job.profiler {
        with(Slot::Text(&mut profiler.s3));
    }
    if let Some(tensorboard) = &mut job.tensorboard {
        with(Slot::Text(&mut tensorboard.s3));
    }
    if let Some(experiment) = &mut job.experiment {
        for field in
            [&mut experiment.name, &mut experiment.trial, &mut experiment.component, &mut experiment.run]
        {
            with(Slot::Text(field));
        }
    }
}

/// What a path stands for.
enum Entry {
    Value(Value),
    /// The language has the path, but this job has no such value; the text says why.
    Missing(&'static str),
    /// Not known because of a problem already reported.
    Poison,
}

/// What `train.…` has.
const TRAIN_PATHS: [&str; 22] = [
    "precision",
    "sequence_length",
    "micro_batch",
    "accumulation",
    "global_batch",
    "steps",
    "tokens",
    "seed",
    "epochs",
    "activation_checkpointing",
    "flash_attention",
    "optimizer",
    "schedule",
    "lr",
    "min_lr",
    "eps",
    "weight_decay",
    "clip",
    "beta1",
    "beta2",
    "betas",
    "warmup",
];

struct Table {
    entries: BTreeMap<String, Entry>,
}

impl Table {
    /// Every path of the language with its value in this plan.
    fn of(plan: &Plan) -> Self {
        let mut table = Self { entries: BTreeMap::new() };
        let job = &plan.job;
        table.put("job.digest", Some(DIGEST_MARK), "");
        let reported = |field: &Field<String>| {
            if field.is_absent() && plan.deployable { Field::Bad } else { field.clone() }
        };
        table.field("job.name", &if job.name.is_absent() { Field::Bad } else { job.name.clone() }, "");
        table.field("job.region", &reported(&job.region), "the job has no region");
        let mesh = plan.mesh.as_ref();
        for (path, value) in [
            ("mesh.world_size", mesh.map(|mesh| mesh.world_size)),
            ("mesh.data_parallel_replicas", mesh.map(|mesh| mesh.replicas.value)),
            ("mesh.shard_degree", mesh.map(|mesh| mesh.shard_degree.value)),
            ("mesh.tensor_degree", mesh.map(|mesh| mesh.tensor_degree.value)),
            ("mesh.pipeline_degree", mesh.map(|mesh| mesh.pipeline_degree.value)),
            ("mesh.context_degree", mesh.map(|mesh| mesh.context_degree.value)),
            ("mesh.expert_degree", mesh.map(|mesh| mesh.expert_degree.value)),
        ] {
            table.poisoned(path, value);
        }
        for (path, value) in [
            ("mesh.minimum_nodes", mesh.and_then(|mesh| mesh.minimum_nodes.as_ref())),
            ("mesh.recommended_nodes", mesh.and_then(|mesh| mesh.recommended_nodes.as_ref())),
        ] {
            if mesh.is_none() || (job.model.is_some() && plan.model.is_none()) {
                table.poison(path);
            } else {
                table.put(
                    path,
                    value.map(|val| val.value),
                    "nothing is sharded, so the 3-billion rule does not apply",
                );
            }
        }
        match job.parallel.as_ref().and_then(|parallel| parallel.engine.get()) {
            Some(engine) => table.put("mesh.engine", Some(engine.name()), ""),
            None => table.poison("mesh.engine"),
        }
        table.model(plan);
        let batch = plan.batch.as_ref();
        for (path, value) in [
            ("batch.micro", batch.map(|batch| batch.micro.value)),
            ("batch.microbatches", batch.map(|batch| batch.microbatches)),
            ("batch.per_replica", batch.map(|batch| batch.per_replica)),
            ("batch.accumulation", batch.map(|batch| batch.accumulation.value)),
            ("batch.global_sequences", batch.map(|batch| batch.global_sequences.value)),
        ] {
            table.poisoned(path, value);
        }
        let no_length = job.train.sequence_length.is_absent();
        if batch.is_some() && no_length {
            table.put("batch.global_tokens", None::<u64>, "`train` has no `sequence-length`");
        } else {
            table.poisoned("batch.global_tokens", batch.and_then(|batch| batch.global_tokens));
        }
        let cluster = job.cluster.as_ref();
        if let Some(cluster) = cluster {
            let groups = !cluster.groups.is_empty();
            let instance = if groups { cluster.instance.clone() } else { reported(&cluster.instance) };
            table.field("cluster.instance", &instance, "`cluster` names no instance type");
            table.number("cluster.nodes", &cluster.nodes, "`cluster` has no `nodes`");
        } else {
            table.poison("cluster.instance");
            table.poison("cluster.nodes");
        }
        table.poisoned("cluster.gpus_per_node", plan.machine.as_ref().map(|machine| machine.gpus_per_node));
        table.poisoned("cluster.world_size", mesh.map(|mesh| mesh.world_size));
        table.poisoned("run.steps", plan.run.steps.as_ref().map(|val| val.value));
        if plan.run.tokens.is_none() && batch.is_some() && no_length {
            table.put(
                "run.tokens",
                None::<u64>,
                "the tokens of a step are not known: `train` has no `sequence-length`",
            );
        } else {
            table.poisoned("run.tokens", plan.run.tokens.as_ref().map(|val| val.value));
        }
        table.train(plan);
        table
    }

    fn put(&mut self, path: &str, value: Option<impl Into<Value>>, why: &'static str) {
        let entry = value.map_or(Entry::Missing(why), |value| Entry::Value(value.into()));
        self.entries.insert(path.to_owned(), entry);
    }

    /// A value that is not known because of a problem already reported.
    fn poison(&mut self, path: &str) {
        self.entries.insert(path.to_owned(), Entry::Poison);
    }

    /// A value that every job has unless something was reported.
    fn poisoned(&mut self, path: &str, value: Option<u64>) {
        let entry = value.map_or(Entry::Poison, |value| Entry::Value(value.into()));
        self.entries.insert(path.to_owned(), entry);
    }

    fn field(&mut self, path: &str, field: &Field<String>, why: &'static str) {
        let entry = match field {
            Field::Is(val) => Entry::Value(Value::from(val.value.as_str())),
            Field::Absent => Entry::Missing(why),
            Field::Bad => Entry::Poison,
        };
        self.entries.insert(path.to_owned(), entry);
    }

    /// A number or a boolean.
    fn number<T: Copy + Into<Value>>(&mut self, path: &str, field: &Field<T>, why: &'static str) {
        let entry = match field {
            Field::Is(val) => Entry::Value(val.value.into()),
            Field::Absent => Entry::Missing(why),
            Field::Bad => Entry::Poison,
        };
        self.entries.insert(path.to_owned(), entry);
    }

    fn model(&mut self, plan: &Plan) {
        const NO_MODEL: &str = "the job has no `model`";
        const SIZE_ONLY: &str = "only the model's size is known, not its dimensions";
        const PATHS: [&str; 8] =
            ["hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab", "positions"];
        let written = plan.job.model.is_some();
        if let Some(model) = &plan.model {
            self.put("model.name", Some(model.name.as_str()), "");
            self.put("model.parameters", Some(model.parameters.value), "");
            if model.trainable.is_none() && model.architecture.is_some() {
                self.poison("model.parameters_trainable");
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
                let entry = if written { Entry::Poison } else { Entry::Missing(NO_MODEL) };
                self.entries.insert(format!("model.{path}"), entry);
            }
            if let Some(name) = plan.job.model.as_ref().and_then(|model| model.name.value()) {
                self.put("model.name", Some(name.as_str()), "");
            }
        }
        self.number(
            "model.sequence_length",
            &plan.job.train.sequence_length,
            "`train` has no `sequence-length`",
        );
    }

    fn train(&mut self, plan: &Plan) {
        const UNWRITTEN: &str = "`train` does not say it";
        const NO_OPTIMIZER: &str = "the optimizer does not say it";
        let train = &plan.job.train;
        if train.span.is_none() {
            // The node itself is missing, and that was reported.
            for path in TRAIN_PATHS {
                self.poison(&format!("train.{path}"));
            }
            return;
        }
        self.field("train.precision", &train.precision, UNWRITTEN);
        for (path, field) in [
            ("train.sequence_length", &train.sequence_length),
            ("train.micro_batch", &train.micro_batch),
            ("train.accumulation", &train.accumulation),
            ("train.global_batch", &train.global_batch),
            ("train.steps", &train.steps),
            ("train.tokens", &train.tokens),
            ("train.seed", &train.seed),
        ] {
            self.number(path, field, UNWRITTEN);
        }
        // A whole number of epochs stays whole: scripts parse it as an int.
        let epochs = match &train.epochs {
            Field::Is(val) if val.value.fract() == 0.0 && val.value < 1e15 => {
                #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
                let whole = val.value as i64;
                Entry::Value(Value::from(whole))
            }
            Field::Is(val) => Entry::Value(Value::from(val.value)),
            Field::Absent => Entry::Missing(UNWRITTEN),
            Field::Bad => Entry::Poison,
        };
        self.entries.insert("train.epochs".to_owned(), epochs);
        let checkpointing =
            train.activation_checkpointing.clone().map(|what| what != crate::ir::Recompute::None);
        self.number("train.activation_checkpointing", &checkpointing, UNWRITTEN);
        self.number("train.flash_attention", &train.flash_attention, UNWRITTEN);
        let none = crate::ir::Field::Absent;
        let text_none = crate::ir::Field::Absent;
        let optimizer = train.optimizer.as_ref();
        self.field("train.optimizer", optimizer.map_or(&text_none, |o| &o.name), UNWRITTEN);
        self.field("train.schedule", optimizer.map_or(&text_none, |o| &o.schedule), NO_OPTIMIZER);
        for (path, field) in [
            ("train.lr", optimizer.map_or(&none, |o| &o.lr)),
            ("train.min_lr", optimizer.map_or(&none, |o| &o.min_lr)),
            ("train.eps", optimizer.map_or(&none, |o| &o.eps)),
            ("train.weight_decay", optimizer.map_or(&none, |o| &o.weight_decay)),
            ("train.clip", optimizer.map_or(&none, |o| &o.clip)),
        ] {
            self.number(path, field, NO_OPTIMIZER);
        }
        let betas = optimizer.map_or(Field::Absent, |o| o.betas.clone());
        self.number("train.beta1", &betas.clone().map(|betas| betas.0), NO_OPTIMIZER);
        self.number("train.beta2", &betas.clone().map(|betas| betas.1), NO_OPTIMIZER);
        let both = betas.map(|(a, b)| {
            format!("{},{}", crate::ir::digest::python_float(a), crate::ir::digest::python_float(b))
        });
        self.field("train.betas", &both, NO_OPTIMIZER);
        match optimizer.map_or(Field::Absent, |o| o.warmup.clone()) {
            Field::Bad => self.poison("train.warmup"),
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

    /// The nested form that an expression looks its paths up in.
    fn context(&self) -> BTreeMap<String, BTreeMap<String, Value>> {
        let mut out: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
        for (path, entry) in &self.entries {
            if let (Some((group, name)), Entry::Value(value)) = (path.split_once('.'), entry) {
                out.entry(group.to_owned()).or_default().insert(name.to_owned(), value.clone());
            }
        }
        out
    }
}

struct Binder<'a> {
    table: &'a Table,
    context: &'a BTreeMap<String, BTreeMap<String, Value>>,
    env: &'a Environment<'a>,
    sources: &'a SourceMap,
}

impl Binder<'_> {
    fn slot(&self, slot: Slot, problems: &mut Problems) {
        if !slot.has_placeholder() {
            return;
        }
        match slot {
            Slot::Text(field) => {
                let Some(val) = field.val() else { return };
                match self.expand(&val.value, val.span_or(Span::whole(crate::source::SourceId(0))), problems)
                {
                    Some(value) => {
                        if let Some(text) = field.value_mut() {
                            *text = plain(&value);
                        }
                    }
                    None => *field = Field::Bad,
                }
            }
            Slot::Scalar(field) => {
                let Some(val) = field.val() else { return };
                let Scalar::Text(written) = &val.value else { return };
                match self.expand(written, val.span_or(Span::whole(crate::source::SourceId(0))), problems) {
                    Some(value) => {
                        if let Some(slot) = field.value_mut() {
                            *slot = value;
                        }
                    }
                    None => *field = Field::Bad,
                }
            }
        }
    }

    /// A text with its placeholders replaced; one placeholder alone keeps the value's type.
    fn expand(&self, written: &str, span: Span, problems: &mut Problems) -> Option<Scalar> {
        let mut parts: Vec<Scalar> = Vec::new();
        let mut rest = written;
        let mut fine = true;
        while let Some(open) = rest.find("{{") {
            if let Some(before) = rest.get(..open).filter(|before| !before.is_empty()) {
                parts.push(Scalar::Text(before.to_owned()));
            }
            let inside = rest.get(open + 2..).unwrap_or("");
            let Some(close) = closing(inside) else {
                problems.push(
                    Diagnostic::new(&T0231, self.inside(span, "{{"), "`{{` without its `}}`")
                        .help("close it, or write `{{ \"{{\" }}` for the two braces themselves"),
                );
                return None;
            };
            let expression = inside.get(..close).unwrap_or("").trim();
            match self.evaluate(expression, span, problems) {
                Some(value) => parts.push(value),
                None => fine = false,
            }
            rest = inside.get(close + 2..).unwrap_or("");
        }
        if !rest.is_empty() {
            parts.push(Scalar::Text(rest.to_owned()));
        }
        if !fine {
            return None;
        }
        if parts.len() == 1 {
            return parts.pop();
        }
        Some(Scalar::Text(parts.iter().map(plain).collect()))
    }

    fn evaluate(&self, expression: &str, span: Span, problems: &mut Problems) -> Option<Scalar> {
        if expression.is_empty() {
            problems.push(
                Diagnostic::new(&T0231, self.inside(span, "{{"), "`{{ }}` names no value")
                    .help("write a path of the plan, as `{{ batch.micro }}`"),
            );
            return None;
        }
        // A path alone, by far the most common, needs no template engine.
        if let Some(Entry::Value(value)) = self.table.entries.get(expression)
            && let Some(value) = scalar(value)
        {
            return Some(value);
        }
        let compiled = match self.env.compile_expression(expression) {
            Ok(compiled) => compiled,
            Err(error) => {
                let why = error.detail().unwrap_or("it is no expression").to_owned();
                problems.push(
                    Diagnostic::new(
                        &T0231,
                        self.inside(span, expression),
                        format!("`{{{{ {expression} }}}}` cannot be read: {why}"),
                    )
                    .help("write a path of the plan, as `{{ batch.micro }}`"),
                );
                return None;
            }
        };
        let mut fine = true;
        let mut names: Vec<String> = compiled.undeclared_variables(true).into_iter().collect();
        names.sort_unstable();
        for name in names {
            match self.table.entries.get(&name) {
                Some(Entry::Value(_)) => {}
                Some(Entry::Poison) => fine = false,
                Some(Entry::Missing(why)) => {
                    problems.push(
                        Diagnostic::new(
                            &T0232,
                            self.inside(span, &name),
                            format!("`{name}` has no value in this job: {why}"),
                        )
                        .help("write the value itself, or say what it is computed from"),
                    );
                    fine = false;
                }
                None => {
                    problems.push(self.unknown(&name, span));
                    fine = false;
                }
            }
        }
        if !fine {
            return None;
        }
        match compiled.eval(self.context) {
            Ok(value) => scalar(&value).or_else(|| {
                problems.push(
                    Diagnostic::new(
                        &T0231,
                        self.inside(span, expression),
                        format!("`{expression}` gives no single value"),
                    )
                    .help("name one value of the plan, as `{{ batch.micro }}`"),
                );
                None
            }),
            Err(error) => {
                let why = error.detail().unwrap_or("it cannot be computed").to_owned();
                problems.push(Diagnostic::new(
                    &T0231,
                    self.inside(span, expression),
                    format!("`{expression}`: {why}"),
                ));
                None
            }
        }
    }

    fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        let at = self.inside(span, name);
        let diagnostic = Diagnostic::new(&T0230, at, format!("the plan has no value `{name}`"));
        let known = self.table.entries.keys().map(String::as_str);
        let (group, last) = name.split_once('.').unwrap_or((name, ""));
        if matches!(group, "memory" | "speed") {
            return diagnostic
                .note("predicted figures are not available to the job: they must not reach its digest");
        }
        if let Some(near) = text::nearest(name, known.clone()) {
            return diagnostic.help(format!("did you mean `{{{{ {near} }}}}`?")).fix(at, near);
        }
        let same: Vec<&str> = known
            .clone()
            .filter(|path| {
                path.split_once('.')
                    .is_some_and(|(g, n)| (g == group) || (!last.is_empty() && n == last) || n == name)
            })
            .collect();
        if let [only] = same.as_slice() {
            return diagnostic.help(format!("did you mean `{{{{ {only} }}}}`?")).fix(at, *only);
        }
        if same.is_empty() {
            diagnostic.note("groups of values: job, mesh, model, batch, cluster, run, train")
        } else {
            diagnostic.note(format!("known: {}", same.join(", ")))
        }
    }

    /// The place of a piece of text inside a string's span; the whole string if it does not stand there as such.
    fn inside(&self, span: Span, piece: &str) -> Span {
        let slice = self.sources.slice(span);
        match slice.find(piece) {
            Some(at) if !piece.is_empty() => {
                let start = span.start as usize + at;
                Span::new(span.source, start, start + piece.len())
            }
            _ => span,
        }
    }
}

/// Where the placeholder ends: the first `}}` outside quotes.
fn closing(inside: &str) -> Option<usize> {
    let mut quote: Option<u8> = None;
    let bytes = inside.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match quote {
            Some(q) => {
                if byte == b'\\' {
                    at += 1;
                } else if byte == q {
                    quote = None;
                }
            }
            None => match byte {
                b'"' | b'\'' => quote = Some(byte),
                b'}' if bytes.get(at + 1) == Some(&b'}') => return Some(at),
                _ => {}
            },
        }
        at += 1;
    }
    None
}

fn scalar(value: &Value) -> Option<Scalar> {
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::String => value.as_str().map(|text| Scalar::Text(text.to_owned())),
        ValueKind::Bool => Some(Scalar::Bool(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Scalar::Int),
        ValueKind::Number => f64::try_from(value.clone()).ok().filter(|x| x.is_finite()).map(Scalar::Float),
        _ => None,
    }
}

fn plain(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => crate::ir::digest::python_float(*x),
        Scalar::Bool(on) => on.to_string(),
        Scalar::Null => String::new(),
    }
}
