//! Checks of subnets, security groups and zones: instances are available there, and reach each other, S3 and
//! the file system.

use super::facts::Facts;
use super::quota::other_type_starts;
use super::skipped_checks::{answer_or_report, not_found_fault};
use crate::account::{Endpoint, GroupRule, RouteTable, SecurityGroup, Subnet};
use trainc_catalog::instances;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Alternative, Network, Plan};

declare_code!(
    T0622,
    "zone-without-instances",
    Error,
    "subnets in availability zones that do not offer the instance type",
    found_in: Account
);
declare_code!(
    T0623,
    "subnet-missing",
    Error,
    "a subnet that does not exist in the account",
    found_in: Account
);
declare_code!(T0624, "subnet-full", Error, "a subnet with too few free addresses", found_in: Account);
declare_code!(
    T0625,
    "security-group-missing",
    Error,
    "a security group that does not exist in the account",
    found_in: Account
);
declare_code!(
    T0626,
    "lustre-ports-closed",
    Error,
    "security groups that block Lustre traffic",
    found_in: Account
);
declare_code!(
    T0627,
    "efa-self-rule-missing",
    Error,
    "no security group that allows all traffic to and from itself for EFA",
    found_in: Account,
    explains: [Collective]
);
declare_code!(T0640, "s3-unreachable", Error, "subnets from which S3 cannot be reached", found_in: Account);
declare_code!(
    T0639,
    "vpc-mismatch",
    Error,
    "subnets and security groups in different VPCs",
    found_in: Account
);

pub(super) static CODES: &[&Code] = &[&T0622, &T0623, &T0624, &T0625, &T0626, &T0627, &T0639, &T0640];

/// IP addresses per instance (developer guide, "Give SageMaker training jobs access to resources in your
/// Amazon VPC").
const ADDRESSES: u64 = 2;
const ADDRESSES_EFA: u64 = 5;

/// The ports of Lustre (FSx for Lustre user guide, "File system access control with Amazon VPC").
const LUSTRE_PORTS: [(i64, i64); 2] = [(988, 988), (1018, 1023)];

pub(super) fn judge(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    let Some(network) = &plan.job.network else { return };
    let subnets_span = network.subnets_span.unwrap_or(network.span);
    let groups_span = network.security_groups_span.unwrap_or(network.span);
    if let Some(fault) = not_found_fault(&facts.subnets) {
        let (span, name) = find_named_value(&network.subnets, &fault.message, subnets_span);
        problems.push(
            Diagnostic::new(&T0623, span, format!("the account has no subnet {name} in this region"))
                .note(format!("ec2 DescribeSubnets: {}", fault.message)),
        );
    }
    if let Some(fault) = not_found_fault(&facts.groups) {
        let (span, name) = find_named_value(&network.security_groups, &fault.message, groups_span);
        problems.push(
            Diagnostic::new(&T0625, span, format!("the account has no security group {name} in this region"))
                .note(format!("ec2 DescribeSecurityGroups: {}", fault.message)),
        );
    }
    let subnets = answer_or_report(&facts.subnets, "the subnets", subnets_span, problems);
    let groups = answer_or_report(&facts.groups, "the security groups", groups_span, problems);
    let zones: Vec<(&str, &Vec<String>)> = facts
        .zones
        .iter()
        .filter_map(|(kind, zones)| {
            let what = "the zones of the instance type";
            Some((kind.as_str(), answer_or_report(zones, what, subnets_span, problems)?))
        })
        .collect();
    if let Some(subnets) = subnets {
        check_zones(plan, subnets, &zones, subnets_span, problems);
        check_free_addresses(plan, network, subnets, subnets_span, problems);
        routes(plan, network, subnets, facts, problems);
        if let Some(groups) = groups {
            check_same_vpc(network, subnets, groups, problems);
        }
    }
    if let Some(groups) = groups {
        if plan.job.storage.iter().any(|storage| storage.kind.value().is_some_and(|kind| kind == "lustre")) {
            check_lustre_ports(plan, groups, groups_span, problems);
        }
        let efa = plan.fleet.alternatives().is_some_and(|all| all.iter().any(|one| has_efa(plan, one)));
        let several = plan.mesh.as_ref().is_some_and(|mesh| mesh.nodes > 1);
        if efa && several {
            efa_rules(plan, groups, groups_span, problems);
        }
    }
}

/// The target of a subnet's default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the outside, through a target that has a public address.
    Out,
    /// To an internet gateway: a job's interfaces have no public address, so responses cannot arrive.
    Gateway,
    /// No default route.
    None,
    /// No route table found.
    Unknown,
}

/// Returns the route table of a subnet: its own, or else the main one.
fn table_of<'a>(subnet: &Subnet, tables: &'a [RouteTable]) -> Option<&'a RouteTable> {
    let own = tables.iter().find(|table| table.subnets.contains(&subnet.id));
    own.or_else(|| tables.iter().find(|table| table.is_main))
}

pub(super) fn way_out(subnet: &Subnet, tables: &[RouteTable]) -> Way {
    let Some(table) = table_of(subnet, tables) else { return Way::Unknown };
    match table.routes.iter().find(|route| route.destination == "0.0.0.0/0") {
        None => Way::None,
        Some(route) if route.target.starts_with("igw-") => Way::Gateway,
        Some(_) => Way::Out,
    }
}

/// Returns true if the subnets of a route table reach the service through an endpoint.
fn is_endpoint_for(endpoint: &Endpoint, table: &RouteTable) -> bool {
    endpoint.state.eq_ignore_ascii_case("available")
        && (endpoint.route_tables.contains(&table.id) || endpoint.private_dns)
}

/// Checks that each subnet has a route to S3, which the job needs to read its data and to write its model.
fn routes(plan: &Plan, network: &Network, subnets: &[Subnet], facts: &Facts, problems: &mut Problems) {
    let span = network.subnets_span.unwrap_or(network.span);
    let Some(tables) = answer_or_report(&facts.routes, "the route tables of the subnets", span, problems)
    else {
        return;
    };
    let shut: Vec<(&Subnet, Way)> = subnets
        .iter()
        .map(|subnet| (subnet, way_out(subnet, tables)))
        .filter(|(_, way)| matches!(way, Way::Gateway | Way::None))
        .collect();
    if shut.is_empty() {
        return;
    }
    let Some(endpoints) = answer_or_report(&facts.endpoints, "the endpoints of the network", span, problems)
    else {
        return;
    };
    let region = plan.job.region.value().map_or("", String::as_str);
    for (subnet, way) in shut {
        let Some(table) = table_of(subnet, tables) else { continue };
        if endpoints.iter().any(|endpoint| is_endpoint_for(endpoint, table)) {
            continue;
        }
        let place = network.subnets.iter().find(|val| val.value == subnet.id);
        let place = place.map_or(span, |val| val.span_or(span));
        let (message, severity) = if way == Way::None {
            (
                format!(
                    "S3 is unreachable from `{}`: `{}` has no default route and no S3 endpoint",
                    subnet.id, table.id
                ),
                Severity::Error,
            )
        } else {
            (
                format!(
                    "the only route out of `{}` is an internet gateway, but a job has no public IP address",
                    subnet.id
                ),
                Severity::Warning,
            )
        };
        problems.push(
            Diagnostic::new(&T0640, place, message)
                .severity(severity)
                .help(format!(
                    "aws ec2 create-vpc-endpoint --region {region} --vpc-id {} --service-name \
                        com.amazonaws.{region}.s3 --route-table-ids {}",
                    subnet.vpc, table.id
                ))
                .note(
                    "the job reads its data and writes its model through the subnet (developer \
                    guide, \"Give SageMaker training jobs access to resources in your Amazon VPC\"); a NAT \
                    gateway works too",
                )
                .fact("route_table", table.id.as_str()),
        );
    }
}

/// Returns the manifest value in a service's message, with its span.
fn find_named_value(written: &[trainc_ir::Val<String>], said: &str, fallback: Span) -> (Span, String) {
    match written.iter().find(|val| said.contains(&val.value)) {
        Some(val) => (val.span_or(fallback), format!("`{}`", val.value)),
        None => (fallback, "of these".to_owned()),
    }
}

/// Checks that a subnet is in a zone that offers the instance type, for each type that the job may run on.
fn check_zones(
    plan: &Plan,
    subnets: &[Subnet],
    offers: &[(&str, &Vec<String>)],
    span: Span,
    problems: &mut Problems,
) {
    // A file system is created in the first subnet's zone, and the job runs there.
    let made = plan.job.storage.iter().any(|storage| storage.id.value().is_none());
    let usable: Vec<&Subnet> = if made { subnets.iter().take(1).collect() } else { subnets.iter().collect() };
    let is_offered =
        |zones: &[String]| usable.is_empty() || usable.iter().any(|subnet| zones.contains(&subnet.zone_id));
    let missing: Vec<_> = offers.iter().filter(|(_, zones)| !is_offered(zones)).collect();
    let mut here: Vec<&str> = usable.iter().map(|subnet| subnet.zone_id.as_str()).collect();
    here.sort_unstable();
    here.dedup();
    for (kind, zones) in &missing {
        let diagnostic = Diagnostic::new(
            &T0622,
            span,
            format!("`{kind}` is not offered in {}, where the subnets are", text::list(&here, "and")),
        )
        .fact("zones", (*zones).clone());
        let diagnostic = if zones.is_empty() {
            diagnostic
                .note("no availability zone of this region offers it (ec2 DescribeInstanceTypeOfferings)")
        } else {
            diagnostic.note(format!(
                "availability zones that offer it: {} (ec2 DescribeInstanceTypeOfferings)",
                text::list(zones, "and")
            ))
        };
        let another = other_type_starts(plan, |name| missing.iter().all(|(other, _)| *other != name));
        problems.push(if another {
            diagnostic.severity(Severity::Warning).note("SageMaker can use another preferred instance type")
        } else {
            diagnostic
        });
    }
}

/// Returns whether instances communicate over EFA.
fn has_efa(plan: &Plan, one: &Alternative) -> bool {
    match one.parts.as_slice() {
        [part] => instances::get(&part.instance).and_then(|row| row.efa) == Some(true),
        // Of instance groups it is the one with the ranks that decides.
        _ => plan.machine.as_ref().and_then(|machine| machine.efa) == Some(true),
    }
}

/// Returns the instances that need the most addresses of all that the job may run on: their number and
/// whether they use EFA.
fn most_addresses(plan: &Plan) -> Option<(u64, bool)> {
    let each = plan.fleet.alternatives()?.iter();
    each.filter_map(|one| Some((one.instance_count()?, has_efa(plan, one))))
        .max_by_key(|(nodes, efa)| nodes * addresses_of_instance(*efa))
}

fn addresses_of_instance(efa: bool) -> u64 {
    if efa { ADDRESSES_EFA } else { ADDRESSES }
}

fn check_free_addresses(
    plan: &Plan,
    network: &Network,
    subnets: &[Subnet],
    span: Span,
    problems: &mut Problems,
) {
    let Some((nodes, efa)) = most_addresses(plan) else { return };
    let each = addresses_of_instance(efa);
    let needed = nodes * each;
    let Some(best) = subnets.iter().max_by_key(|subnet| subnet.free_addresses) else { return };
    if best.free_addresses >= needed {
        return;
    }
    let written = network.subnets.iter().find(|val| val.value == best.id);
    problems.push(
        Diagnostic::new(
            &T0624,
            written.map_or(span, |val| val.span_or(span)),
            format!(
                "`{}` has {} free addresses, but {} need {needed}",
                best.id,
                best.free_addresses,
                text::count(nodes, "instance")
            ),
        )
        .note(format!(
            "an instance uses {each} addresses{} (developer guide, \"Give SageMaker training \
                jobs access to resources in your Amazon VPC\")",
            if efa { " with EFA" } else { "" }
        ))
        .fact("free", best.free_addresses)
        .fact("needed", needed),
    );
}

fn check_same_vpc(network: &Network, subnets: &[Subnet], groups: &[SecurityGroup], problems: &mut Problems) {
    let Some(first) = subnets.first() else { return };
    for (id, vpc) in subnets
        .iter()
        .map(|subnet| (&subnet.id, &subnet.vpc))
        .chain(groups.iter().map(|group| (&group.id, &group.vpc)))
        .filter(|(_, vpc)| **vpc != first.vpc)
    {
        let all = network.subnets.iter().chain(&network.security_groups);
        let span = all
            .into_iter()
            .find(|val| val.value == *id)
            .map_or(network.span, |val| val.span_or(network.span));
        problems.push(
            Diagnostic::new(
                &T0639,
                span,
                format!("`{id}` is in {vpc}, but `{}` is in {}", first.id, first.vpc),
            )
            .note(
                "the subnets and security groups of a job must be in one VPC (CreateTrainingJob, VpcConfig)",
            ),
        );
    }
}

fn opens(rule: &GroupRule, from: i64, to: i64, groups: &[SecurityGroup]) -> bool {
    let protocol = rule.protocol == "-1" || rule.protocol == "tcp" || rule.protocol == "6";
    let ports = rule.protocol == "-1"
        || (rule.from_port.is_none_or(|port| port <= from) && rule.to_port.is_none_or(|port| port >= to));
    // A CIDR range may contain the file system, so it is assumed to match.
    let other =
        !rule.ranges.is_empty() || rule.groups.iter().any(|id| groups.iter().any(|group| group.id == *id));
    protocol && ports && other
}

/// Returns the complete command that adds rules to a group for traffic from and to the group itself.
fn authorize_command(way: &str, region: &str, id: &str, rules: &[String]) -> String {
    let rules: Vec<String> =
        rules.iter().map(|rule| format!("'{rule},UserIdGroupPairs=[{{GroupId={id}}}]'")).collect();
    let rules = rules.join(" ");
    format!(
        "aws ec2 authorize-security-group-{way} --region {region} --group-id {id} --ip-permissions {rules}"
    )
}

fn check_lustre_ports(plan: &Plan, groups: &[SecurityGroup], span: Span, problems: &mut Problems) {
    type Rules = fn(&SecurityGroup) -> &Vec<GroupRule>;
    let ways: [(&str, &str, Rules); 2] =
        [("in", "ingress", |group| &group.ingress), ("out", "egress", |group| &group.egress)];
    let region = plan.job.region.value().map_or("", String::as_str);
    let id = groups.first().map_or("sg-…", |group| group.id.as_str());
    let (mut closed, mut commands) = (Vec::new(), Vec::new());
    for (way, verb, rules) in ways {
        let mut missing = Vec::new();
        for (from, to) in LUSTRE_PORTS {
            if !groups.iter().flat_map(rules).any(|rule| opens(rule, from, to, groups)) {
                let ports = if from == to { from.to_string() } else { format!("{from}-{to}") };
                closed.push(format!("{ports} {way}"));
                missing.push(format!("IpProtocol=tcp,FromPort={from},ToPort={to}"));
            }
        }
        if !missing.is_empty() {
            commands.push(authorize_command(verb, region, id, &missing));
        }
    }
    if closed.is_empty() {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0626,
            span,
            format!("Lustre requires TCP {}, which no rule allows", text::list(&closed, "and")),
        )
        .help(commands.join(" && "))
        .note(
            "FSx rejects CreateFileSystem otherwise: \"do not permit Lustre LNET network traffic \
                on port 988\"",
        )
        .note("an outbound rule for all traffic to 0.0.0.0/0, the default of new groups, is sufficient"),
    );
}

fn efa_rules(plan: &Plan, groups: &[SecurityGroup], span: Span, problems: &mut Problems) {
    let itself = |group: &SecurityGroup, rules: &[GroupRule]| {
        rules.iter().any(|rule| rule.protocol == "-1" && rule.groups.contains(&group.id))
    };
    let mut lacking = Vec::new();
    for (way, fine) in [
        ("inbound", groups.iter().any(|group| itself(group, &group.ingress))),
        ("outbound", groups.iter().any(|group| itself(group, &group.egress))),
    ] {
        if !fine {
            lacking.push(way);
        }
    }
    if lacking.is_empty() {
        return;
    }
    let id = groups.first().map_or("sg-…", |group| group.id.as_str());
    let region = plan.job.region.value().map_or("", String::as_str);
    let all = ["IpProtocol=-1".to_owned()];
    let commands: Vec<String> = lacking
        .iter()
        .map(|way| authorize_command(if *way == "outbound" { "egress" } else { "ingress" }, region, id, &all))
        .collect();
    problems.push(
        Diagnostic::new(
            &T0627,
            span,
            format!(
                "no security group allows all traffic to and from itself: missing {}",
                text::list(&lacking, "and")
            ),
        )
        .help(commands.join(" && "))
        .note(
            "EFA traffic has no ports: the group must allow all traffic to itself; an outbound rule \
            to 0.0.0.0/0 is not sufficient",
        )
        .note("without it NCCL falls back to TCP or hangs at the first collective (aws/aws-ofi-nccl#161)"),
    );
}
