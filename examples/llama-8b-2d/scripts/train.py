"""Continue the pre-training of a causal language model that transformers shards as it loads: FSDP2 × tensor parallelism.

torchrun starts one process for each GPU; `--distributed_config` names the JSON of the degrees that trainc wrote. The
channel has Parquet files whose rows have `input_ids` of the sequence length. A model that is sharded at load time cannot
resume, so that there are no checkpoints: the weights are saved at the end.
"""

import dataclasses
import importlib
import json
import os
import pathlib


@dataclasses.dataclass
class Arguments:
    """What the manifest passes in addition to the arguments of the Trainer."""

    model: str
    distributed_config: pathlib.Path


def need(module, where="listed in requirements.txt"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def build_parser():
    transformers = need("transformers")
    parser = transformers.HfArgumentParser((Arguments, transformers.TrainingArguments))
    parser.set_defaults(output_dir="/opt/ml/model", save_strategy="no", logging_steps=5, report_to=["none"])
    return parser


def main(args, training):
    torch = need("torch", "part of the training image")
    transformers, datasets = need("transformers"), need("datasets")
    degrees = json.loads(args.distributed_config.read_text())
    # Each rank loads its shard in fp32; `fsdp_mixed_precision` computes in bf16.
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model,
        dtype=torch.float32,
        attn_implementation="flash_attention_2",
        distributed_config=need("transformers.distributed").DistributedConfig(**degrees),
    )
    rows = datasets.load_dataset(os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train"), split="train")
    rows = rows.select_columns(["input_ids"]).map(lambda row: {"labels": row["input_ids"]})
    trainer = transformers.Trainer(
        model=model, args=training, train_dataset=rows, data_collator=transformers.default_data_collator
    )
    trainer.train()
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(*build_parser().parse_args_into_dataclasses())
