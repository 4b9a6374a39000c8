"""sagemaker/estimator.py sends, under the real SDK, a request equivalent to sagemaker/training-job.json."""

import pathlib

import pytest
import sdk_limits
from artefacts import jobs
from normalise import differences, show

JOBS = jobs()


def script(job):
    return job.path("sagemaker/estimator.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_there_is_a_script(job):
    without = sdk_limits.WHOLE_JOB & set(job.request)
    assert job.has("sagemaker/estimator.py") or without, "no estimator.py, though the SDK could say this job"


@pytest.mark.parametrize("job", [j for j in JOBS if j.has("sagemaker/estimator.py")], ids=str)
def test_same_request(job, captures, unsaid):
    exempt = sdk_limits.declared(script(job))
    refused = [member for member in exempt if not sdk_limits.unsayable(member, job.request)]
    assert not refused, f"the SDK can say {refused}, or there is no such member"
    unsaid[job.name] = exempt
    found = differences(job.request, captures[job.name].request, exempt)
    assert not found, show(found, "emitted", "SDK")


@pytest.mark.parametrize("job", [j for j in JOBS if j.has("sagemaker/estimator.py")], ids=str)
def test_same_source(job, captures):
    """The SDK's archive contains the files of source/; git sources are skipped, since they are fetched."""
    capture = captures[job.name]
    unsupported = "not supported by the SDK: the source from git" in (job.root / "sagemaker/estimator.py").read_text()
    if capture.git or unsupported or not job.has("source"):
        return
    archives = [u for u in capture.uploads if u["key"].endswith("sourcedir.tar.gz")]
    assert len(archives) == 1, f"{len(archives)} source archives uploaded"
    root = job.path("source")
    files = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    members = sorted(str(pathlib.PurePosixPath(m)) for m in archives[0]["members"])
    assert members == files
