#!/bin/bash
# SPDX-License-Identifier: MIT
#
# All checks that a change must pass. Each part prints "name: N passed, N
# failed" with its seconds by the clock and of the processors; the last line
# sums them up. build/test-times.tsv keeps the times of all runs.
#
# The tests on real processes mostly wait. The parts that only compute run
# beside them, at the lowest priority, so they use the processors that would be
# idle.
#
# TEST_ONLY="unit sim" runs only these parts.
set -u
cd "$(dirname "$0")/.."
jobs=$(nproc)
scratch=$(mktemp -d)
results=$scratch/results
beside=
trap 'rm -rf "$scratch"' EXIT
# A signal also ends the parts that run beside.
trap '[ -z "$beside" ] || kill -- "-$beside" 2>/dev/null; exit 130' INT TERM HUP
export TMPDIR=${TMPDIR:-/tmp}
times=build/test-times.tsv
TIMEFORMAT='%R %U %S'
now=$(date -u +%FT%TZ)
commit=$(git rev-parse --short HEAD 2>/dev/null || echo -)

# sum LOG WORD: adds up each "N WORD" of the log.
sum()
{
    grep -oE "[0-9]+ $2" "$1" | awk '{ n += $1 } END { print n + 0 }'
}

# keep NAME SECONDS CPU_SECONDS
keep()
{
    mkdir -p "${times%/*}"
    [ -e "$times" ] ||
        printf 'date\tcommit\tpart\tseconds\tcpu_seconds\n' > "$times"
    printf '%s\t%s\t%s\t%s\t%s\n' "$now" "$commit" "$@" >> "$times"
}

# part NAME COMMAND...: adds up the counts that the command prints, or counts it
# as one if it prints none.
part()
{
    local name=$1 log=$scratch/$1.log took=$scratch/$1.took
    local status ok bad wall cpu text
    shift
    case " ${TEST_ONLY:-$name} " in
    *" $name "*) ;;
    *) return ;;
    esac
    printf '== %s\n' "$name"
    { time "$@" > "$log" 2>&1; } 2> "$took"
    status=$?
    read -r wall cpu < <(awk '{ printf "%.0f %.0f\n", $1, $2 + $3 }' "$took")
    ok=$(sum "$log" passed)
    bad=$(sum "$log" failed)
    if [ "$status" = 0 ] && [ $((ok + bad)) = 0 ]; then
        ok=1
    elif [ "$status" != 0 ] && [ "$bad" = 0 ]; then
        bad=1
    fi
    printf '%s %s %s %s\n' "$name" "$ok" "$bad" "$cpu" >> "$results"
    keep "$name" "$wall" "$cpu"
    # In one piece: another part may print at the same time.
    text=$(shown "$log" "$status" "$bad")
    printf '%s%s: %s passed, %s failed (%s s, %s s of CPU)\n' \
        "${text:+$text$'\n'}" "$name" "$ok" "$bad" "$wall" "$cpu"
}

# shown LOG STATUS FAILED: the end of a log that has a failure, or what it says
# of interest.
shown()
{
    if [ "$2" != 0 ] || [ "$3" != 0 ]; then
        tail -n 150 "$1"
    else
        grep -E '^(property: [0-9]+ op|(sim|fuzz|unsteady):)' "$1"
        grep -E '^(layers|circles|parts|tidy):' "$1"
        grep skipped "$1"
    fi
}

# The parts that only compute, cheapest first.
computed()
{
    renice -n 19 -p "$BASHPID" > "$scratch/renice.log"
    part lint make -s -O -k -j"$jobs" FLAVOUR=check lint
    part property make -s FLAVOUR=check property-short
    part model make -s model-short
    part sim make -s -j"$jobs" FLAVOUR=check sim-asserts SIM_ARGS="--pairs 2"
    part sim-asan make -s -j"$jobs" FLAVOUR=asan sim SEEDS=20
    part sim-same tools/sim-same.sh build/check build/asan
    part fuzz-build make -s -j"$jobs" FLAVOUR=asan fuzz-build
    part fuzz tools/run-fuzz.sh build/asan 0
    part tsan make -s -j"$jobs" FLAVOUR=tsan all
}

part build make -s -j"$jobs" all
part gcc make -s -j"$jobs" FLAVOUR=check all unit-objects
part clang make -s -j"$jobs" FLAVOUR=asan all
part unit make -s -j"$jobs" FLAVOUR=asan unit
part unit-unsanitized make -s -j"$jobs" FLAVOUR=check unit-unsanitized
# A process group of its own, which has SIGINT as others have it.
set -m
computed &
beside=$!
set +m
part cluster make -s cluster
wait "$beside" || printf 'computed 0 1 0\n' >> "$results"
beside=
part unit-tsan make -s -j"$jobs" FLAVOUR=tsan unit-threads
part haspd-tsan make -s -j"$jobs" FLAVOUR=tsan cluster-threads
part readme tools/readme.py build/release

read -r passed failed cpu < <(
    awk '{ p += $2; f += $3; c += $4 } END { print p + 0, f + 0, c + 0 }' \
        "$results")
keep total "$SECONDS" "$cpu"
printf 'total: %s s, %s s of CPU; kept in %s\n' "$SECONDS" "$cpu" "$times"
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
