"""Continue the pre-training of a masked language model on text of a domain, with PyTorch's DDP on all GPUs.

torchrun starts one process for each GPU of all nodes; each has a whole copy of the model. The channel has Parquet files
whose rows have `input_ids` of the sequence length. Training resumes from the checkpoint.
"""

import argparse
import importlib
import os
import time


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True)
    p.add_argument("--sequence_length", type=int, required=True)
    p.add_argument("--micro_batch", type=int, required=True)
    p.add_argument("--accumulation", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--weight_decay", type=float, required=True)
    p.add_argument("--clip", type=float, required=True)
    p.add_argument("--warmup", type=float, required=True, help="fraction of the steps")
    p.add_argument("--seed", type=int, required=True)
    return p


CHECKPOINT = "/opt/ml/checkpoints/last.pt"
SAVE_EVERY = 200
LOG_EVERY = 10
# The share of the tokens that the model has to guess, as in the training of ModernBERT.
MASKED = 0.3


def need(module, where="listed in requirements.txt"):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} ({where})") from error


def batches(rows, rank, world_size, args, skip, torch):
    """Endless micro-batches; each rank reads every world_size-th row, and skips what was read before a resumption."""
    at = 0
    while True:
        batch = []
        for row in range(rank, len(rows), world_size):
            batch.append(row)
            if len(batch) == args.micro_batch:
                if at >= skip:
                    ids = [rows[index]["input_ids"][: args.sequence_length] for index in batch]
                    yield torch.tensor(ids)
                at += 1
                batch = []
        if at == 0:
            raise SystemExit("the channel `train` has fewer rows than one micro-batch of all ranks")


def mask(ids, tokenizer, torch):
    """Returns inputs with masked tokens, and labels that are -100 everywhere else."""
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids, device=ids.device))
    chosen = (torch.rand(ids.shape, device=ids.device) < MASKED) & ~special
    return ids.masked_fill(chosen, tokenizer.mask_token_id), ids.masked_fill(~chosen, -100)


def main(args):
    torch, transformers, datasets = need("torch"), need("transformers"), need("datasets")
    dist = need("torch.distributed")
    parallel = need("torch.nn.parallel")
    dist.init_process_group("nccl")
    rank, world_size, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    torch.manual_seed(args.seed + rank)

    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    model = transformers.AutoModelForMaskedLM.from_pretrained(args.model, dtype=torch.float32).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay, fused=True)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(args.warmup * args.steps), args.steps)
    first = 0
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        first = state["step"]
    model = parallel.DistributedDataParallel(model, device_ids=[local])

    folder = os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train")
    files = sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".parquet"))
    rows = datasets.load_dataset("parquet", data_files=files, split="train")
    data = batches(rows, rank, world_size, args, first * args.accumulation, torch)
    tokens_per_step = args.micro_batch * args.accumulation * world_size * args.sequence_length

    began = time.perf_counter()
    for step in range(first + 1, args.steps + 1):
        total = 0.0
        for micro in range(args.accumulation):
            # The gradients are averaged over all ranks in the last pass of a step only.
            model.require_backward_grad_sync = micro == args.accumulation - 1
            ids, labels = mask(next(data).cuda(non_blocking=True), tokenizer, torch)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=ids, labels=labels).loss / args.accumulation
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0 and step % LOG_EVERY == 0:
            now = time.perf_counter()
            speed, began = LOG_EVERY * tokens_per_step / (now - began), now
            print(f"step={step} loss={float(total):.4f} tokens_per_s={speed:.0f}", flush=True)
        # One host writes; after a restart SageMaker copies the file to all of them.
        if rank == 0 and (step % SAVE_EVERY == 0 or step == args.steps):
            state = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "step": step,
            }
            torch.save(state, CHECKPOINT + ".partial")
            os.replace(CHECKPOINT + ".partial", CHECKPOINT)
    if rank == 0:
        model.module.save_pretrained(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
        tokenizer.save_pretrained(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(build_parser().parse_args())
