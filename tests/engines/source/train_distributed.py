"""Loads the model over the mesh of a DistributedConfig."""

import argparse
import json
import os
import pathlib

import facts
import torch
import torch.distributed
from transformers import LlamaForCausalLM
from transformers.distributed import DistributedConfig

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=pathlib.Path)
parser.add_argument("--micro-batch", type=int)
parser.add_argument("--length", type=int)
parser.add_argument("--steps", type=int)
args = parser.parse_args()

# Each host has a directory of its own; in a process group only the first rank would save.
weights = args.config.with_name("tiny")
if int(os.environ["LOCAL_RANK"]) == 0:
    facts.tiny_llama().save_pretrained(weights)
torch.distributed.init_process_group("gloo")
torch.distributed.barrier()
config = DistributedConfig(**json.loads(args.config.read_text()))
model = LlamaForCausalLM.from_pretrained(weights, distributed_config=config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
for _ in range(args.steps):
    ids = facts.sequences(args.micro_batch, args.length)
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
degrees = {"replicate": config.dp_replicate_size, "shard": config.fsdp_size, "tensor": config.tp_size}
facts.report(model, losses, torch.distributed.get_world_size(), **degrees)
