"""Validates every emitted request against the service model: members, types, lengths, ranges, patterns."""

import json

import pytest
from artefacts import REQUEST, jobs
from validate import problems

JOBS = jobs()


def accepted(service, operation, request):
    found = problems(service, operation, request)
    assert not found, f"{operation} would be refused:\n  " + "\n  ".join(found)


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_training_job(job):
    request = job.request
    accepted("sagemaker", "CreateTrainingJob", request)
    if "ServerlessJobConfig" in request:
        return
    for member in ("AlgorithmSpecification", "ResourceConfig", "StoppingCondition"):
        assert member in request, f"{member} is optional in the model (serverless jobs) and required for a cluster"


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_create_role(job):
    if not job.has("iam/create-role.json"):
        assert "${role_arn}" not in json.dumps(job.raw(REQUEST)), "the job waits for a role that nothing creates"
        assert not job.files("iam/*.json"), "iam/ without create-role.json"
        return
    request = job.json("iam/create-role.json")
    accepted("iam", "CreateRole", request)
    trust = json.loads(request["AssumeRolePolicyDocument"])
    assert trust == job.json("iam/trust-policy.json"), "create-role.json carries another trust policy"


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_file_systems(job):
    """fsx/<name>.json is a CreateFileSystem; <name>.associations.json a list of CreateDataRepositoryAssociation."""
    for path in job.files("fsx/*.json"):
        content = job.json(path)
        if path.endswith(".associations.json"):
            assert isinstance(content, list) and content, f"{path} is no list of requests"
            for request in content:
                accepted("fsx", "CreateDataRepositoryAssociation", request)
        else:
            accepted("fsx", "CreateFileSystem", content)
    waited = set(job.mounts())
    for channel in job.request.get("InputDataConfig", []):
        source = channel.get("DataSource", {}).get("FileSystemDataSource", {})
        raw = json.dumps(job.raw(REQUEST))
        if "${fsx." in raw and source:
            assert source["FileSystemId"] in waited, f"channel {channel['ChannelName']}: no fsx/ file makes its storage"
