#!/usr/bin/env bash
# Installs the published libraries that the tests verify postbacks with: PyPI's and npm's `standardwebhooks`, pinned by
# hash. `make webhook-libraries` runs it. The tests themselves never go to the network.
#
# Where to: $PIX_WEBHOOK_LIBRARIES, or `webhook-libraries` in cargo's target folder. Quick when they are there already.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
here="$repository/tests/webhooks"
target=${CARGO_TARGET_DIR:-target}
libraries=${PIX_WEBHOOK_LIBRARIES:-$target/webhook-libraries}
# As cargo does when it is started at the top.
case $libraries in /*) ;; *) libraries="$repository/$libraries" ;; esac

pins=$(cat "$here/install.sh" "$here/requirements.txt" "$here/package.json" "$here/package-lock.json" | sha256sum)
stamp="$libraries/installed"
if [ "$(cat "$stamp" 2>/dev/null)" = "$pins" ] && "$libraries/python/bin/python3" -c 'import standardwebhooks' 2>/dev/null; then
    exit 0
fi

missing=()
{ python3 -c 'import venv, ensurepip'; } 2>/dev/null || missing+=(python3-venv)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if [ ${#missing[@]} != 0 ]; then
    echo "Python and Node.js are needed to verify postbacks with the published libraries: apt-get install ${missing[*]}" >&2
    exit 1
fi

# The stamp goes first and comes last, so that an installation that was cut off is never taken for a whole one.
rm -rf "$libraries"
mkdir -p "$libraries/node"
python3 -m venv "$libraries/python"
pip=("$libraries/python/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps)
# What builds the library first: a build of its own would fetch it without a hash.
sed -n '/^setuptools/,/[^\\]$/p' "$here/requirements.txt" >"$libraries/build.txt"
"${pip[@]}" --requirement "$libraries/build.txt"
"${pip[@]}" --no-build-isolation --requirement "$here/requirements.txt"
cp "$here/package.json" "$here/package-lock.json" "$libraries/node/"
npm ci --prefix "$libraries/node" --ignore-scripts --no-audit --no-fund --loglevel=error
echo "$pins" >"$stamp"
