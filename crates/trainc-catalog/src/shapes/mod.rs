//! Shapes of the service models: constraints of each member of a request.
//!
//! Input: an operation and a JSON request, or a path. Output: violations, or the member. One file per
//! operation; only the requested file is parsed. Cross-field rules are not included.

mod pattern;
mod validate;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::memo::Memo;
use crate::table::Table;

pub use pattern::Pattern;
pub use validate::{Violation, ViolationKind, validate};

pub(crate) static ENUMS: Table = Table::new("enums", include_str!("../data/enums.toml"));

macro_rules! operations {
    ($($name:literal),* $(,)?) => {
        pub(crate) const OPERATIONS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../data/shapes/", $name, ".json")))),*];
    };
}
operations!(
    "CreateDataRepositoryAssociation",
    "CreateFileSystem",
    "CreateHyperParameterTuningJob",
    "CreateRole",
    "CreateTrainingJob",
    "DescribeTrainingJob",
    "PutRolePolicy",
    "UpdateAssumeRolePolicy",
    "UpdateFileSystem",
    "UpdateTrainingJob",
);

/// The type of a member, by the word of the service model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShapeType {
    /// Object with named members.
    Structure,
    /// Array.
    List,
    /// Object with free keys.
    Map,
    /// Text.
    String,
    /// 32-bit integer.
    Integer,
    /// 64-bit integer.
    Long,
    /// Number.
    Double,
    /// Number.
    Float,
    /// `true` or `false`.
    Boolean,
    /// Point in time.
    Timestamp,
}

/// A member of a request. Lengths are characters, entries or bounds of the number, by type.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Shape {
    /// Type.
    #[serde(rename = "type")]
    pub of: ShapeType,
    /// True if it is required within its structure.
    #[serde(default)]
    pub required: bool,
    /// Shortest length, fewest entries, or smallest number.
    pub min: Option<f64>,
    /// Longest length, most entries, or largest number.
    pub max: Option<f64>,
    /// The service's regular expression; the whole text must match.
    pub pattern: Option<Pattern>,
    /// A note on how the pattern was rewritten for Rust's `regex` syntax.
    pub pattern_note: Option<String>,
    #[serde(default, rename = "enum")]
    values: Vec<String>,
    enum_name: Option<String>,
    /// Members of a structure.
    #[serde(default)]
    pub members: BTreeMap<String, Shape>,
    /// Entries of a list.
    pub item: Option<Box<Shape>>,
    /// Keys of a map.
    pub key: Option<Box<Shape>>,
    /// Values of a map.
    pub value: Option<Box<Shape>>,
}

impl Shape {
    /// Returns the values that the member accepts; empty if any text is allowed.
    pub fn enum_values(&self) -> &[String] {
        match &self.enum_name {
            Some(name) => enum_values(name),
            None => &self.values,
        }
    }

    /// Returns true if the member accepts the text: length, enumeration and pattern. An unsupported pattern
    /// accepts any text.
    pub fn takes_text(&self, text: &str) -> bool {
        let length = text.chars().count() as f64;
        let words = self.enum_values();
        self.min.is_none_or(|min| length >= min)
            && self.max.is_none_or(|max| length <= max)
            && (words.is_empty() || words.iter().any(|word| word == text))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}

/// An operation of a service model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Operation {
    /// `sagemaker`, `iam`, `fsx`.
    pub service: String,
    /// The request.
    pub input: Shape,
    /// Names of the members of the response.
    pub output_members: Vec<String>,
    /// Wire codes of the modelled errors.
    pub errors: Vec<String>,
    /// The source of the model.
    pub source: String,
    /// `YYYY-MM-DD` on which it was read.
    pub date: String,
}

/// Returns the shapes of an operation: `operation("CreateTrainingJob")`. Parsed once per process.
pub fn operation(name: &str) -> Option<&'static Operation> {
    static MEMO: Memo<&str, Option<&'static Operation>> = Memo::new();
    let (name, text) = OPERATIONS.iter().find(|(known, _)| *known == name)?;
    MEMO.get(name, |_| serde_json::from_str(text).ok().map(|parsed| &*Box::leak(Box::new(parsed))))
}

/// Returns the operations with shapes, sorted.
pub fn operations() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|(name, _)| *name)
}

/// Returns a member by path: `ResourceConfig.InstanceCount`; `[]` (or an index) selects the items of a list
/// or the values of a map: `InputDataConfig[].ChannelName`, `HyperParameters[]`.
pub fn member_at_path(operation_name: &str, path: &str) -> Option<&'static Shape> {
    let mut shape = &operation(operation_name)?.input;
    for step in path.split('.') {
        let (name, inside) =
            step.split_once('[').map_or((step, 0), |(name, rest)| (name, 1 + rest.matches('[').count()));
        shape = shape.members.get(name)?;
        for _ in 0..inside {
            shape = shape.item.as_deref().or(shape.value.as_deref())?;
        }
    }
    Some(shape)
}

/// Returns the values of an enumeration: `TrainingInstanceType`, `SecondaryStatus`, `fsx.StorageType`.
pub fn enum_values(name: &str) -> &'static [String] {
    #[derive(Deserialize)]
    struct EnumRow {
        values: Vec<String>,
    }
    ENUMS.row::<EnumRow>(name).map_or(&[], |row| &row.values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valid and invalid texts of members, to compare the two matchers.
    const TEXTS: [&str; 16] = [
        "",
        "a",
        "gpt2-30b-sharded-842051ec",
        "-ends-",
        "with space",
        "s3://bucket/some/path/",
        "https://github.com/a/b.git",
        "arn:aws:iam::111122223333:role/service-role/run",
        "arn:aws-cn:kms:cn-north-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        "111122223333",
        "١٢",
        "naïve é",
        "two\nlines",
        "tab\there",
        "fs-0123456789abcdef0",
        "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker",
    ];

    #[test]
    fn every_operation_reads_and_every_pattern_compiles() {
        fn walk(shape: &Shape, seen: &mut Vec<String>) {
            if let Some(pattern) = &shape.pattern {
                let compiled = pattern.compiled().unwrap_or_else(|| panic!("{}", pattern.text()));
                for text in TEXTS {
                    if let Some(quick) = pattern.lite_regex(text) {
                        let (quick, compiled) = (quick.is_match(text), compiled.is_match(text));
                        assert_eq!(quick, compiled, "`{text}` as {}", pattern.text());
                    }
                }
                seen.push(pattern.text().to_owned());
            }
            if shape.enum_name.is_some() {
                assert!(!shape.enum_values().is_empty(), "{:?}", shape.enum_name);
            }
            for inner in shape
                .members
                .values()
                .chain(shape.item.as_deref())
                .chain(shape.key.as_deref())
                .chain(shape.value.as_deref())
            {
                walk(inner, seen);
            }
        }
        let mut patterns = Vec::new();
        for name in operations() {
            let operation = operation(name).unwrap_or_else(|| panic!("{name}"));
            assert!(!operation.source.is_empty() && operation.date.as_str() <= crate::VERSION);
            walk(&operation.input, &mut patterns);
        }
        patterns.sort();
        patterns.dedup();
        assert!(patterns.len() > 40, "{}", patterns.len());
    }

    #[test]
    fn members_are_found_by_path() {
        let name = member_at_path("CreateTrainingJob", "TrainingJobName").unwrap();
        assert_eq!((name.max, name.required, name.of), (Some(63.0), true, ShapeType::String));
        let channel = member_at_path("CreateTrainingJob", "InputDataConfig[].ChannelName").unwrap();
        assert_eq!((channel.min, channel.max), (Some(1.0), Some(64.0)));
        assert_eq!(member_at_path("CreateTrainingJob", "HyperParameters[]").unwrap().max, Some(2500.0));
        assert_eq!(
            member_at_path("CreateTrainingJob", "ResourceConfig.InstanceType").unwrap().enum_values().len(),
            225
        );
        assert_eq!(
            member_at_path("CreateFileSystem", "StorageType").unwrap().enum_values(),
            enum_values("fsx.StorageType")
        );
        assert_eq!(member_at_path("CreateRole", "MaxSessionDuration").unwrap().max, Some(43200.0));
        assert_eq!((member_at_path("CreateRole", "No"), member_at_path("No", "Path")), (None, None));
        assert_eq!(member_at_path("CreateTrainingJob", "TrainingJobName.x"), None);
    }

    #[test]
    fn describe_has_the_members_to_poll() {
        let answer = &operation("DescribeTrainingJob").unwrap().output_members;
        for name in
            ["TrainingJobStatus", "SecondaryStatusTransitions", "FailureReason", "BillableTimeInSeconds"]
        {
            assert!(answer.iter().any(|known| known == name), "{name}");
        }
    }
}
