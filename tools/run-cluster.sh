#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the tests on real processes. Failed tests run once more, alone: on a
# busy machine a time limit can be missed, and one stall of the disk makes each
# process miss one or several. A test that then passes is reported as unsteady;
# one that fails again has failed, and so have those that are not done after
# five minutes. More than 40 failures are not a stall. Most of the time the
# tests wait, so several run beside each other, each process with its own ports
# (tools/ports.py): TEST_JOBS, 8 if not set. tests/cluster/shares.py shares them
# out.
#
# Their files are in memory if there is room and we can mount: on a disk that
# others share, flushes sometimes wait for seconds, and clients made for Redis
# do not retry. The memory is a file system in the tests' own mount namespace,
# so it is removed with them. The effects of a slow or broken disk are tested by
# slow_disk.c and its siblings. TEST_FOLDER=/var/tmp puts all files on a disk,
# below that folder.
#
#     tools/run-cluster.sh PYTEST-ARGUMENT...
set -u
jobs=${TEST_JOBS:-8}
log=$(mktemp)
cache=$(mktemp -d)
files=$(mktemp -d ${TEST_FOLDER:+-p "$TEST_FOLDER"})
memory=
bound=2h
trap 'rm -rf "$log" "$cache" "$files"' EXIT
# Runs a command with a file system in memory at $files.
in_memory()
{
    unshare --mount --propagation private bash -c \
        'mount -t tmpfs -o size=4g,mode=1777 hasp "$0" && exec "$@"' \
        "$files" "$@"
}
# Eight processes use less than 1 GiB of it.
if [ -z "${TEST_FOLDER:-}" ] &&
    [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -gt 6291456 ] &&
    in_memory true 2> "$log"; then
    memory=in_memory
fi
run()
{
    TMPDIR=$files $memory timeout --foreground "$bound" /usr/bin/python3 \
        -m pytest -q -o cache_dir="$cache" "$@" 2>&1 | tee "$log"
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
if [ -z "$failed" ] || [ "$(wc -l <<< "$failed")" -gt 40 ]; then
    cat "$cache/first"
    exit "$status"
fi
sed 's/ failed/ missed/g; s/ passed/ done/g' "$cache/first" | tail -n 120
printf 'once more, alone:\n%s\n' "$failed"
bound=5m
run --lf "$@" > "$cache/second"
status=$?
tail -n 60 "$cache/second" | grep -vE '^[0-9]+ (passed|failed)'
again=$(count passed)
left=$(count failed)
[ "$status" = 0 ] || [ "$left" != 0 ] || left=1
printf 'unsteady: %s: %s\n' "$again" "$(tr '\n' ' ' <<< "$failed")"
sed -nE 's/^E   /unsteady: /p' "$cache/first" | cut -c1-300 | head -n 20
printf '%s passed, %s failed\n' $((passed + again)) "$left"
exit "$status"
