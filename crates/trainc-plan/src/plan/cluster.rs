//! Plans region, instance type and machine.

use trainc_catalog::{accelerators, instances, regions};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems};
use trainc_engine::{of_job, runs_worker};
use trainc_ir::hardware::{AcceleratorKind, Instance};
use trainc_ir::{Job, Machine, Region};

declare_code!(
    T0320,
    "unknown-instance",
    Error,
    "an instance type that SageMaker training does not support",
    ends: Speed,
    allowable: AwsMayAccept
);
declare_code!(T0321, "unknown-region", Error, "a region that does not exist");
declare_code!(
    T0322,
    "unknown-accelerator",
    Error,
    "an accelerator that is not in the catalogue",
    ends: Speed
);
declare_code!(
    T0323,
    "custom-cluster-incomplete",
    Error,
    "a custom cluster that does not describe its nodes",
    ends: Speed
);
declare_code!(
    T0324,
    "no-accelerator",
    Error,
    "an instance type without GPUs with an engine that requires them",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0320, &T0321, &T0322, &T0323, &T0324];

/// Returns the region with its partition and DNS suffix.
pub(super) fn region(job: &Job, problems: &mut Problems) -> Option<Region> {
    let written = job.region.val()?;
    if let Some(row) = regions::get(&written.value) {
        return Some(Region { name: row.name, partition: row.partition, dns_suffix: row.dns_suffix });
    }
    let span = written.span_or(job.span);
    let mut diagnostic = Diagnostic::new(&T0321, span, format!("unknown region `{}`", written.value));
    let names: Vec<&str> = regions::names().collect();
    if let Some(near) = text::nearest(&written.value, names.iter().copied()) {
        diagnostic = diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\""));
    } else {
        diagnostic =
            diagnostic.note(format!("the catalogue lists {}", text::count(names.len() as u64, "region")));
    }
    problems.push(diagnostic);
    None
}

/// Returns the catalogue row of the instance type.
pub(super) fn instance(job: &Job, problems: &mut Problems) -> Option<Instance> {
    let cluster = job.cluster.as_ref()?;
    for group in &cluster.groups {
        if let Some(written) = group.instance.val()
            && !instances::instance_exists(&written.value)
        {
            problems.push(unknown_instance(&written.value, written.span_or(group.span)));
        }
    }
    let Some(written) = cluster.instance.val() else {
        if cluster.instance.is_absent() {
            if !cluster.groups.is_empty() {
                return instances::get(&job.rank_instance()?.value);
            }
            // A rule reports that `cluster` has no effect on a serverless job.
            if job.serverless_member().is_some() {
                return None;
            }
            problems.push(
                Diagnostic::new(&T0320, cluster.span, "`cluster` has no instance type")
                    .removed_at(job.removed(&["cluster.instance"]))
                    .write("cluster \"ml.p4d.24xlarge\" nodes=1")
                    .refused_by_service(),
            );
        }
        return None;
    };
    if matches!(written.value.as_str(), "custom" | "local") {
        return None;
    }
    if let Some(row) = instances::get(&written.value) {
        return Some(row);
    }
    if !instances::instance_exists(&written.value) {
        problems.push(unknown_instance(&written.value, written.span_or(cluster.span)));
    }
    None
}

fn unknown_instance(written: &str, span: trainc_diag::source::Span) -> Diagnostic {
    let names = instances::all_names();
    // A retired type is not what somebody means who writes a type that is not one.
    let is_retired = |name: &str| instances::get(name).is_some_and(|row| row.retired.is_some());
    let current: Vec<&str> = names.iter().map(String::as_str).filter(|name| !is_retired(name)).collect();
    let diagnostic = Diagnostic::new(&T0320, span, format!("the catalogue has no instance type `{written}`"))
        .note(
            "if SageMaker supports it, add `allow \"T0320\" reason=\"…\"` to `cluster`; what depends on \
        its hardware is then unknown",
        );
    let with_prefix = format!("ml.{written}");
    if names.contains(&with_prefix) {
        return diagnostic.help(format!("write `\"{with_prefix}\"`")).fix(span, format!("\"{with_prefix}\""));
    }
    let suggest = |near: &str, diagnostic: Diagnostic| {
        diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\""))
    };
    // For a known family with an unknown size, suggest sizes of that family.
    let dotted = if written.starts_with("ml.") { written.to_owned() } else { with_prefix };
    if let Some((family, size)) = dotted.rsplit_once('.') {
        let sizes = types_of_family(&dotted, &names);
        if !sizes.is_empty() {
            return choose_size(diagnostic, &sizes);
        }
        let sizes: Vec<&str> = names
            .iter()
            .filter(|_| family != "ml")
            .filter_map(|name| name.strip_prefix(family)?.strip_prefix('.'))
            .collect();
        if !sizes.is_empty() {
            let same_number = sizes.iter().copied().filter(|near| size_number(near) == size_number(size));
            if let Some(near) = text::nearest(size, same_number) {
                return suggest(&format!("{family}.{near}"), diagnostic);
            }
            let mut all: Vec<String> = sizes.iter().map(|size| format!("{family}.{size}")).collect();
            all.sort_by_key(|name| name.rsplit('.').next().map(size_number));
            return choose_size(diagnostic, &all);
        }
        let same_size = current.iter().copied().filter(|name| name.ends_with(&format!(".{size}")));
        if let Some(near) = text::nearest(&dotted, same_size) {
            return suggest(near, diagnostic);
        }
    }
    match text::nearest(written, current.iter().copied()) {
        Some(near) => suggest(near, diagnostic),
        None => diagnostic.help("run `trainc catalog instances` for the supported types"),
    }
}

/// Suggests the types of a family.
fn choose_size(diagnostic: Diagnostic, types: &[String]) -> Diagnostic {
    match types {
        [only] => diagnostic.write(format!("\"{only}\"")).and_text(", the only type of this family"),
        _ => diagnostic.choose(format!("use one of this family: {}", list_types(types)), types),
    }
}

/// Returns the types of a family such as `ml.g5`: those with accelerators first, ascending by size.
fn types_of_family(family: &str, names: &[String]) -> Vec<String> {
    let mut all: Vec<String> = names
        .iter()
        .filter(|name| name.strip_prefix(family).is_some_and(|rest| rest.starts_with('.')))
        .cloned()
        .collect();
    all.sort_by_key(|name| (instances::get(name).is_none(), name.rsplit('.').next().map(size_number)));
    all
}

/// Lists the first types and counts the others.
fn list_types(all: &[String]) -> String {
    const MAX_LISTED: usize = 8;
    match all.get(..MAX_LISTED).filter(|_| all.len() > MAX_LISTED) {
        Some(first) => {
            let ticked: Vec<String> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("{}; {} more: `trainc catalog instances`", ticked.join(", "), all.len() - MAX_LISTED)
        }
        None => text::backtick_list(all, "or"),
    }
}

/// Returns the number in a size: 24 for `24xlarge`, `None` for `large`.
fn size_number(size: &str) -> Option<u32> {
    size.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}

/// Returns the machine of an instance type of the catalogue.
pub(super) fn catalogue_machine(row: &Instance) -> Machine {
    Machine {
        gpus_per_node: u64::from(row.accelerators),
        gpu: Some(row.accelerator.product.clone()),
        ranks_per_gpu: row.accelerator.ranks,
        gpu_memory_bytes: row.accelerator.memory_bytes,
        bf16: (row.accelerator.kind == AcceleratorKind::Gpu).then_some(row.accelerator.bf16).or(Some(true)),
        efa: row.efa,
    }
}

/// Returns the machine of each node of a catalogue, custom or local cluster.
pub(super) fn machine(job: &Job, instance: Option<&Instance>, problems: &mut Problems) -> Option<Machine> {
    let cluster = job.cluster.as_ref()?;
    if is_heterogeneous_script(job) {
        // Hosts of different types have only their single process in common.
        return Some(Machine {
            gpus_per_node: 1,
            gpu: None,
            ranks_per_gpu: 1,
            gpu_memory_bytes: None,
            bf16: None,
            efa: None,
        });
    }
    if let Some(row) = instance {
        return Some(catalogue_machine(row));
    }
    let kind = job.rank_instance();
    match kind.map(|kind| kind.value.as_str()) {
        Some("custom") => custom_machine(job, problems),
        Some("local") => {
            if let Some(gpu) = &cluster.gpu {
                return custom_gpu_machine(gpu, Some(false), problems);
            }
            // Ranks are processes on the cores of this machine, by default as many as the shard degree.
            let shards = job.parallel.as_ref().and_then(|parallel| parallel.shard_degree.get());
            let per_node = cluster.ranks.get().or(shards).unwrap_or(1);
            Some(Machine {
                gpus_per_node: per_node,
                gpu: None,
                ranks_per_gpu: 1,
                gpu_memory_bytes: None,
                bf16: None,
                efa: Some(false),
            })
        }
        Some(name) if instances::instance_exists(name) => {
            // CPU types run one process on each host, except for engine `worker`, whose ranks run on cores,
            // and for MPI, whose processes are written (Horovod).
            let engine = of_job(job);
            let parallel = job.parallel.as_ref();
            let is_mpi =
                parallel.and_then(|parallel| parallel.launcher.value()).is_some_and(|name| name == "mpi");
            let processes = parallel.and_then(|parallel| parallel.processes.get()).filter(|_| is_mpi);
            if let Some(engine) = engine
                && engine.front.needs_gpu
                && !(engine.front.takes_launcher("mpi") && is_mpi)
            {
                problems.push(
                    Diagnostic::new(
                        &T0324,
                        kind.and_then(|kind| kind.origin.span()).unwrap_or(cluster.span),
                        format!("`{name}` has no GPU, which engine `{}` requires", engine.name()),
                    )
                    .help(first_gpu_group(job).map_or_else(
                        || Help::from("use a GPU type such as `\"ml.g5.12xlarge\"`, or `engine=\"none\"`"),
                        |group| Help::write(format!("group=\"{group}\"")).and_text(", which has GPUs"),
                    )),
                );
                return None;
            }
            let ranks = cluster.ranks.get().filter(|_| runs_worker(job));
            Some(Machine {
                gpus_per_node: ranks.or(processes).unwrap_or(1),
                gpu: None,
                ranks_per_gpu: 1,
                gpu_memory_bytes: None,
                bf16: None,
                efa: Some(false),
            })
        }
        _ => None,
    }
}

/// Returns true if a plain script runs on instance groups of different types.
fn is_heterogeneous_script(job: &Job) -> bool {
    let is_script = of_job(job).is_some_and(|engine| engine.law.is_script());
    let Some(cluster) = job.cluster.as_ref().filter(|_| is_script) else { return false };
    let mut types = cluster.groups.iter().filter_map(|group| group.instance.value());
    types.next().is_some_and(|first| types.any(|other| other != first))
}

/// Returns the name of the first instance group with accelerators.
fn first_gpu_group(job: &Job) -> Option<&str> {
    let groups = &job.cluster.as_ref()?.groups;
    let has = |name: &String| instances::get(name).is_some();
    let group = groups.iter().find(|group| group.instance.value().is_some_and(has))?;
    group.name.value().map(String::as_str)
}

fn custom_machine(job: &Job, problems: &mut Problems) -> Option<Machine> {
    let cluster = job.cluster.as_ref()?;
    let span = cluster.instance.span().unwrap_or(cluster.span);
    for (node, field) in
        [("intra", &cluster.intra_bytes_per_second), ("inter", &cluster.inter_bytes_per_second)]
    {
        if field.is_absent() {
            problems.push(
                Diagnostic::new(
                    &T0323,
                    span,
                    format!("a custom cluster requires its link bandwidth: `{node}` is missing"),
                )
                .add(if node == "intra" { "intra \"600GB/s\"" } else { "inter \"50GB/s\"" }),
            );
        }
    }
    let Some(gpu) = &cluster.gpu else {
        problems.push(
            Diagnostic::new(&T0323, span, "a custom cluster requires its GPUs: `gpu` is missing")
                .help("add `gpu \"A100-SXM4-80GB\" per-node=8`, `intra \"600GB/s\"` and `inter \"50GB/s\"`"),
        );
        return None;
    };
    custom_gpu_machine(gpu, None, problems)
}

/// Returns a machine with accelerators of the catalogue.
fn custom_gpu_machine(
    gpu: &trainc_ir::CustomGpu,
    efa: Option<bool>,
    problems: &mut Problems,
) -> Option<Machine> {
    let per_node = gpu.per_node.get()?;
    let name = gpu.name.val()?;
    let Some(row) = accelerators::get(&name.value) else {
        let names: Vec<&str> = accelerators::names().collect();
        let span = name.span_or(gpu.span);
        let diagnostic =
            Diagnostic::new(&T0322, span, format!("accelerator `{}` is not in the catalogue", name.value));
        let parts = |name: &str| name.split('-').map(str::to_lowercase).collect::<Vec<_>>();
        let written = parts(&name.value);
        // `A100-80` and `H100` consist of parts of a name, in its order.
        let mut of_pieces = names.iter().copied().filter(|known| {
            let mut rest = parts(known).into_iter();
            written
                .iter()
                .all(|piece| rest.any(|part| part.trim_end_matches("gb") == piece.trim_end_matches("gb")))
        });
        let only = of_pieces.next().filter(|_| of_pieces.next().is_none());
        problems.push(match only.or_else(|| text::nearest(&name.value, names.iter().copied())) {
            Some(near) => {
                diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(span, format!("\"{near}\""))
            }
            None => diagnostic.note(format!("supported accelerators: {}", names.join(", "))),
        });
        return None;
    };
    Some(Machine {
        gpus_per_node: per_node,
        gpu: Some(row.product.clone()),
        ranks_per_gpu: row.ranks,
        gpu_memory_bytes: row.memory_bytes,
        bf16: Some(row.bf16),
        efa,
    })
}
