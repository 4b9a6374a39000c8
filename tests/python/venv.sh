#!/bin/sh
# Makes .venv in the repository's root on first use, and again when the requirements change, and .venv-v3 with the SageMaker
# SDK v3. Run by itself, or sourced by the run.sh of the Python tests for `install` and `install_v3`, with $here
# (tests/python), $root, $venv and $python set.

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

# the digest of an interpreter's requirements: stamp PYTHON FILE…
stamp() {
    "$1" - "$@" <<'PY'
import hashlib, pathlib, sys
print(hashlib.sha256(b"".join(pathlib.Path(p).read_bytes() for p in sys.argv[2:])).hexdigest())
PY
}

install() {
    base=$(choose)
    want=$(stamp "$base" "$here/requirements.txt" "$here/requirements-nodeps.txt" "$here/constraints.txt")
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

install_v3() {
    base=$(choose)
    want=$(stamp "$base" "$here/requirements-v3.txt")
    v3=$root/.venv-v3
    if [ "$(cat "$v3/requirements.sha256" 2>/dev/null)" = "$want" ] && "$v3/bin/python" -c '' 2>/dev/null; then
        return
    fi
    echo "run.sh: installing the SageMaker SDK v3 into .venv-v3" >&2
    rm -rf "$v3"
    "$base" -m venv "$v3"
    "$v3/bin/python" -m pip --disable-pip-version-check --quiet install --no-deps -r "$here/requirements-v3.txt"
    echo "$want" >"$v3/requirements.sha256"
}

case $0 in
*venv.sh)
    set -eu
    here=$(cd "$(dirname "$0")" && pwd)
    root=$(cd "$here/../.." && pwd)
    venv=$root/.venv
    python=$venv/bin/python
    install
    install_v3
    ;;
esac
