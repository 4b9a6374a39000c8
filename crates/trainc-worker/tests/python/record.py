"""Records PyTorch's results for the worker's parity tests: float64, same weights, tokens and hyperparameters.

    python3 -m venv .venv-torch && .venv-torch/bin/pip install torch numpy
    .venv-torch/bin/python crates/trainc-worker/tests/python/record.py

Writes crates/trainc-worker/tests/recorded/<case>.json: the config's differences from the tests' base, losses and gradient norms. The
model is implemented here from its definition and shares only the formulas of fresh weights and tokens with the worker.
With `--bf16` it records nothing and prints the deviation of PyTorch's own bf16 from float64.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

from record_shared import normal, tokens

OUT = pathlib.Path(__file__).resolve().parent.parent / "recorded"
STEPS = 50
# In addition to the cases' own rates: one at which rounding differences do not grow over the steps.
GENTLE = 1e-3


class Model:
    def __init__(self, m, seed):
        self.m, self.p = m, {}
        h, f, dev = m["hidden_size"], m["intermediate_size"], m["initializer_range"]
        layer = m["norm"]["kind"] == "layer"

        def weight(name, rows, cols, deviation):
            value = (deviation * normal(seed, name, rows * cols)).astype(np.float32).astype(np.float64)
            self.p[name] = torch.tensor(value).view(rows, cols).requires_grad_()

        def vector(name, n, value):
            self.p[name] = torch.full((n,), value, dtype=torch.float64, requires_grad=True)

        def norm(name):
            vector(name + ".weight", h, 1.0)
            if layer:
                vector(name + ".bias", h, 0.0)

        def product(name, rows, cols, deviation):
            weight(name + ".weight", rows, cols, deviation)
            if m["biases"] == "all":
                vector(name + ".bias", rows, 0.0)

        weight("embed.tokens", m["vocab_size"], h, dev)
        if m["positions"]["kind"] == "learned":
            weight("embed.positions", m["sequence_length"], h, dev)
        up = 2 * f if m["activation"] == "swiglu" else f
        for i in range(m["layers"]):
            b = f"block.{i}."
            norm(b + "norm1")
            product(b + "qkv", (m["heads"] + 2 * m["kv_heads"]) * m["head_dim"], h, dev)
            product(b + "out", h, m["heads"] * m["head_dim"], dev / math.sqrt(2 * m["layers"]))
            norm(b + "norm2")
            product(b + "up", up, h, dev)
            product(b + "down", h, f, dev / math.sqrt(2 * m["layers"]))
        norm("head.norm")
        if not m["tied_embeddings"]:
            weight("head.weight", m["vocab_size"], h, dev)

    def norm(self, name, x):
        w, eps = self.p[name + ".weight"], self.m["norm"]["eps"]
        if self.m["norm"]["kind"] == "layer":
            return F.layer_norm(x, x.shape[-1:], w, self.p[name + ".bias"], eps)
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w

    def linear(self, name, x):
        return F.linear(x, self.p[name + ".weight"], self.p.get(name + ".bias"))

    def rotate(self, x):
        positions = self.m["positions"]
        if positions["kind"] == "learned":
            return x
        r = round(positions["fraction"] * self.m["head_dim"])
        angle = torch.outer(
            torch.arange(x.shape[2], dtype=torch.float64),
            positions["theta"] ** (-torch.arange(0, r, 2, dtype=torch.float64) / r),
        )
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
        wide = x if x.dtype == torch.float64 else x.float()
        cos, sin = cos.to(wide.dtype), sin.to(wide.dtype)
        turned, rest = wide[..., :r], wide[..., r:]
        half = torch.cat([-turned[..., r // 2:], turned[..., : r // 2]], -1)
        return torch.cat([turned * cos + half * sin, rest], -1).to(x.dtype)

    def attention(self, name, x, begins):
        m = self.m
        batch, length, _ = x.shape
        d, q_heads, kv_heads = m["head_dim"], m["heads"], m["kv_heads"]
        q, k, v = self.linear(name + "qkv", x).split([q_heads * d, kv_heads * d, kv_heads * d], -1)
        q, k, v = (t.view(batch, length, -1, d).transpose(1, 2) for t in (q, k, v))
        q, k = self.rotate(q), self.rotate(k)
        at = torch.arange(length)
        seen = (at[None, :] <= at[:, None])[None] & (begins[:, None, :] == begins[:, :, None])
        k, v = (t.repeat_interleave(q_heads // kv_heads, 1) for t in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None])
        return self.linear(name + "out", out.transpose(1, 2).reshape(batch, length, -1))

    def feed_forward(self, name, x):
        up = self.linear(name + "up", x)
        if self.m["activation"] == "swiglu":
            gate, up = up.chunk(2, -1)
            act = F.silu(gate) * up
        else:
            act = F.gelu(up, approximate="tanh" if self.m["activation"] == "gelu-tanh" else "none")
        return self.linear(name + "down", act)

    def loss(self, batch, trained, starts):
        """Returns the sum over labels that are trained on. Documents are separated in attention, positions and labels."""
        inputs, labels = batch[:, :-1], batch[:, 1:]
        labels = torch.where(trained[:, 1:] & ~starts[:, 1:], labels, -100)
        at = torch.arange(inputs.shape[1])
        begins = torch.where(starts[:, :-1], at, 0).cummax(1).values
        x = self.p["embed.tokens"][inputs]
        if "embed.positions" in self.p:
            x = x + self.p["embed.positions"][at - begins]
        for i in range(self.m["layers"]):
            b = f"block.{i}."
            if self.m["parallel_residual"]:
                x = x + self.attention(b, self.norm(b + "norm1", x), begins) + self.feed_forward(b, self.norm(b + "norm2", x))
            else:
                x = x + self.attention(b, self.norm(b + "norm1", x), begins)
                x = x + self.feed_forward(b, self.norm(b + "norm2", x))
        x = self.norm("head.norm", x)
        logits = x @ self.p.get("head.weight", self.p["embed.tokens"]).T
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def rate(o, s, step):
    if step < s["warmup_steps"]:
        return o["learning_rate"] * (step + 1) / s["warmup_steps"]
    part = (step - s["warmup_steps"]) / (s["steps"] - s["warmup_steps"])
    high, low = o["learning_rate"], s["minimum_learning_rate"]
    return {"constant": high, "linear": high + (low - high) * part,
            "cosine": low + (high - low) * 0.5 * (1 + math.cos(math.pi * part))}[s["kind"]]


def train(change, seed=17, learning_rate=3e-3, precision="float64"):
    """Returns losses and gradient norms of all steps. Below float64 the master weights are float32, and bf16 comes in as
    `autocast` has it; as `fsdp` with MixedPrecision(param_dtype=bfloat16, reduce_dtype=float32) casts; or, `weights`, in
    the weights alone."""
    model = {"family": "llama", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "layers": 2, "heads": 4,
             "kv_heads": 2, "head_dim": 8, "sequence_length": 24, "norm": {"kind": "rms", "eps": 1e-5},
             "activation": "swiglu", "biases": "none",
             "positions": {"kind": "rotary", "theta": 10000.0, "fraction": 1.0, "scaling": None},
             "parallel_residual": False, "tied_embeddings": False, "initializer_range": 0.08}
    optimizer = {"learning_rate": learning_rate, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1,
                 "clip_norm": 1.0}
    model |= change.get("model", {})
    optimizer |= change.get("optimizer", {})
    schedule = scheduled(change)
    net = Model(model, seed)
    if precision != "float64":
        net.p = {name: p.detach().float().requires_grad_() for name, p in net.p.items()}
    master = net.p
    data = tokens(40, model["sequence_length"], model["vocab_size"], seed - 16)
    groups = [{"params": [p for p in master.values() if p.dim() == 2], "weight_decay": optimizer["weight_decay"]},
              {"params": [p for p in master.values() if p.dim() == 1], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, betas=(optimizer["beta1"], optimizer["beta2"]), eps=optimizer["eps"])
    passes = change.get("accumulation", 1)
    place = torch.arange(data.numel()).view_as(data)
    apart = change.get("documents", False)
    trained = place % 5 != 2 if apart else torch.ones_like(data, dtype=torch.bool)
    starts = place % 11 == 3 if apart else torch.zeros_like(data, dtype=torch.bool)
    losses, norms = [], []
    for step in range(STEPS):
        rows = [(step * 8 + i) % 40 for i in range(8)]
        total = 0.0
        counted = (trained[rows, 1:] & ~starts[rows, 1:]).sum()
        for part in torch.tensor(rows).chunk(passes):
            if precision == "fsdp":
                net.p = {name: p.bfloat16() for name, p in master.items()}
            elif precision == "weights":
                net.p = {name: p.bfloat16().float() for name, p in master.items()}
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
                loss = net.loss(data[part], trained[part], starts[part]) / counted
            loss.backward()
            total += loss.item()
        bound = optimizer["clip_norm"]
        norm = torch.nn.utils.clip_grad_norm_(master.values(), math.inf if bound is None else bound)
        for group in adamw.param_groups:
            group["lr"] = rate(optimizer, schedule, step)
        adamw.step()
        adamw.zero_grad()
        losses.append(total)
        norms.append(norm.item())
    return losses, norms


def scheduled(change):
    schedule = {"kind": "constant", "warmup_steps": 0, "steps": STEPS, "minimum_learning_rate": 0.0}
    return schedule | change.get("schedule", {})


def record(name, change):
    OUT.mkdir(exist_ok=True)
    round_all = lambda series: [round(value, 10) for value in series]
    losses, norms = map(round_all, train(change))
    out = {"torch": torch.__version__, "change": change | {"schedule": scheduled(change)}, "losses": losses,
           "grad_norms": norms}
    losses, norms = map(round_all, train(change, learning_rate=GENTLE))
    out["gentle"] = {"learning_rate": GENTLE, "losses": losses, "grad_norms": norms}
    (OUT / f"{name}.json").write_text(json.dumps(out) + "\n")
    print(name, out["losses"][0], out["losses"][-1], out["grad_norms"][0])


def away():
    """Prints the deviation of PyTorch's own bf16 from its float64: the worst of 50 steps, over all cases and six seeds."""
    for learning_rate in (3e-3, GENTLE):
        for precision in ("weights", "autocast", "fsdp"):
            worst = []
            for change in CASES.values():
                for seed in range(17, 23):
                    exact = train(change, seed, learning_rate)
                    found = train(change, seed, learning_rate, precision)
                    worst.append([max(abs(a / b - 1) for a, b in zip(x, y)) for x, y in zip(found, exact)])
            for what, series in zip(("losses", "norms"), map(sorted, zip(*worst))):
                at = lambda part: series[int((len(series) - 1) * part)]
                over = sum(value > 1e-2 for value in series) / len(series)
                print(f"rate {learning_rate} {precision:8} {what}: median {at(0.5):.1e}, nine of ten within {at(0.9):.1e},"
                      f" all within {at(1):.1e}; over 1e-2 in {over:.0%} of runs", flush=True)


GPT2 = {"family": "gpt2", "norm": {"kind": "layer", "eps": 1e-5}, "activation": "gelu-tanh", "biases": "all",
        "positions": {"kind": "learned", "theta": None, "fraction": None, "scaling": None}, "kv_heads": 4,
        "tied_embeddings": True}
NEOX = {"family": "gpt-neox", "norm": {"kind": "layer", "eps": 1e-5}, "activation": "gelu", "biases": "all",
        "positions": {"kind": "rotary", "theta": 10000.0, "fraction": 0.25, "scaling": None}, "kv_heads": 4,
        "parallel_residual": True}
torch.set_num_threads(1)
CASES = {
    "llama": {},
    "llama-accumulation-cosine": {"accumulation": 4, "schedule": {"kind": "cosine", "warmup_steps": 5, "minimum_learning_rate": 3e-4}},
    "llama-tied-linear": {"model": {"tied_embeddings": True, "kv_heads": 1}, "schedule": {"kind": "linear", "warmup_steps": 3}},
    "llama-unclipped": {"optimizer": {"clip_norm": None, "weight_decay": 0.0}},
    "gpt2": {"model": GPT2, "schedule": {"kind": "cosine"}},
    "gpt-neox": {"model": NEOX, "optimizer": {"clip_norm": 0.5}, "schedule": {"kind": "linear", "minimum_learning_rate": 1e-4}},
    "llama-documents": {"documents": True, "accumulation": 2},
    "gpt2-documents": {"documents": True, "model": GPT2},
}
if sys.argv[1:] == ["--bf16"]:
    away()
else:
    for name, change in CASES.items():
        record(name, change)
