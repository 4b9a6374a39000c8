//! Origins of the job's values, node by node, defaults included.

use super::{OriginTable, places, raw, scalar};
use trainc_diag::text;
use trainc_ir::digest::python_float;
use trainc_ir::{
    Adapter, Cluster, CustomGpu, Dataset, EngineOption, InstanceGroup, Job, Model, Optimizer, Parallel,
    Placement, Quantize, RequestMember, Spot, Train, Vary, Warmup,
};

pub(super) fn job(table: &mut OriginTable, it: &Job) {
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
        buckets,
        role,
        debugger,
        profiler,
        tensorboard,
        experiment,
        remote_debug,
        health_check,
        session_chaining,
        probe,
        budget,
        request,
        sweep,
        allows,
        is_whole: _,
        overrides: _,
        needs_program: _,
        swept_from: _,
    } = it;
    table.set_prefix("");
    table.text("job", name);
    table.text("region", region);
    table.text("account", account);
    table.pairs("tags", tags);
    section(table, "model", model.as_ref(), self::model);
    section(table, "adapter", adapter.as_ref(), self::adapter);
    section(table, "quantize", quantize.as_ref(), self::quantize);
    section(table, "cluster", cluster.as_ref(), self::cluster);
    section(table, "parallel", parallel.as_ref(), self::parallel);
    section(table, "train", Some(train), self::train);
    section(table, "program", program.as_ref(), places::program);
    section(table, "image", image.as_ref(), places::image_request);
    section(table, "network", network.as_ref(), places::network);
    for it in storage {
        table.set_prefix(format_named("storage", it.name.value()));
        places::storage(table, it);
    }
    for it in channels {
        table.set_prefix(format_named("channel", it.name.value()));
        places::channel(table, it);
    }
    section(table, "checkpoint", checkpoint.as_ref(), places::checkpoint);
    section(table, "output", output.as_ref(), places::output);
    for it in buckets {
        table.set_prefix(format_named("bucket", it.name.value()));
        places::bucket(table, it);
    }
    section(table, "role", role.as_ref(), places::role);
    section(table, "debugger", debugger.as_ref(), places::debugger);
    section(table, "profiler", profiler.as_ref(), places::profiler);
    section(table, "tensorboard", tensorboard.as_ref(), places::tensorboard);
    section(table, "experiment", experiment.as_ref(), places::experiment);
    table.set_prefix("");
    table.switch("remote-debug", remote_debug);
    table.switch("health-check", health_check);
    table.switch("session-chaining", session_chaining);
    section(table, "probe", probe.as_ref(), places::probe);
    section(table, "budget", budget.as_ref(), places::budget);
    table.set_prefix("request");
    for RequestMember { name, span, value } in request {
        table.node(name, raw(value), *span);
    }
    table.set_prefix("sweep");
    for Vary { path, values } in sweep {
        let values: Vec<String> = values.iter().map(|val| scalar(&val.value)).collect();
        table.val(&path.value, path, |_| values.join(", "));
    }
    for it in allows {
        table.set_prefix("allow");
        places::allow(table, it);
    }
}

fn section<T>(table: &mut OriginTable, prefix: &str, it: Option<&T>, show: fn(&mut OriginTable, &T)) {
    if let Some(it) = it {
        table.set_prefix(prefix);
        show(table, it);
    }
}

fn format_named(word: &str, name: Option<&String>) -> String {
    name.map_or_else(|| word.to_owned(), |name| format!("{word} {name}"))
}

fn warmup_words(warmup: &Warmup) -> String {
    match warmup {
        Warmup::Fraction(fraction) => format!("{} of the steps", python_float(*fraction)),
        Warmup::Steps(steps) => text::count(*steps, "step"),
    }
}

fn model(table: &mut OriginTable, it: &Model) {
    let Model { span: _, name, config, dimensions, tied, parameters, unusable: _ } = it;
    table.text("name", name);
    table.text("config", config);
    for (name, val) in dimensions {
        table.val(name, val, |n| text::group_digits(*n));
    }
    table.switch("tied", tied);
    table.count("parameters", parameters);
}

fn adapter(table: &mut OriginTable, it: &Adapter) {
    let Adapter { span: _, kind, rank, alpha, dropout, targets } = it;
    table.text("kind", kind);
    table.count("rank", rank);
    table.number("alpha", alpha);
    table.number("dropout", dropout);
    table.names("targets", targets);
}

fn quantize(table: &mut OriginTable, it: &Quantize) {
    let Quantize { span: _, kind, double, compute } = it;
    table.text("kind", kind);
    table.switch("double", double);
    table.text("compute", compute);
}

fn cluster(table: &mut OriginTable, it: &Cluster) {
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
        placement,
        groups,
        gpu,
        intra_bytes_per_second,
        inter_bytes_per_second,
        ranks,
        node_mtbf_seconds,
    } = it;
    table.text("instance", instance);
    table.count("nodes", nodes);
    table.bytes("volume", volume_bytes);
    table.text("volume-kms", volume_kms);
    table.seconds("max-run", max_run_seconds);
    table.seconds("max-pending", max_pending_seconds);
    if let Some(it) = spot {
        table.set_prefix("cluster.spot");
        self::spot(table, it);
    }
    table.seconds("warm-pool", warm_pool_seconds);
    table.count("retry", retry);
    table.text("training-plan", training_plan);
    if let Some(Placement { span: _, multiple_jobs, ultra_servers }) = placement {
        table.set_prefix("cluster.placement");
        table.switch("multiple-jobs", multiple_jobs);
        for (id, instances) in ultra_servers {
            table.count(&format!("ultra-server {}", id.value), instances);
        }
    }
    for it in groups {
        table.set_prefix(format_named("cluster.group", it.name.value()));
        instance_group(table, it);
    }
    if let Some(it) = gpu {
        table.set_prefix("cluster.gpu");
        custom_gpu(table, it);
    }
    table.set_prefix("cluster");
    table.field("intra", intra_bytes_per_second, |n| format!("{} GB/s", text::short_number(*n as f64 / 1e9)));
    table.field("inter", inter_bytes_per_second, |n| format!("{} GB/s", text::short_number(*n as f64 / 1e9)));
    table.count("ranks", ranks);
    table.seconds("node-mtbf", node_mtbf_seconds);
}

fn spot(table: &mut OriginTable, it: &Spot) {
    let Spot { span: _, max_wait_seconds, interruptions_per_hour } = it;
    table.seconds("max-wait", max_wait_seconds);
    table.number("interruptions-per-hour", interruptions_per_hour);
}

fn instance_group(table: &mut OriginTable, it: &InstanceGroup) {
    let InstanceGroup { span: _, name, instance, nodes } = it;
    table.text("name", name);
    table.text("instance", instance);
    table.count("nodes", nodes);
}

fn custom_gpu(table: &mut OriginTable, it: &CustomGpu) {
    let CustomGpu { span: _, name, per_node } = it;
    table.text("name", name);
    table.count("per-node", per_node);
}

fn parallel(table: &mut OriginTable, it: &Parallel) {
    let Parallel {
        span: _,
        engine,
        launcher,
        group,
        strategy,
        shard_degree,
        tensor_degree,
        pipeline_degree,
        schedule,
        num_micro_batches,
        num_active_micro_batches,
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
    table.text("group", group);
    table.text("strategy", strategy);
    table.count("shard-degree", shard_degree);
    table.count("tensor-degree", tensor_degree);
    table.count("pipeline-degree", pipeline_degree);
    table.text("schedule", schedule);
    table.count("microbatches", num_micro_batches);
    table.count("active-microbatches", num_active_micro_batches);
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

fn engine_option(table: &mut OriginTable, it: &EngineOption) {
    let EngineOption { name, span: _, value } = it;
    table.field(name, value, scalar);
}

fn train(table: &mut OriginTable, it: &Train) {
    let Train {
        span: _,
        precision,
        recipe,
        sequence_length,
        micro_batch_size,
        accumulation,
        global_batch,
        activation_checkpointing,
        flash_attention,
        compile,
        attention,
        loss,
        optimizer,
        steps,
        tokens,
        epochs,
        dataset,
        seed,
    } = it;
    table.text("precision", precision);
    table.text("precision.recipe", recipe);
    table.count("sequence-length", sequence_length);
    table.count("micro-batch", micro_batch_size);
    table.count("accumulation", accumulation);
    table.count("global-batch", global_batch);
    table.field("activation-checkpointing", activation_checkpointing, |r| r.word().to_owned());
    table.switch("flash-attention", flash_attention);
    table.switch("compile", compile);
    table.text("attention", attention);
    table.text("loss", loss);
    if let Some(it) = optimizer {
        table.set_prefix("train.optimizer");
        self::optimizer(table, it);
        table.set_prefix("train");
    }
    table.count("steps", steps);
    table.count("tokens", tokens);
    table.number("epochs", epochs);
    if let Some(it) = dataset {
        table.set_prefix("train.dataset");
        self::dataset(table, it);
        table.set_prefix("train");
    }
    table.field("seed", seed, u64::to_string);
}

fn optimizer(table: &mut OriginTable, it: &Optimizer) {
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

fn dataset(table: &mut OriginTable, it: &Dataset) {
    let Dataset { span: _, sequences, tokens, size_bytes } = it;
    table.count("sequences", sequences);
    table.count("tokens", tokens);
    table.count("size-bytes", size_bytes);
}
