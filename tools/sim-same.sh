#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A seed is one history in every build and every run, so whatever
# the simulator finds can be repeated. Compares the traces of two runs of one
# build, and of two builds.
#
# gcc makes build/check, clang build/asan. They evaluate operands in different
# orders, so no expression may draw two numbers (tools/draws.py).
#
#     tools/sim-same.sh BUILD BUILD      e.g. build/check build/asan
set -eu
seeds=(--seed 1 --seeds 6 --seconds 8 --jobs "$(nproc)")

trace()
{
    "$1/sim" "${seeds[@]}" | grep -oE 'trace [0-9a-f]{16}$'
}

first=$(trace "$1")
for build in "$1" "$2"; do
    other=$(trace "$build")
    if [ "$other" != "$first" ]; then
        printf '%s and %s differ: %s, %s\n  repeat: sim %s\n' "$1" "$build" \
            "$first" "$other" "${seeds[*]}"
        exit 1
    fi
done
printf 'sim: one seed, one %s\n' "$first"
