//! DeepSpeed in a program that takes its configuration.

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::{Front, Needs};

/// DeepSpeed under torchrun, whose configuration the Trainer or `deepspeed.initialize` reads.
pub static DEEPSPEED: Front = Front {
    word: "deepspeed",
    title: "deepspeed",
    laws: &[&laws::ZERO],
    needs: Needs::StrategyOrFile,
    file: Some("deepspeed"),
    // transformers, a field of `TrainingArguments`.
    file_option: Some("deepspeed"),
    writes: Some("engine/ds_config.json"),
    launchers: &[("", Launcher::Torchrun)],
    takes_group: true,
    ..Front::PLAIN
};
