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
