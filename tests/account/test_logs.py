"""Logs of 32 hosts with 20,000 lines each: followed whole, each line once, in the order of time, in flat memory."""

import os
import re
import subprocess
import tempfile
import time

import pytest
from job import Example, Run, TRAINC

HOSTS, LINES = 32, 20_000
LINE = re.compile(rb"host algo-(\d+) line (\d+) ")


@pytest.fixture(scope="session")
def example():
    return Example("gpt2-30b-sharded")


def logs_of(run, *flags):
    """Exit code, output, most memory [MiB] and seconds of `trainc logs`."""
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        process = subprocess.Popen(
            [TRAINC, "logs", run.example.manifest, *flags], env=run.account.environment, stdout=out,
            stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return process.returncode, out.read(), usage.ru_maxrss / 1024, time.monotonic() - began


@pytest.mark.parametrize(
    "lines, rules",
    [(LINES, []), (LINES // 10, [{"where": "logs:GetLogEvents", "do": "throttle", "attempts": 1}])],
    ids=["calm", "throttled"],
)
def test_all_lines_of_all_hosts(account, example, lines, rules, table):
    run = Run(account, example)
    assert example.request["ResourceConfig"]["InstanceCount"] == HOSTS
    account.settings(log_lines=lines, job_steps=["Training", "Training", "Completed"])
    assert run.apply().code == 0
    account.admin("forget")
    account.faults(*rules)
    code, out, memory, seconds = logs_of(run, "--follow")
    assert code == 0
    seen = LINE.findall(out)
    assert len(seen) == lines * HOSTS
    assert len(set(seen)) == lines * HOSTS
    each = {}
    for host, line in seen:
        assert int(line) == each.get(host, -1) + 1, "the lines of a host stay in order"
        each[host] = int(line)
    times = [int(line) for _, line in seen]
    late = sum(1 for before, after in zip(times, times[1:], strict=False) if after < before - 1)
    pages = sum(1 for call in account.calls() if call == "logs:GetLogEvents")
    assert late == 0, f"{late} lines out of the order of time"
    # one page of each host at a time: 32 × 10,000 lines, whatever the logs hold
    assert memory < 400, f"{memory:.0f} MiB"
    table(f"logs of {HOSTS} hosts, {len(seen)} lines", 1, f"{pages} pages, {memory:.0f} MiB", seconds)


def test_one_host(account, example):
    run = Run(account, example)
    account.settings(job_steps=["Training", "Completed"])
    assert run.apply().code == 0
    code, out, _, _ = logs_of(run, "--host", "algo-2")
    assert code == 0
    assert {host for host, _ in LINE.findall(out)} == {b"2"}
    assert len(LINE.findall(out)) == 5
