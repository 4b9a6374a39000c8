#!/bin/sh
# Runs trainc against the test account: tests/account/run.sh [pytest arguments]
#
#   TRAINC_BIN=FILE   the binary to drive, built with the feature `aws`; without it only the account itself is tested
#
# The environment is that of tests/python: .venv in the repository's root, made on first use.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/python
venv=$root/.venv
python=$venv/bin/python
. "$here/venv.sh"
install

cd "$root/tests/account"
if [ -z "${TRAINC_BIN:-}" ]; then
    case " $* " in
    *.py*) ;;
    *)
        echo "run.sh: TRAINC_BIN is not set: testing the account alone" >&2
        set -- "$@" test_account.py
        ;;
    esac
fi
PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest "$@"
