//! EC2: the five read operations that trainc uses, over the query protocol.

use super::client::{Client, all_pages};
use super::xml::{self, items, text_of};
use roxmltree::Node;
use trainc_apply::account::{Endpoint, GroupRule, Route, RouteTable, SecurityGroup, Subnet};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;

/// Reads all items of a list, page after page.
async fn request_all_pages<T>(
    client: &Client,
    call: Call,
    parameters: &[(String, String)],
    list: &str,
    read: fn(Node<'_, '_>) -> T,
) -> Answer<Vec<T>> {
    all_pages(call, async |token| {
        let mut asked = parameters.to_vec();
        asked.extend(token.map(|token| ("NextToken".to_owned(), token)));
        let page = |root: Node<'_, '_>| {
            Some((items(root, list).map(read).collect(), text_of(root, "nextToken").map(str::to_owned)))
        };
        client.query(call, &asked, page).await
    })
    .await
}

fn numbered_parameters(name: &str, values: &[String]) -> Vec<(String, String)> {
    values.iter().zip(1..).map(|(value, number)| (format!("{name}.{number}"), value.clone())).collect()
}

pub(super) async fn subnets(client: &Client, ids: &[String]) -> Answer<Vec<Subnet>> {
    request_all_pages(
        client,
        Call::DescribeSubnets,
        &numbered_parameters("SubnetId", ids),
        "subnetSet",
        |item| Subnet {
            id: text(item, "subnetId"),
            vpc: text(item, "vpcId"),
            zone: text(item, "availabilityZone"),
            zone_id: text(item, "availabilityZoneId"),
            free_addresses: text_of(item, "availableIpAddressCount")
                .and_then(|n| n.parse().ok())
                .unwrap_or(0),
        },
    )
    .await
}

/// Returns a filter with a single value: `Filter.1.Name=…&Filter.1.Value.1=…`.
fn filters(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let each = |(number, (name, value)): (u32, &(&str, &str))| {
        [
            (format!("Filter.{number}.Name"), (*name).to_owned()),
            (format!("Filter.{number}.Value.1"), (*value).to_owned()),
        ]
    };
    (1..).zip(pairs).flat_map(each).collect()
}

pub(super) async fn route_tables(client: &Client, vpc: &str) -> Answer<Vec<RouteTable>> {
    let call = Call::DescribeRouteTables;
    request_all_pages(client, call, &filters(&[("vpc-id", vpc)]), "routeTableSet", route_table).await
}

fn route_table(item: Node<'_, '_>) -> RouteTable {
    let routes = items(item, "routeSet").filter(|route| text_of(*route, "state") != Some("blackhole"));
    RouteTable {
        id: text(item, "routeTableId"),
        is_main: items(item, "associationSet").any(|one| text_of(one, "main") == Some("true")),
        subnets: items(item, "associationSet")
            .filter_map(|one| text_of(one, "subnetId").map(str::to_owned))
            .collect(),
        routes: routes
            .map(|route| {
                let first = |names: &[&str]| {
                    names.iter().find_map(|name| text_of(route, name)).unwrap_or_default().to_owned()
                };
                Route { destination: first(DESTINATIONS), target: first(TARGETS) }
            })
            .collect(),
    }
}

/// Members for destinations and targets of a route, which has one of each (API reference, Route).
const DESTINATIONS: &[&str] =
    &["destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId"];
const TARGETS: &[&str] = &[
    "natGatewayId",
    "transitGatewayId",
    "vpcPeeringConnectionId",
    "networkInterfaceId",
    "instanceId",
    "egressOnlyInternetGatewayId",
    "carrierGatewayId",
    "localGatewayId",
    "coreNetworkArn",
    "gatewayId",
];

pub(super) async fn vpc_endpoints(client: &Client, vpc: &str, service: &str) -> Answer<Vec<Endpoint>> {
    let call = Call::DescribeVpcEndpoints;
    let asked = filters(&[("vpc-id", vpc), ("service-name", service)]);
    request_all_pages(client, call, &asked, "vpcEndpointSet", |item| Endpoint {
        id: text(item, "vpcEndpointId"),
        kind: text(item, "vpcEndpointType"),
        state: text(item, "state"),
        route_tables: items(item, "routeTableIdSet").map(|id| xml::text(id).to_owned()).collect(),
        private_dns: text_of(item, "privateDnsEnabled") == Some("true"),
    })
    .await
}

pub(super) async fn security_groups(client: &Client, ids: &[String]) -> Answer<Vec<SecurityGroup>> {
    let call = Call::DescribeSecurityGroups;
    request_all_pages(client, call, &numbered_parameters("GroupId", ids), "securityGroupInfo", |item| {
        SecurityGroup {
            id: text(item, "groupId"),
            vpc: text(item, "vpcId"),
            ingress: items(item, "ipPermissions").map(rule).collect(),
            egress: items(item, "ipPermissionsEgress").map(rule).collect(),
        }
    })
    .await
}

fn rule(item: Node<'_, '_>) -> GroupRule {
    let port = |name: &str| text_of(item, name).and_then(|port| port.parse().ok()).filter(|port| *port >= 0);
    let each = |list: &str, name: &str| {
        items(item, list).filter_map(|one| text_of(one, name).map(str::to_owned)).collect::<Vec<_>>()
    };
    let mut ranges = each("ipRanges", "cidrIp");
    ranges.extend(each("ipv6Ranges", "cidrIpv6"));
    GroupRule {
        protocol: text(item, "ipProtocol"),
        from_port: port("fromPort"),
        to_port: port("toPort"),
        groups: each("groups", "groupId"),
        ranges,
    }
}

pub(super) async fn zones(client: &Client, instance_type: &str) -> Answer<Vec<String>> {
    let parameters = [
        ("LocationType", "availability-zone-id"),
        ("Filter.1.Name", "instance-type"),
        ("Filter.1.Value.1", instance_type),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let call = Call::DescribeInstanceTypeOfferings;
    let mut zones = request_all_pages(client, call, &parameters, "instanceTypeOfferingSet", |item| {
        text(item, "location")
    })
    .await?;
    zones.sort_unstable();
    Ok(zones)
}

fn text(item: Node<'_, '_>, name: &str) -> String {
    text_of(item, name).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_group_are_read() {
        let document = xml::parse(
            "<item><ipProtocol>tcp</ipProtocol><fromPort>988</fromPort><toPort>988</toPort><groups><item>\
             <userId>1</userId><groupId>sg-1</groupId></item></groups><ipRanges><item><cidrIp>10.0.0.0/8</cidrIp>\
             </item></ipRanges></item>",
        )
        .unwrap();
        let rule = rule(document.root_element());
        assert_eq!((rule.protocol.as_str(), rule.from_port, rule.to_port), ("tcp", Some(988), Some(988)));
        assert_eq!((rule.groups, rule.ranges), (vec!["sg-1".to_owned()], vec!["10.0.0.0/8".to_owned()]));
    }

    #[test]
    fn routes_that_lead_nowhere_are_left_out() {
        let document = xml::parse(
            "<item><routeTableId>rtb-1</routeTableId><routeSet><item><destinationCidrBlock>10.0.0.0/16\
             </destinationCidrBlock><gatewayId>local</gatewayId><state>active</state></item><item>\
             <destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><natGatewayId>nat-1</natGatewayId><state>blackhole\
             </state></item><item><destinationPrefixListId>pl-1</destinationPrefixListId><gatewayId>vpce-1\
             </gatewayId><state>active</state></item></routeSet><associationSet><item><main>true</main></item><item>\
             <main>false</main><subnetId>subnet-1</subnetId></item></associationSet></item>",
        )
        .unwrap();
        let table = route_table(document.root_element());
        assert!(table.is_main);
        assert_eq!((table.id.as_str(), table.subnets.as_slice()), ("rtb-1", &["subnet-1".to_owned()][..]));
        let routes: Vec<_> =
            table.routes.iter().map(|one| (one.destination.as_str(), one.target.as_str())).collect();
        assert_eq!(routes, [("10.0.0.0/16", "local"), ("pl-1", "vpce-1")]);
        assert_eq!(filters(&[("vpc-id", "vpc-1")])[1], ("Filter.1.Value.1".to_owned(), "vpc-1".to_owned()));
    }
}
