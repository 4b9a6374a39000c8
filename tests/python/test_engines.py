"""What trainc emits for the engines that people launch trains, on CPU processes, as its plan says.

Each manifest of tests/engines/runs is emitted, and the command of its request is run once for each host, all of them
on this machine: unpack the archive, start the launch script, which starts `accelerate launch` or torchrun. The program
trains a tiny Llama and reports what it is: world size, class of its parameters, elements here, stage.

TRAINC_ENGINES_PYTHON names a Python that has the engines (tests/engines/environment.py makes one), TRAINC_BIN the
binary.
"""

import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest
from artefacts import Job
from test_launch_script import Container

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = ROOT / "tests/engines/runs"
PYTHON = os.environ.get("TRAINC_ENGINES_PYTHON")
TRAINC = os.environ.get("TRAINC_BIN")
# What DeepSpeed compiles, for one version of PyTorch.
EXTENSIONS = str(pathlib.Path(PYTHON).parents[1] / "extensions") if PYTHON else ""
pytestmark = pytest.mark.skipif(
    not (PYTHON and TRAINC), reason="TRAINC_ENGINES_PYTHON names no Python with the engines"
)
# Elements of the tiny Llama.
ELEMENTS = 115_008
# A launcher as the container has it, which looks up the hosts' names: all of them are this machine.
LAUNCHER = """#!{python}
import runpy, sys
sys.argv[1:] = [word.replace("algo-1", "127.0.0.1") for word in sys.argv[1:]]
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
LAUNCHERS = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.accelerate_cli"}


def trainc(*arguments, **more):
    done = subprocess.run([TRAINC, *arguments], cwd=ROOT, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Host(Container):
    """A container with the real launchers."""

    def __init__(self, root, job, rank, hosts):
        root.mkdir()
        super().__init__(root, job)
        for name, module in LAUNCHERS.items():
            self.script(name, LAUNCHER.format(python=PYTHON, module=module))
        (self.bin / "python3").unlink()
        self.script("python3", f'#!/bin/sh\nexec {PYTHON} "$@"\n')
        names = [f"algo-{number + 1}" for number in range(hosts)]
        resources = {"current_host": names[rank], "hosts": names, "network_interface_name": "lo"}
        self.write("resourceconfig.json", resources)
        text = json.dumps(job.request.get("HyperParameters", {})).replace("/opt/ml", str(self.base))
        (self.base / "input/config/hyperparameters.json").write_text(text)
        # DeepSpeed asks for ninja, and for a device.
        self.bin.joinpath("ninja").symlink_to(pathlib.Path(PYTHON).with_name("ninja"))
        self.environment = {
            "HOME": os.environ.get("HOME", "/tmp"),
            "CUDA_VISIBLE_DEVICES": "",
            "DS_ACCELERATOR": "cpu",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TORCH_EXTENSIONS_DIR": EXTENSIONS,
            "FI_PROVIDER": "tcp",
        }


def replay(name, tmp_path):
    """Returns the plan of a manifest and what its run reported."""
    manifest = f"tests/engines/runs/{name}.kdl"
    plan = json.loads(trainc("plan", "-o", "json", "--offline", manifest))
    trainc("emit", "--quiet", manifest, "--out", str(tmp_path / "emitted"))
    job = Job(name, tmp_path / "emitted")
    hosts = job.request["ResourceConfig"]["InstanceCount"]
    containers = [Host(tmp_path / f"host-{rank}", job, rank, hosts) for rank in range(hosts)]
    running = [container.start() for container in containers]
    try:
        outputs = [process.communicate(timeout=400) for process in running]
    finally:
        for process in running:
            process.kill()
    failed = [(container.failure, err[-2000:]) for container, (_, err) in zip(containers, outputs, strict=True)]
    assert [process.returncode for process in running] == [0] * hosts, failed
    (found,) = re.findall(r"^RUN (.*)$", outputs[0][0], re.MULTILINE)
    return plan, json.loads(found)


def world_of(plan):
    """The degrees of an engine multiply to its processes."""
    names = ("replicate", "shard", "tensor", "pipeline", "context", "ulysses")
    return math.prod(plan["mesh"][f"{name}_degree"] for name in names)


def check(plan, run):
    """What every run and its plan have in common."""
    mesh, batch = plan["mesh"], plan["batch"]
    assert run["world"] == world_of(plan)
    assert run["elements"] == ELEMENTS or mesh["tensor_degree"] > 1
    assert run["losses"] and run["losses"][-1] < run["losses"][0] * 1.05
    for name, key in [("micro", "micro"), ("accumulation", "accumulation"), ("global", "global_sequences")]:
        assert run.get(name, batch[key]) == batch[key], name
    assert run.get("data_ranks", mesh["data_ranks"]) == mesh["data_ranks"]


@pytest.mark.parametrize("name", ["accelerate-zero-2", "accelerate-zero-3", "deepspeed-zero-3"])
def test_zero(name, tmp_path):
    plan, run = replay(name, tmp_path)
    check(plan, run)
    world, stage = world_of(plan), int(name[-1])
    assert run["stage"] == stage and plan["mesh"]["shard_degree"] == world
    if name.startswith("accelerate"):
        assert run["kind"] == "DEEPSPEED" and run["precision"] == "bf16"
    assert run["here"] == (ELEMENTS // world if stage == 3 else ELEMENTS)
    assert run["optimizer_elements"] == ELEMENTS // world


@pytest.mark.parametrize("name", ["accelerate-fsdp2", "trainer-fsdp"])
def test_fsdp(name, tmp_path):
    plan, run = replay(name, tmp_path)
    check(plan, run)
    world = world_of(plan)
    assert (run["kind"], run["precision"], run["fsdp"], run["reshard"]) == ("FSDP", "bf16", 2, True)
    assert (run["class"], run["here"]) == ("DTensor", ELEMENTS // world)
    assert plan["mesh"]["shard_degree"] == world


def test_distributed_config(tmp_path):
    plan, run = replay("distributed-config", tmp_path)
    check(plan, run)
    mesh = plan["mesh"]
    assert (mesh["shard_degree"], mesh["tensor_degree"], mesh["replicate_degree"]) == (2, 2, 1)
    assert (run["shard"], run["tensor"], run["replicate"]) == (2, 2, 1)
    # Norms are whole on each rank of a tensor group.
    assert (run["class"], run["here"]) == ("DTensor", 28_832)


def random_plan(random):
    """Returns `parallel` and what else of a manifest decides the written file; not all of them are legal."""

    def degree(*degrees):
        return random.choice(degrees)

    engine = random.choice(["accelerate", "accelerate", "deepspeed", "distributed-config"])
    nodes, parallel, train = degree(1, 2, 4), [], []
    if engine == "distributed-config":
        names = ["replicate-degree", "shard-degree", "tensor-degree"]
        chosen = {name: degree(1, 2, 4, 8) for name in random.sample(names, 2)}
        rest = next(name for name in names if name not in chosen)
        product = 8 * nodes
        for value in chosen.values():
            product //= value
        chosen[rest] = max(product, 1)
        parallel = [f"{name} {value}" for name, value in chosen.items()]
    else:
        zero = ["zero-0", "zero-1", "zero-2", "zero-3"]
        strategies = zero if engine == "deepspeed" else [*zero, "full-shard", "shard-grad-op", "hybrid-shard"]
        strategy = random.choice(strategies)
        parallel.append(f'strategy "{strategy}"')
        if strategy.startswith("zero") and random.random() < 0.3:
            parallel.append(random.choice(["offload #true", 'offload "optimizer"']))
        if engine == "accelerate" and strategy == "full-shard" and random.random() < 0.5:
            parallel.append(f"context-degree {degree(2, 4)}")
        if engine == "accelerate" and strategy == "zero-3" and random.random() < 0.3:
            parallel.append(f"ulysses-degree {degree(2, 4)}")
    train.append(f'precision "{random.choice(["bf16", "fp16", "fp32"])}"')
    train.append(f"micro-batch {degree(1, 2, 4)}")
    train.append(f"accumulation {degree(1, 2, 8)}")
    clip = f" clip={degree(0.5, 1.0)}" if random.random() < 0.6 else ""
    train.append(f'optimizer "adamw" lr={degree("1e-4", "2e-5")}{clip}')
    if random.random() < 0.5:
        train.append("activation-checkpointing #true")
    return engine, nodes, parallel, train


def manifest_of(engine, nodes, parallel, train):
    lines = (RUNS / "accelerate-zero-2.kdl").read_text()
    model = re.search(r"    model .*?\n    }\n", lines, re.DOTALL)[0]

    def block(head, body):
        return f"    {head} {{\n" + "".join(f"        {line}\n" for line in body) + "    }\n"

    return (
        f'job "written" {{\n    region "us-west-2"\n    account "111122223333"\n{model}'
        + block(f'cluster "ml.p5.48xlarge" nodes={nodes}', ['max-run "1h"'])
        + block(f'parallel engine="{engine}"', parallel)
        + block("train", [*train, "sequence-length 64", "steps 10"])
        + '    program "train_accelerate.py" source="./source" {\n'
        + '        hyperparameter "config" "{{ engine.file }}"\n    }\n'
        + '    image "pytorch" version="2.13"\n    channel "train" s3="s3://bucket-111122223333/train/"\n'
        + '    output s3="s3://bucket-111122223333/output/"\n    role arn="arn:aws:iam::111122223333:role/r"\n}\n'
    )


def accepts(cases, tmp_path):
    """Returns what the engines say of each file."""
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases))
    command = [PYTHON, str(ROOT / "tests/engines/accept.py"), str(path)]
    # DeepSpeed asks for ninja.
    environment = os.environ | {"PATH": f"{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}"}
    environment["TORCH_EXTENSIONS_DIR"] = EXTENSIONS
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def written(root):
    names = ("accelerate.yaml", "ds_config.json", "distributed.json")
    return [path for path in sorted(root.rglob("*")) if path.name in names and path.parent.name == "engine"]


def test_written_files_of_random_plans_are_accepted(tmp_path):
    shutil.copytree(ROOT / "tests/engines/source", tmp_path / "source")
    draw, cases, plans = random.Random(36), [], []
    for number in range(300):
        text = manifest_of(*random_plan(draw))
        (tmp_path / "job.kdl").write_text(text)
        out = tmp_path / f"out-{number}"
        command = [TRAINC, "emit", "--quiet", str(tmp_path / "job.kdl"), "--out", str(out)]
        if subprocess.run(command, capture_output=True).returncode != 0:
            continue
        plan = json.loads(trainc("plan", "-o", "json", "--offline", str(tmp_path / "job.kdl")))
        (file,) = written(out)
        cases.append({"file": str(file), "world": world_of(plan), "hosts": plan["cluster"]["nodes"]})
        plans.append((text, plan))
        if len(cases) == 30:
            break
    assert len(cases) == 30
    for case, said, (text, plan) in zip(cases, accepts(cases, tmp_path), plans, strict=True):
        shown = f"{said}\n{pathlib.Path(case['file']).read_text()}\n{text}"
        assert "refused" not in said, shown
        mesh, batch = plan["mesh"], plan["batch"]
        ours = {
            "global": batch["global_sequences"],
            "micro": batch["micro"],
            "accumulation": batch["accumulation"],
            "replicate": mesh["replicate_degree"],
            "shard": mesh["shard_degree"],
            "tensor": mesh["tensor_degree"],
            "context": mesh["context_degree"],
            "ulysses": mesh["ulysses_degree"],
        }
        # Under DeepSpeed accelerate's own degrees are those of its data loader.
        if "stage" in said:
            assert f"zero-{said['stage']}" in text, shown
            ours = {name: ours[name] for name in ("global", "micro", "accumulation", "ulysses")}
        assert all(said.get(name, value) == value for name, value in ours.items()), shown


def test_written_files_of_the_examples_are_accepted(tmp_path):
    cases = []
    for file in written(pathlib.Path(os.environ["TRAINC_EMITTED"])):
        request = json.loads((file.parents[2] / "sagemaker/training-job.json").read_text())
        hosts = request["ResourceConfig"]["InstanceCount"]
        script = file.parents[1] / "trainc_launch.py"
        if script.exists():
            world = hosts * int(re.search(r"^RANKS_PER_HOST = (\d+)", script.read_text(), re.MULTILINE)[1])
        else:
            # The training toolkit starts the ranks; the batch says how many.
            config = json.loads(file.read_text())
            each = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"]
            world = config["train_batch_size"] // each
            assert world % hosts == 0, file
        cases.append({"file": str(file), "world": world, "hosts": hosts})
    assert cases
    for case, said in zip(cases, accepts(cases, tmp_path), strict=True):
        assert "refused" not in said, f"{case['file']}: {said}"


def test_the_runs_are_all_tested():
    names = {"accelerate-zero-2", "accelerate-zero-3", "deepspeed-zero-3", "accelerate-fsdp2", "trainer-fsdp"}
    assert {path.stem for path in RUNS.glob("*.kdl")} == names | {"distributed-config"}
