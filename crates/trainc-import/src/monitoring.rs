//! Monitoring of the job: debugger, profiler, TensorBoard, experiment and switches.

use super::kdl::{Node, escape_placeholders, string};
use super::unsupported::Unsupported;
use serde_json::{Map, Value};
use trainc_catalog::debugger_rules::{self, RuleKind};
use trainc_emit::UnmappedMembers;
use trainc_ir::job::SERVERLESS;

/// Returns the nodes; members without one stay in the request.
pub(super) fn monitoring(
    unmapped: &mut UnmappedMembers,
    output: &str,
    engine: &str,
    unsupported: &mut Unsupported,
) -> Vec<Node> {
    let mut out = Vec::new();
    // Model parallelism does not support the debugger, so trainc omits the hook.
    if engine != "smp"
        && let Some(mut hook) = unmapped.take_object("DebugHookConfig")
    {
        let mut node = debugger(&mut hook, output);
        if let Some(rules) = take_rules(unmapped, "DebugRuleConfigurations", RuleKind::Debugger) {
            node = node.children(rules);
        }
        out.push(node);
        unmapped.put_back("DebugHookConfig", hook);
    }
    match unmapped.take_object("ProfilerConfig") {
        None if unmapped.0.contains_key(SERVERLESS) => {}
        None => unsupported
            .add_difference("`profiler`: not set in the request; the manifest's request disables it"),
        Some(profiler) if profiler.0.get("DisableProfiler") == Some(&Value::Bool(true)) => {}
        Some(mut profiler) => {
            profiler.take("DisableProfiler");
            let mut node = Node::new("profiler");
            node = with_s3(node, profiler.take_text("S3OutputPath"), output);
            node = node.value(&mut profiler, "ProfilerConfig", "ProfilingIntervalInMilliseconds");
            node = node.children(parameters(profiler.take_string_map("ProfilingParameters")));
            if let Some(rules) = take_rules(unmapped, "ProfilerRuleConfigurations", RuleKind::Profiler) {
                node = node.children(rules);
            }
            unmapped.put_back("ProfilerConfig", profiler);
            out.push(node);
        }
    }
    if let Some(mut board) = unmapped.take_object("TensorBoardOutputConfig") {
        let s3 = board.take_text("S3OutputPath").unwrap_or_default();
        out.push(Node::new("tensorboard").prop("s3", &string(&escape_placeholders(&s3))).value(
            &mut board,
            "TensorBoardOutputConfig",
            "LocalPath",
        ));
    }
    if let Some(mut experiment) = unmapped.take_object("ExperimentConfig") {
        let mut node = Node::new("experiment");
        for member in ["ExperimentName", "TrialName", "TrialComponentDisplayName", "RunName"] {
            node = node.value(&mut experiment, "ExperimentConfig", member);
        }
        out.push(node);
    }
    for member in [
        "RemoteDebugConfig.EnableRemoteDebug",
        "InfraCheckConfig.EnableInfraCheck",
        "SessionChainingConfig.EnableSessionTagChaining",
    ] {
        out.extend(Node::of_value(unmapped, "", member));
    }
    out
}

/// Takes a list of rules as nodes, if every one of them is a built-in rule that a node expresses completely.
fn take_rules(unmapped: &mut UnmappedMembers, member: &str, kind: RuleKind) -> Option<Vec<Node>> {
    let items = unmapped.0.get(member)?.as_array()?;
    let nodes: Option<Vec<Node>> = items.iter().map(|item| rule(item, kind)).collect();
    let nodes = nodes.filter(|nodes| !nodes.is_empty())?;
    unmapped.take(member);
    Some(nodes)
}

fn rule(item: &Value, kind: RuleKind) -> Option<Node> {
    let members = item.as_object()?;
    let name = members.get("RuleConfigurationName")?.as_str()?;
    let found = debugger_rules::get(name).filter(|found| found.name == name && found.kind == kind)?;
    let image = members.get("RuleEvaluatorImage")?.as_str()?;
    let is_built_in = debugger_rules::image(&trainc_catalog::images::parse_uri(image)?.region)? == image;
    let parameters = members.get("RuleParameters")?.as_object()?;
    let is_invoked = parameters.get("rule_to_invoke").and_then(Value::as_str) == Some(name);
    if !is_built_in || !is_invoked || members.len() != 3 {
        return None;
    }
    let mut node = Node::text("rule", found.name);
    for (key, value) in parameters.iter().filter(|(key, _)| *key != "rule_to_invoke") {
        node = node.prop(key, &string(&escape_placeholders(value.as_str()?)));
    }
    Some(node)
}

/// Adds `s3=` unless it equals the output's.
fn with_s3(node: Node, s3: Option<String>, output: &str) -> Node {
    node.prop_if_some("s3", s3.filter(|s3| s3 != output).as_deref())
}

fn parameters(pairs: Vec<(String, String)>) -> Vec<Node> {
    if pairs.is_empty() {
        return Vec::new();
    }
    vec![pairs.iter().fold(Node::new("parameters"), |node, (key, value)| node.prop_if_some(key, Some(value)))]
}

fn debugger(hook: &mut UnmappedMembers, output: &str) -> Node {
    let mut node = with_s3(Node::new("debugger"), hook.take_text("S3OutputPath"), output);
    node = node.value(hook, "DebugHookConfig", "LocalPath");
    node = node.children(parameters(hook.take_string_map("HookParameters")));
    for collection in hook.take_list("CollectionConfigurations") {
        let name = collection.get("CollectionName").and_then(Value::as_str).unwrap_or("");
        let members =
            collection.get("CollectionParameters").and_then(Value::as_object).cloned().unwrap_or(Map::new());
        let child = members
            .iter()
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
            .fold(Node::text("collection", name), |node, (key, value)| node.prop_if_some(key, Some(value)));
        node = node.child(child);
    }
    node
}
