"""Fresh weights and tokens by the worker's formulas, for the recording scripts."""
import hashlib
import math

import numpy as np
import torch


def mix(z):
    z = np.asarray(z, dtype=np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def normal(seed, name, n):
    key = int.from_bytes(hashlib.sha256(seed.to_bytes(8, "little") + name.encode()).digest()[:8], "little")
    i = np.arange(2 * n, dtype=np.uint64)
    u = ((mix(np.uint64(key) + i * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return np.sqrt(-2 * np.log(u[0::2])) * np.cos(2 * math.pi * u[1::2])


def tokens(sequences, length, vocab, seed):
    out, previous = [], 0
    fresh = mix(np.arange(sequences * (length + 1), dtype=np.uint64) + np.uint64(seed * 0x10000000))
    for f in fresh.tolist():
        previous = (previous * 7 + 3 if f & 1 else f >> 8) % vocab
        out.append(previous)
    return torch.tensor(out).view(sequences, length + 1)
