//! Schemas of PyTorch's operators by version. libtorch does not check the number of arguments of a call, so a
//! version whose schemas are not in the table is refused.
//!
//! `aoti_torch_call_dispatcher` pops the results from the last to the first, but converts each by the type of
//! the result at the mirrored place: `schema.returns()[idx]` for `stack[num_returns - idx - 1]`
//! (torch/csrc/shim_common.cpp of 2.10 to 2.15). An operator with results of different types therefore fails,
//! or returns garbage, and is refused here: only tensors are results. Others have a typed function
//! (`ffi::cudnn_attention`).

use std::collections::HashMap;
use std::ffi::CString;

use super::ffi::c_string;
use crate::exit::{Code, Failure};

/// One line an operator and range of versions: first version, last version, schema.
/// `tests/python/aten_schemas.py` compares it with an installed PyTorch.
const TABLE: &str = include_str!("schemas.tsv");

/// Versions of PyTorch whose schemas are in the table.
pub(crate) const FIRST: (u64, u64) = (2, 10);
/// The newest of them.
pub(crate) const LAST: (u64, u64) = (2, 15);

/// Type of an argument or result, as in a schema: `Tensor?`, `SymInt[]`, `Tensor(a!)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    base: &'static str,
    optional: bool,
    alias: bool,
    view: bool,
}

impl Type {
    fn parse(text: &str) -> Self {
        let (text, optional) = text.strip_suffix('?').map_or((text, false), |text| (text, true));
        let list = text.ends_with(']');
        let name = text.split(['(', '[']).next().unwrap_or_default();
        let base = match (name, list) {
            ("Tensor", false) => "Tensor",
            ("Tensor", true) => "Tensor[]",
            ("int" | "SymInt", false) => "int",
            ("int" | "SymInt", true) => "int[]",
            ("float", false) => "float",
            ("bool", false) => "bool",
            ("bool", true) => "bool[]",
            ("str", false) => "str",
            ("ScalarType", false) => "ScalarType",
            // No call has such an argument: the check of each call refuses it.
            _ => "unsupported",
        };
        let alias = text.contains("!)");
        Self { base, optional, alias, view: !alias && text.contains('(') }
    }

    /// Returns the type without `?`, sizes and aliases; symbolic integers are integers.
    pub(crate) fn base(&self) -> &'static str {
        self.base
    }

    /// Returns whether it may be absent.
    pub(crate) fn is_optional(&self) -> bool {
        self.optional
    }

    /// Returns whether a result is a view of an argument.
    pub(crate) fn is_view(&self) -> bool {
        self.view
    }

    /// Returns whether a result is one of the arguments.
    pub(crate) fn is_alias(&self) -> bool {
        self.alias
    }
}

/// Schema of one operator.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    /// `aten::mm`.
    pub name: CString,
    /// `out`; empty for the default overload.
    pub overload: CString,
    /// Types of the arguments, in order.
    pub arguments: Vec<Type>,
    /// Types of the results, in order.
    pub returns: Vec<Type>,
}

/// Splits at commas outside of parentheses and brackets.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

impl Schema {
    /// Parses `mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)`.
    fn parse(text: &str) -> Option<(String, Self)> {
        let (head, returns) = text.split_once(" -> ")?;
        let (name, arguments) = head.split_once('(')?;
        let (base, overload) = name.split_once('.').unwrap_or((name, ""));
        let arguments = split(arguments.strip_suffix(')')?);
        let typed = |part: &str| Type::parse(part.split_whitespace().next().unwrap_or_default());
        let returns = returns.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(returns);
        let schema = Self {
            name: c_string(&format!("aten::{base}")),
            overload: c_string(overload),
            arguments: arguments.into_iter().filter(|part| *part != "*").map(typed).collect(),
            returns: split(returns).into_iter().map(typed).collect(),
        };
        Some((format!("aten::{name}"), schema))
    }

    /// Returns whether the dispatcher's C function can return its results.
    fn is_callable(&self) -> bool {
        self.returns.iter().all(|kind| kind.base == "Tensor" && !kind.optional)
    }
}

/// The operators of one version of PyTorch.
#[derive(Debug)]
pub(crate) struct Operators(HashMap<String, Schema>);

impl Operators {
    /// Returns the schemas of a version. Fails with code 14 if the version is not in the table.
    pub(crate) fn of_version(major: u64, minor: u64) -> Result<Self, Failure> {
        let version = (major, minor);
        if !(FIRST..=LAST).contains(&version) {
            return Err(Failure::new(
                Code::Device,
                format!(
                    "PyTorch {major}.{minor} is unsupported, expected {}.{} to {}.{}: use an \
                        image with one of these",
                    FIRST.0, FIRST.1, LAST.0, LAST.1
                ),
            ));
        }
        let number = |text: &str| -> Option<(u64, u64)> {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let mut all = HashMap::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let mut fields = line.splitn(3, '\t');
            let range = fields.next().and_then(number).zip(fields.next().and_then(number));
            let parsed = fields.next().and_then(Schema::parse);
            let Some(((first, last), (name, schema))) =
                range.zip(parsed).filter(|(_, (_, schema))| schema.is_callable())
            else {
                return Err(Failure::new(Code::Bug, format!("schemas.tsv: `{line}`")));
            };
            if (first..=last).contains(&version) {
                all.insert(name, schema);
            }
        }
        Ok(Self(all))
    }

    /// Returns the schema of `aten::mm.out`.
    pub(crate) fn find(&self, name: &str) -> Option<&Schema> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_read() {
        let all = Operators::of_version(2, 10).unwrap();
        let mm = all.find("aten::mm.dtype_out").unwrap();
        assert_eq!((mm.name.to_str(), mm.overload.to_str()), (Ok("aten::mm"), Ok("dtype_out")));
        let bases: Vec<_> = mm.arguments.iter().map(Type::base).collect();
        assert_eq!(bases, ["Tensor", "Tensor", "ScalarType", "Tensor"]);
        assert!(mm.returns[0].is_alias());
        let adamw = all.find("aten::_fused_adamw_").unwrap();
        assert_eq!((adamw.arguments.len(), adamw.returns.len()), (15, 0));
        assert_eq!(adamw.arguments[0].base(), "Tensor[]");
        assert!(adamw.arguments[14].is_optional());
        let norm = all.find("aten::native_layer_norm_backward").unwrap();
        assert_eq!(norm.arguments[7].base(), "bool[]");
        assert_eq!(norm.returns.len(), 3);
        // Two arguments were added later.
        let counts = [(2, 10), (2, 15)].map(|(major, minor)| {
            let all = Operators::of_version(major, minor).unwrap();
            all.find("aten::_flash_attention_forward").unwrap().arguments.len()
        });
        assert_eq!(counts, [15, 17]);
        for types in all.0.values().flat_map(|schema| &schema.arguments) {
            assert_ne!(types.base(), "unsupported");
        }
    }

    /// The dispatcher's C function converts results by the types at mirrored places.
    #[test]
    fn results_of_different_types_are_refused() {
        let callable = |text: &str| Schema::parse(text).unwrap().1.is_callable();
        assert!(callable("mm(Tensor self, Tensor mat2) -> Tensor"));
        assert!(callable("f(Tensor self) -> ()"));
        assert!(!callable(
            "_choose_qparams_per_tensor(Tensor self, bool reduce_range=False) -> (float, int)"
        ));
        assert!(!callable("f(Tensor self) -> (Tensor, Tensor?)"));
        let attention = "_scaled_dot_product_cudnn_attention(Tensor query) -> (Tensor output, Tensor \
            logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor philox_seed, \
            Tensor philox_offset, Tensor debug_attn_mask)";
        assert!(!callable(attention));
        for minor in FIRST.1..=LAST.1 {
            Operators::of_version(FIRST.0, minor).unwrap();
        }
    }

    /// `trainc check` refuses the same versions before instances start.
    #[test]
    fn the_catalogue_has_the_same_versions() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../trainc-catalog/src/data/worker_gpu.toml");
        let text = std::fs::read_to_string(path).unwrap();
        for (key, (major, minor)) in [("least", FIRST), ("newest", LAST)] {
            assert!(text.contains(&format!("\n{key} = \"{major}.{minor}\"\n")), "{key}");
        }
    }

    #[test]
    fn unknown_versions_are_refused() {
        for (major, minor) in [(2, 9), (2, 16), (3, 0), (1, 13)] {
            let failure = Operators::of_version(major, minor).unwrap_err();
            assert_eq!(failure.code, Code::Device);
            assert!(failure.message.contains("expected 2.10 to 2.15"), "{failure}");
        }
    }
}
