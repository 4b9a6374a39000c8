//! PyTorch FSDP in a script of the user.

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::{Front, Prefetch};

/// PyTorch FSDP under torchrun.
pub static FSDP: Front = Front {
    word: "fsdp",
    title: "fsdp",
    laws: &[&laws::FSDP],
    // What the arguments of a Trainer select.
    laws_of_files: &[&laws::FSDP1, &laws::FSDP2, &laws::ZERO],
    launchers: &[("", Launcher::Torchrun)],
    takes_group: true,
    // The values of PyTorch's `BackwardPrefetch`, and `none`.
    prefetch: Some(Prefetch::Words(&["backward-pre", "backward-post", "none"])),
    ..Front::PLAIN
};
