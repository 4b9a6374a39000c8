//! torchtitan, whose file has everything that it trains.

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::{Front, Needs};

/// torchtitan under torchrun.
pub static TORCHTITAN: Front = Front {
    word: "torchtitan",
    title: "torchtitan",
    laws: &[&laws::TITAN, &laws::TITAN_SPLIT_EXPERTS],
    needs: Needs::File,
    file: Some("torchtitan"),
    code: Some("torchtitan"),
    launchers: &[("", Launcher::Torchrun)],
    takes_group: true,
    ..Front::PLAIN
};
