#!/usr/bin/env bash
# Plants each mistake of bugs.txt in a scratch copy and runs the suite that must catch it. Needs bash, git, coreutils and a
# Rust toolchain.
#
#   tests/planted/run.sh [--document FILE] [--only NAME]...
#
# Exits with 1 when a suite is red without a mistake, when a mistake can't be planted (its lines must be found exactly once, and
# it must compile), or when one survives. A suite that fails to build or hangs has caught nothing: a named test must fail.
# The scratch copy and what is built of it stay in target/planted-bugs (PLANTED_TARGET: another folder for what is built).
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
list=$root/tests/planted/bugs.txt
scratch=$root/target/planted-bugs
tree=$scratch/tree
log=$scratch/log
cargo=${CARGO:-cargo}
export CARGO_TARGET_DIR=${PLANTED_TARGET:-$scratch/target} CARGO_TERM_COLOR=never
unset RUSTFLAGS

document=
only=' '
while (($#)); do
    case $1 in
        --document) document=$2 && shift 2 ;;
        --only) only+="$2 " && shift 2 ;;
        *) echo "unknown option $1" >&2 && exit 2 ;;
    esac
done

# --- the suites: what of them cargo is asked for, and after how many seconds they hang

suite_arguments() {
    case $1 in
        laws) echo '-p pix-domain --test laws' ;;
        memory) echo '-p pix-memory --test conformance' ;;
        simulation) echo '-p pix-simulation --test simulation no_seed_loses_or_makes_money' ;;
        *) echo "no suite is named '$1'" >&2 && return 1 ;;
    esac
}

suite_timeout() {
    case $1 in
        simulation) echo 600 ;;
        *) echo 180 ;;
    esac
}

# --- the list

names=() whats=() files=() suites=() finds=() replacements=()

read_list() {
    local line last=-1
    while IFS= read -r line || [[ -n $line ]]; do
        case $line in
            '#'* | '') ;;
            'bug: '*)
                last=$((last + 1))
                names+=("${line#bug: }") whats+=('') files+=('') suites+=('') finds+=('') replacements+=('')
                ;;
            'what: '*) whats[last]=${line#what: } ;;
            'file: '*) files[last]=${line#file: } ;;
            'suite: '*) suites[last]=${line#suite: } ;;
            ' '*) finds[last]+=${line:1}$'\n' && replacements[last]+=${line:1}$'\n' ;;
            '-'*) finds[last]+=${line:1}$'\n' ;;
            '+'*) replacements[last]+=${line:1}$'\n' ;;
            *) echo "$list: what is this? $line" >&2 && exit 1 ;;
        esac
    done <"$list"
}

# --- the scratch copy: only what differs is written, so that only what differs is built again

copy() {
    if ! cmp -s "$1" "$2"; then
        mkdir -p "${2%/*}"
        cp "$1" "$2"
    fi
}

synchronise() {
    local path
    declare -A wanted=()
    mkdir -p "$tree"
    while IFS= read -r -d '' path; do
        [[ -f $root/$path ]] || continue
        wanted[$path]=1
        copy "$root/$path" "$tree/$path"
    done < <(git -C "$root" ls-files -z --cached --others --exclude-standard)
    while IFS= read -r -d '' path; do
        [[ -n ${wanted[$path]:-} ]] || rm -f "$tree/$path"
    done < <(cd "$tree" && find . -type f -printf '%P\0')
}

# Replaces the lines of one mistake. They must be there exactly once, and as whole lines.
plant() {
    local text found
    [[ -n $1 ]] || { echo "it names no lines" && return 1; }
    [[ -f $tree/$3 ]] || { echo "there is no file $3" && return 1; }
    text=$'\n'$(cat "$tree/$3"; echo x)
    text=${text%x}
    found=$((${#text} - $(printf %s "${text//$'\n'"$1"/$'\n'}" | wc -c)))
    if ((found != ${#1})); then
        echo "its lines are found $((found / ${#1})) times in $3, not once" && return 1
    fi
    text=${text/$'\n'"$1"/$'\n'"$2"}
    printf %s "${text:1}" >"$tree/$3"
}

# Says `green`, `red TEST`, or why it is neither.
run_suite() {
    local arguments code=0 failed
    arguments=$(suite_arguments "$1")
    cd "$tree"
    # shellcheck disable=SC2086 # arguments are words
    if ! "$cargo" test --quiet --locked --no-run $arguments >"$log" 2>&1; then
        echo 'does not compile' && return
    fi
    # shellcheck disable=SC2086
    timeout --kill-after=10 "$(suite_timeout "$1")" "$cargo" test --locked $arguments >"$log" 2>&1 || code=$?
    failed=$(grep -E '^test .* \.\.\. FAILED$|^test .* - should panic \.\.\. FAILED$' "$log" | sort | head -n 1) || true
    if ((code == 0)); then
        echo green
    elif ((code == 124 || code == 137)); then
        echo "hangs: no end after $(suite_timeout "$1") s"
    elif [[ -z $failed ]]; then
        echo "ends with $code, and no test says that it failed"
    else
        failed=${failed#test }
        echo "red ${failed%% *}"
    fi
}

wrong=0

complain() {
    echo "planted-bugs: $1" >&2
    wrong=1
}

read_list
declare -A used=()
for suite in "${suites[@]}"; do
    suite_arguments "$suite" >/dev/null
    used[$suite]=1
done
synchronise
began=$SECONDS
for suite in laws memory simulation; do
    [[ -n ${used[$suite]:-} ]] || continue
    from=$SECONDS
    result=$(run_suite "$suite")
    echo "without a mistake, $suite is $result after $((SECONDS - from)) s" >&2
    if [[ $result != green ]]; then
        cat "$log" >&2
        exit 1
    fi
done

table='| Mistake | Suite | Red after | The first test that fails |
|---|---|---|---|'
count=0
for index in "${!names[@]}"; do
    name=${names[index]} file=${files[index]} suite=${suites[index]}
    [[ $only == ' ' || $only == *" $name "* ]] || continue
    count=$((count + 1))
    from=$SECONDS
    if why=$(plant "${finds[index]}" "${replacements[index]}" "$file"); then
        result=$(run_suite "$suite")
    else
        result=$why
    fi
    took=$((SECONDS - from))
    # What a suite writes down of a failure is no part of the next one.
    synchronise
    case $result in
        'red '*)
            echo "$name: $result after $took s" >&2
            row="| $name: ${whats[index]} | $suite | $took s | \`${result#red }\` |"
            ;;
        green)
            complain "$name survived $suite"
            row="| $name: ${whats[index]} | $suite | **survived** | |"
            ;;
        *)
            complain "$name: $result"
            [[ $result != 'does not compile' ]] || grep -A 6 -m 1 '^error' "$log" >&2 || true
            row="| $name: ${whats[index]} | $suite | **$result** | |"
            ;;
    esac
    table+=$'\n'$row
done
summary="$count mistakes in $((SECONDS - began)) s."
((wrong)) || summary="All $count mistakes are caught, in $((SECONDS - began)) s."
((count)) || complain 'there is no such mistake'
printf '%s\n\n%s\n' "$table" "$summary"

if [[ -n $document && $only == ' ' && $wrong == 0 ]]; then
    begin='<!-- planted-bugs: begin -->' end='<!-- planted-bugs: end -->'
    text=$(cat "$document")
    [[ $text == *"$begin"*"$end"* ]] || { echo "$document has no markers" >&2 && exit 1; }
    version=$(cd "$root" && rustc --version)
    when="$(date -u +%F), $(nproc) cores, ${version% (*}"
    printf '%s\n' "${text%%"$begin"*}$begin"$'\n'"\`make planted-bugs\`, $when: $summary"$'\n\n'"$table"$'\n'"$end${text#*"$end"}" >"$document"
fi
exit "$wrong"
