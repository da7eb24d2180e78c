#!/bin/sh
# Write requirements.lock and requirements-build.lock: the exact versions and hashes of what a release installs. Usage: lock.sh UV
set -eu
uv=$1
own="tornado-gate"
for folder in plugins/*/; do own="$own tornado-gate-$(basename "$folder")"; done
skip=""
for name in $own; do skip="$skip --no-emit-package $name"; done
resolve() { # resolve SOURCE TARGET
    # shellcheck disable=SC2086
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
        --no-emit-index-url --upgrade $skip "$1" --output-file "$2"
}
resolve tools/runtime.in requirements.lock
resolve tools/build.in requirements-build.lock
