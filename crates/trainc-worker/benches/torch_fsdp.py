"""Trains the benchmark's model with PyTorch FSDP on CPU ranks; started by torchrun from fsdp.py.

    torchrun --nproc-per-node 2 torch_fsdp.py --api fsdp1|fsdp2 --layers 6 --hidden 384 …

Rank 0 prints one JSON line per step: seconds, loss, highest resident bytes of the largest rank.
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--api", choices=["fsdp1", "fsdp2"], required=True)
    for name in ["layers", "hidden", "heads", "ffn", "vocab", "sequence", "batch", "steps"]:
        p.add_argument("--" + name, type=int, required=True)
    return p.parse_args()


class Norm(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(h))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class Block(nn.Module):
    """Projections fused as in the worker: the benchmark compares the frameworks, not the number of multiplications."""

    def __init__(self, a):
        super().__init__()
        h, f = a.hidden, a.ffn
        self.heads = a.heads
        self.norm1, self.norm2 = Norm(h), Norm(h)
        self.qkv = nn.Linear(h, 3 * h, bias=False)
        self.out = nn.Linear(h, h, bias=False)
        self.up = nn.Linear(h, 2 * f, bias=False)
        self.down = nn.Linear(f, h, bias=False)

    def forward(self, x, cos, sin):
        b, t, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)

        def turn(y):
            left, right = y.chunk(2, -1)
            return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)

        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, h))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embed = nn.Embedding(a.vocab, a.hidden)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = Norm(a.hidden)
        self.head = nn.Linear(a.hidden, a.vocab, bias=False)
        d = a.hidden // a.heads
        angles = torch.arange(a.sequence)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)[None]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main():
    a = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Model(a)
    if a.api == "fsdp1":
        from functools import partial

        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        model = FSDP(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"), use_orig_params=True)
        clip = partial(model.clip_grad_norm_, 1.0)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (ranks,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        clip = lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    micro = a.batch // ranks
    generator = torch.Generator().manual_seed(1 + rank)
    for step in range(a.steps):
        tokens = torch.randint(0, a.vocab, (micro, a.sequence + 1), generator=generator)
        dist.barrier()
        began = time.perf_counter()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        clip()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        seconds = time.perf_counter() - began
        memory = torch.tensor([resident()], dtype=torch.int64)
        dist.all_reduce(memory, dist.ReduceOp.MAX)
        if rank == 0:
            line = {"step": step + 1, "seconds": seconds, "loss": mean.item() / ranks, "memory": memory.item()}
            print(json.dumps(line), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
