#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs each built fuzz target on its corpus: for SECONDS of fuzzing, or, with 0,
# only the inputs that are in the tree.
set -u
seconds=${1:-0}
passed=0
failed=0
for program in build/fuzz/fuzz/fuzz_*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    name=$(basename "$program")
    corpus=tests/fuzz/corpus/${name#fuzz_}
    mkdir -p "$corpus"
    scratch=$(mktemp -d)
    log=$scratch/log
    found=$scratch/found # Not the folder of the log, which would be an input.
    mkdir "$found"
    if [ "$seconds" = 0 ]; then
        # A bounded number of mutations, the same each time.
        set -- -runs=20000 -seed=1 -max_total_time=10
    else
        set -- -max_total_time="$seconds"
    fi
    if "$program" "$@" -artifact_prefix="$scratch/" "$found" "$corpus" \
        > "$log" 2>&1; then
        passed=$((passed + 1))
        printf '%s: %s\n' "$name" \
            "$(grep -o 'Done [0-9]* runs.*' "$log" | tail -1)"
        rm -rf "$scratch"
    else
        failed=$((failed + 1))
        tail -40 "$log"
        printf '%s: failed; the input is in %s\n' "$name" "$scratch"
    fi
done
printf 'fuzz: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
