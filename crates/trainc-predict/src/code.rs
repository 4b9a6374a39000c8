//! Implementations of models, by the names in `codes.toml`.

use super::from_plan::version_at_least;
use serde::Deserialize;
use std::sync::LazyLock;

/// Implementations of models, which differ in kernels and in the tensors that they keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// transformers, and scripts like its examples.
    HuggingFace,
    /// Megatron-LM.
    Megatron,
    /// Megatron-Core with Transformer Engine: NeMo, Megatron-Bridge.
    MegatronCore,
    /// Megatron-DeepSpeed and GPT-NeoX: Megatron's layers under DeepSpeed's engine.
    MegatronDeepspeed,
    /// nanotron.
    Nanotron,
    /// litgpt.
    Litgpt,
    /// torchtitan, and similar code under `torch.compile`.
    Torchtitan,
    /// torchtune.
    Torchtune,
    /// Composer's llm-foundry.
    Composer,
    /// The Rust FSDP worker.
    Worker,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeRow {
    code: Code,
    names: Vec<String>,
    #[serde(default)]
    reports_first_stage: bool,
    #[serde(default)]
    wraps_adapters_with_weights: bool,
    #[serde(default)]
    reduces_in_16_bit: Vec<String>,
    #[serde(default)]
    splits_sequences: bool,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeTable {
    code: Vec<CodeRow>,
}

fn rows() -> &'static [CodeRow] {
    static ONCE: LazyLock<CodeTable> =
        LazyLock::new(|| toml::from_str(include_str!("codes.toml")).unwrap_or_default());
    &ONCE.code
}

impl Code {
    /// Returns the implementation of that name, in any case; `None` if the name is unknown.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        rows().iter().find(|row| row.names.contains(&name)).map(|row| row.code)
    }

    /// Returns its first name.
    pub fn as_str(self) -> &'static str {
        rows()
            .iter()
            .find(|row| row.code == self)
            .and_then(|row| row.names.first())
            .map_or("", String::as_str)
    }

    /// Returns the implementation that the `framework` and `engine` columns of a table of runs name, if it
    /// has no `code`; by default transformers. Of several names in them the longest counts.
    pub fn from_columns(framework: &str, engine: &str) -> Self {
        let text = format!("{framework} {engine}").to_ascii_lowercase();
        // ZeRO's own name says nothing about the model.
        let names = |row: &'static CodeRow| {
            row.names.iter().filter(|name| *name != "deepspeed").map(|name| (name, row.code))
        };
        let framework = framework.to_ascii_lowercase();
        if framework.starts_with("deepspeed") && text.contains("megatron") {
            return Self::MegatronDeepspeed;
        }
        rows()
            .iter()
            .flat_map(names)
            .filter(|(name, _)| text.contains(name.as_str()))
            .max_by_key(|(name, _)| name.len())
            .map_or(Self::HuggingFace, |(_, code)| code)
    }

    /// Returns its name in a sentence.
    pub fn display_name(self) -> &'static str {
        match self {
            Self::HuggingFace => "Hugging Face",
            Self::Worker => "the worker's",
            other => other.as_str(),
        }
    }

    /// Returns true if the peaks of memory that it reports are those of the first pipeline stage.
    pub fn reports_first_stage(self) -> bool {
        rows().iter().any(|row| row.code == self && row.reports_first_stage)
    }

    /// Returns true if FSDP frees a unit of frozen weights after its backward pass, with a version of
    /// PyTorch; one without a number is recent.
    ///
    /// PyTorch frees units without a gradient since 2.1 (pytorch#101982). Adapters must be units of their
    /// own, as PEFT's `fsdp_auto_wrap_policy` makes them: a unit that is flattened together with them has
    /// one.
    pub fn frees_frozen(self, pytorch: Option<&str>) -> bool {
        let is_recent = pytorch.is_none_or(|version| version_at_least(version, (2, 1)));
        is_recent && !rows().iter().any(|row| row.code == self && row.wraps_adapters_with_weights)
    }

    /// Returns true if the recipes of a program of this name reduce and keep gradients in 16 bit beside
    /// 16-bit weights.
    pub fn reduces_in_16_bit(name: &str) -> bool {
        let name = name.trim().to_ascii_lowercase();
        rows().iter().any(|row| row.reduces_in_16_bit.contains(&name))
    }

    /// Returns true if its plan of tensor parallelism splits the tensors between the split matrices along the
    /// sequence.
    pub fn splits_sequences(self) -> bool {
        rows().iter().any(|row| row.code == self && row.splits_sequences)
    }

    /// Returns true for Megatron's layers, under whichever engine.
    pub fn is_megatron(self) -> bool {
        matches!(self, Self::Megatron | Self::MegatronCore | Self::MegatronDeepspeed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_every_code_has_one() {
        let mut names: Vec<&String> = rows().iter().flat_map(|row| &row.names).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), rows().len()), (count, 10));
        assert!(rows().iter().all(|row| Code::parse(row.code.as_str()) == Some(row.code)));
        assert_eq!(Code::parse("TorchTitan"), Some(Code::Torchtitan));
        assert_eq!(Code::parse("mytrainer"), None);
    }

    #[test]
    fn columns_without_a_code_name_it_in_their_words() {
        for (framework, engine, code) in [
            ("Megatron-DeepSpeed", "Megatron 3D", Code::MegatronDeepspeed),
            ("DeepSpeed 0.6.2 Megatron-DeepSpeed", "DeepSpeed ZeRO-3", Code::MegatronDeepspeed),
            ("Megatron-LM", "Megatron TP+PP", Code::Megatron),
            ("Megatron-Core", "Megatron 3D", Code::MegatronCore),
            ("composer/llm-foundry", "FSDP FULL_SHARD", Code::Composer),
            ("litgpt / torch 2.1", "lora", Code::Litgpt),
            ("transformers + DeepSpeed 0.14.2", "DeepSpeed ZeRO-3", Code::HuggingFace),
            ("pytorch", "SMP v1.11 sharded data parallel", Code::HuggingFace),
            ("", "FSDP", Code::HuggingFace),
        ] {
            assert_eq!(Code::from_columns(framework, engine), code, "{framework} {engine}");
        }
    }
}
