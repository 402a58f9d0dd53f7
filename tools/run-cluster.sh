#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the tests on real processes. What fails is run once more, alone: on a
# busy machine a bound in time may be missed, and one stall of the disk makes
# each process miss one. A test that then passes is named as unsteady; one that
# fails again has failed. Most of the time they wait, so several run beside each
# other, each process with ports of its own (tools/ports.py): TEST_JOBS, 6 if
# not set.
#
#     tools/run-cluster.sh PYTEST-ARGUMENT...
set -u
jobs=${TEST_JOBS:-6}
log=$(mktemp)
cache=$(mktemp -d)
trap 'rm -rf "$log" "$cache"' EXIT
run()
{
    /usr/bin/python3 -m pytest -q -o cache_dir="$cache" "$@" 2>&1 | tee "$log"
    return "${PIPESTATUS[0]}"
}
count()
{
    grep -oE "[0-9]+ $1" "$log" | tail -1 | grep -oE '^[0-9]+' || echo 0
}

if run -n "$jobs" "$@" > "$cache/first"; then
    tail -3 "$cache/first"
    exit 0
fi
status=$?
passed=$(count passed)
failed=$(grep -oE '^(FAILED|ERROR) [^ ]+' "$log" | sort -u)
if [ -z "$failed" ] || [ "$(wc -l <<< "$failed")" -gt 12 ]; then
    cat "$cache/first"
    exit "$status"
fi
sed 's/ failed/ missed/g; s/ passed/ done/g' "$cache/first" | tail -n 120
printf 'once more, alone:\n%s\n' "$failed"
run --lf "$@" > "$cache/second"
status=$?
tail -n 60 "$cache/second" | grep -vE '^[0-9]+ (passed|failed)'
again=$(count passed)
left=$(count failed)
[ "$status" = 0 ] || [ "$left" != 0 ] || left=1
printf 'unsteady: %s: %s\n' "$again" "$(tr '\n' ' ' <<< "$failed")"
printf '%s passed, %s failed\n' $((passed + again)) "$left"
exit "$status"
