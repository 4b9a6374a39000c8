//! Debugger, profiler, TensorBoard: what watches the job, in the classes of `sagemaker.debugger`.

use super::class::{Class, Modules};
use super::code::Code;
use crate::unmapped::UnmappedMembers;
use serde_json::{Map, Value};

const MODULE: &str = "sagemaker.debugger";

type Arguments = Vec<(String, Code)>;

/// Members of an object as arguments of a class, in the order of the table; the rest of it stays.
fn arguments(members: &mut Map<String, Value>, table: &[(&str, &str)]) -> Arguments {
    table
        .iter()
        .filter_map(|(argument, member)| {
            Some(((*argument).to_owned(), Code::json(&members.remove(*member)?)))
        })
        .collect()
}

fn object(value: Option<Value>) -> Option<Map<String, Value>> {
    if let Some(Value::Object(members)) = value { Some(members) } else { None }
}

/// `debugger_hook_config`, `rules`, `profiler_config` or `disable_profiler`, `tensorboard_output_config`.
pub(super) fn watch(
    unmapped: &mut UnmappedMembers,
    output: &str,
    class: Class,
    modules: &mut Modules,
    unsayable: &mut Vec<String>,
) -> Arguments {
    // Class PyTorch takes the hook away where checkpoints have both paths (SDK 2.257.7).
    let dropped = class == Class::PyTorch && unmapped.has_in("CheckpointConfig", "LocalPath");
    let mut out = Vec::new();
    match object(unmapped.take("DebugHookConfig")) {
        None => out.push(("debugger_hook_config".to_owned(), Code::Plain("False".to_owned()))),
        Some(_) if dropped => unsayable.push("DebugHookConfig".to_owned()),
        Some(hook) => out.extend(hook_config(hook, output, modules)),
    }
    let rules = rules(unmapped, modules);
    if !rules.is_empty() {
        out.push(("rules".to_owned(), Code::List(rules)));
    }
    match object(unmapped.take("ProfilerConfig")) {
        None => unsayable.push("ProfilerConfig".to_owned()),
        Some(members) if members.get("DisableProfiler") == Some(&Value::Bool(true)) => {
            out.push(("disable_profiler".to_owned(), Code::Plain("True".to_owned())));
        }
        Some(members) => out.extend(profiler(members, output, modules)),
    }
    if let Some(mut members) = object(unmapped.take("TensorBoardOutputConfig")) {
        modules.add(MODULE, "TensorBoardOutputConfig");
        let table = [("s3_output_path", "S3OutputPath"), ("container_local_output_path", "LocalPath")];
        let call = Code::Call("TensorBoardOutputConfig".to_owned(), arguments(&mut members, &table));
        out.push(("tensorboard_output_config".to_owned(), call));
    }
    out
}

/// The hook, unless it is the one that the SDK makes by itself.
fn hook_config(mut hook: Map<String, Value>, output: &str, modules: &mut Modules) -> Option<(String, Code)> {
    let collections = hook.remove("CollectionConfigurations");
    let collections: Vec<Code> =
        collections.as_ref().and_then(Value::as_array).into_iter().flatten().map(collection).collect();
    if collections.is_empty()
        && hook.len() == 1
        && hook.get("S3OutputPath").and_then(Value::as_str) == Some(output)
    {
        return None;
    }
    modules.add(MODULE, "DebuggerHookConfig");
    let table = [
        ("s3_output_path", "S3OutputPath"),
        ("container_local_output_path", "LocalPath"),
        ("hook_parameters", "HookParameters"),
    ];
    let mut arguments = arguments(&mut hook, &table);
    if !collections.is_empty() {
        modules.add(MODULE, "CollectionConfig");
        arguments.push(("collection_configs".to_owned(), Code::List(collections)));
    }
    Some(("debugger_hook_config".to_owned(), Code::Call("DebuggerHookConfig".to_owned(), arguments)))
}

fn collection(value: &Value) -> Code {
    let mut members = value.as_object().cloned().unwrap_or_default();
    let table = [("name", "CollectionName"), ("parameters", "CollectionParameters")];
    Code::Call("CollectionConfig".to_owned(), arguments(&mut members, &table))
}

/// Rules of the debugger and of the profiler: one list in the SDK.
fn rules(unmapped: &mut UnmappedMembers, modules: &mut Modules) -> Vec<Code> {
    let mut out = Vec::new();
    for (member, class) in
        [("DebugRuleConfigurations", "Rule"), ("ProfilerRuleConfigurations", "ProfilerRule")]
    {
        let Some(Value::Array(rules)) = unmapped.take(member) else { continue };
        for rule in rules {
            modules.add(MODULE, class);
            let mut members = rule.as_object().cloned().unwrap_or_default();
            let table = [
                ("name", "RuleConfigurationName"),
                ("image_uri", "RuleEvaluatorImage"),
                ("instance_type", "InstanceType"),
                ("volume_size_in_gb", "VolumeSizeInGB"),
                ("container_local_output_path", "LocalPath"),
                ("s3_output_path", "S3OutputPath"),
                ("rule_parameters", "RuleParameters"),
            ];
            let mut arguments = arguments(&mut members, &table);
            // Both have no default in the SDK, and none in the request.
            for needed in ["instance_type", "volume_size_in_gb"] {
                if !arguments.iter().any(|(name, _)| name == needed) {
                    arguments.push((needed.to_owned(), Code::Plain("None".to_owned())));
                }
            }
            out.push(Code::Call(format!("{class}.custom"), arguments));
        }
    }
    out
}

/// The profiler, unless it is the one that the SDK makes by itself.
fn profiler(mut members: Map<String, Value>, output: &str, modules: &mut Modules) -> Option<(String, Code)> {
    members.remove("DisableProfiler");
    if members.len() == 1 && members.get("S3OutputPath").and_then(Value::as_str) == Some(output) {
        return None;
    }
    modules.add(MODULE, "ProfilerConfig");
    let table = [
        ("s3_output_path", "S3OutputPath"),
        ("system_monitor_interval_millis", "ProfilingIntervalInMilliseconds"),
    ];
    let mut arguments = arguments(&mut members, &table);
    if members.contains_key("ProfilingParameters") {
        arguments.push(("framework_profile_params".to_owned(), Code::Plain("profile".to_owned())));
    }
    Some(("profiler_config".to_owned(), Code::Call("ProfilerConfig".to_owned(), arguments)))
}

/// The parameters of the profiler, as they are sent.
pub(super) fn profiling_parameters(request: &Value) -> Option<Code> {
    let config = request.get("ProfilerConfig")?;
    (config.get("DisableProfiler") != Some(&Value::Bool(true))).then_some(())?;
    config.get("ProfilingParameters").map(Code::json)
}
