//! EC2: the five read operations that trainc uses, over the query protocol (API version 2016-11-15).

use super::errors::foreign_answer;
use super::signed_client::{SignedClient, SignedRequest, SignedResponse};
use super::xml::{self, items, text_of};
use roxmltree::Node;
use trainc_apply::account::{Endpoint, GroupRule, Route, RouteTable, SecurityGroup, Subnet};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::Fault;

const VERSION: &str = "2016-11-15";

/// Requests one page and returns its XML.
async fn page(signed: &SignedClient, call: Call, parameters: &[(String, String)]) -> Answer<String> {
    let mut body = format!("Action={}&Version={VERSION}", call.row().operation);
    for (name, value) in parameters {
        body.push('&');
        body.push_str(name);
        body.push('=');
        body.push_str(&form_encode(value));
    }
    let ask = SignedRequest {
        call,
        host: "ec2",
        service: "ec2",
        region: None,
        headers: vec![("content-type", "application/x-www-form-urlencoded".to_owned())],
        body,
    };
    Ok(signed.ask(&ask, parse_fault).await?.body)
}

/// Reads all items of a list, page after page.
async fn request_all_pages<T>(
    signed: &SignedClient,
    call: Call,
    parameters: &[(String, String)],
    list: &str,
    read: fn(Node<'_, '_>) -> T,
) -> Answer<Vec<T>> {
    let mut found = Vec::new();
    let mut parameters = parameters.to_vec();
    loop {
        let body = page(signed, call, &parameters).await?;
        let document = xml::parse(&body);
        let root = document.as_ref().map(roxmltree::Document::root_element);
        let root =
            root.filter(|root| root.tag_name().name().strip_suffix("Response") == Some(call.row().operation));
        let root = root.ok_or_else(|| foreign_answer(call, 200))?;
        found.extend(items(root, list).map(read));
        let Some(token) = text_of(root, "nextToken") else { return Ok(found) };
        // As the SDK's paginators: the same token again would be asked for without end.
        if parameters.iter().any(|(name, value)| name == "NextToken" && value == token) {
            return Err(foreign_answer(call, 200));
        }
        parameters.retain(|(name, _)| name != "NextToken");
        parameters.push(("NextToken".to_owned(), token.to_owned()));
    }
}

/// Returns the fault in an error response: `Response/Errors/Error/{Code,Message}`.
fn parse_fault(ask: &SignedRequest, reply: &SignedResponse) -> Option<Fault> {
    if reply.status < 300 {
        return None;
    }
    let document = xml::parse(&reply.body);
    let root = document.as_ref().map(roxmltree::Document::root_element);
    let error = root.and_then(|root| xml::child(xml::child(root, "Errors")?, "Error"));
    let code = error.and_then(|error| text_of(error, "Code")).unwrap_or_default();
    if code.is_empty() && reply.status < 500 {
        return Some(foreign_answer(ask.call, reply.status));
    }
    let message = error.and_then(|error| text_of(error, "Message")).unwrap_or("no reason given");
    let id = root.and_then(|root| text_of(root, "RequestID")).or(reply.request_id.as_deref());
    Some(Fault::from_answer(ask.call, Some(reply.status), code, message).with_request_id(id))
}

fn numbered_parameters(name: &str, values: &[String]) -> Vec<(String, String)> {
    values.iter().zip(1..).map(|(value, number)| (format!("{name}.{number}"), value.clone())).collect()
}

pub(super) async fn subnets(signed: &SignedClient, ids: &[String]) -> Answer<Vec<Subnet>> {
    request_all_pages(
        signed,
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

pub(super) async fn route_tables(signed: &SignedClient, vpc: &str) -> Answer<Vec<RouteTable>> {
    let call = Call::DescribeRouteTables;
    request_all_pages(signed, call, &filters(&[("vpc-id", vpc)]), "routeTableSet", route_table).await
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

pub(super) async fn vpc_endpoints(signed: &SignedClient, vpc: &str, service: &str) -> Answer<Vec<Endpoint>> {
    let call = Call::DescribeVpcEndpoints;
    let asked = filters(&[("vpc-id", vpc), ("service-name", service)]);
    request_all_pages(signed, call, &asked, "vpcEndpointSet", |item| Endpoint {
        id: text(item, "vpcEndpointId"),
        kind: text(item, "vpcEndpointType"),
        state: text(item, "state"),
        route_tables: items(item, "routeTableIdSet").map(|id| xml::text(id).to_owned()).collect(),
        private_dns: text_of(item, "privateDnsEnabled") == Some("true"),
    })
    .await
}

pub(super) async fn security_groups(signed: &SignedClient, ids: &[String]) -> Answer<Vec<SecurityGroup>> {
    let call = Call::DescribeSecurityGroups;
    request_all_pages(signed, call, &numbered_parameters("GroupId", ids), "securityGroupInfo", |item| {
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

pub(super) async fn zones(signed: &SignedClient, instance_type: &str) -> Answer<Vec<String>> {
    let parameters = [
        ("LocationType", "availability-zone-id"),
        ("Filter.1.Name", "instance-type"),
        ("Filter.1.Value.1", instance_type),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let call = Call::DescribeInstanceTypeOfferings;
    let mut zones = request_all_pages(signed, call, &parameters, "instanceTypeOfferingSet", |item| {
        text(item, "location")
    })
    .await?;
    zones.sort_unstable();
    Ok(zones)
}

fn text(item: Node<'_, '_>, name: &str) -> String {
    text_of(item, name).unwrap_or_default().to_owned()
}

/// Percent-encodes a form value: all bytes except unreserved characters (RFC 3986).
fn form_encode(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_apply::fault::Class;

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

    #[test]
    fn a_refusal_is_classified_by_its_code() {
        let body = "<Response><Errors><Error><Code>InvalidSubnetID.NotFound</Code><Message>The subnet ID \
            'subnet-1' does not exist</Message></Error></Errors><RequestID>r-1</RequestID></Response>";
        let ask = SignedRequest {
            call: Call::DescribeSubnets,
            host: "ec2",
            service: "ec2",
            region: None,
            headers: Vec::new(),
            body: String::new(),
        };
        let reply = SignedResponse { status: 400, body: body.to_owned(), request_id: None };
        let fault = parse_fault(&ask, &reply).unwrap();
        assert_eq!((fault.class, fault.request_id.as_deref()), (Class::NotFound, Some("r-1")));
        let reply = SignedResponse { status: 503, body: "<html>".to_owned(), request_id: None };
        assert_eq!(parse_fault(&ask, &reply).unwrap().class, Class::Unavailable);
        assert!(
            parse_fault(&ask, &SignedResponse { status: 200, body: String::new(), request_id: None })
                .is_none()
        );
    }

    #[test]
    fn values_of_a_form_are_encoded() {
        assert_eq!(form_encode("a b+c/é"), "a%20b%2Bc%2F%C3%A9");
    }
}
