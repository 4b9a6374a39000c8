"""The manifests of the eight jobs captured from the SDK produce the captured requests."""

import json
import pathlib

import pytest
from artefacts import jobs
from normalise import differences, show

GOLDEN = pathlib.Path(__file__).parent.parent / "golden-requests"
CASES = {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in sorted(GOLDEN.glob("*.json"))}
CASES = {name: case for name, case in CASES.items() if "manifest" in case}
JOBS = {pathlib.PurePath(job.name).name: job for job in jobs()}


def test_all_eight_are_here():
    assert len(CASES) == 8
    assert not set(CASES) - set(JOBS), "examples that were not emitted"


@pytest.mark.parametrize("name", CASES)
def test_request_as_captured(name):
    found = differences(JOBS[name].request, CASES[name]["request"])
    assert not found, show(found, "emitted", "captured")


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n].get("git")])
def test_git_as_captured(name, captures):
    """With the emitted script the SDK clones and checks out the same source as in the capture."""
    assert captures[name].git == CASES[name]["git"]
