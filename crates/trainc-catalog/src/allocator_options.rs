//! The options of PyTorch's caching allocator for GPU memory, as an environment variable has them:
//! `option:value,option:value`.

use serde::Deserialize;

use super::table::Table;
use trainc_diag::text;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("allocator-options", include_str!("data/allocator_options.toml"));

#[derive(Clone, Deserialize)]
struct OptionRow {
    takes: Option<Takes>,
    #[serde(default)]
    words: Vec<String>,
    least: Option<u64>,
    most: Option<u64>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Takes {
    /// `True` or `False`.
    Truth,
    /// A whole number.
    Count,
    /// A power of 2.
    Power,
    /// A power of 2, or a list `[size:power,…]`.
    Powers,
    /// A number between 0 and 1, without both.
    Share,
    /// One of the words.
    Word,
    /// Values that are not compared.
    Any,
}

/// An option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorOption {
    /// The source of the row.
    pub provenance: Provenance,
}

/// A part of the variable: one option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part, as written.
    pub written: String,
    /// The option.
    pub option: String,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub fault: Option<Fault>,
    /// What is probably meant.
    pub instead: Option<String>,
}

/// What is wrong with a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has no `:` with a value.
    NoValue,
    /// There is no such option.
    Unknown,
    /// The option takes something else: what.
    Value(String),
}

impl Part {
    /// Returns the option's row, if there is one.
    pub fn option_row(&self) -> Option<AllocatorOption> {
        let row: &OptionRow = TABLE.row(&key(&self.option))?;
        Some(AllocatorOption { provenance: row.provenance.clone() })
    }
}

/// Returns whether an environment variable has options of the allocator.
pub fn is_variable(name: &str) -> bool {
    TABLE.keys_under("variable/").any(|key| key.strip_prefix("variable/") == Some(name))
}

/// Returns the names of the options.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys_under("option/").filter_map(|key| key.strip_prefix("option/"))
}

fn key(option: &str) -> String {
    format!("option/{option}")
}

/// Returns the parts of a value.
pub fn parts(value: &str) -> Vec<Part> {
    let mut depth = 0_usize;
    // A list in brackets has commas of its own.
    let split = value.split(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    split.map(str::trim).filter(|part| !part.is_empty()).map(part).collect()
}

fn part(written: &str) -> Part {
    let (option, value) =
        written.split_once(':').map_or((written, None), |(option, value)| (option, Some(value)));
    let (option, value) = (option.trim(), value.map(str::trim));
    let mut out = Part {
        written: written.to_owned(),
        option: option.to_owned(),
        value: value.unwrap_or_default().to_owned(),
        fault: None,
        instead: None,
    };
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        out.fault = Some(Fault::NoValue);
        // `option=value`, as variables are written.
        let meant =
            option.split_once('=').and_then(|(option, value)| Some((known(option.trim())?, value.trim())));
        out.instead =
            meant.filter(|(_, value)| !value.is_empty()).map(|(name, value)| corrected(name, value));
        return out;
    };
    let Some(row) = TABLE.row::<OptionRow>(&key(option)) else {
        out.fault = Some(Fault::Unknown);
        out.instead = known(option).map(|name| corrected(name, value));
        return out;
    };
    if let Some(expected) = row.refuses(value) {
        out.fault = Some(Fault::Value(expected));
        let right = row.nearest(value).filter(|right| row.refuses(right).is_none());
        out.instead = right.map(|right| format!("{option}:{right}"));
    }
    out
}

/// Returns the option that a name probably means.
fn known(name: &str) -> Option<&'static str> {
    text::nearest(&name.replace('-', "_"), names())
}

/// Returns an option with the value that is probably meant.
fn corrected(name: &str, value: &str) -> String {
    let row: Option<&OptionRow> = TABLE.row(&key(name));
    let right = row.and_then(|row| if row.refuses(value).is_some() { row.nearest(value) } else { None });
    format!("{name}:{}", right.as_deref().unwrap_or(value))
}

impl OptionRow {
    /// Returns what the option takes, if the value is something else.
    fn refuses(&self, value: &str) -> Option<String> {
        let is_power =
            |value: &str| value.parse::<u64>().is_ok_and(|number| number == 0 || number.is_power_of_two());
        let is_list = || {
            let inner = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            inner.is_some_and(|inner| {
                inner
                    .split(',')
                    .all(|pair| pair.split_once(':').is_some_and(|(_, power)| is_power(power.trim())))
            })
        };
        let number = value.parse::<u64>().ok();
        let in_bounds = number.is_some_and(|number| {
            self.least.is_none_or(|least| number >= least) && self.most.is_none_or(|most| number <= most)
        });
        let (is_taken, expected) = match self.takes? {
            Takes::Truth => (matches!(value, "True" | "False"), "`True` or `False`".to_owned()),
            Takes::Count => (in_bounds, self.describe("a whole number")),
            Takes::Power => (in_bounds && is_power(value), self.describe("a power of 2")),
            Takes::Powers => {
                (is_power(value) || is_list(), "a power of 2, or a list of them by size".to_owned())
            }
            Takes::Share => {
                let is_share = value.parse::<f64>().is_ok_and(|share| share > 0.0 && share < 1.0);
                (is_share, "a number between 0 and 1".to_owned())
            }
            Takes::Any => return None,
            Takes::Word => {
                (self.words.iter().any(|word| word == value), text::backtick_list(&self.words, "or"))
            }
        };
        (!is_taken).then_some(expected)
    }

    fn describe(&self, noun: &str) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) => format!("{noun} from {least} to {most}"),
            (Some(least), None) => format!("{noun} of at least {least}"),
            (None, Some(most)) => format!("{noun} up to {most}"),
            (None, None) => noun.to_owned(),
        }
    }

    /// Returns the value that is probably meant.
    fn nearest(&self, value: &str) -> Option<String> {
        match self.takes? {
            Takes::Truth => match value.to_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Some("True".to_owned()),
                "false" | "0" | "no" | "off" => Some("False".to_owned()),
                _ => None,
            },
            Takes::Word => text::nearest(value, self.words.iter().map(String::as_str)).map(str::to_owned),
            Takes::Count | Takes::Power | Takes::Powers | Takes::Share | Takes::Any => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(value: &str) -> Option<(Fault, Option<String>)> {
        let found = parts(value).into_iter().find(|part| part.fault.is_some())?;
        Some((found.fault?, found.instead))
    }

    #[test]
    fn what_pytorch_takes_has_no_fault() {
        for value in [
            "",
            "expandable_segments:True",
            "expandable_segments: False, max_split_size_mb:512",
            "garbage_collection_threshold:0.8,max_split_size_mb:20",
            "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
            "roundup_power2_divisions:4",
            "backend:cudaMallocAsync",
            "pinned_num_register_threads:8,pinned_use_cuda_host_register:True",
        ] {
            assert_eq!(fault(value), None, "{value}");
        }
        assert!(is_variable("PYTORCH_ALLOC_CONF") && is_variable("PYTORCH_CUDA_ALLOC_CONF"));
        assert!(!is_variable("PYTORCH_NO_CUDA_MEMORY_CACHING"));
    }

    #[test]
    fn faults_say_what_is_meant() {
        let meant = |value: &str| fault(value).and_then(|(_, instead)| instead);
        assert_eq!(meant("expandable_segment:True").as_deref(), Some("expandable_segments:True"));
        assert_eq!(meant("expandable_segments:true").as_deref(), Some("expandable_segments:True"));
        assert_eq!(meant("expandable_segments=True").as_deref(), Some("expandable_segments:True"));
        assert_eq!(meant("expandable-segments:1").as_deref(), Some("expandable_segments:True"));
        assert_eq!(meant("backend:cudaMalloc").as_deref(), None);
        assert_eq!(fault("max_split_size_mb:8").map(|(fault, _)| fault), {
            Some(Fault::Value("a whole number of at least 20".to_owned()))
        });
        assert!(fault("garbage_collection_threshold:80").is_some());
        assert!(fault("roundup_power2_divisions:[256:3]").is_some());
        assert_eq!(fault("no_such_thing:1"), Some((Fault::Unknown, None)));
    }

    #[test]
    fn every_option_has_a_source() {
        for name in names() {
            let row: &OptionRow = TABLE.row(&key(name)).unwrap();
            assert!(row.takes.is_some(), "{name}");
            assert_eq!(row.words.is_empty(), row.takes != Some(Takes::Word), "{name}");
        }
    }
}
