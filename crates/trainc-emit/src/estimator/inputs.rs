//! The channels: the argument of `fit`.

use super::class::Modules;
use super::expression::Expression;
use serde_json::{Map, Value};

/// Returns the channels as an argument of `fit`; members that the SDK does not support are added to
/// `unsupported`.
pub(super) fn inputs(channels: &[Value], modules: &mut Modules, unsupported: &mut Vec<String>) -> Expression {
    Expression::Dict(
        channels
            .iter()
            .filter_map(Value::as_object)
            .filter_map(|channel| {
                let mut channel = channel.clone();
                let name = text(channel.remove("ChannelName"));
                if channel.get("DataSource").is_some_and(|source| source.get("DatasetSource").is_some()) {
                    // TrainingInput requires an S3 URI: the channel is omitted.
                    unsupported.push(format!("InputDataConfig.{name}.DataSource.DatasetSource"));
                    return None;
                }
                let code = channel_input(&mut channel, modules);
                unsupported.extend(channel.keys().map(|member| format!("InputDataConfig.{name}.{member}")));
                Some((name, code))
            })
            .collect(),
    )
}

fn text(value: Option<Value>) -> String {
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn channel_input(channel: &mut Map<String, Value>, modules: &mut Modules) -> Expression {
    let mut source = match channel.remove("DataSource") {
        Some(Value::Object(source)) => source,
        _ => Map::new(),
    };
    if let Some(Value::Object(mut system)) = source.remove("FileSystemDataSource") {
        modules.add("sagemaker.inputs", "FileSystemInput");
        let mut arguments = Vec::new();
        for (argument, member) in [
            ("file_system_id", "FileSystemId"),
            ("file_system_type", "FileSystemType"),
            ("directory_path", "DirectoryPath"),
            ("file_system_access_mode", "FileSystemAccessMode"),
        ] {
            arguments.push((argument.to_owned(), Expression::text(&text(system.remove(member)))));
        }
        push(&mut arguments, "content_type", channel.remove("ContentType"));
        return Expression::Call("FileSystemInput".to_owned(), arguments);
    }
    let mut s3 = match source.remove("S3DataSource") {
        Some(Value::Object(s3)) => s3,
        _ => Map::new(),
    };
    for (key, value) in source {
        channel.insert(format!("DataSource.{key}"), value);
    }
    let uri = Expression::text(&text(s3.remove("S3Uri")));
    let mut arguments = Vec::new();
    let other = |value: Option<Value>, default: &str| value.filter(|value| value.as_str() != Some(default));
    push(&mut arguments, "distribution", other(s3.remove("S3DataDistributionType"), "FullyReplicated"));
    push(&mut arguments, "s3_data_type", other(s3.remove("S3DataType"), "S3Prefix"));
    push(&mut arguments, "attribute_names", s3.remove("AttributeNames"));
    push(&mut arguments, "instance_groups", s3.remove("InstanceGroupNames"));
    push(&mut arguments, "hub_access_config", s3.remove("HubAccessConfig"));
    push(&mut arguments, "model_access_config", s3.remove("ModelAccessConfig"));
    push(&mut arguments, "input_mode", channel.remove("InputMode"));
    push(&mut arguments, "content_type", channel.remove("ContentType"));
    push(&mut arguments, "compression", channel.remove("CompressionType"));
    push(&mut arguments, "record_wrapping", channel.remove("RecordWrapperType"));
    if let Some(seed) = channel.remove("ShuffleConfig").and_then(|config| config.get("Seed").cloned()) {
        modules.add("sagemaker.inputs", "ShuffleConfig");
        let call =
            Expression::Call("ShuffleConfig".to_owned(), vec![("seed".to_owned(), Expression::json(&seed))]);
        arguments.push(("shuffle_config".to_owned(), call));
    }
    if arguments.is_empty() {
        return uri;
    }
    modules.add("sagemaker.inputs", "TrainingInput");
    arguments.insert(0, (String::new(), uri));
    Expression::Call("TrainingInput".to_owned(), arguments)
}

fn push(arguments: &mut Vec<(String, Expression)>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        arguments.push((name.to_owned(), Expression::json(&value)));
    }
}
