//! transformers' own parallelism.

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::Front;

/// transformers' `DistributedConfig` under torchrun.
pub static DISTRIBUTED_CONFIG: Front = Front {
    word: "distributed-config",
    title: "distributed-config",
    laws: &[&laws::DISTRIBUTED, &laws::DISTRIBUTED_AUTO],
    file: Some("distributed-config"),
    writes: Some("engine/distributed.json"),
    launchers: &[("", Launcher::Torchrun)],
    takes_group: true,
    ..Front::PLAIN
};
