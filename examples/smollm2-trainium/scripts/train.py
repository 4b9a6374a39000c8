"""Fine-tune a causal language model on AWS Trainium with torch-xla, one copy of the model on each NeuronCore.

torchrun starts one process for each NeuronCore. The channel has Parquet files whose rows have `input_ids` of the
sequence length: every batch has the same shape, so that the compiler sees one graph. Training resumes from the
checkpoint.
"""

import argparse
import importlib
import os


def build_parser():
    """Exactly the arguments that the manifest passes."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True)
    p.add_argument("--sequence_length", type=int, required=True)
    p.add_argument("--micro_batch", type=int, required=True)
    p.add_argument("--accumulation", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--clip", type=float, required=True)
    p.add_argument("--warmup", type=float, required=True, help="fraction of the steps")
    p.add_argument("--seed", type=int, required=True)
    return p


CHECKPOINT = "/opt/ml/checkpoints/last.pt"
SAVE_EVERY = 200
LOG_EVERY = 10


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


def main(args):
    torch, dist = need("torch", "part of the Neuron image"), need("torch.distributed", "part of the Neuron image")
    xm = need("torch_xla.core.xla_model", "part of the Neuron image")
    need("torch_xla.distributed.xla_backend", "part of the Neuron image")
    transformers, datasets = need("transformers"), need("datasets")
    dist.init_process_group("xla")
    rank, world_size, device = dist.get_rank(), dist.get_world_size(), xm.xla_device()
    torch.manual_seed(args.seed)

    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, torch_dtype=torch.float32, attn_implementation="eager", use_cache=False
    )
    first, state = 0, None
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        first = state["step"]
    model.to(device).train()
    # Weights with one storage were separated by the move to the device.
    model.tie_weights()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(args.warmup * args.steps), args.steps)
    if state:
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])

    folder = os.environ.get("SM_CHANNEL_TRAIN", "/opt/ml/input/data/train")
    files = sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".parquet"))
    rows = datasets.load_dataset("parquet", data_files=files, split="train")
    data = batches(rows, rank, world_size, args, first * args.accumulation, torch)
    for step in range(first + 1, args.steps + 1):
        total = torch.zeros((), device=device)
        for _ in range(args.accumulation):
            ids = next(data).to(device)
            with torch.autocast("xla", dtype=torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss / args.accumulation
            loss.backward()
            total = total + loss.detach()
            xm.mark_step()
        # Gradients are averaged over all cores, then clipped, so that every copy takes the same step.
        xm.reduce_gradients(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        xm.mark_step()
        if step % LOG_EVERY == 0 and rank == 0:
            print(f"step={step} loss={total.item():.4f}", flush=True)
        if step % SAVE_EVERY == 0 or step == args.steps:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "step": step,
            }
            xm.save(state, CHECKPOINT + ".partial")
            if rank == 0:
                os.replace(CHECKPOINT + ".partial", CHECKPOINT)
    if rank == 0:
        saved = torch.load(CHECKPOINT, map_location="cpu", weights_only=True)["model"]
        model.save_pretrained(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"), state_dict=saved)


if __name__ == "__main__":
    main(build_parser().parse_args())
