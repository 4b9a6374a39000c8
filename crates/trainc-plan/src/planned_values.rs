//! What an option means: a row of the vocabulary, compared with the plan.

use crate::bind::PlanValues;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use trainc_catalog::models;
use trainc_catalog::vocabulary::OptionMeaning;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{CheckpointInterval, Field, Plan, Recompute, Scalar};

/// The values of a plan, by the paths of the vocabulary. They are collected when the first is asked for.
pub struct PlannedValues<'a> {
    plan: &'a Plan,
    placeholders: OnceCell<PlanValues>,
}

impl<'a> PlannedValues<'a> {
    /// Returns the values of a plan.
    pub fn new(plan: &'a Plan) -> Self {
        Self { plan, placeholders: OnceCell::new() }
    }

    /// Returns the value of a placeholder, or one that no placeholder has.
    pub fn get(&self, path: &str) -> Option<Scalar> {
        let job = &self.plan.job;
        let integer = |value: Option<u64>| Some(Scalar::Int(i128::from(value?)));
        let text = |field: &Field<String>| field.value().cloned().map(Scalar::Text);
        match path {
            // No switch of a program says it.
            "train.activation_checkpointing"
                if job.train.activation_checkpointing.get() == Some(Recompute::Selective) =>
            {
                Some(Scalar::Text("selective".to_owned()))
            }
            // A job with a model and without `quantize` trains in its precision.
            "quantize.kind" if job.quantize.is_none() => {
                self.plan.model.as_ref().map(|_| Scalar::Text("none".to_owned()))
            }
            "parallel.wrap" => text(&job.parallel.as_ref()?.wrap),
            "parallel.strategy" => text(&job.parallel.as_ref()?.strategy),
            "checkpoint.s3" => {
                let written = job.checkpoint.as_ref()?.s3.value()?;
                Some(Scalar::Text(written.replace(DIGEST_MARK, "{{ job.digest }}")))
            }
            "checkpoint.keep" => integer(job.checkpoint.as_ref()?.keep.get()),
            "checkpoint.steps" => match job.checkpoint.as_ref()?.every.get()? {
                CheckpointInterval::Steps(steps) => integer(Some(steps)),
                CheckpointInterval::Seconds(_) | CheckpointInterval::Optimal => None,
            },
            _ => self.placeholders.get_or_init(|| PlanValues::new(self.plan)).scalar(path),
        }
    }
}

/// An option compared with the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The path of the plan's value.
    pub path: String,
    /// The plan's value.
    pub planned: Scalar,
    /// Whether the option has it; `None` if that is not known.
    pub is_same: Option<bool>,
}

impl Comparison {
    /// Returns whether both are known to be different.
    pub fn is_conflict(&self) -> bool {
        self.is_same == Some(false)
    }
}

/// Compares the value of an option with the plan; `None` if the plan has no value that the option means.
pub fn compare(values: &PlannedValues, row: &OptionMeaning, value: &Scalar) -> Option<Comparison> {
    // Under these engines the degrees are the script's own.
    let has_degrees = values.plan.engine.is_none_or(|engine| engine.law.can_shard());
    let paths = row.paths.iter().filter(|path| has_degrees || !path.starts_with("mesh."));
    let planned: Vec<(&String, Scalar)> = paths.filter_map(|path| Some((path, values.get(path)?))).collect();
    let (path, first) = planned.first()?;
    let is_same = match (&row.equals, &row.words) {
        (Some(equals), _) => {
            let is_planned = first.python().to_lowercase() == *equals;
            match value.truth() {
                Some(true) => Some(is_planned),
                // A switch that is off leaves the precision to another option, but not the quantization.
                Some(false) if is_planned && path.as_str() == "quantize.kind" => Some(false),
                // Nothing else says full precision.
                Some(false) if first.python() == "fp32" => Some(true),
                _ => None,
            }
        }
        (None, Some(_)) if path.as_str() == "model.name" => is_model(first, value),
        (None, Some(words)) => {
            // A list of words has one with this meaning.
            let written = value.python().to_lowercase();
            let meant = words.get(&written).or_else(|| written.split(' ').find_map(|word| words.get(word)));
            meant.map(|meant| planned.iter().any(|(_, planned)| is_same_word(&planned.python(), meant)))
        }
        (None, None) if row.is_names => {
            let (planned, written) = (names(first), names(value));
            // A pattern or a word for all matrices names more than one.
            let is_name = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let are_lists = planned.iter().all(is_name) && written.iter().all(is_name);
            are_lists.then_some(planned == written)
        }
        (None, None) => {
            let each = planned.iter().map(|(_, planned)| is_equal(path, planned, value, row.has_zero));
            let found: Vec<Option<bool>> = each.collect();
            if found.contains(&Some(true)) {
                Some(true)
            } else if found.contains(&None) {
                None
            } else {
                Some(false)
            }
        }
    };
    Some(Comparison { path: (*path).clone(), planned: first.clone(), is_same })
}

/// Returns the names of a list in one text.
fn names(value: &Scalar) -> BTreeSet<String> {
    let text = value.python();
    let words = text.split([',', ' ', '[', ']', '"', '\'']).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Returns whether both words have one meaning: a fused kernel computes the same optimizer.
fn is_same_word(planned: &str, written: &str) -> bool {
    let plain = |word: &str| word.to_lowercase().replace("-apex-fused", "").replace("-fused", "");
    plain(planned) == plain(written)
}

/// Returns whether an option names the model; `None` for a name that the catalogue does not have, as that of
/// a directory.
fn is_model(planned: &Scalar, written: &Scalar) -> Option<bool> {
    if planned.python() == written.python() {
        return Some(true);
    }
    let row = |value: &Scalar| models::find(&value.python()).map(|row| row.name);
    Some(row(planned)? == row(written)?)
}

/// Returns whether both are the same value; `None` if that is not known.
fn is_equal(path: &str, planned: &Scalar, written: &Scalar, has_zero: bool) -> Option<bool> {
    if let Scalar::Bool(planned) = planned {
        return written.truth().map(|written| written == *planned);
    }
    let (Some(number), Some(other)) = (planned.number(), written.number()) else {
        return (planned.python() == written.python()).then_some(true);
    };
    // A warmup is a fraction or a count.
    let is_fraction = |number: f64| number < 1.0;
    // Scripts use zero and negative values for "not set".
    let is_set = other > 0.0 || (has_zero && other == 0.0);
    let is_same_unit = path != "train.warmup" || is_fraction(number) == is_fraction(other);
    (is_set && is_same_unit).then_some((number - other).abs() <= 1e-9 * number.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(planned: Scalar, written: Scalar) -> Option<bool> {
        is_equal("train.steps", &planned, &written, false)
    }

    #[test]
    fn values_are_compared_only_if_both_are_known() {
        assert_eq!(equal(Scalar::Int(500), Scalar::Int(1000)), Some(false));
        assert_eq!(equal(Scalar::Int(500), Scalar::Text("1000".to_owned())), Some(false));
        assert_eq!(equal(Scalar::Int(500), Scalar::Float(500.0)), Some(true));
        assert_eq!(equal(Scalar::Float(2e-4), Scalar::Text("0.0002".to_owned())), Some(true));
        for unset in [Scalar::Int(-1), Scalar::Int(0), Scalar::Text("auto".to_owned()), Scalar::Null] {
            assert_eq!(equal(Scalar::Int(500), unset.clone()), None, "{unset:?}");
        }
        assert_eq!(equal(Scalar::Bool(true), Scalar::Text("False".to_owned())), Some(false));
        assert_eq!(equal(Scalar::Bool(true), Scalar::Int(1)), Some(true));
        assert_eq!(is_equal("train.clip", &Scalar::Float(0.1), &Scalar::Float(0.0), true), Some(false));
        assert_eq!(is_equal("train.warmup", &Scalar::Int(100), &Scalar::Float(0.1), false), None);
    }
}
