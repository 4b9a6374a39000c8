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
