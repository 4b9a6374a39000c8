"""Pre-train a GPT-2 style model at a short sequence length with sharded data parallelism (SMP v1).

Started by MPI, one process per GPU. Tokens come as .npy matrices in the channels `train` and `test`, one
row per sequence. Every CHECKPOINT_EVERY steps each rank saves its shard, and the newest checkpoint is
resumed when the job is started again.
"""

import argparse
import glob
import importlib
import os
import time


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("hidden", "layers", "heads", "vocab", "sequence-length"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--shard-degree", type=int, required=True, help="GPUs that share one copy of the model state")
    p.add_argument("--micro-batch", type=int, required=True, help="sequences per GPU and pass")
    p.add_argument("--accumulation", type=int, default=1, help="passes per optimizer step")
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--min-lr", type=float, default=0.0)
    p.add_argument("--warmup", type=float, default=0.01, help="fraction of the steps")
    p.add_argument("--seed", type=int, default=12345)
    p.add_argument("--checkpoint-dir", default="/opt/ml/checkpoints")
    p.add_argument("--mp_parameters", help="the library's own settings; it reads them from the environment")
    return p


CHECKPOINT_EVERY, CHECKPOINTS_KEPT = 200, 3  # `checkpoint` of the manifest


def need(module, where):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def learning_rate(step, args):
    """Linear warm-up over a fraction of the steps, then linear decay to --min-lr."""
    warm = max(1, round(args.warmup * args.steps))
    if step < warm:
        return args.lr * (step + 1) / warm
    left = max(0.0, (args.steps - step) / max(1, args.steps - warm))
    return args.min_lr + (args.lr - args.min_lr) * left


def batches(channel, rows, rank, world, width, skip=0):
    """Yield arrays of `rows` sequences for ever, the ranks taking turns; `skip` batches are left out."""
    np = need("numpy", "part of the training image")
    directory = os.environ.get("SM_CHANNEL_" + channel.upper(), "/opt/ml/input/data/" + channel)
    matrices = [np.load(file, mmap_mode="r") for file in sorted(glob.glob(os.path.join(directory, "*.npy")))]
    total = sum(len(m) for m in matrices)
    if total < rows * world:
        raise SystemExit(f"fewer than {rows * world} sequences in {directory}")

    def sequence(at):
        for matrix in matrices:
            if at < len(matrix):
                return matrix[at, :width]
            at -= len(matrix)

    at = skip * rows * world + rank * rows
    while True:
        yield np.stack([sequence((at + i) % total) for i in range(rows)]).astype("int64")
        at += rows * world


def build_model(args, smp, torch):
    transformers = need("transformers", "listed in requirements.txt")
    config = transformers.GPT2Config(
        vocab_size=args.vocab, n_positions=args.sequence_length, n_embd=args.hidden,
        n_layer=args.layers, n_head=args.heads, use_cache=False,
    )
    with smp.model_creation(tensor_parallelism=False, dtype=torch.bfloat16), smp.delay_param_initialization():
        model = transformers.AutoModelForCausalLM.from_config(config)
    model = smp.DistributedModel(model, trace_device="gpu", backward_passes_per_step=args.accumulation)
    for module in model.modules():
        if type(module).__name__ == "GPT2Block":
            smp.set_activation_checkpointing(module)
    return model, smp.DistributedOptimizer(torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01))


def train(args):
    torch = need("torch", "part of the training image")
    smp = need("smdistributed.modelparallel.torch", "part of the SageMaker PyTorch image")
    smp.init()
    torch.cuda.set_device(smp.local_rank())
    torch.manual_seed(args.seed)
    degree = smp.state.cfg.sharded_data_parallel_degree
    if degree != args.shard_degree:
        raise SystemExit(f"the library shards over {degree} GPUs, the arguments say {args.shard_degree}")
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
    rank, world = smp.dp_rank(), smp.dp_size()
    data = batches("train", args.micro_batch, rank, world, args.sequence_length, skip=step * args.accumulation)
    while step < args.steps:
        start = time.time()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        for _ in range(args.accumulation):
            loss = train_step(model, torch.from_numpy(next(data)).cuda()).reduce_mean()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if smp.rank() == 0:
            speed = args.micro_batch * args.accumulation * world / (time.time() - start)
            print(f"step={step} loss={loss.item():.4f} samples_per_second={speed:.2f}", flush=True)
        if step % CHECKPOINT_EVERY == 0 or step == args.steps:
            tokens = next(batches("test", args.micro_batch, rank, world, args.sequence_length))
            with torch.no_grad():
                held_out = test_step(model, torch.from_numpy(tokens).cuda()).reduce_mean().item()
            if smp.rank() == 0:
                print(f"step={step} held_out={held_out:.4f}", flush=True)
            smp.save_checkpoint(
                args.checkpoint_dir, tag=f"step{step}", partial=True, model=model, optimizer=optimizer,
                user_content={"step": step}, num_kept_partial_checkpoints=CHECKPOINTS_KEPT,
            )
    smp.barrier()


if __name__ == "__main__":
    train(build_parser().parse_args())
