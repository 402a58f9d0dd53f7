#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs cmocka programs one after the other, each bounded in time; tells how many
# tests passed and failed, and how to repeat a failing program.
set -u
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for program in "$@"; do
    timeout "${UNIT_TIMEOUT:-120}" "$program" > "$log" 2>&1
    status=$?
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
