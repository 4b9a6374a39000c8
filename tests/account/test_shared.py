"""File systems that several jobs share: created once over HTTP, and deleted with the last job that uses them."""

import json
import shutil
import subprocess

import pytest
from job import ROOT, TRAINC, Example

LLAMA = (ROOT / "examples/llama-7b-fsdp/trainc.kdl").read_text()
IMPORT = 'import "s3://example-corpus/tokens/"'


@pytest.fixture(scope="session")
def llama():
    return Example("llama-7b-fsdp")


@pytest.fixture
def repo(account, tmp_path, llama):
    """Creates a directory of two jobs that differ only in their names."""
    (tmp_path / ".git").mkdir()
    shutil.copytree(ROOT / "examples/llama-7b-fsdp/scripts", tmp_path / "scripts")
    for name in "ab":
        (tmp_path / f"{name}.kdl").write_text(LLAMA.replace('job "llama-7b-fsdp"', f'job "{name}"'))
    account.admin("seed", llama.seeded())
    return tmp_path


def trainc(account, folder, *arguments):
    return subprocess.run(
        [TRAINC, *arguments], cwd=folder, env=account.environment, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=180,
    )


def systems(account):
    return [one for one in account.state()["file_systems"] if one["Lifecycle"] != "DELETING"]


def users(system):
    tags = system["Tags"]
    return sorted([tags.get("trainc:job", "nobody"), *[key[11:] for key in tags if key.startswith("trainc:job:")]])


def test_two_jobs_share_what_they_describe_alike(account, repo):
    done = trainc(account, repo, "apply", ".", "--yes")
    assert done.returncode == 0, done
    assert "`a` needs it too, and it is made once" in done.stdout, done
    (system,) = systems(account)
    assert users(system) == ["a", "b"]
    # Both may request it before either sees it, but with the same token, so that one is created.
    asked = [json.loads(e["body"]) for e in account.requests() if e["call"] == "fsx:CreateDataRepositoryAssociation"]
    assert len({one["ClientRequestToken"] for one in asked}) == 1, asked
    assert len(account.state()["associations"]) == 1
    for name in "ab":
        planned = trainc(account, repo, "plan", f"{name}.kdl", "--detailed-exit-code")
        assert planned.returncode == 0, planned
    gone = trainc(account, repo, "destroy", "a.kdl", "--yes", "--delete-data")
    assert gone.returncode == 0, gone
    assert "leave" in gone.stdout and "`b` also uses it" in gone.stdout, gone
    (system,) = systems(account)
    assert users(system) == ["b"]
    assert trainc(account, repo, "plan", "b.kdl", "--detailed-exit-code").returncode == 0
    gone = trainc(account, repo, "destroy", "b.kdl", "--yes", "--delete-data")
    assert gone.returncode == 0 and systems(account) == [], gone


def test_separate_commands_at_the_same_time_make_one(account, repo):
    running = [
        subprocess.Popen(
            [TRAINC, "apply", f"{name}.kdl", "--yes"], cwd=repo, env=account.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in "ab"
    ]
    ends = [(one.communicate(timeout=300), one.returncode) for one in running]
    assert [code for _, code in ends] == [0, 0], ends
    (system,) = systems(account)
    assert users(system) == ["a", "b"]


def test_a_file_system_goes_with_its_job(account, repo):
    """`delete-after-job` takes effect only under `apply --wait`."""
    manifest = repo / "a.kdl"
    manifest.write_text(manifest.read_text().replace(IMPORT, f"{IMPORT}\n        delete-after-job"))
    done = trainc(account, repo, "apply", "a.kdl", "--yes", "--wait")
    assert done.returncode == 0, done
    assert systems(account) == []


def test_a_file_system_goes_with_the_last_of_its_jobs(account, repo):
    for name in "ab":
        manifest = repo / f"{name}.kdl"
        manifest.write_text(manifest.read_text().replace(IMPORT, f"{IMPORT}\n        delete-after-job"))
    done = trainc(account, repo, "apply", ".", "--yes", "--wait")
    assert done.returncode == 0, done
    assert systems(account) == []


def test_the_most_throughput_that_sharers_ask_for_stays(account, repo):
    manifest = repo / "b.kdl"
    manifest.write_text(manifest.read_text().replace("throughput=250", "throughput=500"))
    for name in "abab":
        done = trainc(account, repo, "apply", f"{name}.kdl", "--yes")
        assert done.returncode == 0, done
    calls = [e["call"] for e in account.requests()]
    assert calls.count("fsx:UpdateFileSystem") == 1, "raised once, and never back"
    planned = trainc(account, repo, "plan", "a.kdl", "--detailed-exit-code")
    assert planned.returncode == 0, planned
    said = " ".join(planned.stdout.split())
    kept = "shared with `b`, which may need more: PerUnitStorageThroughput stays at 500 (this job asks for 250)"
    assert kept in said, planned
