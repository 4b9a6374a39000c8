# Shortcuts; every one is a plain command that works without `just`.

# The inner loop: build and test without the AWS SDK.
quick:
    cargo test --no-default-features

# Everything, as CI runs it.
ci:
    .ci/run

# Lints and formatting.
lint:
    cargo fmt --check
    cargo clippy --all-targets -- -D warnings

# Licences, sources and wildcards of what is linked in (`cargo install cargo-deny`).
deny:
    cargo deny --all-features check licenses bans sources

# Rewrites goldens, transcripts and snapshots from what trainc says now. Read the diff before you commit it.
bless:
    TRAINC_BLESS=1 INSTA_UPDATE=always cargo test

# Timings, beside the peers that are installed.
bench:
    cargo bench

# The worker beside PyTorch FSDP over gloo; `python` has torch. Needs a quiet machine and half an hour.
bench-worker python=".venv-torch/bin/python":
    cargo build --release -p trainc-worker
    python3 worker/benches/fsdp.py --torch {{python}} --worker target/release/trainc-worker --gemm --check

# The worker for SageMaker's containers, the oldest of which (ubuntu20.04) has glibc 2.31: a plain build asks for the
# version of the machine that it was built on. zig and cargo-zigbuild come from PyPI.
release-worker:
    python3 -m venv target/zig
    target/zig/bin/pip install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.0
    PATH="$PWD/target/zig/bin:$PATH" cargo zigbuild --release --locked -p trainc-worker --target x86_64-unknown-linux-gnu.2.31
    TRAINC_RELEASED_WORKER="$PWD/target/x86_64-unknown-linux-gnu/release/trainc-worker" cargo test --locked -p trainc-worker --test main release
