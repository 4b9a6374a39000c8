"""Least privilege, decided offline: what the job does is allowed, and what only looks like it is not.

The requests are made from sagemaker/training-job.json alone, never from the policy. The evaluator is ministack's
(MIT), a plain library that knows ARNs with wildcards and the condition operators; context keys go in lower case.
"""

import dataclasses
import json
import re

import pytest
from artefacts import ACCOUNT, jobs
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

JOBS = [job for job in jobs() if job.has("iam/policy.json")]


@dataclasses.dataclass(frozen=True)
class Ask:
    action: str
    arn: str
    context: tuple = ()

    def __str__(self):
        return f"{self.action} on {self.arn} {dict(self.context) or ''}"


class Asks:
    """What a job will ask for (`must`) and what it must be refused (`never`)."""

    def __init__(self, job):
        self.job, self.request = job, job.request
        self.region = self.request["AlgorithmSpecification"]["TrainingImage"].split(".")[3]
        self.partition = "aws-cn" if self.region[:3] == "cn-" else "aws-us-gov" if "-gov-" in self.region else "aws"
        self.must, self.never, self.buckets = [], [], {}
        self.storage()
        self.logs()
        self.image()
        self.network()
        self.keys()
        self.secrets()
        self.strangers()

    def arn(self, service, resource):
        return f"arn:{self.partition}:{service}:{self.region}:{ACCOUNT}:{resource}"

    def s3(self, bucket, key=None):
        return f"arn:{self.partition}:s3:::{bucket}" + ("" if key is None else f"/{key}")

    def ask(self, action, arn, **context):
        pairs = tuple((k.replace("__", ":").lower(), v) for k, v in context.items())
        self.must.append(Ask(action, arn, pairs))

    def refuse(self, action, arn, **context):
        pairs = tuple((k.replace("__", ":").lower(), v) for k, v in context.items())
        self.never.append(Ask(action, arn, pairs))

    @staticmethod
    def split(uri):
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return bucket, key.rstrip("/")

    @staticmethod
    def below(prefix, name):
        return f"{prefix}/{name}" if prefix else name

    def storage(self):
        name = self.request["TrainingJobName"]
        read, written, synced = [], [], []  # (bucket, prefix) as configured
        for channel in self.request.get("InputDataConfig", []):
            source = channel["DataSource"].get("S3DataSource")
            if source is None:
                continue
            bucket, prefix = self.split(source["S3Uri"])
            if source["S3DataType"] != "S3Prefix" or prefix.endswith(".tar.gz"):
                self.ask("s3:GetObject", self.s3(bucket, prefix))
                continue
            read.append((bucket, prefix))
            if not source["S3Uri"].endswith("/"):  # the service lists what stands there: a key prefix
                self.ask("s3:ListBucket", self.s3(bucket), s3__prefix=prefix)
        program = json.loads(self.request.get("HyperParameters", {}).get("sagemaker_submit_directory", '""'))
        if program.startswith("s3://"):
            self.ask("s3:GetObject", self.s3(*self.split(program)))
        written.append(self.split(self.request["OutputDataConfig"]["S3OutputPath"]))
        for member in ("DebugHookConfig", "ProfilerConfig", "TensorBoardOutputConfig"):
            if "S3OutputPath" in self.request.get(member, {}):
                written.append(self.split(self.request[member]["S3OutputPath"]))
        if "CheckpointConfig" in self.request:
            synced.append(self.split(self.request["CheckpointConfig"]["S3Uri"]))
        for bucket, prefix in read + synced:
            self.ask("s3:ListBucket", self.s3(bucket), s3__prefix=self.below(prefix, ""))
            self.ask("s3:GetObject", self.s3(bucket, self.below(prefix, "part-0")))
        for bucket, prefix in written:
            for action in ("s3:PutObject", "s3:AbortMultipartUpload"):
                self.ask(action, self.s3(bucket, self.below(prefix, f"{name}/output/model.tar.gz")))
        for bucket, prefix in synced:
            for action in ("s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"):
                self.ask(action, self.s3(bucket, self.below(prefix, "step-1")))
        every = read + written + synced
        for bucket, prefix in every:
            if not any(b == bucket and not p for b, p in every):  # no grant on the whole bucket
                for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
                    self.refuse(action, self.s3(bucket, f"{prefix}-other/x"))
                self.refuse("s3:ListBucket", self.s3(bucket), s3__prefix=f"{prefix}-other/")
                self.refuse("s3:ListBucket", self.s3(bucket), s3__prefix="")
            self.refuse("s3:GetObject", self.s3(f"{bucket}-other", self.below(prefix, "x")))
            self.refuse("s3:PutBucketPolicy", self.s3(bucket))
            self.refuse("s3:GetBucketLocation", self.s3(bucket))
        for bucket, prefix in read:  # what is only read is not written
            inside = [p for b, p in written + synced if b == bucket]
            if not any(not p or prefix == p or prefix.startswith(f"{p}/") for p in inside):
                self.refuse("s3:PutObject", self.s3(bucket, self.below(prefix, "part-0")))
                self.refuse("s3:DeleteObject", self.s3(bucket, self.below(prefix, "part-0")))
        if not synced:
            for bucket, prefix in written:  # only the checkpoint sync deletes
                self.refuse("s3:DeleteObject", self.s3(bucket, self.below(prefix, f"{name}/output/model.tar.gz")))

    def logs(self):
        name = self.request["TrainingJobName"]
        group = "log-group:/aws/sagemaker/TrainingJobs"
        self.ask("logs:CreateLogGroup", self.arn("logs", group))
        self.ask("logs:DescribeLogStreams", self.arn("logs", f"{group}:log-stream:"))
        for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
            self.ask(action, self.arn("logs", f"{group}:log-stream:{name}/algo-1-1767225600"))
            self.refuse(action, self.arn("logs", f"{group}:log-stream:other-{name}/algo-1-1767225600"))
            self.refuse(action, self.arn("logs", f"log-group:/aws/lambda/f:log-stream:{name}/algo-1-1767225600"))
        self.ask("cloudwatch:PutMetricData", "*", cloudwatch__namespace="/aws/sagemaker/TrainingJobs")
        self.refuse("cloudwatch:PutMetricData", "*", cloudwatch__namespace="Elsewhere")

    def image(self):
        image = self.request["AlgorithmSpecification"]["TrainingImage"]
        host, _, path = image.partition("/")
        account, repository = host.split(".")[0], re.split("[:@]", path)[0]
        self.ask("ecr:GetAuthorizationToken", "*")
        for action in ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"):
            arn = f"arn:{self.partition}:ecr:{self.region}:{account}:repository/{repository}"
            self.ask(action, arn)
            self.refuse(action, f"{arn}-other")
        self.refuse("ecr:PutImage", f"arn:{self.partition}:ecr:{self.region}:{account}:repository/{repository}")

    def network(self):
        vpc = self.request.get("VpcConfig")
        here = {"aws__RequestedRegion": self.region}
        reads = ["NetworkInterfaces", "Vpcs", "DhcpOptions", "Subnets", "SecurityGroups"]
        if vpc is None:
            self.refuse("ec2:DescribeSubnets", "*", **here)
            self.refuse("ec2:CreateNetworkInterface", self.arn("ec2", "network-interface/*"), **here)
        else:
            for what in reads:
                self.ask(f"ec2:Describe{what}", "*", **here)
            parts = [f"subnet/{s}" for s in vpc["Subnets"]] + [f"security-group/{g}" for g in vpc["SecurityGroupIds"]]
            for part in ["network-interface/eni-0123456789abcdef0", *parts]:
                self.ask("ec2:CreateNetworkInterface", self.arn("ec2", part), **here)
            for part in ("subnet/subnet-0ffffffffffffffff", "security-group/sg-0ffffffffffffffff"):
                self.refuse("ec2:CreateNetworkInterface", self.arn("ec2", part), **here)
            uses = ("CreateNetworkInterfacePermission", "DeleteNetworkInterface", "DeleteNetworkInterfacePermission")
            interface = self.arn("ec2", "network-interface/eni-0123456789abcdef0")
            for action in uses:
                for subnet in vpc["Subnets"]:
                    self.ask(f"ec2:{action}", interface, ec2__Subnet=self.arn("ec2", f"subnet/{subnet}"), **here)
                elsewhere = self.arn("ec2", "subnet/subnet-0ffffffffffffffff")
                self.refuse(f"ec2:{action}", interface, ec2__Subnet=elsewhere, **here)
        sources = [c["DataSource"] for c in self.request.get("InputDataConfig", [])]
        if any(s.get("FileSystemDataSource", {}).get("FileSystemType") == "FSxLustre" for s in sources):
            self.ask("fsx:DescribeFileSystems", self.arn("fsx", "file-system/*"))
        else:
            self.refuse("fsx:DescribeFileSystems", self.arn("fsx", "file-system/*"))
        self.refuse("fsx:DeleteFileSystem", self.arn("fsx", "file-system/fs-0123456789abcdef0"))

    def keys(self):
        suffix = "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"
        via = {"kms__ViaService": f"s3.{self.region}.{suffix}"}
        output = self.request["OutputDataConfig"].get("KmsKeyId", "")
        volume = self.request["ResourceConfig"].get("VolumeKmsKeyId", "")
        if output.startswith("arn:") and ":key/" in output:
            self.ask("kms:GenerateDataKey", output, **via)
            self.ask("kms:Decrypt", output, **via)
        if volume.startswith("arn:") and ":key/" in volume:
            self.ask("kms:CreateGrant", volume, kms__GrantIsForAWSResource="true")
            self.refuse("kms:CreateGrant", volume, kms__GrantIsForAWSResource="false")
        for action in ("kms:Decrypt", "kms:GenerateDataKey", "kms:CreateGrant"):
            self.refuse(action, self.arn("kms", "key/00000000-0000-0000-0000-000000000000"), **via)
        self.refuse("kms:ScheduleKeyDeletion", output if ":key/" in output else self.arn("kms", "key/x"))

    def secrets(self):
        """Secrets are fetched by a generated file of source/; their ARNs stand in it."""
        shape = re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+")
        found = set(shape.findall(json.dumps(self.request.get("Environment", {}))))
        for path in self.job.path("source").rglob("*") if self.job.has("source") else []:
            if path.is_file() and path.stat().st_size < 1 << 20:
                found |= set(shape.findall(path.read_text(encoding="utf-8", errors="replace")))
        for arn in found:
            self.ask("secretsmanager:GetSecretValue", arn)
            self.refuse("secretsmanager:PutSecretValue", arn)
        self.refuse("secretsmanager:GetSecretValue", self.arn("secretsmanager", "secret:other-AbCdEf"))

    def strangers(self):
        """What no training job does, whatever it reads: other services, other accounts, its own role and record."""
        other = "999999999999"
        here = f"arn:{self.partition}:iam::{ACCOUNT}"
        for action, arn in (
            ("iam:CreateUser", f"{here}:user/x"),
            ("iam:CreateAccessKey", f"{here}:user/x"),
            ("iam:AttachRolePolicy", f"{here}:role/trainc/self"),
            ("iam:PutRolePolicy", f"{here}:role/trainc/self"),
            ("iam:UpdateAssumeRolePolicy", f"{here}:role/trainc/self"),
            ("iam:PassRole", f"{here}:role/trainc/self"),
            ("sts:AssumeRole", f"arn:{self.partition}:iam::{other}:role/any"),
            ("s3:ListAllMyBuckets", "*"),
            ("s3:CreateBucket", self.s3("fresh")),
            ("s3:DeleteBucket", self.s3(f"sagemaker-{self.region}-{ACCOUNT}")),
            ("s3:GetObject", self.s3(f"sagemaker-{self.region}-{other}", "x")),
            ("s3:PutObject", self.s3(f"sagemaker-{self.region}-{ACCOUNT}", "x")),
            ("sagemaker:StopTrainingJob", self.arn("sagemaker", "training-job/x")),
            ("sagemaker:UpdateTrainingJob", self.arn("sagemaker", "training-job/x")),
            ("sagemaker:CreateEndpoint", self.arn("sagemaker", "endpoint/x")),
            ("sagemaker:AddTags", self.arn("sagemaker", "training-job/x")),
            ("ec2:RunInstances", self.arn("ec2", "instance/*")),
            ("ec2:AuthorizeSecurityGroupIngress", self.arn("ec2", "security-group/sg-0ffffffffffffffff")),
            ("ec2:CreateTags", self.arn("ec2", "subnet/subnet-0ffffffffffffffff")),
            ("fsx:CreateFileSystem", self.arn("fsx", "file-system/*")),
            ("fsx:DeleteDataRepositoryAssociation", self.arn("fsx", "association/*")),
            ("logs:GetLogEvents", self.arn("logs", "log-group:/aws/lambda/f:log-stream:x")),
            ("logs:DeleteLogGroup", self.arn("logs", "log-group:/aws/sagemaker/TrainingJobs")),
            ("secretsmanager:ListSecrets", "*"),
            ("ssm:GetParameter", self.arn("ssm", "parameter/x")),
            ("kms:CreateKey", "*"),
            ("lambda:InvokeFunction", self.arn("lambda", "function:x")),
            ("dynamodb:GetItem", self.arn("dynamodb", "table/x")),
            ("organizations:LeaveOrganization", "*"),
            ("account:CloseAccount", "*"),
        ):
            self.refuse(action, arn)
        debug = ["CreateControlChannel", "CreateDataChannel", "OpenControlChannel", "OpenDataChannel"]
        on = self.request.get("RemoteDebugConfig", {}).get("EnableRemoteDebug", False)
        for action in debug:
            (self.ask if on else self.refuse)(f"ssmmessages:{action}", "*")
        self.refuse("iam:PassRole", f"arn:{self.partition}:iam::{ACCOUNT}:role/other")
        self.refuse("sts:AssumeRole", f"arn:{self.partition}:iam::{ACCOUNT}:role/other")
        self.refuse("sagemaker:CreateTrainingJob", self.arn("sagemaker", "training-job/x"))
        self.refuse("sagemaker:DescribeTrainingJob", self.arn("sagemaker", "training-job/x"))


def decide(policy, region, ask):
    context = EvalContext(
        principal_arn=f"arn:aws:sts::{ACCOUNT}:assumed-role/r/SageMaker",
        principal_type="AssumedRole",
        principal_account=ACCOUNT,
        action=ask.action,
        resource_arn=ask.arn,
        region=region,
        source_ip="10.0.0.1",
        secure_transport=True,
        service_context=dict(ask.context),
    )
    return evaluate(context, policy).decision


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_decisions(job):
    asks = Asks(job)
    policy = [parse_policy_document(json.dumps(job.json("iam/policy.json")))]
    short = [str(ask) for ask in asks.must if decide(policy, asks.region, ask) != "Allow"]
    wide = [str(ask) for ask in asks.never if decide(policy, asks.region, ask) == "Allow"]
    lines = [f"the job needs, and has not: {line}" for line in short]
    lines += [f"the job has, and needs not: {line}" for line in wide]
    assert not lines, "\n".join(lines)
    # Thirty that no job makes, and those that only look like this job's own.
    assert len(asks.must) >= 8 and len(set(asks.never)) >= 30 + 12, (len(asks.must), len(set(asks.never)))
