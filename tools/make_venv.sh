#!/bin/sh
# Make the virtual environment $1 with the first Python that is new enough, and put the pip of this folder into it.
# PYTHON names one to be tried first.
set -eu
venv=$1
tools=$(dirname "$0")

# Candidates are run, not looked up: a version manager's stand-in may exist for a Python that is not there.
find_python() {
    for candidate in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    found=$(python3 --version 2>&1) || found="no python3 at all"
    echo "tornado_gate needs Python 3.11 or newer on PATH; found: $found." >&2
    echo "Install one, or name it: make PYTHON=/path/to/python3.11 …" >&2
    exit 1
}

python=$(find_python)
set -- "$tools"/pip-*-py3-none-any.whl
"$python" -m venv --clear --without-pip "$venv"
"$venv/bin/python" "$1/pip" install --quiet --no-index --no-deps "$1"
