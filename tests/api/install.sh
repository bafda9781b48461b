#!/usr/bin/env bash
# Installs what the tests hold the document of the interface against, and what they make clients of it with: PyPI's
# `openapi-spec-validator`, `schemathesis` and `openapi-python-client`, npm's `openapi-typescript` and `openapi-fetch`, pinned by hash
# with all that they need. `make api-tools` runs it. The tests themselves never go to the network.
#
# Where to: $PIX_API_TOOLS, or `api-tools` in cargo's target folder. Quick when they are there already.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
here="$repository/tests/api"
target=${CARGO_TARGET_DIR:-target}
tools=${PIX_API_TOOLS:-$target/api-tools}
# As cargo does when it is started at the top.
case $tools in /*) ;; *) tools="$repository/$tools" ;; esac

pins=$(cat "$here/install.sh" "$here/requirements.txt" "$here/package.json" "$here/package-lock.json" | sha256sum)
stamp="$tools/installed"
if [ "$(cat "$stamp" 2>/dev/null)" = "$pins" ] && "$tools/python/bin/python3" -c 'import schemathesis, openapi_spec_validator' 2>/dev/null; then
    exit 0
fi

missing=()
{ python3 -c 'import venv, ensurepip'; } 2>/dev/null || missing+=(python3-venv)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if [ ${#missing[@]} != 0 ]; then
    echo "Python and Node.js are needed to hold the document against what is served: apt-get install ${missing[*]}" >&2
    exit 1
fi

# The stamp goes first and comes last, so that an installation that was cut off is never taken for a whole one.
rm -rf "$tools"
mkdir -p "$tools/node"
python3 -m venv "$tools/python"
"$tools/python/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --only-binary :all: \
    --requirement "$here/requirements.txt"
cp "$here/package.json" "$here/package-lock.json" "$tools/node/"
npm ci --prefix "$tools/node" --ignore-scripts --no-audit --no-fund --loglevel=error
echo "$pins" >"$stamp"
