"""What a run says about itself, and the model that all runs train.

A run that only ends proves nothing: on a CPU accelerate turns FSDP off without a word, and each process trains alone.
"""

import json
import os

import torch
import torch.distributed


def tiny_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=8,
        vocab_size=256,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config)


def cpu_ranks():
    """Lets accelerate take CPU processes for GPUs; it turns FSDP and DeepSpeed's ranks off on any other device."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    PartialState._prepare_backend = lambda self, cpu=False, sm=False, backend=None: ("gloo", DistributedType.MULTI_GPU)
    PartialState.set_device = lambda self: setattr(self, "device", torch.device("cpu"))


def sequences(number, length):
    return torch.randint(0, 256, (number, length), generator=torch.Generator().manual_seed(0))


def here(parameter):
    """Elements that this rank keeps: of a DTensor, of a partition of ZeRO-3, or all."""
    if hasattr(parameter, "to_local"):
        return parameter.to_local().numel()
    if hasattr(parameter, "ds_tensor"):
        return parameter.ds_tensor.numel()
    return parameter.numel()


def zero(engine):
    """What DeepSpeed's engine says."""
    parts = getattr(engine.optimizer, "single_partition_of_fp32_groups", None)
    parts = parts or getattr(engine.optimizer, "fp32_partitioned_groups_flat", ())
    return {
        "stage": engine.zero_optimization_stage(),
        "data_ranks": engine.dp_world_size,
        "global": engine.train_batch_size(),
        "micro": engine.train_micro_batch_size_per_gpu(),
        "accumulation": engine.gradient_accumulation_steps(),
        "optimizer_elements": sum(part.numel() for part in parts),
    }


def report(model, losses, world, **facts):
    """Prints a line on rank 0. `world` is what the program itself counts: torch may count ranks that share nothing."""
    parameters = list(model.parameters())
    largest = max(parameters, key=lambda parameter: getattr(parameter, "ds_numel", None) or parameter.numel())
    whole = sum(getattr(parameter, "ds_numel", None) or parameter.numel() for parameter in parameters)
    line = {
        "world": world,
        "class": type(largest).__name__,
        "mesh": str(getattr(largest, "device_mesh", "")),
        "dtype": str(largest.dtype).removeprefix("torch."),
        "here": sum(map(here, parameters)),
        "elements": whole,
        "losses": losses,
        **facts,
    }
    if int(os.environ["RANK"]) == 0:
        print("\nRUN " + json.dumps(line), flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
