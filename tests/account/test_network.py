"""A network that hangs, truncates, resets and answers HTML: every call ends in time, is retried, and is reported."""

import collections
import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import threading
import time

import pytest
from job import ROOT, Example, Run
from kills import EVERY_CALL

# Idle timeout in seconds.
TIMEOUT = 0.5
# name -> (fault rule, pattern of the message)
FAULTS = {
    "hang": ({"do": "hang"}, rf"no response within {TIMEOUT} s"),
    "hang after the effect": ({"do": "hang-after"}, rf"no response within {TIMEOUT} s"),
    "stall": ({"do": "stall"}, rf"no response within {TIMEOUT} s"),
    "truncate": ({"do": "truncate"}, r"the connection was closed before a response arrived"),
    "reset": ({"do": "drop-after"}, r"the connection was closed before a response arrived"),
    "HTML": ({"do": "html"}, r"something other than AWS answered: HTTP 200"),
    "HTML with 404": ({"do": "html", "status": 404}, r"something other than AWS answered: HTTP 404"),
}
SHORT = {"TRAINC_TIMEOUT_SECONDS": str(TIMEOUT)}
HEAD = {"s3:HeadBucket", "s3:HeadObject"}


@pytest.fixture(scope="session")
def example():
    return Example("llama-7b-fsdp")


@pytest.fixture(scope="session")
def calls(running, example):
    """Returns the calls of an undisturbed apply."""
    assert Run(running, example).apply().code == 0
    return running.calls()


def meets(fault, call):
    """Returns whether a fault applies to a call: the answer to HEAD has no body that could stall or be HTML."""
    return not (call in HEAD and ("HTML" in fault or fault == "stall"))


def disturbed_apply(run, fault, *rules):
    """Applies while requests meet a fault. Returns the errors, if any."""
    run.account.faults(*({**FAULTS[fault][0], **rule} for rule in rules))
    done = run.apply(environment=SHORT)
    if done.code != 0:
        return repr(done)
    return "; ".join(run.faults_against_one())


@pytest.mark.parametrize("fault", FAULTS)
def test_first_call_of_each_kind(account, example, calls, fault, table):
    run = Run(account, example)
    began = time.monotonic()
    rules = [{"where": call, "nth": 1} for call in dict.fromkeys(calls) if meets(fault, call)]
    assert not disturbed_apply(run, fault, *rules)
    assert all(account.admin("met")), "every rule was met"
    table(f"{example.name}: {fault} at the first call of each kind", 1, "one of everything", time.monotonic() - began)


@pytest.mark.skipif(not EVERY_CALL, reason="nightly: TRAINC_EVERY_CALL=1")
@pytest.mark.parametrize("fault", FAULTS)
def test_every_call(account, example, calls, fault, table):
    began = time.monotonic()
    # Calls that do not wait for each other come in any order, so that each is named by its kind.
    kinds = collections.Counter(call for call in calls if meets(fault, call))
    wanted = [{"where": call, "nth": nth} for call, count in kinds.items() for nth in range(1, count + 1)]
    found = [(point, disturbed_apply(Run(account, example), fault, point)) for point in wanted]
    assert not [what for what in found if what[1]], found
    table(f"{example.name}: {fault} at every call", len(found), "one of everything", time.monotonic() - began)


def refused_apply(account, example, fault, call):
    """Applies while a call always meets a fault, then again without. Returns the errors, if any."""
    run = Run(account, example)
    rule, words = FAULTS[fault]
    account.faults({**rule, "where": call})
    # Only faults that wait need a short timeout: on a busy machine it would hide the others.
    timeout = SHORT if str(TIMEOUT) in words else {"TRAINC_TIMEOUT_SECONDS": "120"}
    done = run.apply(environment={**timeout, "AWS_MAX_ATTEMPTS": "1"})
    said = re.sub(r"\s+", " ", done.out + done.err)
    if done.code not in (0, 5):
        return repr(done)
    # A failed read-only call may only cause a note.
    if done.code == 5 and not (re.search(words, said) and "T0609" in said):
        return f"not reported: {done!r}"
    account.faults()
    again = run.apply()
    return repr(again) if again.code != 0 else "; ".join(run.faults_against_one())


def test_a_call_that_never_works(account, example, calls, table):
    """Tests by default the last kind of call of each service, with the faults in turn."""
    began = time.monotonic()
    kinds = list(dict.fromkeys(calls))
    if EVERY_CALL:
        wanted = [(fault, call) for fault, call in itertools.product(FAULTS, kinds) if meets(fault, call)]
    else:
        rotation = itertools.cycle(FAULTS)
        kinds = {call.partition(":")[0]: call for call in kinds}.values()
        wanted = [(next(fault for fault in rotation if meets(fault, call)), call) for call in kinds]
    found = [(item, refused_apply(account, example, *item)) for item in wanted]
    assert not [what for what in found if what[1]], [what for what in found if what[1]]
    table(f"{example.name}: one call that never works, then again", len(found), "exit 5, then 0", time.monotonic() - began)


@contextlib.contextmanager
def narrow(url, rate, most=None):
    """Runs a proxy that reads `rate` bytes per second and at most `most` bytes per connection. Yields its URL."""
    host, port = url.removeprefix("http://").split(":")
    listener = socket.socket()
    # Small buffers, so that the sender is slowed down.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)

    def back(upstream, client):
        with contextlib.suppress(OSError):
            while data := upstream.recv(1 << 16):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)

    def carry(client):
        with contextlib.suppress(OSError), client, socket.create_connection((host, int(port))) as upstream:
            threading.Thread(target=back, args=(upstream, client), daemon=True).start()
            taken = 0
            while data := client.recv(1 << 16):
                upstream.sendall(data)
                taken += len(data)
                time.sleep(len(data) / rate)
                if most is not None and taken >= most:
                    time.sleep(30)
                    return

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=carry, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large") / "starter"
    shutil.copytree(ROOT / "examples/starter", folder)
    (folder / "scripts/weights.bin").write_bytes(os.urandom(12 << 20))
    return Example(str(folder / "trainc.kdl"))


def test_a_slow_upload_is_not_cut_off(account, large):
    """The upload takes longer than the idle timeout, but never pauses for that long."""
    run = Run(account, large)
    with narrow(account.url, 3 << 20) as url:
        done = run.apply(environment={"AWS_ENDPOINT_URL_S3": url, "TRAINC_TIMEOUT_SECONDS": "2"})
    assert done.code == 0, done
    assert account.calls().count("s3:PutObject") == 1
    assert run.faults_against_one() == []


def test_an_upload_that_stops_is_given_up(account, large):
    run = Run(account, large)
    short = {**SHORT, "AWS_MAX_ATTEMPTS": "1"}
    with narrow(account.url, 64 << 20, most=4 << 20) as url:
        done = run.apply(environment={"AWS_ENDPOINT_URL_S3": url, **short})
    assert done.code == 5 and f"no response within {TIMEOUT} s" in re.sub(r"\s+", " ", done.out + done.err), done
    again = run.apply()
    assert again.code == 0, again
    assert run.faults_against_one() == []


@pytest.mark.parametrize(
    "variables, code, words",
    [
        ({"AWS_RETRY_MODE": "legacy"}, 0, ""),
        ({"AWS_RETRY_MODE": "", "AWS_MAX_ATTEMPTS": ""}, 0, ""),
        ({"AWS_ENDPOINT_URL_STS": "", "AWS_ENDPOINT_URL_FSX": " "}, 0, ""),
        ({"AWS_ENDPOINT_URL_FSX": "ftp://x"}, 2, "AWS_ENDPOINT_URL_FSX: `ftp://x` is not an endpoint"),
        ({"AWS_ENDPOINT_URL": ":::"}, 2, "AWS_ENDPOINT_URL: `:::` is not an endpoint"),
        ({"AWS_MAX_ATTEMPTS": "0"}, 2, "AWS_MAX_ATTEMPTS: `0`"),
        ({"AWS_MAX_ATTEMPTS": "-1"}, 2, "AWS_MAX_ATTEMPTS: `-1`"),
        ({"AWS_MAX_ATTEMPTS": "x"}, 2, "AWS_MAX_ATTEMPTS: `x`"),
        ({"AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST\n", "AWS_SECRET_ACCESS_KEY": "test\n"}, 0, ""),
        ({"AWS_SESSION_TOKEN": "one\n"}, 0, ""),
        ({"AWS_SESSION_TOKEN": "one\ntwo"}, 6, "the session token contains a line break"),
        ({"AWS_ACCESS_KEY_ID": "AKIA\nTEST"}, 6, "the access key ID contains a line break"),
    ],
)
def test_variables_of_ci(account, variables, code, words):
    run = Run(account, Example("starter"))
    done = run.trainc("plan", environment=variables)
    assert done.code == code, done
    assert words in re.sub(r"\s+", " ", done.out + done.err), done


@pytest.mark.parametrize(
    "name, verb",
    [
        ("SIGINT", ("apply", "--yes")),
        ("SIGTERM", ("apply", "--yes")),
        ("SIGHUP", ("apply", "--yes")),
        ("SIGTERM", ("watch",)),
        ("SIGHUP", ("logs", "--follow")),
        ("SIGTERM", ("destroy", "--yes")),
    ],
)
def test_a_signal_leaves_what_exists_and_says_that_it_is_billed(account, name, verb):
    run = Run(account, Example("starter"))
    account.settings(job_steps=["Training"] * 100_000)
    if verb[0] != "apply":
        assert run.apply().code == 0
    before = account.state()
    account.admin("forget")
    account.faults({"where": {"apply": "iam:CreateRole", "destroy": "sagemaker:StopTrainingJob"}.get(verb[0], "-"), "do": "hang"})
    process = run.start(*verb, environment={"TRAINC_POLL_SECONDS": "0.05"})
    awaited = {"apply": "iam:CreateRole", "destroy": "sagemaker:StopTrainingJob"}.get(verb[0], "sagemaker:DescribeTrainingJob")
    deadline = time.monotonic() + 120
    while awaited not in account.calls():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(getattr(signal, name))
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 5, (process.returncode, out)
    assert "existing resources remain and are billed" in out, out
    if verb[0] != "apply":
        after = account.state()
        assert (after["roles"], after["objects"], len(after["jobs"])) == (
            before["roles"], before["objects"], len(before["jobs"])
        )
