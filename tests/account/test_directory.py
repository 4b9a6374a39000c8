"""Apply of a directory: jobs run concurrently, shared resources are created once, and there is one report."""

import contextlib
import json
import os
import pty
import select
import shutil
import subprocess
import time

import pytest
from job import ROOT, TRAINC, Example, own_names

MANIFEST = own_names((ROOT / "examples/starter/trainc.kdl").read_text())
JOBS = 6


@pytest.fixture(scope="session")
def starter():
    return Example("starter")


@pytest.fixture
def jobs(account, tmp_path, starter):
    """Creates a directory of jobs with different names, in an account with slow answers."""
    (tmp_path / ".git").mkdir()
    shutil.copytree(ROOT / "examples/starter/scripts", tmp_path / "scripts")
    for number in range(1, JOBS + 1):
        job = MANIFEST.replace('job "my-first-job"', f'job "job-{number}"')
        assert "job-" in job
        (tmp_path / f"job-{number}.kdl").write_text(job)
    account.admin("seed", starter.seeded())
    account.settings(latency_ms=200)
    account.admin("forget")
    return tmp_path


def apply(account, folder, *arguments):
    return subprocess.run(
        [TRAINC, "apply", "--yes", *arguments], cwd=folder, env=account.environment, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=300,
    )


def test_jobs_of_a_directory_do_not_wait_for_each_other(account, jobs):
    one = apply(account, jobs, "job-1.kdl")
    assert one.returncode == 0, one
    account.admin("forget")
    done = apply(account, jobs, ".")
    assert done.returncode == 0, done
    assert sorted(job["name"].rpartition("-")[0] for job in account.state()["jobs"]) == [
        f"job-{number}" for number in range(1, JOBS + 1)
    ]
    # One after the other, the first would start before the last has its role.
    calls = account.calls()
    assert calls.count("iam:CreateRole") == JOBS - 1
    assert "iam:CreateRole" not in calls[calls.index("sagemaker:CreateTrainingJob"):], calls
    out = [line for line in done.stdout.splitlines() if line.startswith(("applied:", "nothing to do:"))]
    assert [line.split()[-1].rpartition("-")[0] for line in out[1:]] == [f"job-{n}" for n in range(2, JOBS + 1)], done


def test_what_jobs_share_is_made_once(account, jobs):
    done = apply(account, jobs, ".", "-o", "json")
    assert done.returncode == 0, done
    made = [entry for entry in account.requests() if entry["call"] == "s3:CreateBucket"]
    assert len(made) == 1, made
    result = json.loads(done.stdout.splitlines()[-1])
    assert [one["exit"] for one in result["jobs"]] == [0] * JOBS, result


def test_a_job_that_fails_leaves_the_others_alone(account, jobs):
    """One manifest has an error and one role is denied: apply creates the other four jobs and reports each job."""
    broken = jobs / "job-2.kdl"
    broken.write_text(broken.read_text().replace("steps 1000", "stepz 1000"))
    account.faults({"where": "iam:CreateRole", "about": "job-4", "do": "denied"})
    done = apply(account, jobs, ".")
    assert done.returncode == 6, done
    report = [line.strip() for line in done.stdout.splitlines()[-JOBS:]]
    assert report[1] == "job-2: not applied: errors in the manifest", report
    assert report[3].startswith("job-4: ") and "denied" in report[3], report
    assert [line.partition(": ")[2] for at, line in enumerate(report) if at not in (1, 3)] == ["applied"] * 4, report
    assert len(account.state()["jobs"]) == 4


def test_on_a_terminal_it_moves_and_ends(account, jobs):
    """A separate thread draws the bars while the command writes to the same terminal."""
    ours, theirs = pty.openpty()
    began = time.monotonic()
    process = subprocess.Popen(
        [TRAINC, "apply", "--yes", "job-1.kdl", "job-2.kdl"], cwd=jobs, env={**account.environment, "TERM": "xterm"},
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while process.poll() is None and time.monotonic() - began < 120:
            with contextlib.suppress(OSError):  # the other end is closed
                if select.select([ours], [], [], 0.2)[0]:
                    shown += os.read(ours, 65536)
        assert process.poll() == 0, shown.decode()[-2000:]
    finally:
        process.kill()
        os.close(ours)
    assert b"looking at the account" in shown and b"job-1: role " in shown, shown.decode()
