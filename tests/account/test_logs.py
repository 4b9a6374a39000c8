"""Logs of 32 hosts with 10,000 and 20,000 lines each: complete, no duplicates, ordered by time, in constant memory."""

import json
import re
import subprocess
import sys
import tempfile
import time

import pytest
from job import Example, Run, TRAINC

HOSTS, LINES = 32, 10_000
LINE = re.compile(rb"host algo-(\d+) line (\d+) ")


@pytest.fixture(scope="session")
def example():
    return Example("gpt2-30b-sharded")


# Linux includes a process's memory before exec, and so that of its parent: a small process starts the program.
STARTER = """
import os, sys
pid = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
open(sys.argv[1], "w").write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}")
"""


def logs_of(run, *flags):
    """Runs `trainc logs`; returns exit code, output, maximum memory [MiB] and seconds."""
    with tempfile.TemporaryFile() as out, tempfile.NamedTemporaryFile("r") as told:
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", STARTER, told.name, TRAINC, "logs", run.example.manifest, *flags],
            env=run.account.environment, stdout=out, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True,
        )
        seconds = time.monotonic() - began
        code, memory = told.read().split()
        out.seek(0)
        return int(code), out.read(), int(memory) / 1024, seconds


THROTTLED = [{"where": "logs:GetLogEvents", "do": "throttle", "attempts": 1}]
# MiB: the maximum memory, and its growth when the logs are twice as long.
MOST, GROWTH = 128, 12


def followed(account, example, lines, rules, table):
    """Follows the logs and checks number and order of the lines; returns the maximum memory [MiB]."""
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
    assert memory < MOST, f"{memory:.0f} MiB"
    how = ", throttled" if rules else ""
    table(f"logs of {HOSTS} hosts, {len(seen)} lines{how}", 1, f"{pages} pages, {memory:.0f} MiB", seconds)
    return memory


def test_all_lines_of_all_hosts_in_flat_memory(account, example, table):
    once = followed(account, example, LINES, [], table)
    twice = followed(account, example, 2 * LINES, [], table)
    assert twice < once + GROWTH, f"{once:.0f} MiB, and {twice:.0f} MiB for twice the lines"


def test_all_lines_while_throttled(account, example, table):
    once = followed(account, example, LINES // 2, THROTTLED, table)
    twice = followed(account, example, LINES, THROTTLED, table)
    assert twice < once + GROWTH, f"{once:.0f} MiB, and {twice:.0f} MiB for twice the lines"


def test_one_host(account, example):
    run = Run(account, example)
    account.settings(job_steps=["Training", "Completed"])
    assert run.apply().code == 0
    code, out, _, _ = logs_of(run, "--host", "algo-2")
    assert code == 0
    assert {host for host, _ in LINE.findall(out)} == {b"2"}
    assert len(LINE.findall(out)) == 5


@pytest.mark.parametrize("command", [("watch", "-o", "json"), ("logs", "--follow")])
def test_who_follows_ends_when_nobody_reads(account, command):
    """`… | head`: the job continues, and no process is left that polls it forever."""
    run = Run(account, Example("starter"))
    account.settings(job_steps=["Training"] * 100_000, log_lines=20_000)
    assert run.apply().code == 0
    process = run.start(*command, environment={"TRAINC_POLL_SECONDS": "0.05"})
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 0
    assert account.state()["jobs"][0]["status"] == "InProgress"


def test_a_follow_outlasts_throttling_and_names_where_it_was_cut_off(account):
    run = Run(account, Example("starter"))
    account.settings(job_steps=["Starting", "Training", "Completed"])
    assert run.apply().code == 0
    # More than one request retries, including the retries of the SDK.
    account.faults({"where": "logs:GetLogEvents", "do": "throttle", "times": 30})
    done = run.trainc("logs", "--follow")
    assert done.code == 0, done
    assert done.err.count("retrying until it answers") == 1, done
    lines = done.out.splitlines()
    assert len(lines) == len(set(lines)) == 5, done
    run = Run(account, Example("starter"))
    account.settings(job_steps=["Starting"] + ["Training"] * 500)
    assert run.apply().code == 0
    account.faults({"where": "sagemaker:DescribeTrainingJob", "do": "expired", "from": 6})
    cut = run.trainc("logs", "--follow")
    assert cut.code == 6, cut
    since = re.search(r"--since\s+(\S+Z)", cut.err)
    assert since and cut.out, cut
    account.faults()
    rest = run.trainc("logs", "--since", since[1])
    assert rest.code == 0 and rest.out.splitlines()[0] == cut.out.splitlines()[-1], (cut, rest)


def test_a_watch_outlasts_what_does_not_answer(account):
    """Temporary errors in reading the logs or describing the job are reported once, and the command continues."""
    for rule in (
        {"where": "logs:*", "do": "throttle", "times": 60},
        {"where": "logs:GetLogEvents", "do": "503", "from": 3, "times": 40},
        {"where": "sagemaker:DescribeTrainingJob", "do": "throttle", "from": 4, "times": 60},
    ):
        run = Run(account, Example("starter"))
        account.settings(job_steps=["Starting", *["Training"] * 12, "Completed"])
        assert run.apply().code == 0
        account.faults(rule)
        done = run.trainc("watch", "-o", "json")
        assert done.code == 0, (rule, done)
        assert done.err.count("retrying") == 1, (rule, done)
        last = json.loads(done.out.splitlines()[-2])
        assert last["status"]["metrics"], "its figures are those of the log"
        assert account.admin("met")[0] > 30, rule
    # A missing permission to read them is reported once, and the command still follows the job.
    run = Run(account, Example("starter"))
    account.settings(job_steps=["Starting", "Training", "Completed"])
    assert run.apply().code == 0
    account.faults({"where": "logs:*", "do": "denied"})
    done = run.trainc("watch")
    assert done.code == 0 and done.err.count("the logs cannot be read") == 1, done
    assert "retrying" not in done.err, done


def test_a_run_that_ends_long_before_its_last_step_is_remarked(account):
    run = Run(account, Example("starter"))
    account.settings(job_steps=["Training", "Completed"], log_text={"1": ["step=10 loss=2.5"]})
    assert run.apply().code == 0
    watched = run.trainc("watch")
    assert watched.code == 0 and "the last step in its log is 10 of 1,000" in watched.out, watched
    ended = json.loads(run.trainc("watch", "-o", "json").out.splitlines()[-1])
    assert (ended["last_step"], ended["planned_steps"]) == (10, 1000), ended
    reported = run.trainc("report")
    assert "the last step in its log is 10 of 1,000" in " ".join((reported.out + reported.err).split()), reported
    run = Run(account, Example("starter"))
    account.settings(job_steps=["Training", "Completed"], log_text={"1": ["step=995 loss=2.5"]})
    assert run.apply().code == 0
    watched = run.trainc("watch")
    assert watched.code == 0 and "step" not in watched.out, watched
