"""Fine-tune a 20-billion-parameter chat model with PyTorch FSDP through the Hugging Face trainer.

Started by torchrun, one process per GPU. Weights, gradients and optimizer state are sharded over all
GPUs; each transformer block is one unit that is gathered, used and freed.
"""

import argparse
import importlib
import os


def truth(text):
    """Booleans arrive as the words True and False."""
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"expected True or False, found {text!r}")
    return known[text.lower()]


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model_id", required=True)
    p.add_argument("--dataset_path", default=os.environ.get("SM_CHANNEL_TRAINING", "/opt/ml/input/data/training"))
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--per_device_train_batch_size", type=int, required=True)
    p.add_argument("--gradient_checkpointing", type=truth, default=True)
    p.add_argument("--bf16", type=truth, default=True)
    p.add_argument("--optimizer", default="adamw_apex_fused", help="a name that the trainer knows")
    p.add_argument("--fsdp", required=True, help='one argument with a blank: "full_shard auto_wrap"')
    p.add_argument("--fsdp_transformer_layer_cls_to_wrap", required=True)
    return p


def need(module, where):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def main(args):
    need("torch", "part of the training image")
    transformers = need("transformers", "part of the Hugging Face image")
    datasets = need("datasets", "part of the Hugging Face image")
    if args.optimizer == "adamw_apex_fused":
        need("apex", "part of the Hugging Face image")
    transformers.set_seed(42)
    # The channel holds rows of 2048 tokens with the columns input_ids, attention_mask and labels.
    rows = datasets.load_from_disk(args.dataset_path)
    settings = transformers.TrainingArguments(
        output_dir="/tmp/neox",
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.per_device_train_batch_size,
        gradient_checkpointing=args.gradient_checkpointing,
        bf16=args.bf16,
        optim=args.optimizer,
        fsdp=args.fsdp,
        fsdp_transformer_layer_cls_to_wrap=args.fsdp_transformer_layer_cls_to_wrap,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model_id,
        # The cache of past keys is of no use in training and cannot be kept under recomputation.
        use_cache=not args.gradient_checkpointing,
        low_cpu_mem_usage=True,
    )
    trainer = transformers.Trainer(
        model=model, args=settings, train_dataset=rows, data_collator=transformers.default_data_collator
    )
    trainer.train()
    # All ranks take part: the weights are gathered from the shards, the first rank writes them.
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
    if trainer.is_world_process_zero():
        tokenizer = transformers.AutoTokenizer.from_pretrained(args.model_id)
        tokenizer.save_pretrained(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(build_parser().parse_args())
