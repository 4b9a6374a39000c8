"""Records PyTorch's results for each kernel of the worker: float64, outputs and the gradients of autograd.

    python3 -m venv .venv-torch && .venv-torch/bin/pip install torch numpy
    .venv-torch/bin/python crates/trainc-worker/tests/python/record_kernels.py

Writes crates/trainc-worker/tests/recorded/kernels.json: one line for each case with its sizes, outputs and gradients. Inputs are not
recorded: they follow from names, as fresh weights do.
"""
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

from record_shared import mix, normal

OUT = pathlib.Path(__file__).resolve().parent.parent / "recorded" / "kernels.json"
CASES = []


def given(name, *sizes):
    """Returns a leaf with values derived from its name, rounded to f32 so that both precisions start equal."""
    values = torch.tensor(normal(7, name, math.prod(sizes))).float().double()
    return values.view(*sizes).requires_grad_()


def numbers(name, n, below):
    """Returns integers derived from a seed."""
    return torch.tensor((mix(np.arange(n) + name * 1000) % np.uint64(below)).astype(np.int64))


def record(kernel, sizes, output, wants, **more):
    """Backpropagates a given gradient through `output` and records all results."""
    dy = given("dy", *output.shape)
    output.backward(dy.detach())
    flat = lambda t: [float(f"{v:.12e}") for v in t.detach().flatten().tolist()]
    CASES.append({"kernel": kernel, **sizes, **more, "output": flat(output), **{f"d{n}": flat(t.grad) for n, t in wants.items()}})


def norm(kind, rows, width):
    x, weight, bias = given("x", rows, width), given("weight", width), given("bias", width)
    if kind == "layer":
        y = F.layer_norm(x, (width,), weight, bias, 1e-5)
        record("norm", {"kind": kind, "rows": rows, "width": width}, y, {"x": x, "weight": weight, "bias": bias})
    else:
        y = F.rms_norm(x, (width,), weight, 1e-5)
        record("norm", {"kind": kind, "rows": rows, "width": width}, y, {"x": x, "weight": weight})


def rotary(rows, heads, dim, rotated, positions):
    """Rotates only the first `heads` heads of rows with one more head."""
    x = given("x", rows, (heads + 1) * dim)
    frequencies = 10000.0 ** (-torch.arange(0, rotated, 2, dtype=torch.float64) / rotated)
    angle = torch.outer(torch.arange(rows, dtype=torch.float64) % positions, frequencies)
    pairs = torch.polar(torch.ones_like(angle), angle)[:, None, :]
    head = x[:, : heads * dim].view(rows, heads, dim)
    turned, rest = head[..., :rotated], head[..., rotated:]
    z = torch.complex(turned[..., : rotated // 2], turned[..., rotated // 2:]) * pairs
    y = torch.cat([torch.cat([z.real, z.imag, rest], -1).reshape(rows, -1), x[:, heads * dim:]], -1)
    sizes = {"rows": rows, "heads": heads, "dim": dim, "rotated": rotated, "positions": positions}
    record("rotary", sizes, y, {"x": x})


def activation(kind, rows, width):
    x = given("x", rows, 2 * width if kind == "swiglu" else width)
    if kind == "swiglu":
        gate, up = x.chunk(2, -1)
        y = F.silu(gate) * up
    else:
        y = F.gelu(x, approximate="tanh" if kind == "gelu-tanh" else "none")
    record("activation", {"kind": kind, "rows": rows, "width": width}, y, {"x": x})


def linear(rows, inner, width):
    """Records the three matrix multiplications of a linear layer, and the bias."""
    x, weight, bias = given("x", rows, inner), given("weight", width, inner), given("bias", width)
    sizes = {"rows": rows, "inner": inner, "width": width}
    record("linear", sizes, F.linear(x, weight, bias), {"x": x, "weight": weight, "bias": bias})


def begins_of(rows, sequence, every):
    """Returns the start of each row's document in its sequence: a new one every `every` rows."""
    return [at - at % every if every else 0 for _ in range(rows // sequence) for at in range(sequence)]


def embedding(rows, sequence, vocab, width, learned, every):
    table, tokens = given("table", vocab, width), numbers(1, rows, vocab)
    y, wants = F.embedding(tokens, table), {"table": table}
    begins = begins_of(rows, sequence, every)
    if learned:
        positions = given("positions", sequence, width)
        place = torch.arange(rows) % sequence - torch.tensor(begins)
        y, wants = y + F.embedding(place, positions), wants | {"positions": positions}
    sizes = {"rows": rows, "sequence": sequence, "vocab": vocab, "width": width, "learned": learned, "every": every}
    record("embedding", sizes, y, wants)


def attention(batch, sequence, heads, kv_heads, dim, every):
    width = (heads + 2 * kv_heads) * dim
    qkv = given("qkv", batch * sequence, width)
    q, k, v = qkv.view(batch, sequence, width).split([heads * dim, kv_heads * dim, kv_heads * dim], -1)
    q, k, v = (t.reshape(batch, sequence, -1, dim).transpose(1, 2) for t in (q, k, v))
    begins = torch.tensor(begins_of(batch * sequence, sequence, every)).view(batch, sequence)
    at = torch.arange(sequence)
    seen = (at[None, :] <= at[:, None])[None] & (begins[:, None, :] == begins[:, :, None])
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None], enable_gqa=True)
    y = y.transpose(1, 2).reshape(batch * sequence, heads * dim)
    sizes = {"batch": batch, "sequence": sequence, "heads": heads, "kv_heads": kv_heads, "dim": dim, "every": every}
    record("attention", sizes, y, {"qkv": qkv})


def cross_entropy(rows, vocab, scale):
    """Records the gradient of `scale` times the sum; every fourth label is excluded."""
    logits, labels = given("logits", rows, vocab), numbers(2, rows, vocab)
    labels[3::4] = -100
    loss = F.cross_entropy(logits, labels, reduction="sum", ignore_index=-100)
    (loss * scale).backward()
    CASES.append({"kernel": "cross-entropy", "rows": rows, "vocab": vocab, "scale": scale,
                  "output": [float(f"{loss.item():.12e}")], "dlogits": [float(f"{v:.12e}") for v in logits.grad.flatten().tolist()]})


def bf16(n):
    x = given("x", n).detach()
    CASES.append({"kernel": "bf16", "n": n, "output": x.float().bfloat16().double().tolist()})


def adamw(n, decay, steps):
    p = given("p", n)
    optimizer = torch.optim.AdamW([p], lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=decay)
    for step in range(steps):
        p.grad = given(f"grad.{step}", n).detach()
        optimizer.step()
    state = optimizer.state[p]
    flat = lambda t: [float(f"{v:.12e}") for v in t.detach().tolist()]
    CASES.append({"kernel": "adamw", "n": n, "decay": decay, "steps": steps, "output": flat(p),
                  "exp_avg": flat(state["exp_avg"]), "exp_avg_sq": flat(state["exp_avg_sq"])})


torch.set_num_threads(1)
for kind in ("layer", "rms"):
    norm(kind, 3, 5)
    norm(kind, 2, 37)
rotary(5, 2, 6, 6, 3)
rotary(4, 1, 8, 4, 4)
for kind in ("swiglu", "gelu", "gelu-tanh"):
    activation(kind, 3, 19)
linear(3, 5, 2)
linear(7, 18, 17)
embedding(6, 3, 5, 4, False, 0)
embedding(6, 3, 5, 4, True, 0)
embedding(8, 8, 5, 3, True, 3)
attention(2, 5, 2, 2, 4, 0)
attention(1, 9, 4, 2, 6, 4)
attention(1, 67, 2, 1, 4, 0)
attention(1, 67, 2, 1, 4, 30)
cross_entropy(6, 11, 0.25)
cross_entropy(3, 37, 1.0)
bf16(64)
adamw(19, 0.0, 3)
adamw(19, 0.1, 3)
lines = ",\n".join(json.dumps(case) for case in CASES)
OUT.write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
print(len(CASES), "cases,", OUT.stat().st_size, "bytes")
