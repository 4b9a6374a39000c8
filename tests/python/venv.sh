#!/bin/sh
# Makes .venv in the repository's root on first use, and again when the requirements change. Run by itself, or sourced by
# the run.sh of the Python tests for `install`, with $here (tests/python), $root, $venv and $python set.

choose() {
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "run.sh: no Python 3.11 or newer; set PYTHON" >&2
    exit 2
}

stamp() {
    "$1" - "$here/requirements.txt" "$here/requirements-nodeps.txt" "$here/constraints.txt" <<'PY'
import hashlib, pathlib, sys
print(hashlib.sha256(b"".join(pathlib.Path(p).read_bytes() for p in sys.argv[1:])).hexdigest())
PY
}

install() {
    base=$(choose)
    want=$(stamp "$base")
    if [ -x "$python" ] && [ "$(cat "$venv/requirements.sha256" 2>/dev/null)" = "$want" ] && "$python" -c '' 2>/dev/null; then
        return
    fi
    echo "run.sh: installing the Python tools into .venv" >&2
    rm -rf "$venv"
    "$base" -m venv "$venv"
    pip="$python -m pip --disable-pip-version-check --quiet install"
    $pip -r "$here/requirements.txt" -c "$here/constraints.txt"
    $pip --no-deps -r "$here/requirements-nodeps.txt"
    echo "$want" >"$venv/requirements.sha256"
}

case $0 in
*venv.sh)
    set -eu
    here=$(cd "$(dirname "$0")" && pwd)
    root=$(cd "$here/../.." && pwd)
    venv=$root/.venv
    python=$venv/bin/python
    install
    ;;
esac
