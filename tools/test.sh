#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Everything that must hold before a change lands, in order of price. Each part
# says "name: N passed, N failed"; the last line sums them up. TEST_ONLY="unit
# sim" runs only these parts.
set -u
cd "$(dirname "$0")/.."
jobs=$(nproc)
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export TMPDIR=${TMPDIR:-/tmp}

# sum WORD: adds up each "N WORD" of the log.
sum()
{
    grep -oE "[0-9]+ $1" "$log" | awk '{ n += $1 } END { print n + 0 }'
}

# part NAME COMMAND...: adds up the counts that the command prints, or counts it
# as one if it prints none.
part()
{
    local name=$1 start=$SECONDS status counts ok bad
    shift
    case " ${TEST_ONLY:-$name} " in
    *" $name "*) ;;
    *) return ;;
    esac
    printf '== %s\n' "$name"
    "$@" > "$log" 2>&1
    status=$?
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
        grep -E '^(layers|circles|tidy):' "$log"
        grep skipped "$log"
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    printf '%s: %s passed, %s failed (%s s)\n' "$name" "$ok" "$bad" \
        $((SECONDS - start))
}

part build make -s -j"$jobs" all
part gcc make -s -j"$jobs" FLAVOUR=check all
part clang make -s -j"$jobs" FLAVOUR=fuzz all
part unit make -s -j"$jobs" FLAVOUR=check unit
part unit-level2 make -s -j"$jobs" FLAVOUR=level2 unit T=feature
part property make -s FLAVOUR=check property-short
part model make -s model-short
part lint make -s -O -k -j"$jobs" FLAVOUR=check lint
part sim make -s -j"$jobs" FLAVOUR=check sim SEEDS=200 SIM_ARGS="--pairs 2"
part sim-level2 make -s -j"$jobs" FLAVOUR=level2 sim SEEDS=40
part raft-asserts tools/raft-asserts.sh build/check 50
part unit-asan make -s -j"$jobs" FLAVOUR=asan unit
part sim-asan make -s -j"$jobs" FLAVOUR=asan sim SEEDS=20
part unit-tsan make -s -j"$jobs" FLAVOUR=tsan unit-threads
part haspd-tsan make -s -j"$jobs" FLAVOUR=tsan cluster-threads
part sim-same tools/sim-same.sh build/check build/asan
part fuzz-build make -s -j"$jobs" FLAVOUR=fuzz fuzz-build
part fuzz tools/run-fuzz.sh 0
part cluster make -s cluster
part readme tools/readme.py build/release

printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
