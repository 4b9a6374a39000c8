"""Pre-train a Llama model with PyTorch FSDP in hybrid sharding.

Started by torchrun, one process per GPU. The GPUs form a grid of replicas x shards: weights are gathered
inside a row, and gradients are averaged across the rows. Tokens come as .npy matrices in the channel
`train`, one row per sequence. Checkpoints are sharded over the ranks, and the newest complete one is
resumed, which is what makes a spot interruption harmless.
"""

import argparse
import functools
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
    p.add_argument("--shard_degree", type=int, required=True)
    p.add_argument("--replicas", type=int, required=True)
    p.add_argument("--micro_batch", type=int, required=True)
    p.add_argument("--accumulation", type=int, required=True)
    p.add_argument("--sequence_length", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--checkpoint_dir", default="/opt/ml/checkpoints")
    return p


# The rest of `optimizer` and `checkpoint` in the manifest.
BETAS, WEIGHT_DECAY, CLIP, WARMUP_STEPS, MIN_LR_RATIO = (0.9, 0.95), 0.1, 1.0, 2000, 0.1
CHECKPOINT_EVERY, CHECKPOINTS_KEPT, SEED = 200, 3, 12345


def need(module, where="part of the training image"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def schedule(step, steps):
    """Factor on the learning rate: linear warm-up, then a cosine down to MIN_LR_RATIO."""
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    done = min(1.0, (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS))
    return MIN_LR_RATIO + (1 - MIN_LR_RATIO) * 0.5 * (1 + math.cos(math.pi * done))


class Tokens:
    """Sequences by number, so that a resumed run goes on where the old one stopped."""

    def __init__(self, directory, length):
        self.np, self.length = need("numpy"), length
        self.files = [self.np.load(f, mmap_mode="r") for f in sorted(glob.glob(os.path.join(directory, "*.npy")))]
        self.total = sum(len(m) for m in self.files)
        if not self.total:
            raise SystemExit(f"no token files in {directory}")

    def batch(self, first, rows):
        return self.np.stack([self._row((first + i) % self.total) for i in range(rows)]).astype("int64")

    def _row(self, at):
        for matrix in self.files:
            if at < len(matrix):
                return matrix[at, : self.length]
            at -= len(matrix)
        raise IndexError(at)


def build_model(args, torch, mesh):
    fsdp = need("torch.distributed.fsdp")
    wrap = need("torch.distributed.fsdp.wrap")
    checkpointing = need("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
    transformers = need("transformers", "listed in requirements.txt")
    llama = need("transformers.models.llama.modeling_llama", "listed in requirements.txt")
    config = transformers.AutoConfig.from_pretrained(args.model, use_cache=False)
    # The same seed draws the same weights on every rank. In fp32 they are 27 GB, which one GPU still holds
    # before anything else is there; FSDP then keeps this rank's shard.
    torch.manual_seed(SEED)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    layer = llama.LlamaDecoderLayer
    model = fsdp.FullyShardedDataParallel(
        model,
        device_mesh=mesh,
        sharding_strategy=fsdp.ShardingStrategy.HYBRID_SHARD,
        auto_wrap_policy=functools.partial(wrap.transformer_auto_wrap_policy, transformer_layer_cls={layer}),
        mixed_precision=fsdp.MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16),
        device_id=torch.cuda.current_device(),
        limit_all_gathers=True,
        use_orig_params=True,
    )
    checkpointing.apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, layer))
    return model


def complete_step(directory, dcp):
    """Step of the newest checkpoint of which every file is there, else 0."""
    for path in sorted(glob.glob(os.path.join(directory, "step-*")), reverse=True):
        try:
            parts = dcp.FileSystemReader(path).read_metadata().storage_data.values()
        except (OSError, EOFError):
            continue
        if all(os.path.isfile(os.path.join(path, part.relative_path)) for part in parts):
            return int(path.rsplit("-", 1)[1])
    return 0


def checkpoint_state(model, optimizer):
    state = need("torch.distributed.checkpoint.state_dict")
    weights, moments = state.get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


def main(args):
    torch = need("torch")
    dist = need("torch.distributed")
    dcp = need("torch.distributed.checkpoint")
    meshes = need("torch.distributed.device_mesh")
    if not torch.cuda.is_available():
        raise SystemExit("this script needs NVIDIA GPUs, and none is visible")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    if args.replicas * args.shard_degree != world:
        raise SystemExit(f"{args.replicas} replicas x {args.shard_degree} shards is not {world} processes")
    mesh = meshes.init_device_mesh("cuda", (args.replicas, args.shard_degree), mesh_dim_names=("replicate", "shard"))
    model = build_model(args, torch, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)

    newest = torch.tensor(complete_step(args.checkpoint_dir, dcp), device="cuda")
    dist.all_reduce(newest, op=dist.ReduceOp.MIN)
    step = int(newest)
    if step:
        state = checkpoint_state(model, optimizer)
        dcp.load(state, checkpoint_id=os.path.join(args.checkpoint_dir, f"step-{step:08}"))
        need("torch.distributed.checkpoint.state_dict").set_state_dict(
            model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )

    data = Tokens(os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train"), args.sequence_length)
    global_batch = args.micro_batch * args.accumulation * world
    while step < args.steps:
        start, total = time.time(), torch.zeros((), device="cuda")
        for group in optimizer.param_groups:
            group["lr"] = args.lr * schedule(step, args.steps)
        for micro in range(args.accumulation):
            first = step * global_batch + (micro * world + rank) * args.micro_batch
            tokens = torch.from_numpy(data.batch(first, args.micro_batch)).cuda()
            # Without no_sync: gradients stay sharded between the passes, where whole ones would not fit.
            loss = model(input_ids=tokens, labels=tokens).loss / args.accumulation
            loss.backward()
            total += loss.detach()
        model.clip_grad_norm_(CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        if rank == 0:
            speed = global_batch * args.sequence_length / (time.time() - start)
            print(f"step={step} loss={float(total):.4f} tokens_per_second={speed:.0f}", flush=True)
        if step % CHECKPOINT_EVERY == 0 or step == args.steps:
            path = os.path.join(args.checkpoint_dir, f"step-{step:08}")
            dcp.save(checkpoint_state(model, optimizer), checkpoint_id=path)
            if local == 0:
                for old in sorted(glob.glob(os.path.join(args.checkpoint_dir, "step-*")))[:-CHECKPOINTS_KEPT]:
                    shutil.rmtree(old, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(build_parser().parse_args())
