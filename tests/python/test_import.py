"""`trainc import` and back: a captured request becomes a manifest, and the manifest the same request."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from artefacts import jobs
from normalise import differences, show

GOLDEN = pathlib.Path(__file__).parent.parent / "golden-requests"
CAPTURES = [path for path in sorted(GOLDEN.glob("*.json")) if path.stem != "refused"]
BINARY = os.environ.get("TRAINC_BIN")
JOBS = jobs()

pytestmark = pytest.mark.skipif(not BINARY, reason="TRAINC_BIN is not set")


def again(request, place):
    """Imports a request and emits the manifest again; returns the new request, and the manifest for messages."""
    place.mkdir(exist_ok=True)
    source, manifest, out = place / "request.json", place / "job.kdl", place / "out"
    source.write_text(json.dumps(request), encoding="utf-8")
    for command in (["import", source, "--out", manifest], ["emit", manifest, "--out", out]):
        done = subprocess.run([BINARY, *command], capture_output=True, text=True, check=False, cwd=place)
        assert done.returncode == 0, done.stderr + (manifest.read_text() if manifest.exists() else "")
    return json.loads((out / "sagemaker/training-job.json").read_text(encoding="utf-8")), manifest.read_text()


def test_all_captures_are_here():
    assert len(CAPTURES) == 12


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_capture_comes_back(path, tmp_path):
    case = json.loads(path.read_text(encoding="utf-8"))
    ours, manifest = again(case, tmp_path)
    found = differences(ours, case["request"])
    assert not found, show(found, "again", "captured") + "\n" + manifest


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_emitted_request_comes_back(job, tmp_path):
    """Requests of trainc are imported too: digests in paths, created roles, everything in tests/requests."""
    request = job.request
    ours, manifest = again(request, tmp_path)
    # Another manifest has another digest, and so other locations that contain it.
    mark, theirs = tag(ours), tag(request)
    text = json.dumps(ours).replace(mark, theirs) if mark and theirs else json.dumps(ours)
    found = [f for f in differences(json.loads(text), request) if not digest_apart(f)]
    assert not found, show(found, "again", "emitted") + "\n" + manifest


def tag(request):
    return next((t["Value"] for t in request.get("Tags", []) if t["Key"] == "trainc:digest"), None)


def digest_apart(found):
    """Returns whether two texts differ only in 64-digit hexadecimal digests."""
    _, ours, theirs = found
    if not isinstance(ours, str) or not isinstance(theirs, str):
        return False
    return re.sub(r"[0-9a-f]{64}", "", ours) == re.sub(r"[0-9a-f]{64}", "", theirs)


def test_a_name_is_no_file(tmp_path):
    done = subprocess.run([BINARY, "import", "my-job"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "is not a file" in done.stderr


def test_never_over_a_file(tmp_path):
    shutil.copy(CAPTURES[0], tmp_path / "request.json")
    (tmp_path / "job.kdl").write_text("mine")
    command = [BINARY, "import", "request.json", "--out", "job.kdl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "job.kdl").read_text() == "mine"
