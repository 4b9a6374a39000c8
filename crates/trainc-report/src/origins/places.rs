//! Origins of the values around the training: program, image, network, storage, output, role.

use super::{OriginTable, scalar};
use trainc_diag::text;
use trainc_ir::{
    Allow, Bucket, Budget, Channel, Checkpoint, CheckpointInterval, Collection, Debugger, Experiment,
    Hyperparameter, ImageRequest, Metric, MonitoringRule, Network, Output, Probe, Profiler, Program, Role,
    RoleRead, Secret, Storage, StorageLink, Tensorboard,
};

pub(super) fn program(table: &mut OriginTable, it: &Program) {
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
        code,
        log_level,
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
    table.text("code", code);
    table.text("log-level", log_level);
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

fn hyperparameter(table: &mut OriginTable, it: &Hyperparameter) {
    let Hyperparameter { name, name_span: _, value } = it;
    table.field(&format!("hyperparameter {name}"), value, scalar);
}

fn secret(table: &mut OriginTable, it: &Secret) {
    let Secret { name, name_span: _, from } = it;
    table.text(&format!("secret {name}"), from);
}

fn metric(table: &mut OriginTable, it: &Metric) {
    let Metric { name, name_span: _, regex } = it;
    table.text(&format!("metric {name}"), regex);
}

pub(super) fn image_request(table: &mut OriginTable, it: &ImageRequest) {
    let ImageRequest { span: _, family, version, transformers, pytorch, python, uri } = it;
    table.text("family", family);
    table.text("version", version);
    table.text("transformers", transformers);
    table.text("pytorch", pytorch);
    table.text("python", python);
    table.text("uri", uri);
}

pub(super) fn network(table: &mut OriginTable, it: &Network) {
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

pub(super) fn storage(table: &mut OriginTable, it: &Storage) {
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
            table.set_prefix(format!("{prefix} {word}"));
            storage_link(table, it);
        }
    }
    table.set_prefix(prefix);
    table.switch("delete-after-job", delete_after_job);
    table.switch("efa", efa);
}

fn storage_link(table: &mut OriginTable, it: &StorageLink) {
    let StorageLink { span: _, s3, path } = it;
    table.text("s3", s3);
    table.text("path", path);
}

pub(super) fn channel(table: &mut OriginTable, it: &Channel) {
    let Channel {
        span: _,
        name,
        s3,
        manifest,
        augmented_manifest,
        converse,
        dataset,
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
        hub,
        accept_eula,
        kms,
    } = it;
    table.text("name", name);
    table.text("s3", s3);
    table.text("manifest", manifest);
    table.text("augmented-manifest", augmented_manifest);
    table.text("converse", converse);
    table.text("dataset", dataset);
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
    table.text("hub", hub);
    table.switch("accept-eula", accept_eula);
    table.text("kms", kms);
}

pub(super) fn checkpoint(table: &mut OriginTable, it: &Checkpoint) {
    let Checkpoint { span: _, s3, local, every, keep, kms } = it;
    table.text("s3", s3);
    table.text("local", local);
    table.field("every", every, format_checkpoint_interval);
    table.count("keep", keep);
    table.text("kms", kms);
}

pub(super) fn output(table: &mut OriginTable, it: &Output) {
    let Output { span: _, s3, kms, compress } = it;
    table.text("s3", s3);
    table.text("kms", kms);
    table.switch("compress", compress);
}

pub(super) fn bucket(table: &mut OriginTable, it: &Bucket) {
    let Bucket { span: _, name: _, owner } = it;
    table.text("owner", owner);
}

pub(super) fn role(table: &mut OriginTable, it: &Role) {
    let Role { span: _, create, arn, boundary, path, reads } = it;
    table.switch("create", create);
    table.text("arn", arn);
    table.text("boundary", boundary);
    table.text("path", path);
    for RoleRead { span: _, s3 } in reads {
        table.text("read", s3);
    }
}

pub(super) fn debugger(table: &mut OriginTable, it: &Debugger) {
    let Debugger { span: _, s3, local, parameters, collections, rules } = it;
    table.text("s3", s3);
    table.text("local", local);
    table.pairs("parameters", parameters);
    for it in collections {
        collection(table, it);
    }
    for it in rules {
        monitoring_rule(table, it);
    }
}

fn monitoring_rule(table: &mut OriginTable, it: &MonitoringRule) {
    let MonitoringRule { name, span: _, parameters } = it;
    table.val("rule", name, Clone::clone);
    table.pairs("parameters", parameters);
}

fn collection(table: &mut OriginTable, it: &Collection) {
    let Collection { name, parameters } = it;
    table.val("collection", name, Clone::clone);
    table.pairs("parameters", parameters);
}

pub(super) fn profiler(table: &mut OriginTable, it: &Profiler) {
    let Profiler { span: _, s3, interval_milliseconds, parameters, rules } = it;
    table.text("s3", s3);
    table.field("interval", interval_milliseconds, |n| format!("{n} ms"));
    table.pairs("parameters", parameters);
    for it in rules {
        monitoring_rule(table, it);
    }
}

pub(super) fn tensorboard(table: &mut OriginTable, it: &Tensorboard) {
    let Tensorboard { span: _, s3, local } = it;
    table.text("s3", s3);
    table.text("local", local);
}

pub(super) fn experiment(table: &mut OriginTable, it: &Experiment) {
    let Experiment { span: _, name, trial, component, run } = it;
    table.text("name", name);
    table.text("trial", trial);
    table.text("component", component);
    table.text("run", run);
}

pub(super) fn budget(table: &mut OriginTable, it: &Budget) {
    let Budget { span: _, usd, hard, enforce, slowest, steps } = it;
    table.number("usd", usd);
    table.switch("hard", hard);
    table.switch("enforce", enforce);
    table.number("slowest", slowest);
    table.count("steps", steps);
}

pub(super) fn probe(table: &mut OriginTable, it: &Probe) {
    let Probe { span: _, minimum } = it;
    table.number("minimum", minimum);
}

pub(super) fn allow(table: &mut OriginTable, it: &Allow) {
    let Allow { span: _, scopes: _, code, reason, until } = it;
    table.text("code", code);
    table.text("reason", reason);
    table.text("until", until);
}

fn format_checkpoint_interval(every: &CheckpointInterval) -> String {
    match every {
        CheckpointInterval::Steps(steps) => text::count(*steps, "step"),
        CheckpointInterval::Seconds(seconds) => text::duration(*seconds),
        CheckpointInterval::Optimal => "optimal".to_owned(),
    }
}
