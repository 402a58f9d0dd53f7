#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Starts a temporary cluster of three nodes and measures it: cycles
# of acquire and release, hand-overs of one contended lock, idle sessions.
#
#     tools/bench.sh BUILD [SECONDS]      TLS=1: with TLS on all ports
set -eu
build=$1
seconds=${2:-5}
dir=$(mktemp -d)
port=$((12000 + RANDOM % 18000)) # Below those of outgoing connections.
stop()
{
    # shellcheck disable=SC2086
    kill -TERM $started 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$dir"
}
started=
trap stop EXIT
start_plain()
{
    "$build/hasp" dev --nodes 3 --dir "$dir" --port "$port" > "$dir/ready" &
    started=$!
    for _ in $(seq 200); do
        grep -q '^ready' "$dir/ready" && break
        kill -0 "$started" 2>/dev/null || exit 1
        sleep 0.1
    done
    endpoints=$(sed -n 's/^ready endpoints=\([^ ]*\).*/\1/p' "$dir/ready")
    pids=$(sed -n 's/.*pids=\([^ ]*\).*/\1/p' "$dir/ready")
    security=
}
start_tls()
{
    "$build/hasp" cert ca -q --cluster bench --dir "$dir/certs"
    for i in 1 2 3; do
        "$build/hasp" cert node -q $i=127.0.0.1 --dir "$dir/certs"
        at=$((port + 10 * i))
        printf 'member = %s 127.0.0.1:%s 127.0.0.1:%s\n' \
            $i $((at + 1)) $at >> "$dir/members"
        endpoints=${endpoints:-}${endpoints:+,}127.0.0.1:$at
    done
    for i in 1 2 3; do
        { printf '[cluster]\nname = bench\n'; cat "$dir/members"; } \
            > "$dir/conf"
        "$build/haspd" --config "$dir/conf" --id $i --dir "$dir/n$i" \
            --listen-http off --tls "$dir/certs/node-$i" 2> "$dir/log$i" &
        started="$started $!"
    done
    pids=$(printf '%s' "${started# }" | tr ' ' ',')
    security="--tls $dir/certs"
    for _ in $(seq 200); do
        "$build/hasp" --tls "$dir/certs" -e "$endpoints" -t 1s health \
            > "$dir/ready" 2>&1 && break
        sleep 0.1
    done
}
if [ "${TLS:-0}" = 1 ]; then start_tls; else start_plain; fi
printf '%s, %s cores, three nodes and the clients on one machine\n' \
    "$(uname -sr)" "$(nproc)"
for clients in ${BENCH_CLIENTS:-1 16 64 256 1000}; do
    "$build/bench" cycle --endpoints "$endpoints" --pids "$pids" $security \
        --clients "$clients" --seconds "$seconds"
done
for clients in ${BENCH_SHARING-64 1000}; do
    "$build/bench" cycle --endpoints "$endpoints" --pids "$pids" $security \
        --clients "$clients" --connections 4 --seconds "$seconds"
done
for clients in ${BENCH_WAITERS-16 100}; do
    "$build/bench" handover --endpoints "$endpoints" --pids "$pids" $security \
        --clients "$clients" --seconds "$seconds"
done
"$build/bench" idle --endpoints "$endpoints" --pids "$pids" $security \
    --clients "${BENCH_IDLE:-1000}" --seconds "$seconds"
