//! DeepSpeed in a program that takes its configuration.

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::Front;

/// DeepSpeed under torchrun, whose configuration the Trainer or `deepspeed.initialize` reads.
pub static DEEPSPEED: Front = Front {
    word: "deepspeed",
    title: "deepspeed",
    laws: &[&laws::ZERO],
    file: Some("deepspeed"),
    launchers: &[("", Launcher::Torchrun)],
    takes_group: true,
    ..Front::PLAIN
};
