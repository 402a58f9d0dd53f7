#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Starts a throw-away cluster of three nodes and prints what it can do: cycles
# of acquire and release, hand-overs of one contended lock, idle sessions.
#
#     tools/bench.sh BUILD [SECONDS]
set -eu
build=$1
seconds=${2:-5}
dir=$(mktemp -d)
port=$((12000 + RANDOM % 18000)) # Below those of outgoing connections.
"$build/hasp" dev --nodes 3 --dir "$dir" --port "$port" > "$dir/ready" &
dev=$!
stop()
{
    kill -TERM "$dev" 2>/dev/null || true
    wait "$dev" 2>/dev/null || true
    rm -rf "$dir"
}
trap stop EXIT
for _ in $(seq 200); do
    grep -q '^ready' "$dir/ready" && break
    kill -0 "$dev" 2>/dev/null || exit 1
    sleep 0.1
done
endpoints=$(sed -n 's/^ready endpoints=\([^ ]*\).*/\1/p' "$dir/ready")
pids=$(sed -n 's/.*pids=\([^ ]*\).*/\1/p' "$dir/ready")
printf '%s, %s cores, three nodes and the clients on one machine\n' \
    "$(uname -sr)" "$(nproc)"
for clients in ${BENCH_CLIENTS:-1 16 64 256 1000}; do
    "$build/bench" cycle --endpoints "$endpoints" --pids "$pids" \
        --clients "$clients" --seconds "$seconds"
done
for clients in ${BENCH_SHARING:-64 1000}; do
    "$build/bench" cycle --endpoints "$endpoints" --pids "$pids" \
        --clients "$clients" --connections 4 --seconds "$seconds"
done
for clients in ${BENCH_WAITERS:-16 100}; do
    "$build/bench" handover --endpoints "$endpoints" --pids "$pids" \
        --clients "$clients" --seconds "$seconds"
done
"$build/bench" idle --endpoints "$endpoints" --pids "$pids" \
    --clients "${BENCH_IDLE:-1000}" --seconds "$seconds"
