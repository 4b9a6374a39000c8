"""Role documents checked by two offline linters, and against limits of IAM that neither checks."""

import collections
import fnmatch
import json
import os
import re
import subprocess

import pytest
from artefacts import jobs

JOBS = jobs()
WITH_ROLE = [job for job in JOBS if job.has("iam/policy.json")]

# (issue, test on the finding's detail as text, reason). parliament 1.6.4 has the action definitions of 2025.
PARLIAMENT_EXCEPTIONS = [
    ("RESOURCE_MISMATCH", "'sagemaker-mlflow:AccessUI'", "no resource type; caught by `sagemaker-mlflow:*`"),
]

# (rule, test on the message, reason)
CFN_LINT_EXCEPTIONS = []


def test_some_job_creates_a_role():
    assert WITH_ROLE, "no iam/policy.json in the whole run: the policies were not tested at all"


def compact(document):
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("job", WITH_ROLE, ids=str)
def test_parliament(job):
    from parliament import analyze_policy_string, enhance_finding

    found = []
    for finding in analyze_policy_string(compact(job.json("iam/policy.json"))).findings:
        finding = enhance_finding(finding)
        detail = str(finding.detail)
        if not any(finding.issue == issue and re.search(test, detail) for issue, test, _ in PARLIAMENT_EXCEPTIONS):
            found.append(f"{finding.issue} ({finding.severity}): {finding.title} {detail} {finding.location}")
    assert not found, "\n".join(found)


@pytest.fixture(scope="session")
def cfn_lint():
    """Returns job name -> findings, from one template with every role, because cfn-lint starts slowly."""
    from cfnlint.api import lint
    from cfnlint.config import ManualArgs

    resources = {}
    for index, job in enumerate(WITH_ROLE):
        policy = {"PolicyName": "trainc", "PolicyDocument": job.json("iam/policy.json")}
        trust = job.json("iam/trust-policy.json")
        properties = {"AssumeRolePolicyDocument": trust, "Policies": [policy]}
        resources[f"Role{index}"] = {"Type": "AWS::IAM::Role", "Properties": properties}
    template = {"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}
    out = collections.defaultdict(list)
    for match in lint(compact(template), config=ManualArgs(regions=["us-east-1"])):
        if any(match.rule.id == rule and re.search(test, match.message) for rule, test, _ in CFN_LINT_EXCEPTIONS):
            continue
        where = re.search(r"Role(\d+)", "/".join(map(str, match.path or [])))
        name = WITH_ROLE[int(where[1])].name if where else "?"
        out[name].append(f"{match.rule.id} {match.message} at {'/'.join(map(str, match.path or []))}")
    return out


@pytest.mark.parametrize("job", WITH_ROLE, ids=str)
def test_cfn_lint(job, cfn_lint):
    assert not cfn_lint["?"], f"the wrapper itself: {cfn_lint['?']}"
    assert not cfn_lint[job.name], "\n".join(cfn_lint[job.name])


@pytest.mark.parametrize("job", WITH_ROLE, ids=str)
def test_trust_policy(job):
    """Only SageMaker may assume the role, and only for this account's jobs (confused deputy problem)."""
    trust = job.json("iam/trust-policy.json")
    assert trust["Version"] == "2012-10-17"
    assert len(compact(trust)) <= 2048
    for statement in trust["Statement"]:
        assert statement["Effect"] == "Allow"
        assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}  # the same in every partition
        # Session chaining tags the role's session, for which the service also requires sts:TagSession.
        actions = {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])
        assert actions in ({"sts:AssumeRole"}, {"sts:AssumeRole", "sts:TagSession"})
        assert "Resource" not in statement
        keys = {key: value for operator in statement["Condition"].values() for key, value in operator.items()}
        account, arn = keys.get("aws:SourceAccount"), keys.get("aws:SourceArn")
        assert account or arn, "no aws:SourceAccount and no aws:SourceArn"
        for one in [arn] if isinstance(arn, str) else arn or []:
            assert re.fullmatch(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:[a-z-]+/.+", one), one
            assert account in (None, one.split(":")[4]), "SourceAccount and SourceArn name two accounts"


@pytest.mark.parametrize("job", WITH_ROLE, ids=str)
def test_size_and_sids(job):
    policy = job.json("iam/policy.json")
    size = len(re.sub(r"\s", "", compact(policy)))
    assert size <= 10240, f"{size} characters; the inline policies of a role hold 10240 without white space"
    for document in (policy, job.json("iam/trust-policy.json")):
        sids = [statement.get("Sid", "") for statement in document["Statement"]]
        assert all(re.fullmatch("[A-Za-z0-9]+", sid) for sid in sids), sids
        assert len(set(sids)) == len(sids), f"a Sid stands twice: {sids}"


# --- the roles of CI: which tokens may assume them

TRAINC = os.environ.get("TRAINC_BIN")
GITHUB, GITLAB = "token.actions.githubusercontent.com", "gitlab.com"
# (flags, issuer, subjects that may assume the role, subjects that may not)
TRUSTS = [
    (
        ["--github", "acme/jobs"], GITHUB, ["repo:acme/jobs:environment:production"],
        ["repo:acme/jobs:pull_request", "repo:acme/jobs:ref:refs/heads/main", "repo:acme/jobs2:environment:production",
         "repo:evil/acme/jobs:environment:production", "repo:acme/jobs:environment:staging"],
    ),
    (
        ["--github", "acme/jobs", "--pull-requests"], GITHUB, ["repo:acme/jobs:pull_request"],
        ["repo:acme/jobs:environment:production", "repo:acme/other:pull_request"],
    ),
    (
        ["--github", "acme@1/jobs@2", "--environment", "staging"], GITHUB, ["repo:acme@1/jobs@2:environment:staging"],
        ["repo:acme/jobs:environment:staging", "repo:acme@1/jobs@3:environment:staging"],
    ),
    (
        ["--gitlab", "acme/ml/jobs"], GITLAB, ["project_path:acme/ml/jobs:ref_type:branch:ref:main"],
        ["project_path:acme/ml/jobs:ref_type:branch:ref:main2", "project_path:acme/ml/jobs:ref_type:tag:ref:main"],
    ),
    (
        ["--gitlab", "acme/jobs", "--pull-requests"], GITLAB, ["project_path:acme/jobs:ref_type:branch:ref:a/b"],
        ["project_path:acme/jobs:ref_type:tag:ref:v1", "project_path:acme/jobs2:ref_type:branch:ref:a"],
    ),
]


def trust(*flags):
    command = [TRAINC, "catalog", "permissions", "trust", "--account", "111122223333", *flags]
    return subprocess.run(command, capture_output=True, text=True)


def accepts(policy, issuer, audience, subject):
    claims = {f"{issuer}:aud": audience, f"{issuer}:sub": subject}
    tests = {"StringEquals": lambda value, wanted: value == wanted, "StringLike": fnmatch.fnmatchcase}
    provider = f"arn:aws:iam::111122223333:oidc-provider/{issuer}"
    return any(
        one["Principal"] == {"Federated": provider}
        and all(
            tests[operator](claims.get(key, ""), wanted)
            for operator, keys in one["Condition"].items() for key, wanted in keys.items()
        )
        for one in policy["Statement"]
    )


@pytest.mark.skipif(not TRAINC, reason="TRAINC_BIN is not set")
@pytest.mark.parametrize("flags, issuer, own, others", TRUSTS, ids=lambda one: " ".join(one) if isinstance(one, list) else one)
def test_only_runs_of_the_repository_assume_the_roles_of_ci(flags, issuer, own, others):
    from cfnlint.api import lint
    from cfnlint.config import ManualArgs

    policy = json.loads(trust(*flags).stdout)
    audience = "sts.amazonaws.com"
    assert [one for one in own if not accepts(policy, issuer, audience, one)] == []
    assert [one for one in others if accepts(policy, issuer, audience, one)] == []
    assert not accepts(policy, issuer, "https://github.com/evil", own[0])
    for statement in policy["Statement"]:
        assert statement["Action"] == "sts:AssumeRoleWithWebIdentity" and statement["Effect"] == "Allow"
        assert {f"{issuer}:aud", f"{issuer}:sub"} == {key for keys in statement["Condition"].values() for key in keys}
        assert re.fullmatch("[A-Za-z0-9]+", statement["Sid"])
    assert len(compact(policy)) <= 2048
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": policy}}
    template = {"AWSTemplateFormatVersion": "2010-09-09", "Resources": {"Role": role}}
    assert [str(match) for match in lint(compact(template), config=ManualArgs(regions=["us-east-1"]))] == []


@pytest.mark.skipif(not TRAINC, reason="TRAINC_BIN is not set")
@pytest.mark.parametrize(
    "flags",
    [
        [], ["--github", "acme"], ["--github", "acme/*"], ["--github", "acme/jobs/x"], ["--gitlab", "acme/$x"],
        ["--github", "acme/jobs", "--environment", "*"], ["--gitlab", "a/b", "--branch", "m?in"], ["--github", "a/b", "--branch", "main"],
        ["--github", "a/b", "--pull-requests", "--environment", "production"],
    ],
    ids=" ".join,
)
def test_a_trust_that_names_no_repository_is_refused(flags):
    done = trust(*flags)
    assert done.returncode == 2 and done.stdout == "" and "error: " in done.stderr, done
