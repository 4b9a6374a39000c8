"""Fine-tune a causal language model in 4 bits with low-rank adapters, one copy of the model on each GPU.

torchrun starts one process for each GPU; the gradients of the adapters are averaged over all of them. The channel has
JSON lines with a column `text`. Training resumes from the newest checkpoint, and the adapter is saved at the end.
"""

import argparse
import importlib
import os


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True)
    p.add_argument("--data", default=os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train"))
    p.add_argument("--max_length", type=int, required=True)
    p.add_argument("--micro_batch", type=int, required=True)
    p.add_argument("--accumulation", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--warmup", type=float, required=True)
    p.add_argument("--seed", type=int, required=True)
    return p


# What the manifest says in `adapter "lora"`, in this library's names.
ADAPTER = {
    "r": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.05,
    "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}
CHECKPOINTS = "/opt/ml/checkpoints"


def need(module, where="listed in requirements.txt"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def load_model(name, torch, transformers, peft):
    """`quantize "nf4" double=#true compute="bf16"` of the manifest, on the GPU of this rank."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        name,
        dtype=torch.bfloat16,
        attn_implementation="flash_attention_2",
        device_map={"": int(os.environ["LOCAL_RANK"])},
        quantization_config=transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        ),
    )
    model = peft.prepare_model_for_kbit_training(
        model, use_gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False}
    )
    return peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", bias="none", **ADAPTER))


def load_rows(folder, tokenizer, max_length, datasets):
    files = sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith((".jsonl", ".json")))
    rows = datasets.load_dataset("json", data_files=files, split="train")
    return rows.map(
        lambda row: tokenizer(row["text"], truncation=True, max_length=max_length), remove_columns=rows.column_names
    )


def main(args):
    torch = need("torch", "part of the training image")
    transformers, peft, datasets = need("transformers"), need("peft"), need("datasets")
    need("bitsandbytes")
    if not torch.cuda.is_available():
        raise SystemExit("4-bit loading needs NVIDIA GPUs, and none is visible")
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    trainer = transformers.Trainer(
        model=load_model(args.model, torch, transformers, peft),
        train_dataset=load_rows(args.data, tokenizer, args.max_length, datasets),
        data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False),
        args=transformers.TrainingArguments(
            output_dir=CHECKPOINTS,
            per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=args.accumulation,
            max_steps=args.steps,
            learning_rate=args.lr,
            warmup_steps=int(args.warmup * args.steps),
            lr_scheduler_type="cosine",
            optim="paged_adamw_8bit",
            bf16=True,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            logging_steps=5,
            save_steps=50,
            save_total_limit=2,
            ddp_find_unused_parameters=False,
            report_to=[],
            seed=args.seed,
        ),
    )
    saved = os.path.isdir(CHECKPOINTS) and any(name.startswith("checkpoint-") for name in os.listdir(CHECKPOINTS))
    trainer.train(resume_from_checkpoint=saved)
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(build_parser().parse_args())
