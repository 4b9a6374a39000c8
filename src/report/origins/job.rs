//! What the manifest says, node by node, with the defaults of its nodes.

use super::{Table, raw, scalar};
use crate::ir::digest::python_float;
use crate::ir::{
    Adapter, Allow, Budget, Channel, Checkpoint, Cluster, Collection, CustomGpu, Dataset, Debugger, EngineOption, Every, Experiment,
    Hyperparameter, ImageAsk, InstanceGroup, Job, Metric, Model, Network, Optimizer, Output, Parallel, Profiler, Program, Quantize,
    RequestMember, Role, Secret, Spot, Storage, StorageLink, Tensorboard, Train, Vary, Warmup,
};
use crate::text;

pub(super) fn job(table: &mut Table, it: &Job) {
    let Job {
        name,
        span: _,
        region,
        account,
        tags,
        model,
        adapter,
        quantize,
        cluster,
        parallel,
        train,
        program,
        image,
        network,
        storage,
        channels,
        checkpoint,
        output,
        role,
        debugger,
        profiler,
        tensorboard,
        experiment,
        remote_debug,
        health_check,
        session_chaining,
        budget,
        request,
        sweep,
        allows,
        overrides: _,
    } = it;
    table.below("");
    table.text("job", name);
    table.text("region", region);
    table.text("account", account);
    table.pairs("tags", tags);
    below(table, "model", model.as_ref(), self::model);
    below(table, "adapter", adapter.as_ref(), self::adapter);
    below(table, "quantize", quantize.as_ref(), self::quantize);
    below(table, "cluster", cluster.as_ref(), self::cluster);
    below(table, "parallel", parallel.as_ref(), self::parallel);
    below(table, "train", Some(train), self::train);
    below(table, "program", program.as_ref(), self::program);
    below(table, "image", image.as_ref(), image_ask);
    below(table, "network", network.as_ref(), self::network);
    for it in storage {
        table.below(named("storage", it.name.value()));
        self::storage(table, it);
    }
    for it in channels {
        table.below(named("channel", it.name.value()));
        channel(table, it);
    }
    below(table, "checkpoint", checkpoint.as_ref(), self::checkpoint);
    below(table, "output", output.as_ref(), self::output);
    below(table, "role", role.as_ref(), self::role);
    below(table, "debugger", debugger.as_ref(), self::debugger);
    below(table, "profiler", profiler.as_ref(), self::profiler);
    below(table, "tensorboard", tensorboard.as_ref(), self::tensorboard);
    below(table, "experiment", experiment.as_ref(), self::experiment);
    table.below("");
    table.switch("remote-debug", remote_debug);
    table.switch("health-check", health_check);
    table.switch("session-chaining", session_chaining);
    below(table, "budget", budget.as_ref(), self::budget);
    table.below("request");
    for RequestMember { name, span, value } in request {
        table.node(name, raw(value), *span);
    }
    table.below("sweep");
    for Vary { path, values } in sweep {
        let values: Vec<String> = values.iter().map(|val| scalar(&val.value)).collect();
        table.val(&path.value, path, |_| values.join(", "));
    }
    for it in allows {
        table.below("allow");
        allow(table, it);
    }
}

fn below<T>(table: &mut Table, prefix: &str, it: Option<&T>, show: fn(&mut Table, &T)) {
    if let Some(it) = it {
        table.below(prefix);
        show(table, it);
    }
}

fn named(word: &str, name: Option<&String>) -> String {
    name.map_or_else(|| word.to_owned(), |name| format!("{word} {name}"))
}

fn every_words(every: &Every) -> String {
    match every {
        Every::Steps(steps) => text::count(*steps, "step"),
        Every::Seconds(seconds) => text::duration(*seconds),
        Every::Optimal => "optimal".to_owned(),
    }
}

fn warmup_words(warmup: &Warmup) -> String {
    match warmup {
        Warmup::Fraction(fraction) => format!("{} of the steps", python_float(*fraction)),
        Warmup::Steps(steps) => text::count(*steps, "step"),
    }
}

fn model(table: &mut Table, it: &Model) {
    let Model { span: _, name, config, dimensions, tied, parameters, unusable: _ } = it;
    table.text("name", name);
    table.text("config", config);
    for (name, val) in dimensions {
        table.val(name, val, |n| text::group(*n));
    }
    table.switch("tied", tied);
    table.count("parameters", parameters);
}

fn adapter(table: &mut Table, it: &Adapter) {
    let Adapter { span: _, kind, rank, alpha, dropout, targets } = it;
    table.text("kind", kind);
    table.count("rank", rank);
    table.number("alpha", alpha);
    table.number("dropout", dropout);
    table.names("targets", targets);
}

fn quantize(table: &mut Table, it: &Quantize) {
    let Quantize { span: _, kind, double, compute } = it;
    table.text("kind", kind);
    table.switch("double", double);
    table.text("compute", compute);
}

fn cluster(table: &mut Table, it: &Cluster) {
    let Cluster {
        span: _,
        instance,
        nodes,
        volume_bytes,
        volume_kms,
        max_run_seconds,
        max_pending_seconds,
        spot,
        warm_pool_seconds,
        retry,
        training_plan,
        groups,
        gpu,
        intra_bytes_per_second,
        inter_bytes_per_second,
        node_mtbf_seconds,
    } = it;
    table.text("instance", instance);
    table.count("nodes", nodes);
    table.bytes("volume", volume_bytes);
    table.text("volume-kms", volume_kms);
    table.seconds("max-run", max_run_seconds);
    table.seconds("max-pending", max_pending_seconds);
    if let Some(it) = spot {
        table.below("cluster.spot");
        self::spot(table, it);
    }
    table.seconds("warm-pool", warm_pool_seconds);
    table.count("retry", retry);
    table.text("training-plan", training_plan);
    for it in groups {
        table.below(named("cluster.group", it.name.value()));
        instance_group(table, it);
    }
    if let Some(it) = gpu {
        table.below("cluster.gpu");
        custom_gpu(table, it);
    }
    table.below("cluster");
    table.field("intra", intra_bytes_per_second, |n| format!("{} GB/s", text::short(*n as f64 / 1e9)));
    table.field("inter", inter_bytes_per_second, |n| format!("{} GB/s", text::short(*n as f64 / 1e9)));
    table.seconds("node-mtbf", node_mtbf_seconds);
}

fn spot(table: &mut Table, it: &Spot) {
    let Spot { span: _, max_wait_seconds, interruptions_per_hour } = it;
    table.seconds("max-wait", max_wait_seconds);
    table.number("interruptions-per-hour", interruptions_per_hour);
}

fn instance_group(table: &mut Table, it: &InstanceGroup) {
    let InstanceGroup { span: _, name, instance, nodes } = it;
    table.text("name", name);
    table.text("instance", instance);
    table.count("nodes", nodes);
}

fn custom_gpu(table: &mut Table, it: &CustomGpu) {
    let CustomGpu { span: _, name, per_node } = it;
    table.text("name", name);
    table.count("per-node", per_node);
}

fn parallel(table: &mut Table, it: &Parallel) {
    let Parallel {
        span: _,
        engine,
        launcher,
        strategy,
        shard_degree,
        tensor_degree,
        pipeline_degree,
        schedule,
        microbatches,
        active_microbatches,
        context_degree,
        expert_degree,
        placement,
        offload_activations,
        offload_horizon,
        wrap,
        prescaled_batch,
        shard_optimizer_state,
        processes,
        options,
        mpi_env,
        mpi_options,
    } = it;
    table.field("engine", engine, |e| e.name().to_owned());
    table.text("launcher", launcher);
    table.text("strategy", strategy);
    table.count("shard-degree", shard_degree);
    table.count("tensor-degree", tensor_degree);
    table.count("pipeline-degree", pipeline_degree);
    table.text("schedule", schedule);
    table.count("microbatches", microbatches);
    table.count("active-microbatches", active_microbatches);
    table.count("context-degree", context_degree);
    table.count("expert-degree", expert_degree);
    table.text("placement", placement);
    table.switch("offload-activations", offload_activations);
    table.count("offload-horizon", offload_horizon);
    table.text("wrap", wrap);
    table.switch("prescaled-batch", prescaled_batch);
    table.switch("shard-optimizer-state", shard_optimizer_state);
    table.count("processes", processes);
    for it in options {
        engine_option(table, it);
    }
    table.pairs("mpi-env", mpi_env);
    table.text("mpi-options", mpi_options);
}

fn engine_option(table: &mut Table, it: &EngineOption) {
    let EngineOption { name, span: _, value } = it;
    table.field(name, value, scalar);
}

fn train(table: &mut Table, it: &Train) {
    let Train {
        span: _,
        precision,
        sequence_length,
        micro_batch,
        accumulation,
        global_batch,
        activation_checkpointing,
        flash_attention,
        optimizer,
        steps,
        tokens,
        epochs,
        dataset,
        seed,
    } = it;
    table.text("precision", precision);
    table.count("sequence-length", sequence_length);
    table.count("micro-batch", micro_batch);
    table.count("accumulation", accumulation);
    table.count("global-batch", global_batch);
    table.field("activation-checkpointing", activation_checkpointing, |r| r.word().to_owned());
    table.switch("flash-attention", flash_attention);
    if let Some(it) = optimizer {
        table.below("train.optimizer");
        self::optimizer(table, it);
        table.below("train");
    }
    table.count("steps", steps);
    table.count("tokens", tokens);
    table.number("epochs", epochs);
    if let Some(it) = dataset {
        table.below("train.dataset");
        self::dataset(table, it);
        table.below("train");
    }
    table.field("seed", seed, u64::to_string);
}

fn optimizer(table: &mut Table, it: &Optimizer) {
    let Optimizer { span: _, name, lr, betas, eps, weight_decay, clip, warmup, schedule, min_lr } = it;
    table.text("name", name);
    table.number("lr", lr);
    table.field("betas", betas, |(a, b)| format!("{}, {}", python_float(*a), python_float(*b)));
    table.number("eps", eps);
    table.number("weight-decay", weight_decay);
    table.number("clip", clip);
    table.field("warmup", warmup, warmup_words);
    table.text("schedule", schedule);
    table.number("min-lr", min_lr);
}

fn dataset(table: &mut Table, it: &Dataset) {
    let Dataset { span: _, sequences, tokens } = it;
    table.count("sequences", sequences);
    table.count("tokens", tokens);
}

fn program(table: &mut Table, it: &Program) {
    let Program {
        span: _,
        entry,
        source,
        git,
        branch,
        commit,
        dir,
        s3,
        upload,
        hyperparameters,
        environment,
        secrets,
        metrics,
        dependencies,
        entrypoint,
        arguments,
    } = it;
    table.text("entry", entry);
    table.text("source", source);
    table.text("git", git);
    table.text("branch", branch);
    table.text("commit", commit);
    table.text("dir", dir);
    table.text("s3", s3);
    table.text("upload", upload);
    for it in hyperparameters {
        hyperparameter(table, it);
    }
    table.pairs("environment", environment);
    for it in secrets {
        secret(table, it);
    }
    for it in metrics {
        metric(table, it);
    }
    table.texts("dependencies", dependencies);
    table.texts("entrypoint", entrypoint);
    table.texts("arguments", arguments);
}

fn hyperparameter(table: &mut Table, it: &Hyperparameter) {
    let Hyperparameter { name, name_span: _, value } = it;
    table.field(&format!("hyperparameter {name}"), value, scalar);
}

fn secret(table: &mut Table, it: &Secret) {
    let Secret { name, name_span: _, from } = it;
    table.text(&format!("secret {name}"), from);
}

fn metric(table: &mut Table, it: &Metric) {
    let Metric { name, name_span: _, regex } = it;
    table.text(&format!("metric {name}"), regex);
}

fn image_ask(table: &mut Table, it: &ImageAsk) {
    let ImageAsk { span: _, family, version, transformers, pytorch, python, uri } = it;
    table.text("family", family);
    table.text("version", version);
    table.text("transformers", transformers);
    table.text("pytorch", pytorch);
    table.text("python", python);
    table.text("uri", uri);
}

fn network(table: &mut Table, it: &Network) {
    let Network {
        span: _,
        subnets,
        security_groups,
        subnets_span: _,
        security_groups_span: _,
        isolation,
        encrypt_traffic,
    } = it;
    table.texts("subnets", subnets);
    table.texts("security-groups", security_groups);
    table.switch("isolation", isolation);
    table.switch("encrypt-traffic", encrypt_traffic);
}

fn storage(table: &mut Table, it: &Storage) {
    let Storage {
        span: _,
        kind,
        name,
        id,
        mount,
        capacity_bytes,
        deployment,
        throughput_mb_s_tib,
        storage_type,
        compression,
        drive_cache,
        kms,
        metadata_iops,
        maintenance,
        version,
        imports,
        exports,
        delete_after_job,
        efa,
    } = it;
    table.text("kind", kind);
    table.text("name", name);
    table.text("id", id);
    table.text("mount", mount);
    table.bytes("capacity", capacity_bytes);
    table.text("deployment", deployment);
    table.count("throughput-mb-s-tib", throughput_mb_s_tib);
    table.text("storage-type", storage_type);
    table.text("compression", compression);
    table.text("drive-cache", drive_cache);
    table.text("kms", kms);
    table.count("metadata-iops", metadata_iops);
    table.text("maintenance", maintenance);
    table.text("version", version);
    let prefix = table.prefix.clone();
    for (word, links) in [("import", imports), ("export", exports)] {
        for it in links {
            table.below(format!("{prefix} {word}"));
            storage_link(table, it);
        }
    }
    table.below(prefix);
    table.switch("delete-after-job", delete_after_job);
    table.switch("efa", efa);
}

fn storage_link(table: &mut Table, it: &StorageLink) {
    let StorageLink { span: _, s3, path } = it;
    table.text("s3", s3);
    table.text("path", path);
}

fn channel(table: &mut Table, it: &Channel) {
    let Channel {
        span: _,
        name,
        s3,
        manifest,
        augmented_manifest,
        attributes,
        from,
        path,
        mode,
        input,
        shard,
        compression,
        record_wrapper,
        content_type,
        shuffle_seed,
        groups,
    } = it;
    table.text("name", name);
    table.text("s3", s3);
    table.text("manifest", manifest);
    table.text("augmented-manifest", augmented_manifest);
    table.names("attributes", attributes);
    table.text("from", from);
    table.text("path", path);
    table.text("mode", mode);
    table.text("input", input);
    table.text("shard", shard);
    table.text("compression", compression);
    table.text("record-wrapper", record_wrapper);
    table.text("content-type", content_type);
    table.count("shuffle-seed", shuffle_seed);
    table.names("groups", groups);
}

fn checkpoint(table: &mut Table, it: &Checkpoint) {
    let Checkpoint { span: _, s3, local, every, keep } = it;
    table.text("s3", s3);
    table.text("local", local);
    table.field("every", every, every_words);
    table.count("keep", keep);
}

fn output(table: &mut Table, it: &Output) {
    let Output { span: _, s3, kms, compress } = it;
    table.text("s3", s3);
    table.text("kms", kms);
    table.switch("compress", compress);
}

fn role(table: &mut Table, it: &Role) {
    let Role { span: _, create, arn, boundary, path } = it;
    table.switch("create", create);
    table.text("arn", arn);
    table.text("boundary", boundary);
    table.text("path", path);
}

fn debugger(table: &mut Table, it: &Debugger) {
    let Debugger { span: _, s3, local, parameters, collections } = it;
    table.text("s3", s3);
    table.text("local", local);
    table.pairs("parameters", parameters);
    for it in collections {
        collection(table, it);
    }
}

fn collection(table: &mut Table, it: &Collection) {
    let Collection { name, parameters } = it;
    table.val("collection", name, Clone::clone);
    table.pairs("parameters", parameters);
}

fn profiler(table: &mut Table, it: &Profiler) {
    let Profiler { span: _, s3, interval_milliseconds, parameters } = it;
    table.text("s3", s3);
    table.field("interval", interval_milliseconds, |n| format!("{n} ms"));
    table.pairs("parameters", parameters);
}

fn tensorboard(table: &mut Table, it: &Tensorboard) {
    let Tensorboard { span: _, s3, local } = it;
    table.text("s3", s3);
    table.text("local", local);
}

fn experiment(table: &mut Table, it: &Experiment) {
    let Experiment { span: _, name, trial, component, run } = it;
    table.text("name", name);
    table.text("trial", trial);
    table.text("component", component);
    table.text("run", run);
}

fn budget(table: &mut Table, it: &Budget) {
    let Budget { span: _, usd, hard } = it;
    table.number("usd", usd);
    table.switch("hard", hard);
}

fn allow(table: &mut Table, it: &Allow) {
    let Allow { span: _, scopes: _, code, reason, until } = it;
    table.text("code", code);
    table.text("reason", reason);
    table.text("until", until);
}
