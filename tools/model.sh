#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the models of docs/model with spin: as they are, no assertion may fail;
# without one of the rules, one must. "quick" is what make test runs; "full"
# takes some minutes. The last line is "model: N passed, N
# failed".
set -u
cd "$(dirname "$0")/.."
models=$PWD/docs/model
command -v spin > /dev/null || {
    echo "model: spin is missing: make deps-test" >&2
    exit 1
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
memory=${MODEL_MEMORY_MB:-8000}
seconds=${MODEL_SECONDS:-3600}
tries=0
jobs=$(nproc)
is_long=0

# try holds|fails MODEL SETTING...: explores all of it, beside those that run.
try()
{
    [ "$(jobs -rp | wc -l)" -lt "$jobs" ] || wait -n
    tries=$((tries + 1))
    explore "$dir/$tries" "$@" &
}

# explore DIR holds|fails MODEL SETTING...: leaves in DIR what it found.
explore()
{
    local dir=$1 expected=$2 model=$3 flags=() found states start=$SECONDS
    local level=-O0 # Compiling it takes longer than the short runs do.
    shift 3
    [ "$is_long" = 0 ] || level=-O1
    for setting in "$@"; do
        flags+=("-D$setting")
    done
    mkdir "$dir"
    (cd "$dir" && spin "${flags[@]}" -a "$models/$model.pml" > spin.log &&
        gcc $level -w -DCOLLAPSE -DSAFETY -DMEMLIM="$memory" -o pan pan.c &&
        timeout "$seconds" ./pan -m2000000) > "$dir/log" 2>&1
    states=$(awk '/states, stored/ { print $1 }' "$dir/log")
    if grep -q 'Search not completed' "$dir/log" &&
        ! grep -q 'assertion violated' "$dir/log"; then
        found='not finished'
    elif grep -q 'errors: 0' "$dir/log"; then
        found=holds
    elif grep -q 'assertion violated' "$dir/log"; then
        found=fails
    else
        found='not finished'
    fi
    {
        [ "$found" != 'not finished' ] || tail -n 5 "$dir/log"
        printf '%-7s %-9s %s: %s states, %s s\n' "$found" "$model" "$*" \
            "${states:-?}" $((SECONDS - start))
        [ "$found" = "$expected" ] || echo "  expected that it $expected"
    } > "$dir/told"
    [ "$found" = "$expected" ] && touch "$dir/passed"
    return 0
}

# members.pml with each of its guards taken out. HARM: only what harms users is
# asserted, not what the guards promise.
without_guards()
{
    local former="APPLIED NAMES_NUMBERS NO_CLOSING LINKS HARM LOST LOG=6"
    try fails members HARM LINKS GROWN LOG=4 NO_VOTE_CHECK
    try fails members HARM LINKS GROWN STALE NO_ACK_CHECK
    try fails members HARM LINKS GROWN STALE NO_CONFIRM_CHECK
    try fails members HARM LINKS GROWN LOG=4 NO_OWN_CHECK
    try fails members LINKS LOG=4 NO_HELLO_CHECK
    try fails members LINKS LOG=4 NO_CLOSING
    try fails members HARM ADD_NAMES_NOBODY
    try fails members HARM NO_COMMIT_WAIT
    try fails members HARM LOG=4 IN_ONE
    try fails members HARM FOUR TERMS=3 LOG=3 NO_OWN_ENTRY
    try fails members HARM RESTARTS=1 CONFIG_FROM_APPLIED
    # shellcheck disable=SC2086 # They are several.
    try fails members $former
    # shellcheck disable=SC2086
    try fails members $former RESTARTS=1 REGISTERED_AT_ONCE
}

quick()
{
    try holds bound
    try holds bound SPANS
    for without in BEGIN_WITHOUT_TIME IN_FULL NO_MARK NO_TIME; do
        try fails bound $without
    done
    try fails bound SPANS BEGIN_WITHOUT_TIME
    try fails bound SPANS IN_FULL
    try holds replace
    for without in NO_EMPTY_CHECK EMPTY_EVERY_TIME NO_OTHERS_CHECK \
        NO_OWN_CHECK RECORDED_LATER NOBODY_CONTINUES REMOVE_KEEPS_RECORD; do
        try fails replace $without
    done
    try holds replace AUTO
    for without in NO_MARK_CHECK NO_PAUSE ONLY_ASKED NO_OTHERS_CHECK \
        NO_OWN_CHECK NOBODY_CONTINUES EMPTY_EVERY_TIME; do
        try fails replace AUTO $without
    done
    try holds cells
    try holds cells ROUND ANY_TOKEN
    for without in NO_EMPTY_CHECK NO_TAKER NO_EPOCH_CHECK \
        DECIDED_WHEN_PROPOSED NO_JOIN; do
        try fails cells HARM $without
    done
    try fails cells ANY_TOKEN
    try fails cells ROUND ANY_TOKEN GIVES=5 ROW_ALONE
    try fails cells ROUND ANY_TOKEN GIVES=5 OWN_CLOCK
    try holds silence LEASE=2 LOG=4 TERMS=2
    try holds silence LEASE=2 LINGER=1 LOG=4 TERMS=2
    try holds silence SPANS LEASE=2 LOG=5
    try holds silence SPANS HOLD LEASE=2 LOG=5
    try fails silence SPANS LEASE=2 LOG=5 NO_BASE_CHECK
    try fails silence SPANS LEASE=2 LOG=5 SPAN_WITHOUT_STEP
    try fails silence LEASE=2 LOG=5 FIRST_BEAT_FREE
    try fails silence LEASE=2 LOG=5 ANSWER_WHEN_PROPOSED
    try fails silence LEASE=2 LOG=5 TERMS=2 MARK_BINDS_WHEN_APPLIED
    try fails silence LEASE=2 LINGER=1 LOG=4 TERMS=2 JEOPARDY_BY_LEASE
    try fails silence LEASE=2 LINGER=1 LOG=4 TERMS=2 HEARTBEAT_KEEPS_LINGER
    try holds members LOG=5
    try holds members LINKS WIPED LOG=6
    try holds members LINKS GROWN LOG=4
    try holds members LINKS GROWN STALE
    without_guards
}

full()
{
    jobs=1 # The last ones need gigabytes each.
    quick
    is_long=1
    try fails silence LEASE=2 LOG=5 TERMS=2 SECOND_TIME
    try fails silence SPANS HOLD LEASE=4 LOG=6 TOLD_WITHOUT_CLOCK
    try fails silence LEASE=2 LOG=5 NO_BASE_CHECK
    try holds silence SPANS LEASE=3 LOG=6 RESTARTS=1
    try holds silence SPANS HOLD LEASE=3 LOG=6 RESTARTS=1
    try holds members TERMS=3 LOG=5
    try holds members LATE
    try holds members WIPED LOG=5
    try holds members GROWN LOG=5
    try holds members FOUR TERMS=3 LOG=3
    try holds members TWO LOG=3
    try holds members LINKS TERMS=3 LOG=6
    try holds members LINKS WIPED LOG=8
}

case ${1:-full} in
quick) quick ;;
full) full ;;
*)
    echo "usage: tools/model.sh [quick|full]" >&2
    exit 2
    ;;
esac
wait
passed=0
for number in $(seq "$tries"); do
    cat "$dir/$number/told"
    [ ! -f "$dir/$number/passed" ] || passed=$((passed + 1))
done
failed=$((tries - passed))
printf 'model: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
