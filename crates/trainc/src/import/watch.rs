//! What watches the job: debugger, profiler, TensorBoard, experiment, and the switches.

use super::kdl::{Node, bound, string};
use super::unsaid::Unsaid;
use serde_json::{Map, Value};
use trainc_emit::UnmappedMembers;
use trainc_ir::job::SERVERLESS;

/// The nodes; what has none stays in the request.
pub(super) fn watch(
    rest: &mut UnmappedMembers,
    output: &str,
    engine: &str,
    unsaid: &mut Unsaid,
) -> Vec<Node> {
    let mut out = Vec::new();
    // Model parallelism does without the debugger, and trainc leaves the hook out there.
    if engine != "smp"
        && let Some(mut hook) = rest.object("DebugHookConfig")
    {
        out.push(debugger(&mut hook, output));
        rest.put_back("DebugHookConfig", hook);
    }
    match rest.object("ProfilerConfig") {
        None if rest.0.contains_key(SERVERLESS) => {}
        None => unsaid.lose(
            "`profiler`: the request leaves it to the service; the manifest's request says that it is off",
        ),
        Some(profiler) if profiler.0.get("DisableProfiler") == Some(&Value::Bool(true)) => {}
        Some(mut profiler) => {
            profiler.take("DisableProfiler");
            let mut node = Node::new("profiler");
            node = place(node, profiler.text("S3OutputPath"), output);
            if let Some(interval) = profiler.number("ProfilingIntervalInMilliseconds") {
                node = node.prop("interval", &string(&format!("{interval}ms")));
            }
            node = node.children(parameters(profiler.map("ProfilingParameters")));
            rest.put_back("ProfilerConfig", profiler);
            out.push(node);
        }
    }
    if let Some(mut board) = rest.object("TensorBoardOutputConfig") {
        let s3 = board.text("S3OutputPath").unwrap_or_default();
        out.push(
            Node::new("tensorboard")
                .prop("s3", &string(&bound(&s3)))
                .maybe("local", board.text("LocalPath").as_deref()),
        );
    }
    if let Some(mut experiment) = rest.object("ExperimentConfig") {
        let mut node = Node::new("experiment");
        for (property, member) in [
            ("name", "ExperimentName"),
            ("trial", "TrialName"),
            ("component", "TrialComponentDisplayName"),
            ("run", "RunName"),
        ] {
            node = node.maybe(property, experiment.text(member).as_deref());
        }
        out.push(node);
    }
    for (name, outer, member) in [
        ("remote-debug", "RemoteDebugConfig", "EnableRemoteDebug"),
        ("health-check", "InfraCheckConfig", "EnableInfraCheck"),
        ("session-chaining", "SessionChainingConfig", "EnableSessionTagChaining"),
    ] {
        if let Some(on) = rest.object(outer).and_then(|mut config| config.switch(member)) {
            out.push(Node::new(name).arg(if on { "#true" } else { "#false" }));
        }
    }
    out
}

/// `s3=`, unless it is the output's.
fn place(node: Node, s3: Option<String>, output: &str) -> Node {
    node.maybe("s3", s3.filter(|s3| s3 != output).as_deref())
}

fn parameters(pairs: Vec<(String, String)>) -> Vec<Node> {
    if pairs.is_empty() {
        return Vec::new();
    }
    vec![pairs.iter().fold(Node::new("parameters"), |node, (key, value)| node.maybe(key, Some(value)))]
}

fn debugger(hook: &mut UnmappedMembers, output: &str) -> Node {
    let mut node = place(Node::new("debugger"), hook.text("S3OutputPath"), output);
    node = node.maybe("local", hook.text("LocalPath").as_deref());
    node = node.children(parameters(hook.map("HookParameters")));
    for collection in hook.list("CollectionConfigurations") {
        let name = collection.get("CollectionName").and_then(Value::as_str).unwrap_or("");
        let members =
            collection.get("CollectionParameters").and_then(Value::as_object).cloned().unwrap_or(Map::new());
        let child = members
            .iter()
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
            .fold(Node::text("collection", name), |node, (key, value)| node.maybe(key, Some(value)));
        node = node.child(child);
    }
    node
}
