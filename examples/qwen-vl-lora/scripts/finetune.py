"""Fine-tune a vision-language model with low-rank adapters, one copy of the model on each GPU.

The channel has `metadata.jsonl` with the columns `file_name`, `question` and `answer`, beside the pictures that it names.
Only the language model is adapted; the vision tower stays as it is. Training resumes from the newest checkpoint.
"""

import argparse
import importlib
import os


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True)
    p.add_argument("--max_length", type=int, required=True)
    p.add_argument("--micro_batch", type=int, required=True)
    p.add_argument("--accumulation", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--warmup", type=float, required=True)
    p.add_argument("--seed", type=int, required=True)
    return p


# What the manifest says in `adapter "lora"`, in this library's names. The vision tower has other names: qkv and proj.
ADAPTER = {
    "r": 16,
    "lora_alpha": 32,
    "lora_dropout": 0.05,
    "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"],
}
CHECKPOINTS = "/opt/ml/checkpoints"


def need(module, where="listed in requirements.txt"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


class Collator:
    """Turns rows with a picture, a question and an answer into a batch; only the answer counts in the loss."""

    def __init__(self, processor, max_length):
        self.processor, self.max_length = processor, max_length

    def messages(self, row, with_answer):
        question = [{"type": "image"}, {"type": "text", "text": row["question"]}]
        out = [{"role": "user", "content": question}]
        if with_answer:
            out.append({"role": "assistant", "content": [{"type": "text", "text": row["answer"]}]})
        return out

    def encode(self, rows, with_answer):
        texts = [
            self.processor.apply_chat_template(
                self.messages(row, with_answer), tokenize=False, add_generation_prompt=not with_answer
            )
            for row in rows
        ]
        images = [row["image"].convert("RGB") for row in rows]
        return self.processor(
            text=texts, images=images, padding=True, padding_side="right", return_tensors="pt"
        )

    def __call__(self, rows):
        batch = self.encode(rows, True)
        if batch["input_ids"].shape[1] > self.max_length:
            raise ValueError(f"a row has {batch['input_ids'].shape[1]} tokens, more than {self.max_length}")
        labels = batch["input_ids"].clone()
        labels[batch["attention_mask"] == 0] = -100
        for at, length in enumerate(self.encode(rows, False)["attention_mask"].sum(dim=1).tolist()):
            labels[at, :length] = -100
        batch["labels"] = labels
        return batch


def main(args):
    torch = need("torch", "part of the training image")
    transformers, peft, datasets = need("transformers"), need("peft"), need("datasets")
    processor = transformers.AutoProcessor.from_pretrained(args.model)
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        args.model, dtype=torch.bfloat16, attn_implementation="flash_attention_2"
    )
    model.enable_input_require_grads()
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", bias="none", **ADAPTER))
    rows = datasets.load_dataset(
        "imagefolder", data_dir=os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train"), split="train"
    )
    trainer = transformers.Trainer(
        model=model,
        train_dataset=rows,
        data_collator=Collator(processor, args.max_length),
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
            remove_unused_columns=False,
            ddp_find_unused_parameters=False,
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
