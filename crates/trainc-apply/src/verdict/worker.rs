//! Reasons why a job of engine `worker` could not start, and what is not known about it on GPUs.

use super::{Verdict, exit};
use trainc_catalog::worker_gpu;
use trainc_diag::Diagnostic;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_ir::Plan;
use trainc_ir::checkpoint_parts::split_checkpoint;

declare_code!(
    T0617,
    "worker-binary-missing",
    Error,
    "no binary of the Rust worker to upload",
    found_in: Account
);
declare_code!(
    T0620,
    "worker-gpu-experimental",
    Warning,
    "the Rust worker on a GPU type on which trainc's authors have not run it",
    found_in: Account
);
declare_code!(
    T0643,
    "worker-checkpoints-not-shared",
    Error,
    "the Rust worker on hosts that do not share a checkpoint directory",
    found_in: Account
);

/// Returns the reason why a job of engine `worker` cannot be started, if any.
pub fn worker(plan: &Plan) -> Option<Verdict> {
    let parallel = plan.job.parallel.as_ref()?;
    let (worker, span) = (plan.worker.as_ref()?, parallel.engine.span().unwrap_or(parallel.span));
    let refused = |diagnostic| Some(Verdict { diagnostic, exit: exit::MANIFEST, flag: None });
    if let Some(apart) = split_checkpoint(plan) {
        let hosts = text::count(apart.hosts(), "host");
        return refused(
            Diagnostic::new(
                &T0643,
                parallel.shard_degree.span().unwrap_or(parallel.span),
                format!("a shard group spans {hosts} that do not share a checkpoint directory"),
            )
            .help(format!(
                "write `shard-degree {}`, or keep checkpoints on a shared file system: `trainc \
                    explain T0487`",
                apart.ranks_per_host
            ))
            .note("the job would start its instances and exit with code 11 before its first step")
            .note("`plan`, `emit` and `run` accept the manifest as is"),
        );
    }
    let missing =
        |message: &str| {
            refused(
            Diagnostic::new(&T0617, span, message)
                .help("build it with `cargo build --release -p trainc-worker`, then pass it with `--worker`")
                .note("the job's channel `worker` holds `trainc-worker` and `worker.json`, below the \
                    job's digest"),
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

/// Returns a warning for GPUs on which no run of the worker was seen: another type, or more of them.
pub fn worker_experimental(plan: &Plan) -> Option<Diagnostic> {
    let parallel = plan.job.parallel.as_ref().filter(|_| plan.worker.is_some())?;
    let gpu = plan.machine.as_ref()?.gpu.as_deref()?;
    let row = plan.instance.as_ref().map(|instance| instance.accelerator.name.as_str());
    let seen = worker_gpu::most_gpus_seen(row.unwrap_or(gpu));
    let gpus = plan.mesh.as_ref().map_or(1, |mesh| mesh.nodes * mesh.gpus_per_node);
    if gpus <= seen {
        return None;
    }
    let cluster = plan.job.cluster.as_ref();
    let kind = cluster.and_then(|cluster| cluster.instance.value()).map_or("the cluster", String::as_str);
    Some(
        Diagnostic::new(
            &T0620,
            parallel.engine.span().unwrap_or(parallel.span),
            if seen == 0 {
                format!(
                    "engine `worker` is experimental on GPUs: trainc's authors have not run it on \
                    `{kind}` ({gpu})"
                )
            } else {
                format!(
                    "engine `worker` is experimental on several GPUs: trainc's authors have run \
                        it on {seen} {gpu}, not on the {gpus} of `{kind}`"
                )
            },
        )
        .help("to train with PyTorch instead, write `parallel engine=\"fsdp\"` and a `program`")
        .note(
            "a self-check on the job's GPUs compares the worker's results with its own on the CPU \
            before any data is read: if they differ the job ends with exit code 12, if a library is missing \
            with exit code 14",
        ),
    )
}

/// Returns true for a 64-bit ELF program for x86-64, which all containers of the catalogue require: magic
/// number, class, byte order, and `e_machine` 62 (System V ABI, AMD64 supplement).
fn runs_in_container(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01") && bytes.get(18..20) == Some(&[62, 0][..])
}
