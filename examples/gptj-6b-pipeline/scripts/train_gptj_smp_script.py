"""Fine-tune GPT-J 6B over eight pipeline stages (SageMaker model parallel v1).

Started by MPI, one process per GPU. The library traces the model, cuts it into stages and runs several
micro-batches at a time through them: the script hands it one batch, which it splits itself.
"""

import argparse
import importlib


def truth(text):
    """Booleans arrive as the words True and False, or as 0 and 1."""
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"expected True or False, found {text!r}")
    return known[text.lower()]


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = p.add_argument_group("model and data")
    data.add_argument("--model_name_or_path", required=True)
    data.add_argument("--dataset_name", required=True)
    data.add_argument("--dataset_config_name", default=None)
    data.add_argument("--load_from_s3", type=truth, default=False, help="read the channel `train` instead of the hub")
    data.add_argument("--cache_dir", default="/tmp")
    data.add_argument("--output_dir", default="./temp")
    train = p.add_argument_group("training")
    train.add_argument("--do_train", type=truth, default=True)
    train.add_argument("--do_eval", type=truth, default=False)
    train.add_argument("--max_steps", type=int, required=True)
    train.add_argument("--per_device_train_batch_size", type=int, required=True, help="before the pipeline's split")
    train.add_argument("--seed", type=int, default=12345)
    train.add_argument("--lr", type=float, required=True)
    train.add_argument("--min_lr", type=float, default=0.0)
    train.add_argument("--lr_decay_iters", type=int, default=None)
    train.add_argument("--warmup", type=float, default=0.01, help="fraction of lr_decay_iters")
    train.add_argument("--save_final_full_model", type=int, choices=(0, 1), default=0)
    layout = p.add_argument_group("layout")
    layout.add_argument("--pipeline_parallel_degree", type=int, required=True)
    layout.add_argument("--tensor_parallel_degree", type=int, default=1)
    layout.add_argument("--ddp", type=truth, default=True)
    layout.add_argument("--prescaled_batch", type=int, choices=(0, 1), default=0)
    layout.add_argument("--shard_optimizer_state", type=int, choices=(0, 1), default=1)
    layout.add_argument("--optimize", choices=("speed", "memory"), default="memory")
    layout.add_argument("--activation_checkpointing", type=int, choices=(0, 1), default=1)
    layout.add_argument("--activation_strategy", default="each")
    layout.add_argument("--mp_parameters", help="the library's own settings; it reads them from the environment")
    return p


SEQUENCE_LENGTH = 128  # `sequence-length` of the manifest
CHANNEL = "/opt/ml/input/data/train"


def need(module, where):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def learning_rate(step, args):
    """Linear warm-up, then linear decay to --min_lr."""
    horizon = args.lr_decay_iters or args.max_steps
    warm = max(1, round(args.warmup * horizon))
    if step < warm:
        return args.lr * (step + 1) / warm
    left = max(0.0, (horizon - step) / max(1, horizon - warm))
    return args.min_lr + (args.lr - args.min_lr) * left


def load_split(split, args):
    """Token rows of one fixed length; the pipeline needs equal shapes."""
    datasets = need("datasets", "part of the Hugging Face image")
    transformers = need("transformers", "part of the Hugging Face image")
    if args.load_from_s3:
        rows = datasets.load_from_disk(CHANNEL)[split]
    else:
        rows = datasets.load_dataset(args.dataset_name, args.dataset_config_name, split=split, cache_dir=args.cache_dir)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model_name_or_path, cache_dir=args.cache_dir)
    tokenizer.pad_token = tokenizer.eos_token
    text = next(name for name, kind in rows.features.items() if getattr(kind, "dtype", None) == "string")

    def encode(batch):
        return tokenizer(batch[text], max_length=SEQUENCE_LENGTH, padding="max_length", truncation=True)

    rows = rows.map(encode, batched=True, remove_columns=rows.column_names)
    rows.set_format("torch", columns=["input_ids", "attention_mask"])
    return rows


def loader(rows, args, smp, torch):
    sampler = torch.utils.data.distributed.DistributedSampler(
        rows, num_replicas=smp.dp_size(), rank=smp.dp_rank(), shuffle=True, seed=args.seed
    )
    return torch.utils.data.DataLoader(
        rows, batch_size=args.per_device_train_batch_size, sampler=sampler, drop_last=True, pin_memory=True
    )


def main(args):
    torch = need("torch", "part of the training image")
    smp = need("smdistributed.modelparallel.torch", "part of the SageMaker Hugging Face image")
    transformers = need("transformers", "part of the Hugging Face image")
    smp.init()
    torch.cuda.set_device(smp.local_rank())
    torch.manual_seed(args.seed)
    if smp.pp_size() != args.pipeline_parallel_degree:
        raise SystemExit(f"the library runs {smp.pp_size()} stages, the arguments say {args.pipeline_parallel_degree}")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model_name_or_path, cache_dir=args.cache_dir, low_cpu_mem_usage=True
    )
    model.config.use_cache = False
    model = smp.DistributedModel(model)
    if args.activation_checkpointing:
        for module in model.modules():
            if type(module).__name__ == "GPTJBlock":
                smp.set_activation_checkpointing(module)
    optimizer = smp.DistributedOptimizer(torch.optim.AdamW(model.parameters(), lr=args.lr))

    @smp.step
    def train_step(model, input_ids, attention_mask):
        labels = input_ids.masked_fill(attention_mask == 0, -100)
        loss = model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)["loss"]
        model.backward(loss)
        return loss

    @smp.step
    def test_step(model, input_ids, attention_mask):
        labels = input_ids.masked_fill(attention_mask == 0, -100)
        return model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)["loss"]

    if args.do_train:
        batches, epoch, step = loader(load_split("train", args), args, smp, torch), 0, 0
        while step < args.max_steps:
            batches.sampler.set_epoch(epoch)
            epoch += 1
            for batch in batches:
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(step, args)
                optimizer.zero_grad()
                loss = train_step(model, batch["input_ids"].cuda(), batch["attention_mask"].cuda()).reduce_mean()
                optimizer.step()
                step += 1
                if smp.rank() == 0:
                    print(f"step={step} loss={loss.item():.4f}", flush=True)
                if step == args.max_steps:
                    break
    if args.do_eval:
        with torch.no_grad():
            losses = [
                test_step(model, batch["input_ids"].cuda(), batch["attention_mask"].cuda()).reduce_mean().item()
                for batch in loader(load_split("validation", args), args, smp, torch)
            ]
        if smp.rank() == 0:
            print(f"validation_loss={sum(losses) / len(losses):.4f}", flush=True)
    if args.save_final_full_model:
        smp.save_checkpoint(args.output_dir, tag="gptj.pt", partial=False, model=model)
    smp.barrier()


if __name__ == "__main__":
    main(build_parser().parse_args())
