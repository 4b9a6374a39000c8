"""Fine-tune a language model with LoRA, the whole frozen model on every GPU.

Started by torchrun, one process per GPU. The channel `weights` holds the model as Hugging Face saves
it, the channel `train` JSON lines with the keys `prompt` and `answer`. The adapter alone is saved.
"""

import argparse
import glob
import importlib
import os


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--sequence-length", type=int, required=True)
    p.add_argument("--micro-batch", type=int, required=True)
    p.add_argument("--accumulation", type=int, default=1)
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--schedule", choices=("cosine", "linear", "constant"), default="cosine")
    p.add_argument("--warmup", type=float, default=0.03, help="fraction of the steps")
    p.add_argument("--seed", type=int, default=4711)
    return p


CHECKPOINTS = "/opt/ml/checkpoints"
# What jobs/finetune.kdl says in `adapter "lora"`, in this library's names.
ADAPTER = {
    "r": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.05,
    "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"],
}


def need(module, where="part of the Hugging Face image"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def channel(name):
    return os.environ.get("SM_CHANNEL_" + name.upper(), "/opt/ml/input/data/" + name)


def encode(row, tokenizer, length):
    """Prompt and answer in one row; the loss counts the answer only."""
    prompt = tokenizer(row["prompt"] + "\n").input_ids
    answer = tokenizer(row["answer"], add_special_tokens=False).input_ids + [tokenizer.eos_token_id]
    ids = (prompt + answer)[:length]
    labels = ([-100] * len(prompt) + answer)[:length]
    blank = length - len(ids)
    return {
        "input_ids": ids + [tokenizer.eos_token_id] * blank,
        "attention_mask": [1] * len(ids) + [0] * blank,
        "labels": labels + [-100] * blank,
    }


def newest_checkpoint():
    """The newest complete checkpoint: the trainer writes trainer_state.json late."""
    states = glob.glob(os.path.join(CHECKPOINTS, "checkpoint-*", "trainer_state.json"))
    return max((os.path.dirname(s) for s in states), key=lambda d: int(d.rsplit("-", 1)[1]), default=None)


def main(args):
    torch = need("torch")
    transformers = need("transformers")
    datasets = need("datasets")
    peft = need("peft", "listed in requirements.txt")
    if not torch.cuda.is_available():
        raise SystemExit("this script needs NVIDIA GPUs, and none is visible")
    transformers.set_seed(args.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(channel("weights"))
    rows = datasets.load_dataset("json", data_files=os.path.join(channel("train"), "*.jsonl"), split="train")
    rows = rows.map(
        encode, fn_kwargs={"tokenizer": tokenizer, "length": args.sequence_length}, remove_columns=rows.column_names
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        channel("weights"), dtype=torch.bfloat16, attn_implementation="sdpa", use_cache=False
    )
    model.enable_input_require_grads()
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **ADAPTER))
    trainer = transformers.Trainer(
        model=model,
        train_dataset=rows,
        data_collator=transformers.default_data_collator,
        args=transformers.TrainingArguments(
            output_dir=CHECKPOINTS,
            num_train_epochs=args.epochs,
            per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=args.accumulation,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            bf16=True,
            learning_rate=args.lr,
            lr_scheduler_type=args.schedule,
            warmup_ratio=args.warmup,
            logging_steps=10,
            save_steps=200,
            save_total_limit=3,
            seed=args.seed,
            report_to="none",
        ),
    )
    trainer.train(resume_from_checkpoint=newest_checkpoint())
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(build_parser().parse_args())
