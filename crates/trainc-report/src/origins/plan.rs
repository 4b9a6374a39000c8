//! Origins of the values that the plan adds to the job.

use super::OriginTable;
use trainc_diag::text;
use trainc_ir::hardware::Provenance;
use trainc_ir::worker::Worker;
use trainc_ir::{
    Axis, Batch, Engine, FileReader, Fleet, Image, Job, Launch, Launcher, Machine, Mesh, ModelFacts, Origin,
    Payload, Plan, Price, PriceBasis, Region, Run, SourceFile,
};
use trainc_plan::plan::minimum_nodes;

pub(super) fn plan(table: &mut OriginTable, plan: &Plan) {
    let Plan {
        job,
        instance,
        machine,
        region,
        model,
        mesh,
        batch,
        run,
        image,
        engine,
        library,
        launch,
        // Derived from the nodes of the program, which the report shows, but for who starts the ranks.
        payload,
        worker: worker_settings,
        fleet,
        source,
        missing,
        dependencies,
        missing_dependencies: _,
        files: _,
        programs,
        placeholders: _,
        // The report shows it.
        delivery: _,
        script: _,
        named_files: _,
        requirements: _,
        unmodelled: _,
        on_sagemaker,
        account_facts: _,
        // Derived from the prediction, which the report shows.
        expectation: _,
    } = plan;
    table.job(job);
    if let Some(Region { name: _, partition, dns_suffix }) = region {
        table.set_prefix("region");
        table.push("partition", partition, "catalogue row of the region");
        table.push("dns-suffix", dns_suffix, "catalogue row of the region");
    }
    if let Some(machine) = machine {
        let why = match instance {
            Some(row) => catalogue_origin(&format!("instances {}", row.name), &row.provenance),
            None => "`cluster`, and the catalogue of accelerators".to_owned(),
        };
        node(table, machine, &why);
        if let Some(row) = instance {
            table.push(
                "network",
                row.network_gbps
                    .map_or_else(|| "?".to_owned(), |speed| format!("{} Gbit/s", text::short_number(speed))),
                &why,
            );
            let nvlink = row
                .accelerator
                .nvlink_gb_s
                .map_or_else(|| "?".to_owned(), |speed| format!("{} GB/s", text::short_number(speed)));
            table.push(
                "nvlink",
                nvlink,
                catalogue_origin(
                    &format!("accelerators {}", row.accelerator.name),
                    &row.accelerator.provenance,
                ),
            );
        }
    }
    table.set_prefix("cluster");
    if on_sagemaker.is_none() {
        table.push("deployable", "#false", "clusters `custom` and `local` are only valid for plan and run");
    }
    if let Some(facts) = model {
        self::model(table, plan, facts);
    }
    if let Some(mesh) = mesh {
        self::mesh(table, plan, mesh);
    }
    launcher(table, *engine, (launch, payload), library.as_deref());
    engine_file(table, plan);
    if let Some(it) = worker_settings {
        worker(table, it);
    }
    if let Some(batch) = batch {
        self::batch(table, batch);
    }
    let Run { steps, tokens } = run;
    table.set_prefix("run");
    for (name, val) in [("steps", steps), ("tokens", tokens)] {
        if let Some(val) = val {
            table.val(name, val, |n| text::group_digits(*n));
        }
    }
    // The packages by whose versions files are read and judged.
    if engine.is_some_and(|engine| engine.front.file.is_some()) || !plan.files.is_empty() {
        table.set_prefix("programs");
        for program in programs {
            table.val(program.package, &program.version, Clone::clone);
        }
    }
    if let Some(image) = image {
        self::image(table, image);
    }
    table.set_prefix("price");
    for (name, Price { usd_per_hour, region, date, source, basis, .. }) in instance_prices(job, fleet) {
        let row = region.iter().chain(date).map(String::as_str).collect::<Vec<_>>().join(", ");
        let why = if row.is_empty() { source.clone() } else { format!("{row}: {source}") };
        let why = match basis {
            PriceBasis::Estimate(it) => {
                format!("estimate, {} to {}, from {why}", it.low_usd_per_hour, it.high_usd_per_hour)
            }
            PriceBasis::User | PriceBasis::List => why,
        };
        table.push(&name, format!("{usd_per_hour}"), why);
    }
    let stored = plan.created_file_systems().filter_map(|(storage, price)| {
        Some((format!("storage {}.usd-per-gb-month", storage.name.value()?), price?))
    });
    let known = on_sagemaker.iter().flat_map(|known| {
        [("volume", &known.volume_price), ("s3", &known.s3_price)]
            .map(|(name, price)| Some((format!("{name}.usd-per-gb-month"), price.as_ref()?)))
    });
    for (name, price) in stored.chain(known.flatten()) {
        let source = &price.source;
        let why = price.catalogue_row().map_or_else(|| source.clone(), |row| format!("{row}: {source}"));
        table.push(&name, format!("{}", price.usd_per_gb_month), why);
    }
    table.set_prefix("source");
    for tree in source.iter().chain(dependencies) {
        table.push(
            "",
            format!("{}, {}", tree.dir, text::count(tree.files.len() as u64, "file")),
            if tree.dir.contains("://") { "fetched by git" } else { "read from disk" },
        );
    }
    if let Some(unread) = missing {
        table.push("missing", "?", unread.why.as_str());
    }
}

fn catalogue_origin(row: &str, provenance: &Provenance) -> String {
    let Provenance { source, date } = provenance;
    trainc_plan::plan::describe_origin(&Origin::Catalogue {
        row: row.to_owned(),
        source: source.clone(),
        date: date.clone(),
    })
}

fn node(table: &mut OriginTable, machine: &Machine, why: &str) {
    let Machine { gpus_per_node, gpu, ranks_per_gpu, gpu_memory_bytes, bf16, efa } = machine;
    table.set_prefix("node");
    table.push("gpus", text::group_digits(*gpus_per_node), why);
    if *ranks_per_gpu > 1 {
        table.push("ranks-per-gpu", text::group_digits(*ranks_per_gpu), why);
    }
    for (name, value) in [
        ("gpu", gpu.clone()),
        ("gpu-memory", gpu_memory_bytes.map(text::bytes)),
        ("bf16", bf16.map(|on| format!("#{on}"))),
        ("efa", efa.map(|on| format!("#{on}"))),
    ] {
        table.push(name, value.unwrap_or_else(|| "?".to_owned()), why);
    }
}

fn model(table: &mut OriginTable, plan: &Plan, facts: &ModelFacts) {
    let ModelFacts { name: _, architecture, class, parameters, trainable, details: _, defaulted } = facts;
    table.set_prefix("model");
    table.val("parameters", parameters, |n| text::group_digits(*n));
    if let Some(trainable) = trainable {
        table.val("parameters-trainable", trainable, |n| text::group_digits(*n));
    }
    if let Some(class) = class {
        table.push(
            "class",
            format!("{class:?}").to_lowercase(),
            "the model class of the architecture's name or config",
        );
    }
    for (name, value, rule) in defaulted {
        table.push(name, value, format!("the default ({rule})"));
    }
    let written: Vec<&str> =
        plan.job.model.iter().flat_map(|model| model.dimensions.iter().map(|(name, _)| *name)).collect();
    let Some(a) = architecture else { return };
    let from = match &parameters.origin {
        Origin::Catalogue { .. } => table.describe_origin(&parameters.origin),
        Origin::Written(_) | Origin::Default(_) | Origin::Derived(_) => {
            match plan.job.model.as_ref().and_then(|model| model.config.value()) {
                Some(path) => format!("read from {path}"),
                None => format!("architecture {}", a.family.name()),
            }
        }
    };
    table.push("family", a.family.name(), &from);
    for (name, value) in [
        ("hidden", a.hidden),
        ("layers", a.layers),
        ("decoder-layers", a.decoder_layers),
        ("heads", a.heads),
        ("kv-heads", a.kv_heads),
        ("head-dim", a.head_dim),
        ("ffn", a.ffn),
        ("vocab", a.vocab),
        ("positions", a.positions),
        ("experts", a.experts),
        ("active-experts", a.active_experts),
    ] {
        let known =
            written.contains(&name) || defaulted.iter().any(|(field, _, _)| field.replace('_', "-") == name);
        if !known && value > 0 {
            table.push(name, text::group_digits(value), &from);
        }
    }
}

fn mesh(table: &mut OriginTable, plan: &Plan, mesh: &Mesh) {
    let Mesh {
        law,
        nodes,
        gpus_per_node,
        processes_per_node,
        world_size,
        replicas,
        shard_degree,
        tensor_degree,
        pipeline_degree,
        context_degree,
        ulysses_degree,
        expert_degree,
        data_ranks,
        minimum_nodes,
        recommended_nodes,
        order,
    } = mesh;
    table.set_prefix("mesh");
    table.push(
        "world-size",
        text::group_digits(*world_size),
        format!("{} × {}", text::count(*nodes, "node"), text::count(*gpus_per_node, "GPU")),
    );
    table.push(
        "processes-per-node",
        text::group_digits(*processes_per_node),
        "processes that the engine starts on each node",
    );
    for (name, val) in [
        ("replicas", Some(replicas)),
        ("shard-degree", Some(shard_degree)),
        ("tensor-degree", Some(tensor_degree)),
        ("pipeline-degree", Some(pipeline_degree)),
        ("context-degree", Some(context_degree)),
        ("ulysses-degree", Some(ulysses_degree).filter(|_| law.has(Axis::Ulysses))),
        ("expert-degree", Some(expert_degree)),
        ("data-ranks", Some(data_ranks)),
    ] {
        if let Some(val) = val {
            table.val(name, val, |n| text::group_digits(*n));
        }
    }
    for (name, val) in [("minimum-nodes", minimum_nodes), ("recommended-nodes", recommended_nodes)] {
        match val {
            Some(val) => table.val(name, val, |n| text::group_digits(*n)),
            None => {
                table.push(name, "none", minimum_nodes::why_not_applicable(plan));
            }
        }
    }
    let words: Vec<&str> = order.iter().map(|(axis, _)| axis.word()).collect();
    if words.len() > 1 {
        table.push(
            "order",
            words.join(", "),
            "the engine's rank order: consecutive ranks differ in the last axis first",
        );
    }
}

fn launcher(
    table: &mut OriginTable,
    engine: Option<Engine>,
    (launch, payload): (&Launch, &Payload),
    library: Option<&str>,
) {
    table.set_prefix("launcher");
    let Some(engine) = engine else { return };
    let is_added = launch.launcher == Launcher::Accelerate && payload.is_launched_by_script();
    let by = if is_added { ", started by trainc's launch script" } else { "" };
    table.push("", format!("{}{by}", launch.launcher.describe()), format!("engine `{}`", engine.name()));
    if let Some(generation) = engine.front.generation {
        let version = library.map(|version| format!(" ({version})")).unwrap_or_default();
        table.push(engine.name(), format!("{generation}{version}"), "the PyTorch version of the image");
    }
}

/// Adds the file that the engine reads, and the command that starts its ranks with it.
fn engine_file(table: &mut OriginTable, plan: &Plan) {
    let Some(path) = plan.engine_file() else { return };
    let why = match plan.file_of(FileReader::Engine) {
        Some(file) => format!("`parallel file=\"{}\"`", file.path),
        None => "written by trainc".to_owned(),
    };
    table.push("file", path, why);
    if let Some(command) = trainc_emit::launch_command(plan) {
        table.push(
            "command",
            command,
            "on each host with its `--machine_rank`; replaces the file's topology",
        );
    }
}

fn batch(table: &mut OriginTable, batch: &Batch) {
    let Batch {
        micro_batch_size,
        num_micro_batches,
        per_replica,
        accumulation,
        global_sequences,
        global_tokens,
    } = batch;
    table.set_prefix("batch");
    table.val("micro", micro_batch_size, |n| text::group_digits(*n));
    table.push(
        "microbatches",
        text::group_digits(*num_micro_batches),
        "of the pipeline; 1 without a pipeline",
    );
    table.push("per-replica", text::group_digits(*per_replica), "micro × microbatches");
    table.val("accumulation", accumulation, |n| text::group_digits(*n));
    table.val("global-sequences", global_sequences, |n| text::group_digits(*n));
    if let Some(tokens) = global_tokens {
        table.push("global-tokens", text::group_digits(*tokens), "global sequences × sequence length");
    }
}

fn worker(table: &mut OriginTable, worker: &Worker) {
    let Worker {
        model,
        optimizer,
        schedule,
        bf16,
        reduce_bf16,
        recompute,
        prefetch,
        reshard_after_forward,
        offload,
        document_mask,
        attention,
        self_check_ends_run,
        accept_changes,
        keep,
        seed,
        run: _,
        binary,
    } = worker;
    table.set_prefix("worker");
    let switch = |on: &bool| format!("#{on}");
    table.val("norm-eps", &model.norm_eps, |x| format!("{x}"));
    table.val("initializer-range", &model.initializer_range, |x| format!("{x}"));
    if let Some(rotary) = &model.rotary {
        table.val("rotary-fraction", &rotary.fraction, |x| format!("{x}"));
        match &rotary.scaling {
            Some(scaling) => {
                table.val("rope-scaling", scaling, |s| format!("{} by {}", s.kind.name(), s.factor));
            }
            None => table.push("rope-scaling", "none", "no position scaling"),
        }
    }
    table.val("bf16", bf16, switch);
    table.val("reduce-bf16", reduce_bf16, switch);
    table.val("recompute", recompute, switch);
    table.val("prefetch", prefetch, |n| text::group_digits(*n));
    table.val("reshard-after-forward", reshard_after_forward, switch);
    table.val("offload", offload, switch);
    table.val("document-mask", document_mask, switch);
    table.val("attention", attention, Clone::clone);
    table.val("self-check-ends-run", self_check_ends_run, switch);
    table.val("accept-changes", accept_changes, switch);
    table.val("lr", &optimizer.learning_rate, |x| format!("{x}"));
    table.val("betas", &optimizer.betas, |(first, second)| format!("{first}, {second}"));
    table.val("eps", &optimizer.eps, |x| format!("{x}"));
    table.val("weight-decay", &optimizer.weight_decay, |x| format!("{x}"));
    if let Some(clip) = &optimizer.clip_norm {
        table.val("clip", clip, |x| format!("{x}"));
    }
    table.val("schedule", &schedule.kind, Clone::clone);
    table.val("warmup-steps", &schedule.warmup_steps, |n| text::group_digits(*n));
    table.val("min-lr", &schedule.minimum_learning_rate, |x| format!("{x}"));
    table.val("keep", keep, |n| text::group_digits(*n));
    table.val("seed", seed, |n| text::group_digits(*n));
    table.push(
        "binary",
        binary.as_ref().map_or("?", SourceFile::sha256),
        "SHA-256 of `trainc-worker`: `--worker`, or the one in the directory of trainc",
    );
}

fn image(table: &mut OriginTable, image: &Image) {
    let Image { uri, family, pytorch, transformers, python, patch_window, toolkit, sdk_v2, origin } = image;
    let why = table.describe_origin(origin);
    table.set_prefix("container");
    table.push("uri", uri, &why);
    table.push("family", family, &why);
    for (name, value) in [("pytorch", pytorch), ("transformers", transformers), ("python", python)] {
        if let Some(value) = value {
            table.push(name, value, &why);
        }
    }
    if let Some((first, last)) = patch_window {
        table.push("patched", format!("{first} to {last}"), &why);
    }
    if !sdk_v2 {
        table.push(
            "sdk",
            "by path",
            "the SageMaker Python SDK v2 does not support these versions with this engine",
        );
    }
    if !toolkit {
        table.push(
            "toolkit",
            "#false",
            "the image has no training toolkit that reads `sagemaker_*` hyperparameters",
        );
    }
}

/// Returns the price of an instance of each part, with its name: of the job, of a group, of a further
/// preferred type.
fn instance_prices<'a>(job: &Job, fleet: &'a Fleet) -> Vec<(String, &'a Price)> {
    let groups = || job.cluster.iter().flat_map(|cluster| &cluster.groups);
    let group_name = |span| groups().find(|group| Some(group.span) == span)?.name.value();
    let own = fleet.first().into_iter().flat_map(|first| &first.parts).filter_map(|part| {
        let name = match part.group {
            Some(_) => format!("group {}.usd-per-hour", group_name(part.group)?),
            None => "usd-per-hour".to_owned(),
        };
        Some((name, part.price.as_ref()?))
    });
    let further = fleet.alternatives().into_iter().flat_map(|all| &all.further).flat_map(|one| &one.parts);
    let further = further
        .filter_map(|part| Some((format!("instance {}.usd-per-hour", part.instance), part.price.as_ref()?)));
    own.chain(further).collect()
}
