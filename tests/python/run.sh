#!/bin/sh
# Runs the Python tests: tests/python/run.sh [pytest arguments]
#
#   TRAINC_EMITTED=DIR   tests what stands in DIR (from `trainc emit … --out DIR`)
#   TRAINC_BIN=FILE      else: emits every job of examples/ and tests/requests/ with this binary first, and tests that
#   neither              tests the tests alone (test_harness.py)
#
# Makes .venv and .venv-v3 in the repository's root on first use, and again when the requirements change. PYTHON chooses
# the interpreter; 3.11 or newer is needed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=$root/.venv
python=$venv/bin/python

. "$here/venv.sh"

# every manifest that is a job, not a layer: the examples, and the requests that no example makes
manifests() {
    (cd "$root" && find examples tests/requests -name '*.kdl' 2>/dev/null | LC_ALL=C sort) | while IFS= read -r manifest; do
        if grep -q '^job ' "$root/$manifest"; then
            echo "$manifest"
        fi
    done
}

emit() {
    if [ -z "$(manifests)" ]; then
        echo "run.sh: no manifest to emit in examples/ or tests/requests/" >&2
        exit 1
    fi
    # one run per manifest: a failure names it, and each tree stands under its manifest's path
    manifests | while IFS= read -r manifest; do
        case $manifest in
        */trainc.kdl) name=$(dirname "$manifest") ;;
        *) name=${manifest%.kdl} ;;
        esac
        name=${name#examples/}
        name=${name#tests/}
        if ! (cd "$root" && "$1" emit --quiet "$manifest" --out "$2/$name"); then
            echo "run.sh: trainc emit $manifest failed" >&2
            exit 1
        fi
    done
}

install
install_v3
if [ -n "${TRAINC_BIN:-}" ]; then
    case $TRAINC_BIN in
    */*) TRAINC_BIN=$(cd "$(dirname "$TRAINC_BIN")" && pwd)/$(basename "$TRAINC_BIN") ;;
    *) TRAINC_BIN=$(command -v "$TRAINC_BIN") ;;
    esac
    export TRAINC_BIN
    if [ -z "${TRAINC_EMITTED:-}" ]; then
        TRAINC_EMITTED=$(mktemp -d)
        trap 'rm -rf "$TRAINC_EMITTED"' EXIT
        trap 'exit 130' INT TERM
        emit "$TRAINC_BIN" "$TRAINC_EMITTED"
    fi
fi

cd "$here"
if [ -n "${TRAINC_EMITTED:-}" ]; then
    case $TRAINC_EMITTED in
    /*) ;;
    *) TRAINC_EMITTED=$OLDPWD/$TRAINC_EMITTED ;;
    esac
    export TRAINC_EMITTED
else
    case " $* " in
    *.py*) ;;
    *)
        echo "run.sh: neither TRAINC_EMITTED nor TRAINC_BIN is set: testing the harness alone" >&2
        set -- "$@" test_harness.py
        ;;
    esac
fi
PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest "$@"
