//! plan.json of a plan.

use super::json::{
    Batch, Choice, Cluster, Document, FORMAT_VERSION, Gpu, GroupPrice, Groups, Image, Manifest, Mesh, Model,
    ModelPart, Override, Run, Source,
};
use super::{Subject, after_end, cost, forecast, notes, resources};
use trainc_diag::json::problem;
use trainc_ir::architecture::Architecture;
use trainc_ir::{Axis, Engine, Plan};

/// Returns the plan for scripts.
pub fn document(subject: &Subject) -> Document {
    let Subject { path, sha256, plan, identity, prediction, problems, sources, .. } = *subject;
    let job = plan.map(|plan| &plan.job);
    let mesh = plan.and_then(|plan| plan.mesh.as_ref());
    let machine = plan.and_then(|plan| plan.machine.as_ref());
    let cluster = job.and_then(|job| job.cluster.as_ref());
    let place = |span: trainc_diag::source::Span| match sources.get(span.source) {
        Some(source) => {
            let (line, column) = source.line_column(span.start);
            format!("{}:{line}:{column}", source.name)
        }
        None => String::new(),
    };
    let mut document = Document {
        format_version: FORMAT_VERSION,
        trainc_version: env!("CARGO_PKG_VERSION"),
        catalog_version: trainc_catalog::VERSION,
        files: Vec::new(),
        job: subject.job.map(str::to_owned),
        digest: identity.map(|identity| identity.digest.clone()),
        training_job_name: identity.map(|identity| identity.training_job.clone()),
        manifest: Manifest { path: path.to_owned(), sha256: sha256.to_owned() },
        region: job.and_then(|job| job.region.value().cloned()),
        account: job.and_then(|job| job.account.value().cloned()),
        compared_with: None,
        blocked: None,
        changes: None,
        cluster: Cluster {
            instance: cluster.and_then(|cluster| cluster.instance.value().cloned()),
            nodes: mesh.map(|mesh| mesh.nodes).or_else(|| cluster.and_then(|cluster| cluster.nodes.get())),
            gpus_per_node: machine.map(|machine| machine.gpus_per_node),
            world_size: mesh.map(|mesh| mesh.world_size),
            gpu: Gpu {
                name: machine.and_then(|machine| machine.gpu.clone()),
                memory_bytes: machine.and_then(|machine| machine.gpu_memory_bytes),
            },
            max_run_seconds: cluster.and_then(|cluster| cluster.max_run_seconds.get()),
            spot: cluster.is_some_and(|cluster| cluster.spot.is_some()),
        },
        mesh: mesh.map(|mesh| Mesh {
            engine: plan.and_then(|plan| plan.engine).map_or("", Engine::name),
            data_parallel_replicas: mesh.replicas.value,
            replicate_degree: mesh.replicas.value,
            shard_degree: mesh.shard_degree.value,
            tensor_degree: mesh.tensor_degree.value,
            pipeline_degree: mesh.pipeline_degree.value,
            context: mesh.context_degree.value,
            expert: mesh.expert_degree.value,
            context_degree: mesh.context_degree.value,
            ulysses_degree: mesh.ulysses_degree.value,
            expert_degree: mesh.expert_degree.value,
            data_ranks: mesh.data_ranks.value,
            minimum_nodes: mesh.minimum_nodes.as_ref().map(|val| val.value),
            recommended_nodes: mesh.recommended_nodes.as_ref().map(|val| val.value),
            shard_group_nodes: mesh.nodes_of_group(Axis::Shard),
        }),
        groups: mesh.map(groups).unwrap_or_default(),
        model: plan.and_then(model),
        batch: plan.and_then(|plan| plan.batch.as_ref()).map(|batch| Batch {
            micro: batch.micro_batch_size.value,
            microbatches: batch.num_micro_batches,
            per_replica: batch.per_replica,
            accumulation: batch.accumulation.value,
            global_sequences: batch.global_sequences.value,
            global_tokens: batch.global_tokens,
        }),
        delivery: plan.map(|plan| plan.delivery.clone()).unwrap_or_default(),
        image: plan.and_then(|plan| plan.image.as_ref()).map(|image| Image {
            uri: image.uri.clone(),
            pytorch: image.pytorch.clone(),
            transformers: image.transformers.clone(),
            python: image.python.clone(),
        }),
        source: plan.and_then(|plan| Some((plan, plan.source.as_ref()?))).map(|(plan, _)| {
            let files = trainc_emit::archive::files(plan);
            Source {
                digest: trainc_emit::archive::source_digest(plan),
                files: files.len(),
                bytes: files.iter().map(|file| file.bytes.len() as u64).sum(),
            }
        }),
        memory: forecast::memory(prediction, machine.and_then(trainc_ir::plan::Machine::rank_memory_bytes)),
        speed: forecast::speed(prediction),
        run: plan.map(|plan| forecast::run(plan, prediction)).unwrap_or_default(),
        evidence: forecast::evidence(subject),
        price: plan.and_then(Plan::price).cloned(),
        group_prices: plan.map(group_prices).unwrap_or_default(),
        choices: Vec::new(),
        elsewhere: None,
        after_end: plan.map(|plan| after_end::after_end(plan, prediction)).unwrap_or_default(),
        quotas: Vec::new(),
        resources: plan.map(|plan| resources::resources(plan, identity)).unwrap_or_default(),
        policy: super::resources::statements(subject),
        overrides: job.map_or_else(Vec::new, |job| {
            job.overrides
                .iter()
                .map(|over| Override {
                    path: over.path.clone(),
                    from: place(over.from),
                    by: place(over.by),
                    replaced_by: over.replaced_by.clone(),
                    removed: over.is_removed,
                })
                .collect()
        }),
        notes: Vec::new(),
        problems: problems.iter().map(|diagnostic| problem(sources, diagnostic)).collect(),
    };
    document.choices = choices(subject, &document);
    document.notes = notes::notes(&document, plan, prediction, subject.constants);
    document
}

/// Returns the job on each of its preferred instance types; none without preferences.
fn choices(subject: &Subject, document: &Document) -> Vec<Choice> {
    let Some((plan, choices)) = subject.plan.zip(subject.choices) else { return Vec::new() };
    let choice = |document: Document, plan: &Plan| Choice {
        instance: document.cluster.instance,
        nodes: document.cluster.nodes,
        mesh: document.mesh,
        batch: document.batch,
        memory: document.memory,
        speed: document.speed,
        // The most on this type; that of the document is of the dearest.
        run: Run { most_usd: cost::own_max_run_usd(plan), ..document.run },
        price: document.price,
        problems: document.problems,
    };
    let problems =
        choices.problems_of_first.iter().map(|diagnostic| problem(subject.sources, diagnostic)).collect();
    let first = choice(Document { problems, ..document.clone() }, plan);
    let further = choices.further.iter().map(|one| {
        let (plan, prediction, problems) = (Some(&*one.plan), &*one.prediction, &one.problems);
        let of_type = Subject { plan, prediction, problems, identity: None, choices: None, ..*subject };
        choice(self::document(&of_type), &one.plan)
    });
    std::iter::once(first).chain(further).collect()
}

/// Returns the price of an instance of each group, in the order of the groups.
fn group_prices(plan: &Plan) -> Vec<GroupPrice> {
    let groups = plan.job.cluster.iter().flat_map(|cluster| &cluster.groups).zip(plan.group_prices());
    groups
        .map(|(group, of_group)| GroupPrice {
            group: group.name.value().cloned(),
            instance: group.instance.value().cloned(),
            nodes: group.nodes.get(),
            price: of_group.cloned(),
        })
        .collect()
}

fn groups(mesh: &trainc_ir::Mesh) -> Groups {
    Groups {
        shard: mesh.groups(Axis::Shard),
        replica: mesh.groups(Axis::Replica),
        tensor: mesh.groups(Axis::Tensor),
        pipeline: mesh.groups(Axis::Pipeline),
        context: mesh.groups(Axis::Context),
        ulysses: mesh.groups(Axis::Ulysses),
        expert: mesh.groups(Axis::Expert),
    }
}

fn model(plan: &Plan) -> Option<Model> {
    let model = plan.model.as_ref()?;
    let a = model.architecture.as_ref();
    let class = model.class.or_else(|| a.map(Architecture::default_class));
    let counted = a.zip(class);
    let sequence_length = plan.job.train.sequence_length.get();
    Some(Model {
        name: model.name.clone(),
        parameters: model.parameters.value,
        parameters_trainable: model.trainable.as_ref().map(|val| val.value),
        parameters_active: counted
            .and_then(|(a, class)| a.parameters_for_class(class))
            .map(|count| count.active),
        tied: a.map(|a| a.tied),
        training_flops_per_token: counted
            .zip(sequence_length)
            .and_then(|((a, class), tokens)| a.training_flops_per_token(class, tokens)),
        parts: counted
            .into_iter()
            .flat_map(|(a, class)| a.parts(class))
            .map(|part| ModelPart {
                name: part.name,
                parameters: part.parameters,
                counted: part.counted,
                reason: part.reason,
            })
            .collect(),
        layers: a.map(|a| a.layers),
        hidden: a.map(|a| a.hidden),
        heads: a.map(|a| a.heads),
        kv_heads: a.map(|a| a.kv_heads),
        ffn: a.map(|a| a.ffn),
        vocab: a.map(|a| a.vocab),
        sequence_length,
    })
}
