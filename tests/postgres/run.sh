#!/usr/bin/env bash
# Runs what is promised of the store over PostgreSQL on other versions than the machine's, one after the other, and on the machine's
# own through a PgBouncer that gives a connection for a transaction only, and prints a table of it: `tests/postgres/run.sh
# [VERSION]...`, where `pooled` is a version too, and all of them by default. SUITES='backup kill' are those of the versions.
# `make postgres-versions` runs it.
#
# Exits with 1 when a suite failed on a version; what it said is in postgres-versions/VERSION-SUITE.log in cargo's target folder.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C

repository=$(cd "$(dirname "$0")/../.." && pwd)
cd "$repository"
"$repository/tests/postgres/install.sh"
target=${CARGO_TARGET_DIR:-target}
folder=${PIX_POSTGRES_VERSIONS:-$target/postgres-versions}
case $folder in /*) ;; *) folder="$repository/$folder" ;; esac
cargo=${CARGO:-cargo}
read -ra suites <<<"${SUITES:-postgres_opening postgres_conformance postgres_faults postgres backup kill}"
# Those that have a pooler, or a gateway, before the database.
pooled=(postgres_conformance postgres_faults main_job kill uncertain postbacks people operations)
versions=("$@")
if [ ${#versions[@]} = 0 ]; then versions=(13 14 16 17 18 pooled); fi

# The servers are started as such a user.
if [ "$(id -u)" = 0 ] && ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$folder/18/bin/postgres"; then
    echo "Nobody but root may enter $folder, and servers are not started as root: have PIX_POSTGRES_VERSIONS name a folder that all may read" >&2
    exit 1
fi
tests=()
for suite in "${suites[@]}" "${pooled[@]}"; do tests+=(--test "$suite"); done
"$cargo" test --workspace --all-features --no-run "${tests[@]}"

failed=0
printf '\n| PostgreSQL | Suite | Passed | Failed | |\n|---|---|---:|---:|---|\n'
run() { # shown name, name of the log, suite, further arguments of the suite
    local log="$folder/$2-$3.log" status=0 counts
    "$cargo" test --workspace --all-features --no-fail-fast --test "$3" -- "${@:4}" >"$log" 2>&1 || status=1
    # One line for each package that has a suite of the name.
    counts=$(awk '/^test result:/ {passed += $4; failed += $6; seconds += $NF} END {printf "%d | %d | %.0f s", passed, failed, seconds}' "$log")
    if [ "$status" != 0 ]; then failed=1; counts+=" [log]($log)"; fi
    printf '| %s | %s | %s |\n' "$1" "$3" "$counts"
}
for version in "${versions[@]}"; do
    if [ "$version" = pooled ]; then
        export PIX_TEST_POOL_MODE=transaction
        for suite in "${pooled[@]}"; do
            # Not what is no matter of a pooler, nor two that look at what it hides: whether a database forgets commits, which it
            # does not where the role says otherwise, as it has to here; and which connection of the server a node has.
            case $suite in
                postgres_conformance) only=(bouncer::) ;;
                postgres_faults) only=(lines:: --skip a_connection_that_owes_nothing_is_kept) ;;
                main_job) only=(--skip sqlite --skip a_start_on_postgresql_that_can_not_go_well) ;;
                *) only=(--skip sqlite) ;;
            esac
            PATH="$folder/pooler:$PATH" run 'through PgBouncer 1.24' pooled "$suite" "${only[@]}"
        done
        unset PIX_TEST_POOL_MODE
        continue
    fi
    bin="$folder/$version/bin"
    if [ ! -x "$bin/postgres" ]; then
        echo "PostgreSQL $version is not among those of $folder" >&2
        exit 1
    fi
    server=$("$bin/postgres" --version | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
    for suite in "${suites[@]}"; do
        # `backup` and `restore` take the newest of the programs that there are.
        PIX_TEST_PG_BIN="$bin" PATH="$bin:$PATH" run "$server" "$version" "$suite" --skip sqlite
    done
done
exit "$failed"
