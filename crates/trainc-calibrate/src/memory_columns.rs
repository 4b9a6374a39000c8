//! Settings of a row that only memory depends on.

use super::run_row::RunRow;
use trainc_predict::{Code, Layout, Precision, Sharding, System};

impl RunRow<'_> {
    /// Returns the layout with the settings that only memory depends on, or the reason why memory cannot be
    /// judged.
    pub(super) fn memory_layout(&self, mut layout: Layout) -> Result<Layout, String> {
        if self.text("engine").contains("padded") {
            return Err("its sequences are padded by an unknown amount".to_owned());
        }
        if self.text("mem_kind") == "computed" {
            return Err("its memory was computed by the source, not measured".to_owned());
        }
        if matches!(layout.code, Code::Litgpt | Code::Torchtune) {
            layout.precision = Precision::Pure16 { bf16: true };
        }
        if layout.code != Code::HuggingFace && !matches!(layout.system, System::Megatron | System::DeepSpeed)
        {
            layout.model.dropout = false;
        }
        // transformers computed GELU in separate operations until torch 1.4 had a kernel for it.
        let old = self.number("year").is_some_and(|year| year <= 2020.0);
        layout.model.composite_gelu = old && layout.code == Code::HuggingFace && !layout.compiled;
        // Megatron-DeepSpeed pipelines use ZeRO-1 by default (BigScience's scripts).
        let is_default = self.text("zero_stage").is_empty() && !self.text("engine").contains("ZeRO");
        if layout.code == Code::MegatronDeepspeed && layout.system == System::Megatron && is_default {
            layout.sharding = Sharding::Optimizer;
        }
        Ok(layout)
    }
}
