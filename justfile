# Shortcuts; every one is a plain command that works without `just`.

# What one types after an edit: unit tests of the crates that a manifest goes through, and the fixtures of the diagnostics.
quick:
    cargo nextest run --workspace --profile quick

# Everything, as CI runs it.
ci:
    .ci/run

# Lints and formatting.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# What takes too long for every change: the fits behind the stored errors, kills at every single request over HTTP,
# packages, licences and advisories.
nightly:
    cargo test --locked --workspace --no-run
    cargo test --locked -p trainc-research -- --ignored
    TRAINC_EVERY_CALL=1 TRAINC_BIN="$PWD/target/debug/trainc" tests/account/run.sh
    cargo package --workspace --locked
    cargo deny --all-features check licenses bans sources advisories

# Rewrites goldens, transcripts and snapshots from the current output. Read the diff before you commit it.
bless:
    TRAINC_BLESS=1 INSTA_UPDATE=always cargo test --workspace

# Timings of an optimised build, beside the peers that are installed.
bench:
    cargo bench --profile dist

# The worker beside PyTorch FSDP over gloo; `python` has torch. Needs a quiet machine and half an hour.
bench-worker python=".venv-torch/bin/python":
    cargo build --profile dist -p trainc-worker
    python3 crates/trainc-worker/benches/fsdp.py --torch {{python}} --worker target/dist/trainc-worker --gemm --check

# The worker's engine of GPUs on PyTorch's CPU tensors, by default with the oldest and the newest supported version, which
# are fetched from PyPI (1.5 GB). `./test` runs the same tests if TRAINC_TORCH_LIB names torch/lib of a PyTorch.
test-aten *versions:
    crates/trainc-worker/tests/aten.sh {{versions}}

# The engine's calls on fake CUDA tensors of the installed PyTorch; `python` has torch. No GPU is needed.
replay-aten python=".venv-torch/bin/python":
    crates/trainc-worker/tests/replay.sh {{python}}

# What is emitted for accelerate, DeepSpeed and DistributedConfig trains on CPU processes, and their classes accept what trainc
# writes. Fetches PyTorch and the engines from PyPI (620 MB). `./test` runs it if TRAINC_ENGINES_PYTHON names their Python.
test-engines directory="target/engines":
    cargo build --locked -p trainc
    TRAINC_BIN=target/debug/trainc TRAINC_ENGINES_PYTHON="$(python3 tests/engines/environment.py {{directory}})" tests/python/run.sh test_engines.py

# Whether the tests of the engine find deliberate mistakes, above all in the order of collectives. A quarter of an hour.
mutate-aten version="2.15.0":
    TRAINC_TORCH_LIB="$(python3 crates/trainc-worker/tests/python/fetch_torch.py {{version}} target/torch/{{version}})" python3 crates/trainc-worker/tests/python/mutants.py

# The engine's unsafe code under AddressSanitizer, which stable Rust allows with RUSTC_BOOTSTRAP.
sanitize-aten version="2.15.0":
    TRAINC_TORCH_LIB="$(python3 crates/trainc-worker/tests/python/fetch_torch.py {{version}} target/torch/{{version}})" OMP_NUM_THREADS=1 RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=target/sanitize cargo test --locked --target x86_64-unknown-linux-gnu -p trainc-worker --test main -- aten::every_collective aten::bounds aten::memory aten::the_calls --test-threads 1

# The worker for SageMaker's containers, the oldest of which (ubuntu20.04) has glibc 2.31: a plain build asks for the
# version of the machine that it was built on. zig and cargo-zigbuild come from PyPI.
release-worker:
    python3 -m venv target/zig
    target/zig/bin/pip install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.1
    PATH="$PWD/target/zig/bin:$PATH" cargo zigbuild --release --locked -p trainc-worker --target x86_64-unknown-linux-gnu.2.31
    TRAINC_RELEASED_WORKER="$PWD/target/x86_64-unknown-linux-gnu/release/trainc-worker" cargo test --locked -p trainc-worker --test main release

# What a release publishes, into dist/: archives and wheels for Linux on x86_64 and aarch64 (glibc 2.28), licences, a bill of
# materials and checksums. `just dist --target x86_64-unknown-linux-gnu --profile release` for one target, sooner.
dist *arguments:
    python3 packaging/dist.py {{arguments}}

# The site, with search, in target/site/book: docs/, README.md, the examples and the pages of all problems. Requires mdBook:
# `cargo install --locked mdbook --version 0.5.4`.
site:
    python3 docs/site.py target/site/source
    mdbook build docs

# The extension for VS Code, tested and packaged into editors/vscode/trainc.vsix. Requires Node 20 or newer and npm.
vscode:
    cargo build --locked -p trainc
    TRAINC_BIN="$PWD/target/debug/trainc" editors/vscode/test.sh
    cp LICENSE editors/vscode/LICENSE
    cd editors/vscode && npm run --silent package
