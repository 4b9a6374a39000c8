"""Multipart upload of a large archive: after a kill the next run resumes it, and no part is left."""

import os
import shutil
import time

import pytest
from job import ROOT, Example, Run

# The minimum size in S3 of a part other than the last; the archive has three parts.
PART, BYTES = 5 << 20, 12 << 20
SMALL = {"TRAINC_PART_BYTES": str(PART)}


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large") / "starter"
    shutil.copytree(ROOT / "examples/starter", folder)
    (folder / "scripts/weights.bin").write_bytes(os.urandom(BYTES))
    return Example(str(folder / "trainc.kdl"))


def of_s3(account, *operations):
    return [call for call in account.calls() if call in {f"s3:{operation}" for operation in operations}]


def test_in_parts_with_their_checksums(account, example):
    run = Run(account, example)
    done = run.apply(environment=SMALL)
    assert done.code == 0, done
    assert of_s3(account, "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "PutObject") == [
        "s3:CreateMultipartUpload", "s3:UploadPart", "s3:UploadPart", "s3:UploadPart", "s3:CompleteMultipartUpload",
    ]
    parts = [e for e in account.requests() if e["call"] == "s3:UploadPart"]
    assert all("x-amz-checksum-sha256" in e["headers"] for e in parts)
    assert run.faults_against_one() == []


@pytest.mark.parametrize("phase", ["kill", "kill-after"])
@pytest.mark.parametrize(
    "where, nth",
    [("s3:CreateMultipartUpload", 1), ("s3:UploadPart", 1), ("s3:UploadPart", 2), ("s3:UploadPart", 3),
     ("s3:CompleteMultipartUpload", 1)],
)
def test_killed_in_the_middle(account, example, tmp_path, table, where, nth, phase):
    run = Run(account, example)
    began = time.monotonic()
    rule = {"where": where, "do": phase, "nth": nth, "pidfile": str(tmp_path / "pid")}
    account.faults(rule)
    process = run.start("apply", "--yes", pidfile=tmp_path / "pid", environment=SMALL)
    process.communicate(timeout=120)
    assert process.returncode == -9
    left = account.state()["uploads"]
    account.faults()
    again = run.apply(environment=SMALL)
    assert again.code == 0, again
    assert run.faults_against_one() == [], "one archive, and no upload that was never finished"
    if left:
        assert len(of_s3(account, "CreateMultipartUpload")) == 1, "the upload that was there was gone on with"
    table(f"{BYTES >> 20} MiB in parts: {phase} at {where} {nth}, then again", 1, f"{len(left)} left, then none",
          time.monotonic() - began)


def test_destroy_takes_what_was_never_finished(account, example, tmp_path):
    run = Run(account, example)
    account.faults({"where": "s3:UploadPart", "do": "kill", "nth": 2, "pidfile": str(tmp_path / "pid")})
    run.start("apply", "--yes", pidfile=tmp_path / "pid", environment=SMALL).communicate(timeout=120)
    assert len(account.state()["uploads"]) == 1
    account.faults()
    done = run.destroy()
    assert done.code == 0, done
    assert account.state()["uploads"] == [] and run.left() == []


def test_four_at_once_make_one(account, example):
    run = Run(account, example)
    ended = [run.start("apply", "--yes", environment=SMALL) for _ in range(4)]
    out = [process.communicate(timeout=200)[0] for process in ended]
    assert [process.returncode for process in ended] == [0] * 4, out
    assert run.faults_against_one() == []


def planted(account, example, environment):
    """Puts other content of the same size at the archive's key. Returns the next run, its URI, our bytes, a reader."""
    run = Run(account, example)
    assert run.apply(environment=environment).code == 0
    (uri,) = [uri for uri in account.state()["objects"] if uri.endswith("sourcedir.tar.gz")]
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    ours = account.client("s3", example.region).get_object(Bucket=bucket, Key=key)["Body"].read()
    run = Run(account, example)
    s3 = account.client("s3", example.region)
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": example.region})
    s3.put_object(Bucket=bucket, Key=key, Body=b"\0" * len(ours))
    account.admin("forget")

    def body():
        return s3.get_object(Bucket=bucket, Key=key)["Body"].read()

    return run, uri, ours, body


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("name, environment", [("starter", {}), ("large", SMALL)])
def test_a_planted_archive_is_overwritten(account, example, name, environment, hidden):
    example = Example("starter") if name == "starter" else example
    run, _, ours, body = planted(account, example, environment)
    account.settings(hidden_checksums=hidden)
    done = run.apply(environment=environment)
    assert done.code == 0, done
    assert body() == ours
    calls = account.calls()
    written = "s3:PutObject" if name == "starter" else "s3:CompleteMultipartUpload"
    assert calls.count(written) == 1 and calls.index(written) < calls.index("sagemaker:CreateTrainingJob")
    assert run.faults_against_one() == []


def test_a_planted_archive_that_may_not_be_overwritten_is_not_run(account):
    run, uri, ours, body = planted(account, Example("starter"), {})
    account.settings(no_overwriting=True)
    done = run.apply()
    assert done.code == 7, done
    assert f"an object that is not ours is in the way at `{uri}`" in " ".join(done.err.split()), done
    assert account.state()["jobs"] == [] and body() != ours
