#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs cmocka programs, two for each processor at a time (some wait for the
# disk, or for time to pass), each with a time limit. Prints how many tests
# passed and failed, and how to repeat a failing program. Runs them from the end
# of the alphabet: test_wal* wait for the disk longest, and so start first.
set -u
passed=0
failed=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs
# shellcheck disable=SC2016
printf '%s\n' "$@" | sort -r | xargs -P "$((2 * $(nproc)))" -I '{}' bash -c '
    name=$(basename "$1")
    timeout "${UNIT_TIMEOUT:-180}" "$1" > "$logs/$name.log" 2>&1
    echo $? > "$logs/$name.status"' run '{}'
for program in "$@"; do
    log=$logs/$(basename "$program").log
    status=$(cat "$logs/$(basename "$program").status" 2>/dev/null || echo 99)
    ok=$(grep -c '\[       OK \]' "$log")
    bad=$(grep -c '\[  FAILED  \] [a-z0-9_]*$' "$log")
    passed=$((passed + ok))
    if [ "$status" != 0 ]; then
        [ "$bad" = 0 ] && bad=1
        failed=$((failed + bad))
        cat "$log"
        printf 'failed (exit %s), repeat with: %s\n' "$status" "$program"
    fi
done
printf 'unit: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
