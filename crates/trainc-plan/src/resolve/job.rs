//! Reads the nodes of a job into [`trainc_ir::Job`].

use super::missing_node::missing_node;
use super::{betas, parallel};
use std::mem;
use trainc_catalog::arn::{self, Arn};
use trainc_diag::declare_code;
use trainc_diag::source::SourceId;
use trainc_diag::{Code, Problems};
use trainc_ir::job::SERVERLESS;
use trainc_ir::{Address, Allow, Field, Job, Origin, Role, Val};
use trainc_language::NodeType;
use trainc_syntax::ast::Node;

declare_code!(T0220, "missing-node", Error, "a job is missing a required node");
declare_code!(
    T0222,
    "unsupported-engine-option",
    Error,
    "a parameter that the engine does not support",
    ends: Speed
);
declare_code!(T0223, "unknown-engine", Error, "an engine that does not exist", ends: Speed);

/// The codes of this file and of `parallel.rs`.
pub(super) static CODES: &[&Code] = &[&T0220, &T0222, &T0223];

/// Reads the whole job. `of_files` are the sources of its nodes that are files of other programs.
pub(super) fn job(node: &Node, of_files: &[SourceId], problems: &mut Problems) -> Job {
    let span = node.name.span;
    parallel::check(node, of_files, problems);
    betas::check(node, problems);
    // SageMaker chooses instances, container and code of a serverless job from its model and technique.
    let serverless = node
        .child("request")
        .is_some_and(|raw| raw.children.iter().any(|member| member.name.value == SERVERLESS));
    // A built-in or marketplace algorithm has its own container and program.
    let algorithm = node.child("request").is_some_and(|raw| {
        let inside = raw.children.iter().filter(|one| one.name.value == "AlgorithmSpecification");
        inside.flat_map(|one| &one.children).any(|one| one.name.value == "AlgorithmName")
    });
    let is_off_account = matches!(cluster_kind(node), Some("custom" | "local"));
    let is_given = serverless || algorithm || is_off_account;
    let needs_program = !is_given && node.child("parallel").is_none_or(parallel::needs_program);
    let name = node.first_text().unwrap_or("").to_owned();
    let mut missing = |what: &str, example: &str| {
        problems.push(missing_node(span, node.removed(what), &name, what, example));
    };
    // A program that is not distributed uses one GPU.
    let machine = match node.child("parallel") {
        Some(_) => "cluster \"ml.p4d.24xlarge\" nodes=1",
        None => "cluster \"ml.g5.2xlarge\" nodes=1",
    };
    for (what, example) in [
        ("region", "region \"us-west-2\""),
        ("cluster", machine),
        ("output", "output s3=\"s3://bucket/prefix/\""),
        ("role", "role create=#true"),
    ] {
        if !node.children.iter().any(|child| child.name.value == what) {
            let local = is_off_account && matches!(what, "region" | "output" | "role");
            let chosen = serverless && what == "cluster";
            if !local && !chosen {
                missing(what, example);
            }
        }
    }
    // `plan` reports what depends on the catalogue: `parallel`, `train`, `program` and `image`.
    let mut job = Job::read(node).unwrap_or_default();
    job.needs_program = needs_program;
    if job.region.is_absent() && !is_off_account {
        // Reported above.
        job.region = Field::Bad;
    }
    job.allows = Vec::new();
    collect_allows(node, &mut job.allows);
    set_defaults(&mut job);
    job
}

/// Sets the defaults that depend on other values.
fn set_defaults(job: &mut Job) {
    let code = trainc_engine::of_job(job).and_then(|engine| engine.front.code);
    if let (Some(code), Some(program)) = (code, &mut job.program)
        && program.code.val().is_some_and(|val| matches!(val.origin, Origin::Default(_)))
    {
        program.code = Field::Is(Val::default(code.to_owned(), "the program of the engine"));
    }
    if let Some(cluster) = job.cluster.as_mut().filter(|cluster| cluster.groups.is_empty()) {
        cluster.nodes = mem::take(&mut cluster.nodes).or_default(1, "one instance");
    }
    for channel in job.channels.iter_mut().filter(|channel| !channel.from.is_absent()) {
        channel.mode =
            mem::take(&mut channel.mode).or_default("ro".to_owned(), "channels are read-only by default");
    }
    if let Some(role) = job.role.as_mut().filter(|role| role.create.get() == Some(true)) {
        role.path = mem::take(&mut role.path)
            .or_default(arn::ROLE_PATH.to_owned(), "IAM path of roles that trainc creates");
    }
}

fn cluster_kind(node: &Node) -> Option<&str> {
    node.child("cluster").and_then(Node::first_text)
}

fn collect_allows(node: &Node, out: &mut Vec<Allow>) {
    for child in &node.children {
        if child.name.value == "allow" && child.spec.is_some() {
            out.extend(Allow::read(child).map(|allow| Allow {
                scopes: std::iter::once(node.span).chain(node.also.iter().copied()).collect(),
                ..allow
            }));
        }
        collect_allows(child, out);
    }
}

/// Sets the permissions boundary of a created role where the manifest has none, and the default path for its
/// boundary.
pub(super) fn apply_boundary(role: &mut Role, boundary: Option<&str>) {
    if role.create.get() != Some(true) {
        return;
    }
    if let Some(boundary) = boundary {
        role.boundary =
            mem::take(&mut role.boundary).or_default(Address::new(boundary), "TRAINC_ROLE_BOUNDARY");
    }
    let Some(path) = role.boundary.value().and_then(|arn| Arn::parse(arn).ok()?.role_path()) else {
        return;
    };
    if role.path.val().is_some_and(|path| matches!(path.origin, Origin::Default(_))) {
        // The path ends with the name of the boundary, so that a policy can name the roles that have it. No
        // condition key of `iam:PassRole` and `iam:UpdateAssumeRolePolicy` says which boundary a role has
        // (service authorization reference, AWS IAM; 2026-11-23).
        role.path = Field::Is(Val::default(path, "IAM path of roles with this permissions boundary"));
    }
}
