#!/usr/bin/env bash
# Runs the fuzz targets one after the other: run.sh SECONDS [TARGET] [INPUT]. With an INPUT, only that is run, once.
#
# What is found on the way lies below the target folder of cargo: what covers more under fuzz/corpus, what crashes under
# fuzz/artifacts. The seeds of the repository are read and never written.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:?for how many seconds each}
only=${2:-}
input=${3:-}
out=${CARGO_TARGET_DIR:-target}/fuzz
tools=$PWD/target/tools/bin

# The longest input, and how long one input and how much memory all may take, before that counts as a crash.
max_len=4096
timeout_seconds=5
rss_limit_mb=2048

# A nightly compiler brings the address sanitizer; a stable one does without, told that it may be used like a nightly one.
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    build=(cargo +nightly fuzz build --no-cfg-fuzzing --sanitizer address)
else
    export RUSTC_BOOTSTRAP=1
    build=(cargo fuzz build --no-cfg-fuzzing --sanitizer none)
fi
targets=()
for file in tests/fuzz/fuzz_targets/*.rs; do
    name=$(basename "$file" .rs)
    if [ -z "$only" ] || [ "$only" = "$name" ]; then targets+=("$name"); fi
done
if [ ${#targets[@]} = 0 ]; then
    echo "there is no target $only; there are: $(cd tests/fuzz/fuzz_targets && echo *.rs | sed 's/\.rs//g')"
    exit 2
fi

triple=$(rustc -vV | sed -n 's/^host: //p')
PATH=$tools:$PATH "${build[@]}" --fuzz-dir tests/fuzz --target-dir "$out" --target "$triple" ${only:+"$only"}
binaries=$out/$triple/release

if [ -n "$input" ]; then
    exec "$binaries/$only" "$input"
fi

summary=()
crashed=0
for name in "${targets[@]}"; do
    corpus=$out/corpus/$name
    artifacts=$out/artifacts/$name
    log=$out/$name.log
    mkdir -p "$corpus" "$artifacts"
    echo "$name, $seconds s"
    status=0
    # What a test run before has found is gone on from.
    "$binaries/$name" -max_total_time="$seconds" -max_len=$max_len -timeout=$timeout_seconds \
        -rss_limit_mb=$rss_limit_mb -print_final_stats=1 -dict=tests/fuzz/words.dict \
        -artifact_prefix="$artifacts/" "$corpus" "tests/fuzz/corpus/$name" >"$log" 2>&1 || status=$?
    stat() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }
    line=$(printf '%-18s %12s executions %9s a second' "$name" "$(stat number_of_executed_units)" "$(stat average_exec_per_sec)")
    if [ "$status" != 0 ]; then
        crashed=$((crashed + 1))
        crash=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
        line="$line  CRASHED"
        grep -m1 -A1 -E "panicked at|ERROR: " "$log" || tail -n 5 "$log"
        if [ -n "$crash" ]; then
            echo "  the input: $crash"
            echo "  again:     make fuzz TARGET=$name INPUT=$crash"
        fi
        echo "  the log:   $log"
    fi
    summary+=("$line")
done
echo
printf '%s\n' "${summary[@]}"
[ "$crashed" = 0 ] || { echo "$crashed of ${#targets[@]} targets crashed"; exit 1; }
