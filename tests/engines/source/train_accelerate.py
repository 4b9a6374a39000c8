"""Trains the tiny model under whatever the file of `accelerate launch` says."""

import argparse

import facts
import torch

facts.cpu_ranks()
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--micro-batch", type=int)
parser.add_argument("--accumulation", type=int)
parser.add_argument("--length", type=int)
parser.add_argument("--steps", type=int)
args = parser.parse_args()

accelerator = Accelerator(gradient_accumulation_steps=args.accumulation)
model = facts.tiny_llama()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
each_step = args.micro_batch * args.accumulation * accelerator.num_processes
loader = torch.utils.data.DataLoader(facts.sequences(args.steps * each_step, args.length), batch_size=args.micro_batch)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for ids in loader:
    with accelerator.accumulate(model):
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss.item())
found = {"kind": accelerator.distributed_type.value, "precision": accelerator.mixed_precision}
if hasattr(model, "zero_optimization_stage"):
    found |= facts.zero(model)
elif plugin := getattr(accelerator.state, "fsdp_plugin", None):
    found |= {"fsdp": plugin.fsdp_version, "reshard": bool(plugin.reshard_after_forward)}
facts.report(model, losses, accelerator.num_processes, **found)
