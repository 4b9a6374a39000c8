//! One process that places layers on the GPUs of one node.

use crate::laws;
use trainc_ir::engine::Front;

/// A device map, as accelerate computes it.
pub static DEVICE_MAP: Front =
    Front { word: "device-map", title: "device-map", laws: &[&laws::DEVICE_MAP], ..Front::PLAIN };
