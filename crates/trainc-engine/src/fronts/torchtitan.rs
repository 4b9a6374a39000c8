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
    // 0.2.2 `config/manager.py`.
    file_option: Some("job.config_file"),
    code: Some("torchtitan"),
    launchers: &[("", Launcher::Torchrun)],
    takes_group: true,
    // 0.2.2 `components/tokenizer.py` reads the directory `hf_assets_path`; a script of its own fills it.
    loads_from_hub: false,
    ..Front::PLAIN
};
