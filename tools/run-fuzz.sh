#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs each fuzz target of a build on its corpus: for SECONDS of fuzzing, or,
# with 0, the inputs in the tree and a bounded number of mutations.
#
#     tools/run-fuzz.sh BUILD [SECONDS]      e.g. build/asan 0
set -u
build=$1
seconds=${2:-0}
passed=0
failed=0
scratch=$(mktemp -d)

# fuzz PROGRAM: leaves its log in the scratch folder, and what it found, and, if
# it ends well, a file that says so.
fuzz()
{
    name=$(basename "$1")
    corpus=tests/fuzz/corpus/${name#fuzz_}
    # Not the folder of the log, which would be an input.
    found=$scratch/$name.found
    mkdir -p "$corpus" "$found"
    if [ "$seconds" = 0 ]; then
        # A bounded number of mutations, the same each time.
        set -- "$1" -runs=20000 -seed=1 -max_total_time=10
    else
        set -- "$1" -max_total_time="$seconds"
    fi
    "$@" -artifact_prefix="$scratch/$name." "$found" "$corpus" \
        > "$scratch/$name.log" 2>&1 && touch "$scratch/$name.passed"
}

for program in "$build"/fuzz/fuzz_*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    [ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n
    fuzz "$program" &
done
wait
for log in "$scratch"/*.log; do
    [ -f "$log" ] || continue
    name=$(basename "$log" .log)
    if [ -f "$scratch/$name.passed" ]; then
        passed=$((passed + 1))
        printf '%s: %s\n' "$name" \
            "$(grep -o 'Done [0-9]* runs.*' "$log" | tail -1)"
    else
        failed=$((failed + 1))
        tail -40 "$log"
        printf '%s: failed; the input is in %s\n' "$name" "$scratch"
    fi
done
[ "$failed" != 0 ] || rm -rf "$scratch"
printf 'fuzz: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
