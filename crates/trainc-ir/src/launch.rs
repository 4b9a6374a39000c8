//! The launcher of the ranks and its parameters, as decided.

use super::scalar::Scalar;

/// The start of the ranks on each host. Parameters that the launcher does not take are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// The launcher.
    pub launcher: Launcher,
    /// `pytorchddp` is sent as `smddp`: the PyTorch estimator of the SageMaker SDK rewrites it.
    pub is_rewritten_to_smddp: bool,
    /// Processes per host, where sent: under MPI as written, under SMP v1 always.
    pub processes_per_host: Option<u64>,
    /// The options of `mpirun` or `smddprun`.
    pub mpi_options: String,
    /// The instance type by which the launcher chooses its network.
    pub instance: Option<String>,
    /// The instance group on whose hosts the toolkit starts the launcher.
    pub group: Option<String>,
    /// The engine's own parameters by its names, in the order in which they are sent.
    pub parameters: Vec<(&'static str, Scalar)>,
}

/// The launcher of a job's ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Launcher {
    /// `torchrun`, started by the training toolkit of the image.
    Torchrun,
    /// `torchrun`, started by the launch script in the source archive.
    LaunchScript,
    /// `accelerate launch`, started by the launch script in the source archive.
    Accelerate,
    /// `pytorchddp` of the toolkit.
    PytorchDdp,
    /// `mpirun`.
    Mpi,
    /// `smddprun` of the SageMaker data parallel library.
    Smddp,
    /// `mpirun` with SageMaker model parallel v1.
    SmpV1,
    /// `torchrun` with SageMaker model parallel v2.
    SmpV2,
    /// TensorFlow's parameter server, started by the training toolkit of the image.
    ParameterServer,
    /// TensorFlow's `MultiWorkerMirroredStrategy`, for which the training toolkit sets `TF_CONFIG`.
    MultiWorkerMirrored,
    /// One plain process on each host.
    #[default]
    Plain,
}

impl Launcher {
    /// Describes the launcher, for reports.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Torchrun => "torchrun",
            Self::LaunchScript => "torchrun, started by trainc's launch script",
            Self::Accelerate => "accelerate launch",
            Self::PytorchDdp => "pytorchddp",
            Self::Mpi => "mpirun",
            Self::Smddp => "smddprun",
            Self::SmpV1 => "mpirun with SMP v1",
            Self::SmpV2 => "torchrun with SMP v2",
            Self::ParameterServer => "TensorFlow's parameter server",
            Self::MultiWorkerMirrored => "TensorFlow's MultiWorkerMirroredStrategy",
            Self::Plain => "one plain process on each host",
        }
    }
}
