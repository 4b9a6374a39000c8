//! Debugger, profiler and TensorBoard, in the classes of `sagemaker.debugger`.

use super::class::{EstimatorClass, Modules};
use super::expression::Expression;
use crate::unmapped::UnmappedMembers;
use serde_json::{Map, Value};
use trainc_catalog::regions;

const MODULE: &str = "sagemaker.debugger";

type Arguments = Vec<(String, Expression)>;

/// Takes members of an object as arguments of a class, in the order of the table.
fn class_arguments(members: &mut Map<String, Value>, table: &[(&str, &str)]) -> Arguments {
    table
        .iter()
        .filter_map(|(argument, member)| {
            Some(((*argument).to_owned(), Expression::json(&members.remove(*member)?)))
        })
        .collect()
}

fn into_object(value: Option<Value>) -> Option<Map<String, Value>> {
    if let Some(Value::Object(members)) = value { Some(members) } else { None }
}

/// What the SDK sends of the debugger and the profiler.
#[derive(Clone, Copy)]
pub(super) struct Support {
    pub(super) debugger: bool,
    pub(super) profiler: bool,
}

impl Support {
    /// Returns what the SDK sends in a region for an instance type: it rejects the debugger and turns off the
    /// profiler in some regions, and turns off the profiler on Trainium (2.257.7, `fw_utils.py`,
    /// `estimator.py`).
    pub(super) fn new(region: &str, request: &Value) -> Self {
        let instance = request.pointer("/ResourceConfig/InstanceType").and_then(Value::as_str);
        let in_region = regions::get(region).is_none_or(|region| region.has_debugger);
        let is_trainium = instance.is_some_and(|instance| instance.starts_with("ml.trn"));
        Self { debugger: in_region, profiler: in_region && !is_trainium }
    }
}

/// Returns `debugger_hook_config`, `rules`, `profiler_config` or `disable_profiler`,
/// `tensorboard_output_config`.
pub(super) fn monitoring_arguments(
    unmapped: &mut UnmappedMembers,
    output: &str,
    (class, support): (EstimatorClass, Support),
    modules: &mut Modules,
    unsupported: &mut Vec<String>,
) -> Arguments {
    // Class PyTorch removes the hook if checkpoints have both paths (SDK 2.257.7).
    let dropped = class == EstimatorClass::PyTorch && unmapped.has_in("CheckpointConfig", "LocalPath");
    let mut out = Vec::new();
    match into_object(unmapped.take("DebugHookConfig")) {
        None => out.push(("debugger_hook_config".to_owned(), Expression::Plain("False".to_owned()))),
        Some(_) if dropped => unsupported.push("DebugHookConfig".to_owned()),
        Some(_) if !support.debugger => {
            unsupported.push("DebugHookConfig".to_owned());
            out.push(("debugger_hook_config".to_owned(), Expression::Plain("False".to_owned())));
        }
        Some(hook) => out.extend(hook_config(hook, output, modules)),
    }
    if !support.profiler && unmapped.take("ProfilerRuleConfigurations").is_some() {
        unsupported.push("ProfilerRuleConfigurations".to_owned());
    }
    let rules = rules(unmapped, modules);
    if !rules.is_empty() {
        out.push(("rules".to_owned(), Expression::List(rules)));
    }
    match into_object(unmapped.take("ProfilerConfig")) {
        None => unsupported.push("ProfilerConfig".to_owned()),
        Some(members) if members.get("DisableProfiler") == Some(&Value::Bool(true)) => {
            out.push(("disable_profiler".to_owned(), Expression::Plain("True".to_owned())));
        }
        Some(_) if !support.profiler => unsupported.push("ProfilerConfig".to_owned()),
        Some(members) => out.extend(profiler(members, output, modules)),
    }
    if let Some(mut members) = into_object(unmapped.take("TensorBoardOutputConfig")) {
        modules.add(MODULE, "TensorBoardOutputConfig");
        let table = [("s3_output_path", "S3OutputPath"), ("container_local_output_path", "LocalPath")];
        let call =
            Expression::Call("TensorBoardOutputConfig".to_owned(), class_arguments(&mut members, &table));
        out.push(("tensorboard_output_config".to_owned(), call));
    }
    out
}

/// Returns the hook, unless it is the default of the SDK.
fn hook_config(
    mut hook: Map<String, Value>,
    output: &str,
    modules: &mut Modules,
) -> Option<(String, Expression)> {
    let collections = hook.remove("CollectionConfigurations");
    let collections: Vec<Expression> =
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
    let mut arguments = class_arguments(&mut hook, &table);
    if !collections.is_empty() {
        modules.add(MODULE, "CollectionConfig");
        arguments.push(("collection_configs".to_owned(), Expression::List(collections)));
    }
    Some(("debugger_hook_config".to_owned(), Expression::Call("DebuggerHookConfig".to_owned(), arguments)))
}

fn collection(value: &Value) -> Expression {
    let mut members = value.as_object().cloned().unwrap_or_default();
    let table = [("name", "CollectionName"), ("parameters", "CollectionParameters")];
    Expression::Call("CollectionConfig".to_owned(), class_arguments(&mut members, &table))
}

/// Returns the rules of debugger and profiler, which are one list in the SDK.
fn rules(unmapped: &mut UnmappedMembers, modules: &mut Modules) -> Vec<Expression> {
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
            let mut arguments = class_arguments(&mut members, &table);
            // The SDK requires both, although the request does not.
            for needed in ["instance_type", "volume_size_in_gb"] {
                if !arguments.iter().any(|(name, _)| name == needed) {
                    arguments.push((needed.to_owned(), Expression::Plain("None".to_owned())));
                }
            }
            out.push(Expression::Call(format!("{class}.custom"), arguments));
        }
    }
    out
}

/// Returns the profiler, unless it is the default of the SDK.
fn profiler(
    mut members: Map<String, Value>,
    output: &str,
    modules: &mut Modules,
) -> Option<(String, Expression)> {
    members.remove("DisableProfiler");
    if members.len() == 1 && members.get("S3OutputPath").and_then(Value::as_str) == Some(output) {
        return None;
    }
    modules.add(MODULE, "ProfilerConfig");
    let table = [
        ("s3_output_path", "S3OutputPath"),
        ("system_monitor_interval_millis", "ProfilingIntervalInMilliseconds"),
    ];
    let mut arguments = class_arguments(&mut members, &table);
    if members.contains_key("ProfilingParameters") {
        arguments.push(("framework_profile_params".to_owned(), Expression::Plain("profile".to_owned())));
    }
    Some(("profiler_config".to_owned(), Expression::Call("ProfilerConfig".to_owned(), arguments)))
}

/// Returns the parameters of the profiler, as sent.
pub(super) fn profiling_parameters(request: &Value, support: Support) -> Option<Expression> {
    let config = request.get("ProfilerConfig")?;
    (support.profiler && config.get("DisableProfiler") != Some(&Value::Bool(true))).then_some(())?;
    config.get("ProfilingParameters").map(Expression::json)
}
