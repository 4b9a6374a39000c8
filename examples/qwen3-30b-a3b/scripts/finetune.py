"""Fine-tune a mixture of experts with PyTorch FSDP through the Hugging Face trainer.

torchrun starts one process for each GPU of all nodes. The channel has Parquet files whose rows have `input_ids` of the
sequence length. Training resumes from the newest checkpoint.
"""

import argparse
import importlib
import os


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True)
    p.add_argument("--sequence_length", type=int, required=True)
    p.add_argument("--micro_batch", type=int, required=True)
    p.add_argument("--accumulation", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--warmup", type=float, required=True)
    p.add_argument("--seed", type=int, required=True)
    return p


# `parallel engine="fsdp"` of the manifest, in this library's names.
FSDP = {
    "version": 2,
    "reshard_after_forward": True,
    "transformer_layer_cls_to_wrap": ["Qwen3MoeDecoderLayer"],
    "activation_checkpointing": True,
    "cpu_ram_efficient_loading": True,
    "state_dict_type": "SHARDED_STATE_DICT",
}
CHECKPOINTS = "/opt/ml/checkpoints"


def need(module, where="listed in requirements.txt"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def load_rows(folder, sequence_length, datasets):
    files = sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".parquet"))
    rows = datasets.load_dataset("parquet", data_files=files, split="train").select_columns(["input_ids"])
    return rows.map(lambda row: {"labels": row["input_ids"][:sequence_length]})


def main(args):
    torch = need("torch", "part of the training image")
    transformers, datasets = need("transformers"), need("datasets")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="flash_attention_2", use_cache=False
    )
    trainer = transformers.Trainer(
        model=model,
        train_dataset=load_rows(
            os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train"), args.sequence_length, datasets
        ),
        data_collator=transformers.default_data_collator,
        args=transformers.TrainingArguments(
            output_dir=CHECKPOINTS,
            per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=args.accumulation,
            max_steps=args.steps,
            learning_rate=args.lr,
            weight_decay=0.1,
            max_grad_norm=1.0,
            warmup_steps=int(args.warmup * args.steps),
            lr_scheduler_type="cosine",
            bf16=True,
            fsdp="full_shard auto_wrap",
            fsdp_config=FSDP,
            logging_steps=5,
            save_steps=100,
            save_total_limit=2,
            report_to=[],
            seed=args.seed,
        ),
    )
    saved = os.path.isdir(CHECKPOINTS) and any(name.startswith("checkpoint-") for name in os.listdir(CHECKPOINTS))
    trainer.train(resume_from_checkpoint=saved)
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(build_parser().parse_args())
