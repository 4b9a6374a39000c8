//! Subnets for file systems and EFA: a mounted file system requires a VPC, and a new one exactly one subnet.

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

/// Checks that the network suits the job's file systems and EFA.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    if !report_missing_vpc(plan, problems) {
        check_subnets(plan, problems);
    }
}

/// Reports file systems without a VPC; returns whether it reported a problem.
fn report_missing_vpc(plan: &Plan, problems: &mut Problems) -> bool {
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
        if user.is_none() && !file_system::is_created_lustre(storage) {
            continue;
        }
        let span = user.and_then(|channel| channel.from.span()).unwrap_or(storage.span);
        let diagnostic =
            Diagnostic::new(&T0464, span, format!("`{name}` requires a VPC, but the job has none"));
        let diagnostic =
            if user.is_some() { diagnostic.label(storage.span, "the file system") } else { diagnostic };
        problems.push(
            diagnostic
                .help("add `network { subnets \"subnet-…\"; security-groups \"sg-…\" }` with the file \
                    system's subnet")
                .note("a channel from a file system requires VpcConfig (AWS developer guide, \
                    model-access-training-data)"),
        );
        reported = true;
    }
    reported
}

fn check_subnets(plan: &Plan, problems: &mut Problems) {
    let Some(network) = &plan.job.network else { return };
    let [first, second, ..] = network.subnets.as_slice() else { return };
    let span = second.span_or(network.span);
    let count = text::count(network.subnets.len() as u64, "subnet");
    if let Some(storage) = plan.job.storage.iter().find(|storage| file_system::is_created_lustre(storage)) {
        problems.push(
            Diagnostic::new(&T0465, span, format!("a new Lustre file system requires exactly one subnet, \
                found {count}"))
                .label(storage.span, format!("`{}` is a new file system", file_system::name(storage)))
                .help(format!("keep one, e.g. `subnets \"{}\"`, in an availability zone that offers the \
                    instance type", first.value))
                .note("CreateFileSystem accepts exactly one subnet for Lustre, but SageMaker chooses \
                    any of the job's subnets: the job might read across availability zones"),
        );
        return;
    }
    let used = plan.job.channels.iter().find_map(|channel| file_system::find_storage(plan, channel.from.value()?));
    let nodes = plan.job.cluster.as_ref().and_then(|cluster| cluster.nodes.get()).unwrap_or(1);
    let efa = nodes > 1 && plan.machine.as_ref().and_then(|machine| machine.efa) == Some(true);
    let message = match used {
        Some(storage) => format!(
            "SageMaker chooses among {count}; all should be in the availability zone of `{}`",
            file_system::name(storage)
        ),
        None if efa => format!("{count}: EFA traffic cannot cross availability zones"),
        None => return,
    };
    problems.push(
        Diagnostic::new(&T0466, span, message)
            .help(format!("use one subnet, e.g. `subnets \"{}\"`", first.value))
            .note("trainc cannot see offline whether they share an availability zone; traffic across \
                zones, including to the file system, is slower and billed"),
    );
}
