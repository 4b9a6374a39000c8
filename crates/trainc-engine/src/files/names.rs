//! The values of a plan by the names that the expressions of the tables use.

use super::{Names, versions};
use trainc_ir::checkpoint_parts::DEFAULT_CHECKPOINT_PATH;
use trainc_ir::engine::States;
use trainc_ir::job::CheckpointInterval;
use trainc_ir::script::makes_trainer;
use trainc_ir::{Axis, FileReader, Mesh, Plan, Scalar};

/// Returns the names of expressions that are about the plan, without a file.
pub fn plan_names(plan: &Plan) -> Names {
    let mut values: Vec<(String, Scalar)> = Vec::new();
    let mut put = |name: &str, value: Option<u64>| {
        values.extend(value.map(|n| (name.to_owned(), Scalar::Int(n.into()))));
    };
    if let Some(mesh) = &plan.mesh {
        put("world_size", Some(mesh.ranks()));
        put("nodes", Some(mesh.nodes));
        put("gpus_per_node", Some(mesh.gpus_per_node));
        put("data_ranks", Some(mesh.data_ranks.value));
        for axis in Axis::ALL {
            put(&axis.node().replace('-', "_"), Some(mesh.degree(axis)));
        }
    }
    if let Some(batch) = &plan.batch {
        put("micro_batch", Some(batch.micro_batch_size.value));
        put("accumulation", Some(batch.accumulation.value));
        put("global_batch", Some(batch.global_sequences.value));
    }
    let checkpoint = plan.job.checkpoint.as_ref();
    if let Some(CheckpointInterval::Steps(steps)) = checkpoint.and_then(|it| it.every.get()) {
        put("checkpoint_steps", Some(steps));
    }
    put("checkpoint_keep", checkpoint.and_then(|it| it.keep.get()));
    let train = &plan.job.train;
    put("sequence_length", train.sequence_length.get());
    put("steps", plan.run.steps.as_ref().map(|steps| steps.value));
    let optimizer = train.optimizer.as_ref().and_then(|optimizer| optimizer.name.value());
    let strategy = plan.job.parallel.as_ref().and_then(|parallel| parallel.strategy.value().cloned());
    let strategy = strategy.or_else(|| default_strategy(plan));
    let parallel = plan.job.parallel.as_ref();
    let uploaded = checkpoint.filter(|it| !it.s3.is_absent());
    let folder = uploaded.map(|it| it.local.value().map_or(DEFAULT_CHECKPOINT_PATH, String::as_str));
    let words = [
        ("checkpoint_folder", folder.map(str::to_owned)),
        ("engine", parallel.and_then(|parallel| parallel.engine.get()).map(|name| name.as_str().to_owned())),
        ("wrap", parallel.and_then(|parallel| parallel.wrap.value()).cloned()),
        ("precision", train.precision.value().cloned()),
        ("attention", train.attention.value().cloned()),
        ("optimizer", optimizer.cloned()),
        ("strategy", strategy),
    ];
    for (name, word) in words {
        values.push((name.to_owned(), word.map_or(Scalar::Null, Scalar::Text)));
    }
    let option = |name| parallel?.options.iter().find(|option| option.name == name)?.value.value().cloned();
    values.push(("offload".to_owned(), option("offload").unwrap_or(Scalar::Bool(false))));
    let clip = train.optimizer.as_ref().and_then(|optimizer| optimizer.clip.get());
    values.push(("clip".to_owned(), clip.map_or(Scalar::Null, Scalar::Float)));
    values.push(("compile".to_owned(), train.compile.get().map_or(Scalar::Null, Scalar::Bool)));
    if let Some(mesh) = &plan.mesh {
        values.push(("has_degrees".to_owned(), Scalar::Bool(has_degrees(mesh))));
    }
    let law = plan.engine.map_or("", |engine| engine.law.name);
    values.push(("law".to_owned(), Scalar::Text(law.to_owned())));
    let has_trainer = plan.files.iter().any(|file| file.reader == FileReader::Program)
        || plan.job.program.as_ref().is_some_and(|program| !program.takes.is_absent())
        || plan.script.iter().flat_map(|script| &script.modules).any(|one| makes_trainer(&one.module));
    values.push(("has_trainer".to_owned(), Scalar::Bool(has_trainer)));
    let takes = plan.job.program.as_ref().and_then(|program| program.takes.value().cloned());
    values.push(("takes".to_owned(), takes.map_or(Scalar::Null, Scalar::Text)));
    values.push(("has_adapter".to_owned(), Scalar::Bool(plan.job.adapter.is_some())));
    values.push(("is_quantized".to_owned(), Scalar::Bool(plan.job.quantize.is_some())));
    let mut model: Vec<(&str, Scalar)> = Vec::new();
    if let Some(facts) = &plan.model {
        let is_on_hub = facts.name.split('/').count() == 2;
        model.extend(is_on_hub.then(|| ("name", Scalar::Text(facts.name.clone()))));
        model.push(("parameters", Scalar::Int(facts.parameters.value.into())));
    }
    if let Some(a) = plan.model.as_ref().and_then(|model| model.architecture.as_ref()) {
        let of_model = [
            ("heads", a.heads),
            ("kv_heads", a.kv_heads),
            ("hidden", a.hidden),
            ("layers", a.layers),
            ("vocab", a.vocab),
            ("ffn", a.ffn),
            ("experts", a.experts),
        ];
        model.extend(of_model.map(|(name, value)| (name, Scalar::Int(value.into()))));
    }
    let installed = plan.programs.iter();
    let installed = installed.filter_map(|one| Some((one.package, Scalar::Bool(one.is_installed?))));
    Names::default()
        .with("plan", values)
        .with("model", model)
        .with("versions", versions(&plan.programs))
        .with("installed", installed)
}

/// Returns the strategy of a law that takes one, where the manifest names none: everything is sharded.
fn default_strategy(plan: &Plan) -> Option<String> {
    let law = plan.engine?.law;
    (law.states == States::ByStrategy).then(|| law.whole_world_strategy().map(str::to_owned)).flatten()
}

/// Returns whether the ranks are arranged in more than one axis, or in one that the strategy does not name.
fn has_degrees(mesh: &Mesh) -> bool {
    let is_above_one = |axis: &Axis| mesh.degree(*axis) > 1;
    let of_strategy = [Axis::Replica, Axis::Shard];
    of_strategy.iter().all(is_above_one)
        || Axis::ALL.iter().filter(|axis| !of_strategy.contains(axis)).any(is_above_one)
}
