//! Accelerators and instance types, with units in the field names.

/// The kind of an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AcceleratorKind {
    /// A CUDA device.
    Gpu,
    /// An AWS Trainium chip.
    Trainium,
}

impl AcceleratorKind {
    /// Returns the noun for one device.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Trainium => "chip",
        }
    }

    /// Returns `gpu` or `trainium`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Trainium => "trainium",
        }
    }
}

/// The architecture of a CPU, for which an image is built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
pub enum CpuArchitecture {
    /// AMD and Intel.
    #[default]
    #[serde(rename = "x86-64")]
    X86,
    /// AWS Graviton and NVIDIA Grace.
    #[serde(rename = "arm64")]
    Arm,
}

impl CpuArchitecture {
    /// Returns `x86-64` or `arm64`.
    pub fn word(self) -> &'static str {
        match self {
            Self::X86 => "x86-64",
            Self::Arm => "arm64",
        }
    }

    /// Returns the architecture of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::X86, Self::Arm].into_iter().find(|one| one.word() == word)
    }
}

/// The source and date of a catalogue row.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Provenance {
    /// Publication, file or measurement.
    pub source: String,
    /// `YYYY-MM-DD` on which the source was read, or from which the row is valid.
    pub date: String,
}

/// An accelerator device. A figure without a source is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Accelerator {
    /// Short name, as in a manifest: `A100-SXM4-40GB`.
    pub name: String,
    /// Product name: `NVIDIA A100 SXM4 40GB`.
    pub product: String,
    /// `nvidia` or `aws`.
    pub vendor: String,
    /// GPU or Trainium.
    pub kind: AcceleratorKind,
    /// `Ampere`, `Hopper`, `NeuronCore-v2`.
    pub architecture: String,
    /// CUDA compute capability, for GPUs.
    pub compute_capability: Option<(u8, u8)>,
    /// Device memory in bytes, as the instance reports it (MiB x 2^20).
    pub memory_bytes: Option<u64>,
    /// Memory available to a process, bytes, as CUDA reports it: without the driver's part.
    pub usable_bytes: Option<u64>,
    /// Dense bf16 peak, TFLOP/s.
    pub peak_bf16_tflops: Option<f64>,
    /// Dense fp16 peak, TFLOP/s.
    pub peak_fp16_tflops: Option<f64>,
    /// Device memory bandwidth, decimal GB/s.
    pub memory_bandwidth_gb_s: Option<f64>,
    /// NVLink, decimal GB/s, sum of both directions; 0 for a device without NVLink.
    pub nvlink_gb_s: Option<f64>,
    /// Ranks that torchrun starts on one device: 1 for a GPU, the number of NeuronCores for a Trainium chip.
    pub ranks: u64,
    /// The first release of the Neuron SDK that supports it, for Trainium from its second generation on.
    pub least_neuron: Option<String>,
    /// Has bf16 tensor cores.
    pub bf16: bool,
    /// A note on the figures.
    pub note: Option<String>,
    /// The source of the figures.
    pub provenance: Provenance,
}

impl Accelerator {
    /// Returns the fraction of the memory that is available to a process.
    pub fn usable_share(&self) -> Option<f64> {
        Some(self.usable_bytes? as f64 / self.memory_bytes.filter(|bytes| *bytes > 0)? as f64)
    }
}

/// An instance type with accelerators. A figure without a source is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// `ml.p4d.24xlarge`.
    pub name: String,
    /// Devices per instance.
    pub accelerators: u32,
    /// The device.
    pub accelerator: Accelerator,
    /// The architecture of its CPUs.
    pub cpu: CpuArchitecture,
    /// Virtual CPUs.
    pub vcpus: Option<u32>,
    /// Host memory in bytes.
    pub host_memory_bytes: Option<u64>,
    /// Network bandwidth per instance, gigabits per second.
    pub network_gbps: Option<f64>,
    /// Offers the Elastic Fabric Adapter.
    pub efa: Option<bool>,
    /// EFA interfaces.
    pub efa_interfaces: Option<u32>,
    /// Total local NVMe, decimal GB.
    pub nvme_total_gb: Option<u64>,
    /// Local NVMe disks: (count, decimal GB each).
    pub nvme_disks: Vec<(u32, u64)>,
    /// `VolumeSizeInGB` is ignored and `VolumeKmsKeyId` rejected: storage is the local NVMe.
    pub ebs_volume_ignored: bool,
    /// Is in the enumeration of CreateTrainingJob.
    pub in_sagemaker_enum: bool,
    /// SMDDP 1.x supports it.
    pub smddp_v1: bool,
    /// SMDDP 2.x supports it.
    pub smddp_v2: bool,
    /// SMP 1.x supports it.
    pub smp_v1: bool,
    /// The training toolkit sets `FI_PROVIDER=efa` on this type.
    pub toolkit_sets_nccl_efa_env: bool,
    /// The training toolkit sets `FI_EFA_USE_DEVICE_RDMA` on this type.
    pub toolkit_sets_efa_rdma_env: bool,
    /// Is part of an UltraServer.
    pub ultra_server: bool,
    /// Regions where EC2 (not SageMaker) offers the type.
    pub ec2_offering_regions: Vec<String>,
    /// The reason why the type is considered retired, if it is.
    pub retired: Option<String>,
    /// A note on the row.
    pub note: Option<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

impl Instance {
    /// Returns the family: `p4d` for `ml.p4d.24xlarge`.
    pub fn family(&self) -> &str {
        self.name.split('.').nth(1).unwrap_or("")
    }

    /// Returns the memory of all devices of one instance, in bytes.
    pub fn accelerator_memory_bytes(&self) -> Option<u64> {
        self.accelerator.memory_bytes.map(|bytes| bytes * u64::from(self.accelerators))
    }
}
