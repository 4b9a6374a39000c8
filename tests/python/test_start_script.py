"""The script that trainc starts before a program: its brake decides as trainc does, and it leaves the program as it is."""

import importlib.util
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "crates/trainc-emit/templates/source/start.py"
CASES = json.loads((ROOT / "crates/trainc-apply/testdata/brake.json").read_text())["cases"]

_spec = importlib.util.spec_from_file_location("trainc_start", SCRIPT)
start = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(start)


def brake_of(limits):
    names = ("steps", "step_seconds", "slowest", "window", "usd_per_hour", "hard_usd")
    return start.Brake(0.0, *(limits.get(name) for name in names))


def replay(case):
    now, step, brake = float(case["begins"]), 0.0, brake_of(case["limits"])
    for entry in case["logged"]:
        if entry[0] == "pause":
            now += entry[1]
        elif entry[0] == "resume":
            step = entry[1]
        else:
            for _ in range(entry[0]):
                now += entry[1] * entry[2]
                step += entry[1]
                why = brake.observe(now, step)
                if why:
                    return why
    return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"].split(":")[0])
def test_decisions_are_those_of_trainc(case):
    found, expected = replay(case), case["stop"]
    assert (found is None) == (expected is None)
    for key, value in (expected or {}).items():
        assert found[key] == pytest.approx(value, rel=1e-3) if key != "reason" else found[key] == value


def simulate(seed, slower, hard_share):
    source = random.Random(seed)
    steps, planned = source.randint(600, 2000), source.uniform(0.2, 10)
    every, pause = source.randint(25, 400), source.uniform(0, 120)
    widths = [0.18 if source.random() < 0.1 else 0.04 for _ in range(steps)]
    times = [planned * slower * max(1 + source.gauss(0, width), 0.2) for width in widths]
    usd = (sum(times) + steps // every * pause) / 36
    brake = start.Brake(0.0, steps, planned, 0.7, 50, 100.0, hard_share * usd)
    now = 0.0
    for step, seconds in enumerate(times, 1):
        now += seconds + (pause if step % every == 0 else 0)
        why = brake.observe(now, step)
        if why:
            return why["reason"]
    return None


def test_healthy_runs_are_never_stopped():
    assert [simulate(seed, 1.0, 1.01) for seed in range(1000)] == [None] * 1000


def test_slow_and_expensive_runs_are_stopped():
    assert [simulate(seed, 1 / 0.6, 9.0) for seed in range(200)] == ["slow"] * 200
    assert [simulate(seed, 1.0, 0.8) for seed in range(200)] == ["budget"] * 200


PROGRAM = """
import os, signal, sys, time
def save(*_):
    open(os.environ["SAVED"] + os.environ.get("RANK", "0"), "w").write("saved")
    time.sleep(0.3)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("arguments", *sys.argv[1:], flush=True)
for step in range(1, int(os.environ["STEPS"]) + 1):
    time.sleep(float(os.environ["SECONDS"]))
    if os.environ.get("RANK", "0") == os.environ.get("PRINTS", "0"):
        print("step=%d loss=2.5" % step, file=sys.stderr, flush=True)
if os.environ.get("END") == "fail":
    sys.exit(7)
if os.environ.get("END") == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def hub_of(port):
    """The port by which the ranks of a job with that MASTER_PORT find each other."""
    return port + 212


def free_port():
    # Below the ports of outgoing connections, of which other tests open many.
    while True:
        port = random.SystemRandom().randint(20000, 32000)
        with socket.socket() as hub:
            try:
                hub.bind(("", hub_of(port)))
                return port
            except OSError:
                continue


@pytest.fixture
def job(tmp_path):
    text = SCRIPT.read_text()
    assert "\nBLIND = 900\n" in text
    (tmp_path / "trainc_start.py").write_text(text.replace("\nBLIND = 900\n", "\nBLIND = 1\n"))
    (tmp_path / "train.py").write_text(PROGRAM)

    def run(brake=None, plan=None, ranks=1, late=0, **variables):
        settings = {"entry": "train.py", "command": [], "secrets": {}, "processes": 1, "probe": None, "brake": brake}
        (tmp_path / "trainc_start.json").write_text(json.dumps(settings))
        env = dict(os.environ, SAVED=str(tmp_path / "saved-"), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        env.update(STEPS="200", SECONDS="0.01")
        env.update((name, str(value)) for name, value in variables.items())
        env.pop("TRAINC_PLAN", None)
        if plan:
            env["TRAINC_PLAN"] = json.dumps(plan)
        running = []
        for rank in range(ranks):
            if ranks > 1:
                env.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks))
            time.sleep(late if rank else 0)
            command = [sys.executable, "trainc_start.py", "--lr", "a b"]
            running.append(subprocess.Popen(command, cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True))
        return running

    run.path = tmp_path
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
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (7, "arguments --lr a b\n")


@pytest.mark.parametrize("end, code", [("", 0), ("fail", 7), ("kill", -signal.SIGKILL)])
def test_a_watched_program_ends_as_it_would(job, end, code):
    (process,) = job(BRAKE, {"step_seconds": 0.012}, STEPS=60, END=end)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert "arguments --lr a b" in out and "step=60" in err and '"stop"' not in out


def test_a_slow_program_is_stopped_with_a_checkpoint_on_every_rank(job):
    # More steps than any rank can do before all have received the stop.
    running = job(BRAKE, {"step_seconds": 0.004}, ranks=3, STEPS=100_000)
    outs = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [8, 8, 8]
    assert len(list(job.path.glob("saved-*"))) == 3
    stops = [json.loads(line) for out in outs for line in out.splitlines() if '"stop"' in line]
    assert len(stops) == 1 and stops[0]["reason"] == "slow" and stops[0]["text"].startswith("T0681 ")


def test_a_rank_that_connects_after_the_stop_is_stopped(job):
    running = job(BRAKE, {"step_seconds": 0.004}, ranks=2, late=2, STEPS=100_000)
    for process in running:
        process.communicate(timeout=60)
    assert [process.returncode for process in running] == [8, 8]


def test_a_port_in_use_leaves_the_program_and_its_budget(job):
    port = free_port()
    with socket.socket() as other:
        other.bind(("", hub_of(port)))
        other.listen()
        (process,) = job(BRAKE, {"step_seconds": 0.004}, RANK=0, WORLD_SIZE=2, MASTER_PORT=port, STEPS=100_000)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 8 and '"error"' in out and '"reason": "slow"' in out


def test_a_program_that_passes_its_budget_is_stopped(job):
    brake = dict(BRAKE, slowest=None, hard_usd=1.0, steps=100000)
    (process,) = job(brake, {"usd_per_hour": 100.0}, STEPS=2000)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 8 and '"reason": "budget"' in out


def events(outs, kind):
    lines = [json.loads(line) for out in outs for line in out.splitlines() if line.startswith('{"trainc_brake"')]
    return [line for line in lines if line["trainc_brake"] == kind]


@pytest.mark.parametrize("prints, blind", [(0, 0), (1, 0), (9, 1)])
def test_a_program_without_steps_is_reported_once(job, prints, blind):
    running = job(BRAKE, {"step_seconds": 1.0}, ranks=2, STEPS=250, PRINTS=prints)
    outs = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert len(events(outs, "blind")) == blind


@pytest.mark.parametrize(
    "plan, steps, off",
    [
        ({"step_seconds": 1.0, "usd_per_hour": 1.0}, 200, []),
        ({"step_seconds": 1.0}, 200, ["hard_usd"]),
        ({"step_seconds": 1.0, "usd_per_hour": 1.0}, None, ["hard_usd"]),
        ({"usd_per_hour": 1.0}, 200, ["slowest"]),
    ],
)
def test_limits_that_cannot_be_checked_are_said(job, plan, steps, off):
    (process,) = job(dict(BRAKE, hard_usd=5.0, steps=steps), plan, STEPS=1)
    (on,) = events([process.communicate(timeout=30)[0]], "on")
    assert list(on["off"]) == off


@pytest.mark.parametrize(
    "why, text",
    [
        ({"reason": "slow", "at": 70.0, "over": 50.0, "share": 0.6}, "60 % of the plan over 50 steps, up to step 70;"),
        ({"reason": "budget", "at": 31.0, "usd": 0.0012, "hard_usd": 0.001}, "$0.0012; the budget is $0.0010 (step 31);"),
        ({"reason": "budget", "at": 31.0, "usd": 0.012, "hard_usd": 0.004}, "$0.012; the budget is $0.004 (step 31);"),
        ({"reason": "budget", "at": 31.0, "usd": 5123.4, "hard_usd": 5000}, "$5,123.40; the budget is $5,000.00 (step 31);"),
    ],
)
def test_a_stop_is_described_with_whole_steps_and_enough_digits(why, text):
    assert text in start.describe(why, "algo-1")


def test_signals_reach_the_program(job):
    (process,) = job(BRAKE, {"step_seconds": 1.0}, STEPS=2000)
    process.stdout.readline()
    assert process.stdout.readline().startswith("arguments")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 75


def test_without_planned_figures_nothing_is_stopped(job):
    (process,) = job(BRAKE, STEPS=3)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and '"trainc_brake": "off"' in out


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
@pytest.mark.parametrize("kind", ["healthy", "slow node", "below the plan"])
def test_the_probe_measures_four_processes(tmp_path, kind):
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
    begin = time.time()
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
    assert last["seconds"] < 60 and time.time() - begin < 120
    kinds = {line["trainc_probe"] for line in lines}
    assert {"begin", "product", "attention", "layer", "memory", "collective", "channel", "checkpoint", "node"} <= kinds
    assert not (tmp_path / "checkpoints").exists() or not list((tmp_path / "checkpoints").iterdir())
    if kind == "slow node":
        assert codes == {8} and last["slow_nodes"] == ["algo-3"] and "algo-3" in last["text"]
    elif kind == "below the plan":
        assert codes == {8} and last["share"] < 0.5 and last["text"].startswith("T0680 ")
    else:
        assert codes == {0} and last["trainc_probe"] == "done"
        (found,) = [line["values"] for line in lines if line["trainc_probe"] == "constants"]
        assert set(found) == set(PLANNED["constants"]) and all(value > 0 for value in found.values())
