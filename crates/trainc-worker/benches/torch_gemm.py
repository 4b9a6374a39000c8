"""Times PyTorch's matrix multiplications on one thread, in the shapes of `trainc-worker bench`: best of 30 by thread CPU time, one JSON line each."""
import json
import time

import torch

SHAPES = [("qkv", 1024, 384, 1152), ("out", 1024, 384, 384), ("up", 1024, 384, 2048), ("down", 1024, 1024, 384), ("head", 256, 384, 8192)]


def best(work):
    times = []
    for _ in range(30):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)


torch.set_num_threads(1)
with torch.no_grad():
    for name, n, k, m in SHAPES:
        x, w, dy = torch.full((n, k), 0.5), torch.full((m, k), 0.25), torch.full((n, m), 0.125)
        y, dx, dw = torch.empty(n, m), torch.empty(n, k), torch.empty(m, k)
        for kind, work in [
            ("forward", lambda: torch.mm(x, w.t(), out=y)),
            ("inputs", lambda: torch.mm(dy, w, out=dx)),
            ("weights", lambda: torch.mm(dy.t(), x, out=dw)),
        ]:
            print(json.dumps({"product": f"{name}.{kind}", "gflops": round(2 * n * k * m / best(work) / 1e9, 2)}))
