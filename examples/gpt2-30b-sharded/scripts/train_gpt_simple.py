"""Pre-train a GPT-2 style model with sharded data parallelism (SageMaker model parallel v1).

Started by MPI, one process per GPU. The library reads its own settings from the job; the arguments
below describe the model, the data and the schedule. Tokens come as .npy matrices (or .npz with the
key `input_ids`, under --zipped_data 1): one row per sequence, at least --max_context_width wide.
"""

import argparse
import glob
import importlib
import os
import time


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    model = p.add_argument_group("model")
    model.add_argument("--max_context_width", type=int, required=True, help="sequence length in tokens")
    model.add_argument("--hidden_width", type=int, required=True)
    model.add_argument("--num_layers", type=int, required=True)
    model.add_argument("--num_heads", type=int, required=True)
    train = p.add_argument_group("training")
    train.add_argument("--max_steps", type=int, required=True)
    train.add_argument("--epochs", type=int, default=1, help="passes over the data at most")
    train.add_argument("--seed", type=int, default=12345)
    train.add_argument("--fp16", type=int, choices=(0, 1), default=0)
    train.add_argument("--bf16", type=int, choices=(0, 1), default=1)
    train.add_argument("--train_batch_size", type=int, required=True, help="sequences per GPU and pass")
    train.add_argument("--gradient_accumulation", type=int, default=1)
    train.add_argument("--val_batch_size", type=int, default=4)
    train.add_argument("--lr", type=float, required=True)
    train.add_argument("--min_lr", type=float, default=0.0)
    train.add_argument("--lr-decay-style", choices=("linear", "constant"), default="linear")
    train.add_argument("--lr_decay_iters", type=int, default=None)
    train.add_argument("--warmup", type=float, default=0.01, help="fraction of lr_decay_iters")
    layout = p.add_argument_group("layout, as the library was told")
    layout.add_argument("--sharded_data_parallel_degree", type=int, required=True)
    layout.add_argument("--delayed_param", type=int, choices=(0, 1), default=1)
    layout.add_argument("--offload_activations", type=int, choices=(0, 1), default=0)
    layout.add_argument("--activation_loading_horizon", type=int, default=4)
    layout.add_argument("--mp_parameters", help="the library's own settings; it reads them from the environment")
    files = p.add_argument_group("files")
    files.add_argument("--training-dir", required=True)
    files.add_argument("--test-dir", required=True)
    files.add_argument("--checkpoint-dir", required=True)
    files.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
    files.add_argument("--zipped_data", type=int, choices=(0, 1), default=0)
    files.add_argument("--num_kept_checkpoints", type=int, default=5)
    files.add_argument("--checkpoint_freq", type=int, default=200, help="steps")
    files.add_argument("--validation_freq", type=int, default=200, help="steps")
    files.add_argument("--logging_freq", type=int, default=1, help="steps")
    files.add_argument("--save_final_full_model", type=int, choices=(0, 1), default=0)
    return p


def need(module, where):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def learning_rate(step, args):
    """Linear warm-up, then linear decay to --min_lr, or constant."""
    horizon = args.lr_decay_iters or args.max_steps
    warm = max(1, round(args.warmup * horizon))
    if step < warm:
        return args.lr * (step + 1) / warm
    if args.lr_decay_style == "constant":
        return args.lr
    left = max(0.0, (horizon - step) / max(1, horizon - warm))
    return args.min_lr + (args.lr - args.min_lr) * left


def batches(directory, rows, rank, world, width, zipped, epochs=1, skip=0):
    """Yield arrays of `rows` sequences; data-parallel rank r of w reads rows r, r + w, r + 2w, …

    All ranks get the same number of batches: what does not divide by the ranks is left out.
    """
    np = need("numpy", "part of the training image")
    files = sorted(glob.glob(os.path.join(directory, "*.npz" if zipped else "*.npy")))
    if not files:
        raise SystemExit(f"no token files in {directory}")
    batch, seen = [], 0
    for file in files * epochs:
        matrix = np.load(file)["input_ids"] if zipped else np.load(file, mmap_mode="r")
        for row in range(rank, len(matrix) // world * world, world):
            seen += 1
            if seen <= skip * rows:
                continue
            batch.append(matrix[row, :width])
            if len(batch) == rows:
                yield np.stack(batch).astype("int64")
                batch = []


def build_model(args, smp, torch):
    transformers = need("transformers", "listed in requirements.txt")
    config = transformers.GPT2Config(
        n_positions=args.max_context_width, n_embd=args.hidden_width,
        n_layer=args.num_layers, n_head=args.num_heads, use_cache=False,
    )
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else torch.float32
    with smp.model_creation(tensor_parallelism=False, dtype=dtype), smp.delay_param_initialization(
        enabled=bool(args.delayed_param)
    ):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model = smp.DistributedModel(model, trace_device="gpu", backward_passes_per_step=args.gradient_accumulation)
    for module in model.modules():
        if type(module).__name__ == "GPT2Block":
            smp.set_activation_checkpointing(module)
    decayed = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    plain = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return model, smp.DistributedOptimizer(torch.optim.AdamW(groups, lr=args.lr))


def train(args):
    torch = need("torch", "part of the training image")
    smp = need("smdistributed.modelparallel.torch", "part of the SageMaker PyTorch image")
    smp.init()
    torch.cuda.set_device(smp.local_rank())
    torch.manual_seed(args.seed)
    degree = smp.state.cfg.sharded_data_parallel_degree
    if degree != args.sharded_data_parallel_degree:
        raise SystemExit(f"the library shards over {degree} GPUs, the arguments say {args.sharded_data_parallel_degree}")
    model, optimizer = build_model(args, smp, torch)

    @smp.step
    def train_step(model, tokens):
        loss = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)["loss"]
        model.backward(loss)
        return loss

    @smp.step
    def test_step(model, tokens):
        return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)["loss"]

    step = 0
    if os.path.isdir(args.checkpoint_dir) and any(n.endswith("_partial") for n in os.listdir(args.checkpoint_dir)):
        step = smp.resume_from_checkpoint(args.checkpoint_dir, partial=True)["step"]
    rank, world, width = smp.dp_rank(), smp.dp_size(), args.max_context_width
    clock, passes, skip = time.time(), 0, step * args.gradient_accumulation
    data = batches(args.training_dir, args.train_batch_size, rank, world, width, args.zipped_data, args.epochs, skip)
    while step < args.max_steps:
        rows = next(data, None)
        if rows is None:
            break
        loss = train_step(model, torch.from_numpy(rows).cuda())
        passes += 1
        if passes % args.gradient_accumulation:
            continue
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % args.logging_freq == 0 and smp.rank() == 0:
            samples = args.logging_freq * args.train_batch_size * args.gradient_accumulation * world
            speed, clock = samples / (time.time() - clock), time.time()
            print(f"step={step} loss={loss.reduce_mean().item():.4f} samples_per_second={speed:.2f}", flush=True)
        if step % args.validation_freq == 0:
            held_out = next(batches(args.test_dir, args.val_batch_size, rank, world, width, args.zipped_data))
            with torch.no_grad():
                validation = test_step(model, torch.from_numpy(held_out).cuda()).reduce_mean().item()
            if smp.rank() == 0:
                print(f"step={step} validation_loss={validation:.4f}", flush=True)
        if step % args.checkpoint_freq == 0:
            smp.save_checkpoint(
                args.checkpoint_dir, tag=f"step{step}", partial=True, model=model, optimizer=optimizer,
                user_content={"step": step}, num_kept_partial_checkpoints=args.num_kept_checkpoints,
            )
    if args.save_final_full_model:
        smp.save_checkpoint(args.model_dir, tag="model.pt", partial=False, model=model)
    smp.barrier()


if __name__ == "__main__":
    train(build_parser().parse_args())
