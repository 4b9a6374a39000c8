"""Train GPT-J 6B with tensor parallelism (SageMaker model parallel v1).

Started by MPI, one process per GPU of one instance. Every layer is split over the tensor group; with a
prescaled batch the group reads one common batch. Tokens come as .npy matrices, one row per sequence.
"""

import argparse
import glob
import importlib
import os


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    train = p.add_argument_group("training")
    train.add_argument("--max_steps", type=int, required=True)
    train.add_argument("--seed", type=int, default=12345)
    train.add_argument("--fp16", type=int, choices=(0, 1), default=1)
    train.add_argument("--max_context_width", type=int, required=True, help="sequence length in tokens")
    train.add_argument("--train_batch_size", type=int, required=True)
    train.add_argument("--val_batch_size", type=int, default=8)
    train.add_argument("--lr", type=float, required=True)
    train.add_argument("--min_lr", type=float, default=0.0)
    train.add_argument("--lr-decay-style", choices=("linear", "constant"), default="linear")
    train.add_argument("--lr_decay_iters", type=int, default=None)
    train.add_argument("--warmup", type=float, default=0.01, help="fraction of lr_decay_iters")
    train.add_argument("--finetune_6b", type=int, choices=(0, 1), default=0, help="start from the published weights")
    layout = p.add_argument_group("layout")
    layout.add_argument("--tensor_parallel_degree", type=int, required=True)
    layout.add_argument("--pipeline_parallel_degree", type=int, default=1)
    layout.add_argument("--manual_partition", type=int, choices=(0, 1), default=0)
    layout.add_argument("--prescaled_batch", type=int, choices=(0, 1), default=1)
    layout.add_argument("--shard_optimizer_state", type=int, choices=(0, 1), default=1)
    layout.add_argument("--optimize", choices=("speed", "memory"), default="speed")
    layout.add_argument("--activation_checkpointing", type=int, choices=(0, 1), default=1)
    layout.add_argument("--activation_strategy", default="each", help="each, or group_2, group_3 … layers at once")
    layout.add_argument("--mp_parameters", help="the library's own settings; it reads them from the environment")
    files = p.add_argument_group("files")
    files.add_argument("--num_kept_checkpoints", type=int, default=5)
    files.add_argument("--checkpoint_freq", type=int, default=200, help="steps")
    files.add_argument("--validation_freq", type=int, default=1000, help="steps")
    files.add_argument("--logging_freq", type=int, default=10, help="steps")
    files.add_argument("--save_final_full_model", type=int, choices=(0, 1), default=0)
    files.add_argument("--skip_full_optimizer", type=int, choices=(0, 1), default=1)
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


def batches(channel, rows, rank, world, width, skip=0):
    """Yield arrays of `rows` sequences for ever, the ranks taking turns; `skip` batches are left out."""
    np = need("numpy", "part of the training image")
    directory = os.environ.get("SM_CHANNEL_" + channel.upper(), "/opt/ml/input/data/" + channel)
    matrices = [np.load(file, mmap_mode="r") for file in sorted(glob.glob(os.path.join(directory, "*.npy")))]
    order = [(m, row) for m in matrices for row in range(rank, len(m) // world * world, world)]
    if len(order) < rows:
        raise SystemExit(f"fewer than {rows} sequences for each of {world} ranks in {directory}")
    at = skip * rows
    while True:
        taken = [order[(at + i) % len(order)] for i in range(rows)]
        yield np.stack([m[row, :width] for m, row in taken]).astype("int64")
        at += rows


def build_model(args, smp, torch):
    transformers = need("transformers", "listed in requirements.txt")
    dtype = torch.float16 if args.fp16 else torch.float32
    with smp.model_creation(tensor_parallelism=smp.tp_size() > 1, dtype=dtype):
        if args.finetune_6b:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                "EleutherAI/gpt-j-6B", revision="float16", low_cpu_mem_usage=True, torch_dtype=dtype
            )
        else:
            model = transformers.AutoModelForCausalLM.from_config(transformers.GPTJConfig(use_cache=False))
    model = smp.DistributedModel(model, trace_device="gpu")
    if args.activation_checkpointing:
        # The library replaces the blocks by its own and keeps them in one sequence.
        for module in list(model.modules()):
            layers = getattr(module, "seq_layers", None)
            if layers is not None:
                smp.set_activation_checkpointing(layers, pack_args_as_tuple=True, strategy=args.activation_strategy)
    decayed = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    plain = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr)
    if args.fp16:
        scaling = {"scale_window": 1000, "min_scale": 1, "delayed_shift": 2}
        return model, smp.DistributedOptimizer(optimizer, dynamic_loss_scale=True, dynamic_loss_args=scaling)
    return model, smp.DistributedOptimizer(optimizer)


def train(args):
    torch = need("torch", "part of the training image")
    smp = need("smdistributed.modelparallel.torch", "part of the SageMaker PyTorch image")
    smp.init()
    torch.cuda.set_device(smp.local_rank())
    torch.manual_seed(args.seed)
    if (smp.tp_size(), smp.pp_size()) != (args.tensor_parallel_degree, args.pipeline_parallel_degree):
        raise SystemExit(f"the library runs tensor {smp.tp_size()} x pipeline {smp.pp_size()}, the arguments differ")
    model, optimizer = build_model(args, smp, torch)

    @smp.step
    def train_step(model, tokens):
        loss = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)["loss"]
        model.backward(loss)
        return loss

    @smp.step
    def test_step(model, tokens):
        return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)["loss"]

    checkpoints = "/opt/ml/checkpoints"
    step = 0
    if os.path.isdir(checkpoints) and any(name.endswith("_partial") for name in os.listdir(checkpoints)):
        step = smp.resume_from_checkpoint(checkpoints, partial=True)["step"]
    # With a prescaled batch the whole tensor group works on one batch, else each rank brings its own.
    rank, world = (smp.rdp_rank(), smp.rdp_size()) if args.prescaled_batch else (smp.dp_rank(), smp.dp_size())
    data = batches("train", args.train_batch_size, rank, world, args.max_context_width, skip=step)
    while step < args.max_steps:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        loss = train_step(model, torch.from_numpy(next(data)).cuda()).reduce_mean()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % args.logging_freq == 0 and smp.rank() == 0:
            print(f"step={step} loss={loss.item():.4f} lr={learning_rate(step, args):.3e}", flush=True)
        if step % args.validation_freq == 0:
            tokens = next(batches("test", args.val_batch_size, rank, world, args.max_context_width))
            with torch.no_grad():
                validation = test_step(model, torch.from_numpy(tokens).cuda()).reduce_mean()
            if smp.rank() == 0:
                print(f"step={step} validation_loss={validation.item():.4f}", flush=True)
        if step % args.checkpoint_freq == 0:
            smp.save_checkpoint(
                checkpoints, tag=f"step{step}", partial=True, model=model, optimizer=optimizer,
                user_content={"step": step}, num_kept_partial_checkpoints=args.num_kept_checkpoints,
            )
    if args.save_final_full_model:
        full_optimizer = None if args.skip_full_optimizer else optimizer
        smp.save_checkpoint(
            os.environ.get("SM_MODEL_DIR", "/opt/ml/model"), tag="gptj.pt", partial=False, model=model,
            optimizer=full_optimizer,
        )
    smp.barrier()


if __name__ == "__main__":
    train(build_parser().parse_args())
