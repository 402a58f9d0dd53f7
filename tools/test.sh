#!/bin/bash
# SPDX-License-Identifier: MIT
#
# All checks that a change must pass, cheapest first. Each part
# prints "name: N passed, N failed" with the seconds that it took, by the clock
# and of the processors; the last line sums them up. build/test-times.tsv keeps
# the times of all runs. TEST_ONLY="unit sim" runs only these parts.
set -u
cd "$(dirname "$0")/.."
jobs=$(nproc)
passed=0
failed=0
total_cpu=0
log=$(mktemp)
took=$(mktemp)
trap 'rm -f "$log" "$took"' EXIT
export TMPDIR=${TMPDIR:-/tmp}
times=build/test-times.tsv
TIMEFORMAT='%R %U %S'
now=$(date -u +%FT%TZ)
commit=$(git rev-parse --short HEAD 2>/dev/null || echo -)

# sum WORD: adds up each "N WORD" of the log.
sum()
{
    grep -oE "[0-9]+ $1" "$log" | awk '{ n += $1 } END { print n + 0 }'
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
    local name=$1 status ok bad wall cpu
    shift
    case " ${TEST_ONLY:-$name} " in
    *" $name "*) ;;
    *) return ;;
    esac
    printf '== %s\n' "$name"
    { time "$@" > "$log" 2>&1; } 2> "$took"
    status=$?
    read -r wall cpu < <(awk '{ printf "%.0f %.0f\n", $1, $2 + $3 }' "$took")
    ok=$(sum passed)
    bad=$(sum failed)
    if [ "$status" = 0 ] && [ $((ok + bad)) = 0 ]; then
        ok=1
    elif [ "$status" != 0 ] && [ "$bad" = 0 ]; then
        bad=1
    fi
    if [ "$status" != 0 ] || [ "$bad" != 0 ]; then
        tail -n 150 "$log"
    else
        grep -E '^(property: [0-9]+ op|(sim|fuzz|unsteady):)' "$log"
        grep -E '^(layers|circles|parts|tidy):' "$log"
        grep skipped "$log"
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    printf '%s: %s passed, %s failed (%s s, %s s of CPU)\n' "$name" "$ok" \
        "$bad" "$wall" "$cpu"
    total_cpu=$((total_cpu + cpu))
    keep "$name" "$wall" "$cpu"
}

part build make -s -j"$jobs" all
part gcc make -s -j"$jobs" FLAVOUR=check all unit-objects
part clang make -s -j"$jobs" FLAVOUR=asan all
part unit make -s -j"$jobs" FLAVOUR=asan unit
part unit-unsanitized make -s -j"$jobs" FLAVOUR=check unit-unsanitized
part unit-level2 make -s -j"$jobs" FLAVOUR=level2 unit T=feature
part property make -s FLAVOUR=check property-short
part model make -s model-short
part lint make -s -O -k -j"$jobs" FLAVOUR=check lint
part sim make -s -j"$jobs" FLAVOUR=check sim-asserts SIM_ARGS="--pairs 2"
part sim-level2 make -s -j"$jobs" FLAVOUR=level2 sim SEEDS=40
part sim-asan make -s -j"$jobs" FLAVOUR=asan sim SEEDS=20
part unit-tsan make -s -j"$jobs" FLAVOUR=tsan unit-threads
part haspd-tsan make -s -j"$jobs" FLAVOUR=tsan cluster-threads
part sim-same tools/sim-same.sh build/check build/asan
part fuzz-build make -s -j"$jobs" FLAVOUR=asan fuzz-build
part fuzz tools/run-fuzz.sh build/asan 0
part cluster make -s cluster
part readme tools/readme.py build/release

keep total "$SECONDS" "$total_cpu"
printf 'total: %s s, %s s of CPU; kept in %s\n' "$SECONDS" "$total_cpu" "$times"
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
