"""Measures a cluster before a training job: one process per GPU, or per CPU process with gloo.

Written by trainc. Needs PyTorch alone. `trainc_start.json` in the same directory has shapes and sizes, the variable TRAINC_PLAN
the planned figures. Each line of its output is one JSON object; `trainc report` and `trainc plan --calibration` read them. On
CPUs all sizes are reduced, and only the nodes are compared. Exits with 8 if the cluster is slower than `minimum`.
"""

import datetime
import glob
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
ENDED = 8
# A node below this share of the median node is named.
SLOW = 0.85
BEGIN = time.time()
CUDA = torch.cuda.is_available()
# Seconds for everything, for one measurement, and for compiling a layer.
TOTAL, SLICE, COMPILE = (75.0, 1.0, 40.0) if CUDA else (45.0, 0.25, 20.0)
# Limits on CPUs: FLOP of a product, bytes of a collective, of a copy, of a file, tokens and channels of a layer.
FLOP, BYTES, COPY, FILE, TOKENS, CHANNELS = 1.3e8, 1 << 20, 1 << 25, 1 << 26, 256, 256
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

RANK = int(os.environ.get("RANK", 0))
WORLD = int(os.environ.get("WORLD_SIZE", 1))
LOCAL = int(os.environ.get("LOCAL_RANK", 0))
DEVICE_AT = int(os.environ.get("TRAINC_DEVICE", LOCAL))
LOCALS = max(int(os.environ.get("LOCAL_WORLD_SIZE", 1)), 1)
NODES = max(WORLD // LOCALS, 1)
HOST = os.environ.get("TRAINC_HOST") or os.environ.get("SM_CURRENT_HOST") or "node-%d" % (RANK // LOCALS)


def say(event, **members):
    line = {"trainc_probe": event}
    line.update(members)
    os.write(1, (json.dumps(line) + "\n").encode())


def say_once(event, **members):
    if RANK == 0:
        say(event, **members)


def sync():
    if CUDA:
        torch.cuda.synchronize()


def reduce_number(number, operation="MAX"):
    """Returns the largest, smallest or total value of a number over all ranks."""
    if WORLD == 1:
        return number
    tensor = torch.tensor([number], dtype=torch.float64, device=DEVICE)
    dist.all_reduce(tensor, op=getattr(dist.ReduceOp, operation))
    return tensor.item()


def gather_numbers(numbers):
    """Returns the numbers of every rank, on every rank."""
    if WORLD == 1:
        return [numbers]
    own = torch.tensor(numbers, dtype=torch.float64, device=DEVICE)
    parts = [torch.zeros_like(own) for _ in range(WORLD)]
    dist.all_gather(parts, own)
    return [part.tolist() for part in parts]


def has_time(seconds):
    """Returns True if every rank has the time: a collective must not wait for a rank that skips it."""
    return reduce_number(time.time() - BEGIN) + seconds < TOTAL


def timed(run, limit=None):
    """Returns the median and the least seconds of a call on this rank alone."""
    for _ in range(2):
        run()
    sync()
    limit, seconds, begin = limit or SLICE, [], time.time()
    while len(seconds) < 3 or (time.time() - begin < limit and len(seconds) < 50):
        start = time.time()
        run()
        sync()
        seconds.append(time.time() - start)
    return statistics.median(seconds), min(seconds)


def timed_together(run):
    """Returns the seconds of a collective: the median of the calls, the largest over the ranks."""
    run()
    sync()
    start = time.time()
    run()
    sync()
    # All ranks make the same number of calls.
    count = int(min(max(SLICE / max(reduce_number(time.time() - start), 1e-6), 3), 30))
    seconds = []
    for _ in range(count):
        start = time.time()
        run()
        sync()
        seconds.append(time.time() - start)
    return reduce_number(statistics.median(seconds))


def shrink(sizes, most):
    """Returns sizes whose product is at most `most`, in the same proportions."""
    scale = (most / (float(sizes[0]) * sizes[1] * sizes[2])) ** (1.0 / 3)
    if CUDA or scale >= 1:
        return list(sizes)
    return [max(int(size * scale) // 8 * 8, 8) for size in sizes]


def measure_products(work, dtype):
    """Returns FLOP and seconds of all products of a layer: by the median, and by the fastest call."""
    flop = median_total = best_total = 0.0
    for sizes in work["products"]:
        m, k, n = shrink(sizes, FLOP / 2)
        a = torch.randn(m, k, device=DEVICE).to(dtype)
        b = torch.randn(k, n, device=DEVICE).to(dtype)
        median, best = timed(lambda: torch.matmul(a, b))
        say_once("product", planned=sizes, measured=[m, k, n], seconds=median, flop_per_second=2.0 * m * k * n / median)
        flop, median_total, best_total = flop + 2.0 * m * k * n, median_total + median, best_total + best
    return flop, median_total, best_total


def kernel_of(name):
    """Returns the attention kernel of that name as a function of q, k, v and causal; raises if it is not installed here."""
    if name in ("fa2", "fa3"):
        try:
            if name == "fa3":
                from flash_attn_interface import flash_attn_func
            else:
                from flash_attn import flash_attn_func
        except ImportError:
            if name == "fa3":
                raise RuntimeError("FlashAttention 3 (flash_attn_interface) is not installed")
            return with_backend("FLASH_ATTENTION")

        def run(q, k, v, causal):
            out = flash_attn_func(*(one.transpose(1, 2) for one in (q, k, v)), causal=causal)
            return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

        return run
    if name == "cudnn":
        return with_backend("CUDNN_ATTENTION")
    if name == "flex":
        raise RuntimeError("FlexAttention is compiled with the program")
    return attend


def with_backend(name):
    """Returns PyTorch's attention by one of its kernels; raises if this PyTorch has none of that name."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = getattr(SDPBackend, name)
    except (ImportError, AttributeError):
        raise RuntimeError("PyTorch %s has no kernel %s" % (torch.__version__, name))

    def run(q, k, v, causal):
        with sdpa_kernel(backend):
            return attend(q, k, v, causal)

    return run


def attend(q, k, v, causal):
    fused = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if fused is not None:
        return fused(q, k, v, is_causal=causal)
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    if causal:
        length = q.shape[-2]
        hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def measure_attention(work, dtype):
    """Returns FLOP of the forward pass, without a mask, and seconds of forward and backward, of the job's own kernel."""
    name = work.get("attention") or "sdpa"
    # On CPUs nodes are compared, not kernels.
    kernel = kernel_of(name) if CUDA else attend
    batch, heads, length, width = work["sequences"], work["heads"], work["sequence_length"], work["head_dim"]
    if not CUDA:
        batch, heads, length = 1, min(heads, 4), min(length, TOKENS)
    shape = (batch, heads, length, width)
    q, k, v = (torch.randn(shape, device=DEVICE).to(dtype).requires_grad_() for _ in range(3))
    out = torch.randn(shape, device=DEVICE).to(dtype)

    def run():
        kernel(q, k, v, work["is_causal"]).backward(out)
        q.grad = k.grad = v.grad = None

    median, _ = timed(run)
    flop = 4.0 * batch * heads * length * length * width
    say_once(
        "attention", kernel=name if CUDA else "sdpa", measured=shape, causal=work["is_causal"], seconds=median,
        flop_per_second=flop / median,
    )
    return flop, median


class Layer(torch.nn.Module):
    """A transformer layer of the model's shape, on one tensor rank."""

    def __init__(self, hidden, heads, kv_heads, width, ffn, gated, causal):
        super(Layer, self).__init__()
        linear = torch.nn.Linear
        self.sizes, self.causal = (heads, kv_heads, width), causal
        self.norm1, self.norm2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.qkv = linear(hidden, (heads + 2 * kv_heads) * width, bias=False)
        self.project = linear(heads * width, hidden, bias=False)
        self.up, self.down = linear(hidden, ffn, bias=False), linear(ffn, hidden, bias=False)
        self.gate = linear(hidden, ffn, bias=False) if gated else None

    def forward(self, x):
        heads, kv_heads, width = self.sizes
        batch, length, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, heads + 2 * kv_heads, width).transpose(1, 2)
        q, k, v = parts.split([heads, kv_heads, kv_heads], dim=1)
        if kv_heads != heads:
            k, v = (one.repeat_interleave(heads // kv_heads, dim=1) for one in (k, v))
        seen = attend(q, k, v, self.causal)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, heads * width))
        y = self.norm2(x)
        y = torch.nn.functional.gelu(self.up(y)) if self.gate is None else torch.nn.functional.silu(self.gate(y)) * self.up(y)
        return x + self.down(y)


def layer_of(work, dtype):
    """Returns a layer and the shape of its input."""
    hidden, heads, kv_heads, ffn = (work[name] for name in ("hidden", "heads", "kv_heads", "ffn"))
    batch, length, width = work["sequences"], work["sequence_length"], work["head_dim"]
    if not CUDA:
        hidden, ffn, batch, length = min(hidden, CHANNELS), min(ffn, 4 * CHANNELS), 1, min(length, TOKENS)
        heads, kv_heads = min(heads, 4), min(kv_heads, 4)
    kv_heads = kv_heads if heads % max(kv_heads, 1) == 0 else heads
    layer = Layer(hidden, heads, kv_heads, width, ffn, work["ffn_matrices"] > 2, work["is_causal"])
    return layer.to(DEVICE).to(dtype), [batch, length, hidden]


def time_layer(kind, layer, shape, dtype):
    """Measures forward and backward of a layer; halves the micro-batch until its activations fit."""
    while True:
        x = torch.randn(shape, device=DEVICE).to(dtype).requires_grad_()
        out = torch.ones_like(x)

        def run():
            layer(x).backward(out)
            layer.zero_grad(set_to_none=True)
            x.grad = None

        try:
            seconds, _ = timed(run)
            say_once("layer", kind=kind, measured=shape, seconds=seconds)
            return
        except RuntimeError:
            if shape[0] <= 1:
                raise
            shape = [shape[0] // 2] + shape[1:]


def measure_layers(work, dtype):
    """Measures one layer eager, and on the first rank compiled: in a process that can be ended, since compiling may hang."""
    layer, shape = layer_of(work, dtype)
    time_layer("eager", layer, shape, dtype)
    left = min(COMPILE, TOTAL - 5 - (time.time() - BEGIN))
    if RANK == 0 and hasattr(torch, "compile") and left > 5:
        child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "compiled"], start_new_session=True)
        try:
            child.wait(timeout=left)
        except subprocess.TimeoutExpired:
            # With the compilers that it started.
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            say("layer", kind="compiled", skipped="not compiled within %d s" % left)
    reduce_number(0.0)


def measure_bandwidth():
    """Returns bytes read and written per second by a copy in memory."""
    size = (1 << 30) if CUDA else COPY
    a = torch.ones(size // 4, device=DEVICE)
    b = torch.empty_like(a)
    median, _ = timed(lambda: b.copy_(a))
    say_once("memory", bytes=2 * size, seconds=median, bytes_per_second=2 * size / median)
    return 2 * size / median


def groups_of(axis, order):
    """Returns the rank groups along an axis, as lists of ranks."""
    if axis is None:
        return [list(range(WORLD))]
    order = [(name, degree) for name, degree in order]
    if product_of(order) != WORLD:
        # A test with fewer processes: the axis alone, with the largest degree that fits.
        planned = dict(order).get(axis, 1)
        degree = max(size for size in range(1, WORLD + 1) if WORLD % size == 0 and size <= planned)
        rest = WORLD // degree
        order = [(axis, degree), ("rest", rest)] if axis == "replica" else [("rest", rest), (axis, degree)]
    stride, degree = 1, 1
    for name, size in reversed(order):
        if name == axis:
            degree = size
            break
        stride *= size
    starts = [rank for rank in range(WORLD) if rank // stride % degree == 0]
    return [[start + at * stride for at in range(degree)] for start in starts]


def product_of(order):
    out = 1
    for _, degree in order:
        out *= degree
    return out


def collective_of(operation, size, group, count):
    """Returns a call of a collective on `size` bytes."""
    dtype = torch.bfloat16 if CUDA else torch.float32
    each = max(size // (2 if CUDA else 4) // count, 1)
    whole = torch.ones(each * count, device=DEVICE).to(dtype)
    part = torch.ones(each, device=DEVICE).to(dtype)
    if operation == "all_reduce":
        return lambda: dist.all_reduce(whole, group=group)
    if operation == "all_gather":
        gather = getattr(dist, "all_gather_into_tensor", getattr(dist, "_all_gather_base", None))
        if gather is not None and CUDA:
            return lambda: gather(whole, part, group=group)
        parts = list(whole.chunk(count))
        return lambda: dist.all_gather(parts, part, group=group)
    scatter = getattr(dist, "reduce_scatter_tensor", getattr(dist, "_reduce_scatter_base", None))
    if scatter is not None:
        return lambda: scatter(part, whole, group=group)
    parts = list(whole.chunk(count))
    return lambda: dist.reduce_scatter(part, parts, group=group)


def measure_collectives(work):
    """Returns bytes and seconds of each collective, None where it was not measured."""
    found, made = [], {}
    for one in work["collectives"]:
        found.append(None)
        operation, axis, size = one["operation"], one["axis"], one["bytes"]
        groups = groups_of(axis, work["order"])
        ranks = next(ranks for ranks in groups if RANK in ranks)
        if len(ranks) < 2 or len(groups) > 64 or not has_time(8.0 if CUDA else 2.0):
            why = "the group has one rank" if len(ranks) < 2 else "too many groups" if len(groups) > 64 else "no time left"
            say_once("collective", operation=operation, axis=axis, skipped=why)
            continue
        if axis not in made:
            made[axis] = [dist.new_group(ranks) for ranks in groups]
        group = made[axis][groups.index(ranks)]
        size = size if CUDA else min(size, BYTES)
        try:
            seconds = timed_together(collective_of(operation, size, group, len(ranks)))
        except (RuntimeError, NotImplementedError, ValueError) as error:
            # The backend does not have it: on no rank.
            say_once("collective", operation=operation, axis=axis, skipped=str(error).split("\n")[0][:200])
            continue
        found[-1] = (size, seconds)
        nodes = len(set(rank // LOCALS for rank in ranks))
        say_once(
            "collective", operation=operation, axis=axis, ranks=len(ranks), nodes=nodes, planned_bytes=one["bytes"],
            bytes=size, seconds=seconds, bytes_per_second=size / seconds, constant=one["constant"],
        )
    return found


def measure_neighbours():
    """Returns the bytes per second that this rank exchanges with the same rank of the next nodes, the better of two."""
    if NODES < 2:
        return 0.0
    size = (1 << 26) if CUDA else BYTES
    out, into = torch.ones(size // 4, device=DEVICE), torch.empty(size // 4, device=DEVICE)
    node, best = RANK // LOCALS, 0.0
    for turn in range(2):
        other = node + 1 if node % 2 == turn else node - 1
        if NODES % 2 == 0:
            other %= NODES
        paired = 0 <= other < NODES
        peer = other * LOCALS + RANK % LOCALS

        def run():
            if not paired:
                return
            first = [dist.P2POp(dist.isend, out, peer), dist.P2POp(dist.irecv, into, peer)]
            for request in dist.batch_isend_irecv(first if node < other else first[::-1]):
                request.wait()

        run()
        sync()
        seconds = []
        for _ in range(5):
            start = time.time()
            run()
            sync()
            seconds.append(time.time() - start)
        if paired:
            best = max(best, size / min(seconds))
        reduce_number(0.0)
    return best


def sent_by_devices():
    """Returns the bytes that each EFA or InfiniBand device has sent."""
    counters = ("hw_counters/tx_bytes", "counters/port_xmit_data")
    sent = {}
    for device in sorted(glob.glob("/sys/class/infiniband/*")):
        for counter in counters:
            found = glob.glob(os.path.join(device, "ports/*", counter))
            if found:
                with open(found[0]) as file:
                    sent[os.path.basename(device)] = int(file.read().strip() or 0)
                break
        else:
            sent[os.path.basename(device)] = None
    return sent


def measure_reading(name, path):
    """Reads files of a channel for a few seconds."""
    read, start, limit = 0, time.time(), 3.0 if CUDA else 1.0
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name_of_file in sorted(names):
            try:
                with open(os.path.join(folder, name_of_file), "rb", buffering=0) as file:
                    while time.time() - start < limit:
                        data = file.read(1 << 23)
                        if not data:
                            break
                        read += len(data)
            except OSError:
                continue
            if time.time() - start >= limit:
                break
        if time.time() - start >= limit:
            break
    seconds = max(time.time() - start, 1e-6)
    say("channel", host=HOST, channel=name, bytes=read, seconds=seconds, bytes_per_second=read / seconds)


def measure_writing(path, planned):
    """Writes a file as large as a node's part of a checkpoint, for at most a few seconds, and removes it."""
    size = min(planned, 4 << 30) if CUDA else min(planned, FILE)
    block = os.urandom(1 << 23)
    name = os.path.join(path, ".trainc-probe-%d" % RANK)
    written, start = 0, time.time()
    try:
        if not os.path.isdir(path):
            os.makedirs(path)
        if shutil.disk_usage(path).free < 2 * size:
            say("checkpoint", host=HOST, skipped="the volume has no room for it")
            return
        with open(name, "wb", buffering=0) as file:
            while written < size and time.time() - start < (8.0 if CUDA else 2.0):
                written += file.write(block)
            os.fsync(file.fileno())
    except OSError as error:
        say("checkpoint", host=HOST, skipped=str(error))
        return
    finally:
        if os.path.exists(name):
            os.remove(name)
    seconds = time.time() - start
    say("checkpoint", host=HOST, planned_bytes=planned, bytes=written, seconds=seconds, bytes_per_second=written / seconds)


def compare(plan, work, products, attention, collectives):
    """Returns planned and measured seconds of the plan's work, by constant of the cost model."""
    flop = sum(2.0 * m * k * n for m, k, n in work["products"])
    out = {"gemm": (plan["product_seconds"], flop * products[1] / products[0])}
    if plan.get("attention_seconds") and attention:
        shape = work["sequences"] * work["heads"] * work["sequence_length"] ** 2 * work["head_dim"]
        out["flash"] = (plan["attention_seconds"], 4.0 * shape * attention[1] / attention[0])
    for one, seconds, found in zip(work["collectives"], plan.get("collective_seconds", []), collectives):
        if found is not None and seconds > 0:
            planned, measured = out.get(one["constant"], (0.0, 0.0))
            out[one["constant"]] = (planned + seconds, measured + one["bytes"] * found[1] / found[0])
    return out


def measured_constants(plan, compared):
    """Returns the constants by which the plan would have predicted what was measured: times are inverse to them."""
    out = {}
    for key, value in plan.get("constants", {}).items():
        found = compared.get(key) or compared.get(key.split(".")[-1])
        if found:
            out[key] = float("%.4g" % (value * found[0] / found[1]))
    return out


def share_of_plan(plan, compared):
    """Returns the planned time of a step over the time by the measured rates."""
    computed = [compared[name] for name in ("gemm", "flash") if name in compared]
    moved = [times for name, times in compared.items() if name not in ("gemm", "flash")]
    factor = lambda times: sum(measured for _, measured in times) / sum(planned for planned, _ in times) if times else 1.0
    compute, waiting = plan["compute_seconds"], plan["communication_seconds"]
    rest = plan["step_seconds"] - compute - waiting
    return plan["step_seconds"] / (rest + compute * factor(computed) + waiting * factor(moved))


def judge(settings, plan, work, own, products, attention, collectives):
    """Compares the nodes with each other and the cluster with its plan. Returns True if the job may start."""
    minimum = settings.get("minimum")
    ranks = gather_numbers(own)
    names = gather_names()
    nodes = [ranks[at * LOCALS:(at + 1) * LOCALS] for at in range(NODES)]
    # By the slowest rank of each node, and its fastest call, which other load does not disturb.
    speeds = [1.0 / max(rank[0] for rank in node) for node in nodes]
    links = [min(rank[1] for rank in node) for node in nodes]
    memory = [min(rank[2] for rank in node) for node in nodes]
    slow, ended = [], []
    for at in range(NODES):
        shares = {}
        for name, values in (("products", speeds), ("links", links), ("memory", memory)):
            middle = statistics.median(values)
            if middle > 0:
                shares[name] = values[at] / middle
        # Processes of one machine compete for its memory: on CPUs only their products are compared.
        least = min(shares.values()) if CUDA else shares["products"]
        if least < SLOW:
            slow.append(names[at])
        if minimum and least < minimum:
            ended.append(names[at])
        say_once("node", host=names[at], slow=least < SLOW, shares=shares)
    # All ranks wait for the slowest.
    products = (products[0], max(rank[3] for rank in ranks), products[2])
    share = None
    # The rates of a CPU say nothing about the plan: there, nodes are compared with each other alone.
    if CUDA and plan.get("product_seconds"):
        compared = compare(plan, work, products, attention, collectives)
        say_once("constants", values=measured_constants(plan, compared))
        share = share_of_plan(plan, compared)
    ok = not ended and not (minimum and share is not None and share < minimum)
    members = dict(share=share, minimum=minimum, slow_nodes=slow, seconds=time.time() - BEGIN)
    if ok:
        say_once("done", **members)
    else:
        if ended:
            why = "T0680 slow: %s, below %d %% of the median node" % (", ".join(ended), round(100 * minimum))
        else:
            why = "T0680 the cluster reaches %.3g %% of the planned rate; the minimum is %d %%" % (100 * share, round(100 * minimum))
        say_once("ended", host=ended[0] if ended else HOST, text=why, **members)
    return ok


def gather_names():
    """Returns the host of each node."""
    data = HOST.encode()[:64]
    coded = gather_numbers([float(byte) for byte in data] + [0.0] * (64 - len(data)))
    decode = lambda row: bytes(int(byte) for byte in row).rstrip(b"\0").decode("utf-8", "replace")
    return [decode(coded[node * LOCALS]) for node in range(NODES)]


def main():
    global DEVICE
    with open(os.path.join(HERE, "trainc_start.json")) as file:
        settings = json.load(file)
    work, probe = settings["work"], settings["probe"]
    plan = json.loads(os.environ.get("TRAINC_PLAN") or "{}")
    if CUDA:
        torch.cuda.set_device(DEVICE_AT % torch.cuda.device_count())
        DEVICE = torch.device("cuda", DEVICE_AT % torch.cuda.device_count())
        name = torch.cuda.get_device_name()
    else:
        torch.set_num_threads(1)
        DEVICE, name = torch.device("cpu"), "CPU"
    dtype = DTYPES[work["dtype"]]
    if not CUDA and dtype == torch.float16:
        dtype = torch.float32
    if sys.argv[1:] == ["compiled"]:
        layer, shape = layer_of(work, dtype)
        time_layer("compiled", torch.compile(layer), shape, dtype)
        return 0
    if WORLD > 1:
        dist.init_process_group("nccl" if CUDA else "gloo", timeout=datetime.timedelta(seconds=120))
        # The first collective connects the ranks.
        reduce_number(0.0)
    say_once(
        "begin", ranks=WORLD, nodes=NODES, device=name, torch=torch.__version__, backend="nccl" if CUDA else "gloo",
        dtype=str(dtype).replace("torch.", ""), reduced=not CUDA,
    )
    before = sent_by_devices() if LOCAL == 0 else {}
    products = measure_products(work, dtype)
    memory = measure_bandwidth()
    attention = None
    try:
        attention = measure_attention(work, dtype)
    except RuntimeError as error:
        why = str(error).split("\n")[0][:200]
        say_once("attention", kernel=work.get("attention"), skipped="the job's kernel was not timed: %s" % why)
    neighbours, collectives = 0.0, [None] * len(work["collectives"])
    if WORLD > 1:
        neighbours = measure_neighbours()
        collectives = measure_collectives(work)
    if before or (LOCAL == 0 and NODES > 1 and CUDA):
        after = sent_by_devices()
        used = [device for device in after if after[device] and after[device] > (before.get(device) or 0)]
        say("efa", host=HOST, found=len(after), used=len(used))
    if LOCAL == 0:
        for channel, path in sorted(settings["channels"].items())[:4]:
            if os.path.isdir(path):
                measure_reading(channel, path)
        if settings["checkpoint"] and work["checkpoint_bytes_per_node"]:
            measure_writing(settings["checkpoint"], work["checkpoint_bytes_per_node"])
    # Only now: a compiler may take the rest of the time.
    try:
        if has_time(10.0):
            measure_layers(work, dtype)
    except RuntimeError as error:
        say_once("layer", kind="eager", skipped=str(error).split("\n")[0][:200])
    own = [products[2], neighbours, memory, products[1]]
    ok = judge(probe, plan, work, own, products, attention, collectives)
    if WORLD > 1:
        dist.destroy_process_group()
    return 0 if ok else ENDED


DEVICE = torch.device("cpu")

if __name__ == "__main__":
    try:
        CODE = main()
    except Exception as error:
        # A probe that fails does not keep the program from starting.
        say("error", host=HOST, why="%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0][:300]))
        CODE = 0
    sys.stdout.flush()
    # Libraries may still hold threads.
    os._exit(CODE)
