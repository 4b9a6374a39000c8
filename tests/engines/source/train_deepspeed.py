"""Hands a ds_config to deepspeed.initialize."""

import argparse
import json
import pathlib

import deepspeed
import facts
import torch
from transformers import LlamaForCausalLM  # noqa: F401: the first import inside of zero.Init fails

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=pathlib.Path)
parser.add_argument("--length", type=int)
parser.add_argument("--steps", type=int)
args = parser.parse_args()

config = json.loads(args.config.read_text())
deepspeed.init_distributed(dist_backend="gloo", verbose=False)
with deepspeed.zero.Init(config_dict_or_path=config, enabled=config["zero_optimization"]["stage"] == 3):
    model = facts.tiny_llama()
# FusedAdam and CPUAdam are compiled at their first use, for minutes.
own = {} if "optimizer" in config else {"optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3)}
if not own:
    config["optimizer"]["params"]["torch_adam"] = True
engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()), **own)
losses = []
for _ in range(args.steps * engine.gradient_accumulation_steps()):
    ids = facts.sequences(engine.train_micro_batch_size_per_gpu(), args.length)
    loss = engine(input_ids=ids, labels=ids).loss
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
facts.report(engine, losses, torch.distributed.get_world_size(), **facts.zero(engine))
