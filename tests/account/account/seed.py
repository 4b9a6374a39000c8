"""Resources that exist before trainc runs: networks with the IDs of a manifest, buckets, data."""

from unittest import mock

from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends
from moto.s3.models import s3_backends


def seed(world, wanted):
    """Creates `subnets`, `security_groups` (IDs), `buckets`, `objects` (S3 URIs), `file_systems` (ID, mount), `roles`,
    `secrets` and `keys` (ARNs) in `region`."""
    region = wanted["region"]
    account = world.account
    ec2 = ec2_backends[account][region]
    vpc = next(iter(ec2.vpcs.values()))
    zone = wanted.get("zone", region + "a")
    for index, identity in enumerate(wanted.get("subnets", [])):
        if any(identity in subnets for subnets in ec2.subnets.values()):
            continue
        with mock.patch("moto.ec2.models.subnets.random_subnet_id", lambda identity=identity: identity):
            ec2.create_subnet(vpc.id, f"172.31.{112 + index * 4}.0/22", availability_zone=zone)
    for identity in wanted.get("security_groups", []):
        if ec2.get_security_group_from_id(identity) is None:
            with mock.patch("moto.ec2.models.security_groups.random_security_group_id", lambda identity=identity: identity):
                ec2.create_security_group(identity, "of the test", vpc_id=vpc.id)
            itself = [{"GroupId": identity, "UserId": account}]
            ec2.authorize_security_group_ingress(identity, "-1", None, None, [], source_groups=itself)
            ec2.authorize_security_group_egress(identity, "-1", None, None, [], source_groups=itself)
    # A free route to S3: its gateway endpoint, in the main route table of all subnets.
    if wanted.get("subnets") and not ec2.vpc_end_points:
        main = [table.id for table in ec2.route_tables.values() if table.vpc_id == vpc.id]
        ec2.create_vpc_endpoint(vpc.id, f"com.amazonaws.{region}.s3", "Gateway", None, main)
    s3 = s3_backends[account]["aws"]
    for bucket in wanted.get("buckets", []):
        if bucket not in s3.buckets:
            s3.create_bucket(bucket, region)
    for uri in wanted.get("objects", []):
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        if bucket not in s3.buckets:
            s3.create_bucket(bucket, region)
        s3.put_object(bucket, key, b"data")
    iam = iam_backends[account]["aws"]
    for arn in wanted.get("roles", []):
        path, _, name = arn.partition(":role/")[2].rpartition("/")
        role = iam.create_role(
            name, '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",'
            '"Principal":{"Service":"sagemaker.amazonaws.com"}}]}', f"/{path}/" if path else "/", None, "", [], "3600",
        )
        iam.put_role_policy(
            role.name, "all", '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'
        )
    for system in wanted.get("file_systems", []):
        world.file_systems[region, system["id"]] = {
            "reads": 0,
            "lag": 0,
            "token": None,
            "interface": None,
            "described": {
                "OwnerId": account,
                "CreationTime": 1_700_000_000,
                "FileSystemId": system["id"],
                "FileSystemType": "LUSTRE",
                "Lifecycle": "AVAILABLE",
                "StorageCapacity": 12000,
                "StorageType": "SSD",
                "VpcId": vpc.id,
                "SubnetIds": wanted["subnets"][:1],
                "NetworkInterfaceIds": [],
                "ResourceARN": f"arn:aws:fsx:{region}:{account}:file-system/{system['id']}",
                "FileSystemTypeVersion": "2.12",
                "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "MountName": system["mount"]},
            },
        }
    world.named.update(wanted.get("secrets", []) + wanted.get("keys", []))
    return {"vpc": vpc.id}


def state(world):
    """Returns a summary of the account's resources, for tests to compare."""
    iam = iam_backends[world.account]["aws"]
    s3 = s3_backends[world.account]["aws"]
    return {
        "jobs": [
            {"name": name, "region": region, "status": job.status, "tags": world.tags.get(job.arn, {})}
            for (region, name), job in world.jobs.items()
        ],
        "file_systems": [
            {**s["described"], "Tags": world.tags.get(s["described"]["ResourceARN"], {})}
            for s in world.file_systems.values()
        ],
        "associations": [a["described"] for a in world.associations.values()],
        "roles": [
            {
                "name": role.name,
                "path": role.path,
                "policies": sorted(role.policies),
                "tags": {tag["Key"]: tag["Value"] for tag in role.tags or []},
            }
            for role in iam.roles.values()
        ],
        "objects": sorted(f"s3://{b}/{k}" for b, bucket in s3.buckets.items() for k in bucket.keys.keys()),
        "uploads": sorted(u for bucket in s3.buckets.values() for u in bucket.multiparts),
    }
