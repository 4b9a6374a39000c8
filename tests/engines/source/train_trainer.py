"""The Trainer of transformers with its own arguments, from a file and the command line, as TRL's scripts have them."""

import json
import sys

import facts
import torch

facts.cpu_ranks()
import yaml
from transformers import HfArgumentParser, Trainer, TrainerCallback, TrainingArguments, training_args

# It refuses bf16 without a GPU that has it.
training_args.is_torch_bf16_gpu_available = lambda: True
# `--config FILE`, then what overrides it: the form of TRL's parser.
place = sys.argv.index("--config")
settings = yaml.safe_load(open(sys.argv[place + 1]))
rest = [word.replace("-", "_") if word.startswith("--") else word for word in sys.argv[1:place] + sys.argv[place + 2 :]]
words = [f"--{name}={json.dumps(value) if isinstance(value, dict) else value}" for name, value in settings.items()]
(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses([*words, *rest])


class Sequences(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.arange(index, index + 32) % 256
        return {"input_ids": ids, "labels": ids}


class Report(TrainerCallback):
    """The model as it trains: at the end of the run the Trainer may have gathered it."""

    losses = []

    def on_log(self, args, state, control, logs=None, **_):
        self.losses += [logs["loss"]] if "loss" in logs else []

    def on_step_end(self, args, state, control, model=None, **_):
        if state.global_step == state.max_steps:
            accelerator = trainer.accelerator
            found = {"kind": accelerator.distributed_type.value, "precision": accelerator.mixed_precision}
            wrapped = trainer.model_wrapped
            if hasattr(wrapped, "zero_optimization_stage"):
                found |= facts.zero(wrapped)
            elif plugin := getattr(accelerator.state, "fsdp_plugin", None):
                found |= {"fsdp": plugin.fsdp_version, "reshard": bool(plugin.reshard_after_forward)}
            found |= {"micro": args.per_device_train_batch_size, "accumulation": args.gradient_accumulation_steps}
            facts.report(wrapped, self.losses, accelerator.num_processes, **found)


trainer = Trainer(model=facts.tiny_llama(), args=arguments, train_dataset=Sequences(), callbacks=[Report()])
trainer.train()
