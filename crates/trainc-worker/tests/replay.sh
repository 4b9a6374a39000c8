#!/usr/bin/env bash
# Records the calls of the worker's engine of GPUs on CPU tensors and replays them on PyTorch's fake CUDA tensors.
# Usage: replay.sh PYTHON, an interpreter with torch installed (pip install torch numpy).
set -euo pipefail
cd "$(dirname "$0")/../../.."
python=$1
traces=$PWD/target/traces
rm -rf "$traces" && mkdir -p "$traces"
torch=$("$python" -c 'import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib")')
TRAINC_TORCH_LIB=$torch TRAINC_ATEN_TRACES=$traces OMP_NUM_THREADS=1 \
    cargo test --quiet --locked -p trainc-worker --test main -- aten::traces
"$python" crates/trainc-worker/tests/python/replay.py "$traces"/*.jsonl
