//! File systems are reached over the VPC: a job that mounts one needs subnets, and a new one lies in exactly one.

use crate::Context;
use crate::queries::file_system;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Plan;

declare_code!(T0464, "storage-without-vpc", Error, "a file system without a VPC to reach it");
declare_code!(T0465, "lustre-multiple-subnets", Error, "a new Lustre file system with more than one subnet");
declare_code!(
    T0466,
    "subnets-may-span-zones",
    Note,
    "several subnets that may be in different availability zones"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0464, &T0465, &T0466];

/// Judges the network as far as file systems and EFA need it.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    if plan.deployable && !without(plan, problems) {
        several(plan, problems);
    }
}

/// A file system is used and no VPC is given.
fn without(plan: &Plan, problems: &mut Problems) -> bool {
    if let Some(network) = &plan.job.network
        && (network.subnets_span.is_some() || network.security_groups_span.is_some())
    {
        return false;
    }
    let mut reported = false;
    for storage in plan.job.storage.iter().filter(|storage| storage.kind.value().is_some()) {
        let name = file_system::name(storage);
        let user =
            plan.job.channels.iter().find(|channel| channel.from.value().is_some_and(|from| from == name));
        if user.is_none() && !file_system::is_made(storage) {
            continue;
        }
        let span = user.and_then(|channel| channel.from.span()).unwrap_or(storage.span);
        let diagnostic =
            Diagnostic::new(&T0464, span, format!("`{name}` is reached over a VPC, and the job has none"));
        let diagnostic =
            if user.is_some() { diagnostic.label(storage.span, "the file system") } else { diagnostic };
        problems.push(
            diagnostic
                .help("add `network { subnets \"subnet-…\"; security-groups \"sg-…\" }` with the file system's subnet")
                .note("a channel from a file system needs VpcConfig (AWS developer guide, model-access-training-data)"),
        );
        reported = true;
    }
    reported
}

fn several(plan: &Plan, problems: &mut Problems) {
    let Some(network) = &plan.job.network else { return };
    let [first, second, ..] = network.subnets.as_slice() else { return };
    let span = second.span_or(network.span);
    let count = text::count(network.subnets.len() as u64, "subnet");
    if let Some(storage) = plan.job.storage.iter().find(|storage| file_system::is_made(storage)) {
        problems.push(
            Diagnostic::new(&T0465, span, format!("a new Lustre file system lies in one subnet; here are {count}"))
                .label(storage.span, format!("`{}` is to be made", file_system::name(storage)))
                .help(format!("keep one, as `subnets \"{}\"`, in a zone that has the instances", first.value))
                .note("SubnetIds of CreateFileSystem takes exactly one for Lustre, and SageMaker picks any of the job's: in another zone the job would read across zones"),
        );
        return;
    }
    let used = plan.job.channels.iter().find_map(|channel| file_system::find_storage(plan, channel.from.value()?));
    let nodes = plan.job.cluster.as_ref().and_then(|cluster| cluster.nodes.get()).unwrap_or(1);
    let efa = nodes > 1 && plan.machine.as_ref().and_then(|machine| machine.efa) == Some(true);
    let message = match used {
        Some(storage) => format!(
            "SageMaker picks among {count}; `{}` should lie in the zone of each",
            file_system::name(storage)
        ),
        None if efa => format!("{count}: EFA traffic stays inside one of them"),
        None => return,
    };
    problems.push(
        Diagnostic::new(&T0466, span, message)
            .help(format!("name one subnet, as `subnets \"{}\"`", first.value))
            .note("only the account can tell whether they share a zone; a job across zones, or away from its file system, is slower and pays for the traffic"),
    );
}
