//! Reads `storage`, `channel`, `checkpoint` and `output`.

use super::defaults as default;
use super::fields::{boolean, bytes, comma_list, integer, switch_or_true, text};
use super::job::checkpoint_interval;
use trainc_ir::{Channel, Checkpoint, Output, Storage, StorageLink};
use trainc_syntax::ast::Node;

pub(super) fn read(node: &Node) -> Storage {
    let link = |n: &Node| StorageLink { span: n.name.span, s3: text(n.arg(0)), path: text(n.prop("path")) };
    Storage {
        span: node.name.span,
        kind: text(node.arg(0)),
        name: text(node.prop("name")),
        id: text(node.prop("id")),
        mount: text(node.prop("mount")),
        capacity_bytes: bytes(node.prop("capacity")),
        deployment: text(node.prop("deployment")),
        throughput_mb_s_tib: integer(node.prop("throughput")),
        storage_type: text(node.prop("type")),
        compression: text(node.prop("compression")),
        drive_cache: text(node.prop("drive-cache")),
        kms: text(node.prop("kms")),
        metadata_iops: integer(node.prop("metadata-iops")),
        maintenance: text(node.prop("maintenance")),
        version: text(node.prop("version")),
        imports: node.children_named("import").map(link).collect(),
        exports: node.children_named("export").map(link).collect(),
        delete_after_job: switch_or_true(node.child("delete-after-job")),
        efa: switch_or_true(node.child("efa")),
    }
}

pub(super) fn channel(node: &Node) -> Channel {
    let from = text(node.prop("from"));
    let mode = text(node.prop("mode"));
    let mode = if from.is_absent() {
        mode
    } else {
        mode.or_default(default::CHANNEL_MODE.0.to_owned(), default::CHANNEL_MODE.1)
    };
    Channel {
        span: node.name.span,
        name: text(node.arg(0)),
        s3: text(node.prop("s3")),
        manifest: text(node.prop("manifest")),
        augmented_manifest: text(node.prop("augmented-manifest")),
        converse: text(node.prop("converse")),
        dataset: text(node.prop("dataset")),
        attributes: comma_list(node.prop("attributes")),
        from,
        path: text(node.prop("path")),
        mode,
        input: text(node.prop("input")),
        shard: text(node.prop("shard")),
        compression: text(node.prop("compression")),
        record_wrapper: text(node.prop("record-wrapper")),
        content_type: text(node.prop("content-type")),
        shuffle_seed: integer(node.prop("shuffle-seed")),
        groups: comma_list(node.prop("groups")),
        hub: text(node.prop("hub")),
        accept_eula: boolean(node.prop("accept-eula")),
        kms: text(node.prop("kms")),
    }
}

pub(super) fn checkpoint(node: &Node) -> Checkpoint {
    Checkpoint {
        span: node.name.span,
        s3: text(node.prop("s3")),
        local: text(node.prop("local")),
        every: checkpoint_interval(node.prop("every")),
        keep: integer(node.prop("keep")),
        kms: text(node.prop("kms")),
    }
}

pub(super) fn output(node: &Node) -> Output {
    Output {
        span: node.name.span,
        s3: text(node.prop("s3")),
        kms: text(node.prop("kms")),
        compress: boolean(node.prop("compress")),
    }
}
