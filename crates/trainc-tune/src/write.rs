//! Writes a choice into the manifest's text: comments and layout stay.

use super::edits::Set;
use trainc_syntax::edit::{self, EditError, PathStep};

/// Values for nodes that must be added to a job which inherits them from a base.
#[derive(Clone, Copy, Debug)]
pub struct BaseValues<'a> {
    /// The job's name.
    pub job: &'a str,
    /// The instance type.
    pub instance: &'a str,
    /// The engine.
    pub engine: &'a str,
}

/// Returns the manifest's text with the values: existing ones are replaced, others added.
pub fn set_manifest_values(text: &str, base: BaseValues<'_>, sets: &[Set]) -> Result<String, EditError> {
    let mut text = text.to_owned();
    for set in sets {
        text = set_value(&text, base, set)?;
    }
    Ok(text)
}

fn set_value(text: &str, base: BaseValues<'_>, set: &Set) -> Result<String, EditError> {
    let top = [PathStep::by_argument("job", base.job)];
    let mut steps = set.path.split('.');
    let head = steps.next().unwrap_or_default();
    let node = [top.as_slice(), &[PathStep::by_name(head)]].concat();
    let value = format_kdl_value(&set.value);
    if matches!(edit::locate(text, &node), Err(EditError::NotFound(_))) {
        // A base layer may have it: its required values are repeated, the rest is merged.
        let new = match head {
            "cluster" => format!("cluster {}", format_kdl_value(base.instance)),
            "parallel" => format!("parallel engine={}", format_kdl_value(base.engine)),
            other => other.to_owned(),
        };
        let with_node = edit::insert_child(text, &top, &new)?.text;
        return set_value(&with_node, base, set);
    }
    let edited = match (head, steps.next(), steps.next()) {
        (_, None, _) => edit::set_argument(text, &node, 0, &value),
        ("cluster", Some(property), _) => edit::set_property(text, &node, property, &value),
        (_, Some(child), None) => {
            let path = [node.as_slice(), &[PathStep::by_name(child)]].concat();
            match edit::set_argument(text, &path, 0, &value) {
                Err(EditError::NotFound(_)) => edit::insert_child(text, &node, &format!("{child} {value}")),
                // A setting of a disabled feature has no effect.
                Ok(off) if turns_off_activation_offload(set) => {
                    edit::remove_property(&off.text, &path, "horizon")
                }
                done => done,
            }
        }
        (_, Some(child), Some(property)) => {
            let path = [node.as_slice(), &[PathStep::by_name(child)]].concat();
            edit::set_property(text, &path, property, &value)
        }
    };
    Ok(edited?.text)
}

/// Returns true if the value disables the offload of activations, without which `horizon` has no effect.
pub fn turns_off_activation_offload(set: &Set) -> bool {
    set.path == "parallel.offload-activations" && set.value == "#false"
}

/// Formats a value as KDL: switches and numbers unquoted, words in quotes.
fn format_kdl_value(value: &str) -> String {
    let bare = value.starts_with('#') || value.bytes().all(|byte| byte.is_ascii_digit());
    if bare { value.to_owned() } else { format!("\"{value}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE_VALUES: BaseValues<'static> =
        BaseValues { job: "a", instance: "ml.p4d.24xlarge", engine: "smp" };

    fn set(path: &'static str, value: &str) -> Set {
        Set { path, value: value.to_owned(), file: None }
    }

    #[test]
    fn an_edit_keeps_comments_and_adds_what_is_missing() {
        let text = "// why\njob \"a\" {\n    cluster \"ml.p4d.24xlarge\" nodes=2 // two\n    train {\n        micro-batch 1\n    }\n}\n";
        let sets = [
            set("cluster.nodes", "4"),
            set("cluster", "ml.p5.48xlarge"),
            set("train.micro-batch", "8"),
            set("train.activation-checkpointing", "#true"),
        ];
        assert_eq!(
            set_manifest_values(text, BASE_VALUES, &sets).unwrap(),
            "// why\njob \"a\" {\n    cluster \"ml.p5.48xlarge\" nodes=4 // two\n    train {\n        \
                micro-batch 8\n        activation-checkpointing #true\n    }\n}\n"
        );
    }

    #[test]
    fn a_node_that_a_base_has_is_laid_over_it() {
        let text = "extends \"./base.kdl\"\njob \"a\" {\n    region \"us-west-2\"\n}\n";
        let sets =
            [set("cluster.nodes", "4"), set("parallel.tensor-degree", "2"), set("train.micro-batch", "8")];
        assert_eq!(
            set_manifest_values(text, BASE_VALUES, &sets).unwrap(),
            "extends \"./base.kdl\"\njob \"a\" {\n    region \"us-west-2\"\n    cluster \
                \"ml.p4d.24xlarge\" nodes=4\n    parallel engine=\"smp\" {\n        tensor-degree 2\n    \
                }\n    train {\n        micro-batch 8\n    }\n}\n"
        );
    }

    #[test]
    fn offload_that_ends_takes_its_horizon_with_it() {
        let text = "job \"a\" {\n    parallel engine=\"smp\" {\n        offload-activations #true horizon=4 \
            // why\n    }\n}\n";
        assert_eq!(
            set_manifest_values(text, BASE_VALUES, &[set("parallel.offload-activations", "#false")]).unwrap(),
            "job \"a\" {\n    parallel engine=\"smp\" {\n        offload-activations #false // \
                why\n    }\n}\n"
        );
        let on = set("parallel.offload-activations", "#true");
        assert_eq!(set_manifest_values(text, BASE_VALUES, &[on]).unwrap(), text);
    }

    #[test]
    fn a_property_of_a_child_stands_beside_its_value() {
        let text = "job \"a\" {\n    parallel engine=\"smp\" {\n        pipeline-degree 4 \
            schedule=\"interleaved\" microbatches=4 // in flight\n    }\n}\n";
        let sets = [set("parallel.pipeline-degree", "2"), set("parallel.pipeline-degree.microbatches", "8")];
        assert_eq!(
            set_manifest_values(text, BASE_VALUES, &sets).unwrap(),
            "job \"a\" {\n    parallel engine=\"smp\" {\n        pipeline-degree 2 \
                schedule=\"interleaved\" microbatches=8 // in flight\n    }\n}\n"
        );
    }
}
