//! accelerate, whose launcher starts the ranks with FSDP or DeepSpeed.

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::Front;

/// Hugging Face accelerate under `accelerate launch`: FSDP2 or, by the strategy, ZeRO. FSDP1, plain data
/// parallelism and none at all are what its file may say.
pub static ACCELERATE: Front = Front {
    word: "accelerate",
    title: "accelerate",
    laws: &[&laws::FSDP2, &laws::ZERO, &laws::FSDP1, &laws::DDP, &laws::SCRIPT],
    file: Some("accelerate"),
    writes: Some("engine/accelerate.yaml"),
    launchers: &[("", Launcher::Accelerate)],
    takes_group: true,
    ..Front::PLAIN
};
