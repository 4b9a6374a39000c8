//! VpcConfig: format of the IDs, and requirements on the account's VPC.

use crate::Context;
use crate::queries::file_system;
use trainc_catalog::{limits, shapes};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Network, Plan, Val};

declare_code!(T0468, "invalid-vpc-ids", Error, "invalid subnet or security group IDs");
declare_code!(T0469, "vpc-requirements", Note, "what the job requires of its VPC");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0468, &T0469];

/// Checks `network`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(network) = &context.plan.job.network else { return };
    let before = problems.errors();
    check_ids(network.subnets_span, &network.subnets, &SUBNETS, problems);
    check_ids(network.security_groups_span, &network.security_groups, &GROUPS, problems);
    let both = !network.subnets.is_empty() && !network.security_groups.is_empty();
    if both && problems.errors() == before {
        note_requirements(context.plan, network, problems);
    }
}

/// A kind of ID in VpcConfig.
struct IdKind {
    noun: &'static str,
    /// The list in CreateTrainingJob.
    list: &'static str,
    /// The item in CreateFileSystem, which has the stricter pattern.
    item: &'static str,
    prefix: &'static str,
}

const SUBNETS: IdKind =
    IdKind { noun: "subnet", list: "VpcConfig.Subnets", item: "SubnetIds[]", prefix: "subnet-" };
const GROUPS: IdKind = IdKind {
    noun: "security group",
    list: "VpcConfig.SecurityGroupIds",
    item: "SecurityGroupIds[]",
    prefix: "sg-",
};

fn check_ids(span: Option<Span>, values: &[Val<String>], kind: &IdKind, problems: &mut Problems) {
    let Some(span) = span else { return };
    let Some(item) = shapes::member_at_path("CreateFileSystem", kind.item) else { return };
    // IDs that violate CreateTrainingJob's looser shape are reported with another code.
    let Some(loose) = shapes::member_at_path("CreateTrainingJob", kind.list).and_then(|list| list.item.as_deref())
    else {
        return;
    };
    for value in
        values.iter().filter(|value| loose.takes_text(&value.value) && !item.takes_text(&value.value))
    {
        let diagnostic = Diagnostic::new(
            &T0468,
            value.span_or(span),
            format!("`{}` is not a valid {} ID", value.value, kind.noun),
        )
        .note(format!(
            "a {} ID is `{}` followed by at least 8 digits of 0-9 and a-f (botocore, CreateFileSystem)",
            kind.noun, kind.prefix
        ));
        let swapped = [&SUBNETS, &GROUPS]
            .into_iter()
            .find(|other| other.prefix != kind.prefix && value.value.starts_with(other.prefix));
        problems.push(match swapped {
            Some(other) => diagnostic.help(format!(
                "move the {} ID to `{}`",
                other.noun,
                other.noun.replace(' ', "-") + "s"
            )),
            None => diagnostic,
        });
    }
}

/// Lists the requirements on the VPC that trainc cannot check offline.
fn note_requirements(plan: &Plan, network: &Network, problems: &mut Problems) {
    let Some(cluster) = &plan.job.cluster else { return };
    let efa = plan.machine.as_ref().and_then(|machine| machine.efa) == Some(true);
    let nodes = cluster.nodes.get();
    let several = nodes.is_some_and(|nodes| nodes > 1) || cluster.groups.len() > 1;
    let key = if efa { "vpc.addresses-per-efa-instance" } else { "vpc.addresses-per-instance" };
    let mut diagnostic = Diagnostic::new(
        &T0469,
        network.span,
        "containers in a VPC have no internet access by default: S3 requires a gateway endpoint \
            or a NAT gateway in the subnet's route table",
    );
    if let (Some(limit), Some(nodes)) = (limits::get(key), nodes) {
        let addresses = limit.value.saturating_mul(nodes);
        let (need, each) =
            if nodes == 1 { ("needs", String::new()) } else { ("need", format!(", {} each", limit.value)) };
        diagnostic = diagnostic
            .note(format!(
                "{} {need} at least {} free IP addresses in the subnet{each} ({})",
                text::count(nodes, "instance"),
                text::group_digits(addresses),
                limit.provenance.source
            ))
            .fact("addresses", addresses);
    }
    let lustre = plan.job.storage.iter().any(|storage| !file_system::is_efs(storage));
    let efs = plan.job.storage.iter().any(file_system::is_efs);
    let secrets = plan.job.program.as_ref().is_some_and(|program| !program.secrets.is_empty());
    if efa && several {
        diagnostic = diagnostic.note("EFA: the security group must allow all traffic to and from itself \
            (AWS developer guide, train-vpc)");
    } else if several {
        diagnostic = diagnostic.note(
            "the security group must allow traffic between its members (AWS developer guide, train-vpc)",
        );
    }
    if lustre {
        diagnostic = diagnostic.note("Lustre: allow TCP 988 and 1018-1023 in both directions between the \
            job's and the file system's security groups (FSx for Lustre guide)");
    }
    if efs {
        diagnostic = diagnostic
            .note("EFS: allow TCP 2049 from the job's security group to the mount target's (EFS guide)");
    }
    if network.encrypt_traffic.get() == Some(true) && several {
        diagnostic = diagnostic.note("encrypted traffic: allow UDP 500 and IP protocol 50 between the \
            members (AWS developer guide, train-encrypt)");
    }
    if secrets {
        diagnostic = diagnostic.note("secrets: the job fails at startup without an interface endpoint for \
            Secrets Manager or a NAT gateway");
    }
    // A single node that only uses S3 has no special requirements.
    if several || lustre || efs || secrets {
        problems.push(diagnostic);
    }
}
