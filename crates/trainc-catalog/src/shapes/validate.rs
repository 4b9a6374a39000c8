//! Checks a request against the shapes of its operation.

use serde_json::{Map, Value};

use super::{Shape, ShapeType, operation};
use std::fmt;

/// The kind of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViolationKind {
    /// A required member is missing.
    Missing,
    /// The structure has no such member.
    Unknown,
    /// Wrong JSON type.
    Type,
    /// Too few characters or entries.
    TooShort,
    /// Too many characters or entries.
    TooLong,
    /// A number outside its bounds.
    OutOfRange,
    /// The text does not match the pattern.
    Pattern,
    /// Not a value of the enumeration.
    Enum,
}

/// A constraint that a request violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// `ResourceConfig.InstanceCount`, `InputDataConfig[0].ChannelName`, `HyperParameters["lr"]`.
    pub path: String,
    /// The kind of the violation.
    pub kind: ViolationKind,
    /// The constraint.
    pub expected: String,
    /// The value found.
    pub found: String,
}

/// Returns all violations of the request, sorted by member name; `None` for an operation without shapes.
pub fn validate(operation_name: &str, request: &Value) -> Option<Vec<Violation>> {
    let operation = operation(operation_name)?;
    let mut walk = Walk { violations: Vec::new() };
    walk.check_value(&At { within: None, step: Step::Request }, &operation.input, request);
    Some(walk.violations)
}

/// The current path of the walk, formatted only for violations.
struct At<'a> {
    within: Option<&'a At<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Request,
    Member(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> At<'a> {
    fn child(&'a self, step: Step<'a>) -> Self {
        Self { within: Some(self), step }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(within) = self.within else { return Ok(()) };
        within.fmt(f)?;
        match self.step {
            Step::Request => Ok(()),
            Step::Member(name) if matches!(within.step, Step::Request) => f.write_str(name),
            Step::Member(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key:?}]"),
        }
    }
}

struct Walk {
    violations: Vec<Violation>,
}

impl Walk {
    fn report(
        &mut self,
        at: &At,
        kind: ViolationKind,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.violations.push(Violation {
            path: at.to_string(),
            kind,
            expected: expected.into(),
            found: found.into(),
        });
    }

    fn check_value(&mut self, at: &At, shape: &Shape, value: &Value) {
        match (shape.of, value) {
            (ShapeType::Structure, Value::Object(members)) => self.check_structure(at, shape, members),
            (ShapeType::Map, Value::Object(entries)) => self.check_map(at, shape, entries),
            (ShapeType::List, Value::Array(items)) => {
                self.check_length(at, shape, items.len(), "entries");
                let Some(item) = shape.item.as_deref() else {
                    return;
                };
                for (index, value) in items.iter().enumerate() {
                    self.check_value(&at.child(Step::Index(index)), item, value);
                }
            }
            (ShapeType::String, Value::String(text)) => self.check_text(at, shape, text),
            (ShapeType::Integer | ShapeType::Long, Value::Number(n)) if n.is_i64() || n.is_u64() => {
                self.check_range(at, shape, value);
            }
            (ShapeType::Double | ShapeType::Float, Value::Number(_)) => {
                self.check_range(at, shape, value);
            }
            (ShapeType::Boolean, Value::Bool(_))
            | (ShapeType::Timestamp, Value::Number(_) | Value::String(_)) => {}
            _ => self.report(at, ViolationKind::Type, type_word(shape.of), json_word(value)),
        }
    }

    fn check_structure(&mut self, at: &At, shape: &Shape, members: &Map<String, Value>) {
        for (name, inner) in &shape.members {
            if inner.required && !members.contains_key(name) {
                self.report(
                    &at.child(Step::Member(name)),
                    ViolationKind::Missing,
                    type_word(inner.of),
                    "nothing",
                );
            }
        }
        for (name, value) in members {
            let at = at.child(Step::Member(name));
            match shape.members.get(name) {
                Some(inner) => self.check_value(&at, inner, value),
                None => self.report(&at, ViolationKind::Unknown, "a member of the structure", name),
            }
        }
    }

    fn check_map(&mut self, at: &At, shape: &Shape, entries: &Map<String, Value>) {
        self.check_length(at, shape, entries.len(), "entries");
        for (name, value) in entries {
            let at = at.child(Step::Key(name));
            if let Some(key) = shape.key.as_deref() {
                self.check_text(&at, key, name);
            }
            if let Some(inner) = shape.value.as_deref() {
                self.check_value(&at, inner, value);
            }
        }
    }

    fn check_text(&mut self, at: &At, shape: &Shape, text: &str) {
        self.check_length(at, shape, text.chars().count(), "characters");
        let words = shape.enum_values();
        if !words.is_empty() && !words.iter().any(|word| word == text) {
            self.report(at, ViolationKind::Enum, words.join(", "), text);
        }
        if let Some(pattern) = shape.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.report(at, ViolationKind::Pattern, pattern.text(), text);
        }
    }

    fn check_length(&mut self, at: &At, shape: &Shape, length: usize, unit: &str) {
        let found = || format!("{length} {unit}");
        let entries = length as f64;
        if let Some(min) = shape.min.filter(|min| entries < *min) {
            self.report(at, ViolationKind::TooShort, format!("at least {min} {unit}"), found());
        } else if let Some(max) = shape.max.filter(|max| entries > *max) {
            self.report(at, ViolationKind::TooLong, format!("at most {max} {unit}"), found());
        }
    }

    fn check_range(&mut self, at: &At, shape: &Shape, value: &Value) {
        let number = value.as_f64().unwrap_or(f64::NAN);
        let below = shape.min.is_some_and(|min| number < min);
        let above = shape.max.is_some_and(|max| number > max);
        if below || above {
            let expected = match (shape.min, shape.max) {
                (Some(min), Some(max)) => format!("{min} to {max}"),
                (Some(min), None) => format!("at least {min}"),
                (None, Some(max)) => format!("at most {max}"),
                (None, None) => String::new(),
            };
            self.report(at, ViolationKind::OutOfRange, expected, value.to_string());
        }
    }
}

fn type_word(of: ShapeType) -> &'static str {
    match of {
        ShapeType::Structure => "a structure",
        ShapeType::List => "a list",
        ShapeType::Map => "a map",
        ShapeType::String => "a string",
        ShapeType::Integer | ShapeType::Long => "an integer",
        ShapeType::Double | ShapeType::Float => "a number",
        ShapeType::Boolean => "true or false",
        ShapeType::Timestamp => "a timestamp",
    }
}

fn json_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a structure",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> Value {
        json!({
            "TrainingJobName": "gpt2-1a2b3c4d",
            "RoleArn": "arn:aws:iam::111122223333:role/trainc/gpt2",
            "AlgorithmSpecification": {
                "TrainingImage": "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312",
                "TrainingInputMode": "File"
            },
            "HyperParameters": {"lr": "0.0002"},
            "InputDataConfig": [{
                "ChannelName": "train",
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/train/"}}
            }],
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
            "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
            "Tags": [{"Key": "trainc:job", "Value": "gpt2"}],
            "Environment": {"NCCL_DEBUG": "WARN"}
        })
    }

    #[track_caller]
    fn check(path: &[&str], value: Value, expected: &[(&str, ViolationKind)]) {
        let mut request = request();
        let mut at = &mut request;
        for step in path {
            at = match step.parse::<usize>() {
                Ok(index) => &mut at[index],
                Err(_) => &mut at[*step],
            };
        }
        *at = value;
        let found = validate("CreateTrainingJob", &request).unwrap();
        let found: Vec<(&str, ViolationKind)> = found.iter().map(|v| (v.path.as_str(), v.kind)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_good_request_passes() {
        assert_eq!(validate("CreateTrainingJob", &request()), Some(vec![]));
        assert_eq!(validate("NoSuchOperation", &request()), None);
    }

    #[test]
    fn each_kind_is_found() {
        use ViolationKind as K;
        check(&["TrainingJobName"], json!("a_b"), &[("TrainingJobName", K::Pattern)]);
        check(
            &["TrainingJobName"],
            json!(""),
            &[("TrainingJobName", K::TooShort), ("TrainingJobName", K::Pattern)],
        );
        check(
            &["ResourceConfig", "InstanceType"],
            json!("ml.p4d.48xlarge"),
            &[("ResourceConfig.InstanceType", K::Enum)],
        );
        check(&["ResourceConfig", "InstanceCount"], json!("2"), &[("ResourceConfig.InstanceCount", K::Type)]);
        check(&["ResourceConfig", "InstanceCount"], json!(1.5), &[("ResourceConfig.InstanceCount", K::Type)]);
        check(
            &["ResourceConfig", "InstanceCount"],
            json!(-1),
            &[("ResourceConfig.InstanceCount", K::OutOfRange)],
        );
        check(&["Instance"], json!(1), &[("Instance", K::Unknown)]);
        check(&["OutputDataConfig"], json!({}), &[("OutputDataConfig.S3OutputPath", K::Missing)]);
        check(&["InputDataConfig"], json!([]), &[("InputDataConfig", K::TooShort)]);
        check(
            &["InputDataConfig", "0", "ChannelName"],
            json!("a b"),
            &[("InputDataConfig[0].ChannelName", K::Pattern)],
        );
        check(
            &["HyperParameters", "lr"],
            json!("x".repeat(2501)),
            &[("HyperParameters[\"lr\"]", K::TooLong)],
        );
        check(&["HyperParameters", "lr"], json!("a\nb"), &[("HyperParameters[\"lr\"]", K::Pattern)]);
        check(&["HyperParameters", "lr"], json!(0.1), &[("HyperParameters[\"lr\"]", K::Type)]);
        check(&["Environment", "1X"], json!("y"), &[("Environment[\"1X\"]", K::Pattern)]);
        check(&["Tags", "0", "Key"], json!("a!"), &[("Tags[0].Key", K::Pattern)]);
    }

    #[test]
    fn the_two_rewritten_patterns_keep_their_sense() {
        let algorithm = |name: &str| json!({"AlgorithmName": name, "TrainingInputMode": "File"});
        let arn = "arn:aws:sagemaker:us-west-2:111122223333:algorithm/mine";
        check(&["AlgorithmSpecification"], algorithm("mine"), &[]);
        check(&["AlgorithmSpecification"], algorithm(arn), &[]);
        let path = "AlgorithmSpecification.AlgorithmName";
        check(&["AlgorithmSpecification"], algorithm("mine-"), &[(path, ViolationKind::Pattern)]);
        let image = |arn: &str| {
            json!({"TrainingRepositoryAccessMode": "Vpc", "TrainingRepositoryAuthConfig":
                {"TrainingRepositoryCredentialsProviderArn": arn}})
        };
        let at = ["AlgorithmSpecification", "TrainingImageConfig"];
        check(&at, image("arn:aws:lambda:us-west-2:111122223333:function:f"), &[]);
        let path = "AlgorithmSpecification.TrainingImageConfig.TrainingRepositoryAuthConfig.TrainingRepositoryCredentialsProviderArn";
        check(
            &at,
            image("arn:aws:lambda:us_west:111122223333:function:f"),
            &[(path, ViolationKind::Pattern)],
        );
    }
}
