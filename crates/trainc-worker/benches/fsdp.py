"""Compares the worker with PyTorch FSDP1 and FSDP2 over gloo: same model, batch, ranks and threads, in turn.

    python3 -m venv .venv-torch && .venv-torch/bin/pip install torch numpy
    cargo build --release -p trainc-worker
    python3 crates/trainc-worker/benches/fsdp.py --torch .venv-torch/bin/python [--worker target/release/trainc-worker] [--pairs 7]

Each round runs the worker, FSDP1 and FSDP2 once; a run's figure is the median second per step of steps 3 to 8, its
memory the highest resident of its largest rank. Printed are the medians over rounds and the median of the rounds'
ratios. A run of PyTorch that crashes is counted and repeated (FSDP2 over gloo does, now and then). `--gemm` adds the
matrix products alone; `--check` exits 1 when a target is missed.
"""
import argparse
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {
    "llama 6 x 384": dict(layers=6, hidden=384, heads=6, ffn=1024, vocab=8192, sequence=256, batch=8, steps=8),
    "llama 4 x 768": dict(layers=4, hidden=768, heads=12, ffn=2048, vocab=8192, sequence=512, batch=4, steps=8),
}
SPEED, PRODUCTS = 1.2, 0.85


def data(binary, directory, m):
    sizes = {"sequence-length": m["sequence"], "sequences": m["batch"] * m["steps"], "vocab": m["vocab"]}
    words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    subprocess.run([str(binary), "bench", "--tokens", str(directory), *words], check=True)


def config(place, m, ranks):
    return {
        "schema": "trainc.worker/v1", "job": "bench", "digest": "0" * 64,
        "cluster": {"instance": "local", "nodes": 1, "gpus_per_node": 0},
        "mesh": {"shard_degree": ranks, "data_parallel_replicas": 1},
        "model": {
            "family": "llama", "vocab_size": m["vocab"], "hidden_size": m["hidden"], "intermediate_size": m["ffn"],
            "layers": m["layers"], "heads": m["heads"], "kv_heads": m["heads"], "head_dim": m["hidden"] // m["heads"],
            "sequence_length": m["sequence"], "norm": {"kind": "rms", "eps": 1e-5}, "activation": "swiglu",
            "biases": "none",
            "positions": {"kind": "rotary", "theta": 10000.0, "fraction": 1.0, "scaling": None},
            "parallel_residual": False, "tied_embeddings": False, "initializer_range": 0.02, "weights": None,
            "adapter": None,
        },
        "precision": {"compute": "f32", "reduce": "f32"},
        "memory": {"recompute": "none", "prefetch": 1, "reshard_after_forward": True, "offload": "none"},
        "batch": {"micro": m["batch"] // ranks, "accumulation": 1, "global_sequences": m["batch"]},
        "optimizer": {"learning_rate": 3e-4, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip_norm": 1.0},
        "schedule": {"kind": "constant", "warmup_steps": 0, "steps": m["steps"], "minimum_learning_rate": 0.0},
        "data": {"train": str(place / "train"), "validation": None, "seed": 17, "epochs": None, "shuffle": True, "document_mask": False},
        "checkpoint": {
            "directory": str(place / "checkpoints"), "every_seconds": None, "every_steps": None, "keep": 1,
            "grace_seconds": 100.0, "resume": "never",
        },
        "output": {"model": str(place / "model"), "data": str(place / "out"), "failure": str(place / "failure")},
        "log": {"every_steps": 1, "evaluate_every_steps": None},
        "communication": {
            "backend": "auto", "rendezvous_port": 7777, "join_seconds": 60.0, "peer_dead_seconds": 30.0,
            "collective_seconds": 60.0, "environment": {},
        },
        "limits": {"max_seconds": None, "max_loss": None},
    }


def steps(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        return None, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], None


def figures(lines):
    """Returns the median of steps 3 to 8, and memory."""
    return statistics.median(line["seconds"] for line in lines[2:8]), max(line["memory"] for line in lines)


def run_worker(binary, m, ranks):
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        data(binary, place / "train", m)
        (place / "worker.json").write_text(json.dumps(config(place, m, ranks)))
        lines, error = steps([str(binary), "launch", str(place / "worker.json")])
        if error:
            sys.exit(f"the worker failed: {error}")
        tokens = m["batch"] * m["sequence"]
        return figures([{"seconds": tokens / l["tokens_per_s"], "memory": l["memory"]} for l in lines])


def run_torch(python, api, m, ranks, crashes):
    sizes = [word for name, value in m.items() for word in (f"--{name}", str(value))]
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", str(random.randrange(20000, 40000)), str(HERE / "torch_fsdp.py"), "--api", api, *sizes]
    for _ in range(5):
        lines, error = steps(command, {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
        if lines is not None:
            return figures(lines)
        crashes[api] = crashes.get(api, 0) + 1
    sys.exit(f"{api} crashed five times: {error}")


def products(binary, python):
    here, _ = steps([str(binary), "bench"])
    torch, error = steps([python, str(HERE / "torch_gemm.py")], {"OMP_NUM_THREADS": "1"})
    if not here or not torch:
        sys.exit(f"the products could not be measured: {error}")
    return {a["product"]: (a["gflops"], b["gflops"]) for a, b in zip(here, torch)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--torch", required=True, help="python with torch")
    p.add_argument("--worker", default="target/release/trainc-worker")
    p.add_argument("--pairs", type=int, default=7)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--models", nargs="*", default=list(MODELS))
    p.add_argument("--gemm", action="store_true")
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    version, _ = subprocess.run([a.torch, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip(), 0
    worker = subprocess.run([a.worker, "--version"], capture_output=True, text=True).stdout.strip()
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
    print(f"{worker}; torch {version} over gloo; {a.ranks} ranks of 1 thread; {os.cpu_count()} x {cpu}; load {os.getloadavg()[0]:.1f}")
    missed = []
    for name in a.models:
        m, crashes = MODELS[name], {}
        kinds = ["worker", "fsdp1", "fsdp2"]
        seconds, memory = {k: [] for k in kinds}, {k: [] for k in kinds}
        for round in range(a.pairs):
            for kind in kinds[round % 3:] + kinds[: round % 3]:
                s, b = run_worker(a.worker, m, a.ranks) if kind == "worker" else run_torch(a.torch, kind, m, a.ranks, crashes)
                seconds[kind].append(s)
                memory[kind].append(b)
            print(f"  round {round + 1}: " + ", ".join(f"{k} {seconds[k][-1]:.3f}" for k in kinds), file=sys.stderr, flush=True)
        print(f"{name}, sequence {m['sequence']}, batch {m['batch']}: median of {a.pairs} rounds" + "".join(f"; {k} crashed {n} times" for k, n in crashes.items()))
        for k in kinds:
            line = f"  {k:7} {statistics.median(seconds[k]):.3f} s/step  {statistics.median(memory[k]) / 2**20:5.0f} MiB"
            if k != "worker":
                ratio = statistics.median(t / w for t, w in zip(seconds[k], seconds["worker"]))
                line += f"  worker is {ratio:.2f} times as fast"
                if ratio < SPEED:
                    missed.append(f"{name}: {ratio:.2f} times as fast as {k}, target {SPEED}")
                if statistics.median(memory["worker"]) > statistics.median(memory[k]):
                    missed.append(f"{name}: more memory than {k}")
            print(line, flush=True)
    if a.gemm:
        print("matrix products on one thread, GFLOP/s: worker, torch")
        found = products(a.worker, a.torch)
        for name, (ours, theirs) in found.items():
            print(f"  {name:14} {ours:7.1f} {theirs:7.1f}  {ours / theirs:.2f}")
            if ours < PRODUCTS * theirs:
                missed.append(f"product {name}: {ours / theirs:.2f} of torch's, target {PRODUCTS}")
    for line in missed:
        print("missed: " + line)
    sys.exit(1 if a.check and missed else 0)


if __name__ == "__main__":
    main()
