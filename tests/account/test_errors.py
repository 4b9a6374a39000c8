"""Every error response of the account: exit code, message, next step, and no debug output."""

import json
import re

import pytest
from job import Example, Run

LIMIT = (
    "The account-level service limit 'ml.p4d.24xlarge for spot training job usage' is 0 Instances, with current "
    "utilization of 0 Instances and a request delta of 8 Instances. Please use AWS Service Quotas to request an "
    "increase for this quota."
)
ASSUME = (
    "Could not assume role arn:aws:iam::111122223333:role/trainc/x. Please ensure that the role exists and allows "
    "principal 'sagemaker.amazonaws.com' to assume the role."
)
DENIED = (
    "User: arn:aws:iam::111122223333:user/operator is not authorized to perform: {} because no identity-based policy "
    "allows the {} action"
)
PORTS = (
    "The file system cannot be created because the security group sg-0123456789abcdef0 does not permit Lustre LNET "
    "network traffic on port 988"
)

# call, code, HTTP status, message, exit code
ROWS = [
    ("sts:GetCallerIdentity", "ExpiredToken", 403, "The security token included in the request is expired", 6),
    ("sts:GetCallerIdentity", "InvalidClientTokenId", 403, "The security token included in the request is invalid.", 6),
    ("sts:GetCallerIdentity", "UnrecognizedClientException", 403, "The security token is invalid.", 6),
    ("sts:GetCallerIdentity", "SignatureDoesNotMatch", 403, "Signature expired: 20261121T0000Z is now earlier", 6),
    ("sts:GetCallerIdentity", "RequestExpired", 400, "Request has expired.", 6),
    ("sts:GetCallerIdentity", "OptInRequired", 403, "The AWS Access Key Id needs a subscription for the service", 6),
    ("sts:GetCallerIdentity", "AccessDenied", 403, DENIED.format(*["sts:GetCallerIdentity"] * 2), 6),
    ("iam:GetRole", "AccessDenied", 403, DENIED.format(*["iam:GetRole"] * 2), 6),
    ("iam:GetRolePolicy", "AccessDenied", 403, DENIED.format(*["iam:GetRolePolicy"] * 2), 6),
    ("s3:HeadBucket", "AccessDenied", 403, "access denied (HTTP 403)", 6),
    ("fsx:DescribeFileSystems", "BadRequest", 400, "The request is not valid.", 5),
    ("fsx:DescribeDataRepositoryAssociations", "AccessDeniedException", 400,
     DENIED.format(*["fsx:DescribeDataRepositoryAssociations"] * 2), 6),
    ("sagemaker:ListTags", "AccessDeniedException", 400, DENIED.format(*["sagemaker:ListTags"] * 2), 6),
    ("fsx:DescribeFileSystems", "AccessDeniedException", 400, DENIED.format(*["fsx:DescribeFileSystems"] * 2), 6),
    ("sagemaker:DescribeTrainingJob", "AccessDeniedException", 400, DENIED.format(*["sagemaker:DescribeTrainingJob"] * 2), 6),
    ("sagemaker:ListTrainingJobs", "UnrecognizedClientException", 400, "The security token is invalid.", 6),
    ("iam:CreateRole", "AccessDenied", 403, DENIED.format(*["iam:CreateRole"] * 2), 6),
    ("iam:CreateRole", "LimitExceeded", 409, "Cannot exceed quota for RolesPerAccount: 1000", 5),
    ("iam:CreateRole", "MalformedPolicyDocument", 400, "Invalid principal in policy", 5),
    ("iam:CreateRole", "InvalidInput", 400, "Duplicate tag keys found.", 5),
    ("iam:CreateRole", "ConcurrentModification", 409, "The request was rejected: submit it again later", 5),
    ("iam:CreateRole", "ServiceFailure", 500, "The request processing has failed", 5),
    ("iam:CreateRole", "EntityAlreadyExists", 409, "Role with name x already exists.", 5),
    ("iam:PutRolePolicy", "MalformedPolicyDocument", 400, "Syntax errors in policy.", 5),
    ("iam:PutRolePolicy", "ConcurrentModification", 409, "The request was rejected: submit it again later", 5),
    ("iam:PutRolePolicy", "LimitExceeded", 409, "Maximum policy size of 10240 bytes exceeded for role x", 5),
    ("iam:PutRolePolicy", "NoSuchEntity", 404, "The role with name x cannot be found.", 5),
    ("iam:PutRolePolicy", "UnmodifiableEntity", 400, "Cannot perform the operation on the protected role", 5),
    ("iam:PutRolePolicy", "AccessDenied", 403, DENIED.format(*["iam:PutRolePolicy"] * 2), 6),
    ("fsx:CreateFileSystem", "ServiceLimitExceeded", 400, "Account has exceeded the limit for TOTAL_STORAGE", 5),
    ("fsx:CreateFileSystem", "InvalidNetworkSettings", 400, PORTS, 5),
    ("fsx:CreateFileSystem", "InvalidPerUnitStorageThroughput", 400, "251 is not legal", 5),
    ("fsx:CreateFileSystem", "BadRequest", 400, "Invalid storage capacity", 5),
    ("fsx:CreateFileSystem", "MissingFileSystemConfiguration", 400, "LustreConfiguration is missing.", 5),
    ("fsx:CreateFileSystem", "AccessDeniedException", 400, DENIED.format(*["fsx:CreateFileSystem"] * 2), 6),
    ("fsx:CreateFileSystem", "InternalServerError", 500, "An internal server error occurred.", 5),
    ("fsx:CreateFileSystem", "IncompatibleParameterError", 400, "Parameters do not match the client request token", 5),
    ("fsx:CreateFileSystem", "InvalidImportPath", 400, "The path provided for data repository import isn't valid.", 5),
    ("fsx:CreateFileSystem", "InvalidExportPath", 400, "The path provided for data repository export isn't valid.", 5),
    ("fsx:CreateFileSystem", "ActiveDirectoryError", 400, "An Active Directory error.", 5),
    ("fsx:CreateFileSystem", "ThrottlingException", 400, "Rate exceeded", 5),
    ("fsx:CreateDataRepositoryAssociation", "FileSystemNotFound", 400, "File system 'fs-1' does not exist.", 5),
    ("fsx:CreateDataRepositoryAssociation", "InternalServerError", 500, "An internal server error occurred.", 5),
    ("fsx:CreateDataRepositoryAssociation", "IncompatibleParameterError", 400, "Parameters do not match the token", 5),
    ("fsx:CreateDataRepositoryAssociation", "UnsupportedOperation", 400, "not supported on this file system", 5),
    ("fsx:CreateDataRepositoryAssociation", "ServiceLimitExceeded", 400, "8 associations per file system", 5),
    ("fsx:CreateDataRepositoryAssociation", "BadRequest", 400, "unable to validate access to the S3 bucket", 5),
    ("s3:CreateBucket", "BucketAlreadyExists", 409, "The requested bucket name is not available.", 7),
    ("s3:PutObject", "AccessDenied", 403, "Access Denied", 6),
    ("s3:PutObject", "NoSuchBucket", 404, "The specified bucket does not exist", 5),
    ("s3:PutObject", "PreconditionFailed", 412, "At least one of the pre-conditions did not hold", 5),
    ("s3:PutObject", "PermanentRedirect", 301, "The bucket must be addressed using the specified endpoint.", 3),
    ("s3:PutObject", "SlowDown", 503, "Please reduce your request rate.", 5),
    ("s3:PutObject", "KMS.DisabledException", 400, "arn:aws:kms:us-west-2:111122223333:key/k is disabled.", 5),
    ("sagemaker:CreateTrainingJob", "ResourceLimitExceeded", 400, LIMIT, 5),
    ("sagemaker:CreateTrainingJob", "ResourceInUse", 400, "Training job names must be unique within an account", 5),
    ("sagemaker:CreateTrainingJob", "ResourceNotFound", 400, "Requested image not found.", 5),
    ("sagemaker:CreateTrainingJob", "ResourceNotFound", 400, "Requested training plan not found.", 5),
    ("sagemaker:CreateTrainingJob", "ValidationException", 400, ASSUME, 5),
    ("sagemaker:CreateTrainingJob", "ValidationException", 400, "1 validation error detected: Value", 5),
    ("sagemaker:CreateTrainingJob", "ThrottlingException", 400, "Rate exceeded", 5),
    ("sagemaker:CreateTrainingJob", "CapacityError", 400, "Unable to provision requested ML compute capacity", 5),
    ("sagemaker:CreateTrainingJob", "AccessDeniedException", 400, DENIED.format(*["iam:PassRole"] * 2), 6),
    ("sagemaker:CreateTrainingJob", "AccessDeniedException", 400, DENIED.format(*["sagemaker:AddTags"] * 2), 6),
    ("iam:CreateRole", "AccessDenied", 403, DENIED.format(*["iam:TagRole"] * 2), 6),
    ("fsx:CreateFileSystem", "AccessDeniedException", 400, DENIED.format(*["iam:CreateServiceLinkedRole"] * 2), 6),
    ("fsx:CreateFileSystem", "AccessDeniedException", 400, DENIED.format(*["fsx:TagResource"] * 2), 6),
    ("sagemaker:CreateTrainingJob", "ExpiredTokenException", 400, "The security token included in the request is expired", 6),
]
# The next step: a command or advice.
STEP = re.compile(r"`?trainc \w+|help:|next:|run again|Service Quotas|credentials|permission", re.I)
# The action in an access error, which is not always the action of the denied call.
PERFORM = re.compile(r"not authorized to perform: (\S+)")
# The text of the next step, by call, code and, if these are ambiguous, the beginning of the message.
HELPS = {
    ("iam:PutRolePolicy", "LimitExceeded"): "fewer or shorter prefixes",
    ("sts:GetCallerIdentity", "SignatureDoesNotMatch"): "timedatectl set-ntp true",
    ("sts:GetCallerIdentity", "RequestExpired"): "timedatectl set-ntp true",
    ("sts:GetCallerIdentity", "ExpiredToken"): "aws sso login",
    ("sts:GetCallerIdentity", "OptInRequired"): "complete the account's registration",
    ("iam:CreateRole", "LimitExceeded"): "Service Quotas",
    ("iam:PutRolePolicy", "UnmodifiableEntity"): "give the job another name",
    ("fsx:CreateFileSystem", "ServiceLimitExceeded"): "--service-code fsx --quota-code L-8F1B9C74",
    ("fsx:CreateFileSystem", "InvalidNetworkSettings"): "authorize-security-group-ingress --region us-west-2 --group-id sg-0",
    ("fsx:CreateFileSystem", "InvalidPerUnitStorageThroughput"): "trainc catalog fsx",
    ("fsx:CreateFileSystem", "InvalidImportPath"): "aws s3 ls s3://",
    ("fsx:CreateDataRepositoryAssociation", "ServiceLimitExceeded"): "no quota increase raises",
    ("fsx:CreateDataRepositoryAssociation", "BadRequest"): "aws s3api get-bucket-policy",
    ("fsx:CreateDataRepositoryAssociation", "UnsupportedOperation"): "persistent-2",
    ("s3:PutObject", "KMS.DisabledException"): "aws kms enable-key --region us-west-2 --key-id arn:aws:kms:us-west-2:111122223333:key/k",
    ("s3:CreateBucket", "BucketAlreadyExists"): 'upload="s3://',
    ("sagemaker:CreateTrainingJob", "ResourceLimitExceeded"): "--quota-code L-09D56C4F --desired-value 8 --region us-west-2",
    ("sagemaker:CreateTrainingJob", "ResourceNotFound", "Requested image"): "trainc catalog images",
    ("sagemaker:CreateTrainingJob", "ResourceNotFound", "Requested training"): "aws sagemaker list-training-plans",
    ("sagemaker:CreateTrainingJob", "CapacityError"): "--wait-for-capacity 2h",
}


def step(call, code, message):
    return HELPS.get((call, code)) or HELPS.get((call, code, " ".join(message.split()[:2])))


@pytest.fixture(scope="session")
def example():
    return Example("llama-7b-fsdp")


@pytest.mark.parametrize("call, code, status, message, ends", ROWS, ids=[f"{row[0]}-{row[1]}-{i}" for i, row in enumerate(ROWS)])
def test_an_error_is_told(account, example, call, code, status, message, ends):
    run = Run(account, example)
    account.faults({"where": call, "do": "error", "code": code, "status": status, "message": message})
    done = run.apply()
    said = re.sub(r"\s+", " ", done.out + done.err)
    assert done.code == ends, done
    assert code in said or " ".join(message.split()[:4]) in said, done
    assert STEP.search(said), done
    if named := PERFORM.search(message):
        # The sentence by trainc, not the one by the service below it.
        assert f"the caller is not allowed to perform {named[1]}" in said, done
        assert f"trainc catalog permissions --manifest {example.manifest}" in said, done
    if (words := step(call, code, message)) is not None:
        assert words in said, done
    # Running it again is safe.
    account.faults()
    again = run.apply()
    assert again.code == 0, again
    assert run.faults_against_one() == []


def test_all_refused_reads_are_told_in_one_run(account, example):
    run = Run(account, example)
    reads = ["iam:GetRole", "fsx:DescribeFileSystems", "sagemaker:ListTrainingJobs"]
    account.faults(*[
        {"where": read, "do": "error", "code": "AccessDenied", "status": 403, "message": DENIED.format(read, read)}
        for read in reads
    ])
    for verb, *flags in (("plan",), ("apply", "--yes")):
        done = run.trainc(verb, *flags, "-o", "json")
        assert done.code == 6, done
        if verb == "plan":
            problems = json.loads(done.out)["problems"]
        else:
            lines = [json.loads(line) for line in done.out.splitlines()]
            problems = [line["problem"] for line in lines if line["type"] == "problem"]
        named = sorted(one["facts"]["action"] for one in problems if one["code"] == "T0601")
        assert named == sorted(reads), done
    account.faults()
    assert run.apply().code == 0
    assert run.faults_against_one() == []


def told(run, verb, call, code, status, message, ends, *flags):
    """Runs a command under an error; checks the exit code, the service's code and the next step."""
    run.account.faults({"where": call, "do": "error", "code": code, "status": status, "message": message})
    done = run.trainc(verb, "--yes", *flags)
    said = re.sub(r"\s+", " ", done.out + done.err)
    assert done.code == ends, (call, code, done)
    assert code in said, (call, code, done)
    assert STEP.search(said), (call, code, done)
    run.account.faults()


def test_errors_while_drift_is_mended(account, example):
    """Apply restores changed resources, reports each error in doing so, and the next apply continues."""
    run = Run(account, example)
    account.settings(job_steps=["Starting", "Training"])
    assert run.apply().code == 0
    iam, fsx = account.client("iam"), account.client("fsx", example.region)
    (system,) = [one for one in account.state()["file_systems"] if one["Tags"]]
    trust = (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",'
        '"Principal":{"Service":"ec2.amazonaws.com"}}]}'
    )
    iam.update_assume_role_policy(RoleName=example.role, PolicyDocument=trust)
    for code, status, ends in [
        ("NoSuchEntity", 404, 5), ("MalformedPolicyDocument", 400, 5), ("LimitExceeded", 409, 5),
        ("UnmodifiableEntity", 400, 5), ("ServiceFailure", 500, 5), ("AccessDenied", 403, 6),
    ]:
        told(run, "apply", "iam:UpdateAssumeRolePolicy", code, status, "of the test", ends)
    assert run.apply().code == 0
    iam.untag_role(RoleName=example.role, TagKeys=["team"])
    for code, status, ends in [
        ("NoSuchEntity", 404, 5), ("InvalidInput", 400, 5), ("LimitExceeded", 409, 5), ("ConcurrentModification", 409, 5),
        ("AccessDenied", 403, 6),
    ]:
        told(run, "apply", "iam:TagRole", code, status, "of the test", ends)
    assert run.apply().code == 0
    fsx.untag_resource(ResourceARN=system["ResourceARN"], TagKeys=["team"])
    for code, status, ends in [
        ("BadRequest", 400, 5), ("ResourceNotFound", 400, 5), ("NotServiceResourceError", 400, 5),
        ("ResourceDoesNotSupportTagging", 400, 5), ("InternalServerError", 500, 5), ("AccessDeniedException", 400, 6),
    ]:
        told(run, "apply", "fsx:TagResource", code, status, "of the test", ends)
    assert run.apply().code == 0
    assert run.trainc("plan", "--detailed-exit-code").code == 0
    assert run.faults_against_one() == []


def test_errors_of_a_destroy(account, example):
    run = Run(account, example)
    account.settings(job_steps=["Starting", "Training"])
    assert run.apply().code == 0
    # After an error the other resources are still deleted: the role first, while resources with data are kept.
    for call, code, status, ends in [
        ("sagemaker:StopTrainingJob", "AccessDeniedException", 400, 6),
        ("iam:DeleteRolePolicy", "UnmodifiableEntity", 400, 5),
        ("iam:DeleteRole", "UnmodifiableEntity", 400, 5),
        ("iam:DeleteRole", "DeleteConflict", 409, 7),
    ]:
        told(run, "destroy", call, code, status, "of the test", ends)
    for call, code, status, ends in [
        ("fsx:DeleteDataRepositoryAssociation", "ServiceLimitExceeded", 400, 5),
        ("fsx:DeleteDataRepositoryAssociation", "IncompatibleParameterError", 400, 5),
        ("fsx:DeleteFileSystem", "BadRequest", 400, 5),
        ("fsx:DeleteFileSystem", "IncompatibleParameterError", 400, 5),
        ("fsx:DeleteFileSystem", "ServiceLimitExceeded", 400, 5),
        ("fsx:DeleteFileSystem", "InternalServerError", 500, 5),
    ]:
        told(run, "destroy", call, code, status, "of the test", ends, "--delete-data")
    assert run.destroy().code == 0
    assert run.left() == []


@pytest.mark.parametrize(
    "call, code, status",
    [
        ("ec2:DescribeSubnets", "UnauthorizedOperation", 403),
        ("ec2:DescribeSecurityGroups", "UnauthorizedOperation", 403),
        ("ec2:DescribeInstanceTypeOfferings", "UnauthorizedOperation", 403),
        ("servicequotas:GetServiceQuota", "AccessDeniedException", 400),
        ("s3:ListObjectsV2", "AccessDenied", 403),
    ],
)
def test_who_may_not_look_is_told_and_goes_on(account, example, call, code, status):
    """A missing read permission is not an error: a note names what was not checked."""
    run = Run(account, example)
    account.faults({"where": call, "do": "error", "code": code, "status": status, "message": "not allowed"})
    planned = run.trainc("plan", "-o", "json")
    assert planned.code == 0, planned
    notes = [one for one in json.loads(planned.out)["problems"] if one["code"] == "T0636"]
    action = {"s3:ListObjectsV2": "s3:ListBucket"}.get(call, call)
    assert notes and all(action in one["message"] and one["severity"] == "note" for one in notes), planned
    done = run.apply()
    assert done.code == 0, done
    assert run.faults_against_one() == []


def test_a_bucket_of_another_region_is_named_with_its_region(account, example):
    """The bucket that trainc would create exists in another region, which S3 names in its redirect."""
    run = Run(account, example)
    name = f"sagemaker-{example.region}-111122223333"
    account.client("s3", "eu-west-1").create_bucket(
        Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    done = run.apply()
    said = re.sub(r"\s+", " ", done.out + done.err)
    assert done.code == 3 and "T0629" in said, done
    assert name in said and "eu-west-1" in said, done
    assert [job["name"] for job in account.state()["jobs"]] == []


def test_what_is_not_ours_stands_in_the_way(account, example):
    run = Run(account, example)
    trust = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"ec2.amazonaws.com"}}]}'
    account.client("iam").create_role(RoleName=example.role, Path="/trainc/", AssumeRolePolicyDocument=trust)
    before = account.state()
    done = run.apply()
    assert done.code == 7, done
    assert account.state() == before, "nothing is written while something foreign is in the way"
    adopted = run.apply("--adopt")
    assert adopted.code == 0, adopted
    assert run.faults_against_one() == []


def test_a_file_system_that_fails_is_told(account, example):
    run = Run(account, example)
    account.settings(file_system_fails="The subnet has no free addresses.")
    done = run.apply()
    assert done.code == 5, done
    assert "The subnet has no free addresses." in re.sub(r"\s+", " ", done.out + done.err), done


def test_without_credentials_the_exit_is_6(account, example):
    run = Run(account, example)
    done = run.apply(environment={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""})
    assert done.code == 6, done


def test_a_job_that_fails_or_is_stopped_ends_with_8(account, example):
    run = Run(account, example)
    account.settings(
        job_steps=["Starting", "Training", "Failed"],
        failure_reason="AlgorithmError: ExecuteUserScriptError: ExitCode 1, ErrorMessage torch.OutOfMemoryError",
        log_text={"1": ["step=1 loss=2.5", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"]},
    )
    assert run.apply().code == 0
    watched = run.trainc("watch")
    assert watched.code == 8, watched
    assert "out of memory" in (watched.out + watched.err).lower(), watched


def test_a_job_is_watched_to_its_end_and_stopped(account, example):
    run = Run(account, example)
    assert run.apply().code == 0
    assert run.trainc("status").code == 0
    watched = run.trainc("watch")
    assert watched.code == 0, watched
    run = Run(account, example)
    account.settings(job_steps=["Starting", "Training"])
    assert run.apply().code == 0
    stopped = run.trainc("stop", "--yes")
    assert stopped.code == 0, stopped
    assert account.state()["jobs"][0]["status"] in ("Stopping", "Stopped")
    assert run.trainc("watch").code == 8
