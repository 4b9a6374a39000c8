"""Checks in an account before the first write: the network, its ports, its route to S3."""

import json
import os
import subprocess
import sys

import pytest
from job import Example, Run

SUBNET, GROUP = "subnet-0123456789abcdef0", "sg-0123456789abcdef0"
ALL = [{"CidrIp": "0.0.0.0/0"}]


@pytest.fixture(scope="session")
def example():
    return Example("llama-7b-fsdp")


def without(what):
    """Returns a change: the account without some resources that the manifest refers to."""
    return lambda account, example: (account.reset(), account.admin("seed", {**example.seeded(), what: []}))


def itself(**ports):
    return [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": GROUP}], **ports}]


def rules(ingress, egress):
    """Returns a change: the security group has exactly these rules."""

    def change(account, _):
        ec2 = account.client("ec2")
        (group,) = ec2.describe_security_groups(GroupIds=[GROUP])["SecurityGroups"]
        ec2.revoke_security_group_ingress(GroupId=GROUP, IpPermissions=group["IpPermissions"])
        ec2.revoke_security_group_egress(GroupId=GROUP, IpPermissions=group["IpPermissionsEgress"])
        for add, wanted in ((ec2.authorize_security_group_ingress, ingress),
                            (ec2.authorize_security_group_egress, egress)):
            if wanted:
                add(GroupId=GROUP, IpPermissions=wanted)

    return change


def tcp(*ports):
    return [{"IpProtocol": "tcp", "FromPort": a, "ToPort": b, "IpRanges": ALL} for a, b in ports]


OUT = [{"IpProtocol": "-1", "IpRanges": ALL}]


def no_endpoint(account, _):
    ec2 = account.client("ec2")
    found = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    ec2.delete_vpc_endpoints(VpcEndpointIds=[one["VpcEndpointId"] for one in found])


def internet(account, example):
    """Adds a default route to an internet gateway, and removes the endpoint."""
    no_endpoint(account, example)
    ec2 = account.client("ec2")
    (subnet,) = ec2.describe_subnets(SubnetIds=[SUBNET])["Subnets"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=subnet["VpcId"])
    (table,) = [t for t in ec2.describe_route_tables()["RouteTables"] if t["VpcId"] == subnet["VpcId"]]
    ec2.create_route(RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)


def nat(account, example):
    """Adds a route table for the subnet with a route to a NAT gateway, and removes the endpoint."""
    no_endpoint(account, example)
    ec2 = account.client("ec2")
    (subnet,) = ec2.describe_subnets(SubnetIds=[SUBNET])["Subnets"]
    gateway = ec2.create_nat_gateway(SubnetId=SUBNET, ConnectivityType="private")["NatGateway"]["NatGatewayId"]
    table = ec2.create_route_table(VpcId=subnet["VpcId"])["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=gateway)
    ec2.associate_route_table(RouteTableId=table, SubnetId=SUBNET)


@pytest.mark.parametrize(
    "change, code, words, ends",
    [
        (without("subnets"), "T0623", SUBNET, 3),
        (without("security_groups"), "T0625", GROUP, 3),
        (rules(tcp((443, 443)), OUT), "T0626", "988 in and 1018-1023 in", 3),
        (rules(tcp((988, 988)) + itself(), tcp((443, 443)) + tcp((988, 988))), "T0626", "1018-1023 out", 3),
        (rules(itself(), OUT), "T0627", "missing outbound", 3),
        (rules(tcp((988, 988), (1018, 1023)), itself()), "T0627", "missing inbound", 3),
        (no_endpoint, "T0640", "no default route and no S3 endpoint", 3),
        (internet, "T0640", "is an internet gateway", 0),
        (nat, None, "", 0),
        (rules(itself(), itself()), None, "", 0),
    ],
)
def test_the_network(account, example, change, code, words, ends):
    run = Run(account, example)
    change(account, example)
    before = account.state()
    planned = run.trainc("plan")
    said = " ".join((planned.out + planned.err).replace("│", " ").split())
    assert planned.code == ends, planned
    assert account.state() == before, "a plan only reads"
    if code is None:
        assert "T062" not in said and "T064" not in said, planned
        return
    assert code in said and words in said, planned
    if ends:
        done = run.apply()
        assert done.code == ends and code in done.err, done
        assert account.state() == before, "nothing is written while something is missing"


@pytest.mark.parametrize("egress", [OUT, []], ids=["way-out", "no-way-out"])
def test_the_help_about_ports_is_a_command_that_mends_them(account, example, egress):
    """Each help is a command that creates the missing rule, after which plan reports nothing."""
    run = Run(account, example)
    rules(tcp((443, 443)), egress)(account, example)
    found = json.loads(run.trainc("plan", "-o", "json").out)["problems"]
    helps = {one["code"]: one["help"] for one in found if one["code"] in ("T0626", "T0627")}
    assert set(helps) == {"T0626", "T0627"}, found
    folder = os.path.dirname(sys.executable)
    for text in helps.values():
        done = subprocess.run(
            ["sh", "-ec", text], capture_output=True, text=True, timeout=120,
            env={**account.environment, "PATH": f"{folder}:{os.environ['PATH']}"},
        )
        assert done.returncode == 0, (text, done)
    planned = run.trainc("plan", "-o", "json")
    assert planned.code == 0, planned
    assert not [one for one in json.loads(planned.out)["problems"] if one["code"] in helps], planned


def test_a_bucket_of_another_region_or_account_is_found(account, example):
    """S3 redirects requests in the wrong region, and denies those whose expected bucket owner is wrong."""
    run = Run(account, example)
    s3 = account.client("s3")
    (bucket,) = {b["Name"] for b in s3.list_buckets()["Buckets"]} & {"example-corpus"}
    account.settings(foreign_buckets=[bucket])
    planned = run.trainc("plan", "-o", "json")
    found = [one for one in json.loads(planned.out)["problems"] if one["code"] == "T0642"]
    assert planned.code == 0 and len(found) == 1, planned
    assert found[0]["severity"] == "warning" and found[0]["line"] > 1 and bucket in found[0]["message"], found
    account.settings(foreign_buckets=[])
    for one in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        s3.delete_object(Bucket=bucket, Key=one["Key"])
    s3.delete_bucket(Bucket=bucket)
    account.client("s3", "eu-west-1").create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    planned = run.trainc("plan", "-o", "json")
    found = [one for one in json.loads(planned.out)["problems"] if one["code"] == "T0629"]
    assert planned.code == 3 and len(found) == 1, planned
    assert found[0]["severity"] == "error" and found[0]["line"] > 1 and bucket in found[0]["message"], found
