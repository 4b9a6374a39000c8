"""Replays the GPU engine's calls on PyTorch's fake CUDA tensors, without a GPU.

    replay.py TRACE.jsonl ...

PyTorch checks names, numbers and kinds of arguments, formats, shapes and devices of each call; this script checks that
each result has the sizes and the format that the engine worked with, and that each operator has a kernel for CUDA. What
it cannot see are limits inside kernels, such as head sizes. The traces are written by the test `traces_of_each_family`.
"""

import collections
import json
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

KINDS = {"F32": torch.float32, "F64": torch.float64, "Bf16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32}
# PyTorch's numbers of the formats (c10/core/ScalarType.h).
CODES = {6: torch.float32, 7: torch.float64, 15: torch.bfloat16, 4: torch.int64, 3: torch.int32, 28: torch.uint64,
         9: torch.complex64}
KEYS = ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd")


class Replay:
    def __init__(self):
        self.tensors = {}
        self.seen = collections.Counter()
        self.strides = collections.Counter()
        self.wrong = []

    def keep(self, what, described, found):
        """Keeps a result under its number after comparing it with what the engine had."""
        number, *rest = described
        if len(rest) == 3:
            sizes, strides, code = rest
            if list(found.shape) != sizes or found.dtype != CODES[code] or found.device.type != "cuda":
                self.wrong.append(f"{what}: {tuple(found.shape)} {found.dtype} {found.device}, expected {described}")
            elif list(found.stride()) != strides:
                self.strides[what] += 1
        self.tensors[number] = found

    def argument(self, value):
        if isinstance(value, dict):
            if "tensor" in value:
                return self.tensors.get(value["tensor"])
            if "tensors" in value:
                return [self.tensors[number] for number in value["tensors"]]
            return KINDS[value["kind"]] if "kind" in value else value["float"]
        return value

    def call(self, name, arguments, outputs):
        base, _, overload = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, base), overload or "default")
        if not any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in KEYS):
            self.wrong.append(f"{name} has no kernel for CUDA")
        schema = operator._schema.arguments
        assert len(arguments) == len(schema), f"{len(arguments)} arguments, the schema has {len(schema)}"
        values = [self.argument(value) for value in arguments]
        positional = [v for v, a in zip(values, schema) if not a.kwarg_only]
        named = {a.name: v for v, a in zip(values, schema) if a.kwarg_only}
        found = operator(*positional, **named)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        aliases = [r.alias_info is not None and r.alias_info.is_write for r in operator._schema.returns]
        found = [tensor for tensor, alias in zip(found, aliases) if not alias]
        assert len(found) == len(outputs), f"{len(found)} results, expected {len(outputs)}"
        for described, tensor in zip(outputs, found):
            if described is not None:
                if tensor is None:
                    self.tensors[described[0]] = None
                else:
                    self.keep(name, described, tensor)

    def line(self, kind, *rest):
        self.seen[rest[0] if kind == "call" else kind] += 1
        if kind == "empty":
            (described,) = rest
            _, sizes, strides, code = described
            self.keep(kind, described, torch.empty_strided(sizes, strides, dtype=CODES[code], device="cuda"))
        elif kind == "view":
            described, of, at = rest
            base = self.tensors[of]
            _, sizes, strides, _ = described
            self.keep(kind, described, base.as_strided(sizes, strides, base.storage_offset() + at))
        elif kind == "copy":
            to, source = rest
            self.tensors[to].copy_(self.tensors[source])
        elif kind == "add":
            described, a, b, alpha = rest
            self.keep(kind, described, torch.ops.aten.add.Tensor(self.tensors[a], self.tensors[b], alpha=alpha))
        else:
            self.call(*rest)


def main(paths):
    failed = not paths
    for path in paths:
        replay = Replay()
        with FakeTensorMode(), torch.no_grad(), open(path) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    replay.line(*json.loads(line))
                except Exception as error:  # whatever PyTorch says of this call
                    replay.wrong.append(f"line {number}: {line.strip()[:160]}: {type(error).__name__}: {str(error)[:300]}")
                    if len(replay.wrong) > 5:
                        break
        total = sum(replay.seen.values())
        name = path.rsplit("/", 1)[-1]
        print(f"PyTorch {torch.__version__}, {name}: {total} calls, {len(replay.seen)} operators, {len(replay.wrong)} wrong;"
              f" other strides than on CPUs: {dict(replay.strides)}")
        for text in replay.wrong[:6]:
            print("  ", text)
        failed |= bool(replay.wrong) or total == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
