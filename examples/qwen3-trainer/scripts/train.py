"""Fine-tune a causal language model with the Hugging Face Trainer; PyTorch's FSDP shards it over all GPUs.

torchrun starts one process for each GPU. The channel has JSON lines with a column `messages`, a list of turns with
`role` and `content`. Training resumes from the newest checkpoint, and the whole model is saved at the end.
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
    p.add_argument("--warmup", type=float, required=True, help="fraction of the steps")
    p.add_argument("--seed", type=int, required=True)
    return p


# `parallel engine="fsdp"` of the manifest, in this library's names.
FSDP = {
    "version": 2,
    "reshard_after_forward": True,
    "transformer_layer_cls_to_wrap": ["Qwen3DecoderLayer"],
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


def load_rows(folder, tokenizer, sequence_length):
    """Tokenizes conversations; longer ones are cut."""
    files = sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith((".jsonl", ".json")))
    rows = need("datasets").load_dataset("json", data_files=files, split="train")

    def tokens(row):
        text = tokenizer.apply_chat_template(row["messages"], tokenize=False)
        return tokenizer(text, truncation=True, max_length=sequence_length)

    return rows.map(tokens, remove_columns=rows.column_names)


def main(args):
    torch, transformers = need("torch"), need("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    # The optimizer works on fp32 weights; FSDP computes in bf16.
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32, use_cache=False)
    trainer = transformers.Trainer(
        model=model,
        train_dataset=load_rows(
            os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train"), tokenizer, args.sequence_length
        ),
        data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False),
        args=transformers.TrainingArguments(
            output_dir=CHECKPOINTS,
            per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=args.accumulation,
            max_steps=args.steps,
            learning_rate=args.lr,
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
    # Checkpoints are sharded; the model at the end is one.
    trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(build_parser().parse_args())
