//! `role`, `debugger`, `profiler`, `tensorboard`, `experiment`.

use super::defaults as default;
use super::nodes::blame;
use super::pick::{boolean, milliseconds, pairs, text};
use trainc_ir::{Collection, Debugger, Experiment, Profiler, Role, RoleRead, Tensorboard, Val};
use trainc_syntax::ast::Node;

pub(super) fn role(node: &Node) -> Role {
    let create = boolean(node.prop("create"));
    let path = text(node.prop("path"));
    let path = if create.get() == Some(true) {
        path.or_default(default::ROLE_PATH.0.to_owned(), default::ROLE_PATH.1)
    } else {
        path
    };
    Role {
        span: blame(node),
        create,
        arn: text(node.prop("arn")),
        boundary: text(node.prop("boundary")),
        path,
        reads: node.children_named("read").map(|n| RoleRead { span: blame(n), s3: text(n.arg(0)) }).collect(),
    }
}

pub(super) fn debugger(node: &Node) -> Debugger {
    Debugger {
        span: blame(node),
        s3: text(node.prop("s3")),
        local: text(node.prop("local")),
        parameters: pairs(node.child("parameters")),
        collections: node
            .children_named("collection")
            .filter_map(|n| {
                Some(Collection {
                    name: Val::written(n.first_text()?.to_owned(), n.arg(0)?.span),
                    parameters: pairs([n]),
                })
            })
            .collect(),
    }
}

pub(super) fn profiler(node: &Node) -> Profiler {
    Profiler {
        span: blame(node),
        s3: text(node.prop("s3")),
        interval_milliseconds: milliseconds(node.prop("interval")),
        parameters: pairs(node.child("parameters")),
    }
}

pub(super) fn tensorboard(node: &Node) -> Tensorboard {
    Tensorboard { span: blame(node), s3: text(node.prop("s3")), local: text(node.prop("local")) }
}

pub(super) fn experiment(node: &Node) -> Experiment {
    Experiment {
        span: blame(node),
        name: text(node.prop("name")),
        trial: text(node.prop("trial")),
        component: text(node.prop("component")),
        run: text(node.prop("run")),
    }
}
