//! What only memory asks of a row: what its framework keeps, and what it does where the row is silent.

use super::row::Row;
use trainc_predict::{AdapterKind, Code, Layout, Precision, Sharding, System};

/// Kinds of adapters by litgpt's names for them.
pub(super) fn adapter_kind(engine: &str) -> AdapterKind {
    if engine.contains("lora") {
        AdapterKind::LowRank
    } else if engine.contains("adapter2") || engine.contains("adapter_v2") {
        AdapterKind::Scaled
    } else {
        AdapterKind::Prompt
    }
}

impl Row<'_> {
    /// The layout as memory sees it, or why memory cannot be judged.
    pub(super) fn memory_layout(&self, mut layout: Layout) -> Result<Layout, String> {
        if self.text("engine").contains("padded") {
            return Err("its sequences are padded: how far is not given".to_owned());
        }
        if self.text("mem_kind") == "computed" {
            return Err("its memory is computed by the source, not measured".to_owned());
        }
        if matches!(layout.code, Code::LitGpt | Code::TorchTune) {
            layout.precision = Precision::Pure16 { bf16: true };
        }
        if layout.code != Code::HuggingFace && !matches!(layout.system, System::Megatron | System::DeepSpeed)
        {
            layout.model.dropout = false;
        }
        // transformers wrote GELU in separate operations until torch 1.4 had a kernel for it.
        let old = self.number("year").is_some_and(|year| year <= 2020.0);
        layout.model.composite_gelu = old && layout.code == Code::HuggingFace && !layout.compiled;
        // Megatron-DeepSpeed's pipelines run under ZeRO-1 where nothing else is said (BigScience's own scripts).
        let unsaid = self.text("zero_stage").is_empty() && !self.text("engine").contains("ZeRO");
        if layout.code == Code::MegatronDeepSpeed && layout.system == System::Megatron && unsaid {
            layout.sharding = Sharding::Optimizer;
        }
        Ok(layout)
    }
}
