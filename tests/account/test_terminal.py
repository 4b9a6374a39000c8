"""The progress display on a terminal while the account is read."""

import contextlib
import os
import pty
import select
import shutil
import subprocess
import time

import pytest
from job import ROOT, TRAINC

LOOKING = b"looking at the account"
COMMANDS = {
    "status": ["status", "trainc.kdl"],
    "logs": ["logs", "trainc.kdl"],
    "stop": ["stop", "trainc.kdl", "--yes"],
    "emit": ["emit", "trainc.kdl", "--out", "generated", "--resolve"],
    "report": ["report", "trainc.kdl"],
    "watch": ["watch", "trainc.kdl"],
    "destroy": ["destroy", "trainc.kdl", "--yes"],
}
ENVIRONMENT = {**os.environ, "TERM": "xterm", "TRAINC_POLL_SECONDS": "0"}


@pytest.fixture
def repository(tmp_path):
    """Applies a job to an in-memory account."""
    (tmp_path / ".git").mkdir()
    shutil.copytree(ROOT / "examples/starter", tmp_path, dirs_exist_ok=True)
    subprocess.run(
        [TRAINC, "apply", "--yes", "trainc.kdl", "--simulate=account.json"], cwd=tmp_path, env=ENVIRONMENT, check=True,
        capture_output=True,
    )
    return tmp_path


def terminal(folder, arguments):
    """Runs a command on a terminal; returns the output of both streams and the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [TRAINC, *arguments, "--simulate=account.json"], cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
        stdout=theirs, stderr=theirs,
    )
    os.close(theirs)
    shown, began = b"", time.monotonic()
    try:
        while time.monotonic() - began < 120:
            if select.select([ours], [], [], 0.2)[0]:
                some = b""
                with contextlib.suppress(OSError):  # the other end is closed
                    some = os.read(ours, 65536)
                if not some:
                    break
                shown += some
        return shown, process.wait(timeout=60)
    finally:
        process.kill()
        os.close(ours)


def left(shown):
    """Returns the final lines as a terminal shows them; an erased line is empty."""
    lines, at = [""], 0
    text = shown.decode()
    while text:
        if text.startswith("\x1b["):
            end = next(i for i, c in enumerate(text[2:], 2) if c.isalpha())
            count, what = text[2:end], text[end]
            text = text[end + 1:]
            if what == "A":
                at = max(0, at - int(count or 1))
            elif what == "B":
                at += int(count or 1)
            elif what == "K":
                lines[at] = ""
            while at >= len(lines):
                lines.append("")
            continue
        one, text = text[0], text[1:]
        if one == "\n":
            at += 1
            if at == len(lines):
                lines.append("")
        elif one != "\r":
            lines[at] += one
    return "\n".join(lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_spinner_turns_and_is_taken_away(repository, name):
    shown, code = terminal(repository, COMMANDS[name])
    assert code == 0, shown.decode()
    assert LOOKING in shown, shown.decode()
    assert LOOKING.decode() not in left(shown), left(shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_terminal_nothing_turns(repository, name):
    done = subprocess.run(
        [TRAINC, *COMMANDS[name], "--simulate=account.json"], cwd=repository, env=ENVIRONMENT, capture_output=True,
        stdin=subprocess.DEVNULL, check=True, timeout=120,
    )
    assert LOOKING not in done.stdout + done.stderr and b"\x1b" not in done.stderr, done


@pytest.mark.parametrize("name", ["status", "logs", "stop", "report", "watch", "destroy"])
def test_json_on_a_terminal_is_json_alone(repository, name):
    shown, code = terminal(repository, [*COMMANDS[name], "-o", "json"])
    assert code == 0 and LOOKING not in shown and b"\x1b" not in shown, shown.decode()
