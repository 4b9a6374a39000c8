//! Engine of GPUs: PyTorch's kernels and NCCL, loaded at run time from the PyTorch that is installed in the
//! container. The backward pass is written out, as on CPU ranks; nothing of CUDA or PyTorch is needed to
//! build the worker. The same code runs on CPU tensors, where tests compare it with recorded results of
//! PyTorch.
//!
//! Compute is on stream 0, collectives on one side stream; `comm` is the one place where they are ordered.

mod block;
mod comm;
mod device;
mod embedding_head;
mod engine;
mod ffi;
mod find;
mod schemas;
mod selfcheck;
pub mod trace;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::comm::{Groups, Watchdog};
use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::fault_injection;
use crate::fsdp::MemoryParts;
use comm::Comm;
use device::Device;
use ffi::{Group, Limits, Links, Place, UniqueId};

pub use device::Attention;
pub(crate) use device::CUDNN_HEAD;
pub(crate) use embedding_head::chunk_rows;
pub use engine::AtenEngine;
pub use ffi::{allocated, version};
pub use find::{Libraries, VARIABLE as TORCH_VARIABLE, torch_directory, visible_gpus};
pub use selfcheck::{Deviation, measure};

/// Major compute capability of the oldest GPUs with bf16 and flash attention: Ampere.
const LEAST_CAPABILITY: i32 = 8;

/// Place of an engine's tensors, and its libraries.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// `torch/lib` of the installed PyTorch.
    pub torch: PathBuf,
    /// The GPU; without it CPU tensors, for tests.
    pub gpu: bool,
    /// Libraries of collectives, if not those that libtorch has loaded.
    pub libraries: Option<Libraries>,
    /// Kernels of attention whose calls a trace of CPU tensors contains.
    pub traced: Attention,
}

impl Runtime {
    /// Returns where a rank of this config computes; none on the CPU's own kernels.
    pub fn detect(config: &Config) -> Result<Option<Self>, Failure> {
        let double = fault_injection::tensors();
        if !config.uses_gpus() && double.is_none() {
            return Ok(None);
        }
        let libraries = double.map(|double| Libraries { nccl: double.clone(), cudart: double });
        Ok(Some(Self {
            torch: torch_directory()?,
            gpu: config.uses_gpus(),
            libraries,
            traced: Attention::Flash,
        }))
    }
}

/// Sends the first rank's identification of a new group to the others.
fn share_id(group: &mut dyn crate::comm::Collectives, links: &Links) -> Result<UniqueId, Failure> {
    let mut bytes = [0.0; 128];
    if group.rank() == 0 {
        bytes = links.unique_id()?.0.map(f64::from);
    }
    group.all_reduce_f64(&mut bytes)?;
    Ok(UniqueId(bytes.map(|byte| byte as u8)))
}

/// PyTorch's libraries and the collectives of one rank, before its engine exists.
pub struct Connection {
    comm: Comm,
    device: Device,
    /// The GPU's other kernels of attention.
    others: Vec<Attention>,
}

/// Loads the libraries and connects the ranks of each group. `board` is where the ranks of this host report.
pub fn connect(
    config: &Config,
    groups: &mut Groups,
    runtime: &Runtime,
    board: Option<(&Watchdog, usize)>,
) -> Result<Connection, Failure> {
    ffi::load(&runtime.torch, runtime.gpu)?;
    let shard = (groups.shard.rank(), groups.shard.size());
    let replica = (groups.replica.rank(), groups.replica.size());
    let mut links = None;
    if runtime.gpu || shard.1 > 1 || replica.1 > 1 {
        let libraries = runtime.libraries.clone().map_or_else(find::loaded_libraries, Ok)?;
        let mut made = Links::load(&libraries.nccl, &libraries.cudart)?;
        let parts = MemoryParts::on_gpu(config);
        // The libraries' own memory is an estimate, and partly in use already.
        let (needed, free) = (parts.total() - parts.buffers, made.free_memory()?);
        if runtime.gpu && needed > free {
            let (needed, free) = (needed >> 20, free >> 20);
            return Err(Failure::new(
                Code::Config,
                format!("a rank requires {needed} MiB of GPU memory, but only {free} MiB are free"),
            ));
        }
        if runtime.gpu {
            let (major, minor) = made.capability()?;
            if major < LEAST_CAPABILITY {
                return Err(Failure::new(
                    Code::Device,
                    format!(
                        "a GPU of compute capability {LEAST_CAPABILITY}.0 or newer is required, \
                            but this one has {major}.{minor}"
                    ),
                ));
            }
        }
        if let Some((board, rank)) = board {
            let (board, last) = (board.clone(), board.clone());
            let limit = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            let c = &config.communication;
            let limits = Limits { collective: limit(c.collective_seconds), join: limit(c.join_seconds) };
            let record = move |failure: &Failure| last.record_reason(rank, &failure.message);
            made.watch(limits, move || board.check(), record)?;
        }
        for (group, members, (rank, size)) in
            [(Group::Shard, groups.shard.as_mut(), shard), (Group::Replica, groups.replica.as_mut(), replica)]
        {
            if size > 1 {
                let id = share_id(members, &made)?;
                made.join(group, size, rank, id)?;
            }
        }
        links = Some(made);
    }
    let (mut device, mut others) = (Device::cpu(runtime.traced), Vec::new());
    if let Some(links) = links.as_ref().filter(|_| runtime.gpu) {
        let (capability, dim) = (links.capability()?, config.model.head_dim);
        let attention = device::attention_kernels(config.gpu.attention, capability, dim);
        device = Device { place: Place::Cuda, attention };
        // Documents are masked by flash attention alone.
        if device::has_cudnn_attention(capability, dim) && !config.data.document_mask {
            others = [Attention::Flash, Attention::Cudnn].into_iter().filter(|a| *a != attention).collect();
        }
    }
    Ok(Connection { comm: Comm::new(links, device.place, shard, replica.1), device, others })
}

impl Connection {
    /// Runs the self-check; every rank must call it. With a directory, only if none has passed there before
    /// with this binary, PyTorch, GPU, model and mesh. Returns what was found, if it ran.
    pub fn self_check(
        self,
        config: &Config,
        mut groups: Groups,
        remembered: Option<&Path>,
    ) -> Result<(Groups, Self, Option<Value>), Failure> {
        let mut passed = None;
        if let Some(directory) = remembered {
            let mut found = [0.0];
            if groups.world.rank() == 0 {
                let key = selfcheck::key(config, &self.comm, &find::gpu_name())?;
                let path = directory.join(format!("selfcheck-{}.json", &key[..16]));
                found[0] = f64::from(u8::from(path.is_file()));
                passed = Some(path);
            }
            groups.world.all_reduce_f64(&mut found)?;
            if found[0] > 0.0 {
                return Ok((groups, self, None));
            }
        }
        let (groups, comm, found) = selfcheck::run(config, groups, self.comm, self.device, &self.others)?;
        let clean = found["warnings"].as_array().is_some_and(Vec::is_empty);
        if let Some(path) = passed.filter(|_| clean) {
            // Without the file the check only runs again.
            let _ = path.parent().map(std::fs::create_dir_all);
            let _ = std::fs::write(path, format!("{found:#}\n"));
        }
        Ok((groups, Self { comm, ..self }, Some(found)))
    }

    /// Creates the engine with fresh weights. The peak of its memory is measured from here on.
    pub fn into_engine(self, config: &Config, groups: Groups) -> Result<AtenEngine, Failure> {
        ffi::reset_peak();
        AtenEngine::new(config, groups, self.device, self.comm)
    }
}

/// Connects one rank and creates its engine with fresh weights.
pub fn create(config: &Config, mut groups: Groups, runtime: &Runtime) -> Result<AtenEngine, Failure> {
    connect(config, &mut groups, runtime, None)?.into_engine(config, groups)
}
