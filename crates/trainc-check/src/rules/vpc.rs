//! VpcConfig: ids that are ids, and what the account's VPC has to let through.

use crate::Context;
use crate::queries::file_system;
use trainc_catalog::{limits, shapes};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Network, Plan, Val};

declare_code!(T0468, "invalid-vpc-ids", Error, "invalid subnet or security group IDs");
declare_code!(T0469, "vpc-requirements", Note, "requirements of the job on its VPC");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0468, &T0469];

/// Judges `network`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(network) = &context.plan.job.network else { return };
    let before = problems.errors();
    ids(network.subnets_span, &network.subnets, &SUBNETS, problems);
    ids(network.security_groups_span, &network.security_groups, &GROUPS, problems);
    let both = !network.subnets.is_empty() && !network.security_groups.is_empty();
    if both && problems.errors() == before && context.plan.deployable {
        rules(context.plan, network, problems);
    }
}

/// One half of VpcConfig.
struct Half {
    noun: &'static str,
    /// The list in CreateTrainingJob.
    list: &'static str,
    /// The item in CreateFileSystem, whose pattern is the stricter one.
    item: &'static str,
    prefix: &'static str,
}

const SUBNETS: Half =
    Half { noun: "subnet", list: "VpcConfig.Subnets", item: "SubnetIds[]", prefix: "subnet-" };
const GROUPS: Half = Half {
    noun: "security group",
    list: "VpcConfig.SecurityGroupIds",
    item: "SecurityGroupIds[]",
    prefix: "sg-",
};

fn ids(span: Option<Span>, values: &[Val<String>], half: &Half, problems: &mut Problems) {
    let Some(span) = span else { return };
    let Some(item) = shapes::member("CreateFileSystem", half.item) else { return };
    // What CreateTrainingJob's looser shape refuses is a limit of the job, with a code of its own.
    let Some(loose) = shapes::member("CreateTrainingJob", half.list).and_then(|list| list.item.as_deref())
    else {
        return;
    };
    for value in
        values.iter().filter(|value| loose.takes_text(&value.value) && !item.takes_text(&value.value))
    {
        let diagnostic = Diagnostic::new(
            &T0468,
            value.span_or(span),
            format!("`{}` is no id of a {}", value.value, half.noun),
        )
        .note(format!(
            "an id is `{}` and 8 digits or more of 0-9 and a-f (botocore, CreateFileSystem)",
            half.prefix
        ));
        let swapped = [&SUBNETS, &GROUPS]
            .into_iter()
            .find(|other| other.prefix != half.prefix && value.value.starts_with(other.prefix));
        problems.push(match swapped {
            Some(other) => diagnostic.help(format!(
                "a {} goes into `{}`",
                other.noun,
                other.noun.replace(' ', "-") + "s"
            )),
            None => diagnostic,
        });
    }
}

/// One reminder of what only the account can tell.
fn rules(plan: &Plan, network: &Network, problems: &mut Problems) {
    let Some(cluster) = &plan.job.cluster else { return };
    let efa = plan.machine.as_ref().and_then(|machine| machine.efa) == Some(true);
    let nodes = cluster.nodes.get();
    let several = nodes.is_some_and(|nodes| nodes > 1) || cluster.groups.len() > 1;
    let key = if efa { "vpc.addresses-per-efa-instance" } else { "vpc.addresses-per-instance" };
    let mut diagnostic = Diagnostic::new(
        &T0469,
        network.span,
        "the container has no internet by itself: S3 needs a gateway endpoint or a NAT gateway on the subnet's route table",
    );
    if let (Some(limit), Some(nodes)) = (limits::get(key), nodes) {
        let addresses = limit.value.saturating_mul(nodes);
        let (take, each) =
            if nodes == 1 { ("takes", String::new()) } else { ("take", format!(", {} each", limit.value)) };
        diagnostic = diagnostic
            .note(format!(
                "{} {take} at least {} free addresses of the subnet{each} ({})",
                text::count(nodes, "instance"),
                text::group(addresses),
                limit.provenance.source
            ))
            .fact("addresses", addresses);
    }
    let lustre = plan.job.storage.iter().any(|storage| !file_system::is_efs(storage));
    let efs = plan.job.storage.iter().any(file_system::is_efs);
    let secrets = plan.job.program.as_ref().is_some_and(|program| !program.secrets.is_empty());
    if efa && several {
        diagnostic = diagnostic.note("EFA: the security group allows all traffic to and from itself, in both directions (AWS developer guide, train-vpc)");
    } else if several {
        diagnostic = diagnostic
            .note("the security group allows traffic among its own members (AWS developer guide, train-vpc)");
    }
    if lustre {
        diagnostic = diagnostic.note("Lustre: TCP 988 and 1018-1023 in both directions among the job's and the file system's security groups (FSx for Lustre guide)");
    }
    if efs {
        diagnostic =
            diagnostic.note("EFS: TCP 2049 from the job's security group to the mount target's (EFS guide)");
    }
    if network.encrypt_traffic.get() == Some(true) && several {
        diagnostic = diagnostic.note("encrypted traffic: UDP 500 and IP protocol 50 among the members (AWS developer guide, train-encrypt)");
    }
    if secrets {
        diagnostic = diagnostic.note("secrets: an interface endpoint for secretsmanager, or a NAT gateway, or the job stops at its start");
    }
    // A single node that only reads and writes S3 asks nothing of the VPC but what every job asks of it.
    if several || lustre || efs || secrets {
        problems.push(diagnostic);
    }
}
