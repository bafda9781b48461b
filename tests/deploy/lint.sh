#!/usr/bin/env bash
# Checks the files that it is deployed with, each with the program that reads it in the end, or the nearest thing to that.
# `make lint-deploy` runs it. No engine for containers, and no systemd that runs, is needed.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
cd "$repository"
target=${CARGO_TARGET_DIR:-target}
tools=${PIX_DEPLOY_TOOLS:-$target/deploy-tools}/bin

say() { printf '%-14s %s\n' "$1" "$2"; }

say hadolint Containerfile
"$tools/hadolint" --failure-threshold style Containerfile

say compose-spec compose.yaml
"$tools/check-jsonschema" --quiet --builtin-schema vendor.compose-spec compose.yaml

say yamllint 'compose.yaml deploy/'
"$tools/yamllint" --strict --config-data '{extends: default, rules: {line-length: {max: 130}, document-start: disable}}' compose.yaml deploy

say caddy deploy/compose/Caddyfile
"$tools/caddy" fmt --diff deploy/compose/Caddyfile >/dev/null
checked=$("$tools/caddy" validate --config deploy/compose/Caddyfile --adapter caddyfile 2>&1) || { echo "$checked" >&2; exit 1; }

say shellcheck 'scripts of the package, and of its tests'
"$tools/shellcheck" deploy/debian/{build.sh,postinst,postrm,pix-gatewayctl} tests/deploy/*.sh tests/packaging/*.sh tests/postgres/*.sh

say promtool deploy/prometheus/
promtool check config deploy/prometheus/prometheus.yml >/dev/null
(cd deploy/prometheus && promtool test rules alerts_test.yml >/dev/null)

say promtool 'queries of deploy/grafana/pix-gateway.json'
"$tools/python3" - deploy/grafana/pix-gateway.json <<'PYTHON' | promtool check rules /dev/stdin >/dev/null
import json, sys
dashboard = json.load(open(sys.argv[1]))
queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
assert len(queries) > 5, "hardly a query"
rules = [{"record": f"query{number}", "expr": query.replace("$__rate_interval", "5m")} for number, query in enumerate(queries)]
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
PYTHON

say systemd deploy/debian/pix-gateway.service
unit=$(mktemp -d)
trap 'rm -rf "$unit"' EXIT
# The program need not be installed, nor the settings be there.
sed -e 's|^ExecStart=/usr/bin/pix-gateway |ExecStart=/bin/true |' deploy/debian/pix-gateway.service >"$unit/pix-gateway.service"
# A key that it doesn't know is a warning only, and the line is left out.
complaints=$(systemd-analyze verify --man=no "$unit/pix-gateway.service" 2>&1) && [ -z "$complaints" ] || {
    echo "$complaints" >&2
    exit 1
}
systemd-analyze security --offline=true --threshold=15 --no-pager "$unit/pix-gateway.service" >"$unit/exposure" || {
    cat "$unit/exposure" >&2
    exit 1
}
tail -n 1 "$unit/exposure"
