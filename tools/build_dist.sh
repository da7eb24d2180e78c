#!/bin/sh
# Builds a source archive and a wheel of the gateway and of every plugin into dist/. Usage: build_dist.sh PYTHON
set -eu
python=$1
if [ -n "$(git status --porcelain)" ]; then
    echo "The checkout has changes that are not committed. Commit or remove them, then build again." >&2
    exit 1
fi
rm -rf dist build plugins/*/build
for folder in . plugins/*/; do
    "$python" -m build --outdir dist "$folder"
done
