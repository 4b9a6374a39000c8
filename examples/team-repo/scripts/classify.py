"""Train a text classifier on one GPU and measure it on held-out text.

The channels `train` and `test` hold JSON lines with the keys `text` and `label`, a number from 0 up.
"""

import argparse
import glob
import importlib
import os


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True)
    p.add_argument("--labels", type=int, required=True, help="number of classes")
    p.add_argument("--sequence-length", type=int, required=True)
    p.add_argument("--micro-batch", type=int, required=True)
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--schedule", choices=("cosine", "linear", "constant"), default="linear")
    p.add_argument("--warmup", type=float, default=0.06, help="fraction of the steps")
    p.add_argument("--seed", type=int, default=4711)
    return p


CHECKPOINTS = "/opt/ml/checkpoints"


def need(module, where="part of the Hugging Face image"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def load(name, tokenizer, length):
    directory = os.environ.get("SM_CHANNEL_" + name.upper(), "/opt/ml/input/data/" + name)
    rows = need("datasets").load_dataset("json", data_files=os.path.join(directory, "*.jsonl"), split="train")
    return rows.map(lambda batch: tokenizer(batch["text"], max_length=length, truncation=True), batched=True)


def newest_checkpoint():
    """The newest complete checkpoint: the trainer writes trainer_state.json late."""
    states = glob.glob(os.path.join(CHECKPOINTS, "checkpoint-*", "trainer_state.json"))
    return max((os.path.dirname(s) for s in states), key=lambda d: int(d.rsplit("-", 1)[1]), default=None)


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main(args):
    torch, transformers = need("torch"), need("transformers")
    transformers.set_seed(args.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=args.labels)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=CHECKPOINTS,
            num_train_epochs=args.epochs,
            per_device_train_batch_size=args.micro_batch,
            per_device_eval_batch_size=2 * args.micro_batch,
            bf16=torch.cuda.is_available(),
            learning_rate=args.lr,
            lr_scheduler_type=args.schedule,
            warmup_ratio=args.warmup,
            logging_steps=50,
            save_steps=200,
            save_total_limit=3,
            seed=args.seed,
            report_to="none",
        ),
        train_dataset=load("train", tokenizer, args.sequence_length),
        processing_class=tokenizer,
        compute_metrics=accuracy,
    )
    trainer.train(resume_from_checkpoint=newest_checkpoint())
    scores = trainer.evaluate(load("test", tokenizer, args.sequence_length))
    print(f"test_accuracy={scores['eval_accuracy']:.4f}", flush=True)
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(build_parser().parse_args())
