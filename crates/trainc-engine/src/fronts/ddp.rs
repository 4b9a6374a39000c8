//! Data parallelism by PyTorch or by SageMaker's library.

use crate::laws;
use trainc_ir::Launcher;
use trainc_ir::engine::Front;

/// PyTorch DDP, under torchrun, SageMaker's `pytorchddp` or MPI.
pub static DDP: Front = Front {
    word: "ddp",
    title: "ddp",
    laws: &[&laws::DDP],
    launchers: &[
        ("torchrun", Launcher::Torchrun),
        ("pytorchddp", Launcher::PytorchDdp),
        ("mpi", Launcher::Mpi),
    ],
    takes_group: true,
    ..Front::PLAIN
};

/// SageMaker distributed data parallel.
pub static SMDDP: Front = Front {
    word: "smddp",
    title: "smddp",
    laws: &[&laws::SMDDP],
    launchers: &[("", Launcher::Smddp)],
    libraries: &["smddp-v1", "smddp-v2"],
    takes_group: true,
    ..Front::PLAIN
};
