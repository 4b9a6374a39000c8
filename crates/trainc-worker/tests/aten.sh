#!/usr/bin/env bash
# Tests the worker's engine of GPUs on PyTorch's CPU tensors: schemas of its operators, the recorded cases, collectives over
# a double of NCCL. Fetches PyTorch into target/torch (530 to 920 MB for each version).
# Usage: aten.sh [VERSION ...], by default the oldest and the newest supported version.
set -euo pipefail
cd "$(dirname "$0")/../../.."
versions=("$@")
[ $# -gt 0 ] || versions=(2.10.0 2.15.0)
mkdir -p target/torch
tests=crates/trainc-worker/tests/python
for version in "${versions[@]}"; do
    echo "== PyTorch $version"
    directory=$(python3 "$tests/fetch_torch.py" "$version" "target/torch/$version")
    python3 "$tests/aten_schemas.py" "${version%.*}=target/torch/$version/torchgen/packaged/ATen/native/native_functions.yaml"
    # One thread: the tests run beside each other, and sums have the same order.
    TRAINC_TORCH_LIB="$PWD/$directory" OMP_NUM_THREADS=1 cargo test --locked -p trainc-worker --test main -- aten:: --test-threads 2
done
