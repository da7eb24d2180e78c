#!/bin/sh
# Checks the files in dist/: their metadata, and that the wheels work in an empty environment. Usage: check_dist.sh PYTHON
set -eu
python=$1
"$python" -m pip install -qq twine
"$python" -m twine check --strict dist/*.whl dist/*.tar.gz
rm -rf dist/venv
sh tools/make_venv.sh dist/venv
dist/venv/bin/python -m pip install -qq --require-hashes --only-binary :all: -r requirements.lock
dist/venv/bin/python -m pip install -qq dist/*.whl
dist/venv/bin/python -m pip check
dist/venv/bin/tornado-gate --version
dist/venv/bin/tornado-gate plugins list
dist/venv/bin/tornado-gate check --conf conf/gate.yaml
dist/venv/bin/tornado-gate keys create --name first --data-dir dist/var >dist/key.txt
rm -rf dist/new
dist/venv/bin/tornado-gate plugins new acme --into dist/new
dist/venv/bin/python -m pip install -qq --no-deps dist/new/tornado-gate-acme
dist/venv/bin/tornado-gate plugins check acme
