"""Apply converges from an empty account, after any crash and under every fault, without duplicates or leftovers."""

import collections
import json
import os
import subprocess
import time

import pytest
from job import Example, Run
from kills import kill_applies, points

EXAMPLES = ["llama-7b-fsdp", "gpt2-30b-seq512", "distilbert-spot", "neox-20b-fsdp"]
LARGEST = "llama-7b-fsdp"


@pytest.fixture(scope="session")
def largest():
    return Example(LARGEST)


@pytest.mark.parametrize("name", EXAMPLES)
def test_there_and_back(account, name, table):
    run = Run(account, Example(name))
    began = time.monotonic()
    first = run.apply()
    assert first.code == 0, first
    assert run.faults_against_one() == []
    calls = len(account.requests())
    planned = run.trainc("plan", "--detailed-exit-code")
    assert planned.code == 0, planned
    again = run.apply()
    assert again.code == 0, again
    writes = [e["call"] for e in account.requests()[calls:] if writes_to(e)]
    assert writes == [], "the second plan and the second apply write nothing"
    destroyed = run.destroy()
    assert destroyed.code == 0, destroyed
    assert run.left() == []
    once_more = run.destroy()
    assert once_more.code == 0, once_more
    table(f"{name}: apply, plan, apply, destroy, destroy", 1, f"{calls} calls to apply", time.monotonic() - began)


def writes_to(entry):
    operation = entry["call"].partition(":")[2]
    return operation.startswith(("Create", "Put", "Delete", "Update", "Tag", "Add", "Stop", "Upload", "Complete"))


def test_a_plan_only_reads(account, largest, table):
    run = Run(account, largest)
    planned = run.trainc("plan", "--detailed-exit-code")
    assert planned.code == 4, planned
    assert [e["call"] for e in account.requests() if writes_to(e)] == []
    calls = collections.Counter(e["call"] for e in account.requests())
    # No quota of this account was ever changed. A new account has low quotas, so apply reads the default once.
    assert calls["servicequotas:GetAWSDefaultServiceQuota"] == 1, calls
    assert sum(calls.values()) < 25, calls
    table(f"{largest.name}: plan in an account without raised quotas", 1, f"{sum(calls.values())} calls", 0.0)


def test_the_job_is_created_last_and_as_emitted(account, largest, tmp_path):
    """With sorted members, apply sends the same bytes as the AWS CLI does for the emitted file."""
    run = Run(account, largest)
    assert run.apply().code == 0
    created = [e for e in account.requests() if e["call"] == "sagemaker:CreateTrainingJob" and e["status"] == 200]
    assert len(created) == 1
    writes = [e["call"] for e in account.requests() if writes_to(e)]
    assert writes[-1] == "sagemaker:CreateTrainingJob"
    system = account.state()["file_systems"][0]
    role = f"arn:aws:iam::111122223333:role/trainc/{largest.role}"
    emitted = json.dumps(largest.request)
    for mark, value in (
        ("${role_arn}", role),
        ("${account}", "111122223333"),
        ("${fsx.corpus.id}", system["FileSystemId"]),
        ("${fsx.corpus.mount}", system["LustreConfiguration"]["MountName"]),
    ):
        emitted = emitted.replace(mark, value)
    assert json.loads(created[0]["body"]) == json.loads(emitted)
    # The same file through the AWS CLI, into the same account without the job.
    file = tmp_path / "training-job.json"
    file.write_text(emitted)
    sagemaker = account.client("sagemaker", largest.region)
    sagemaker.stop_training_job(TrainingJobName=largest.request["TrainingJobName"])
    for _ in range(3):
        sagemaker.describe_training_job(TrainingJobName=largest.request["TrainingJobName"])
    sagemaker.delete_training_job(TrainingJobName=largest.request["TrainingJobName"])
    cli = subprocess.run(
        [os.path.join(os.path.dirname(__import__("sys").executable), "aws"), "sagemaker", "create-training-job",
         "--region", largest.region, "--cli-input-json", f"file://{file}"],
        env=account.environment, capture_output=True, text=True,
    )
    assert cli.returncode == 0, cli.stderr
    sent = [e for e in account.requests() if e["call"] == "sagemaker:CreateTrainingJob"][-1]
    assert "aws-cli" in sent["agent"]

    def ordered(body):
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))

    assert ordered(sent["body"]) == ordered(created[0]["body"])


# --- crashes


@pytest.mark.parametrize("phase", ["kill", "kill-after"])
def test_killed_apply_converges(account, largest, tmp_path, table, phase):
    """Kills apply after a request is sent: before its effect (`kill`), or after its effect and before the answer."""
    began = time.monotonic()
    ends = kill_applies(account, lambda: Run(account, largest), phase, tmp_path)
    runs = sum(ends.values())
    table(f"{largest.name}: {phase}, then again", runs, "one of everything", time.monotonic() - began)


def test_killed_destroy_converges(account, largest, tmp_path, table):
    began = time.monotonic()
    run = Run(account, largest)
    assert run.apply().code == 0
    account.admin("forget")
    assert run.destroy().code == 0
    wanted = points(account.calls())
    for point in wanted:
        run = Run(account, largest)
        assert run.apply().code == 0
        account.faults({"do": "kill-after", "pidfile": str(tmp_path / "pid"), **point})
        process = run.start("destroy", "--yes", "--delete-data", pidfile=tmp_path / "pid")
        process.communicate(timeout=120)
        account.faults()
        again = run.destroy()
        assert again.code == 0, (point, again)
        assert run.left() == [], point
    runs = len(wanted)
    table(f"{largest.name}: destroy killed, then again", runs, "nothing left", time.monotonic() - began)


# --- faults


@pytest.mark.parametrize(
    "what, rules, settings",
    [
        ("every call throttled twice", [{"do": "throttle", "attempts": 2}], {}),
        ("every call answered 503 twice", [{"do": "503", "attempts": 2}], {}),
        ("every first answer lost after the effect", [{"do": "drop-after", "attempts": 1}], {}),
        ("every first request lost before the effect", [{"do": "drop", "attempts": 1}], {}),
        ("500 after the effect of every first request", [{"do": "500-after", "attempts": 1}], {}),
        ("reads lag behind writes by 5", [], {"read_lag": 5}),
        ("the role is seen after 5 tries", [], {"iam_lag": 5}),
        ("a file system takes 12 looks", [], {"file_system_reads": 12, "association_reads": 6}),
    ],
)
def test_under_faults(account, largest, what, rules, settings, table):
    run = Run(account, largest)
    account.settings(**settings)
    account.faults(*rules)
    began = time.monotonic()
    done = run.apply()
    assert done.code == 0, done
    assert run.faults_against_one() == []
    account.faults()
    account.settings(read_lag=0, iam_lag=0)
    planned = run.trainc("plan", "--detailed-exit-code")
    assert planned.code == 0, planned
    table(f"{largest.name}: {what}", 1, f"{len(account.requests())} requests", time.monotonic() - began)


def test_twenty_at_once(account, largest, table):
    run = Run(account, largest)
    began = time.monotonic()
    processes = [run.start("apply", "--yes") for _ in range(20)]
    ends = []
    for process in processes:
        out, _ = process.communicate(timeout=280)
        ends.append((process.returncode, out))
    assert {code for code, _ in ends} == {0}, [end for end in ends if end[0]][:2]
    assert run.faults_against_one() == []
    created = [e for e in account.requests() if e["call"] == "sagemaker:CreateTrainingJob"]
    table(
        f"{largest.name}: 20 applies at once", 20,
        f"one job, {len(created)} CreateTrainingJob sent", time.monotonic() - began,
    )


def test_credentials_expire_anywhere(account, largest, table):
    run = Run(account, largest)
    assert run.apply().code == 0
    total = len(account.requests())
    began, tried = time.monotonic(), 0
    for k in sorted({1, 2, *range(3, total, max(total // 8, 1)), total}):
        run = Run(account, largest)
        account.faults({"do": "expired", "from": k})
        ended = run.apply()
        met = account.admin("met")[0]
        if met == 0:
            assert ended.code == 0, (k, ended)
            continue
        assert ended.code == 6, (k, ended)
        assert "expired" in (ended.out + ended.err), (k, ended)
        account.faults()
        again = run.apply()
        assert again.code == 0, (k, again)
        assert run.faults_against_one() == [], k
        tried += 1
    assert tried >= 5
    table(f"{largest.name}: credentials expire in the middle, then again", tried, "exit 6, then 0", time.monotonic() - began)


