"""Whether the engines' own classes accept files that trainc wrote: accept.py CASES.

CASES is a JSON list of `{file, world, hosts}`. Each is asked in a process of its own, as rank 0 of a group of torch
that sends nothing. Prints a JSON list of what each engine then says about itself, or `{refused: MESSAGE}`.
"""

import importlib
import json
import os
import pathlib
import sys
import traceback

os.environ |= {"CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1"}
sys.path.insert(0, str(pathlib.Path(__file__).parent / "source"))


def fake_group(world):
    import torch.distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)


def accelerate(path, world, hosts):
    """The launcher's parser and checks with the options of the launch script, and the plugins in a rank."""
    import facts
    from accelerate.commands import launch

    options = {"config_file": path, "num_processes": world, "num_machines": hosts, "machine_rank": 0}
    options |= {"main_process_ip": "127.0.0.1", "main_process_port": 0, "rdzv_backend": "static"}
    options |= {"deepspeed_multinode_launcher": "standard", "gpu_ids": "all"}
    words = [f"--{name}={value}" for name, value in options.items()]
    parsed = launch.launch_command_parser().parse_args([*words, "train.py"])
    args, defaults, _ = launch._validate_launch_command(parsed)
    if args.use_deepspeed:
        fields = [*defaults.deepspeed_config, "mixed_precision"]
        args.deepspeed_fields_from_accelerate_config = ",".join(fields)
        _, environment = launch.prepare_deepspeed_cmd_env(args)
    else:
        environment = launch.prepare_multi_gpu_env(args)
    os.environ |= environment
    fake_group(world)
    facts.cpu_ranks()
    from accelerate import Accelerator

    accelerator = Accelerator()
    found = {"kind": accelerator.distributed_type.value, "precision": accelerator.mixed_precision}
    if degrees := accelerator.parallelism_config:
        names = {"replicate": "dp_replicate", "shard": "dp_shard", "context": "cp", "ulysses": "sp"}
        found |= {name: getattr(degrees, f"{theirs}_size") for name, theirs in names.items()}
    if plugin := getattr(accelerator.state, "deepspeed_plugin", None):
        config = plugin.deepspeed_config
        found["stage"] = config["zero_optimization"]["stage"]
        found["accumulation"] = config["gradient_accumulation_steps"]
    if plugin := getattr(accelerator.state, "fsdp_plugin", None):
        found |= {"fsdp": plugin.fsdp_version, "reshard": bool(plugin.reshard_after_forward)}
    return found


def deepspeed(path, world, hosts):
    fake_group(world)
    import deepspeed
    from deepspeed.runtime.config import DeepSpeedConfig

    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, verbose=False)
    config = DeepSpeedConfig(json.loads(pathlib.Path(path).read_text()))
    return {
        "stage": config.zero_optimization_stage,
        "global": config.train_batch_size,
        "micro": config.train_micro_batch_size_per_gpu,
        "accumulation": config.gradient_accumulation_steps,
    }


def distributed(path, world, hosts):
    os.environ["WORLD_SIZE"] = str(world)
    from transformers.distributed import DistributedConfig

    config = DistributedConfig(**json.loads(pathlib.Path(path).read_text()))
    degrees = {"replicate": config.dp_replicate_size, "shard": config.fsdp_size, "tensor": config.tp_size}
    return degrees | {"pipeline": config.pp_size, "expert": config.ep_size}


JUDGES = {"accelerate.yaml": accelerate, "ds_config.json": deepspeed, "distributed.json": distributed}


def ask(case):
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            found = JUDGES[pathlib.Path(case["file"]).name](case["file"], case["world"], case["hosts"])
        except BaseException as error:
            traceback.print_exc()
            found = {"refused": f"{type(error).__name__}: {error}"[:500]}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"refused": "the process ended"}


if __name__ == "__main__":
    # Imported once, for all of them.
    for name in ("accelerate.commands.launch", "deepspeed", "torch.testing._internal.distributed.fake_pg"):
        importlib.import_module(name)

    print(json.dumps([ask(case) for case in json.loads(pathlib.Path(sys.argv[1]).read_text())]))
