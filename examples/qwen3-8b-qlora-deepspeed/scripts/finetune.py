"""Fine-tune a causal language model in 4 bits with low-rank adapters under DeepSpeed.

torchrun starts one process for each GPU, and the Trainer reads the configuration of DeepSpeed that trainc wrote. The
channel has JSON lines with a column `text`. Training resumes from the newest checkpoint, and the adapter is saved at the
end.
"""

import dataclasses
import importlib
import os


@dataclasses.dataclass
class Arguments:
    """What the manifest passes in addition to the arguments of the Trainer."""

    model: str
    data: str
    max_length: int
    lora_r: int
    lora_alpha: int


def need(module, where="listed in requirements.txt"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def build_parser():
    transformers = need("transformers")
    parser = transformers.HfArgumentParser((Arguments, transformers.TrainingArguments))
    parser.set_defaults(
        output_dir="/opt/ml/checkpoints",
        gradient_checkpointing_kwargs={"use_reentrant": False},
        logging_steps=5,
        save_total_limit=2,
        report_to=["none"],
    )
    return parser


def load_model(args):
    """`quantize "nf4" double=#true compute="bf16"` of the manifest, on the GPU of this rank."""
    torch = need("torch", "part of the training image")
    transformers, peft = need("transformers"), need("peft")
    need("bitsandbytes")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model,
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
    adapter = peft.LoraConfig(
        task_type="CAUSAL_LM", r=args.lora_r, lora_alpha=args.lora_alpha, target_modules="all-linear"
    )
    return peft.get_peft_model(model, adapter)


def load_rows(args, tokenizer):
    rows = need("datasets").load_dataset(args.data, split="train")
    return rows.map(
        lambda row: tokenizer(row["text"], truncation=True, max_length=args.max_length),
        remove_columns=rows.column_names,
    )


def main(args, training):
    transformers = need("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    trainer = transformers.Trainer(
        model=load_model(args),
        args=training,
        train_dataset=load_rows(args, tokenizer),
        data_collator=transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False),
    )
    utils = need("transformers.trainer_utils")
    trainer.train(resume_from_checkpoint=utils.get_last_checkpoint(training.output_dir))
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(*build_parser().parse_args_into_dataclasses())
