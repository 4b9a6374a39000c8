//! The engine of GPUs on CPU tensors, with the PyTorch in `TRAINC_TORCH_LIB`; without the variable nothing runs here. The
//! ranks communicate over `nccl_double.c`.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainc_worker::aten::{self, Attention, Libraries, Runtime};
use trainc_worker::comm::Groups;
use trainc_worker::config::Config;
use trainc_worker::exit::Failure;
use trainc_worker::fsdp::Engine;

use crate::parity::check_engine;

/// Builds the double, unless another test process has.
pub(crate) fn double() -> PathBuf {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnccl-double.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nccl_double.c");
    let time = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    if time(&library) > time(&source) {
        return library;
    }
    let partial = library.with_extension(std::process::id().to_string());
    let built = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&partial, &source])
        .status()
        .unwrap();
    assert!(built.success(), "cc");
    std::fs::rename(&partial, &library).unwrap();
    library
}

/// Returns the PyTorch to test with; none if the variable is not set.
pub(crate) fn runtime() -> Option<Runtime> {
    let torch = std::env::var_os("TRAINC_TORCH_LIB")?;
    let library = double();
    Some(Runtime {
        torch: torch.into(),
        gpu: false,
        libraries: Some(Libraries { nccl: library.clone(), cudart: library }),
        traced: Attention::Flash,
    })
}

pub(crate) fn aten_engine(config: &Config, groups: Groups) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(aten::create(config, groups, &runtime().unwrap(), None)?))
}

/// Compares a recorded case on one, two and four ranks: shard groups of all ranks, or of half of them.
#[track_caller]
fn recorded(name: &str, four: (usize, usize)) {
    if runtime().is_none() {
        return;
    }
    for (shards, replicas) in [(1, 1), (2, 1), four] {
        check_engine(name, shards, replicas, &aten_engine);
    }
}

#[test]
fn llama() {
    recorded("llama", (4, 1));
}

#[test]
fn llama_accumulation_cosine() {
    recorded("llama-accumulation-cosine", (2, 2));
}

#[test]
fn llama_tied_linear() {
    recorded("llama-tied-linear", (2, 2));
}

#[test]
fn llama_unclipped() {
    recorded("llama-unclipped", (1, 4));
}

#[test]
fn llama_documents() {
    recorded("llama-documents", (4, 1));
}

#[test]
fn gpt2() {
    recorded("gpt2", (4, 1));
}

#[test]
fn gpt2_documents() {
    recorded("gpt2-documents", (2, 2));
}

#[test]
fn gpt_neox() {
    recorded("gpt-neox", (4, 1));
}
