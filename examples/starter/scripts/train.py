"""Fine-tunes a causal language model with PyTorch FSDP on token files.

The channel `train` holds `*.npy` files, each an array of token ids with one sequence a row. Started by torchrun,
one process per GPU, as SageMaker's PyTorch container does.
"""

import argparse
import functools
import glob
import math
import os
import time


def build_parser():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="gpt2-xl")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--micro_batch", type=int, default=2)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--sequence_length", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--peak_tflops", type=float, default=70.0)
    return parser


def flops_per_token(parameters, layers, hidden, sequence_length):
    """Forward and backward, without recomputation: 6 for each parameter, and attention (PaLM, appendix B)."""
    return 6 * parameters + 12 * layers * hidden * sequence_length


def batches(directory, rank, world_size, micro_batch, sequence_length):
    """Endless micro-batches of token ids; each rank reads every world_size-th sequence."""
    import numpy
    import torch

    files = sorted(glob.glob(os.path.join(directory, "*.npy")))
    if not files:
        raise SystemExit(f"no *.npy file in {directory}: the channel `train` is empty")
    while True:
        rows = []
        for path in files:
            for at, row in enumerate(numpy.load(path, mmap_mode="r")):
                if at % world_size != rank:
                    continue
                rows.append(torch.from_numpy(row[:sequence_length].astype("int64")))
                if len(rows) == micro_batch:
                    yield torch.stack(rows)
                    rows = []


def learning_rate(step, steps, peak):
    """Fifty steps up, then half a cosine down."""
    if step < 50:
        return peak * (step + 1) / 50
    return peak * 0.5 * (1 + math.cos(math.pi * (step - 50) / max(1, steps - 50)))


def main():
    arguments = build_parser().parse_args()

    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp import MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers import AutoModelForCausalLM
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    dist.init_process_group("nccl")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)

    model = AutoModelForCausalLM.from_pretrained(arguments.model)
    model.gradient_checkpointing_enable()
    flops = flops_per_token(
        model.num_parameters(), model.config.num_hidden_layers, model.config.hidden_size, arguments.sequence_length
    )
    model = FSDP(
        model,
        auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={GPT2Block}),
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        device_id=device,
        use_orig_params=True,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)

    data = batches(
        os.environ.get("SM_CHANNEL_TRAIN", "data"), rank, world_size, arguments.micro_batch, arguments.sequence_length
    )
    tokens_a_step = arguments.micro_batch * arguments.accumulation * world_size * arguments.sequence_length
    began = time.perf_counter()
    for step in range(arguments.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, arguments.steps, arguments.lr)
        loss_sum = 0.0
        for _ in range(arguments.accumulation):
            tokens = next(data).to(device)
            loss = model(input_ids=tokens, labels=tokens).loss / arguments.accumulation
            loss.backward()
            loss_sum += loss.item()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        now = time.perf_counter()
        rate, began = tokens_a_step / (now - began), now
        if rank == 0:
            mfu = rate * flops / (world_size * arguments.peak_tflops * 1e12)
            print(f"step={step} loss={loss_sum:.4f} tokens_per_s={rate:.0f} mfu={mfu:.3f}", flush=True)

    with FSDP.summon_full_params(model, rank0_only=True, offload_to_cpu=True, writeback=False):
        if rank == 0:
            model.module.save_pretrained(os.environ.get("SM_MODEL_DIR", "model"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
