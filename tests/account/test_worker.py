"""Engine `worker` over HTTP: its binary and its config are complete and at the location of the request's channel."""

import hashlib
import json
import re

from job import Example, Run

MANIFEST = "tests/fixtures/worker-cpu.kdl"
# The header of an ELF program for x86-64, and content that identifies it.
BINARY = b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\x3e\0" + bytes(range(256)) * 4096


def test_the_channel_is_filled_and_emptied(account, tmp_path, table):
    binary = tmp_path / "trainc-worker"
    binary.write_bytes(BINARY)
    example = Example(MANIFEST, "--worker", str(binary))
    run = Run(account, example)
    done = run.apply()
    assert done.code == 0, done
    created = [e for e in account.requests() if e["call"] == "sagemaker:CreateTrainingJob"]
    assert len(created) == 1
    request = json.loads(created[0]["body"])
    (channel,) = [c for c in request["InputDataConfig"] if c["ChannelName"] == "worker"]
    prefix = channel["DataSource"]["S3DataSource"]["S3Uri"]
    ours = [uri for uri in account.state()["objects"] if "/worker/" in uri]
    assert ours == [f"{prefix}rendezvous.key", f"{prefix}trainc-worker", f"{prefix}worker.json"]
    s3 = account.client("s3", s3={"addressing_style": "path"})
    bucket, _, key = prefix.removeprefix("s3://").partition("/")
    held = {
        name: s3.get_object(Bucket=bucket, Key=key + name)["Body"].read() for name in ("trainc-worker", "worker.json")
    }
    assert hashlib.sha256(held["trainc-worker"]).digest() == hashlib.sha256(BINARY).digest()
    config = json.loads(held["worker.json"])
    assert config["cluster"] == {"instance": "ml.c7i.12xlarge", "nodes": 1, "gpus_per_node": 0}
    assert config["data"]["train"] == "/opt/ml/input/data/train"
    line = request["AlgorithmSpecification"]["ContainerArguments"][-1]
    assert "/opt/ml/input/data/worker/trainc-worker" in line and "/opt/ml/input/data/worker/worker.json" in line
    # The key of the job's hosts is random, written once, and only contained in its object.
    secret = s3.get_object(Bucket=bucket, Key=key + "rendezvous.key")["Body"].read()
    assert re.fullmatch(rb"[0-9a-f]{64}\n", secret)
    assert secret[:64].decode() not in done.out + done.err + json.dumps(request) + held["worker.json"].decode()
    calls = len(account.requests())
    assert run.trainc("plan", "--detailed-exit-code").code == 0
    assert run.apply().code == 0
    writes = [e["call"] for e in account.requests()[calls:] if e["method"] == "PUT" or "Create" in e["call"]]
    assert writes == []
    # A second run of the job finds the key, and overwrites another binary of the same size.
    assert run.trainc("stop", "--yes").code == 0
    account.settings(job_steps=["Stopped"])
    s3.put_object(Bucket=bucket, Key=key + "trainc-worker", Body=b"\0" * len(BINARY))
    done = run.trainc("apply", "--yes", "--new-run")
    assert done.code == 0 and len(account.state()["jobs"]) == 2, done
    assert s3.get_object(Bucket=bucket, Key=key + "trainc-worker")["Body"].read() == BINARY
    assert s3.get_object(Bucket=bucket, Key=key + "rendezvous.key")["Body"].read() == secret
    assert run.destroy().code == 0
    assert [uri for uri in account.state()["objects"] if "/worker/" in uri] == []
    table(f"{MANIFEST}: apply, plan, apply, destroy", 1, f"{calls} calls to apply", 0.0)


def test_a_job_on_gpus_starts_with_one_warning(account, tmp_path):
    binary = tmp_path / "trainc-worker"
    binary.write_bytes(BINARY)
    run = Run(account, Example("llama-7b-worker", "--worker", str(binary)))
    before = account.state()
    planned = run.trainc("plan")
    assert planned.code == 0 and "T0620" in planned.out + planned.err, planned
    assert account.state() == before
    done = run.apply()
    assert done.code == 0, done
    assert (done.out + done.err).count("warning[T0620]") == 1, done
    (created,) = [e for e in account.requests() if e["call"] == "sagemaker:CreateTrainingJob"]
    request = json.loads(created["body"])
    assert request["Environment"]["FI_PROVIDER"] == "efa"
    channels = {channel["ChannelName"]: channel["DataSource"] for channel in request["InputDataConfig"]}
    assert channels["runs"]["FileSystemDataSource"]["FileSystemAccessMode"] == "rw"
    prefix = channels["worker"]["S3DataSource"]["S3Uri"]
    assert f"{prefix}trainc-worker" in account.state()["objects"]
    assert run.destroy().code == 0
