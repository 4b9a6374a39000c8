"""sagemaker/model_trainer.py sends, under the real SDK v3, a request equivalent to sagemaker/training-job.json.

The scripts run under the recorder of `trainc import`, which answers all calls, with the Python of .venv-v3.
"""

import json
import os
import pathlib
import re
import subprocess

import pytest
import sdk_limits
from artefacts import fill, jobs
from normalise import ABSENT, differences, show, walk, without

ROOT = pathlib.Path(__file__).parent.parent.parent
PYTHON = ROOT / ".venv-v3/bin/python"
RECORDER = ROOT / "crates/trainc-import/src/recorder.py"
JOBS = jobs()
ADDED = re.compile(r"^# added by the SDK: ([\w.]+) is (\w+), the service's default$", re.MULTILINE)


# Imports the SDK once, and runs each script in a forked child.
DRIVER = """
import importlib.util, json, os, sys
spec = importlib.util.spec_from_file_location("recorder", sys.argv[1])
recorder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recorder)
sys.meta_path.insert(0, recorder.Finder)
import boto3, sagemaker.core.helper.session_helper, sagemaker.core.resources, sagemaker.core.training.configs, sagemaker.train
for script, record in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        sys.argv = [sys.argv[1], record, "60", "stop", script]
        recorder.main()
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """Returns job name -> the lines of the record of its script."""
    place = tmp_path_factory.mktemp("v3")
    (place / "home").mkdir()
    runs = []
    for index, job in enumerate(JOBS):
        script = place / str(index) / "sagemaker/model_trainer.py"
        script.parent.mkdir(parents=True)
        text = job.path("sagemaker/model_trainer.py").read_text(encoding="utf-8")
        script.write_text(fill(text), encoding="utf-8")
        if job.has("source"):
            (place / str(index) / "source").symlink_to(job.path("source").resolve())
        runs.append((str(script), str(place / str(index) / "record")))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place / "home"), "TMPDIR": str(place / "home"), "PYTHONWARNINGS": "ignore"}
    command = [PYTHON, "-B", "-c", DRIVER, RECORDER]
    done = subprocess.run(command, input=json.dumps(runs), env=env, cwd=place, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = [[json.loads(line) for line in pathlib.Path(record).read_text().splitlines()] for _, record in runs]
    return dict(zip([job.name for job in JOBS], lines, strict=True))


def is_dropped(request, path):
    """Returns whether a member has a value that the SDK drops: False, 0 or empty text."""
    for name in path.split("."):
        request = request[int(name)] if isinstance(request, list) else request.get(name, {})
    return request in (False, 0, "")


def test_the_sdk_is_installed():
    assert PYTHON.exists(), "tests/python/venv.sh makes .venv-v3"


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_same_request(job, records, unsaid):
    text = job.path("sagemaker/model_trainer.py").read_text(encoding="utf-8")
    exempt = sdk_limits.declared(text)
    limits = sdk_limits.TRAINER if "ModelTrainer(" in text else set()
    refused = [member for member in exempt if member not in limits and not is_dropped(job.request, member)]
    assert not refused, f"the SDK can say {refused}, or there is no such member"
    unsaid[f"{job.name} (v3)"] = exempt
    lines = records[job.name]
    failed = [line["traceback"] for line in lines if line["kind"] == "failed"]
    assert not failed, failed[0]
    assert lines[-1]["kind"] == "ended"
    requests = [line["request"] for line in lines if line["kind"] == "request"]
    assert len(requests) == 1
    found = differences(job.request, requests[0], exempt)
    assert not found, show(found, "emitted", "SDK")
    # The comparison knows documented defaults; the script states those that the SDK adds.
    found = []
    walk(without(job.request, exempt), without(requests[0], exempt), "", found)
    added = [(path, theirs) for path, ours, theirs in found if ours == ABSENT]
    assert added == ADDED.findall(text)
    assert [path for path, ours, _ in found if ours != ABSENT] == ["TrainingJobName"] * ("ModelTrainer(" in text)
    blocked = [line["what"] for line in lines if line["kind"] == "blocked"]
    assert not blocked
    uploads = [line["uri"] for line in lines if line["kind"] == "uploaded"]
    directory = job.request.get("HyperParameters", {}).get("sagemaker_submit_directory", "").strip('"')
    if uploads and directory.startswith("s3://"):
        assert uploads == [directory]


def test_every_job_has_a_script():
    assert all(job.has("sagemaker/model_trainer.py") for job in JOBS)
    assert os.access(PYTHON, os.X_OK)
