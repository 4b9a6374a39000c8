"""The script that trainc starts before a program: its brake decides as trainc does, and it leaves the program as it is."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import types

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "templates/source/start.py"
CASES = json.loads((ROOT / "crates/trainc-apply/testdata/brake.json").read_text())["cases"]

_spec = importlib.util.spec_from_file_location("trainc_start", SCRIPT)
start = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(start)


def brake_of(limits):
    names = ("steps", "step_seconds", "measured", "slowest", "window", "usd_per_hour", "hard_usd")
    return start.Brake(0.0, *(limits.get(name) for name in names))


def replay(case):
    """Returns the reason to stop a run, and the shares of the plan that are only reported."""
    now, step, brake, behind = float(case["begins"]), 0.0, brake_of(case["limits"]), []
    for entry in case["logged"]:
        if entry[0] == "pause":
            now += entry[1]
        elif entry[0] == "hang":
            now += entry[1]
            why = brake.too_long(now)
            assert (why is None) == (brake.seconds_left(now) is None or brake.seconds_left(now) >= 0)
            if why:
                return why, behind
        elif entry[0] == "resume":
            step = entry[1]
        else:
            for _ in range(entry[0]):
                now += entry[1] * entry[2]
                step += entry[1]
                why = brake.observe(now, step)
                if why and why["reason"] == "behind":
                    behind.append(why["share"])
                elif why:
                    return why, behind
    return None, behind


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"].split(":")[0])
def test_decisions_are_those_of_trainc(case):
    (found, behind), expected = replay(case), case["stop"]
    assert (found is None) == (expected is None)
    assert behind == ([pytest.approx(case["behind"], rel=1e-3)] if "behind" in case else [])
    for key, value in (expected or {}).items():
        assert found[key] == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value)


def simulate(seed, slower, hard_share):
    source = random.Random(seed)
    steps, planned = source.randint(600, 2000), source.uniform(0.2, 10)
    every, pause = source.randint(25, 400), source.uniform(0, 120)
    widths = [0.18 if source.random() < 0.1 else 0.04 for _ in range(steps)]
    times = [planned * slower * max(1 + source.gauss(0, width), 0.2) for width in widths]
    usd = (sum(times) + steps // every * pause) / 36
    brake = start.Brake(0.0, steps, planned, True, 0.7, 50, 100.0, hard_share * usd)
    now = 0.0
    for step, seconds in enumerate(times, 1):
        now += seconds + (pause if step % every == 0 else 0)
        why = brake.observe(now, step)
        if why:
            return why["reason"]
    return None


def test_healthy_runs_are_never_stopped():
    assert [simulate(seed, 1.0, 1.01) for seed in range(300)] == [None] * 300


def test_slow_and_expensive_runs_are_stopped():
    assert [simulate(seed, 1 / 0.6, 9.0) for seed in range(200)] == ["slow"] * 200
    assert [simulate(seed, 1.0, 0.8) for seed in range(200)] == ["budget"] * 200


PROGRAM = """
import os, signal, subprocess, sys, time
asked = 0
def save(*_):
    global asked
    asked += 1
    print("asked", asked, flush=True)
    if asked < int(os.environ.get("ASKS", "1")):
        return
    time.sleep(0.3 + float(os.environ.get("SAVES", "0")) * int(os.environ.get("RANK", "0")))
    open(os.environ["SAVED"] + os.environ.get("RANK", "0"), "w").write("saved")
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("arguments", *sys.argv[1:], flush=True)
for step in range(1, int(os.environ["STEPS"]) + 1):
    if os.path.exists(os.environ["FINISH"]):
        break
    time.sleep(0.01)
    if os.environ.get("RANK", "0") == os.environ.get("PRINTS", "0"):
        print(os.environ.get("FORM", "step=%d loss=2.5") % step, file=sys.stderr, flush=True)
if os.environ.get("HANGS"):
    while True:
        time.sleep(0.1)
if os.environ.get("LEAVES"):
    # Holds the pipes open for a while.
    subprocess.Popen(["sleep", os.environ["LEAVES"]])
    print("ended", flush=True)
if os.environ.get("END") == "fail":
    sys.exit(7)
if os.environ.get("END") == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""
# However busy the machine is, a step takes this time by the brake's clock, and four times as long after SLOWS steps. Where a
# test says when time passes, an hour passes with `run.pass_time()`.
CLOCK = """
STEP_SECONDS = 0.01


def clock(step):
    return BEGIN + STEP_SECONDS * (step + 3 * max(step - float(os.environ.get("SLOWS", "inf")), 0))


def price_clock():
    passed = os.environ.get("PASSED")
    return BEGIN + 3600 * os.path.exists(passed) if passed else time.monotonic()
"""
OBSERVE = "self.brake.observe(now, step)"
WATCH = "now = time.monotonic()\n            found = self.brake.too_long(now)"
KEY = "0123456789abcdef" * 4
# Seconds after which a test fails that waits for something: far more than a busy machine needs.
LONG = 120


def events(outs, kind):
    lines = [json.loads(line) for out in outs for line in out.splitlines() if line.startswith('{"trainc_brake"')]
    return [line for line in lines if line["trainc_brake"] == kind]


def hub_of(port):
    """The port by which the ranks of a job with that MASTER_PORT find each other."""
    return port + 212


@pytest.fixture
def free_port():
    """Returns `free_port()`, a port whose hub nobody else is given while the test runs."""
    with contextlib.ExitStack() as held:

        def reserve():
            while True:
                port = random.SystemRandom().randint(1024, 64000)
                # Bound and not listening: the kernel gives the port to nobody, and the hub, which may reuse it, listens.
                hub = held.enter_context(socket.socket())
                hub.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with contextlib.suppress(OSError):
                    hub.bind(("127.0.0.1", hub_of(port)))
                    return port

        yield reserve


@pytest.fixture
def job(tmp_path, free_port):
    text = SCRIPT.read_text()
    assert [text.count(part) for part in ("\nBLIND = 900\n", OBSERVE, WATCH)] == [1, 1, 1]
    text = text.replace("\nBLIND = 900\n", f"\nBLIND = float(os.environ.get('BLIND', '4'))\n{CLOCK}")
    text = text.replace(OBSERVE, "self.brake.observe(clock(step), step)")
    text = text.replace(WATCH, WATCH.replace("time.monotonic()", "price_clock()"))
    (tmp_path / "trainc_start.py").write_text(text)
    (tmp_path / "train.py").write_text(PROGRAM)

    def run(brake=None, plan=None, ranks=1, after=None, key=KEY, **variables):
        """Starts the ranks, the others once the first has printed `after`. A program runs until its steps are done, or
        until `run.finish()`."""
        (tmp_path / "rendezvous.key").write_text(f"{key}\n")
        brake = brake and dict(brake, key=str(tmp_path / "rendezvous.key") if key else "/nowhere")
        settings = {"entry": "train.py", "command": [], "secrets": {}, "processes": 1, "probe": None, "brake": brake}
        (tmp_path / "trainc_start.json").write_text(json.dumps(settings))
        env = dict(os.environ, SAVED=str(tmp_path / "saved-"), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        env.update(STEPS="100000", FINISH=str(tmp_path / "finish"))
        env.update((name, str(value)) for name, value in variables.items())
        env.pop("TRAINC_PLAN", None)
        if plan:
            env["TRAINC_PLAN"] = json.dumps(plan)
        running = []
        for rank in range(ranks):
            if ranks > 1:
                env.update(RANK=str(rank), WORLD_SIZE=str(ranks))
                env.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks))
            if rank and after:
                read_until(running[0].stdout, after)
            command = [sys.executable, "trainc_start.py", "--lr", "a b"]
            running.append(subprocess.Popen(command, cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True))
        return running

    run.path, run.finish = tmp_path, (tmp_path / "finish").touch
    run.passed = tmp_path / "passed"
    run.pass_time = run.passed.touch
    return run


def test_the_figures_are_those_of_the_instance_type_that_runs(tmp_path, monkeypatch):
    resources = tmp_path / "resourceconfig.json"
    monkeypatch.setattr(start, "RESOURCES", str(resources))
    further = {"step_seconds": 2.0, "usd_per_hour": None}
    monkeypatch.setenv("TRAINC_PLAN_TYPES", json.dumps({"ml.p4d.24xlarge": further}))
    assert start.figures_of_type() == {}
    for instance, figures in (("ml.p5.48xlarge", {}), ("ml.p4d.24xlarge", further)):
        resources.write_text(json.dumps({"current_host": "algo-1", "current_instance_type": instance}))
        assert start.figures_of_type() == figures
    monkeypatch.delenv("TRAINC_PLAN_TYPES")
    assert start.figures_of_type() == {}


BRAKE = {"hard_usd": None, "slowest": 0.7, "window": 50, "steps": 200, "patterns": [r"step=(\d+)"]}


def test_a_program_without_brake_runs_as_it_is(job):
    (process,) = job(END="fail", STEPS=1)
    out, _ = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (7, "arguments --lr a b\n")


@pytest.mark.parametrize("end, code", [("", 0), ("fail", 7), ("kill", -signal.SIGKILL)])
def test_a_watched_program_ends_as_it_would(job, end, code):
    (process,) = job(BRAKE, {"step_seconds": 0.012, "measured": True}, STEPS=60, END=end)
    out, err = process.communicate(timeout=LONG)
    assert process.returncode == code
    assert "arguments --lr a b" in out and "step=60" in err and '"stop"' not in out


def test_a_slow_program_is_stopped_with_a_checkpoint_on_every_rank(job):
    running = job(BRAKE, {"step_seconds": 0.004, "measured": True}, ranks=3)
    outs = [process.communicate(timeout=LONG)[0] for process in running]
    assert [process.returncode for process in running] == [8, 8, 8]
    assert len(list(job.path.glob("saved-*"))) == 3
    stops = [json.loads(line) for out in outs for line in out.splitlines() if '"stop"' in line]
    assert len(stops) == 1 and stops[0]["reason"] == "slow" and stops[0]["text"].startswith("T0681 ")


def test_a_rank_that_connects_after_the_stop_is_stopped(job):
    running = job(BRAKE, {"step_seconds": 0.004, "measured": True}, ranks=2, after='"stop"')
    for process in running:
        process.communicate(timeout=LONG)
    assert [process.returncode for process in running] == [8, 8]


def test_a_run_is_compared_with_its_own_first_steps(job):
    """The plan of this run is wrong by far, and nobody has measured its setting."""
    running = job(BRAKE, {"step_seconds": 0.001}, ranks=2, SLOWS=120)
    outs = [process.communicate(timeout=LONG)[0] for process in running]
    assert [process.returncode for process in running] == [8, 8]
    (behind,), (stop,) = events(outs, "report"), events(outs, "stop")
    assert behind["than"] == "plan" and "of the plan over" in behind["text"] and "T0681" not in behind["text"]
    assert stop["than"] == "start" and stop["at"] > 120 and "of the run's first steps" in stop["text"]


# $1 after 3 s.
COSTS = {"usd_per_hour": 1200.0}
HARD = {"hard_usd": 1.0, "slowest": None, "window": 50, "steps": 100_000, "patterns": [r"step=(\d+)"]}


@pytest.mark.parametrize(
    "kind",
    [{"STEPS": 0, "HANGS": 1}, {"FORM": "at %d"}, {"PRINTS": 9}],
    ids=["no output", "another form", "another rank"],
)
def test_time_and_price_alone_stop_a_program(job, kind):
    begin = time.monotonic()
    (process,) = job(HARD, COSTS, **kind)
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 8 and time.monotonic() - begin > 3
    (stop,) = events([out], "stop")
    assert stop["usd"] > 1.0 and stop["at"] is None


def test_time_and_price_stop_a_program_that_hangs(job):
    (process,) = job(HARD, COSTS, STEPS=30, HANGS=1, PASSED=job.passed)
    read_until(process.stderr, "step=30 ")
    job.pass_time()
    out, _ = process.communicate(timeout=LONG)
    (stop,) = events([out], "stop")
    # The script passes a line on before it reads it.
    assert process.returncode == 8 and stop["usd"] > 1.0 and 0 < stop["at"] <= 30


def test_a_program_that_ends_before_its_stop_is_said_waits_for_it(job):
    script = job.path / "trainc_start.py"
    tell = '        reached = self.links.tell("stop", why)\n'
    assert script.read_text().count(tell) == 1
    # The thread that stops the program goes on when the script waits for it: without that, never.
    until_awaited = "        while not self.said._cond._waiters:\n            time.sleep(0.01)\n"
    script.write_text(script.read_text().replace(tell, until_awaited + tell))
    (process,) = job(HARD, COSTS, STEPS=0, HANGS=1, PASSED=job.passed)
    read_until(process.stdout, "arguments")
    job.pass_time()
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 8 and (job.path / "saved-0").exists()
    assert len(events([out], "stop")) == 1


def test_a_line_of_the_script_is_none_of_the_program(capfd):
    """The program's text comes in pieces: `print` of an unbuffered Python writes each of its arguments by itself."""
    for pieces, begins in (([], ""), ([b"asked 1\n"], "asked 1\n"), ([b"asked", b" "], "asked \n"), ([b"50 %\r"], "50 %\r\n")):
        output = start.Output()
        for piece in pieces:
            output.pass_on(piece)
        output.line("said")
        output.line("again")
        output.pass_on(b"more\n")
        assert os.linesep == "\n" and capfd.readouterr().out == f"{begins}said\nagain\nmore\n"


def test_a_clock_that_is_set_changes_nothing():
    assert "time.time(" not in SCRIPT.read_text()


def test_without_a_key_nothing_listens_and_each_rank_stops_by_its_clock(job):
    # The ranks save for different times, and none is ended by another's end.
    brake, plan = dict(HARD, slowest=0.7), dict(COSTS, step_seconds=0.001, measured=True)
    running = job(brake, plan, ranks=3, key=None, SAVES=1, PASSED=job.passed)
    wait_for_programs(running)
    # Both limits have been passed by then.
    read_until(running[0].stderr, "step=100 ")
    assert [listeners(process.pid) for process in running] == [[], [], []]
    job.pass_time()
    outs = [running[0].communicate(timeout=LONG)[0]]
    # The first rank saves for the shortest time.
    assert len(list(job.path.glob("saved-*"))) == 3
    outs += [process.communicate(timeout=LONG)[0] for process in running[1:]]
    assert [process.returncode for process in running] == [8, 8, 8]
    (stop,), reports, (on,) = events(outs, "stop"), events(outs, "report"), events(outs, "on")
    assert stop["reason"] == "budget" and [report["reason"] for report in reports] == ["slow", "budget"]
    assert all(report["text"].endswith("not stopped: its hosts have no key (FileNotFoundError)") for report in reports)
    assert list(on["off"]) == ["slowest"]


@pytest.mark.parametrize("text", ["", KEY[1:], KEY.replace("0", "g"), KEY + "00", "\0" * 64])
def test_a_key_that_is_none_is_not_used(tmp_path, text):
    (tmp_path / "key").write_text(text)
    key, why = start.read_key(str(tmp_path / "key"))
    assert key is None and why and KEY[2:] not in why


def test_the_key_of_a_job_without_a_channel_lies_next_to_its_archive(tmp_path, monkeypatch):
    asked = []

    class Client:
        def get_object(self, **members):
            asked.append(members)
            return {"Body": io.BytesIO(f"{KEY}\n".encode())}

    boto3 = types.SimpleNamespace(client=lambda service, region_name, config: asked.append(region_name) or Client())
    monkeypatch.setitem(sys.modules, "boto3", boto3)
    monkeypatch.setitem(sys.modules, "botocore.config", types.SimpleNamespace(Config=dict))
    texts = {"sagemaker_submit_directory": "s3://bucket/trainc/a/source/0123/sourcedir.tar.gz", "sagemaker_region": "eu-west-1"}
    (tmp_path / "hyperparameters.json").write_text(json.dumps({key: json.dumps(text) for key, text in texts.items()}))
    monkeypatch.setattr(start, "HYPERPARAMETERS", str(tmp_path / "hyperparameters.json"))
    assert start.read_key(None) == (bytes.fromhex(KEY), None)
    assert asked == ["eu-west-1", {"Bucket": "bucket", "Key": "trainc/a/source/0123/rendezvous.key"}]


def test_a_port_in_use_leaves_the_program_and_its_budget(job, free_port):
    port = free_port()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", hub_of(port)))
        other.listen()
        (process,) = job(dict(HARD, slowest=0.7), COSTS, RANK=0, WORLD_SIZE=2, MASTER_PORT=port)
        out, _ = process.communicate(timeout=LONG)
    (on,), (stop,) = events([out], "on"), events([out], "stop")
    assert process.returncode == 8 and f"port {hub_of(port)}" in on["off"]["slowest"] and stop["reason"] == "budget"


def listeners(pid):
    """Returns the addresses and ports at which a process listens."""
    links = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            pass
    rows = [row.split() for name in ("tcp", "tcp6") for row in open(f"/proc/net/{name}").readlines()[1:]]
    rows = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links]
    decode = lambda text: socket.inet_ntoa(bytes.fromhex(text)[::-1]) if len(text) == 8 else text
    return [(decode(host), int(port, 16)) for host, port in (row.rsplit(":", 1) for row in rows)]


def wait_for(found):
    end = time.monotonic() + LONG
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


def read_until(lines, words):
    """Takes lines until one has the words. The lines behind it may be lost."""
    assert any(words in line for line in lines), words


def wait_for_programs(running):
    """Waits until the programs of all ranks run. The first rank says on standard output what tests read, so that its steps
    are waited for, which nobody else prints."""
    first, *others = running
    read_until(first.stderr, "step=")
    for process in others:
        read_until(process.stdout, "arguments")


def test_the_first_rank_listens_at_the_address_of_the_job_alone(job, tmp_path, monkeypatch):
    running = job(BRAKE, {}, ranks=2)
    ((host, port),) = wait_for(lambda: listeners(running[0].pid))
    assert host == "127.0.0.1" and listeners(running[1].pid) == []
    job.finish()
    for process in running:
        process.communicate(timeout=LONG)
    (tmp_path / "resources").write_text(json.dumps({"network_interface_name": "lo"}))
    monkeypatch.setattr(start, "RESOURCES", str(tmp_path / "resources"))
    variables = {"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "SM_HOSTS": '["algo-1", "algo-2"]'}
    for name, value in dict(variables, SM_CURRENT_HOST="algo-1", MASTER_PORT="65500", MASTER_ADDR="algo-1").items():
        monkeypatch.setenv(name, value)
    place = start.Place(8)
    # Of the interface, not of the name, which this machine does not have.
    assert place.address() == "127.0.0.1" and place.first_address() == "algo-1" and 0 < place.port < 65535
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    assert start.Place(8).first_address() == "127.0.0.1"


STOP = {"reason": "slow", "at": 1, "over": 1, "share": 0.1, "than": "start"}
STRANGERS = {
    "nothing": [],
    "a line": [b'stop {"reason":"slow","at":1,"over":1,"share":0.1}\n'],
    "megabytes": [b"a" * (1 << 22)],
    "zeros": [b"\0" * 1000],
    "a hello of a rank, then a wrong proof, then a stop": [
        start.hello_of(1) + b"n" * 32,
        b"p" * 32,
        b"0" * 64 + json.dumps(["stop", STOP]).encode() + b"\n",
    ],
    "a hello of the first rank": [start.hello_of(0) + b"n" * 32],
    "a hello of a rank that no job has": [start.hello_of(1 << 31) + b"n" * 32],
    "byte by byte": [bytes([byte]) for byte in start.hello_of(1) + b"n" * 32],
}


def attack(port, parts):
    """Sends the parts. Returns the connection, which stays open."""
    stranger = socket.create_connection(("127.0.0.1", port), timeout=LONG)
    try:
        for part in parts:
            stranger.sendall(part)
            time.sleep(0.01)
    except OSError:
        # Closed by the other side.
        pass
    return stranger


@pytest.mark.parametrize("term", [False, True], ids=["ends well", "is asked to save"])
def test_strangers_change_nothing(job, term):
    running = job(BRAKE, {"step_seconds": 100.0, "measured": True}, ranks=2)
    ((_, port),) = wait_for(lambda: listeners(running[0].pid))
    strangers = [attack(port, parts) for parts in STRANGERS.values() for _ in range(3)]
    if term:
        wait_for_programs(running)
        for process in running:
            process.send_signal(signal.SIGTERM)
    else:
        job.finish()
    outs = [process.communicate(timeout=LONG)[0] for process in running]
    assert [process.returncode for process in running] == ([75, 75] if term else [0, 0])
    assert events(outs, "stop") == []
    assert len(list(job.path.glob("saved-*"))) == (2 if term else 0)
    for stranger in strangers:
        stranger.close()


def test_ranks_find_each_other_among_strangers_who_say_nothing(job):
    """The second rank connects when more strangers wait than are kept."""
    running = job(BRAKE, {}, ranks=1, RANK=0, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, PRINTS=9)
    ((_, port),) = wait_for(lambda: listeners(running[0].pid))
    strangers = [attack(port, STRANGERS["nothing"]) for _ in range(3 * start.PENDING)]
    second = connect(port)
    assert second.send(["stop", STOP])
    # The first rank tells it to all, then waits for it.
    assert second.receive() == [("stop", STOP)]
    # A stranger who says nothing is closed when its time is over.
    assert strangers[-1].recv(1) == b""
    assert second.send(["done", None])
    assert running[0].communicate(timeout=LONG) and running[0].returncode == 8


def connect(port, rank=1, world=2):
    """Connects as a rank does, which tries again when the first rank was too busy for it."""

    def tried():
        with contextlib.suppress(OSError, ValueError):
            return start.Channel.connect(("127.0.0.1", port), rank, world, bytes.fromhex(KEY))

    channel = wait_for(tried)
    channel.sock.settimeout(LONG)
    return channel


def second_of(job, **variables):
    """Starts the first of two ranks. Returns its process and a connection of the second one."""
    settings = {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, **variables}
    (process,) = job(BRAKE, {}, **settings)
    ((_, port),) = wait_for(lambda: listeners(process.pid))
    return process, connect(port), port


def signed(channel, text):
    line = start.mac(channel.out, struct.pack("<Q", channel.sent), text).hex().encode() + text + b"\n"
    channel.sent += 1
    return line


NO_MESSAGES = [
    "stop x",
    "1",
    "[]",
    '["stop"]',
    '["stop", {}]',
    '["stop", {"reason": "x"}]',
    '["stop", {"reason": ["slow"]}]',
    '["seen", 1]',
    '["end", null]',
    '[["stop"], null]',
    "[" * 2000,
    json.dumps(["stop", dict(STOP, share="0.1")]),
    json.dumps(["stop", dict(STOP, share=True)]),
    json.dumps(["stop", dict(STOP, share=float("nan"))]),
    json.dumps(["stop", dict(STOP, at=float("inf"))]),
    json.dumps(["stop", dict(STOP, over=-1)]),
    json.dumps(["stop", dict(STOP, over=10**400)]),
    json.dumps(["stop", dict(STOP, than="x")]),
    json.dumps(["stop", dict(STOP, than=[])]),
    json.dumps(["stop", dict(STOP, text="x")]),
    json.dumps(["stop", {"reason": "budget", "at": "1", "usd": 1, "hard_usd": 1}]),
    json.dumps(["stop", {"reason": "slow", "at": 1, "usd": 1, "hard_usd": 1}]),
]


def test_a_message_is_taken_whole_or_costs_its_sender_the_connection(job):
    """Even of one who knows the key."""
    process, second, port = second_of(job)
    for text in NO_MESSAGES:
        second.sock.sendall(signed(second, text.encode()))
        with pytest.raises((ValueError, OSError)):
            second.receive()
        second = connect(port)
    # A line without an end, and one without a number.
    for line in (b"a" * 3 * start.LONGEST, b"\n", b"0" * 64 + b'["seen", null]\n'):
        second.sock.sendall(line)
        with pytest.raises((ValueError, OSError)):
            second.receive()
        second = connect(port)
    job.finish()
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0 and events([out], "stop") == []


def test_nothing_can_be_repeated(job):
    process, second, port = second_of(job)
    # On the same connection: a line has a number.
    line = signed(second, b'["seen", null]')
    second.sock.sendall(line + line)
    with pytest.raises((ValueError, OSError)):
        second.receive()
    # On another one: the proof is of the other side's nonce, too. A relay records both sides.
    relay = socket.create_server(("127.0.0.1", 0))
    sent = []

    def carry():
        there, here = socket.create_connection(("127.0.0.1", port)), relay.accept()[0]
        for giver, taker, count in ((here, there, 48), (there, here, 32), (here, there, 32), (there, here, 32)):
            data = start.receive_exactly(giver, count, time.monotonic() + LONG)
            sent.extend([data] if giver is here else [])
            taker.sendall(data)
        sent.append(here.recv(4096))

    thread = threading.Thread(target=carry)
    thread.start()
    recorded = start.Channel.connect(relay.getsockname(), 1, 2, bytes.fromhex(KEY))
    recorded.send(["stop", STOP])
    thread.join()
    assert len(sent) == 3
    with attack(port, sent) as stranger:
        # Its nonce, and nothing after it.
        answer = b""
        try:
            while read := stranger.recv(64):
                answer += read
        except ConnectionResetError:
            pass
        assert len(answer) <= 32
    job.finish()
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0 and events([out], "stop") == []


@pytest.mark.parametrize("key, world", [("f" * 64, 2), (KEY, 3)])
def test_another_key_or_job_does_not_connect(job, key, world):
    process, second, port = second_of(job)
    with pytest.raises((ValueError, OSError)):
        start.Channel.connect(("127.0.0.1", port), 1, world, bytes.fromhex(key))
    job.finish()
    process.communicate(timeout=LONG)
    assert process.returncode == 0


def test_a_rank_trusts_no_other_host(job, free_port):
    """A stranger who listens in place of the first rank."""
    port = free_port()
    with socket.create_server(("127.0.0.1", hub_of(port))) as hub:
        (process,) = job(BRAKE, {}, RANK=1, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_PORT=port)
        peer, _ = hub.accept()
        with peer:
            assert len(start.receive_exactly(peer, 48, time.monotonic() + LONG)) == 48
            peer.sendall(b"n" * 64 + b'stop {"reason": "slow"}\n')
            # Its proof, and the end of the connection: it may be reset, since the line was not read.
            with contextlib.suppress(ConnectionResetError):
                while peer.recv(64):
                    pass
        job.finish()
        out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0 and events([out], "stop") == []


def test_a_program_that_has_ended_is_not_stopped(job):
    process, second, _ = second_of(job, STEPS=1, LEAVES=3)
    read_until(process.stdout, "ended")
    # The script has seen the end of its program.
    wait_for(lambda: not pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    second.send(["stop", STOP])
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0 and events([out], "stop") == []


def test_a_rank_that_never_connects_is_not_waited_for(job):
    """Nor does a rank keep the others waiting by leaving."""
    text = (job.path / "trainc_start.py").read_text()
    (job.path / "trainc_start.py").write_text(text.replace("\nJOIN = 60\n", "\nJOIN = 1\n"))
    (process,) = job(BRAKE, {}, RANK=0, WORLD_SIZE=9, LOCAL_WORLD_SIZE=9)
    ((_, port),) = wait_for(lambda: listeners(process.pid))
    peers = [connect(port, rank, 9) for rank in (1, 2)]
    peers[0].send(["stop", STOP])
    peers[0].send(["done", None])
    peers[1].sock.close()
    # Far less than the time that the others have to save.
    process.communicate(timeout=LONG)
    assert process.returncode == 8


def test_signals_reach_a_program_that_is_stopped_already(job):
    """A spot interruption leaves less time than the brake."""
    process, second, _ = second_of(job, ASKS=2)
    read_until(process.stdout, "arguments")
    second.send(["stop", STOP])
    read_until(process.stdout, "asked 1")
    process.send_signal(signal.SIGTERM)
    second.send(["done", None])
    out, _ = process.communicate(timeout=LONG)
    assert "asked 2" in out and process.returncode == 8


def test_a_program_that_passes_its_budget_is_stopped(job):
    brake = dict(BRAKE, slowest=None, hard_usd=1.0, steps=100000)
    (process,) = job(brake, {"usd_per_hour": 100.0})
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 8 and '"reason": "budget"' in out


def test_a_program_without_steps_is_reported_once(job):
    first, second = job(BRAKE, {"step_seconds": 1.0}, ranks=2, PRINTS=9)
    read_until(first.stdout, '"blind"')
    job.finish()
    outs = [first.stdout.read(), second.communicate(timeout=LONG)[0]]
    assert [first.wait(timeout=LONG), second.returncode] == [0, 0]
    assert events(outs, "blind") == []


@pytest.mark.parametrize("prints", [0, 1])
def test_one_rank_that_prints_steps_is_enough(job, prints):
    # In this time the second rank is seen, and for longer the program runs.
    process, second, _ = second_of(job, BLIND=12, STEPS=1300, PRINTS=prints)
    if prints == 1:
        second.send(["seen", None])
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 0 and events([out], "blind") == []


@pytest.mark.parametrize(
    "plan, steps, off",
    [
        ({"step_seconds": 1.0, "usd_per_hour": 1.0}, 200, []),
        ({"step_seconds": 1.0}, 200, ["hard_usd"]),
        ({"step_seconds": 1.0, "usd_per_hour": 1.0}, None, []),
        ({"usd_per_hour": 1.0}, 200, []),
        (None, 200, ["hard_usd"]),
    ],
)
def test_limits_that_cannot_be_checked_are_said(job, plan, steps, off):
    (process,) = job(dict(BRAKE, hard_usd=5.0, steps=steps), plan, STEPS=1)
    (on,) = events([process.communicate(timeout=LONG)[0]], "on")
    assert list(on["off"]) == off and "key" not in on


@pytest.mark.parametrize(
    "why, text",
    [
        (dict(STOP, at=70.0, over=50.0, share=0.6, than="plan"), "60 % of the plan over 50 steps, up to step 70;"),
        (dict(STOP, at=70.0, over=50.0, share=0.6), "60 % of the run's first steps over 50 steps, up to step 70;"),
        ({"reason": "budget", "at": None, "usd": 2.0, "hard_usd": 1}, "the budget is $1.00 (before its first step);"),
        ({"reason": "budget", "at": 31.0, "usd": 0.0012, "hard_usd": 0.001}, "$0.0012; the budget is $0.0010 (step 31);"),
        ({"reason": "budget", "at": 31.0, "usd": 0.012, "hard_usd": 0.004}, "$0.012; the budget is $0.004 (step 31);"),
        ({"reason": "budget", "at": 31.0, "usd": 5123.4, "hard_usd": 5000}, "$5,123.40; the budget is $5,000.00 (step 31);"),
    ],
)
def test_a_stop_is_described_with_whole_steps_and_enough_digits(why, text):
    assert text in start.describe_stop(start.checked_stop(why), "algo-1")


def test_signals_reach_the_program(job):
    (process,) = job(BRAKE, {"step_seconds": 1.0})
    process.stdout.readline()
    assert process.stdout.readline().startswith("arguments")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=LONG) == 75


def test_without_planned_figures_the_run_is_compared_with_itself(job):
    (process,) = job(BRAKE, SLOWS=120)
    out, _ = process.communicate(timeout=LONG)
    assert process.returncode == 8 and '"than": "start"' in out


@pytest.mark.parametrize(
    "line, step",
    [
        ("step=12 loss=2.5", "12"),
        ("Step 12/1000", "12"),
        ('{"step": 12, "loss": 2.5}', "12"),
        ("global_step: 12", "12"),
        ("footstep 12, steps: 3", None),
    ],
)
def test_the_default_expression_finds_steps_in_common_forms(line, step):
    rust = (ROOT / "crates/trainc-emit/src/start.rs").read_text()
    pattern = re.search(r'const STEP: &str = r#"(.*)"#;', rust)[1]
    found = re.search(pattern, line)
    assert (found and found.group(1)) == step


@pytest.mark.parametrize(
    "line, step",
    [
        (" 12%|█▏        | 120/1000 [00:10<01:10, 12.0it/s]", "120"),
        ("  0%|          | 0/1000 [00:00<?, ?it/s]", "0"),
        ("Map: 12%|█▏        | 120/5000 [00:10<00:40, 12.0 examples/s]", None),
        ("Loading checkpoint shards:  33%|███▎      | 1/3 [00:01<00:02]", None),
        ("Map: 12%|█▏        | 120/10000 [00:10<00:40]", None),
    ],
)
def test_the_expression_of_progress_bars_finds_those_of_all_steps(line, step):
    rust = (ROOT / "crates/trainc-emit/src/start.rs").read_text()
    pattern = re.search(r'const BAR: &str = r"(.*)";', rust)[1].replace("STEPS", "1000")
    found = re.search(pattern, line)
    assert (found and found.group(1)) == step


PYTHON = os.environ.get("TRAINC_TORCH_PYTHON")
PROBE = SCRIPT.with_name("probe.py")
WORK = {
    "dtype": "bf16",
    "hidden": 512,
    "heads": 8,
    "kv_heads": 8,
    "head_dim": 64,
    "ffn": 2048,
    "ffn_matrices": 2,
    "is_causal": True,
    "sequence_length": 1024,
    "sequences": 4,
    "products": [[4096, 512, 1536], [4096, 2048, 512]],
    "collectives": [
        {"operation": "all_gather", "axis": "shard", "bytes": 1 << 24, "constant": "links.fabric"},
        {"operation": "all_reduce", "axis": "replica", "bytes": 1 << 22, "constant": "links.fabric"},
    ],
    "order": [["replica", 2], ["shard", 8]],
    "checkpoint_bytes_per_node": 1 << 24,
}
# As predicted for an accelerator: these processes are slower by orders of magnitude.
PLANNED = {
    "step_seconds": 0.01,
    "compute_seconds": 0.008,
    "communication_seconds": 0.001,
    "product_seconds": 2e-5,
    "attention_seconds": 2e-5,
    "collective_seconds": [1e-4, 1e-4],
    "constants": {"gpu.A100.gemm": 0.85, "gpu.A100.flash": 0.43, "links.fabric": 0.83},
}
# Makes the products of one rank slower, as a throttled GPU is.
SLOWED = """
import os, runpy, sys, time, torch
product = torch.matmul
def slow(a, b):
    time.sleep(0.01)
    return product(a, b)
if os.environ["RANK"] == "2":
    torch.matmul = slow
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@pytest.mark.skipif(PYTHON is None, reason="TRAINC_TORCH_PYTHON names no Python with PyTorch")
@pytest.mark.parametrize("kind", ["healthy", "slow node", "planned for a GPU"])
def test_the_probe_measures_four_processes(tmp_path, free_port, kind):
    minimum = None if kind == "healthy" else 0.5
    settings = {
        "work": WORK,
        "probe": {"minimum": minimum},
        "channels": {"train": str(ROOT / "schemas")},
        "checkpoint": str(tmp_path / "checkpoints"),
    }
    (tmp_path / "trainc_start.json").write_text(json.dumps(settings))
    (tmp_path / "trainc_probe.py").write_text(PROBE.read_text())
    (tmp_path / "slowed.py").write_text(SLOWED)
    script = [str(tmp_path / "slowed.py")] if kind == "slow node" else []
    env = dict(os.environ, WORLD_SIZE="4", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1")
    env.update(MASTER_PORT=str(free_port()))
    env["TRAINC_PLAN"] = "{}" if kind == "slow node" else json.dumps(PLANNED)
    running = [
        subprocess.Popen(
            [PYTHON, *script, str(tmp_path / "trainc_probe.py")],
            env=dict(env, RANK=str(rank), TRAINC_HOST=f"algo-{rank + 1}"),
            stdout=-1,
            text=True,
        )
        for rank in range(4)
    ]
    out = "".join(process.communicate(timeout=180)[0] for process in running)
    codes = {process.returncode for process in running}
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    last = next(line for line in lines if line["trainc_probe"] in ("done", "ended"))
    assert last["seconds"] < LONG
    kinds = {line["trainc_probe"] for line in lines}
    assert {"begin", "product", "attention", "layer", "memory", "collective", "channel", "checkpoint", "node"} <= kinds
    assert not (tmp_path / "checkpoints").exists() or not list((tmp_path / "checkpoints").iterdir())
    if kind == "slow node":
        assert codes == {8} and last["slow_nodes"] == ["algo-3"] and "algo-3" in last["text"]
    else:
        # The rates of CPUs are no constants of a GPU, nor a share of its plan.
        assert codes == {0} and last["trainc_probe"] == "done" and last["share"] is None
        assert "constants" not in kinds
