"""FSx for Lustre: file systems with states over time, idempotency tokens, data repository associations."""

import time

from moto.ec2.models import ec2_backends

from .wire import Refused, ok
from .world import page

THROUGHPUT = {"PERSISTENT_1": (12, 40, 50, 100, 200), "PERSISTENT_2": (125, 250, 500, 1000)}


class Fsx:
    def __init__(self, world):
        self.world = world

    def answer(self, call):
        handler = getattr(self, "do_" + call.operation, None)
        if handler is None:
            raise Refused("UnsupportedOperation", f"the test account has no fsx:{call.operation}")
        return ok(handler(call.json, call.region))

    # --- file systems

    def do_CreateFileSystem(self, request, region):
        asked = {k: v for k, v in request.items() if k != "ClientRequestToken"}
        token = request.get("ClientRequestToken")
        known = self.world.tokens.get((region, token)) if token else None
        if known is not None:
            before, identity = known
            if before != asked:
                raise Refused(
                    "IncompatibleParameterError",
                    "The parameters that you specified do not match the parameters of the file system that was "
                    "created with this client request token.",
                    Parameter="ClientRequestToken",
                )
            return {"FileSystem": self.shown(self.world.file_systems[region, identity])}
        self.check(request, region)
        backend = ec2_backends[self.world.account][region]
        identity = f"fs-{self.world.number():017x}"
        subnet = backend.get_subnet(request["SubnetIds"][0])
        interface = backend.create_network_interface(
            subnet, None, group_ids=request.get("SecurityGroupIds") or [], description=f"FSx {identity}"
        )
        lustre = {
            "WeeklyMaintenanceStartTime": "4:07:30",
            "DataCompressionType": "NONE",
            "MountName": "fsx" if request["LustreConfiguration"]["DeploymentType"] == "SCRATCH_1" else "3x5lhbmv",
            "AutomaticBackupRetentionDays": 0,
            "CopyTagsToBackups": False,
            "LogConfiguration": {"Level": "DISABLED"},
            "EfaEnabled": False,
            **request["LustreConfiguration"],
        }
        self.world.file_systems[region, identity] = {
            "reads": self.world.settings.file_system_reads,
            "lag": self.world.settings.read_lag,
            "token": token,
            "interface": interface.id,
            "described": {
                "OwnerId": self.world.account,
                "CreationTime": int(time.time()),
                "FileSystemId": identity,
                "FileSystemType": "LUSTRE",
                "Lifecycle": "CREATING",
                "StorageCapacity": request["StorageCapacity"],
                "StorageType": request.get("StorageType", "SSD"),
                "VpcId": subnet.vpc_id,
                "SubnetIds": request["SubnetIds"],
                "NetworkInterfaceIds": [interface.id],
                "DNSName": f"{identity}.fsx.{region}.amazonaws.com",
                "KmsKeyId": request.get("KmsKeyId", f"arn:aws:kms:{region}:{self.world.account}:key/aws-fsx"),
                "ResourceARN": self.arn(region, f"file-system/{identity}"),
                "FileSystemTypeVersion": request.get("FileSystemTypeVersion", "2.10"),
                "LustreConfiguration": lustre,
            },
        }
        self.world.tags[self.arn(region, f"file-system/{identity}")] = {
            t["Key"]: t["Value"] for t in request.get("Tags", [])
        }
        if token:
            self.world.tokens[region, token] = (asked, identity)
        return {"FileSystem": self.shown(self.world.file_systems[region, identity])}

    def check(self, request, region):
        lustre = request.get("LustreConfiguration")
        if lustre is None:
            raise Refused("MissingFileSystemConfiguration", "LustreConfiguration is missing.")
        if len(request["SubnetIds"]) != 1:
            raise Refused("BadRequest", "Exactly one subnet ID is required for Lustre file systems.")
        backend = ec2_backends[self.world.account][region]
        if not any(request["SubnetIds"][0] in subnets for subnets in backend.subnets.values()):
            raise Refused(
                "InvalidNetworkSettings",
                f"The subnet ID '{request['SubnetIds'][0]}' does not exist",
                InvalidSubnetId=request["SubnetIds"][0],
            )
        for group in request.get("SecurityGroupIds", []):
            if backend.get_security_group_from_id(group) is None:
                raise Refused(
                    "InvalidNetworkSettings",
                    f"The security group '{group}' does not exist",
                    InvalidSecurityGroupId=group,
                )
        capacity, kind = request.get("StorageCapacity"), lustre["DeploymentType"]
        if request.get("StorageType") != "INTELLIGENT_TIERING" and request.get("StorageType") != "HDD":
            if capacity != 1200 and (capacity is None or capacity % (3600 if kind == "SCRATCH_1" else 2400)) and not (
                kind == "SCRATCH_1" and capacity == 2400
            ):
                raise Refused("BadRequest", f"Invalid storage capacity {capacity} GiB for {kind}.")
        throughput = lustre.get("PerUnitStorageThroughput")
        if kind in THROUGHPUT and throughput is not None and throughput not in THROUGHPUT[kind]:
            raise Refused("InvalidPerUnitStorageThroughput", f"{throughput} is not legal for {kind}.")

    def do_DescribeFileSystems(self, request, region):
        wanted = request.get("FileSystemIds") or []
        shown = []
        for (where, identity), system in list(self.world.file_systems.items()):
            if where != region or (wanted and identity not in wanted):
                continue
            if system["lag"] > 0:
                system["lag"] -= 1
                continue
            self.advance(region, identity, system)
            if (region, identity) in self.world.file_systems:
                shown.append(self.shown(system))
        if missing := set(wanted) - {s["FileSystemId"] for s in shown}:
            raise Refused("FileSystemNotFound", f"File system '{sorted(missing)[0]}' does not exist.")
        items, token = page(shown, request, 2147483647)
        return {"FileSystems": items, **({"NextToken": token} if token else {})}

    def advance(self, region, identity, system):
        described = system["described"]
        if described["Lifecycle"] not in ("CREATING", "DELETING"):
            return
        if system["reads"] > 0:
            system["reads"] -= 1
        elif described["Lifecycle"] == "DELETING":
            self.gone(region, identity, system)
        elif self.world.settings.file_system_fails:
            described["Lifecycle"] = "FAILED"
            described["FailureDetails"] = {"Message": self.world.settings.file_system_fails}
        else:
            described["Lifecycle"] = "AVAILABLE"

    def gone(self, region, identity, system):
        del self.world.file_systems[region, identity]
        self.world.tokens.pop((region, system["token"]), None)
        self.world.tags.pop(self.arn(region, f"file-system/{identity}"), None)
        backend = ec2_backends[self.world.account][region]
        backend.delete_network_interface(system["interface"])
        for key, link in list(self.world.associations.items()):
            if key[0] == region and link["described"]["FileSystemId"] == identity:
                self.unlink(key, link)

    def do_DeleteFileSystem(self, request, region):
        system = self.find(request["FileSystemId"], region)
        system["described"]["Lifecycle"] = "DELETING"
        system["reads"] = self.world.settings.file_system_reads
        return {"FileSystemId": request["FileSystemId"], "Lifecycle": "DELETING"}

    def do_UpdateFileSystem(self, request, region):
        described = self.find(request["FileSystemId"], region)["described"]
        if "StorageCapacity" in request:
            if request["StorageCapacity"] <= described["StorageCapacity"]:
                raise Refused("BadRequest", "Storage capacity can only be increased.")
            described["StorageCapacity"] = request["StorageCapacity"]
        described["LustreConfiguration"].update(request.get("LustreConfiguration", {}))
        return {"FileSystem": described}

    def find(self, identity, region):
        system = self.world.file_systems.get((region, identity))
        if system is None:
            raise Refused("FileSystemNotFound", f"File system '{identity}' does not exist.")
        return system

    def shown(self, system):
        tags = self.world.tags.get(system["described"]["ResourceARN"], {})
        return {**system["described"], "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}

    # --- data repository associations

    def do_CreateDataRepositoryAssociation(self, request, region):
        asked = {k: v for k, v in request.items() if k != "ClientRequestToken"}
        token = request.get("ClientRequestToken")
        known = self.world.tokens.get((region, token)) if token else None
        if known is not None:
            if known[0] != asked:
                raise Refused(
                    "IncompatibleParameterError", "The parameters do not match the client request token.",
                    Parameter="ClientRequestToken",
                )
            return {"Association": self.link_shown(self.world.associations[region, known[1]])}
        system = self.find(request["FileSystemId"], region)["described"]
        lustre = system["LustreConfiguration"]
        if lustre["DeploymentType"] == "SCRATCH_1" or system["FileSystemTypeVersion"] == "2.10":
            raise Refused("UnsupportedOperation", "Data repository associations need Lustre 2.12 or 2.15.")
        here = [
            link["described"] for (where, _), link in self.world.associations.items()
            if where == region and link["described"]["FileSystemId"] == request["FileSystemId"]
        ]
        if len(here) >= 8:
            raise Refused("ServiceLimitExceeded", "8 data repository associations per file system.")
        path = request.get("FileSystemPath", "/").rstrip("/") + "/"
        for other in here:
            before = other["FileSystemPath"].rstrip("/") + "/"
            if before.startswith(path) or path.startswith(before):
                raise Refused("BadRequest", f"{path} overlaps with {before} of {other['AssociationId']}.")
        identity = f"dra-{self.world.number():017x}"
        arn = self.arn(region, f"association/{request['FileSystemId']}/{identity}")
        self.world.associations[region, identity] = {
            "reads": self.world.settings.association_reads,
            "lag": self.world.settings.read_lag,
            "token": token,
            "described": {
                "AssociationId": identity,
                "ResourceARN": arn,
                "FileSystemId": request["FileSystemId"],
                "Lifecycle": "CREATING",
                "FileSystemPath": request.get("FileSystemPath", "/"),
                "DataRepositoryPath": request["DataRepositoryPath"].rstrip("/") + "/",
                "BatchImportMetaDataOnCreate": request.get("BatchImportMetaDataOnCreate", False),
                "ImportedFileChunkSize": request.get("ImportedFileChunkSize", 1024),
                "S3": request.get("S3", {}),
                "CreationTime": int(time.time()),
            },
        }
        self.world.tags[arn] = {t["Key"]: t["Value"] for t in request.get("Tags", [])}
        if token:
            self.world.tokens[region, token] = (asked, identity)
        return {"Association": self.link_shown(self.world.associations[region, identity])}

    def do_DescribeDataRepositoryAssociations(self, request, region):
        wanted = request.get("AssociationIds") or []
        filters = {f["Name"]: f["Values"] for f in request.get("Filters", [])}
        shown = []
        for key, link in list(self.world.associations.items()):
            described = link["described"]
            if key[0] != region or (wanted and key[1] not in wanted):
                continue
            if "file-system-id" in filters and described["FileSystemId"] not in filters["file-system-id"]:
                continue
            if link["lag"] > 0:
                link["lag"] -= 1
                continue
            if described["Lifecycle"] == "DELETING" and link["reads"] <= 0:
                self.unlink(key, link)
                continue
            system = self.world.file_systems.get((region, described["FileSystemId"]))
            ready = system is not None and system["described"]["Lifecycle"] == "AVAILABLE"
            if described["Lifecycle"] == "CREATING" and ready and link["reads"] <= 0:
                described["Lifecycle"] = "AVAILABLE"
            elif described["Lifecycle"] == "DELETING" or ready:
                link["reads"] -= 1
            shown.append(self.link_shown(link))
        if missing := set(wanted) - {s["AssociationId"] for s in shown}:
            raise Refused(
                "DataRepositoryAssociationNotFound", f"Association '{sorted(missing)[0]}' does not exist."
            )
        items, token = page(shown, request, 25)
        return {"Associations": items, **({"NextToken": token} if token else {})}

    def do_DeleteDataRepositoryAssociation(self, request, region):
        link = self.world.associations.get((region, request["AssociationId"]))
        if link is None:
            raise Refused("DataRepositoryAssociationNotFound", f"'{request['AssociationId']}' does not exist.")
        link["described"]["Lifecycle"] = "DELETING"
        link["reads"] = self.world.settings.association_reads
        return {"AssociationId": request["AssociationId"], "Lifecycle": "DELETING"}

    def unlink(self, key, link):
        del self.world.associations[key]
        self.world.tokens.pop((key[0], link["token"]), None)
        self.world.tags.pop(link["described"]["ResourceARN"], None)

    def link_shown(self, link):
        tags = self.world.tags.get(link["described"]["ResourceARN"], {})
        return {**link["described"], "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}

    # --- tags

    def do_TagResource(self, request, region):
        self.tagged(request["ResourceARN"]).update({t["Key"]: t["Value"] for t in request["Tags"]})
        return {}

    def do_UntagResource(self, request, region):
        for key in request["TagKeys"]:
            self.tagged(request["ResourceARN"]).pop(key, None)
        return {}

    def do_ListTagsForResource(self, request, region):
        return {"Tags": [{"Key": k, "Value": v} for k, v in self.tagged(request["ResourceARN"]).items()]}

    def tagged(self, arn):
        if arn not in self.world.tags:
            raise Refused("ResourceNotFound", f"'{arn}' does not exist.", ResourceARN=arn)
        return self.world.tags[arn]

    def arn(self, region, resource):
        return f"arn:aws:fsx:{region}:{self.world.account}:{resource}"
