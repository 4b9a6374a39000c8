"""The launch script of a job runs as a script: with a fake SageMaker directory, fake launchers and a fake fi_info."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import pytest
from artefacts import jobs

JOBS = [job for job in jobs() if job.has("source/trainc_launch.py")]
# `accelerate launch` starts the ranks of these, torchrun those of the others.
ACCELERATE = [job for job in JOBS if '"accelerate"' in job.path("source/trainc_launch.py").read_text()]

# Seconds after which a test fails that waits for something: far more than a busy machine needs.
LONG = 120

# Records its arguments and environment, writes what a failing rank writes, and exits as the test wants.
LAUNCHER = """#!{python}
import json, os, pathlib, signal, sys, time
record = {{"launcher": os.path.basename(sys.argv[0]), "argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}
pathlib.Path(os.environ["RECORD"]).write_text(json.dumps(record))
if os.environ.get("LEAVE"):
    import subprocess
    subprocess.Popen(["sleep", "300"])
if os.environ.get("WAIT"):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    pathlib.Path(os.environ["RECORD"] + ".ready").touch()
    time.sleep(300)
sys.stderr.write(os.environ.get("STDERR", ""))
sys.exit(int(os.environ.get("STATUS", "0")))
"""


class Container:
    """A container's file system in a directory: what SageMaker puts there, and what the job's command finds on PATH."""

    def __init__(self, root, job):
        self.root, self.base, self.bin = root, root / "ml", root / "bin"
        self.job, self.record = job, root / "record.json"
        self.bin.mkdir()
        for name in ("torchrun", "accelerate"):
            self.script(name, LAUNCHER.format(python=sys.executable))
        (self.bin / "python3").symlink_to(sys.executable)
        # Installs nothing; fails for what is not a requirement.
        self.script("pip", "#!/bin/sh\n! grep '!' requirements.txt >&2\n")
        self.environment = {}
        for name in ("input/config", "input/data"):
            (self.base / name).mkdir(parents=True)
        request = job.request
        self.channels = [channel["ChannelName"] for channel in request["InputDataConfig"]]
        self.write("hyperparameters.json", request.get("HyperParameters", {}))
        self.write("inputdataconfig.json", {name: {"TrainingInputMode": "File"} for name in self.channels})
        self.hosts(2, "algo-1")

    def script(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def write(self, name, value):
        (self.base / "input/config" / name).write_text(json.dumps(value))

    def hosts(self, count, current, group=None):
        """`group`: the hosts of the group that runs the ranks; all of them without."""
        hosts = sorted(f"algo-{n + 1}" for n in range(count))
        groups = [{"instance_group_name": "homogeneousCluster", "hosts": hosts}]
        if group:
            others = [host for host in hosts if host not in group]
            groups = [
                {"instance_group_name": "gpus", "hosts": group},
                {"instance_group_name": "cpus", "hosts": others},
            ]
        self.write(
            "resourceconfig.json",
            {"current_host": current, "hosts": hosts, "instance_groups": groups, "network_interface_name": "eth7"},
        )

    def start(self):
        """Runs the command of the request, with the directory in place of /opt/ml."""
        algorithm = self.job.request["AlgorithmSpecification"]
        entrypoint, arguments = algorithm["ContainerEntrypoint"], algorithm["ContainerArguments"]
        assert (entrypoint, arguments[0]) == (["/bin/bash"], "-c")
        line = arguments[1].replace("/opt/ml", str(self.base))
        channel = re.search(r"/input/data/([\w-]+)/sourcedir\.tar\.gz", line)[1]
        assert channel in self.channels
        place = self.base / "input/data" / channel
        place.mkdir(exist_ok=True)
        with tarfile.open(place / "sourcedir.tar.gz", "w:gz") as archive:
            archive.add(self.job.path("source"), ".")
        environment = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "SAGEMAKER_BASE_DIR": str(self.base),
            "RECORD": str(self.record),
            **self.job.request.get("Environment", {}),
            **self.environment,
        }
        return subprocess.Popen(
            [*entrypoint, "-c", line],
            env=environment,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self):
        """Returns exit code, stderr and what the launcher recorded, if it was started."""
        process = self.start()
        _, stderr = process.communicate(timeout=LONG)
        recorded = json.loads(self.record.read_text()) if self.record.exists() else None
        return process.returncode, stderr, recorded

    @property
    def failure(self):
        path = self.base / "output/failure"
        return path.read_text() if path.exists() else None


@pytest.fixture
def container(tmp_path):
    def make(name):
        found = [job for job in JOBS if job.name.endswith(name)]
        if not found:
            pytest.skip(f"{name} was not emitted")
        return Container(tmp_path, found[0])

    return make


def test_there_are_jobs_with_the_script():
    assert JOBS, "no emitted job has a launch script"
    assert ACCELERATE, "no emitted job is started by accelerate"
    assert len(ACCELERATE) < len(JOBS), "no emitted job is started by torchrun"


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_request_starts_the_script(job):
    request = job.request
    line = request["AlgorithmSpecification"]["ContainerArguments"][1]
    assert line.endswith("exec python3 /opt/ml/code/trainc_launch.py")
    assert not any(name.startswith("sagemaker_") for name in request.get("HyperParameters", {}))


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_one_host_starts_all_ranks(job, tmp_path):
    container = Container(tmp_path, job)
    container.hosts(1, "algo-1", ["algo-1"])
    status, stderr, recorded = container.run()
    assert status == 0, stderr
    if job in ACCELERATE:
        assert recorded["launcher"] == "accelerate" and recorded["argv"][0] == "launch"
        assert "--num_machines=1" in recorded["argv"] and "--machine_rank=0" in recorded["argv"]
    else:
        assert recorded["launcher"] == "torchrun"
        assert recorded["argv"][0] == "--nnodes=1" and recorded["argv"][1].startswith("--nproc-per-node=")
        assert not [word for word in recorded["argv"] if word.startswith("--master")]
    assert container.failure is None


def test_ranks_of_twelve_hosts(container):
    """Hosts are numbered, not sorted as text: algo-10 has rank 9."""
    container = container("newest-torchrun")
    container.hosts(12, "algo-10")
    status, stderr, recorded = container.run()
    assert status == 0, stderr
    assert recorded["argv"][:6] == [
        "--nnodes=12",
        "--nproc-per-node=8",
        "--node-rank=9",
        "--master-addr=algo-1",
        "--master-port=7777",
        "trainc_start.py",
    ]
    assert pathlib.Path(recorded["cwd"]) == container.base / "code"


def test_hyperparameters_are_arguments_without_a_shell(container):
    container = container("newest-torchrun")
    _, _, recorded = container.run()
    at = recorded["argv"].index("trainc_start.py")
    assert recorded["argv"][at + 1 :] == [
        "--bf16", "True",
        "--fsdp", "full_shard auto_wrap",
        "--lr", "0.0001",
        "--note", "it's $HOME; `id`",
        "-o", "out",
    ]  # fmt: skip


def test_environment(container):
    container = container("newest-torchrun")
    _, _, recorded = container.run()
    environment, base = recorded["env"], container.base
    expected = {
        "FI_PROVIDER": "efa",
        "FI_EFA_USE_HUGE_PAGE": "0",
        "NCCL_SOCKET_IFNAME": "eth7",
        "GLOO_SOCKET_IFNAME": "eth7",
        "NCCL_DEBUG": "WARN",
        "SM_MODEL_DIR": f"{base}/model",
        "SM_OUTPUT_DATA_DIR": f"{base}/output/data",
        "SM_CHANNEL_TRAIN": f"{base}/input/data/train",
        "SM_CHANNEL_CODE": f"{base}/input/data/code",
        "SM_CHANNELS": '["code", "train"]',
        "SM_HOSTS": '["algo-1", "algo-2"]',
        "SM_CURRENT_HOST": "algo-1",
        "SM_NUM_GPUS": "8",
        "SM_HP_LR": "0.0001",
    }
    assert {name: environment.get(name) for name in expected} == expected
    # Old settings of the toolkit that slow down or break today's plugins.
    assert not {"NCCL_PROTO", "RDMAV_FORK_SAFE", "FI_EFA_USE_DEVICE_RDMA"} & set(environment)


def test_the_job_wins(container):
    container = container("newest-torchrun")
    container.environment = {"FI_PROVIDER": "tcp", "NCCL_SOCKET_IFNAME": "eth0"}
    container.script("fi_info", "#!/bin/sh\nexit 1\n")
    status, stderr, recorded = container.run()
    assert status == 0, stderr
    assert (recorded["env"]["FI_PROVIDER"], recorded["env"]["NCCL_SOCKET_IFNAME"]) == ("tcp", "eth0")


def test_a_host_without_efa_ends_the_job(container):
    container = container("newest-torchrun")
    container.script("fi_info", "#!/bin/sh\necho 'fi_getinfo: -61' >&2\nexit 61\n")
    status, _, recorded = container.run()
    assert (status, recorded) == (1, None)
    assert container.failure == "no EFA device on this host: fi_getinfo: -61"


def test_efa_is_not_needed_on_one_host(container):
    container = container("newest-torchrun")
    container.hosts(1, "algo-1")
    container.script("fi_info", "#!/bin/sh\nexit 61\n")
    assert container.run()[0] == 0


def test_the_first_exception_is_the_reason(container):
    container = container("newest-torchrun")
    container.environment = {
        "STATUS": "3",
        "STDERR": "W1 warning\n[rank3]: Traceback (most recent call last):\n"
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
        "RuntimeError: later\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
    }
    status, stderr, _ = container.run()
    assert status == 3
    expected = "torchrun: exit code 3: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert container.failure == expected
    assert "W1 warning" in stderr and "ChildFailedError" in stderr


def test_a_long_reason_is_cut(container):
    container = container("newest-torchrun")
    container.environment = {"STATUS": "1", "STDERR": "ValueError: " + "x" * 5000 + "\n"}
    container.run()
    assert len(container.failure) == 1024


def test_sigterm_reaches_torchrun(container):
    container = container("newest-torchrun")
    container.environment = {"WAIT": "1"}
    process = container.start()
    ready = pathlib.Path(f"{container.record}.ready")
    deadline = time.monotonic() + LONG
    while not ready.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LONG)
    assert process.returncode == 7


def test_a_process_left_behind_does_not_hold_the_job(container):
    container = container("newest-torchrun")
    container.environment = {"LEAVE": "1", "STATUS": "5"}
    process = container.start()
    # Its own output is held too, so only the exit is awaited: less long than it is held.
    assert process.wait(timeout=LONG) == 5
    assert container.failure == "torchrun: exit code 5: no exception was printed"


def test_the_reason_of_a_rank_is_kept(container):
    container = container("newest-torchrun")
    (container.base / "output").mkdir()
    (container.base / "output/failure").write_text("T0681 tokens/s were 60 % of the plan")
    container.environment = {"STATUS": "1"}
    status, stderr, _ = container.run()
    assert status == 1 and "exit code 1" in stderr
    assert container.failure == "T0681 tokens/s were 60 % of the plan"


def test_a_failed_installation_ends_the_job(container, tmp_path):
    container = container("newest-torchrun")
    source = tmp_path / "source"
    shutil.copytree(container.job.path("source"), source)
    (source / "requirements.txt").write_text("no requirement !\n")

    class WithRequirements:
        request = container.job.request

        def path(self, _relative):
            return source

    container.job = WithRequirements()
    status, stderr, recorded = container.run()
    assert status != 0 and recorded is None, stderr
    assert container.failure == "pip: exit code 1: no exception was printed"


def test_other_groups_run_the_script_once(container):
    container = container("newest-groups")
    container.hosts(3, "algo-2", ["algo-1"])
    status, stderr, recorded = container.run()
    assert status == 0, stderr
    assert recorded is None, "torchrun must not start on a host of another group"
    container.hosts(3, "algo-1", ["algo-1"])
    _, _, recorded = container.run()
    assert recorded["argv"] == ["--nnodes=1", "--nproc-per-node=8", "train.py"]
    assert os.path.basename(recorded["cwd"]) == "code"


def test_accelerate_of_twelve_hosts(container):
    """The command line states the topology, whatever the file says; ranks are in the order of the hosts' numbers."""
    container = container("accelerate-file")
    container.hosts(12, "algo-10")
    status, stderr, recorded = container.run()
    assert status == 0, stderr
    assert recorded["argv"][:12] == [
        "launch",
        "--config_file=zero3.yaml",
        "--num_processes=96",
        "--num_machines=12",
        "--machine_rank=9",
        "--main_process_ip=algo-1",
        "--main_process_port=7777",
        "--rdzv_backend=static",
        "--deepspeed_multinode_launcher=standard",
        "--gpu_ids=all",
        "train.py",
        "--batch",
    ]
    assert pathlib.Path(recorded["cwd"]) == container.base / "code"
    assert (container.base / "code/zero3.yaml").read_bytes()


@pytest.mark.parametrize("job", ACCELERATE, ids=str)
def test_the_file_of_accelerate_is_in_the_archive(job, tmp_path):
    container = Container(tmp_path, job)
    container.hosts(2, "algo-2", ["algo-1", "algo-2"])
    _, stderr, recorded = container.run()
    assert recorded, stderr
    config = next(word for word in recorded["argv"] if word.startswith("--config_file="))
    assert (pathlib.Path(recorded["cwd"]) / config.partition("=")[2]).is_file()
    assert "--machine_rank=1" in recorded["argv"]


def test_a_container_without_accelerate_ends_the_job(container):
    container = container("accelerate-file")
    (container.bin / "accelerate").unlink()
    status, _, recorded = container.run()
    assert (status, recorded) == (1, None)
    assert container.failure == "the container has no `accelerate`: add it to the program's requirements.txt"


def test_accelerate_without_efa_ends_the_job(container):
    container = container("accelerate-file")
    container.script("fi_info", "#!/bin/sh\necho 'fi_getinfo: -61' >&2\nexit 61\n")
    status, _, recorded = container.run()
    assert (status, recorded) == (1, None)
    assert container.failure == "no EFA device on this host: fi_getinfo: -61"
