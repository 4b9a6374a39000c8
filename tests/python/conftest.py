"""Fixtures, and the end of the report, which lists members that the SDK does not support."""

import pytest
from artefacts import jobs
from sdk_capture import capture

UNSAID = pytest.StashKey[dict]()


def pytest_configure(config):
    config.stash[UNSAID] = {}


@pytest.fixture(scope="session")
def unsaid(request):
    """Returns job name -> members that its estimator.py declares unsupported; printed at the end of the run."""
    return request.config.stash[UNSAID]


@pytest.fixture(scope="session")
def captures():
    """Returns job name -> capture of the SDK for its estimator.py; one process runs all scripts once per test run."""
    from artefacts import fill

    found = [job for job in jobs() if job.has("sagemaker/estimator.py")]
    scripts, mounts = [], {}
    for job in found:
        path = job.path("sagemaker/estimator.py")
        scripts.append((path, fill(path.read_text(encoding="utf-8"), str(path))))
        mounts |= job.mounts()
    return dict(zip([job.name for job in found], capture(scripts, mounts), strict=True))


def pytest_terminal_summary(terminalreporter, config):
    said = {name: members for name, members in config.stash[UNSAID].items() if members}
    if said:
        terminalreporter.section("members that no SDK script can say")
        for name, members in sorted(said.items()):
            terminalreporter.line(f"{name}: {', '.join(members)}")
