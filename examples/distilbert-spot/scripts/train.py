"""Classify film reviews with DistilBERT on a spot instance.

The instance may be taken away at any time. SageMaker copies --output_dir to S3 while the job runs and
back before it restarts, so this script begins at the newest complete checkpoint that it finds there.
"""

import argparse
import importlib
import os
import re


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model_name", required=True)
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--train_batch_size", type=int, required=True)
    p.add_argument("--output_dir", default="/opt/ml/checkpoints", help="where checkpoints are kept")
    return p


LEARNING_RATE = 5e-5  # `lr` of the manifest
SAVE_EVERY = 100  # steps


def need(module, where):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit("missing library: %s (%s)" % (module, where)) from error


def newest_checkpoint(directory):
    """The newest complete checkpoint, or None.

    The trainer writes trainer_state.json after weights, optimizer and schedule: a directory without it
    was cut off by the interruption.
    """
    found = []
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        step = re.match(r"checkpoint-(\d+)$", name)
        path = os.path.join(directory, name)
        if step and os.path.isfile(os.path.join(path, "trainer_state.json")):
            found.append((int(step.group(1)), path))
    return max(found)[1] if found else None


def channel(name):
    return os.environ.get("SM_CHANNEL_" + name.upper(), "/opt/ml/input/data/" + name)


def accuracy(prediction):
    guesses = prediction.predictions.argmax(-1)
    return {"accuracy": float((guesses == prediction.label_ids).mean())}


def main(args):
    datasets = need("datasets", "part of the Hugging Face image")
    transformers = need("transformers", "part of the Hugging Face image")
    # The channels hold tokenized data sets, as `save_to_disk` writes them.
    train, test = (datasets.load_from_disk(channel(name)) for name in ("train", "test"))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(args.model_name)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=args.output_dir,
            num_train_epochs=args.epochs,
            per_device_train_batch_size=args.train_batch_size,
            per_device_eval_batch_size=2 * args.train_batch_size,
            learning_rate=LEARNING_RATE,
            save_steps=SAVE_EVERY,
            save_total_limit=2,
            logging_steps=50,
            evaluation_strategy="epoch",
        ),
        train_dataset=train,
        eval_dataset=test,
        tokenizer=transformers.AutoTokenizer.from_pretrained(args.model_name),
        compute_metrics=accuracy,
    )
    resume = newest_checkpoint(args.output_dir)
    print("starting from %s" % (resume or "the published weights"), flush=True)
    trainer.train(resume_from_checkpoint=resume)
    print("accuracy=%.4f" % trainer.evaluate()["eval_accuracy"], flush=True)
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(build_parser().parse_args())
