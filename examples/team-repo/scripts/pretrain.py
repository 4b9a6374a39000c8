"""Pre-train a GPT-2 model with PyTorch FSDP, sharded inside a node and replicated across nodes.

Started by torchrun, one process per GPU. Tokens come as .npy matrices in the channel `train`, one row
per sequence. The newest complete checkpoint is resumed.
"""

import argparse
import glob
import importlib
import math
import os
import shutil
import time


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True, help="Hugging Face id; only its configuration is read")
    p.add_argument("--replicas", type=int, required=True)
    p.add_argument("--shard-degree", type=int, required=True)
    p.add_argument("--sequence-length", type=int, required=True)
    p.add_argument("--micro-batch", type=int, required=True)
    p.add_argument("--accumulation", type=int, default=1)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--min-lr", type=float, default=0.0)
    p.add_argument("--warmup", type=float, default=0.01, help="fraction of the steps")
    p.add_argument("--seed", type=int, default=4711)
    return p


CHECKPOINTS = "/opt/ml/checkpoints"
CHECKPOINT_EVERY, CHECKPOINTS_KEPT = 200, 3  # `checkpoint` in base.kdl
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.95), 0.1, 1.0  # `optimizer` in jobs/pretrain.kdl


def need(module, where="part of the training image"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def learning_rate(step, args):
    """Linear warm-up, then a cosine down to --min-lr."""
    warm = max(1, round(args.warmup * args.steps))
    if step < warm:
        return args.lr * (step + 1) / warm
    done = (step - warm) / max(1, args.steps - warm)
    return args.min_lr + (args.lr - args.min_lr) * 0.5 * (1 + math.cos(math.pi * done))


def token_source(length):
    """A function from the number of a sequence to its tokens."""
    np = need("numpy")
    directory = os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train")
    files = [np.load(file, mmap_mode="r") for file in sorted(glob.glob(os.path.join(directory, "*.npy")))]
    total = sum(len(rows) for rows in files)
    if not total:
        raise SystemExit(f"no token files in {directory}")

    def sequence(at):
        at %= total
        for rows in files:
            if at < len(rows):
                return rows[at, :length]
            at -= len(rows)

    return lambda first, count: np.stack([sequence(first + i) for i in range(count)]).astype("int64")


def build_model(args, torch):
    fsdp = need("torch.distributed.fsdp")
    mesh = need("torch.distributed.device_mesh").init_device_mesh(
        "cuda", (args.replicas, args.shard_degree), mesh_dim_names=("replicate", "shard")
    )
    transformers = need("transformers", "listed in requirements.txt")
    config = transformers.AutoConfig.from_pretrained(args.model, use_cache=False)
    torch.manual_seed(args.seed)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model.gradient_checkpointing_enable({"use_reentrant": False})
    policy = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.transformer.h:
        fsdp.fully_shard(block, mesh=mesh, mp_policy=policy)
    return fsdp.fully_shard(model, mesh=mesh, mp_policy=policy)


def newest_step(dcp):
    """Step of the newest checkpoint of which every file is there, else 0."""
    for path in sorted(glob.glob(os.path.join(CHECKPOINTS, "step-*")), reverse=True):
        try:
            parts = dcp.FileSystemReader(path).read_metadata().storage_data.values()
        except (OSError, EOFError):
            continue
        if all(os.path.isfile(os.path.join(path, part.relative_path)) for part in parts):
            return int(path.rsplit("-", 1)[1])
    return 0


def main(args):
    torch, dist, dcp = need("torch"), need("torch.distributed"), need("torch.distributed.checkpoint")
    states = need("torch.distributed.checkpoint.state_dict")
    if not torch.cuda.is_available():
        raise SystemExit("this script needs NVIDIA GPUs, and none is visible")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = build_model(args, torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)

    newest = torch.tensor(newest_step(dcp), device="cuda")
    dist.all_reduce(newest, op=dist.ReduceOp.MIN)
    step = int(newest)
    if step:
        weights, moments = states.get_state_dict(model, optimizer)
        dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=f"{CHECKPOINTS}/step-{step:08}")
        states.set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)

    tokens = token_source(args.sequence_length)
    global_batch = args.micro_batch * args.accumulation * world
    while step < args.steps:
        start, total = time.time(), torch.zeros((), device="cuda")
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        for micro in range(args.accumulation):
            first = step * global_batch + (micro * world + rank) * args.micro_batch
            batch = torch.from_numpy(tokens(first, args.micro_batch)).cuda()
            loss = model(input_ids=batch, labels=batch).loss / args.accumulation
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        if rank == 0:
            speed = global_batch * args.sequence_length / (time.time() - start)
            print(f"step={step} loss={float(total):.4f} tokens_per_second={speed:.0f}", flush=True)
        if step % CHECKPOINT_EVERY == 0 or step == args.steps:
            weights, moments = states.get_state_dict(model, optimizer)
            dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=f"{CHECKPOINTS}/step-{step:08}")
            if local == 0:
                for old in sorted(glob.glob(os.path.join(CHECKPOINTS, "step-*")))[:-CHECKPOINTS_KEPT]:
                    shutil.rmtree(old, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(build_parser().parse_args())
