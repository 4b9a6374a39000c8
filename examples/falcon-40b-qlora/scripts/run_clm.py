"""Fine-tune Falcon 40B with QLoRA on the four GPUs of one instance.

One process: the 4-bit base model is laid over the GPUs layer by layer, and only the low-rank adapters
are trained. At the end the adapter alone is saved; it is a few hundred megabytes.
"""

import argparse
import importlib
import os


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model_id", required=True)
    p.add_argument("--dataset_path", default=os.environ.get("SM_CHANNEL_TRAINING", "/opt/ml/input/data/training"))
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--per_device_train_batch_size", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    return p


# What the manifest says in `adapter "lora"`, in this library's names.
ADAPTER = {
    "r": 64,
    "lora_alpha": 16,
    "lora_dropout": 0.1,
    "target_modules": ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"],
}


def need(module, where):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def load_base(model_id, torch, transformers):
    """`quantize "nf4" double=#true compute="bf16"` of the manifest; layers spread over all GPUs."""
    return transformers.AutoModelForCausalLM.from_pretrained(
        model_id,
        trust_remote_code=True,
        use_cache=False,
        device_map="auto",
        quantization_config=transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        ),
    )


def add_adapters(model, torch, peft):
    model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=True)
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", bias="none", **ADAPTER))
    for name, module in model.named_modules():
        if "lora_" in name:
            module.to(torch.bfloat16)
    model.print_trainable_parameters()
    return model


def main(args):
    torch = need("torch", "part of the training image")
    transformers = need("transformers", "listed in requirements.txt")
    need("bitsandbytes", "listed in requirements.txt")
    peft = need("peft", "listed in requirements.txt")
    datasets = need("datasets", "part of the Hugging Face image")
    if not torch.cuda.is_available():
        raise SystemExit("4-bit loading needs NVIDIA GPUs, and none is visible")
    transformers.set_seed(42)
    model = add_adapters(load_base(args.model_id, torch, transformers), torch, peft)
    trainer = transformers.Trainer(
        model=model,
        # The channel holds rows of 2048 tokens with the columns input_ids, attention_mask and labels.
        train_dataset=datasets.load_from_disk(args.dataset_path),
        data_collator=transformers.default_data_collator,
        args=transformers.TrainingArguments(
            output_dir="/tmp/falcon",
            num_train_epochs=args.epochs,
            per_device_train_batch_size=args.per_device_train_batch_size,
            learning_rate=args.lr,
            bf16=True,
            gradient_checkpointing=True,
            optim="paged_adamw_32bit",
            logging_steps=10,
            save_strategy="no",
            report_to="none",
        ),
    )
    trainer.train()
    target = os.environ.get("SM_MODEL_DIR", "/opt/ml/model")
    model.save_pretrained(target)
    transformers.AutoTokenizer.from_pretrained(args.model_id, trust_remote_code=True).save_pretrained(target)


if __name__ == "__main__":
    main(build_parser().parse_args())
