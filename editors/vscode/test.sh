#!/usr/bin/env bash
# Compiles the extension and tests it in Node against a real language server: TRAINC_BIN, or the first trainc on PATH.
set -euo pipefail
cd "$(dirname "$0")"
[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --ignore-scripts --no-audit --no-fund --silent
npm run --silent compile
npm test --silent
