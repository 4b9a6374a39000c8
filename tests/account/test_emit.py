"""`emit --resolve` replaces the placeholders of offline output, with three read-only calls."""

import json

from job import Example, Run


def emit(run, folder, *flags):
    return run.trainc("emit", "--out", str(folder), *flags)


def test_what_was_applied_is_emitted_as_it_was_sent(account, tmp_path):
    run = Run(account, Example("llama-7b-fsdp"))
    before = emit(run, tmp_path / "before", "--resolve")
    assert before.code == 0, before
    for mark in ("${role_arn}", "${fsx.corpus.id}", "${fsx.corpus.mount}"):
        assert f"note: {mark} is not resolved" in before.err, before
    assert run.apply().code == 0
    sent = [e for e in account.requests() if e["call"] == "sagemaker:CreateTrainingJob"][-1]
    account.admin("forget")
    after = emit(run, tmp_path / "after", "--resolve")
    assert after.code == 0 and "} is not resolved" not in after.err, after
    assert sorted(account.calls()) == ["fsx:DescribeFileSystems", "iam:GetRole", "sts:GetCallerIdentity"]
    emitted = json.loads((tmp_path / "after/sagemaker/training-job.json").read_text())
    assert emitted == json.loads(sent["body"])
    for path in (tmp_path / "after").rglob("*"):
        if path.is_file() and "source" not in path.parts:
            assert "${" not in path.read_text(), path
    assert emit(run, tmp_path / "after", "--resolve", "--check").code == 0


def test_who_may_not_ask_is_told(account, tmp_path):
    run = Run(account, Example("llama-7b-fsdp"))
    account.faults({"where": "fsx:DescribeFileSystems", "do": "denied"})
    done = emit(run, tmp_path / "out", "--resolve")
    assert done.code == 6 and not (tmp_path / "out").exists(), done
