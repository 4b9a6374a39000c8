//! Reasons why a job of engine `worker` could not start.

use super::{Verdict, exit};
use trainc_diag::Diagnostic;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_ir::checkpoint_parts::split_checkpoint;

declare_code!(T0617, "worker-binary-missing", Error, "no binary of the Rust worker to upload");
declare_code!(
    T0620,
    "worker-gpu-unsupported",
    Error,
    "the Rust worker on GPU instances, which it does not support yet"
);
declare_code!(
    T0643,
    "worker-checkpoints-not-shared",
    Error,
    "the Rust worker on hosts that do not share a checkpoint directory"
);

/// Returns the reason why a job of engine `worker` cannot be started, if any.
pub fn worker(plan: &Plan) -> Option<Verdict> {
    let parallel = plan.job.parallel.as_ref()?;
    let (worker, span) = (plan.worker.as_ref()?, parallel.engine.span().unwrap_or(parallel.span));
    let refused = |diagnostic| Some(Verdict { diagnostic, exit: exit::MANIFEST, flag: None });
    if let Some(gpu) = plan.machine.as_ref().and_then(|machine| machine.gpu.as_deref()) {
        let cluster = plan.job.cluster.as_ref();
        let kind = cluster.and_then(|cluster| cluster.instance.value()).map_or("the cluster", String::as_str);
        return refused(
            Diagnostic::new(
                &T0620,
                span,
                format!("engine `worker` supports only CPU ranks, but `{kind}` is a GPU instance type ({gpu})"),
            )
            .help("write `engine=\"fsdp\"` with a program, or a type without GPUs, as `cluster \"ml.c7i.48xlarge\" nodes=1 { ranks 8 }`")
            .note("the worker has no CUDA support yet: the job would start its instances and exit with code 14")
            .note("`plan`, `emit` and `run` accept the manifest as is"),
        );
    }
    if let Some(apart) = split_checkpoint(plan) {
        let hosts = text::count(apart.hosts(), "host");
        return refused(
            Diagnostic::new(
                &T0643,
                parallel.shard_degree.span().unwrap_or(parallel.span),
                format!("a shard group spans {hosts} that do not share a checkpoint directory"),
            )
            .help(format!(
                "write `shard-degree {}`, or keep checkpoints on a shared file system: `trainc explain T0487`",
                apart.ranks_per_host
            ))
            .note("the job would start its instances and exit with code 11 before its first step")
            .note("`plan`, `emit` and `run` accept the manifest as is"),
        );
    }
    let missing = |message: &str| {
        refused(
            Diagnostic::new(&T0617, span, message)
                .help("build it with `cargo build --release -p trainc-worker`, then pass it with `--worker`")
                .note("the job's channel `worker` holds `trainc-worker` and `worker.json`, below the job's digest"),
        )
    };
    match &worker.binary {
        None => missing("there is no `trainc-worker` binary next to trainc to upload"),
        Some(file) if !runs_in_container(&file.bytes) => {
            missing("`trainc-worker` is not a Linux x86-64 binary, so the container cannot run it")
        }
        Some(_) => None,
    }
}

/// Returns true for a 64-bit ELF program for x86-64, which all containers of instances without GPUs require: magic
/// number, class, byte order, and `e_machine` 62 (System V ABI, AMD64 supplement).
fn runs_in_container(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01") && bytes.get(18..20) == Some(&[62, 0][..])
}
