"""The operator's policy compared with the requests of each command: sufficient, and no broader.

An offline evaluator (ministack's, as in tests/python/test_iam_decisions.py) checks the policy of
`trainc catalog permissions COMMAND` against the requests that the account recorded.
"""

import json
import shutil
import subprocess
import urllib.parse

import pytest
from job import ROOT, TRAINC, Example, Run
from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

ACCOUNT = "111122223333"
# S3 names some actions differently from its operations (service authorization reference).
ACTIONS = {
    "s3:HeadBucket": "s3:ListBucket", "s3:ListObjectsV2": "s3:ListBucket", "s3:HeadObject": "s3:GetObject",
    "s3:CreateMultipartUpload": "s3:PutObject", "s3:UploadPart": "s3:PutObject",
    "s3:CompleteMultipartUpload": "s3:PutObject", "s3:ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "s3:ListParts": "s3:ListMultipartUploadParts",
}
# Granted but not used below: actions for an account in another state, or not required by these examples.
RARELY = {
    "plan": {"kms:DescribeKey", "ecr:DescribeImages"},
    "apply": {
        "kms:DescribeKey", "ecr:DescribeImages",  # a key, and a custom image
        "kms:GenerateDataKey", "kms:Decrypt",  # required by S3 if the output has a key
        "iam:UpdateAssumeRolePolicy", "fsx:UpdateFileSystem", "sagemaker:AddTags",  # drifted or adopted resources
        "fsx:TagResource", "iam:TagRole",  # required by calls that create with tags
        "logs:DescribeLogStreams", "logs:GetLogEvents",  # `--wait`
        "s3:ListBucketMultipartUploads", "s3:ListMultipartUploadParts", "s3:AbortMultipartUpload",  # large archives
        "ec2:GetSecurityGroupsForVpc", "iam:CreateServiceLinkedRole", "iam:AttachRolePolicy",  # required by FSx itself
        "sagemaker:StopTrainingJob",  # its own job, if two versions started at the same time
    },
    "destroy": {
        "s3:AbortMultipartUpload", "s3:GetObject",
        "fsx:TagResource", "fsx:UntagResource",  # of a file system that other jobs also use
    },
    "watch": set(), "stop": set(), "emit": set(),
}


def arn(service, region, resource):
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{resource}"


# Resources that are changed or deleted here were created here, with trainc's tags.
OWN = {"aws:resourcetag/trainc:job": "job"}


def given(tags):
    """Returns the context of a request that sets tags."""
    return {f"aws:requesttag/{tag['Key'].lower()}": tag["Value"] for tag in tags or []}


def asks(entry, roles):
    """Returns the actions that IAM authorizes for one recorded request: each action with its resource and context."""
    call, region = entry["call"], entry["region"]
    service, _, operation = call.partition(":")
    action = ACTIONS.get(call, call)
    if service == "s3":
        bucket, _, key = entry["path"].lstrip("/").partition("/")
        # The evaluator takes the caller's account as that of a bucket (aws:ResourceAccount).
        return [(action, f"arn:aws:s3:::{bucket}" + (f"/{key}" if key else ""), {})]
    if service in ("sts", "ec2", "servicequotas"):
        return [(action, "*", {})]
    if service == "iam":
        form = dict(pair.split("=", 1) for pair in entry["body"].split("&"))
        if operation == "SimulatePrincipalPolicy":
            return [(action, urllib.parse.unquote_plus(form["PolicySourceArn"]), {})]
        name = form["RoleName"]
        keys = [key for key in form if key.endswith(".Key")]
        text = {key: urllib.parse.unquote_plus(value) for key, value in form.items()}
        context = {
            f"aws:requesttag/{text[key].lower()}": text[key.removesuffix("Key") + "Value"] for key in keys
        }
        if operation in ("DeleteRole", "DeleteRolePolicy", "PutRolePolicy", "UpdateAssumeRolePolicy"):
            context |= OWN  # CreateRole set the tags
        out = [(action, roles.get(name, f"arn:aws:iam::111122223333:role/trainc/{name}"), context)]
        if keys and operation == "CreateRole":
            out.append(("iam:TagRole", roles[name], context))
        return out
    body = json.loads(entry["body"] or "{}")
    if service == "fsx":
        if operation.startswith("Describe"):
            return [(action, "*", {})]
        new = given(body.get("Tags"))
        tagged = [("fsx:TagResource", arn(service, region, "file-system/fs-1"), new)] if new else []
        if operation == "CreateFileSystem":
            return [(action, arn(service, region, "file-system/fs-1"), new), *tagged]
        if operation == "CreateDataRepositoryAssociation":
            both = (f"file-system/{body['FileSystemId']}", "association/*")
            return [(action, arn(service, region, what), new) for what in both] + tagged
        if operation == "UntagResource":
            return [(action, body["ResourceARN"], OWN | {"aws:tagkeys": body["TagKeys"]})]
        if "AssociationId" in body:
            return [(action, arn(service, region, f"association/{body['AssociationId']}"), OWN)]
        return [(action, arn(service, region, f"file-system/{body['FileSystemId']}"), OWN)]
    if service == "sagemaker":
        if operation == "ListTrainingJobs":
            return [(action, "*", {})]
        job = body.get("ResourceArn") or arn(service, region, f"training-job/{body['TrainingJobName']}")
        new = given(body.get("Tags"))
        out = [(action, job, new or OWN)]
        if operation == "CreateTrainingJob":
            out.append(("iam:PassRole", body["RoleArn"], {"iam:passedtoservice": "sagemaker.amazonaws.com"}))
            out.append(("sagemaker:AddTags", job, new | {"sagemaker:taggingaction": operation}))
        return out
    if service == "logs":
        stream = body.get("logStreamName", "")
        return [(action, arn(service, region, f"log-group:{body['logGroupName']}:log-stream:{stream}"), {})]
    if service == "secretsmanager":
        return [(action, body["SecretId"], {})]
    if service == "kms":
        return [(action, body["KeyId"], {})]
    if service == "ecr":
        return [(action, arn(service, region, f"repository/{body['repositoryName']}"), {})]
    raise AssertionError(f"nobody knows what {call} needs")


def permissions(*arguments):
    """The policy that `catalog permissions` prints. The evaluator knows no policy variables: the account replaces it."""
    command = [TRAINC, "catalog", "permissions", *arguments]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(text.replace("${aws:PrincipalAccount}", ACCOUNT))


def granted(command):
    return permissions(command)


def decide(policy, region, action, resource, context):
    asked = EvalContext(
        principal_arn=f"arn:aws:iam::{ACCOUNT}:user/operator", principal_type="User", principal_account=ACCOUNT,
        action=action, resource_arn=resource, region=region, source_ip="10.0.0.1", secure_transport=True,
        service_context=context,
    )
    return evaluate(asked, [parse_policy_document(json.dumps(policy))]).decision


class Life:
    """The lifecycle of a job, with the requests of each command."""

    def __init__(self, account):
        self.account, self.asked = account, {}
        # Roles that are passed, each with the manifest that names it.
        self.passed = {}

    def of(self, command, run, verb, *flags, path="/trainc/"):
        self.account.admin("forget")
        done = run.trainc(verb, *flags)
        assert done.code in (0, 8), done
        role = run.example.request["RoleArn"]
        roles = {role.rpartition("/")[2]: role} if role.startswith("arn:") else {}
        if run.example.role:
            roles[run.example.role] = f"arn:aws:iam::{ACCOUNT}:role{path}{run.example.role}"
        entries = self.account.requests()
        assert entries, (command, "asked nothing")
        found = self.asked.setdefault(command, {})
        for entry in entries:
            for action, resource, context in asks(entry, roles):
                found[action, resource, entry["region"]] = context
                if action == "iam:PassRole":
                    self.passed[resource] = run.example.manifest


@pytest.fixture(scope="module")
def life(running, tmp_path_factory):
    out = Life(running)
    for name in ("llama-7b-fsdp", "distilbert-spot", "falcon-40b-qlora"):
        run = Run(running, Example(name))
        out.of("plan", run, "plan")
        out.of("emit", run, "emit", "--resolve", "--out", str(tmp_path_factory.mktemp("emitted") / "out"))
        out.of("apply", run, "apply", "--yes")
        out.of("plan", run, "plan")
        out.of("apply", run, "apply", "--yes")
        # After the end of the run, `status` looks for its source archive.
        for verb in ("status", "logs", "watch", "status"):
            out.of("watch", run, verb)
        run.account.settings(job_steps=["Starting", "Training"])
        out.of("apply", run, "apply", "--yes", "--new-run")
        out.of("stop", run, "stop", "--yes")
        out.of("apply", run, "apply", "--yes", "--new-run")
        out.of("destroy", run, "destroy", "--yes", "--delete-data")
    return out


def ours(role):
    return ":role/trainc/" in role


def lets(policy, life, command, action, resource):
    """Returns the policy that must allow a request: of all jobs, or of the manifest that names an existing role."""
    if action == "iam:PassRole" and not ours(resource):
        return policy_of(command, life.passed[resource])
    return policy


@pytest.mark.parametrize("command", ["plan", "emit", "apply", "watch", "stop", "destroy"])
def test_the_policy_is_enough(life, command, table):
    policy = granted(command)
    denied = [
        f"{action} on {resource}"
        for (action, resource, region), context in sorted(life.asked[command].items())
        if action != "sts:GetCallerIdentity"  # needs no permission
        # Existing roles are passed only if a manifest names them: the policy of that manifest allows it.
        and decide(lets(policy, life, command, action, resource), region, action, resource, context) != "Allow"
    ]
    assert denied == []
    if command == "apply":
        own = {resource for action, resource, _ in life.asked[command] if action == "iam:PassRole" and not ours(resource)}
        assert own, "no example runs as a role of its own"
        to_jobs = {"iam:passedtoservice": "sagemaker.amazonaws.com"}
        for resource in own:
            assert decide(policy, "us-west-2", "iam:PassRole", resource, to_jobs) != "Allow", "nobody has named it"
            narrow = policy_of(command, life.passed[resource])
            assert decide(narrow, "us-west-2", "iam:PassRole", resource, {"iam:passedtoservice": "ec2.amazonaws.com"}) != "Allow"
            assert decide(narrow, "us-west-2", "iam:PassRole", f"{resource}-other", to_jobs) != "Allow"
    table(f"permissions {command}: what was asked is allowed", len(life.asked[command]), "all allowed", 0.0)


@pytest.mark.parametrize("command", ["plan", "emit", "apply", "watch", "stop", "destroy"])
def test_the_policy_is_not_more(life, command):
    actions = {action for statement in granted(command)["Statement"] for action in statement["Action"]}
    used = {action for action, _, _ in life.asked[command]}
    assert actions - used - RARELY[command] == set(), "granted, and never asked"
    assert used - actions == set()


# Actions that no command requires.
NEVER = [
    ("iam:CreateUser", f"arn:aws:iam::{ACCOUNT}:user/x"), ("iam:CreateAccessKey", f"arn:aws:iam::{ACCOUNT}:user/x"),
    ("iam:DeleteRole", f"arn:aws:iam::{ACCOUNT}:role/admin"), ("iam:PutRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/admin"),
    ("iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role/admin"), ("iam:AttachRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/trainc/x"),
    ("iam:UpdateAssumeRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/admin"),
    ("iam:PassRole", "arn:aws:iam::999999999999:role/x"), ("sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/admin"),
    ("s3:PutObject", "arn:aws:s3:::example-corpus/x"), ("s3:DeleteObject", "arn:aws:s3:::example-runs/llama-7b/model"),
    ("s3:GetObject", "arn:aws:s3:::example-corpus/tokens/part-0"), ("s3:DeleteBucket", "arn:aws:s3:::example-corpus"),
    ("s3:PutBucketPolicy", "arn:aws:s3:::example-corpus"),
    ("s3:PutObject", f"arn:aws:s3:::sagemaker-us-west-2-{ACCOUNT}/other/x"),
    ("secretsmanager:GetSecretValue", arn("secretsmanager", "us-west-2", "secret:wandb-AbCdEf")),
    ("kms:Decrypt", arn("kms", "us-west-2", "key/1")), ("kms:ScheduleKeyDeletion", arn("kms", "us-west-2", "key/1")),
    ("ec2:AuthorizeSecurityGroupIngress", "*"), ("ec2:CreateVpcEndpoint", "*"), ("ec2:RunInstances", "*"),
    ("logs:DeleteLogGroup", arn("logs", "us-west-2", "log-group:/aws/sagemaker/TrainingJobs")),
    ("logs:GetLogEvents", arn("logs", "us-west-2", "log-group:/aws/lambda/x:log-stream:y")),
    ("sagemaker:CreateModel", "*"), ("sagemaker:DeleteTrainingJob", arn("sagemaker", "us-west-2", "training-job/x")),
    ("sagemaker:UpdateTrainingJob", arn("sagemaker", "us-west-2", "training-job/x")),
    ("fsx:DeleteBackup", "*"), ("fsx:CreateBackup", "*"), ("ecr:BatchGetImage", arn("ecr", "us-west-2", "repository/x")),
    ("servicequotas:RequestServiceQuotaIncrease", "*"),
    # Resources without trainc's tags, and requests that set none.
    *[(f"fsx:{verb}", arn("fsx", "us-west-2", "file-system/fs-0fffffffffffffff1"))
      for verb in ("DeleteFileSystem", "UpdateFileSystem", "TagResource", "CreateFileSystem")],
    ("fsx:DeleteDataRepositoryAssociation", arn("fsx", "us-west-2", "association/fs-1/dra-1")),
    ("sagemaker:StopTrainingJob", arn("sagemaker", "us-west-2", "training-job/somebody-elses")),
    ("sagemaker:AddTags", arn("sagemaker", "us-west-2", "training-job/somebody-elses")),
    ("sagemaker:CreateTrainingJob", arn("sagemaker", "us-west-2", "training-job/untagged")),
    *[(f"iam:{verb}", f"arn:aws:iam::{ACCOUNT}:role/trainc/untagged")
      for verb in ("DeleteRole", "PutRolePolicy", "UpdateAssumeRolePolicy", "TagRole")],
    # The only bucket that trainc creates is the default bucket of the region and the account.
    *[("s3:CreateBucket", f"arn:aws:s3:::{bucket}")
      for bucket in ("example-corpus", "example-runs", "example-code", "anything", "sagemaker")],
]


@pytest.mark.parametrize("command", ["plan", "emit", "apply", "watch", "stop", "destroy"])
def test_what_nobody_needs_is_denied(command):
    policy = granted(command)
    passed = {"iam:passedtoservice": "ec2.amazonaws.com"}
    wide = [f"{a} on {r}" for a, r in NEVER if decide(policy, "us-west-2", a, r, passed) == "Allow"]
    assert wide == [] and len(NEVER) == 47
    admin = f"arn:aws:iam::{ACCOUNT}:role/Admin"
    to_jobs = {"iam:passedtoservice": "sagemaker.amazonaws.com"}
    assert decide(policy, "us-west-2", "iam:PassRole", admin, to_jobs) != "Allow"


def test_what_carries_the_tag_may_be_changed():
    system = arn("fsx", "us-west-2", "file-system/fs-1")
    job = arn("sagemaker", "us-west-2", "training-job/job-1")
    for command, action, resource in (
        ("destroy", "fsx:DeleteFileSystem", system), ("apply", "fsx:UpdateFileSystem", system),
        ("apply", "fsx:TagResource", system), ("stop", "sagemaker:StopTrainingJob", job),
    ):
        assert decide(granted(command), "us-west-2", action, resource, OWN) == "Allow", (command, action)
    # `--adopt` sets trainc's tags on resources without them.
    taken = {"aws:requesttag/trainc:job": "job"}
    assert decide(granted("apply"), "us-west-2", "fsx:TagResource", system, taken) == "Allow"
    assert decide(granted("apply"), "us-west-2", "fsx:UpdateFileSystem", system, taken) != "Allow"


def test_who_takes_away_marks_nothing_as_its_own():
    """Otherwise the role could tag any file system and delete it with its data."""
    system = arn("fsx", "us-west-2", "file-system/fs-0fffffffffffffff1")
    given_tag = {"aws:requesttag/trainc:job": "job"}
    manifest = str(ROOT / "examples/llama-7b-fsdp/trainc.kdl")
    for command in ("plan", "emit", "watch", "stop", "destroy"):
        for policy in (granted(command), policy_of(command, manifest)):
            for action in ("fsx:TagResource", "iam:TagRole", "sagemaker:AddTags"):
                resource = {"fsx": system, "iam": f"arn:aws:iam::{ACCOUNT}:role/trainc/untagged"}.get(
                    action.split(":")[0], arn("sagemaker", "us-west-2", "training-job/llama-7b-fsdp-1"))
                assert decide(policy, "us-west-2", action, resource, given_tag) != "Allow", (command, action)
    # A job that leaves a file system to another job replaces its own name in the tag with that job's.
    assert decide(granted("destroy"), "us-west-2", "fsx:TagResource", system, OWN | given_tag) == "Allow"


def test_the_only_bucket_that_is_made_is_the_default_one():
    default = f"arn:aws:s3:::sagemaker-us-west-2-{ACCOUNT}"
    assert decide(granted("apply"), "us-west-2", "s3:CreateBucket", default, {}) == "Allow"
    for name in ("llama-7b-fsdp", "falcon-40b-qlora", "starter"):
        policy = policy_of("apply", str(ROOT / f"examples/{name}/trainc.kdl"))
        places = {
            resource for statement in policy["Statement"] for resource in statement["Resource"]
            if "s3:CreateBucket" in statement["Action"]
        }
        assert all(place.startswith("arn:aws:s3:::sagemaker-") and place.count("*") <= 1 for place in places), places
        for bucket in ("example-corpus", "example-runs", "anything"):
            asked = ("s3:CreateBucket", f"arn:aws:s3:::{bucket}")
            assert decide(policy, "us-west-2", *asked, {}) != "Allow", (name, bucket)


def test_policies_are_simulated_only_where_a_manifest_asks():
    starter = policy_of("apply", str(ROOT / "examples/starter/trainc.kdl"))
    assert "iam:SimulatePrincipalPolicy" not in json.dumps(starter), "its role is made, and nothing goes with the job"


# A job with locations other than trainc's defaults.
ELSEWHERE = {
    "program.upload": "s3://example-code/team/archives/", "role.path": "/team/",
    "output.kms": f"arn:aws:kms:us-west-2:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab",
}


@pytest.fixture(scope="module")
def narrowed(running, tmp_path_factory):
    """Runs a manifest with its own bucket, role path and key; returns the requests per command, and the manifest."""
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(ROOT / "examples/starter", folder, dirs_exist_ok=True)
    text = (folder / "trainc.kdl").read_text()
    text = text.replace('source="./scripts"', f'source="./scripts" upload="{ELSEWHERE["program.upload"]}"')
    text = text.replace("role create=#true", f'role create=#true path="{ELSEWHERE["role.path"]}"')
    assert "path=" in text and "upload=" in text
    output = next(line for line in text.splitlines() if line.strip().startswith("output "))
    text = text.replace(output, f'{output} kms="{ELSEWHERE["output.kms"]}"')
    (folder / "trainc.kdl").write_text(text)
    example = Example(str(folder / "trainc.kdl"))
    run, life = Run(running, example), Life(running)
    for command, verb, *flags in (
        ("plan", "plan"), ("apply", "apply", "--yes"), ("watch", "status"), ("destroy", "destroy", "--yes"),
    ):
        life.of(command, run, verb, *flags, path=ELSEWHERE["role.path"])
    return life, str(folder / "trainc.kdl")


def policy_of(command, manifest):
    return permissions(command, "--manifest", manifest)


@pytest.mark.parametrize("command", ["plan", "apply", "watch", "destroy"])
def test_the_policy_of_one_manifest_is_enough_and_narrow(narrowed, command):
    life, manifest = narrowed
    policy, wide = policy_of(command, manifest), granted(command)
    asked = {key: context for key, context in life.asked[command].items() if key[0] != "sts:GetCallerIdentity"}
    denied = [key for key, context in sorted(asked.items()) if decide(policy, key[2], key[0], key[1], context) != "Allow"]
    assert denied == []
    if command in ("apply", "destroy"):
        # These locations are only known from the manifest.
        missing = {key[0] for key, context in asked.items() if decide(wide, key[2], key[0], key[1], context) != "Allow"}
        assert {"s3:PutObject" if command == "apply" else "s3:DeleteObject"} <= missing, missing
    others = [
        ("s3:PutObject", "arn:aws:s3:::example-code/other/x"), ("s3:ListBucket", "arn:aws:s3:::another-bucket"),
        ("s3:PutObject", f"arn:aws:s3:::sagemaker-us-west-2-{ACCOUNT}/trainc/another/x"),
        ("sagemaker:CreateTrainingJob", arn("sagemaker", "us-west-2", "training-job/another-1")),
        ("sagemaker:StopTrainingJob", arn("sagemaker", "us-west-2", "training-job/another-1")),
        ("iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role/trainc/another"),
        ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/admin"), ("fsx:CreateFileSystem", arn("fsx", "us-west-2", "file-system/*")),
        ("kms:DescribeKey", arn("kms", "us-west-2", "key/another")),
        # Everything is uploaded to another bucket, so none is created; no existing role is simulated either.
        ("s3:CreateBucket", f"arn:aws:s3:::sagemaker-us-west-2-{ACCOUNT}"),
        ("iam:SimulatePrincipalPolicy", f"arn:aws:iam::{ACCOUNT}:role/admin"), *NEVER,
    ]
    passed = {"iam:passedtoservice": "sagemaker.amazonaws.com"}
    assert [one for one in others if decide(policy, "us-west-2", *one, passed) == "Allow"] == []


def test_uploads_under_a_key_are_allowed_through_s3_alone(narrowed):
    policy, key = policy_of("apply", narrowed[1]), ELSEWHERE["output.kms"]
    through = {"kms:viaservice": "s3.us-west-2.amazonaws.com"}
    for action in ("kms:GenerateDataKey", "kms:Decrypt"):
        assert decide(policy, "us-west-2", action, key, through) == "Allow"
        assert decide(policy, "us-west-2", action, key, {}) != "Allow"
        assert decide(policy, "us-west-2", action, key, {"kms:viaservice": "ebs.us-west-2.amazonaws.com"}) != "Allow"


BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/training"
BOUNDED = f"arn:aws:iam::{ACCOUNT}:role/trainc/training"


@pytest.fixture(scope="module")
def bounded(running):
    """What each command asks of the account where roles have a permissions boundary."""
    life = Life(running)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINC_ROLE_BOUNDARY", BOUNDARY)
        run = Run(running, Example("llama-7b-fsdp"))
        for command, verb, *flags in (
            ("plan", "plan"), ("apply", "apply", "--yes"), ("apply", "apply", "--yes", "--new-run"),
            ("destroy", "destroy", "--yes"),
        ):
            life.of(command, run, verb, *flags, path="/trainc/training/")
    return life


def with_boundary(asked):
    """The requests with the condition key that IAM sets where a role has, or gets, a boundary."""
    knows = ("iam:CreateRole", "iam:PutRolePolicy")  # and not UpdateAssumeRolePolicy, PassRole, TagRole
    for (action, resource, region), context in sorted(asked.items()):
        more = {"iam:permissionsboundary": BOUNDARY} if action in knows else {}
        yield action, resource, region, context | more


@pytest.mark.parametrize("command", ["plan", "apply", "destroy"])
def test_the_bounded_policy_is_enough(bounded, command):
    policy = permissions(command, "--boundary", BOUNDARY)
    denied = [
        (action, resource) for action, resource, region, context in with_boundary(bounded.asked[command])
        if action != "sts:GetCallerIdentity" and decide(policy, region, action, resource, context) != "Allow"
    ]
    assert denied == []
    if command == "apply":
        made = next(resource for action, resource, _ in bounded.asked["apply"] if action == "iam:CreateRole")
        assert made.startswith(f"{BOUNDED}/")


# The four ways to more permissions: a role with any trust, any policy, a changed trust, and a stronger role for the job.
ESCALATIONS = [
    ("iam:CreateRole", {"aws:requesttag/trainc:job": "job"}),
    ("iam:PutRolePolicy", OWN),
    ("iam:UpdateAssumeRolePolicy", OWN),
    ("iam:PassRole", {"iam:passedtoservice": "sagemaker.amazonaws.com"}),
]


@pytest.mark.parametrize("action, context", ESCALATIONS)
def test_escalations_are_denied_under_a_boundary(action, context):
    bounded, free = permissions("apply", "--boundary", BOUNDARY), permissions("apply")
    unbounded = f"arn:aws:iam::{ACCOUNT}:role/trainc/strong"
    # Without a boundary the holder can do it: the test shows what the boundary is for.
    assert decide(free, "us-west-2", action, unbounded, context) == "Allow"
    for role in (unbounded, f"arn:aws:iam::{ACCOUNT}:role/Admin", f"arn:aws:iam::{ACCOUNT}:role/trainc/other/x"):
        assert decide(bounded, "us-west-2", action, role, context) != "Allow", role
    if action in ("iam:CreateRole", "iam:PutRolePolicy"):
        for key in ({}, {"iam:permissionsboundary": f"arn:aws:iam::{ACCOUNT}:policy/AdministratorAccess"}):
            assert decide(bounded, "us-west-2", action, f"{BOUNDED}/x", context | key) != "Allow", key
        context = context | {"iam:permissionsboundary": BOUNDARY}
    assert decide(bounded, "us-west-2", action, f"{BOUNDED}/x", context) == "Allow"


def test_the_boundary_itself_cannot_be_changed():
    policy = permissions("apply", "--boundary", BOUNDARY)
    for action in ("iam:CreatePolicyVersion", "iam:SetDefaultPolicyVersion", "iam:DeletePolicy"):
        assert decide(policy, "us-west-2", action, BOUNDARY, {}) != "Allow"
    for action in ("iam:DeleteRolePermissionsBoundary", "iam:PutRolePermissionsBoundary", "iam:AttachRolePolicy"):
        context = OWN | {"iam:permissionsboundary": BOUNDARY}
        assert decide(policy, "us-west-2", action, f"{BOUNDED}/x", context) != "Allow"


@pytest.mark.parametrize("general", [True, False])
def test_the_boundary_lets_jobs_run_and_no_role_change_permissions(general):
    region, subnet = "us-west-2", "subnet-0123456789abcdef0"
    key = arn("kms", region, "key/1234abcd-12ab-34cd-56ef-1234567890ab")
    named = (
        ["--bucket", "example-runs/llama-7b", "--bucket", "example-corpus", "--subnet", subnet, "--key", key]
        if general else ["--manifest", str(ROOT / "examples/llama-7b-fsdp/trainc.kdl")]
    )
    boundary = permissions("boundary", "--boundary", BOUNDARY, *named)

    def allows(action, resource, **context):
        return decide(boundary, region, action, resource, context) == "Allow"

    assert not allows("iam:CreateRole", f"{BOUNDED}/x") and not allows("iam:PassRole", f"{BOUNDED}/x")
    assert not allows("sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/Admin")
    assert not allows("lambda:InvokeFunction", arn("lambda", region, "function:admin"))
    assert not allows("secretsmanager:GetSecretValue", arn("secretsmanager", region, "secret:prod-AbCdEf"))
    assert allows("s3:PutObject", "arn:aws:s3:::example-runs/llama-7b/output/x") is True
    for other in ("example-other/x", "example-runs/llama-7b2/x", "example-runs/x"):
        for action in ("s3:PutObject", "s3:DeleteObject", "s3:GetObject"):
            assert not allows(action, f"arn:aws:s3:::{other}"), (action, other)
    for asked, allowed in ((key, general), (arn("kms", region, "key/other"), False)):
        assert allows("kms:Decrypt", asked) is allowed, asked
    # A network interface is only deleted in the job's subnets.
    interface = arn("ec2", region, "network-interface/eni-1")
    for asked, allowed in ((subnet, True), ("subnet-0fffffffffffffff0", False)):
        place = {"ec2:subnet": arn("ec2", region, f"subnet/{asked}")}
        assert allows("ec2:DeleteNetworkInterface", interface, **place) is allowed, asked
    secret = arn("secretsmanager", region, "secret:wandb-AbCdEf")
    assert allows("secretsmanager:GetSecretValue", secret) is not general, "the manifest names it"


def test_a_boundary_of_any_job_names_what_it_covers():
    for more, words in (
        ([], "--bucket"), (["--key", arn("kms", "us-west-2", "key/1")], "--bucket"),
        (["--bucket", "*"], "not a bucket"), (["--bucket", "a-bucket/*"], "not a bucket"),
        (["--bucket", "a-bucket", "--key", arn("kms", "us-west-2", "key/*")], "not the ARN of a KMS key"),
        (["--bucket", "a-bucket", "--subnet", "*"], "not the ID of a subnet"),
        (["--bucket", "a-bucket", "--manifest", str(ROOT / "examples/llama-7b-fsdp/trainc.kdl")], "without `--manifest`"),
    ):
        command = [TRAINC, "catalog", "permissions", "boundary", "--boundary", BOUNDARY, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and words in done.stderr and not done.stdout, (more, done)


def test_tags_of_others_are_left_alone():
    """Where a service tells what a request does to a tag, it is a condition."""
    policy = permissions()
    job = arn("sagemaker", "us-west-2", "training-job/somebody-elses")
    taken = {"aws:requesttag/trainc:job": "job"}
    assert decide(policy, "us-west-2", "sagemaker:AddTags", job, taken) != "Allow", "it exists already"
    made = taken | {"sagemaker:taggingaction": "CreateTrainingJob"}
    assert decide(policy, "us-west-2", "sagemaker:AddTags", job, made) == "Allow"
    system = arn("fsx", "us-west-2", "file-system/fs-1")
    for keys, allowed in ((["trainc:job:one"], True), (["trainc:job"], False), (["trainc:job:one", "team"], False)):
        decided = decide(policy, "us-west-2", "fsx:UntagResource", system, OWN | {"aws:tagkeys": keys})
        assert (decided == "Allow") is allowed, keys
    narrow = policy_of("apply", str(ROOT / "examples/llama-7b-fsdp/trainc.kdl"))
    for name, allowed in (("llama-7b-fsdp", True), ("other", False)):
        new = {"aws:requesttag/trainc:job": name}
        decided = decide(narrow, "us-west-2", "fsx:CreateFileSystem", system, new)
        assert (decided == "Allow") is allowed, name


def test_a_policy_without_a_boundary_says_what_it_allows():
    for arguments, warns in ((["apply"], True), ([], True), (["plan"], False), (["apply", "--boundary", BOUNDARY], False)):
        done = subprocess.run([TRAINC, "catalog", "permissions", *arguments], capture_output=True, text=True, check=True)
        assert ("can become an administrator" in done.stderr) is warns, (arguments, done.stderr)
        # One message: further lines of it are indented.
        assert sum(not line.startswith(" ") for line in done.stderr.splitlines()) == int(warns)
