#!/usr/bin/env bash
# Makes the Debian package of a built program, installs it, starts it as its unit does, takes a charge and its payment, and
# removes it: `tests/packaging/run.sh PROGRAM`. `make package-test` runs it. A package that is there already may be given too.
#
# As root it is installed by dpkg, and runs as the user that the package makes. Else it is unpacked into a folder, and runs
# as whoever runs this. Nothing outside of loopback is asked.
set -euo pipefail
program=$(realpath "$1")
repository=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
chmod 0755 "$work"
serving=
installed=

say() { printf -- '--- %s\n' "$*"; }
fail() {
    printf 'package-test: %s\n' "$*" >&2
    exit 1
}
finish() {
    status=$?
    if [ -n "$serving" ]; then kill "$serving" 2>/dev/null || true; fi
    if [ -n "$installed" ]; then
        dpkg --purge pix-gateway >/dev/null 2>&1 || true
        rm -rf /var/lib/pix-gateway
        if [ "$installed" = with-user ]; then userdel pix-gateway 2>/dev/null || true; fi
    fi
    if [ "$status" != 0 ] && [ -f "$work/log" ]; then tail -n 20 "$work/log" >&2; fi
    rm -rf "$work"
}
trap finish EXIT

missing=()
command -v lintian >/dev/null || missing+=(lintian)
command -v dpkg-shlibdeps >/dev/null || missing+=(dpkg-dev)
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v strace >/dev/null || missing+=(strace)
command -v man >/dev/null || missing+=(man-db groff)
command -v python3 >/dev/null || missing+=(python3)
command -v curl >/dev/null || missing+=(curl)
if [ ${#missing[@]} != 0 ]; then fail "the package is tested with: apt-get install ${missing[*]}"; fi

if [[ $program == *.deb ]]; then
    package=$program
else
    say "make it"
    "$repository/deploy/debian/build.sh" "$program" "$work" --fast >/dev/null
    package=$(echo "$work"/pix-gateway_*.deb)
fi
echo "$(basename "$package"): $(stat --format=%s "$package") bytes"

say "lintian"
root_too=()
if [ "$(id -u)" = 0 ]; then root_too=(--allow-root); fi
lintian --fail-on error,warning --tag-display-limit 0 "${root_too[@]}" "$package"

say "what is in it"
dpkg-deb --contents "$package" | awk '{print $1, $6}' >"$work/contents"
for line in '-rwxr-xr-x ./usr/bin/pix-gateway' '-rwxr-xr-x ./usr/sbin/pix-gatewayctl' \
    '-rw------- ./etc/pix-gateway/pix-gateway.env' './usr/share/man/man1/pix-gateway-serve.1.gz' \
    './usr/share/bash-completion/completions/pix-gateway' './usr/lib/systemd/system/pix-gateway.service' \
    './usr/lib/sysusers.d/pix-gateway.conf' './usr/share/doc/pix-gateway/copyright'; do
    grep --quiet --fixed-strings -- "$line" "$work/contents" || fail "not in the package: $line"
done
dpkg-deb --control "$package" "$work/control"
grep --quiet --line-regexp /etc/pix-gateway/pix-gateway.env "$work/control/conffiles" || fail "the settings are no conffile"

if [ "$(id -u)" = 0 ]; then
    say "install it"
    if dpkg-query --show pix-gateway >/dev/null 2>&1 || [ -e /var/lib/pix-gateway ]; then
        fail "pix-gateway is installed here already: nothing is touched"
    fi
    installed=with-user
    if getent passwd pix-gateway >/dev/null; then installed=yes; fi
    root=
    dpkg --install "$package" >"$work/dpkg"
    [ "$(stat --format='%U:%G %a' /var/lib/pix-gateway)" = 'pix-gateway:pix-gateway 700' ] || fail "/var/lib/pix-gateway is not its user's alone"
    [ "$(stat --format='%U:%G %a' /etc/pix-gateway/pix-gateway.env)" = 'root:root 600' ] || fail "the settings are not root's alone"
    if [ -e /etc/systemd/system/multi-user.target.wants/pix-gateway.service ]; then fail "it was enabled"; fi
    if pgrep --full '^/usr/bin/pix-gateway' >/dev/null; then fail "it was started"; fi
    state=/var/lib/pix-gateway
else
    say "unpack it"
    root="$work/root"
    dpkg-deb --extract "$package" "$root"
    state="$work/state"
    mkdir -m 0700 "$state"
fi

say "its unit"
unit="$root/usr/lib/systemd/system/pix-gateway.service"
if [ -z "$root" ]; then
    complaints=$(systemd-analyze verify "$unit" 2>&1) || fail "$complaints"
    [ -z "$complaints" ] || fail "$complaints"
fi
systemd-analyze security --offline=true --threshold=15 --no-pager "$unit" | tail -n 1

say "its manual pages and completions"
for page in "$root"/usr/share/man/man1/pix-gateway*.1.gz "$root/usr/share/man/man8/pix-gatewayctl.8.gz"; do
    complaints=$(MANROFFSEQ='' MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
    [ -z "$complaints" ] || fail "$page: $complaints"
done
# shellcheck disable=SC2016 # $1 is of the inner shell.
bash -c 'source "$1"; complete -p pix-gateway' - "$root/usr/share/bash-completion/completions/pix-gateway" >/dev/null

say "start it as the unit does"
read -r port simulator admin < <(python3 - <<'PYTHON'
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(one.getsockname()[1] for one in held))
PYTHON
)
settings="$root/etc/pix-gateway/pix-gateway.env"
sed -i -e "s|^PIX_LISTEN=.*|PIX_LISTEN=127.0.0.1:$port|" -e "s|^PIX_ADMIN_LISTEN=.*|PIX_ADMIN_LISTEN=127.0.0.1:$admin|" \
    -e "s|/var/lib/pix-gateway/|$state/|" "$settings"
echo "PIX_SIMULATOR_LISTEN=127.0.0.1:$simulator" >>"$settings"
command=$(sed -n 's/^ExecStart=//p' "$unit")
# Only what the unit and its file of settings say. The system calls are noted, to be held against what the unit allows.
mapfile -t environment < <(grep --extended-regexp '^[A-Z_]+=' "$settings"; sed -n 's/^Environment=//p' "$unit")
as_service=()
if [ -z "$root" ]; then as_service=(--user=pix-gateway); fi
touch "$work/calls"
chmod 0666 "$work/calls"
# shellcheck disable=SC2086 # The command line is split as the unit's.
(cd "$state" && umask 0077 && exec strace -f -qq --seccomp-bpf -o "$work/calls" "${as_service[@]}" \
    env --ignore-environment PATH=/usr/bin:/bin "${environment[@]}" ${root}${command}) >"$work/out" 2>"$work/log" &
serving=$!
control() {
    if [ -z "$root" ]; then
        /usr/sbin/pix-gatewayctl "$@"
    else
        (cd "$state" && env --ignore-environment PATH=/usr/bin:/bin "${environment[@]}" "$root/usr/bin/pix-gateway" "$@")
    fi
}
for _ in $(seq 300); do
    if control health >/dev/null 2>&1; then break; fi
    kill -0 "$serving" || fail "it ended"
    sleep 0.2
done
control health
curl --silent --show-error --fail "http://127.0.0.1:$port/health/ready" && echo
if grep --quiet $'\e' "$work/log"; then fail "the log has colours"; fi

say "a charge"
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
integrator=$(control integrator create --name 'package test' --json | field uuid)
key=$(control key create --integrator "$integrator" --json)
token=$(curl --silent --show-error --fail --user "$(field public_id <<<"$key"):$(field secret <<<"$key")" -X POST \
    "http://127.0.0.1:$port/v2/oauth/token" | field access_token)
call() { curl --silent --show-error --fail -H "Authorization: Bearer $token" -H 'Content-Type: application/json' "$@"; }
charge=$(call "http://127.0.0.1:$port/api/v1/charges" \
    -d '{"amount": 10.50, "external_id": "package-test", "payer": {"name": "Maria Silva", "document": "52998224725"}}')
curl --silent --show-error --fail -X POST "http://127.0.0.1:$simulator/sim/charges/$(field pix_id <<<"$charge")/pay" >/dev/null
call "http://127.0.0.1:$port/api/v1/transactions/consult" -d '{"external_id": "package-test"}' >/dev/null
balance=$(call -X POST "http://127.0.0.1:$port/v2/balance")
echo "$balance"
[[ $balance == *'"balance":"10.50"'* ]] || fail "the payment was not credited"
control audit | tail -n 1
if [ -z "$root" ]; then
    control audit-log list | tail -n 1
    [ "$(stat --format=%U "$state/pix-gateway.db")" = pix-gateway ] || fail "the database is not its user's"
fi

say "stop it"
pid=$(pgrep --parent "$serving" --full pix-gateway | head -n 1)
kill -TERM "$pid"
status=0
wait "$serving" || status=$?
serving=
[ "$status" = 0 ] || fail "it ended with $status"

say "its system calls"
# Groups and calls that the unit allows, less those that it takes away, by systemd's own lists.
python3 - "$unit" "$work/calls" <<'PYTHON'
import re, subprocess, sys
unit, calls = (open(path).read() for path in sys.argv[1:])

def members(name):
    if not name.startswith("@"):
        return {name}
    listed = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    lines = (line.strip() for line in listed.splitlines()[1:])
    names = [line for line in lines if line and not line.startswith("#")]
    return set().union(*(members(name) for name in names)) if names else set()

allowed = set()
for value in re.findall(r"^SystemCallFilter=(.*)$", unit, re.M):
    taken = value.startswith("~")
    for name in value.lstrip("~").split():
        allowed = allowed - members(name) if taken else allowed | members(name)
# `env` becomes the program with its last execve.
lines = calls.splitlines()
begin = max(index for index, line in enumerate(lines) if " execve(" in line and line.rstrip().endswith(" = 0"))
made = {found[1] for line in lines[begin:] if (found := re.match(r"\d+ +([a-z0-9_]+)\(", line))}
assert len(made) > 20, made
families = {found for line in lines[begin:] for found in re.findall(r" socket\((AF_[A-Z0-9]+)", line)}
permitted = set(re.search(r"^RestrictAddressFamilies=(.*)$", unit, re.M)[1].split())
print(f"{len(made)} kinds of calls, sockets of {', '.join(sorted(families))}")
if made - allowed or families - permitted:
    sys.exit(f"the unit would refuse {sorted(made - allowed)} {sorted(families - permitted)}")
PYTHON

if [ -z "$root" ]; then
    say "remove it"
    dpkg --purge pix-gateway >"$work/dpkg"
    if [ -e /usr/bin/pix-gateway ] || [ -e /etc/pix-gateway ]; then fail "something is left"; fi
    [ -f /var/lib/pix-gateway/pix-gateway.db ] || fail "the ledger was removed"
fi
say "the package is sound"
