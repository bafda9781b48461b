#!/usr/bin/env bash
# Makes the Debian package of a program that was built: `deploy/debian/build.sh PROGRAM FOLDER`. `make deb` builds the
# optimised one first. The manual pages and completions are what that very program prints.
set -euo pipefail
program=$(realpath "$1")
out=$2
shift 2
repository=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out"
out=$(realpath "$out")
cargo_deb=${CARGO_DEB:-$repository/target/tools/bin/cargo-deb}

# What cargo-deb takes for cargo's target folder: whichever profile the program is of.
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/release/deb/completions"
cp "$program" "$stage/release/pix-gateway"
"$program" man --out "$stage/release/deb/man"
cp "$repository/deploy/debian/pix-gatewayctl.8" "$stage/release/deb/man/"
gzip -9n "$stage"/release/deb/man/*
"$program" completions bash >"$stage/release/deb/completions/pix-gateway"
"$program" completions zsh >"$stage/release/deb/completions/_pix-gateway"
"$program" completions fish >"$stage/release/deb/completions/pix-gateway.fish"

# By the folder of the program alone: which of cargo's settings are those of a test doesn't matter.
cd "$repository/crates/app"
CARGO_TARGET_DIR=$stage "$cargo_deb" --no-build --quiet --output "$out" "$@"
