"""Fine-tune a causal language model with low-rank adapters on one GPU, with the libraries of the team's own image.

The channel has JSON lines with a column `messages`, a list of turns with `role` and `content`. Training resumes from the
newest checkpoint, and the adapter is saved at the end.
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


# What the manifest says in `adapter "lora"`, in this library's names.
ADAPTER = {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}
CHECKPOINTS = "/opt/ml/checkpoints"


def need(module, where="part of the team's image"):
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
    torch, transformers, peft = need("torch"), need("transformers"), need("peft")
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16, use_cache=False)
    # With a frozen base, a recomputed layer has a gradient only if its input has one.
    model.enable_input_require_grads()
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", bias="none", **ADAPTER))
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
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            logging_steps=5,
            save_steps=50,
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
