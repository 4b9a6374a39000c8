"""Tests of the account itself with boto3: corrections of moto's behaviour, and requested faults."""

import hashlib
import json
import os
import subprocess
import threading

import botocore.exceptions
import pytest

SUBNET, GROUP = "subnet-0123456789abcdef0", "sg-0123456789abcdef0"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
)
POLICY = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bkt/*"}]}
)
SYSTEM = {
    "FileSystemType": "LUSTRE",
    "StorageCapacity": 1200,
    "SubnetIds": [SUBNET],
    "SecurityGroupIds": [GROUP],
    "ClientRequestToken": "token-1",
    "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
    "FileSystemTypeVersion": "2.15",
    "Tags": [{"Key": "trainc:job", "Value": "j"}],
}


def job(name="job-1", role="arn:aws:iam::111122223333:role/trainc/r", **members):
    return {
        "TrainingJobName": name,
        "RoleArn": role,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "OutputDataConfig": {"S3OutputPath": "s3://bkt/out/"},
        "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        **members,
    }


@pytest.fixture
def network(account):
    account.admin("seed", {"region": "us-west-2", "subnets": [SUBNET], "security_groups": [GROUP], "buckets": ["bkt"]})


@pytest.fixture
def role(account):
    iam = account.client("iam")
    iam.create_role(RoleName="r", Path="/trainc/", AssumeRolePolicyDocument=TRUST)
    iam.put_role_policy(RoleName="r", PolicyName="trainc", PolicyDocument=POLICY)


def code(call, *arguments, **members):
    with pytest.raises(botocore.exceptions.ClientError) as no:
        call(*arguments, **members)
    return no.value.response["Error"]["Code"]


def test_the_caller_is_a_user_of_the_account(account):
    who = account.client("sts").get_caller_identity()
    assert who["Account"] == "111122223333"
    assert who["Arn"].startswith("arn:aws:iam::111122223333:user/")


def test_a_file_system_takes_time_and_its_token_is_idempotent(account, network):
    fsx, ec2 = account.client("fsx"), account.client("ec2")
    first = fsx.create_file_system(**SYSTEM)["FileSystem"]
    again = fsx.create_file_system(**SYSTEM)["FileSystem"]
    assert first["FileSystemId"] == again["FileSystemId"]
    assert len(first["FileSystemId"]) == 20
    assert code(fsx.create_file_system, **{**SYSTEM, "StorageCapacity": 2400}) == "IncompatibleParameterError"
    assert code(fsx.create_file_system, **{**SYSTEM, "StorageCapacity": 1300, "ClientRequestToken": "o"}) == "BadRequest"
    assert code(fsx.create_file_system, **{**SYSTEM, "SubnetIds": ["subnet-0fffffffffffffff0"],
                                           "ClientRequestToken": "o"}) == "InvalidNetworkSettings"
    seen = [fsx.describe_file_systems()["FileSystems"][0]["Lifecycle"] for _ in range(3)]
    assert seen == ["CREATING", "CREATING", "AVAILABLE"]
    system = fsx.describe_file_systems(FileSystemIds=[first["FileSystemId"]])["FileSystems"][0]
    interfaces = ec2.describe_network_interfaces(NetworkInterfaceIds=system["NetworkInterfaceIds"])
    assert interfaces["NetworkInterfaces"][0]["Groups"][0]["GroupId"] == GROUP
    assert "SecurityGroupIds" not in system
    fsx.delete_file_system(FileSystemId=first["FileSystemId"])
    assert fsx.describe_file_systems()["FileSystems"][0]["Lifecycle"] == "DELETING"
    fsx.describe_file_systems()
    assert fsx.describe_file_systems()["FileSystems"] == []
    assert code(fsx.describe_file_systems, FileSystemIds=[first["FileSystemId"]]) == "FileSystemNotFound"


def test_an_association_waits_for_its_file_system(account, network):
    fsx = account.client("fsx")
    system = fsx.create_file_system(**SYSTEM)["FileSystem"]["FileSystemId"]
    link = {"FileSystemId": system, "FileSystemPath": "/", "DataRepositoryPath": "s3://bkt/x", "ClientRequestToken": "a"}
    first = fsx.create_data_repository_association(**link)["Association"]
    assert first["DataRepositoryPath"] == "s3://bkt/x/"
    assert fsx.create_data_repository_association(**link)["Association"]["AssociationId"] == first["AssociationId"]
    other = {**link, "FileSystemPath": "/below", "ClientRequestToken": "b"}
    assert code(fsx.create_data_repository_association, **other) == "BadRequest"

    def lifecycle():
        found = fsx.describe_data_repository_associations(Filters=[{"Name": "file-system-id", "Values": [system]}])
        return found["Associations"][0]["Lifecycle"]

    assert [lifecycle() for _ in range(3)] == ["CREATING"] * 3
    for _ in range(3):
        fsx.describe_file_systems()
    assert [lifecycle() for _ in range(2)] == ["CREATING", "AVAILABLE"]
    fsx.delete_data_repository_association(AssociationId=first["AssociationId"])
    assert lifecycle() == "DELETING"
    assert fsx.describe_data_repository_associations()["Associations"] == []


def test_a_job_has_a_life_and_its_name_is_taken_once(account, network, role):
    sagemaker = account.client("sagemaker")
    assert code(sagemaker.describe_training_job, TrainingJobName="job-1") == "ValidationException"
    arn = sagemaker.create_training_job(**job(Tags=[{"Key": "a", "Value": "b"}]))["TrainingJobArn"]
    assert code(sagemaker.create_training_job, **job()) == "ResourceInUse"
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "b"}]
    steps = [sagemaker.describe_training_job(TrainingJobName="job-1") for _ in range(6)]
    assert [step["SecondaryStatus"] for step in steps] == [
        "Starting", "Downloading", "Training", "Training", "Uploading", "Completed",
    ]
    assert [step["TrainingJobStatus"] for step in steps] == ["InProgress"] * 5 + ["Completed"]
    last = steps[-1]["SecondaryStatusTransitions"]
    assert [t["Status"] for t in last] == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert steps[-1]["OutputDataConfig"]["CompressionType"] == "GZIP"
    assert code(sagemaker.stop_training_job, TrainingJobName="job-1") == "ValidationException"
    logs = account.client("logs")
    streams = logs.describe_log_streams(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix="job-1/"
    )["logStreams"]
    assert [s["logStreamName"].split("-")[2] for s in streams] == ["1", "2"]
    sagemaker.delete_training_job(TrainingJobName="job-1")
    assert sagemaker.list_training_jobs()["TrainingJobSummaries"] == []


def test_a_job_stops_and_fails(account, network, role):
    sagemaker = account.client("sagemaker")
    sagemaker.create_training_job(**job())
    sagemaker.stop_training_job(TrainingJobName="job-1")
    seen = [sagemaker.describe_training_job(TrainingJobName="job-1")["TrainingJobStatus"] for _ in range(3)]
    assert seen[0] == "Stopping"
    assert seen[-1] == "Stopped"
    account.settings(job_steps=["Starting", "Failed"], failure_reason="AlgorithmError: no")
    sagemaker.create_training_job(**job("job-2"))
    sagemaker.describe_training_job(TrainingJobName="job-2")
    assert sagemaker.describe_training_job(TrainingJobName="job-2")["FailureReason"] == "AlgorithmError: no"
    account.settings(limits={"ml.p4d.24xlarge for training job usage": 1})
    assert code(sagemaker.create_training_job, **job("job-3")) == "ResourceLimitExceeded"


def test_a_role_must_be_there_and_is_seen_late(account, network):
    sagemaker, iam = account.client("sagemaker"), account.client("iam")
    assert code(sagemaker.create_training_job, **job()) == "ValidationException"
    account.settings(iam_lag=2)
    iam.create_role(RoleName="r", Path="/trainc/", AssumeRolePolicyDocument=TRUST)
    assert code(iam.create_role, RoleName="R", AssumeRolePolicyDocument=TRUST) == "EntityAlreadyExists"
    iam.put_role_policy(RoleName="r", PolicyName="trainc", PolicyDocument=POLICY)
    assert code(iam.put_role_policy, RoleName="r", PolicyName="big", PolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": ["arn:aws:s3:::" + "b" * 12000]}]}
    )) == "LimitExceeded"
    for _ in range(2):
        assert code(sagemaker.create_training_job, **job()) == "ValidationException"
    sagemaker.create_training_job(**job())


def test_reads_lag_behind_writes(account, network):
    account.settings(read_lag=2)
    iam, fsx = account.client("iam"), account.client("fsx")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)
    for _ in range(2):
        assert code(iam.get_role, RoleName="r") == "NoSuchEntity"
    assert iam.get_role(RoleName="r")["Role"]["RoleName"] == "r"
    iam.put_role_policy(RoleName="r", PolicyName="trainc", PolicyDocument=POLICY)
    for _ in range(2):
        assert code(iam.get_role_policy, RoleName="r", PolicyName="trainc") == "NoSuchEntity"
    iam.get_role_policy(RoleName="r", PolicyName="trainc")
    fsx.create_file_system(**SYSTEM)
    assert [len(fsx.describe_file_systems()["FileSystems"]) for _ in range(3)] == [0, 0, 1]


def test_quotas_and_offerings(account):
    quotas, ec2 = account.client("service-quotas"), account.client("ec2")
    asked = {"ServiceCode": "sagemaker", "QuotaCode": "L-09D56C4F"}
    assert code(quotas.get_service_quota, **asked) == "NoSuchResourceException"
    assert quotas.get_aws_default_service_quota(**asked)["Quota"]["Value"] > 1000
    account.settings(quotas={"L-09D56C4F": 8})
    assert quotas.get_service_quota(**asked)["Quota"]["Value"] == 8
    offered = ec2.describe_instance_type_offerings(
        LocationType="availability-zone-id", Filters=[{"Name": "instance-type", "Values": ["p4d.24xlarge"]}]
    )
    assert offered["InstanceTypeOfferings"]


def test_storage_minds_owner_and_checksum(account, network):
    s3 = account.client("s3", s3={"addressing_style": "path"})
    s3.put_object(Bucket="bkt", Key="k", Body=b"x", ExpectedBucketOwner="111122223333", IfNoneMatch="*")
    assert code(s3.put_object, Bucket="bkt", Key="k", Body=b"x", IfNoneMatch="*") == "PreconditionFailed"
    assert code(s3.put_object, Bucket="bkt", Key="k", Body=b"x", ExpectedBucketOwner="999999999999") == "AccessDenied"
    import base64

    wrong = base64.b64encode(hashlib.sha256(b"y").digest()).decode()
    assert code(s3.put_object, Bucket="bkt", Key="w", Body=b"x", ChecksumSHA256=wrong) == "BadDigest"
    assert account.state()["objects"] == ["s3://bkt/k"]


def test_a_policy_is_simulated(account, role):
    iam = account.client("iam")
    asked = iam.simulate_principal_policy(
        PolicySourceArn="arn:aws:iam::111122223333:role/trainc/r", ActionNames=["s3:GetObject"],
        ResourceArns=["arn:aws:s3:::bkt/k", "arn:aws:s3:::c/k"],
    )
    assert [r["EvalDecision"] for r in asked["EvaluationResults"]] == ["allowed", "implicitDeny"]


def test_logs_of_many_hosts_come_whole(account, network, role):
    account.settings(log_lines=3000, job_steps=["Training", "Completed"])
    sagemaker, logs = account.client("sagemaker"), account.client("logs")
    sagemaker.create_training_job(**job())
    group = "/aws/sagemaker/TrainingJobs"
    seen, token = [], {}
    while True:
        page = logs.filter_log_events(logGroupName=group, logStreamNamePrefix="job-1/", limit=1000, **token)
        seen += page["events"]
        if "nextToken" not in page:
            break
        token = {"nextToken": page["nextToken"]}
    assert len(seen) == len({e["eventId"] for e in seen}) == 6000
    assert [e["timestamp"] for e in seen] == sorted(e["timestamp"] for e in seen)
    name = logs.describe_log_streams(logGroupName=group)["logStreams"][0]["logStreamName"]
    page = logs.get_log_events(logGroupName=group, logStreamName=name, startFromHead=True)
    assert len(page["events"]) == 3000
    last = logs.get_log_events(logGroupName=group, logStreamName=name, nextToken=page["nextForwardToken"])
    assert last["events"] == []
    assert last["nextForwardToken"] == page["nextForwardToken"]


@pytest.mark.parametrize("service, call, expected", [
    ("sagemaker", "list_training_jobs", {"throttle": "ThrottlingException", "expired": "ExpiredTokenException",
                                         "denied": "AccessDeniedException", "503": "InternalServerError"}),
    ("iam", "list_roles", {"throttle": "Throttling", "expired": "ExpiredToken", "denied": "AccessDenied",
                           "503": "ServiceFailure"}),
    ("ec2", "describe_subnets", {"throttle": "RequestLimitExceeded", "expired": "RequestExpired",
                                 "denied": "UnauthorizedOperation", "503": "Unavailable"}),
    ("s3", "list_buckets", {"throttle": "SlowDown", "expired": "ExpiredToken", "denied": "AccessDenied",
                            "503": "ServiceUnavailable"}),
])
def test_faults_speak_the_protocol_of_the_service(account, service, call, expected):
    client = account.client(service)
    for do, wanted in expected.items():
        account.faults({"where": f"{service}:*", "do": do, "nth": 1})
        assert code(getattr(client, call)) == wanted
        getattr(client, call)()


def test_faults_strike_before_or_after_the_effect(account):
    iam = account.client("iam")
    account.faults({"where": "iam:CreateRole", "do": "drop", "nth": 1})
    with pytest.raises(botocore.exceptions.BotoCoreError):
        iam.create_role(RoleName="a", AssumeRolePolicyDocument=TRUST)
    assert account.state()["roles"] == []
    account.faults({"where": "iam:CreateRole", "do": "drop-after", "nth": 1})
    with pytest.raises(botocore.exceptions.BotoCoreError):
        iam.create_role(RoleName="a", AssumeRolePolicyDocument=TRUST)
    assert [r["name"] for r in account.state()["roles"]] == ["a"]
    account.faults({"where": "iam:*", "do": "error", "code": "Whatever", "message": "so", "status": 418})
    assert code(iam.list_roles) == "Whatever"
    assert account.admin("met") == [1]
    assert account.requests()[-1]["error"] == "Whatever"


def test_a_kill_reaches_the_process(account, tmp_path):
    process = subprocess.Popen(["sleep", "300"])
    (tmp_path / "pid").write_text(str(process.pid))
    account.faults({"where": "iam:CreateRole", "do": "kill-after", "nth": 1, "pidfile": str(tmp_path / "pid")})
    with pytest.raises(botocore.exceptions.BotoCoreError):
        account.client("iam").create_role(RoleName="a", AssumeRolePolicyDocument=TRUST)
    assert process.wait(60) == -9
    assert [r["name"] for r in account.state()["roles"]] == ["a"]


def test_many_at_once_make_one(account, network):
    got = []

    def create():
        got.append(account.client("fsx").create_file_system(**SYSTEM)["FileSystem"]["FileSystemId"])

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len(set(got)) == 1


def test_the_record_holds_the_bytes(account, network, role):
    request = job()
    account.client("sagemaker").create_training_job(**request)
    entry = account.requests()[-1]
    assert entry["call"] == "sagemaker:CreateTrainingJob"
    assert json.loads(entry["body"]) == request
    assert os.environ.get("AWS_ENDPOINT_URL") is None
